"""Numbers of compiled attention: any shape, mask, layout and dtype against double precision.

Every test compiles one module with many entry points through the whole pipeline and calls them
with sizes of 0, 1, around a vector and around a block of keys, by one thread and by two.
"""

from __future__ import annotations

import itertools
import math
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))

from calling import Context, Library, compile_module, needs_tools

pytestmark = needs_tools

MLIR_TYPES = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.bool: "i8",  # in memory
}
# Error of a result relative to 1 plus its magnitude, for values of a normal distribution.
TOLERANCES = {
    torch.float32: 1e-5,
    torch.float64: 1e-12,
    torch.bfloat16: 2**-8,
    torch.float16: 2**-10,
}
SHAPES = {"q": "BHTD", "k": "BKSD", "v": "BKSE", "o": "BHTE"}


@dataclass
class Case:
    """One entry point. A dimension is dynamic unless `static` has its size.

    Dimensions: B batch, H query heads, K key heads, T queries, S keys, D and E head sizes of
    keys and of values. `mask` names its dimensions, "1" being one that is broadcast; `storage`
    names an operand's dimensions in the order they have in memory, the last being contiguous.
    """

    heads: tuple[int, int] = (4, 2)
    static: dict[str, int] = field(default_factory=lambda: {"D": 16, "E": 16})
    dtype: torch.dtype = torch.float32
    causal: str = "none"
    mask: str | None = None
    mask_dtype: torch.dtype = torch.bool
    batch: bool = False
    storage: dict[str, str] = field(default_factory=dict)
    scale: float = 0.25
    cached: bool = False  # Keys and values are slices of states, S of them in use.

    def dims(self, name: str) -> str:
        return (self.mask or "") if name == "m" else SHAPES[name][0 if self.batch else 1 :]

    def sizes(self, sizes: dict[str, int]) -> dict[str, int]:
        heads, kv_heads = self.heads
        return {**sizes, **self.static, "H": heads, "K": kv_heads, "1": 1}

    def names(self) -> list[str]:
        return ["q", "k", "v", *("m" if self.mask is not None else ""), "o"]

    def mlir(self, function: str) -> str:
        known = self.sizes({})
        arguments, lines, tensors = [], [], {}
        for name in self.names():
            dims = self.dims(name)
            if self.cached and name in "kv":
                dims = dims.replace("S", "C")
            element = MLIR_TYPES[self.mask_dtype if name == "m" else self.dtype]
            body = "".join(f"{known.get(d, '?')}x" for d in dims) + element
            order, layout = self.storage.get(name, dims), ""
            if order != dims:
                layout = ", ".join("1" if d == order[-1] else "?" for d in dims)
                layout = f", strided<[{layout}]>"
            memref, tensors[name] = f"memref<{body}{layout}>", f"tensor<{body}>"
            kind = "output" if name == "o" else "input"
            if self.cached and name in "kv":
                kind = "state"
            shape = ", ".join(f'"{known.get(d, d)}"' for d in dims)
            arguments.append(
                f'%{name}m: {memref} {{buddy.kind = "{kind}", buddy.name = "{name}",'
                f" buddy.shape = [{shape}]}}"
            )
            if name != "o":
                lines.append(
                    f"%{name} = bufferization.to_tensor %{name}m restrict"
                    f" : {memref} to {tensors[name]}"
                )
            else:
                result = memref
        if self.cached:
            arguments.append('%s: i64 {buddy.kind = "size", buddy.name = "s", buddy.shape = ["S"]}')
            lines.append("%length = arith.index_cast %s : i64 to index")
            for name in "kv":
                dims = self.dims(name)
                sizes = ", ".join("%length" if d == "S" else str(known[d]) for d in dims)
                zeros, ones = ", ".join("0" for _ in dims), ", ".join("1" for _ in dims)
                view = "x".join(str(known.get(d, "?")) for d in dims)
                view = f"tensor<{view}x{MLIR_TYPES[self.dtype]}>"
                lines.append(
                    f"%{name}s = tensor.extract_slice %{name}[{zeros}] [{sizes}] [{ones}]"
                    f" : {tensors[name]} to {view}"
                )
                tensors[name] = view
        operands = ["%q", *(("%ks", "%vs") if self.cached else ("%k", "%v"))]
        types = [tensors[name] for name in "qkv"]
        if self.mask is not None and self.mask_dtype is torch.bool:
            lines += self._bits(tensors["m"])
            operands.append("%bits")
            types.append(tensors["m"].replace("i8", "i1"))
        elif self.mask is not None:
            operands.append("%m")
            types.append(tensors["m"])
        lines += [
            f"%r = buddy.attention {', '.join(operands)}"
            f' {{causal = "{self.causal}", scale = {self.scale:e} : f64}}'
            f" : ({', '.join(types)}) -> {tensors['o']}",
            "bufferization.materialize_in_destination %r in restrict writable %om"
            f" : ({tensors['o']}, {result}) -> ()",
            "return",
            "}",
        ]
        head = f"func.func @{function}({', '.join(arguments)}) attributes {{buddy.entry}} {{"
        return "\n".join([head, *lines])

    def _bits(self, bytes_: str) -> list[str]:
        rank = len(self.dims("m"))
        lines, dynamic = [], []
        for i, d in enumerate(self.dims("m")):
            if d not in self.sizes({}):
                lines.append(f"%i{i} = arith.constant {i} : index")
                lines.append(f"%d{i} = tensor.dim %m, %i{i} : {bytes_}")
                dynamic.append(f"%d{i}")
        bits = bytes_.replace("i8", "i1")
        dims = ", ".join(f"d{i}" for i in range(rank))
        maps = ", ".join([f"affine_map<({dims}) -> ({dims})>"] * 2)
        iterators = ", ".join(['"parallel"'] * rank)
        return [
            *lines,
            f"%empty = tensor.empty({', '.join(dynamic)}) : {bits}",
            "%zero = arith.constant 0 : i8",
            f"%bits = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{iterators}]}}"
            f" ins(%m : {bytes_}) outs(%empty : {bits}) {{",
            "^bb0(%in: i8, %out: i1):",
            "%bit = arith.cmpi ne, %in, %zero : i8",
            "linalg.yield %bit : i1",
            f"}} -> {bits}",
        ]

    def operand(self, name: str, sizes: dict[str, int]) -> torch.Tensor:
        """Random values in the layout that the entry point declares."""
        dims = self.dims(name)
        order = self.storage.get(name, dims)
        dtype = self.mask_dtype if name == "m" else self.dtype
        values = torch.randn([sizes[d] for d in order]).to(dtype)
        if dtype is torch.bool:
            values = torch.rand([sizes[d] for d in order]) < 0.7
        if order == dims:
            return values
        if values.numel():
            # Rows are padded, so that strides are no products of sizes.
            padded = torch.empty([*values.shape[:-1], values.shape[-1] + 3], dtype=dtype)
            padded[..., :-3] = values
            values = padded[..., :-3]
        return values.permute([order.index(d) for d in dims])

    def expected(self, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
        q, k, v = (tensors[name].double() for name in "qkv")
        group = self.heads[0] // self.heads[1]
        k, v = (x.repeat_interleave(group, -3) for x in (k, v))
        scores = q @ k.transpose(-1, -2) * self.scale
        if self.mask is not None:
            mask = tensors["m"]
            if mask.dtype is torch.bool:
                scores = scores.masked_fill(~mask, -math.inf)
            else:
                scores = scores + mask.double()
        queries, keys = scores.shape[-2:]
        if self.causal != "none":
            offset = keys - queries if self.causal == "bottom_right" else 0
            seen = torch.arange(keys)[None] <= torch.arange(queries)[:, None] + offset
            scores = scores.masked_fill(~seen, -math.inf)
        nothing = torch.isneginf(scores).all(-1, keepdim=True)
        return torch.softmax(scores, -1).masked_fill(nothing, 0.0) @ v


def array(tensor: torch.Tensor) -> np.ndarray:
    """The tensor's memory; bf16, which NumPy lacks, as integers."""
    if tensor.dtype is torch.bfloat16:
        return tensor.view(torch.int16).numpy()
    return tensor.numpy()


class Cases:
    """Cases compiled to one library."""

    def __init__(self, folder: Path, cases: Sequence[Case], target: str = "native") -> None:
        self.cases = cases
        source = "\n".join(case.mlir(f"case{i}") for i, case in enumerate(cases))
        self.library = Library(compile_module(source, folder, target=target))

    def call(
        self, index: int, tensors: dict[str, torch.Tensor], sizes: dict[str, int], threads: int
    ) -> torch.Tensor:
        case = self.cases[index]
        result = case.operand("o", case.sizes(sizes)).fill_(77)
        arguments = [array(tensors[name]) for name in case.names()[:-1]] + [array(result)]
        context = Context(threads)
        extra = (sizes["S"],) if case.cached else ()
        assert self.library.run(f"case{index}", context, *arguments, *extra) == 0, context.message
        return result

    def check(self, index: int, sizes: dict[str, int], threads: int = 1) -> torch.Tensor:
        case = self.cases[index]
        torch.manual_seed(index + sum(sizes.values()))
        all_sizes = case.sizes(sizes)
        tensors = {name: case.operand(name, all_sizes) for name in case.names()[:-1]}
        stored = dict(tensors)
        if case.cached:
            spare = {**all_sizes, "S": sizes["C"]}
            for name in "kv":
                stored[name] = case.operand(name, spare)
                tensors[name] = stored[name].narrow(-2, 0, sizes["S"])
                stored[name].narrow(-2, sizes["S"], sizes["C"] - sizes["S"]).fill_(math.nan)
        before = {name: tensor.clone() for name, tensor in stored.items()}
        actual = self.call(index, stored, sizes, threads)
        what = f"{case}, sizes {sizes}, {threads} threads"
        for name, tensor in stored.items():
            torch.testing.assert_close(tensor, before[name], rtol=0, atol=0, equal_nan=True)
        expected = case.expected(tensors)
        tolerance = TOLERANCES[case.dtype]
        torch.testing.assert_close(
            actual.double(), expected, rtol=tolerance, atol=tolerance, msg=lambda m: f"{what}\n{m}"
        )
        return actual


CAUSAL = ("none", "top_left", "bottom_right")


def test_any_number_of_queries_and_keys(tmp_path: Path) -> None:
    heads = ((4, 2), (3, 3), (5, 1))
    cases = Cases(tmp_path, [Case(heads=h, causal=c) for h in heads for c in CAUSAL])
    for i in range(len(cases.cases)):
        for n, (t, s) in enumerate(itertools.product((0, 1, 3, 17, 70), (0, 1, 15, 64, 513, 1100))):
            cases.check(i, {"T": t, "S": s}, threads=1 + n % 2)


@pytest.mark.parametrize("causal", CAUSAL)
def test_one_query_and_split_keys(tmp_path: Path, causal: str) -> None:
    static = {"T": 1, "D": 64, "E": 64}
    heads = ((9, 3), (2, 2), (8, 1))
    cases = Cases(
        tmp_path,
        [Case(heads=h, causal=causal, static=static) for h in heads]
        + [Case(causal=causal, static={**static, "T": 6}, heads=(4, 4))],
    )
    for i in range(len(cases.cases)):
        for s in (0, 1, 511, 512, 1023, 1024, 1300, 4097):
            cases.check(i, {"S": s}, threads=2)


def test_static_sizes(tmp_path: Path) -> None:
    sizes = ((1, 1, 1, 1), (5, 0, 8, 8), (0, 5, 8, 8), (16, 16, 64, 64), (33, 300, 33, 17))
    sizes += ((70, 1500, 8, 40), (128, 128, 32, 64))
    cases = Cases(
        tmp_path,
        [
            Case(causal=causal, heads=(6, 2), static=dict(zip("TSDE", s, strict=True)))
            for s in sizes
            for causal in ("none", "bottom_right")
        ],
    )
    for i in range(len(cases.cases)):
        cases.check(i, {}, threads=2)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_element_types(tmp_path: Path, dtype: torch.dtype) -> None:
    cases = Cases(
        tmp_path,
        [
            Case(dtype=dtype, causal="bottom_right"),
            Case(dtype=dtype, static={"T": 1, "D": 33, "E": 20}),
            Case(dtype=dtype, mask="TS", mask_dtype=dtype),
        ],
    )
    for i in range(len(cases.cases)):
        for t, s in ((1, 5), (1, 1100), (9, 64), (40, 333)):
            cases.check(i, {"T": t, "S": s})


@pytest.mark.parametrize("mask_dtype", [torch.bool, torch.float32])
def test_masks_are_broadcast(tmp_path: Path, mask_dtype: torch.dtype) -> None:
    shapes = ("S", "1", "TS", "T1", "H1S", "BHTS", "B11S", "1HT1")
    cases = Cases(
        tmp_path,
        [Case(mask=m, mask_dtype=mask_dtype, batch=True) for m in shapes]
        + [Case(mask="TS", mask_dtype=mask_dtype, causal=c) for c in CAUSAL[1:]],
    )
    for i in range(len(cases.cases)):
        for b, t, s in ((1, 1, 40), (2, 5, 17), (2, 1, 1100), (1, 33, 300)):
            cases.check(i, {"B": b, "T": t, "S": s}, threads=2)


@pytest.mark.parametrize("mask_dtype", [torch.bool, torch.float32])
def test_rows_that_attend_nothing_are_zero(tmp_path: Path, mask_dtype: torch.dtype) -> None:
    cases = Cases(tmp_path, [Case(mask="TS", mask_dtype=mask_dtype)])
    for s in (20, 1100):
        sizes = {"T": 6, "S": s}
        all_sizes = cases.cases[0].sizes(sizes)
        tensors = {name: cases.cases[0].operand(name, all_sizes) for name in "qkv"}
        mask = torch.ones(6, s, dtype=torch.bool)
        mask[1] = False  # nothing at all
        mask[2, : s - 1] = False  # only the last key
        mask[3, 1:] = False  # only the first key
        if mask_dtype is torch.float32:
            mask = torch.zeros(6, s).masked_fill(~mask, -math.inf)
        tensors["m"] = mask
        actual = cases.call(0, tensors, sizes, 1)
        assert torch.equal(actual[:, 1], torch.zeros_like(actual[:, 1]))
        torch.testing.assert_close(actual.double(), cases.cases[0].expected(tensors), **CLOSE)


CLOSE = {"rtol": 1e-5, "atol": 1e-5, "equal_nan": True}


def test_nan_and_infinity(tmp_path: Path) -> None:
    cases = Cases(tmp_path, [Case(), Case(causal="bottom_right"), Case(mask="TS")])
    generator = random.Random(0)
    for i, case in enumerate(cases.cases):
        for value, name in itertools.product((math.nan, math.inf, -math.inf, 1e30), "qkv"):
            sizes = {"T": 9, "S": 600}
            tensors = {n: case.operand(n, case.sizes(sizes)) for n in case.names()[:-1]}
            target = tensors[name]
            # Keys that the first query sees, so that no masked value meets a weight of 0.
            target[0, generator.randrange(min(9, target.shape[1])), 3] = value
            if "m" in tensors:
                tensors["m"][:] = True
            expected = case.expected(tensors)
            actual = cases.call(i, tensors, sizes, 1).double()
            if value == 1e30:
                # Scores differ by more than f32 resolves; what is far below the maximum is 0.
                assert not torch.isnan(actual).any()
            else:
                assert torch.equal(actual.isnan(), expected.isnan()), (case, value, name)
            finite = actual.isfinite() & expected.isfinite() & (expected.abs() < 1e9)
            if name != "q" or value != 1e30:
                torch.testing.assert_close(actual[finite], expected[finite], **CLOSE)


def test_strided_and_transposed_operands(tmp_path: Path) -> None:
    orders = ("HTD", "THD", "HDT", "DTH")
    cases = []
    for q, k, v, o in ((1, 1, 1, 1), (0, 2, 0, 0), (2, 0, 2, 2), (3, 3, 3, 3), (1, 2, 3, 1)):
        storage = {"q": orders[q], "o": orders[o].replace("D", "E")}
        storage["k"] = orders[k].replace("H", "K").replace("T", "S")
        storage["v"] = orders[v].replace("H", "K").replace("T", "S").replace("D", "E")
        cases.append(Case(storage=storage, causal="bottom_right", static={"D": 20, "E": 36}))
        cases.append(Case(storage=storage, static={"D": 20, "E": 36, "T": 1}))
    compiled = Cases(tmp_path, cases)
    for i in range(len(cases)):
        for t, s in ((1, 40), (3, 70), (20, 600)):
            compiled.check(i, {"T": t, "S": s}, threads=2)


def test_caches_are_read_in_place(tmp_path: Path) -> None:
    """What lies in a cache beyond the keys in use is NaN here, and the cache is not written."""
    cases = Cases(
        tmp_path,
        [
            Case(cached=True, causal="bottom_right", heads=(9, 3)),
            Case(cached=True, static={"T": 1, "D": 64, "E": 64}),
            Case(cached=True, batch=True, static={"B": 2, "D": 8, "E": 8}, dtype=torch.bfloat16),
        ],
    )
    for i in range(len(cases.cases)):
        for t, s, c in ((1, 1, 1), (1, 7, 40), (5, 33, 100), (1, 1025, 1500), (20, 600, 601)):
            cases.check(i, {"T": t, "S": s, "C": c}, threads=2)


def test_head_sizes_that_are_not_static(tmp_path: Path) -> None:
    cases = Cases(
        tmp_path,
        [
            Case(static={}),
            Case(static={"D": 8}, causal="top_left"),
            Case(static={"E": 8}, batch=True),
            Case(static={"D": 0, "E": 8}),
            Case(static={"D": 8, "E": 0}),
            Case(static={"D": 300, "E": 700}),
        ],
    )
    for i in range(len(cases.cases)):
        for sizes in ((1, 3, 5, 1, 1), (0, 2, 9, 4, 4), (2, 5, 700, 33, 17), (3, 1, 9, 0, 5)):
            cases.check(i, dict(zip("BTSDE", sizes, strict=True)))


def test_results_do_not_depend_on_the_number_of_threads(tmp_path: Path) -> None:
    cases = Cases(tmp_path, [Case(causal="bottom_right"), Case(static={"T": 1, "D": 16, "E": 16})])
    for i in range(len(cases.cases)):
        for s in (100, 3000):
            results = [cases.check(i, {"T": 30, "S": s}, threads) for threads in (1, 2, 3)]
            assert all(torch.equal(results[0], other) for other in results[1:])
