"""What `buddy bench llm` counts as the work of a bundle, from its manifest alone."""

from __future__ import annotations

from typing import Any

from buddy.bench.llm import _cases, weight_dtype


def weight(dtype: str, *shape: int, **more: Any) -> dict[str, Any]:
    return {"name": "w", "kind": "weight", "dtype": dtype, "shape": list(shape), **more}


def record(*weights: dict[str, Any]) -> dict[str, Any]:
    logits = {"name": "logits", "kind": "output", "dtype": "f32", "shape": [1, 100]}
    return {"entries": [{"arguments": [*weights, logits]}]}


def test_a_tied_embedding_is_read_once_and_counts_for_the_last_token() -> None:
    prefill, decode = _cases(record(weight("f32", 100, 8), weight("f32", 6, 8)), 10, 3)
    assert decode.flops == 2 * (800 + 48)
    assert prefill.flops == 2 * (800 + 10 * 48)
    assert prefill.bytes == decode.bytes == 4 * (800 + 48)


def test_an_embedding_of_its_own_is_not_read_whole() -> None:
    tensors = [weight("bf16", 100, 8), weight("bf16", 6, 8), weight("bf16", 100, 8)]
    _, decode = _cases(record(*tensors), 10, 3)
    assert decode.flops == 2 * (800 + 48)
    assert decode.bytes == 2 * (800 + 48)
    assert decode.dtype == "bf16"


def test_a_packed_weight_has_its_own_shape_and_its_stored_bytes() -> None:
    packed = weight("i8", 3, 2, 160, packing={"n": 48, "k": 64})
    made = record(weight("f32", 100, 8), packed)
    _, decode = _cases(made, 10, 3)
    assert decode.flops == 2 * (800 + 48 * 64)
    assert decode.bytes == 4 * 800 + 960
    assert weight_dtype(made) == "f32"
