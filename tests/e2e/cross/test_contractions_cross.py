"""Products compiled for other machines give NumPy's numbers under emulation.

Sizes around a vector and a register tile at any length of vectors: 0, 1, odd ones, and one past a
block.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import cross
import numpy as np
import pytest
from cross import NUMPY, bf16, wide
from symbols import unexpected

# Error of a sum relative to the sum of its terms' magnitudes.
TOLERANCE = {"f32": 2e-6, "f64": 1e-14, "f16": 2e-3, "bf16": 1e-2, "i32": 0}

TRANSPOSED_B = ("mk", "nk", "mn")
MAPS = [
    ("mk", "kn", "mn"),
    TRANSPOSED_B,
    ("km", "kn", "mn"),
    ("km", "nk", "nm"),
    ("bmk", "bkn", "bmn"),
    ("mk", "k", "m"),
    ("k", "kn", "n"),
    ("k", "nk", "n"),
]


@dataclass(frozen=True)
class Product:
    """An entry: c = einsum(a, b). `sizes`, if given, are static."""

    maps: tuple[str, str, str]
    dtype: str = "f32"
    sizes: tuple[tuple[str, int], ...] = ()
    padded: bool = False  # rows of A and B lie further apart than they are long

    def mlir(self, name: str) -> str:
        dims = sorted(set("".join(self.maps)))
        static = dict(self.sizes)
        types, arguments = [], []
        for i, map_ in enumerate(self.maps):
            body = "".join(f"{static.get(d, '?')}x" for d in map_) + self.dtype
            layout = ", strided<[" + "?, " * (len(map_) - 1) + "1]>" if self._is_padded(i) else ""
            types.append((f"memref<{body}{layout}>", f"tensor<{body}>"))
            shape = ", ".join(f'"{static.get(d, d)}"' for d in map_)
            kind = "output" if i == 2 else "input"
            arguments.append(
                f"%{i}: {types[i][0]} {{buddy.kind = "
                f'"{kind}", buddy.name = "{"abc"[i]}", buddy.shape = [{shape}]}}'
            )
        dynamic = [i for i, d in enumerate(self.maps[2]) if d not in static]
        sizes = "\n".join(
            f"%i{i} = arith.constant {i} : index\n%d{i} = memref.dim %2, %i{i} : {types[2][0]}"
            for i in dynamic
        )
        maps = ", ".join(f"affine_map<({', '.join(dims)}) -> ({', '.join(m)})>" for m in self.maps)
        zero = "0" if self.dtype == "i32" else "0.0"
        (ma, ta), (mb, tb), (mc, tc) = types
        return f"""
func.func @{name}({", ".join(arguments)}) attributes {{buddy.entry}} {{
  %a = bufferization.to_tensor %0 restrict : {ma} to {ta}
  %b = bufferization.to_tensor %1 restrict : {mb} to {tb}
  {sizes}
  %e = tensor.empty({", ".join(f"%d{i}" for i in dynamic)}) : {tc}
  %z = arith.constant {zero} : {self.dtype}
  %f = linalg.fill ins(%z : {self.dtype}) outs(%e : {tc}) -> {tc}
  %r = linalg.contract indexing_maps = [{maps}] ins(%a, %b : {ta}, {tb}) outs(%f : {tc}) -> {tc}
  bufferization.materialize_in_destination %r in restrict writable %2 : ({tc}, {mc}) -> ()
  return
}}"""

    def operand(self, i: int, sizes: dict[str, int], random: np.random.Generator) -> np.ndarray:
        shape = [sizes[d] for d in self.maps[i]]
        if self._is_padded(i):
            shape[-1] += 3
        if self.dtype == "i32":
            array = random.integers(-9, 10, shape, dtype=np.int32)
        else:
            array = random.standard_normal(shape).astype(np.float32)
            array = bf16(array) if self.dtype == "bf16" else array.astype(NUMPY[self.dtype])
        return array[..., :-3] if self._is_padded(i) else array

    def _is_padded(self, i: int) -> bool:
        return self.padded and i < 2


Case = tuple[str, Product, dict[str, int]]


def check(machine: cross.Machine, caller: Path, library: Path, cases: list[Case], cpu: str) -> None:
    """Call (entry, product, sizes) with one and with two threads; compare with NumPy."""
    random = np.random.default_rng(0)
    calls = []
    for number, (entry, product, sizes) in enumerate(cases):
        operands = [product.operand(i, sizes, random) for i in range(3)]
        calls.append(cross.Call(entry, [*operands], threads=1 + number % 2))
    machine.run_calls(caller, library, cpu, calls)
    for call, (entry, product, sizes) in zip(calls, cases, strict=True):
        what = f"{entry} {product} {sizes}, {call.threads} threads, {cpu}"
        assert call.code == 0, f"{what}: {call.message}"
        a, b = (wide(operand) for operand in call.arguments[:2])
        equation = f"{product.maps[0]},{product.maps[1]}->{product.maps[2]}"
        bound = TOLERANCE[product.dtype] * np.einsum(equation, np.abs(a), np.abs(b))
        error = np.abs(wide(call.results[2]) - np.einsum(equation, a, b))
        assert np.all(error <= bound + 1e-30), f"{what}: {np.max(error)}"
        for given, left in zip(call.arguments[:2], call.results[:2], strict=True):
            np.testing.assert_array_equal(given, left, err_msg=what)


# m, n, k
ODD = [(1, 1, 1), (7, 33, 17), (13, 5, 3), (8, 65, 31), (3, 129, 40), (29, 15, 1), (1, 47, 61)]
EMPTY = [(0, 5, 3), (4, 0, 3), (4, 5, 0), (0, 0, 0), (1, 0, 0)]


def named(product: Product, m: int, n: int, k: int) -> dict[str, int]:
    sizes = {"m": m, "n": n, "k": k, "b": 2}
    return {d: sizes[d] for d in sorted(set("".join(product.maps)))}


@dataclass(frozen=True)
class Compiled:
    products: dict[str, Product]
    library: Path


@pytest.fixture(scope="module")
def compiled(machine: cross.Machine, tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """One library: a compile takes longer than the calls."""
    products = [Product(maps, dtype) for dtype in ("f32", "f64") for maps in MAPS]
    products += [Product(maps, padded=True) for maps in MAPS[:2]]
    products += [Product(maps, dtype) for dtype in ("bf16", "f16", "i32") for maps in MAPS[:2]]
    for m, n, k in ODD:
        for maps in MAPS[:2]:
            sizes = tuple(named(Product(maps), m, n, k).items())
            products.append(Product(maps, "f64" if m == 13 else "f32", sizes))
    entries = {f"case{i}": product for i, product in enumerate(products)}
    source = "\n".join(product.mlir(name) for name, product in entries.items())
    folder = tmp_path_factory.mktemp("contractions")
    return Compiled(entries, machine.compile_library(source, folder))


def test_products_of_odd_sizes(machine: cross.Machine, caller: Path, compiled: Compiled) -> None:
    cases = []
    for entry, product in compiled.products.items():
        if product.sizes:
            cases += [(entry, product, dict(product.sizes))] * 2  # by one thread and by two
            continue
        for sizes in ODD + EMPTY:
            cases.append((entry, product, named(product, *sizes)))
    for cpu in machine.cpus:
        check(machine, caller, compiled.library, cases, cpu)


def test_blocks_and_what_remains_of_them(
    machine: cross.Machine, caller: Path, compiled: Compiled
) -> None:
    """Past the blocks of the reduction and of rows, and enough work to use both threads."""
    cases = []
    for entry, product in compiled.products.items():
        if not product.sizes and product.dtype == "f32" and len(product.maps[0]) == 2:
            for sizes in ((145, 70, 29), (3, 70, 1030)):
                cases += [(entry, product, named(product, *sizes))] * 2
    for cpu in machine.cpus:
        check(machine, caller, compiled.library, cases, cpu)


def test_the_library_is_plain_vector_code(machine: cross.Machine, compiled: Compiled) -> None:
    code = machine.disassembly(compiled.library)
    assert unexpected(compiled.library, "gomp") == set()
    if machine is cross.ARM:
        for lanes in ("4s", "2d"):
            assert len(re.findall(rf"\bfmla\tv\d+\.{lanes}", code)) > 50
        return
    for width in ("e32", "e64"):
        assert re.search(rf"vsetvli\b.*\b{width}\b", code)
    assert len(re.findall(r"\bvfmacc\.v[fv]\b", code)) > 50
    # Code that counts on more than 128 bits would be wrong, silently, on a CPU that has no more.
    assert "zvl128b" in cross.architecture(compiled.library)
    assert not re.search(r"zvl(?!32b|64b|128b)", cross.architecture(compiled.library))
