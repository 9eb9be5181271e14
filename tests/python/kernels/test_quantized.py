"""Numbers of products with packed quantised weights against their definition in float64."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from buddy.aot import blocks

sys.path.insert(0, str(Path(__file__).resolve().parent))

from calling import Context, Library, compile_module, needs_tools

pytestmark = needs_tools

_buddy = pytest.importorskip("_buddy")

# (rows of the weight, columns): whole panels, tails, one, none, many blocks.
SHAPES = [(64, 64), (1, 32), (33, 96), (31, 32), (100, 320), (0, 64), (257, 128)]
ROWS = [1, 2, 3, 7, 8, 13, 64, 0]
FORMATS = list(blocks.FORMATS)


def entry(name: str, n: int, k: int, form: str, element: str = "f32") -> str:
    """`y = x wᵀ`, and `e[i] = w[i, i mod k]` by element reads."""
    return f"""
  func.func @{name}(%x: memref<?x{k}x{element}> {{buddy.kind = "input", buddy.name = "x"}},
      %w: memref<{n}x{k}xf32> {{buddy.kind = "weight", buddy.name = "{name}",
                               buddy.format = "{form}"}},
      %y: memref<?x{n}xf32> {{buddy.kind = "output", buddy.name = "y"}},
      %e: memref<{n}xf32> {{buddy.kind = "output", buddy.name = "e"}})
      attributes {{buddy.entry}} {{
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0.0 : f32
    %xt = bufferization.to_tensor %x restrict : memref<?x{k}x{element}> to tensor<?x{k}x{element}>
    %wt = bufferization.to_tensor %w restrict : memref<{n}x{k}xf32> to tensor<{n}x{k}xf32>
    %m = tensor.dim %xt, %c0 : tensor<?x{k}x{element}>
    %empty = tensor.empty(%m) : tensor<?x{n}xf32>
    %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x{n}xf32>) -> tensor<?x{n}xf32>
    %product = linalg.contract
        indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
                         affine_map<(m, n, k) -> (m, n)>]
        ins(%xt, %wt : tensor<?x{k}x{element}>, tensor<{n}x{k}xf32>)
        outs(%fill : tensor<?x{n}xf32>) -> tensor<?x{n}xf32>
    %some = tensor.empty() : tensor<{n}xf32>
    %read = linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>],
                             iterator_types = ["parallel"]}} outs(%some : tensor<{n}xf32>) {{
    ^bb0(%out: f32):
      %i = linalg.index 0 : index
      %ck = arith.constant {k} : index
      %j = arith.remui %i, %ck : index
      %v = tensor.extract %wt[%i, %j] : tensor<{n}x{k}xf32>
      linalg.yield %v : f32
    }} -> tensor<{n}xf32>
    bufferization.materialize_in_destination %product in restrict writable %y
        : (tensor<?x{n}xf32>, memref<?x{n}xf32>) -> ()
    bufferization.materialize_in_destination %read in restrict writable %e
        : (tensor<{n}xf32>, memref<{n}xf32>) -> ()
    return
  }}
"""


def expected(
    x: np.ndarray, weight: blocks.Blocks, activations: str = "int8"
) -> tuple[np.ndarray, np.ndarray]:
    """`x`, quantised by blocks of 32 or not, times the weight; the sum of the terms' magnitudes."""
    wide = weight.dequantize().astype(np.float64)
    if activations == "f32":
        exact = x.astype(np.float32).astype(np.float64)
        return exact @ wide.T, np.abs(exact) @ np.abs(wide).T
    m, k = x.shape
    cut = x.reshape(m, k // 32, 32).astype(np.float32)
    most = np.abs(cut).max(-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        inverse = np.where(most == 0, np.float32(0), np.float32(127) / most)
    scale = most * np.float32(1 / 127)
    rounded = (np.rint(cut * inverse).astype(np.float64) * scale).reshape(m, k)
    return rounded @ wide.T, np.abs(rounded) @ np.abs(wide).T


Compiled = tuple[str, str, Library, dict[str, dict]]


@pytest.fixture(
    scope="module", params=[(form, rows) for form in FORMATS for rows in ("int8", "f32")],
    ids=lambda param: "-".join(param),
)  # fmt: skip
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    form, rows = request.param
    source = "\n".join(entry(f"f_{n}_{k}", n, k, form) for n, k in SHAPES)
    module = _buddy.Module(source.encode())
    module.pipeline("target=native stop-after=graph")
    folder: Path = tmp_path_factory.mktemp(form)
    path = compile_module(source, folder, options=f"activations={rows}")
    return form, rows, Library(path), module.packings()


@pytest.mark.parametrize("shape", SHAPES)
def test_products_and_elements(library: Compiled, shape: tuple[int, int]) -> None:
    form, rows, compiled, packings = library
    n, k = shape
    rng = np.random.default_rng(n * k)
    weight = blocks.quantize(rng.standard_normal((n, k)).astype(np.float32), form)
    packed = blocks.pack(weight, packings[f"f_{n}_{k}"])
    dense = weight.dequantize()
    for m in ROWS:
        x = rng.standard_normal((m, k)).astype(np.float32)
        x[: m // 2, : k // 2] *= 100
        if m > 2:
            x[1] = 0
        y, e = np.full((m, n), np.nan, np.float32), np.full(n, np.nan, np.float32)
        for threads in (1, 2):
            assert compiled.run(f"f_{n}_{k}", Context(threads), x, packed, y, e) == 0
            want, size = expected(x, weight, rows)
            assert (np.abs(y - want) <= 3e-6 * size + 1e-12).all()
            np.testing.assert_array_equal(e, dense[np.arange(n), np.arange(n) % k])


def test_what_is_not_finite_stays_so(library: Compiled) -> None:
    form, _, compiled, packings = library
    rng = np.random.default_rng(1)
    weight = blocks.quantize(rng.standard_normal((33, 96)).astype(np.float32), form)
    x = rng.standard_normal((3, 96)).astype(np.float32)
    x[0, 5], x[1, 40] = np.nan, np.inf
    y, e = np.empty((3, 33), np.float32), np.empty(33, np.float32)
    packed = blocks.pack(weight, packings["f_33_96"])
    assert compiled.run("f_33_96", Context(1), x, packed, y, e) == 0
    assert not np.isfinite(y[:2]).any()
    assert np.isfinite(y[2]).all()


@pytest.mark.parametrize("rows", ["int8", "f32"])
@pytest.mark.parametrize("element", ["f16", "f64"])
def test_rows_of_other_floats(element: str, rows: str, tmp_path: Path) -> None:
    source = entry("f", 40, 64, "q4_1", element)
    module = _buddy.Module(source.encode())
    module.pipeline("target=native stop-after=graph")
    rng = np.random.default_rng(2)
    weight = blocks.quantize(rng.standard_normal((40, 64)).astype(np.float32), "q4_1")
    packings = module.packings()
    packed = blocks.pack(weight, packings["f"])
    compiled = Library(compile_module(source, tmp_path, options=f"activations={rows}"))
    x = rng.standard_normal((5, 64)).astype(element.replace("f", "float"))
    y, e = np.empty((5, 40), np.float32), np.empty(40, np.float32)
    assert compiled.run("f", Context(1), x, packed, y, e) == 0
    want, size = expected(x, weight, rows)
    assert (np.abs(y - want) <= 3e-6 * size).all()
