"""LLaMAs from GGUF files.

llama.cpp's converter stores the rows of q and k so that rotary pairs lie side by side (2i, 2i + 1);
the model here pairs i with i + head_dim / 2, as Hugging Face does, so the order is undone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from buddy.aot import blocks
from buddy.aot.blocks import FORMATS, Blocks
from buddy.aot.errors import BundleError
from buddy.aot.export import ENTRY, Traced
from buddy.aot.gguf_file import GGUFFile
from buddy.aot.llama_source import check_tensors, dtype_of, make_fake, token_ids, trace
from buddy.aot.quantized import KEEP, block_formats
from buddy.aot.source import Description
from buddy.models.llama import LlamaConfig, RopeConfig

_LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_GLOBAL_NAMES = {"embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output"}
_ROPE_FREQS = "rope_freqs.weight"
# Keys of the architecture that are read below or do not bear on the result.
_KNOWN_KEYS = {
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.layer_norm_rms_epsilon",
    "attention.value_length",
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.finetuned",
    "rope.scaling.type",
    "vocab_size",
}


class GGUFSource:
    """A GGUF file of architecture `llama`."""

    def __init__(self, path: Path, dtype: str) -> None:
        self._file = GGUFFile(path)
        self._path = path
        self._dtype = dtype
        tensors = self._file.tensors
        config = _read_config(self._file, dtype_of(dtype))
        self.config = config
        self.model = make_fake(path, config, len(tensors))
        self._names = {
            name: _stored_name(name) for name in self.model.state_dict() if name != "rope_inv_freq"
        }
        shapes = {name: tensor.shape for name, tensor in tensors.items()}
        check_tensors(path, self.model, shapes, self._names, [_ROPE_FREQS])
        metadata = self._file.metadata
        bos, eos, eot = (
            token_ids(path, key, metadata.get(key), config.vocab)
            for key in (f"tokenizer.ggml.{kind}_token_id" for kind in ("bos", "eos", "eot"))
        )
        self.description = Description(
            name=str(metadata.get("general.name", path.stem)),
            architecture="llama",
            context=config.context,
            eos_tokens=list(dict.fromkeys([*eos, *eot])),
            bos_token=bos[0] if bos else None,
            origin={"format": "gguf", "file": path.name},
        )

    def trace(self) -> dict[str, Traced]:
        return {ENTRY: trace(self.model)}

    def load(self, name: str) -> torch.Tensor:
        if name == "rope_inv_freq":
            return self._inverse_frequencies()
        values = torch.from_numpy(self._file.dequantize(self._names[name]))
        heads = self._permuted_heads(name)
        if heads:
            values = _unpermute(values, heads)
        return values.to(self.config.dtype)

    def block_formats(self, program: ExportedProgram) -> dict[str, str]:
        """With `keep`, the file's own formats; those the kernels do not know become q8_0."""
        if self._dtype in FORMATS:
            return block_formats(program, self._dtype)
        if self._dtype != KEEP:
            return {}
        formats = {}
        for name in block_formats(program, "q8_0"):
            kind = self._file.kind_name(self._names[name]).lower()
            if kind not in ("f32", "f16", "bf16", "f64"):
                formats[name] = kind if kind in FORMATS else "q8_0"
        return formats

    def load_blocks(self, name: str, format: str) -> Blocks:
        stored = self._names[name]
        if self._file.kind_name(stored).lower() != format:
            return blocks.quantize(self.load(name).numpy(), format)
        found = blocks.read(format, self._file.raw(stored), self._file.tensors[stored].shape)
        heads = self._permuted_heads(name)
        if heads:
            rows = torch.arange(found.elements.shape[0])
            found = found.take_rows(_unpermute(rows, heads).numpy())
        return found

    def _permuted_heads(self, name: str) -> int:
        """Heads of a weight whose rows llama.cpp's converter permuted, or 0."""
        heads = {"q_proj": self.config.heads, "k_proj": self.config.kv_heads}
        return heads.get(name.split(".")[-2], 0) if "." in name else 0

    def _inverse_frequencies(self) -> torch.Tensor:
        """The file may divide each frequency (how llama.cpp stores LLaMA 3.1's scaling)."""
        frequencies = self.config.rope.inverse_frequencies(self.config.head_dim)
        if _ROPE_FREQS not in self._file.tensors:
            return frequencies
        factors = torch.from_numpy(self._file.dequantize(_ROPE_FREQS))
        if factors.shape != frequencies.shape:
            raise BundleError(
                f"{self._path}: tensor '{_ROPE_FREQS}' has shape {list(factors.shape)}, "
                f"expected {list(frequencies.shape)}"
            )
        return frequencies / factors

    def write_tokenizer(self, directory: Path) -> list[str]:
        if not self._file.metadata.get("tokenizer.ggml.tokens"):
            raise BundleError(f"{self._path}: the file holds no tokenizer")
        self._file.write_metadata(directory / "tokenizer.gguf")
        return ["tokenizer.gguf"]


def _stored_name(name: str) -> str:
    """The file's name of a parameter of models.llama.Llama."""
    module, _, kind = name.rpartition(".")
    if module in _GLOBAL_NAMES:
        return f"{_GLOBAL_NAMES[module]}.{kind}"
    _, layer, part = module.split(".", 2)  # layers.N.part
    return f"blk.{layer}.{_LAYER_NAMES[part]}.{kind}"


def _unpermute(values: torch.Tensor, heads: int) -> torch.Tensor:
    """Bring the rows of q or k (or their biases) from paired to half-split order."""
    pairs = values.reshape(heads, values.shape[0] // heads // 2, 2, *values.shape[1:])
    return pairs.transpose(1, 2).reshape(values.shape)


def _read_config(file: GGUFFile, dtype: torch.dtype) -> LlamaConfig:
    architecture = file.metadata.get("general.architecture")
    if architecture != "llama":
        raise BundleError(
            f"{file.path}: architecture '{architecture}' is not supported; 'llama' is"
        )
    prefix = "llama."

    def get(key: str, kind: type, default: Any = None) -> Any:
        value = file.metadata.get(prefix + key, default)
        if value is None:
            raise BundleError(f"{file.path}: key '{prefix + key}' is missing")
        if not isinstance(value, kind) or isinstance(value, bool):
            raise BundleError(f"{file.path}: key '{prefix + key}' is {value!r:.40}")
        return value

    unknown = [
        key
        for key, value in file.metadata.items()
        if key.startswith(prefix) and key.removeprefix(prefix) not in _KNOWN_KEYS and value
    ]
    if unknown:
        raise BundleError(f"{file.path}: keys not supported: {', '.join(sorted(unknown))}")
    heads, width = get("attention.head_count", int), get("embedding_length", int)
    if heads < 1:
        raise BundleError(f"{file.path}: key 'llama.attention.head_count' is {heads}")
    head_dim = get("attention.key_length", int, width // heads)
    for key in ("attention.value_length", "rope.dimension_count"):
        if get(key, int, head_dim) != head_dim:
            raise BundleError(
                f"{file.path}: key 'llama.{key}' is {get(key, int)}, only the head dimension "
                f"{head_dim} is supported"
            )
    embeddings = file.tensors.get("token_embd.weight")
    if embeddings is None or len(embeddings.shape) != 2:
        raise BundleError(f"{file.path}: no matrix 'token_embd.weight'; is the file complete?")
    try:
        return LlamaConfig(
            vocab=embeddings.shape[0],
            width=width,
            hidden=get("feed_forward_length", int),
            layers=get("block_count", int),
            heads=heads,
            kv_heads=get("attention.head_count_kv", int, heads),
            head_dim=head_dim,
            context=get("context_length", int),
            norm_eps=get("attention.layer_norm_rms_epsilon", float),
            rope=_read_rope(file),
            tied="output.weight" not in file.tensors,
            attention_bias="blk.0.attn_q.bias" in file.tensors,
            mlp_bias="blk.0.ffn_gate.bias" in file.tensors,
            dtype=dtype,
        )
    except ValueError as error:
        raise BundleError(f"{file.path}: {error}") from None


def _read_rope(file: GGUFFile) -> RopeConfig:
    metadata = file.metadata
    theta = metadata.get("llama.rope.freq_base", 10000.0)
    kind = metadata.get("llama.rope.scaling.type", "none")
    if kind == "none":
        return RopeConfig(theta)
    if kind == "linear":
        return RopeConfig(theta, "linear", metadata.get("llama.rope.scaling.factor", 1.0))
    raise BundleError(
        f"{file.path}: rope scaling '{kind}' is not supported; 'none' and 'linear' are"
    )
