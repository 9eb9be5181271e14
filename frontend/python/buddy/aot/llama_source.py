"""What GGUF files and Hugging Face directories of LLaMAs have in common."""

from __future__ import annotations

import copy
import dataclasses
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from buddy.aot.blocks import FORMATS
from buddy.aot.errors import BundleError
from buddy.aot.export import Traced, export, ignore_torchs_own_warnings
from buddy.aot.quantized import KEEP
from buddy.aot.repeat_layers import TRACED, NotRepeated, repeat_layers
from buddy.importer import decompositions
from buddy.models.llama import Llama, LlamaConfig, dynamic_shapes, example_inputs

# What the model computes in, caches included; around quantised weights that is f32.
_DTYPES = {
    "f32": torch.float32,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    **dict.fromkeys([*FORMATS, KEEP], torch.float32),
}
_NO_TOKEN = (-1, 0xFFFFFFFF)


def dtype_of(name: str) -> torch.dtype:
    """The torch dtype that --dtype names."""
    if name not in _DTYPES:
        raise BundleError(f"dtype '{name}' is not supported; choose from {', '.join(_DTYPES)}")
    return _DTYPES[name]


def make_fake(path: Path, config: LlamaConfig, stored: int) -> Llama:
    """The model on FakeTensors, which know shapes and dtypes but take no memory.

    `stored` is the number of tensors in the file: damage may ask for any number of layers, each of
    which takes time.
    """
    if config.layers > stored:
        raise BundleError(
            f"{path}: {config.layers} layers for {stored} tensors; is the file complete?"
        )
    with FakeTensorMode():
        return Llama(config).eval().requires_grad_(False)


def trace(model: Llama) -> Traced:
    """Export `Llama.forward` with tokens, position and capacity dynamic."""
    layers = model.config.layers
    if layers <= TRACED:
        return _trace(model)
    # As many as it takes to know all.
    traced = _trace(_shortened(model))
    with warnings.catch_warnings():
        ignore_torchs_own_warnings()
        program = traced.program.run_decompositions(decompositions())
    try:
        repeat_layers(program, "layers", layers)
    except NotRepeated:
        return _trace(model)
    return dataclasses.replace(traced, program=program, decomposed=True)


def _shortened(model: Llama) -> Llama:
    """The model with its first layers only, made of the same tensors."""
    short = copy.copy(model)
    short.config = dataclasses.replace(model.config, layers=TRACED)
    short._modules = {**model._modules, "layers": model.layers[:TRACED]}
    return short


def _trace(model: Llama) -> Traced:
    weight = model.embed_tokens.weight
    assert isinstance(weight, FakeTensor)
    with weight.fake_mode:
        inputs = example_inputs(model.config)
    return export(model, inputs, dynamic_shapes(model.config))


def check_tensors(
    path: Path,
    model: Llama,
    stored: Mapping[str, tuple[int, ...]],
    stored_names: Mapping[str, str],
    ignored: Iterable[str],
) -> None:
    """Check that the file has the model's tensors in their shapes, and no other.

    `stored_names` maps the model's names to the file's, for all that the file must bring.
    """
    state = model.state_dict()
    missing = [name for name in stored_names.values() if name not in stored]
    if missing:
        raise BundleError(f"{path}: {_some(missing)} missing; is the file complete?")
    unknown = sorted(set(stored) - set(stored_names.values()) - set(ignored))
    if unknown:
        raise BundleError(f"{path}: {_some(unknown)} not known to the LLaMA architecture")
    for name, stored_name in stored_names.items():
        expected, found = tuple(state[name].shape), tuple(stored[stored_name])
        if expected != found:
            raise BundleError(
                f"{path}: tensor '{stored_name}' has shape {list(found)}, the configuration "
                f"asks for {list(expected)}"
            )


def token_ids(path: Path, key: str, value: object, vocab: int) -> list[int]:
    """The ids that a key names: a whole number, a list of such, or None; -1 (also unsigned) is
    none."""
    ids: list[int] = []
    for token in value if isinstance(value, list) else [] if value is None else [value]:
        if isinstance(token, bool) or not isinstance(token, int):
            raise BundleError(f"{path}: key '{key}' is {value!r:.40}, expected token ids")
        if not 0 <= token < vocab and token not in _NO_TOKEN:
            raise BundleError(f"{path}: key '{key}' is {value!r:.40}, the vocabulary has {vocab}")
        if token not in _NO_TOKEN:
            ids.append(token)
    return ids


def _some(names: list[str]) -> str:
    """The first names of a list, with a verb that fits: 'tensors a, b and 7 more are'."""
    if len(names) == 1:
        return f"tensor '{names[0]}' is"
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"tensors {', '.join(repr(name) for name in names[:3])}{more} are"
