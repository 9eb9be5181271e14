"""Element-wise loops and reductions for other machines give NumPy's numbers under emulation."""

from __future__ import annotations

from pathlib import Path

import cross
import numpy as np
import pytest
from cross import NUMPY, bf16, wide

SIZES = [(1, 1), (3, 7), (5, 33), (2, 64), (1, 131), (40, 17), (0, 5), (5, 0)]
# Of one rounding to the type, and of exp.
TOLERANCE = {"f32": 1e-6, "f64": 1e-14, "f16": 1e-3, "bf16": 8e-3}


def module(dtype: str) -> str:
    """y = exp(x) * 0.5 + x, and z = the sum, w = the maximum of each row of x, in f32 or f64."""
    acc = "f64" if dtype == "f64" else "f32"
    convert = dtype != acc
    up = f"%f = arith.extf %l : {dtype} to {acc}" if convert else f"%f = arith.addf %l, %n0 : {acc}"
    down = f"%d = arith.truncf %v : {acc} to {dtype}"
    matrix, vector = (f"memref<?x?x{dtype}>", '["m", "n"]'), (f"memref<?x{acc}>", '["m"]')
    arguments = ", ".join(
        f'%{name}: {type_} {{buddy.kind = "{kind}", buddy.name = "{name}", buddy.shape = {shape}}}'
        for name, kind, (type_, shape) in (
            ("x", "input", matrix),
            ("y", "output", matrix),
            ("z", "output", vector),
            ("w", "output", vector),
        )
    )
    rows, all_ = "affine_map<(i, j) -> (i)>", "affine_map<(i, j) -> (i, j)>"

    def reduce(result: str, initial: str, operation: str) -> str:
        return f"""
  %{result}e = tensor.empty(%m) : tensor<?x{acc}>
  %{result}f = linalg.fill ins({initial} : {acc}) outs(%{result}e : tensor<?x{acc}>)
    -> tensor<?x{acc}>
  %{result}r = linalg.generic {{indexing_maps = [{all_}, {rows}],
      iterator_types = ["parallel", "reduction"]}}
    ins(%t : tensor<?x?x{dtype}>) outs(%{result}f : tensor<?x{acc}>) {{
  ^bb0(%l: {dtype}, %o: {acc}):
    {up}
    %s = {operation} %f, %o : {acc}
    linalg.yield %s : {acc}
  }} -> tensor<?x{acc}>
  bufferization.materialize_in_destination %{result}r in restrict writable %{result}
    : (tensor<?x{acc}>, memref<?x{acc}>) -> ()"""

    return f"""
func.func @{dtype}({arguments}) attributes {{buddy.entry}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n0 = arith.constant -0.0 : {acc}
  %zero = arith.constant 0.0 : {acc}
  %half = arith.constant 0.5 : {acc}
  %least = arith.constant -1.0e+4 : {acc}
  %t = bufferization.to_tensor %x restrict : memref<?x?x{dtype}> to tensor<?x?x{dtype}>
  %m = memref.dim %x, %c0 : memref<?x?x{dtype}>
  %n = memref.dim %x, %c1 : memref<?x?x{dtype}>
  %e = tensor.empty(%m, %n) : tensor<?x?x{dtype}>
  %r = linalg.generic {{indexing_maps = [{all_}, {all_}],
      iterator_types = ["parallel", "parallel"]}}
    ins(%t : tensor<?x?x{dtype}>) outs(%e : tensor<?x?x{dtype}>) {{
  ^bb0(%l: {dtype}, %o: {dtype}):
    {up}
    %g = math.exp %f : {acc}
    %h = arith.mulf %g, %half : {acc}
    %v = arith.addf %h, %f : {acc}
    {down if convert else ""}
    linalg.yield {"%d" if convert else "%v"} : {dtype}
  }} -> tensor<?x?x{dtype}>
  bufferization.materialize_in_destination %r in restrict writable %y
    : (tensor<?x?x{dtype}>, memref<?x?x{dtype}>) -> ()
  {reduce("z", "%zero", "arith.addf")}
  {reduce("w", "%least", "arith.maximumf")}
  return
}}"""


FUNCTIONS = """
#id = affine_map<(i, j) -> (i, j)>
#transposed = affine_map<(i, j) -> (j, i)>
func.func @functions(
    %x: memref<?x?xf32> {buddy.kind = "input", buddy.name = "x", buddy.shape = ["m", "n"]},
    %y: memref<?x?xf32> {buddy.kind = "output", buddy.name = "y", buddy.shape = ["m", "n"]},
    %z: memref<?x?xf32> {buddy.kind = "output", buddy.name = "z", buddy.shape = ["n", "m"]})
    attributes {buddy.entry} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %one = arith.constant 1.0 : f32
  %third = arith.constant 0.3 : f32
  %t = bufferization.to_tensor %x restrict : memref<?x?xf32> to tensor<?x?xf32>
  %m = memref.dim %x, %c0 : memref<?x?xf32>
  %n = memref.dim %x, %c1 : memref<?x?xf32>
  %e = tensor.empty(%m, %n) : tensor<?x?xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
    ins(%t : tensor<?x?xf32>) outs(%e : tensor<?x?xf32>) {
  ^bb0(%l: f32, %o: f32):
    %s = math.sin %l : f32
    %a = math.absf %l : f32
    %p = math.powf %a, %third : f32
    %b = math.atan2 %s, %p : f32
    %c = arith.addf %a, %one : f32
    %d = math.log %c : f32
    %v = arith.addf %b, %d : f32
    linalg.yield %v : f32
  } -> tensor<?x?xf32>
  %f = tensor.empty(%n, %m) : tensor<?x?xf32>
  %q = linalg.generic {indexing_maps = [#transposed, #id],
      iterator_types = ["parallel", "parallel"]}
    ins(%t : tensor<?x?xf32>) outs(%f : tensor<?x?xf32>) {
  ^bb0(%l: f32, %o: f32):
    %v = arith.mulf %l, %third : f32
    linalg.yield %v : f32
  } -> tensor<?x?xf32>
  bufferization.materialize_in_destination %r in restrict writable %y
    : (tensor<?x?xf32>, memref<?x?xf32>) -> ()
  bufferization.materialize_in_destination %q in restrict writable %z
    : (tensor<?x?xf32>, memref<?x?xf32>) -> ()
  return
}
"""


@pytest.fixture(scope="module")
def library(machine: cross.Machine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = FUNCTIONS + "\n".join(module(dtype) for dtype in TOLERANCE)
    return machine.compile_library(source, tmp_path_factory.mktemp("loops"))


def test_loops_of_any_size(machine: cross.Machine, caller: Path, library: Path) -> None:
    for cpu in machine.cpus:
        check(machine, caller, library, cpu)


def check(machine: cross.Machine, caller: Path, library: Path, cpu: str) -> None:
    random = np.random.default_rng(1)
    calls = []
    for dtype in TOLERANCE:
        acc = np.float64 if dtype == "f64" else np.float32
        for number, (m, n) in enumerate(SIZES):
            x = random.standard_normal((m, n)).astype(np.float32)
            x = bf16(x) if dtype == "bf16" else x.astype(NUMPY[dtype])
            out = [np.zeros_like(x), np.zeros(m, acc), np.zeros(m, acc)]
            calls.append(cross.Call(dtype, [x, *out], threads=1 + number % 2))
    machine.run_calls(caller, library, cpu, calls)
    for call in calls:
        what = f"{call.entry}, {np.shape(call.arguments[0])}, {cpu}"
        assert call.code == 0, f"{what}: {call.message}"
        x, (y, z, w) = wide(call.arguments[0]), map(wide, call.results[1:])
        tolerance = TOLERANCE[call.entry]
        np.testing.assert_allclose(y, np.exp(x) * 0.5 + x, tolerance, tolerance, err_msg=what)
        exact = min(tolerance, 1e-5)
        np.testing.assert_allclose(z, x.sum(1), exact, exact, err_msg=what)
        np.testing.assert_array_equal(w, x.max(1, initial=-1e4), err_msg=what)


def test_functions_and_transposes(machine: cross.Machine, caller: Path, library: Path) -> None:
    random = np.random.default_rng(2)
    for cpu in machine.cpus:
        calls = []
        for m, n in SIZES:
            x = (random.standard_normal((m, n)) * 20).astype(np.float32)
            # Angles that are not reduced but left to the C library, among others.
            x[::2, ::5] *= np.float32(2.0**60)
            out = [np.zeros_like(x), np.zeros((n, m), np.float32)]
            calls.append(cross.Call("functions", [x, *out]))
        machine.run_calls(caller, library, cpu, calls)
        for call in calls:
            what = f"{np.shape(call.arguments[0])}, {cpu}"
            assert call.code == 0, f"{what}: {call.message}"
            x = call.arguments[0].astype(np.float64)
            expected = np.arctan2(np.sin(x), np.abs(x) ** 0.3) + np.log(np.abs(x) + 1)
            np.testing.assert_allclose(call.results[1], expected, 2e-6, 2e-6, err_msg=what)
            np.testing.assert_allclose(call.results[2], x.T * 0.3, 1e-6, err_msg=what)
