"""Numbers of contractions with an element-wise op after them, of any size, against torch.

Whether the op is applied to the results in a buffer of the thread or by loops of its own must
not be seen in what comes out; the FileCheck tests say which it is.
"""

from __future__ import annotations

import ctypes
import math
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))

from calling import Context, Library, compile_module, needs_tools

pytestmark = needs_tools

MLIR_TYPES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}
EMPTY = ctypes.create_string_buffer(64)


def descriptor(tensor: torch.Tensor) -> ctypes.Array:
    """The strided memref of a tensor, which must outlive it."""
    # An empty tensor has no storage, and an entry refuses a null pointer.
    data = tensor.data_ptr() or ctypes.addressof(EMPTY)
    fields = [data, data, 0, *tensor.shape, *tensor.stride()]
    return (ctypes.c_int64 * len(fields))(*fields)


@dataclass
class Product:
    """An entry `out = f(einsum(a, b), extra)` of operands of one dtype.

    `out` takes the index map `out_map` of the result's dimensions. `body` yields `%y` from the
    result's element `%s`, the extra operand's `%e` (of map `extra_map`) and, with `in_place`,
    what is in `out` before, `%o`. `static` dimensions have `sizes`.
    """

    maps: tuple[str, str, str]
    body: str
    reference: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    extra_map: str
    dtype: torch.dtype = torch.float32
    out_dtype: torch.dtype | None = None
    out_map: str = ""
    in_place: bool = False
    static: str = ""
    sizes: dict[str, int] | None = None

    def mlir(self, name: str) -> str:
        sizes = self.sizes or {}
        result = self.maps[2]
        out = self.out_map or result
        element = MLIR_TYPES[self.dtype]
        elements = [element] * 3 + [MLIR_TYPES[self.out_dtype or self.dtype]]

        def shape(map_: str) -> str:
            return "".join(f"{sizes[d] if d in self.static else '?'}x" for d in map_)

        operands = [*self.maps[:2], self.extra_map, out]
        bodies = [shape(m) + e for m, e in zip(operands, elements, strict=True)]
        kinds = ["input", "weight", "input", "state" if self.in_place else "output"]
        arguments = []
        for i, (map_, body, kind) in enumerate(zip(operands, bodies, kinds, strict=True)):
            symbols = ", ".join(f'"{sizes[d] if d in self.static else d}"' for d in map_)
            arguments.append(
                f'%m{i}: memref<{body}> {{buddy.kind = "{kind}", buddy.name = "{"abeo"[i]}", '
                f"buddy.shape = [{symbols}]}}"
            )

        def affine(dims: str, map_: str) -> str:
            return f"affine_map<({', '.join(dims)}) -> ({', '.join(map_)})>"

        lines = [f"func.func @{name}({', '.join(arguments)}) attributes {{buddy.entry}} {{"]
        for i in range(4 if self.in_place else 3):
            writable = " writable" if i == 3 else ""
            lines.append(
                f"%t{i} = bufferization.to_tensor %m{i} restrict{writable} : memref<{bodies[i]}>"
                f" to tensor<{bodies[i]}>"
            )
        for i, d in enumerate(out):
            lines.append(f"%i{i} = arith.constant {i} : index")
            lines.append(f"%size_{d} = memref.dim %m3, %i{i} : memref<{bodies[3]}>")

        def dynamic(map_: str) -> str:
            return ", ".join(f"%size_{d}" for d in map_ if d not in self.static)

        sums = f"tensor<{shape(result)}{element}>"
        contract = ", ".join(affine("".join(sorted(set("".join(self.maps)))), m) for m in self.maps)
        fused = ", ".join(affine(out, m) for m in (result, self.extra_map, out))
        iterators = ", ".join(['"parallel"'] * len(out))
        lines += [
            f"%z = arith.constant 0.0 : {element}",
            f"%ec = tensor.empty({dynamic(result)}) : {sums}",
            f"%c = linalg.fill ins(%z : {element}) outs(%ec : {sums}) -> {sums}",
            f"%p = linalg.contract indexing_maps = [{contract}]"
            f" ins(%t0, %t1 : tensor<{bodies[0]}>, tensor<{bodies[1]}>) outs(%c : {sums})"
            f" -> {sums}",
        ]
        if not self.in_place:
            lines.append(f"%t3 = tensor.empty({dynamic(out)}) : tensor<{bodies[3]}>")
        lines += [
            f"%r = linalg.generic {{indexing_maps = [{fused}], iterator_types = [{iterators}]}}"
            f" ins(%p, %t2 : {sums}, tensor<{bodies[2]}>) outs(%t3 : tensor<{bodies[3]}>) {{",
            f"^bb0(%s: {element}, %e: {element}, %o: {elements[3]}):",
            self.body.replace("TYPE", element),
            f"linalg.yield %y : {elements[3]}",
            f"}} -> tensor<{bodies[3]}>",
            "bufferization.materialize_in_destination %r in restrict writable %m3"
            f" : (tensor<{bodies[3]}>, memref<{bodies[3]}>) -> ()",
            "return",
            "}",
        ]
        return "\n".join(lines)

    def check(self, library: Library, index: int, sizes: dict[str, int], threads: int) -> None:
        torch.manual_seed(index)
        out = self.out_map or self.maps[2]
        a, b, e = (
            torch.randn([sizes[d] for d in m]).to(self.dtype)
            for m in (*self.maps[:2], self.extra_map)
        )
        o = torch.randn([sizes[d] for d in out]).to(self.out_dtype or self.dtype)
        equation = f"{self.maps[0]},{self.maps[1]}->{self.maps[2]}"
        sums = torch.einsum(equation, a.double(), b.double())
        # The extra operand with the dimensions of the result, where it lacks one of size 1.
        other = e.double()
        for i, d in enumerate(self.maps[2]):
            if d not in self.extra_map:
                other = other.unsqueeze(i)
        expected = self.reference(sums, other)
        expected = torch.einsum(f"{self.maps[2]}->{out}", expected)
        if self.in_place:
            expected = expected + o.double()
        context = Context(threads)
        code = library.run(f"case{index}", context, *map(descriptor, (a, b, e, o)))
        assert code == 0, context.message
        half = self.dtype != torch.float32 or self.out_dtype is not None
        terms = math.prod(sizes[d] for d in sizes if d not in self.maps[2])
        torch.testing.assert_close(
            o.double(),
            expected,
            rtol=2e-2 if half else 1e-5,
            atol=(8e-3 if half else 5e-6) * (1 + terms**0.5),
            msg=lambda text: f"case {index}: {self}, sizes {sizes}, {threads} threads: {text}",
        )


ADD = "%y = arith.addf %s, %e : TYPE"
SILU = """
%n = arith.negf %s : TYPE
%x = math.exp %n : TYPE
%i = arith.constant 1.0 : TYPE
%d = arith.addf %x, %i : TYPE
%q = arith.divf %s, %d : TYPE
%y = arith.mulf %q, %e : TYPE"""
RELU_CAST = """
%i = arith.constant 0.0 : TYPE
%t = arith.addf %s, %e : TYPE
%m = arith.maximumf %t, %i : TYPE
%y = arith.truncf %m : TYPE to bf16"""
RESIDUAL = """
%t = arith.mulf %s, %e : TYPE
%y = arith.addf %t, %o : TYPE"""


def gate(sums: torch.Tensor, extra: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.silu(sums) * extra


LINEAR = ("mk", "nk", "mn")
PLAIN = ("mk", "kn", "mn")
PRODUCTS = [
    Product(LINEAR, ADD, torch.add, "n"),
    Product(LINEAR, ADD, torch.add, "mn"),
    Product(LINEAR, SILU, gate, "mn"),
    Product(LINEAR, RESIDUAL, torch.mul, "n", in_place=True),
    Product(LINEAR, RESIDUAL, torch.mul, "m", in_place=True),
    Product(LINEAR, ADD, torch.add, "mn", out_map="nm"),
    Product(PLAIN, ADD, torch.add, "n"),
    Product(PLAIN, SILU, gate, "mn"),
    Product(PLAIN, RESIDUAL, torch.mul, "m", in_place=True),
    Product(PLAIN, RELU_CAST, lambda s, e: torch.relu(s + e), "n", torch.float32, torch.bfloat16),
    Product(("km", "kn", "mn"), ADD, torch.add, "m"),
    Product(("mk", "kn", "nm"), ADD, torch.add, "n"),
    Product(("bmk", "bnk", "bmn"), SILU, gate, "bmn"),
    Product(("bmk", "nk", "bmn"), ADD, torch.add, "n"),
    Product(("bmk", "nk", "bmn"), RESIDUAL, torch.mul, "n", in_place=True),
    Product(("hgtd", "hsd", "hgts"), ADD, torch.add, "hgts"),
    Product(("mkl", "lkn", "mn"), ADD, torch.add, "n"),
    Product(("k", "kn", "n"), ADD, torch.add, "n"),
    Product(("k", "nk", "n"), SILU, gate, "n"),
]


def compile_products(products: list[Product], folder: Path) -> Library:
    source = "\n".join(product.mlir(f"case{i}") for i, product in enumerate(products))
    return Library(compile_module(source, folder))


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float16], ids=lambda dtype: MLIR_TYPES[dtype]
)
def test_any_epilogue_of_any_size(tmp_path: Path, dtype: torch.dtype) -> None:
    products = [
        Product(**{**vars(p), "dtype": dtype})
        for p in PRODUCTS
        if p.out_dtype is None or dtype == torch.float32
    ]
    library = compile_products(products, tmp_path)
    generator = random.Random(8)
    for i, product in enumerate(products):
        dims = sorted(set("".join(product.maps)))
        for round_ in range(20):
            pool = (1, 2, 3, 8, 17, 33, 70)
            sizes = {d: generator.choice(pool if d in "mnktsd" else (1, 2, 3)) for d in dims}
            if round_ == 0:
                # Nothing to sum: zero, and the op is applied to that.
                sizes["d" if "d" in sizes else "k"] = 0
            elif round_ == 1:
                sizes["s" if "s" in sizes else "n"] = 0
            product.check(library, i, sizes, threads=1 + round_ % 2)
        # Several blocks of rows and of the reduction, and remainders of both.
        for m, n, k in ((1, 70, 577), (145, 33, 1030), (5, 5000, 31)):
            named = {"m": m, "n": n, "k": k}
            product.check(library, i, {d: named.get(d, 3) for d in dims}, threads=2)


def test_epilogues_of_static_sizes(tmp_path: Path) -> None:
    products = []
    for m, n, k in ((1, 64, 48), (8, 32, 16), (7, 33, 17), (40, 31, 700), (64, 1, 5)):
        for p in PRODUCTS[:11]:
            sizes = {"m": m, "n": n, "k": k}
            for static in ("nk", "mnk"):
                products.append(Product(**{**vars(p), "static": static, "sizes": sizes}))
    library = compile_products(products, tmp_path)
    for i, product in enumerate(products):
        product.check(library, i, product.sizes or {}, threads=1)
