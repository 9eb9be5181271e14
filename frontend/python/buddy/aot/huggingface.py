"""LLaMAs from Hugging Face directories: config.json, safetensors (whole or sharded), a tokenizer.

Every key of config.json is either used, known not to bear on inference, or refused by name.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch.export import ExportedProgram

from buddy.aot import blocks, tokenizer_files
from buddy.aot.blocks import FORMATS, Blocks
from buddy.aot.errors import BundleError
from buddy.aot.export import ENTRY, Traced
from buddy.aot.json_file import read_object
from buddy.aot.llama_source import check_tensors, dtype_of, make_fake, token_ids, trace
from buddy.aot.quantized import KEEP, block_formats
from buddy.aot.source import Description
from buddy.models.llama import LlamaConfig, RopeConfig

_USED_KEYS = {
    "architectures", "attention_bias", "bos_token_id", "eos_token_id", "head_dim", "hidden_act",
    "hidden_size", "intermediate_size", "max_position_embeddings", "mlp_bias", "model_type",
    "num_attention_heads", "num_hidden_layers", "num_key_value_heads", "rms_norm_eps",
    "rope_parameters", "rope_scaling", "rope_theta", "tie_word_embeddings", "vocab_size",
}  # fmt: skip
# They describe training, the checkpoint or the generation loop, not the function.
_NEUTRAL_KEYS = {
    "_name_or_path", "attention_dropout", "chunk_size_feed_forward", "dtype", "id2label",
    "initializer_range", "is_llama_config", "label2id", "pad_token_id", "problem_type",
    "return_dict", "torch_dtype", "transformers.js_config", "transformers_version",
    "unsloth_fixed", "use_cache",
}  # fmt: skip
_FLOATS = ("F32", "F16", "BF16", "F64")
_NEUTRAL_VALUES = {"pretraining_tp": 1, "partial_rotary_factor": 1.0}
_ROPE_KEYS = {
    "default": set(),
    "linear": {"factor"},
    "llama3": {
        "factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings",
    },
}  # fmt: skip


class HuggingFaceSource:
    """A directory as `save_pretrained` writes it, of class LlamaForCausalLM."""

    def __init__(self, path: Path, dtype: str) -> None:
        if dtype == KEEP:
            raise BundleError(f"{path}: --dtype keep is for GGUF files; choose another")
        self._path, self._dtype = path, dtype
        keys = read_object(path / "config.json")
        config = _read_config(path / "config.json", keys, dtype_of(dtype))
        self.config = config
        self._tensors = _open_tensors(path)
        self.model = make_fake(path, config, len(self._tensors))
        state = self.model.state_dict()
        self._names = {
            name: name if name == "lm_head.weight" else f"model.{name}"
            for name in state
            if name != "rope_inv_freq"
        }
        stored = {name: file.get_slice(name) for name, file in self._tensors.items()}
        shapes = {name: tuple(tensor.get_shape()) for name, tensor in stored.items()}
        # Old checkpoints store what the configuration says already.
        ignored = [name for name in shapes if name.endswith("rotary_emb.inv_freq")]
        if config.tied:
            ignored.append("lm_head.weight")
        check_tensors(path, self.model, shapes, self._names, ignored)
        for name in self._names.values():
            if stored[name].get_dtype() not in _FLOATS:
                raise BundleError(
                    f"{path}: tensor '{name}' has dtype {stored[name].get_dtype()}; "
                    f"{', '.join(_FLOATS)} are supported"
                )
        generation = path / "generation_config.json"
        eos = (read_object(generation) if os.path.lexists(generation) else {}).get("eos_token_id")
        eos = keys.get("eos_token_id") if eos is None else eos
        bos = token_ids(path, "bos_token_id", keys.get("bos_token_id"), config.vocab)
        self.description = Description(
            name=path.resolve().name,
            architecture="llama",
            context=config.context,
            eos_tokens=token_ids(path, "eos_token_id", eos, config.vocab),
            bos_token=bos[0] if bos else None,
            origin={"format": "huggingface", "directory": path.resolve().name},
        )

    def trace(self) -> dict[str, Traced]:
        return {ENTRY: trace(self.model)}

    def load(self, name: str) -> torch.Tensor:
        if name == "rope_inv_freq":
            return self.config.rope.inverse_frequencies(self.config.head_dim)
        stored = self._names[name]
        try:
            return self._tensors[stored].get_tensor(stored).to(self.config.dtype)
        except SafetensorError as error:
            raise BundleError(f"{self._path}: tensor '{stored}': {error}") from None

    def block_formats(self, program: ExportedProgram) -> dict[str, str]:
        return block_formats(program, self._dtype) if self._dtype in FORMATS else {}

    def load_blocks(self, name: str, format: str) -> Blocks:
        return blocks.quantize(self.load(name).numpy(), format)

    def write_tokenizer(self, directory: Path) -> list[str]:
        return tokenizer_files.copy(self._path, directory)


def _open_tensors(path: Path) -> dict[str, Any]:
    """Map each tensor's name to the open file that holds it."""
    whole, index = path / "model.safetensors", path / "model.safetensors.index.json"
    if whole.exists():
        file = _open(whole)
        return {name: file for name in file.keys()}
    if not index.exists():
        raise BundleError(f"{path}: no model.safetensors and no {index.name}")
    placed = read_object(index).get("weight_map")
    if not isinstance(placed, dict) or not all(isinstance(v, str) for v in placed.values()):
        raise BundleError(f"{index}: expected a 'weight_map' of tensor names to file names")
    outside = [name for name in placed.values() if Path(name).name != name]
    if outside:
        raise BundleError(f"{index}: '{outside[0]}' is not a file name in the same directory")
    files = {name: _open(path / name) for name in sorted(set(placed.values()))}
    names = {name: set(file.keys()) for name, file in files.items()}
    for tensor, name in placed.items():
        if tensor not in names[name]:
            raise BundleError(f"{path / name}: tensor '{tensor}' is missing; see {index.name}")
    return {tensor: files[name] for tensor, name in placed.items()}


def _open(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt")
    except OSError as error:
        raise BundleError(f"{path}: {error.strerror or error}") from None
    except SafetensorError as error:
        raise BundleError(f"{path}: damaged safetensors file: {error}") from None


def _read_config(path: Path, keys: dict[str, Any], dtype: torch.dtype) -> LlamaConfig:
    architectures = keys.get("architectures") or []
    if keys.get("model_type", "llama") != "llama" or architectures != ["LlamaForCausalLM"]:
        raise BundleError(
            f"{path}: architecture {architectures or keys.get('model_type')} is not supported; "
            "['LlamaForCausalLM'] is"
        )
    refused = [
        key
        for key, value in keys.items()
        if key not in _USED_KEYS | _NEUTRAL_KEYS
        and value not in (None, False, [], {}, _NEUTRAL_VALUES.get(key))
    ]
    if refused:
        raise BundleError(f"{path}: keys not supported: {', '.join(sorted(refused))}")
    if keys.get("hidden_act", "silu") != "silu":
        raise BundleError(f"{path}: hidden_act '{keys['hidden_act']}' is not supported; 'silu' is")

    def get(key: str, kind: type | tuple[type, ...], default: Any = None) -> Any:
        value = keys.get(key)
        value = default if value is None else value
        if value is None:
            raise BundleError(f"{path}: key '{key}' is missing")
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise BundleError(f"{path}: key '{key}' is {value!r:.40}")
        return value

    heads, width = get("num_attention_heads", int), get("hidden_size", int)
    if heads < 1:
        raise BundleError(f"{path}: key 'num_attention_heads' is {heads}")
    context = get("max_position_embeddings", int, 2048)
    try:
        return LlamaConfig(
            vocab=get("vocab_size", int),
            width=width,
            hidden=get("intermediate_size", int),
            layers=get("num_hidden_layers", int),
            heads=heads,
            kv_heads=get("num_key_value_heads", int, heads),
            head_dim=get("head_dim", int, width // heads),
            context=context,
            norm_eps=get("rms_norm_eps", float, 1e-6),
            rope=_read_rope(path, keys, context),
            tied=get("tie_word_embeddings", bool, False),
            attention_bias=get("attention_bias", bool, False),
            mlp_bias=get("mlp_bias", bool, False),
            dtype=dtype,
        )
    except ValueError as error:
        raise BundleError(f"{path}: {error}") from None


def _read_rope(path: Path, keys: dict[str, Any], context: int) -> RopeConfig:
    """`rope_parameters` (transformers 5), or `rope_theta` and `rope_scaling` (before)."""
    rope = keys.get("rope_parameters") or keys.get("rope_scaling") or {}
    if not isinstance(rope, dict):
        raise BundleError(f"{path}: the rope parameters are no JSON object")
    rope = dict(rope)
    thetas = (rope.pop("rope_theta", None), keys.get("rope_theta"), 10000.0)
    theta = next(value for value in thetas if value is not None)
    old_kind = rope.pop("type", None)
    kind = rope.pop("rope_type", old_kind) or "default"
    if not isinstance(kind, str) or kind not in _ROPE_KEYS:
        raise BundleError(
            f"{path}: rope type '{kind}' is not supported; {', '.join(_ROPE_KEYS)} are"
        )
    if rope.get("partial_rotary_factor") == 1.0:
        del rope["partial_rotary_factor"]
    for key in _ROPE_KEYS[kind]:
        if not isinstance(rope.get(key), (int, float)):
            raise BundleError(f"{path}: rope type '{kind}' needs a number '{key}'")
    if kind == "default":  # what was checked to be unused may still stand there
        rope.pop("factor", None)
    unknown = set(rope) - _ROPE_KEYS[kind]
    if unknown:
        raise BundleError(f"{path}: rope keys not supported: {', '.join(sorted(unknown))}")
    return RopeConfig(
        theta=theta,
        kind=kind,
        factor=rope.get("factor", 1.0),
        low_freq_factor=rope.get("low_freq_factor", 1.0),
        high_freq_factor=rope.get("high_freq_factor", 4.0),
        original_context=rope.get("original_max_position_embeddings", context),
    )
