"""Numbers of bf16 contractions by matrix tiles (AMX), of any size, layout and schedule.

Compiled for a CPU with AMX as far as vector code, the tiles then emulated, so that rows, columns,
strides and what is left over are checked where the CPU has none.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from buddy.aot import blocks

sys.path.insert(0, str(Path(__file__).resolve().parent))

import calling
from calling import LLVM, Context, needs_tools
from test_contractions import TRANSPOSES, Case, Library, run, sizes_of
from test_epilogues import LINEAR, PLAIN, PRODUCTS, Product
from test_quantized import FORMATS, entry, expected

FLAGS = Path("/proc/cpuinfo").read_text()
pytestmark = [
    needs_tools,
    # What is no tile is code for the machine of the test.
    pytest.mark.skipif("avx512_bf16" not in FLAGS, reason="the CPU has no bf16 dot products"),
]

BF16 = (torch.bfloat16,) * 3
WIDE = (torch.bfloat16, torch.bfloat16, torch.float32)
SIZES = (0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 49, 70)


def lower(source: Path, output: Path) -> list[str]:
    """Compile for AMX, emulate tiles, go on for this machine; return which functions had some."""
    vectors, scalars = (output.with_suffix(suffix) for suffix in (".vectors.mlir", ".scalars.mlir"))
    emulate = "builtin.module(func.func(buddy-emulate-amx),buddy-set-target{target=native})"
    pipeline = "--buddy-pipeline=target=sapphirerapids stop-after=kernel"
    run("buddy-opt", pipeline, source, "-o", vectors)
    run("buddy-opt", f"--pass-pipeline={emulate}", vectors, "-o", scalars)
    run("buddy-opt", "--buddy-pipeline=start-from=llvm", scalars, "-o", output)
    functions = vectors.read_text().split("func.func @")[1:]
    return [text.partition("(")[0] for text in functions if "amx.tile_mul" in text]


class Emulated(Library):
    """Cases of which each uses tiles."""

    # What emulates them is much code, and not what is tested.
    flags = ("-O1",)

    def lower(self, source: Path, output: Path) -> None:
        tiled = lower(source, output)
        untiled = [c for i, c in enumerate(self.cases) if f"case{i}" not in tiled]
        assert not untiled


# Rows of the first factor are contiguous.
TILED = TRANSPOSES[:2]


def check_sizes(library: Library, generator: random.Random, rounds: int = 16) -> None:
    for i, case in enumerate(library.cases):
        for round_ in range(rounds):
            library.check(i, sizes_of(case, SIZES, generator), threads=1 + round_ % 2)


def test_any_size(tmp_path: Path) -> None:
    """Rows, columns and reductions around a tile and a register tile, over several blocks."""
    plain, linear = TILED
    cases = [Case(plain, BF16), Case(linear, WIDE)]
    cases += [Case(plain, WIDE, from_zero=False), Case(linear, BF16, from_zero=False)]
    library = Emulated(tmp_path, cases)
    generator = random.Random(1)
    check_sizes(library, generator, 30)
    for i in range(len(cases)):
        # More than one block of the reduction, and of rows.
        for m, n, k in ((33, 40, 1030), (70, 33, 513), (530, 17, 40), (600, 65, 1025), (9, 5, 512)):
            library.check(i, {"m": m, "n": n, "k": k}, threads=2)


def test_batches_and_broadcasts(tmp_path: Path) -> None:
    maps = [
        ("bmk", "bkn", "bmn"),
        ("bmk", "bnk", "bmn"),
        ("bmk", "kn", "bmn"),
        ("hgtd", "hsd", "hgts"),
        ("bmk", "bnk", "mbn"),
        ("mlk", "nlk", "mn"),  # two reductions
        ("mk", "nk", "nm"),  # the first operand is the columns' one
    ]
    cases = [Case(m, BF16 if i % 2 else WIDE, from_zero=i != 1) for i, m in enumerate(maps)]
    check_sizes(Emulated(tmp_path, cases), random.Random(2))


def test_strides(tmp_path: Path) -> None:
    layouts: list[list[int | None]] = [[None, 1], [1, None], [None, None]]
    cases = [
        Case(("mk", "kn", "mn"), BF16, strides=([None, 1], b, c), from_zero=b is not c)
        for b in layouts
        for c in layouts[::2]
    ]
    library = Emulated(tmp_path, cases)
    check_sizes(library, random.Random(3), 12)
    for i in range(len(cases)):
        library.check(i, {"m": 41, "n": 37, "k": 600})


def test_static_sizes(tmp_path: Path) -> None:
    cases = []
    for m, n, k in ((32, 64, 64), (16, 32, 33), (17, 33, 701), (544, 8, 32)):
        for maps in TILED:
            for static in ("mnk", "nk") if maps == TILED[1] else ("mnk",):
                sizes = {"m": m, "n": n, "k": k}
                cases.append(Case(maps, BF16, static=static, sizes=sizes, from_zero=m != 17))
    library = Emulated(tmp_path, cases)
    for i, case in enumerate(cases):
        library.check(i, case.sizes or {}, threads=2)


def test_weights_in_panels(tmp_path: Path) -> None:
    """They are read where they lie, columns and reductions beyond the end in them or not."""
    cases = [
        Case(maps, BF16, static="nk", sizes={"n": n, "k": k}, packed=True, from_zero=n != 70)
        for n, k in ((64, 64), (70, 90), (33, 1031), (8, 33))
        for maps in TILED
    ]
    library = Emulated(tmp_path, cases)
    assert len(library.packings) == len(cases)
    for i, case in enumerate(cases):
        for m in (1, 7, 8, 16, 33, 600):
            library.check(i, {**(case.sizes or {}), "m": m}, threads=2)


def test_any_schedule(tmp_path: Path) -> None:
    generator = random.Random(4)
    cases = []
    for _ in range(6):
        mc, kc = 32 * generator.choice((1, 2, 3)), 32 * generator.choice((1, 2, 5))
        schedule = (
            f"mr = {generator.choice((1, 2, 4, 8))}, nr = {generator.choice((1, 2))}, vl = 16,"
            f" scalable = false, mc = {mc}, kc = {kc}, ku = 2,"
            f" dot_m = {generator.choice((0, 1, 20))}, pack_m = {generator.choice((0, 64))},"
            f" pairs = true, tile_m = {generator.choice((1, 2, 9, 40))}"
        )
        maps = generator.choice(TILED)
        cases.append(Case(maps, BF16, schedule=schedule, from_zero=generator.random() < 0.5))
    check_sizes(Emulated(tmp_path, cases), generator, 12)


def test_epilogues(tmp_path: Path) -> None:
    """They take a task's sums from the scratch buffer, without the rows beyond the end."""
    maps = (LINEAR, PLAIN, ("bmk", "bnk", "bmn"))
    products = [
        Product(**{**vars(p), "dtype": torch.bfloat16})
        for p in PRODUCTS
        if p.maps in maps and p.out_dtype is None
    ][::2]
    source, lowered, library = (tmp_path / name for name in ("cases.mlir", "low.mlir", "cases.so"))
    source.write_text("\n".join(p.mlir(f"case{i}") for i, p in enumerate(products)))
    assert len(lower(source, lowered)) == len(products)
    run("buddy-llc", lowered, "--shared", "-O1", f"--rpath={LLVM / 'lib'}", "-o", library)
    generator = random.Random(5)
    for i, product in enumerate(products):
        for round_ in range(8):
            sizes = {d: generator.choice((1, 9, 16, 33, 70)) for d in "mnk"}
            product.check(calling.Library(library), i, {**sizes, "b": 2}, threads=1 + round_ % 2)
        for m, n, k in ((145, 33, 1030), (65, 40, 513)):
            product.check(calling.Library(library), i, {"m": m, "n": n, "k": k, "b": 1}, threads=2)


def test_infinities_and_nans(tmp_path: Path) -> None:
    """What is beyond the reduction is zero in both factors, and rows do not mix."""
    library = Emulated(tmp_path, [Case(maps, BF16) for maps in TILED])
    for i in range(len(TILED)):
        for m in (17, 40):
            a, b = torch.ones(m, 33, dtype=torch.bfloat16), torch.ones(40, 33).bfloat16()
            a[0, 32], b[7, 32] = float("inf"), float("nan")
            c = torch.empty(m, 40, dtype=torch.bfloat16)
            transposed = library.cases[i].maps[1] == "kn"
            library.call(i, (a, b.t().contiguous() if transposed else b, c), 1)
            expected = a.double() @ b.double().t()
            torch.testing.assert_close(c.double(), expected, equal_nan=True)


@pytest.mark.parametrize("form", FORMATS)
def test_quantised_weights(tmp_path: Path, form: str) -> None:
    """Byte tiles of 16 rows, the rest by dot products; panels with columns beyond the end."""
    _buddy = pytest.importorskip("_buddy")
    shapes = [(64, 64), (33, 96), (100, 320), (1, 32)]
    text = "\n".join(entry(f"f_{n}_{k}", n, k, form) for n, k in shapes)
    module = _buddy.Module(text.encode())
    module.pipeline("target=sapphirerapids stop-after=graph")
    packings = module.packings()
    source, lowered, library = (tmp_path / name for name in ("cases.mlir", "low.mlir", "cases.so"))
    source.write_text(text)
    assert len(lower(source, lowered)) == len(shapes)
    run("buddy-llc", lowered, "--shared", "-O1", f"--rpath={LLVM / 'lib'}", "-o", library)
    compiled = calling.Library(library)
    rng = np.random.default_rng(1)
    for n, k in shapes:
        weight = blocks.quantize(rng.standard_normal((n, k)).astype(np.float32), form)
        packed = blocks.pack(weight, packings[f"f_{n}_{k}"])
        for m in (0, 1, 15, 16, 17, 48, 307):
            x = rng.standard_normal((m, k)).astype(np.float32)
            y, e = np.full((m, n), np.nan, np.float32), np.empty(n, np.float32)
            assert compiled.run(f"f_{n}_{k}", Context(2), x, packed, y, e) == 0
            want, size = expected(x, weight)
            assert (np.abs(y - want) <= 3e-6 * size + 1e-12).all(), (n, k, m)


@pytest.mark.skipif("amx_tile" in FLAGS, reason="the CPU has AMX")
def test_a_cpu_without_amx_is_told(tmp_path: Path) -> None:
    """An entry asks for the tile registers before it uses them; what it says is no SIGILL."""
    source, lowered, library = (tmp_path / name for name in ("case.mlir", "low.mlir", "case.so"))
    case = Case(("mk", "nk", "mn"), WIDE, static="mnk", sizes={"m": 32, "n": 32, "k": 32})
    source.write_text(case.mlir("product"))
    run("buddy-opt", "--buddy-pipeline=target=sapphirerapids", source, "-o", lowered)
    run("buddy-llc", lowered, "--shared", f"--rpath={LLVM / 'lib'}", "-o", library)
    context = Context(1)
    x = torch.ones(32, 32, dtype=torch.bfloat16).view(torch.int16).numpy()
    y = torch.zeros(32, 32).numpy()
    assert calling.Library(library).run("product", context, x, x, y) == 10
    assert b"AMX" in context.message
    assert not y.any()
