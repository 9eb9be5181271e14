"""Code for a named target gives the numbers that code for this machine gives.

The generators choose by a target's registers and features: with half as many registers, half as
long, and no bytes that are multiplied by an instruction, x86-64-v3 is quite another program.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))

import test_attention as attention
import test_contractions as contractions
import test_quantized as quantized
from buddy.aot import blocks
from calling import Context, Library, compile_module, needs_tools

pytestmark = needs_tools

_buddy = pytest.importorskip("_buddy")


@pytest.fixture(params=["x86-64-v3"])
def target(request: pytest.FixtureRequest) -> str:
    if lacking := _buddy.host_lacks(request.param):
        pytest.skip(f"this machine lacks {', '.join(lacking)}")
    return request.param


def test_contractions(target: str, tmp_path: Path) -> None:
    halves = (torch.bfloat16, torch.float16)
    cases = [
        contractions.Case(maps, (dtype,) * 3)
        for dtype in (torch.float32, torch.float64, *halves, torch.int32)
        for maps in (*contractions.TRANSPOSES[:4], contractions.OTHERS[4], contractions.OTHERS[9])
    ]
    library = contractions.Library(tmp_path, cases, target)
    generator = random.Random(11)
    for i, case in enumerate(cases):
        for round_ in range(12):
            sizes = contractions.sizes_of(case, (0, 1, 2, 3, 17, 33, 70, 300), generator)
            library.check(i, sizes, threads=1 + round_ % 2)


def test_attention(target: str, tmp_path: Path) -> None:
    dtypes = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
    cases = [attention.Case(dtype=dtype, causal="bottom_right") for dtype in dtypes]
    cases.append(attention.Case(static={"T": 1, "D": 64, "E": 64}, heads=(9, 3)))
    cases.append(attention.Case(mask="TS", mask_dtype=torch.float32))
    compiled = attention.Cases(tmp_path, cases, target)
    for i in range(len(cases)):
        for t, s in ((1, 5), (1, 1100), (9, 64), (40, 333), (3, 0)):
            compiled.check(i, {"T": t, "S": s}, threads=2)


@pytest.mark.parametrize("form", quantized.FORMATS)
def test_quantised_weights(target: str, form: str, tmp_path: Path) -> None:
    shapes = [(64, 64), (33, 96), (100, 320), (1, 32)]
    source = "\n".join(quantized.entry(f"f_{n}_{k}", n, k, form) for n, k in shapes)
    module = _buddy.Module(source.encode())
    module.pipeline(f"target={target} stop-after=graph")
    packings = module.packings()
    compiled = Library(compile_module(source, tmp_path, target=target))
    rng = np.random.default_rng(3)
    for n, k in shapes:
        weight = blocks.quantize(rng.standard_normal((n, k)).astype(np.float32), form)
        packed = blocks.pack(weight, packings[f"f_{n}_{k}"])
        for m in (1, 2, 7, 13, 40):
            x = rng.standard_normal((m, k)).astype(np.float32)
            y, e = np.full((m, n), np.nan, np.float32), np.full(n, np.nan, np.float32)
            assert compiled.run(f"f_{n}_{k}", Context(2), x, packed, y, e) == 0
            want, size = quantized.expected(x, weight)
            assert (np.abs(y - want) <= 3e-6 * size + 1e-12).all(), (m, n, k)
            np.testing.assert_array_equal(e, weight.dequantize()[np.arange(n), np.arange(n) % k])


ROWS = """
func.func @NAME(
    %x: memref<?x?xf32> {buddy.kind = "input", buddy.name = "x", buddy.shape = ["m", "n"]},
    %w: memref<?xf32> {buddy.kind = "input", buddy.name = "w", buddy.shape = ["n"]},
    %y: memref<?x?xf32> {buddy.kind = "output", buddy.name = "y", buddy.shape = ["m", "n"]})
    attributes {buddy.entry} {
  %t = bufferization.to_tensor %x restrict : memref<?x?xf32> to tensor<?x?xf32>
  %v = bufferization.to_tensor %w restrict : memref<?xf32> to tensor<?xf32>
  %r = OP
  bufferization.materialize_in_destination %r in restrict writable %y
    : (tensor<?x?xf32>, memref<?x?xf32>) -> ()
  return
}
"""
SOFTMAX = "buddy.softmax %t {dim = DIM : i64} : tensor<?x?xf32>"
NORM = (
    "buddy.rms_norm %t, %v {dims = 1 : i64, eps = 1.0e-5 : f64}"
    " : (tensor<?x?xf32>, tensor<?xf32>) -> tensor<?x?xf32>"
)


def test_softmax_and_norms(target: str, tmp_path: Path) -> None:
    entries = {
        "softmax0": (SOFTMAX.replace("DIM", "0"), lambda x, w: torch.softmax(x, 0)),
        "softmax1": (SOFTMAX.replace("DIM", "1"), lambda x, w: torch.softmax(x, 1)),
        "norm": (NORM, lambda x, w: torch.rms_norm(x, w.shape, w, 1e-5)),
    }
    source = "".join(
        ROWS.replace("NAME", name).replace("OP", op) for name, (op, _) in entries.items()
    )
    library = Library(compile_module(source, tmp_path, target=target))
    torch.manual_seed(0)
    for name, (_, function) in entries.items():
        for m, n in ((1, 1), (3, 7), (5, 33), (40, 131), (2, 1000), (0, 5)):
            x, w = torch.randn(m, n) * 3, torch.randn(n)
            y = torch.full((m, n), torch.nan)
            assert library.run(name, Context(2), x.numpy(), w.numpy(), y.numpy()) == 0
            expected = function(x.double(), w.double())
            torch.testing.assert_close(y.double(), expected, rtol=1e-5, atol=1e-6)
