"""Attention compiled for other machines gives NumPy's numbers under emulation."""

from __future__ import annotations

from pathlib import Path

import cross
import numpy as np
import pytest
from cross import NUMPY, bf16, wide

HEADS, KV_HEADS, DEPTH, WIDTH = 6, 2, 24, 17
# Queries and keys.
SIZES = [(1, 1), (1, 70), (5, 33), (40, 64), (3, 1100), (0, 4), (4, 0), (9, 5)]
# Of one rounding to the type, and of sums.
TOLERANCE = {"f32": 2e-5, "f64": 1e-12, "f16": 1e-3, "bf16": 8e-3}


def module(dtype: str) -> str:
    """Causal attention of grouped heads, keys before the queries being seen by all of them."""
    shapes = {
        "q": ("input", f"{HEADS}x?x{DEPTH}", f'["{HEADS}", "t", "{DEPTH}"]'),
        "k": ("input", f"{KV_HEADS}x?x{DEPTH}", f'["{KV_HEADS}", "s", "{DEPTH}"]'),
        "v": ("input", f"{KV_HEADS}x?x{WIDTH}", f'["{KV_HEADS}", "s", "{WIDTH}"]'),
        "o": ("output", f"{HEADS}x?x{WIDTH}", f'["{HEADS}", "t", "{WIDTH}"]'),
    }
    arguments = ", ".join(
        f'%{name}m: memref<{shape}x{dtype}> {{buddy.kind = "{kind}", buddy.name = "{name}",'
        f" buddy.shape = {symbols}}}"
        for name, (kind, shape, symbols) in shapes.items()
    )
    tensors = {name: f"tensor<{shape}x{dtype}>" for name, (_, shape, _) in shapes.items()}
    views = "\n".join(
        f"%{name} = bufferization.to_tensor %{name}m restrict"
        f" : memref<{shapes[name][1]}x{dtype}> to {tensors[name]}"
        for name in "qkv"
    )
    return f"""
func.func @{dtype}({arguments}) attributes {{buddy.entry}} {{
  {views}
  %r = buddy.attention %q, %k, %v {{causal = "bottom_right", scale = 0.25 : f64}}
    : ({tensors["q"]}, {tensors["k"]}, {tensors["v"]}) -> {tensors["o"]}
  bufferization.materialize_in_destination %r in restrict writable %om
    : ({tensors["o"]}, memref<{shapes["o"][1]}x{dtype}>) -> ()
  return
}}"""


def expected(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    group = HEADS // KV_HEADS
    k, v = (np.repeat(x.astype(np.float64), group, 0) for x in (k, v))
    scores = np.einsum("htd,hsd->hts", q.astype(np.float64), k) * 0.25
    t, s = scores.shape[1:]
    seen = np.arange(s)[None] <= np.arange(t)[:, None] + s - t
    weights = np.where(seen, np.exp(scores - scores.max(-1, initial=-1e4, keepdims=True)), 0.0)
    total = weights.sum(-1, keepdims=True)
    return np.einsum("hts,hse->hte", weights / np.where(total == 0, 1, total), v)


@pytest.fixture(scope="module")
def library(machine: cross.Machine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = "\n".join(module(dtype) for dtype in TOLERANCE)
    return machine.compile_library(source, tmp_path_factory.mktemp("attention"))


def test_attention_of_any_size(machine: cross.Machine, caller: Path, library: Path) -> None:
    for cpu in machine.cpus:
        check(machine, caller, library, cpu)


def check(machine: cross.Machine, caller: Path, library: Path, cpu: str) -> None:
    random = np.random.default_rng(2)
    calls = []
    for dtype in TOLERANCE:
        for number, (t, s) in enumerate(SIZES):
            arrays = [
                random.standard_normal(shape).astype(np.float32)
                for shape in ((HEADS, t, DEPTH), (KV_HEADS, s, DEPTH), (KV_HEADS, s, WIDTH))
            ]
            arrays = [bf16(x) if dtype == "bf16" else x.astype(NUMPY[dtype]) for x in arrays]
            out = np.full((HEADS, t, WIDTH), 7, arrays[0].dtype)
            calls.append(cross.Call(dtype, [*arrays, out], threads=1 + number % 2))
    machine.run_calls(caller, library, cpu, calls)
    for call in calls:
        q, k, v = (wide(x) for x in call.arguments[:3])
        what = f"{call.entry}, {q.shape[1]} queries, {k.shape[1]} keys, {cpu}"
        assert call.code == 0, f"{what}: {call.message}"
        tolerance = TOLERANCE[call.entry]
        np.testing.assert_allclose(
            wide(call.results[3]), expected(q, k, v), tolerance, tolerance, err_msg=what
        )
