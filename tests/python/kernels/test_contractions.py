"""Numbers of compiled contractions: any shape, layout, dtype and schedule against torch.

Every test compiles one module with many entry points through the whole pipeline and calls them
with many sizes: 0, 1, sizes around a vector and around a register tile, and larger odd ones.
"""

from __future__ import annotations

import ctypes
import os
import random
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from buddy import panels

BUILD = Path(os.environ.get("BUDDY_BUILD_DIR", Path(__file__).resolve().parents[3] / "build"))
CONTEXT_SIZE, ABI_VERSION, MESSAGE_OFFSET = 512, 1, 80

pytestmark = pytest.mark.skipif(
    not all((BUILD / "bin" / tool).exists() for tool in ("buddy-opt", "buddy-llc")),
    reason="buddy-opt and buddy-llc are not built",
)

MLIR_TYPES = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.int8: "i8",
    torch.int32: "i32",
    torch.int64: "i64",
}
# Error of a sum relative to the sum of its terms' magnitudes.
TOLERANCES = {
    torch.float32: 2e-6,
    torch.float64: 1e-14,
    torch.bfloat16: 5e-3,
    torch.float16: 6e-4,
}
# What rounding to a denormal adds: half of the distance between two of them.
ROUNDING = {torch.float16: 2.0**-25}


@dataclass
class Case:
    """One entry point: `c += einsum(a, b)`, or `c = einsum(a, b)` if `from_zero`.

    A shape entry of None is dynamic, and so is a stride of None; without strides an operand is
    contiguous. `sizes` are those that static dimensions have. `packed`: B is a weight that may
    lie in panels; its dimensions are static.
    """

    maps: tuple[str, str, str]
    dtypes: tuple[torch.dtype, torch.dtype, torch.dtype] = (torch.float32,) * 3
    from_zero: bool = True
    static: str = ""
    sizes: dict[str, int] | None = None
    strides: tuple[list[int | None] | None, ...] = (None, None, None)
    schedule: str = ""
    packed: bool = False

    def mlir(self, name: str) -> str:
        dims = sorted(set("".join(self.maps)))
        sizes = self.sizes or {}

        def shape(map_: str) -> list[str]:
            return [str(sizes[d]) if d in self.static else "?" for d in map_]

        elements = [MLIR_TYPES[dtype] for dtype in self.dtypes]
        memrefs, tensors, attributes = [], [], []
        for i, (map_, element, strides) in enumerate(
            zip(self.maps, elements, self.strides, strict=True)
        ):
            body = "".join(f"{s}x" for s in shape(map_)) + element
            layout = ""
            if strides is not None:
                layout = ", strided<[" + ", ".join("?" if s is None else str(s) for s in strides)
                layout += "]>"
            memrefs.append(f"memref<{body}{layout}>")
            tensors.append(f"tensor<{body}>")
            kind = "input" if i < 2 else "output" if self.from_zero else "state"
            title, more = "abc"[i], ""
            if i == 1 and self.packed:
                kind, title, more = "weight", f"{name}.b", ', buddy.format = "plain"'
            symbols = ", ".join(f'"{sizes[d] if d in self.static else d}"' for d in map_)
            attributes.append(
                f'{{buddy.kind = "{kind}", buddy.name = "{title}", '
                f"buddy.shape = [{symbols}]{more}}}"
            )
        affine = [f"affine_map<({', '.join(dims)}) -> ({', '.join(m)})>" for m in self.maps]
        lines = [
            f"func.func @{name}("
            + ", ".join(
                f"%m{i}: {t} {a}" for i, (t, a) in enumerate(zip(memrefs, attributes, strict=True))
            )
            + ") attributes {buddy.entry} {"
        ]
        for i in range(2):
            lines.append(
                f"%t{i} = bufferization.to_tensor %m{i} restrict : {memrefs[i]} to {tensors[i]}"
            )
        if self.from_zero:
            dynamic = []
            for i, d in enumerate(self.maps[2]):
                if d not in self.static:
                    lines.append(f"%i{i} = arith.constant {i} : index")
                    lines.append(f"%d{i} = memref.dim %m2, %i{i} : {memrefs[2]}")
                    dynamic.append(f"%d{i}")
            zero = "0.0" if self.dtypes[2].is_floating_point else "0"
            lines += [
                f"%e = tensor.empty({', '.join(dynamic)}) : {tensors[2]}",
                f"%z = arith.constant {zero} : {elements[2]}",
                f"%t2 = linalg.fill ins(%z : {elements[2]}) outs(%e : {tensors[2]})"
                f" -> {tensors[2]}",
            ]
        else:
            lines.append(
                f"%t2 = bufferization.to_tensor %m2 restrict writable : {memrefs[2]}"
                f" to {tensors[2]}"
            )
        schedule = (
            f"{{buddy.schedule = #buddy.schedule<{self.schedule}>}} " if self.schedule else ""
        )
        lines += [
            f"%r = linalg.contract indexing_maps = [{', '.join(affine)}] {schedule}"
            f"ins(%t0, %t1 : {tensors[0]}, {tensors[1]}) outs(%t2 : {tensors[2]})"
            f" -> {tensors[2]}",
            f"bufferization.materialize_in_destination %r in restrict writable %m2"
            f" : ({tensors[2]}, {memrefs[2]}) -> ()",
            "return",
            "}",
        ]
        return "\n".join(lines)

    def operand(self, i: int, sizes: dict[str, int]) -> torch.Tensor:
        """Random values in the layout that the entry point declares."""
        shape = [sizes[d] for d in self.maps[i]]
        dtype, strides = self.dtypes[i], self.strides[i]

        def values(of: Sequence[int]) -> torch.Tensor:
            if dtype.is_floating_point:
                return torch.randn(of).to(dtype)
            return torch.randint(-9, 10, tuple(of)).to(dtype)

        if strides is None:
            return values(shape)
        if 1 not in strides:
            return values(shape[:-1] + [2 * shape[-1]])[..., ::2]
        # The contiguous dimension is the last in memory, and rows are padded.
        order = [d for d in range(len(shape)) if d != strides.index(1)] + [strides.index(1)]
        stored = [shape[d] for d in order]
        stored[-1] += 3
        return values(stored)[..., : stored[-1] - 3].permute(
            [order.index(d) for d in range(len(shape))]
        )


def descriptor(tensor: torch.Tensor) -> ctypes.Structure:
    rank = tensor.dim()

    class MemRef(ctypes.Structure):
        _fields_ = [
            ("base", ctypes.c_void_p),
            ("aligned", ctypes.c_void_p),
            ("offset", ctypes.c_int64),
            ("sizes", ctypes.c_int64 * rank),
            ("strides", ctypes.c_int64 * rank),
        ]

    # An empty tensor has no storage, and an entry refuses a null pointer.
    data = tensor.data_ptr() or ctypes.addressof(_EMPTY)
    array = ctypes.c_int64 * rank
    return MemRef(data, data, 0, array(*tensor.shape), array(*tensor.stride()))


_EMPTY = ctypes.create_string_buffer(64)


def run(tool: str, *arguments: str | Path) -> None:
    result = subprocess.run([BUILD / "bin" / tool, *arguments], capture_output=True, text=True)
    assert result.returncode == 0, f"{tool}: {result.stderr[:2000]}"


class Library:
    """The cases compiled to one shared library."""

    flags: tuple[str, ...] = ()

    def __init__(self, directory: Path, cases: Sequence[Case], target: str = "native") -> None:
        self.cases = cases
        source, lowered = directory / "cases.mlir", directory / "lowered.mlir"
        source.write_text("\n".join(case.mlir(f"case{i}") for i, case in enumerate(cases)))
        library = directory / "cases.so"
        self.target = target
        self.lower(source, lowered)
        run("buddy-llc", lowered, "--shared", *self.flags, "-o", library)
        self.library = ctypes.CDLL(str(library))
        self.packings: dict[str, dict] = {}
        if any(case.packed for case in cases):
            module = pytest.importorskip("_buddy").Module(source.read_bytes())
            module.pipeline(f"target={target} stop-after=graph")
            self.packings = module.packings()

    def lower(self, source: Path, output: Path) -> None:
        """Imported module to LLVM dialect."""
        run("buddy-opt", f"--buddy-pipeline=target={self.target}", source, "-o", output)

    def call(self, index: int, tensors: Sequence[torch.Tensor], threads: int) -> None:
        context = ctypes.create_string_buffer(CONTEXT_SIZE + 64)
        base = ctypes.addressof(context)
        ctypes.c_uint32.from_address(base).value = ABI_VERSION
        ctypes.c_int32.from_address(base + 4).value = threads
        arguments = [ctypes.c_void_p(base), *map(ctypes.byref, map(descriptor, tensors))]
        measure = getattr(self.library, f"case{index}_workspace_size")
        measure.restype = ctypes.c_int64
        size = measure(*arguments)
        assert size >= 0, ctypes.string_at(base + MESSAGE_OFFSET)
        workspace = ctypes.create_string_buffer(size + 64)
        address = (ctypes.addressof(workspace) + 63) // 64 * 64
        ctypes.c_void_p.from_address(base + 16).value = address
        ctypes.c_int64.from_address(base + 24).value = size
        code = getattr(self.library, f"case{index}")(*arguments)
        assert code == 0, ctypes.string_at(base + MESSAGE_OFFSET)

    def check(self, index: int, sizes: dict[str, int], threads: int = 1) -> None:
        """Call a case with these sizes and compare with a product in double precision."""
        case = self.cases[index]
        torch.manual_seed(hash((index, *sizes.values())) % 2**31)
        a, b, c = (case.operand(i, sizes) for i in range(3))
        floats = c.dtype.is_floating_point
        wide = torch.float64 if floats else torch.int64
        equation = f"{case.maps[0]},{case.maps[1]}->{case.maps[2]}"
        # Integers too: double holds these sums exactly.
        product = torch.einsum(equation, a.double(), b.double()).to(wide)
        before = torch.zeros_like(c, dtype=wide) if case.from_zero else c.to(wide)
        expected = product + before
        if not case.from_zero:
            c = c.clone(memory_format=torch.preserve_format)
        packing = self.packings.get(f"case{index}.b")
        self.call(index, (a, b if packing is None else panels.pack(b, packing), c), threads)
        what = f"case {index}: {case}, sizes {sizes}, {threads} threads"
        if not floats:
            assert torch.equal(c.to(wide), expected.to(c.dtype).to(wide)), what
            return
        magnitude = torch.einsum(equation, a.double().abs(), b.double().abs()) + before.abs()
        error = (c.double() - expected).abs() - TOLERANCES[c.dtype] * magnitude
        error -= ROUNDING.get(c.dtype, 0.0)
        assert error.numel() == 0 or float(error.max()) <= 1e-30, what


TRANSPOSES = [
    ("mk", "kn", "mn"),
    ("mk", "nk", "mn"),
    ("km", "kn", "mn"),
    ("km", "nk", "mn"),
    ("mk", "kn", "nm"),
    ("mk", "nk", "nm"),
]
OTHERS = [
    ("bmk", "bkn", "bmn"),
    ("bmk", "bnk", "bmn"),
    ("bmk", "kn", "bmn"),  # one B for all of the batch
    ("mk", "bnk", "bmn"),
    ("hgtd", "hsd", "hgts"),  # grouped heads: query times key
    ("hgts", "hsd", "hgtd"),  # grouped heads: scores times value
    ("bmk", "bnk", "mbn"),
    ("mkl", "lkn", "mn"),  # two reductions
    ("mk", "k", "m"),
    ("k", "kn", "n"),
    ("k", "nk", "n"),
    ("bk", "bk", "b"),  # a dot product a row, which has no columns
]
SIZES = (0, 1, 2, 3, 17, 33)


def sizes_of(case: Case, sizes: Iterable[int], generator: random.Random) -> dict[str, int]:
    """Random sizes; the larger batch-like dimensions are kept small."""
    pool = list(sizes)
    return {
        d: (case.sizes or {})[d]
        if d in case.static
        else generator.choice(pool if d in "mnktsd" else (0, 1, 2, 3))
        for d in sorted(set("".join(case.maps)))
    }


def test_transposes_of_any_size(tmp_path: Path) -> None:
    library = Library(tmp_path, [Case(maps) for maps in TRANSPOSES])
    for i in range(len(TRANSPOSES)):
        for m in SIZES:
            for n in SIZES:
                for k in SIZES:
                    library.check(i, {"m": m, "n": n, "k": k})
        # Blocks of the reduction and of rows, and their remainders.
        for m, n, k in ((1, 577, 577), (33, 1, 577), (145, 70, 577), (300, 40, 1030), (5, 5000, 9)):
            library.check(i, {"m": m, "n": n, "k": k}, threads=2)


@pytest.mark.parametrize("from_zero", [True, False])
def test_batches_broadcasts_and_vectors(tmp_path: Path, from_zero: bool) -> None:
    library = Library(tmp_path, [Case(maps, from_zero=from_zero) for maps in TRANSPOSES + OTHERS])
    generator = random.Random(1)
    for i, case in enumerate(library.cases):
        for round_ in range(16):
            library.check(i, sizes_of(case, (*SIZES, 70), generator), threads=1 + round_ % 2)


@pytest.mark.parametrize(
    "dtypes",
    [
        (torch.float64,) * 3,
        (torch.bfloat16, torch.bfloat16, torch.float32),
        (torch.float32, torch.bfloat16, torch.float32),
        (torch.bfloat16,) * 3,
        (torch.float16, torch.float16, torch.float32),
        (torch.float16,) * 3,
        (torch.int32,) * 3,
        (torch.int64,) * 3,
        (torch.int8, torch.int8, torch.int32),
    ],
    ids=lambda dtypes: "-".join(MLIR_TYPES[d] for d in dtypes),
)
def test_element_types(tmp_path: Path, dtypes: tuple[torch.dtype, ...]) -> None:
    maps = [("mk", "kn", "mn"), ("km", "nk", "mn"), ("bmk", "bnk", "bmn"), ("k", "kn", "n")]
    library = Library(tmp_path, [Case(m, dtypes, from_zero=m[0] != "km") for m in maps])
    generator = random.Random(2)
    for i, case in enumerate(library.cases):
        for _ in range(16):
            library.check(i, sizes_of(case, (*SIZES, 70, 300), generator))


PACKED = [("mk", "nk", "mn"), ("mk", "kn", "mn"), ("km", "nk", "mn"), ("bmk", "nk", "bmn"),
          ("k", "kn", "n"), ("mk", "nk", "nm")]  # fmt: skip


@pytest.mark.parametrize(
    "dtypes",
    [
        (torch.float32,) * 3,
        (torch.float64,) * 3,
        (torch.bfloat16,) * 3,
        (torch.bfloat16, torch.bfloat16, torch.float32),
        (torch.float32, torch.bfloat16, torch.float32),
        (torch.float16,) * 3,
    ],
    ids=lambda dtypes: "-".join(MLIR_TYPES[d] for d in dtypes),
)
def test_weights_in_panels(tmp_path: Path, dtypes: tuple[torch.dtype, ...]) -> None:
    cases = [
        Case(maps, dtypes, static="nk", sizes={"n": n, "k": k}, packed=True, from_zero=k % 2 == 0)
        for maps in PACKED
        for n, k in ((64, 64), (2, 1), (33, 17), (70, 300), (577, 33), (5, 0), (1, 9))
    ]
    library = Library(tmp_path, cases)
    # Whatever computes vectors along n takes panels; a single column has none. A product of f32
    # and bf16 reads its bf16 elements one by one.
    for i, case in enumerate(cases):
        wants = case.maps[2][-1] == "n" and (case.sizes or {})["n"] > 1 and (case.sizes or {})["k"]
        wants = wants and dtypes[:2] != (torch.float32, torch.bfloat16)
        assert (f"case{i}.b" in library.packings) == bool(wants), case
    generator = random.Random(7)
    for i, case in enumerate(cases):
        for threads in (1, 2, 1):
            library.check(i, sizes_of(case, (0, 1, 2, 7, 8, 9, 33, 150), generator), threads)


def test_schedules_of_panels(tmp_path: Path) -> None:
    """Tiles narrower than a panel divide it; what does not fit it is left to plain loops."""
    common = "scalable = false, mc = 12, kc = 64, dot_m = 4, pack_m = 8"
    tiles = ("mr = 4, nr = 1, vl = 16, ku = 2", "mr = 3, nr = 1, vl = 8, ku = 1",
             "mr = 2, nr = 3, vl = 8, ku = 1", "mr = 2, nr = 1, vl = 64, ku = 1")  # fmt: skip
    cases = [
        Case(("mk", "nk", "mn"), static="nk", sizes={"n": 70, "k": 90}, packed=True,
             schedule=f"{tile}, {common}")
        for tile in tiles
    ]  # fmt: skip
    library = Library(tmp_path, cases)
    assert len(library.packings) == len(cases)
    for i in range(len(cases)):
        for m in (1, 3, 4, 13, 40):
            library.check(i, {"m": m, "n": 70, "k": 90}, threads=2)


def test_strided_views(tmp_path: Path) -> None:
    layouts: list[list[int | None]] = [[None, 1], [1, None], [None, None]]
    cases = [
        Case(("mk", "kn", "mn"), strides=(a, b, c), from_zero=b is not a)
        for a in layouts
        for b in layouts
        for c in layouts[::2]
    ]
    library = Library(tmp_path, cases)
    generator = random.Random(3)
    for i, case in enumerate(cases):
        for _ in range(8):
            library.check(i, sizes_of(case, (1, 2, 3, 17, 33, 70), generator))


def test_static_sizes(tmp_path: Path) -> None:
    generator = random.Random(4)
    cases = []
    for m, n, k in ((1, 64, 48), (8, 32, 16), (7, 33, 17), (3, 577, 64), (40, 31, 300), (64, 1, 5)):
        for maps in (("mk", "kn", "mn"), ("mk", "nk", "mn"), ("km", "nk", "nm")):
            for static in ("mnk", "nk", "k"):
                sizes = {"m": m, "n": n, "k": k}
                cases.append(Case(maps, static=static, sizes=sizes, from_zero=m != 7))
    library = Library(tmp_path, cases)
    for i, case in enumerate(cases):
        sizes = case.sizes or {}
        library.check(i, sizes, threads=2)
        library.check(i, sizes_of(case, SIZES, generator))


def test_any_valid_schedule(tmp_path: Path) -> None:
    """A schedule decides speed, never results."""
    generator = random.Random(5)
    cases = []
    for _ in range(24):
        vl = generator.choice((1, 2, 4, 8, 16, 32))
        mr = generator.choice((1, 2, 3, 5, 8))
        schedule = (
            f"mr = {mr}, nr = {generator.choice((1, 2, 3))}, vl = {vl}, scalable = false,"
            f" mc = {mr * generator.choice((1, 2, 7))}, kc = {vl * generator.choice((1, 3))},"
            f" ku = {generator.choice((1, 2, 3))}, dot_m = {generator.choice((0, 1, 3, 64))},"
            f" pack_m = {generator.choice((0, 2, 64))}"
        )
        maps = generator.choice((*TRANSPOSES, *OTHERS[:8]))
        cases.append(Case(maps, schedule=schedule, from_zero=generator.random() < 0.5))
    library = Library(tmp_path, cases)
    for i, case in enumerate(cases):
        for _ in range(12):
            library.check(i, sizes_of(case, (*SIZES, 70), generator), threads=2)


HALVES = (torch.bfloat16, torch.float16)


@pytest.mark.parametrize("dtype", HALVES, ids=lambda dtype: MLIR_TYPES[dtype])
def test_half_transposes_of_any_size(tmp_path: Path, dtype: torch.dtype) -> None:
    """Odd reductions, odd rows and columns, sums over one block of the reduction and over many."""
    maps = [*TRANSPOSES, ("bmk", "bnk", "bmn"), ("mkl", "lkn", "mn"), ("k", "kn", "n"), OTHERS[8]]
    cases = [Case(m, (dtype,) * 3, from_zero=i % 2 == 0) for i, m in enumerate(maps)]
    cases += [Case(m, (dtype, dtype, torch.float32)) for m in maps[:2]]
    library = Library(tmp_path, cases)
    generator = random.Random(6)
    for i, case in enumerate(cases):
        for round_ in range(30):
            library.check(i, sizes_of(case, (*SIZES, 8, 70), generator), threads=1 + round_ % 2)
        for m, n, k in ((1, 70, 1601), (9, 33, 1030), (40, 65, 513), (3, 5000, 31)):
            sizes = sizes_of(case, SIZES, generator)
            named = {"m": m, "n": n, "k": k}
            library.check(i, {d: named.get(d, size) for d, size in sizes.items()})


@pytest.mark.parametrize("dtype", HALVES, ids=lambda dtype: MLIR_TYPES[dtype])
def test_half_strides_and_static_sizes(tmp_path: Path, dtype: torch.dtype) -> None:
    layouts: list[list[int | None]] = [[None, 1], [1, None], [None, None]]
    cases = [
        Case(("mk", "kn", "mn"), (dtype,) * 3, strides=(a, b, c), from_zero=b is not a)
        for a in layouts
        for b in layouts
        for c in layouts[::2]
    ]
    for m, n, k in ((1, 64, 48), (8, 32, 16), (7, 33, 17), (3, 577, 64), (40, 31, 701), (64, 1, 5)):
        for maps in (("mk", "kn", "mn"), ("mk", "nk", "mn"), ("km", "nk", "nm")):
            sizes = {"m": m, "n": n, "k": k}
            cases.append(Case(maps, (dtype,) * 3, static="mnk", sizes=sizes, from_zero=m != 7))
    library = Library(tmp_path, cases)
    generator = random.Random(7)
    for i, case in enumerate(cases):
        for _ in range(1 if case.static else 8):
            library.check(i, sizes_of(case, (1, 2, 3, 17, 33, 70), generator))


def test_bfloat16_error_is_that_of_eager(tmp_path: Path) -> None:
    """Mean error against double precision; sums of many terms, where it would grow."""
    cases = [Case(m, (torch.bfloat16,) * 3) for m in TRANSPOSES[:2]]
    library = Library(tmp_path, cases)
    for i, case in enumerate(cases):
        for m in (1, 4, 33):
            sizes = {"m": m, "n": 96, "k": 4095}
            torch.manual_seed(m)
            a, b, c = (case.operand(j, sizes) for j in range(3))
            library.call(i, (a, b, c), 1)
            b = b if i == 0 else b.t()
            exact = a.double() @ b.double()
            ours, eager = ((x.double() - exact).abs().mean() for x in (c, a @ b))
            assert ours <= 1.5 * eager, (case.maps, m, float(ours), float(eager))


def test_infinities_and_nans_of_bfloat16(tmp_path: Path) -> None:
    """What is beyond an odd reduction is zero in both factors, not in one."""
    case = Case(("mk", "nk", "mn"), (torch.bfloat16,) * 3)
    library = Library(tmp_path, [case])
    for m in (1, 40):
        a, b = torch.ones(m, 33, dtype=torch.bfloat16), torch.ones(40, 33, dtype=torch.bfloat16)
        a[0, 32], b[7, 32] = float("inf"), float("nan")
        c = torch.empty(m, 40, dtype=torch.bfloat16)
        library.call(0, (a, b, c), 1)
        expected = a.double() @ b.double().t()
        torch.testing.assert_close(c.double(), expected, equal_nan=True)
