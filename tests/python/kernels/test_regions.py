"""Random chains of loops over few buffers, merged into parallel regions, against NumPy.

Each op reads its inputs transposed, by row or by column, so that a thread reads what others wrote;
buffers are overwritten while earlier ops have just read them. A barrier that is missing, an op that
moved past one that it depends on, or buffers that share memory too early give wrong numbers.
"""

from __future__ import annotations

import random
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from calling import Context, Library, compile_module, needs_tools

pytestmark = needs_tools

PROGRAMS, OPS = 12, 14
# Below and above what is worth several threads; with 600, each op is by itself.
SIZES = (0, 1, 5, 130, 300, 600)
THREADS = (1, 2, 3, 7)
MATRICES, VECTORS = ("%a", "%b", "%c", "%d", "%e"), ("%v", "%w")
MAPS = {
    "plain": "(d0, d1)",
    "transposed": "(d1, d0)",
    "row": "(d0)",
    "column": "(d1)",
    "scalar": "()",
}


class Op:
    """`output = inputs[0] / 2 + inputs[1]`, or a maximum along rows of a matrix, or of all."""

    def __init__(self, draw: random.Random) -> None:
        kind = draw.random()
        self.reduces = kind < 0.3
        if kind < 0.2:
            self.output, self.access = draw.choice(VECTORS), "row"
        elif kind < 0.3:
            self.output, self.access = "%s", "scalar"
        else:
            self.output, self.access = draw.choice(MATRICES), "plain"
        self.inputs = []
        for _ in range(1 if self.reduces else 2):
            if self.reduces or draw.random() < 0.6:
                # In place without a permutation only: the loops have no order.
                name = draw.choice(MATRICES)
                access = "plain" if name == self.output else draw.choice(["plain", "transposed"])
            elif draw.random() < 0.8:
                name, access = draw.choice(VECTORS), draw.choice(["row", "column"])
            else:
                name, access = "%s", "scalar"
            self.inputs.append((name, access))

    def text(self) -> str:
        def type_of(name: str) -> str:
            if name == "%s":
                return "memref<f32>"
            return "memref<?x?xf32>" if name in MATRICES else "memref<?xf32>"

        names = ", ".join(name for name, _ in self.inputs)
        types = ", ".join(type_of(name) for name, _ in self.inputs)
        maps = ", ".join(
            f"affine_map<(d0, d1) -> {MAPS[access]}>"
            for access in (*(access for _, access in self.inputs), self.access)
        )
        iterators = {"plain": ("parallel",) * 2, "row": ("parallel", "reduction")}
        kinds = ", ".join(f'"{k}"' for k in iterators.get(self.access, ("reduction",) * 2))
        if self.reduces:
            # Exact in any order, which a sum is not.
            body = "%r = arith.maximumf %x0, %o : f32"
        else:
            body = "%h = arith.mulf %x0, %half : f32\n    %r = arith.addf %h, %x1 : f32"
        arguments = ", ".join(f"%x{i}: f32" for i in range(len(self.inputs)))
        return (
            f"  linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}\n"
            f"      ins({names} : {types}) outs({self.output} : {type_of(self.output)}) {{\n"
            f"  ^bb0({arguments}, %o: f32):\n    {body}\n    linalg.yield %r : f32\n  }}\n"
        )

    def run(self, values: dict[str, np.ndarray]) -> None:
        def read(name: str, access: str) -> np.ndarray:
            value = values[name]
            if access == "transposed":
                return value.T
            return value[:, None] if access == "row" else value

        inputs = [read(*each) for each in self.inputs]
        output = values[self.output]
        if not self.reduces:
            output[...] = inputs[0] * np.float32(0.5) + inputs[1]
        elif self.access == "row":
            np.maximum(output, inputs[0].max(axis=1, initial=-np.inf), out=output)
        else:
            output[...] = np.maximum(output, inputs[0].max(initial=-np.inf))


class Program:
    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        self.name = f"chain{seed}"
        self.ops = [Op(draw) for _ in range(OPS)]

    def text(self) -> str:
        def argument(name: str, type_: str) -> str:
            return f'{name}: {type_} {{buddy.kind = "state", buddy.name = "{name[1:]}"}}'

        # %d and %e are temporary; %e starts as a copy of %a so that nothing is undefined.
        arguments = ", ".join(
            [argument(name, "memref<?x?xf32>") for name in MATRICES[:3]]
            + [argument(name, "memref<?xf32>") for name in VECTORS]
            + [argument("%s", "memref<f32>")]
        )
        return (
            f"func.func @{self.name}({arguments}) attributes {{buddy.entry, buddy.may_copy}} {{\n"
            "  %c0 = arith.constant 0 : index\n  %half = arith.constant 0.5 : f32\n"
            "  %n = memref.dim %a, %c0 : memref<?x?xf32>\n"
            "  %d = memref.alloc(%n, %n) : memref<?x?xf32>\n"
            "  memref.copy %b, %d : memref<?x?xf32> to memref<?x?xf32>\n"
            + "".join(op.text() for op in self.ops[: OPS // 2])
            # Allocated late, so that it could take the memory of one that is dead.
            + "  %e = memref.alloc(%n, %n) : memref<?x?xf32>\n"
            "  memref.copy %a, %e : memref<?x?xf32> to memref<?x?xf32>\n"
            + "".join(op.text() for op in self.ops[OPS // 2 :])
            + "  return\n}\n"
        )

    def inputs(self, size: int) -> list[np.ndarray]:
        draw = np.random.default_rng(size)
        matrices = [draw.standard_normal((size, size), dtype=np.float32) for _ in range(3)]
        vectors = [draw.standard_normal(size, dtype=np.float32) for _ in range(2)]
        return [*matrices, *vectors, np.array(0.25, np.float32)]

    def expected(self, size: int) -> list[np.ndarray]:
        values = dict(zip((*MATRICES[:3], *VECTORS, "%s"), self.inputs(size), strict=True))
        values["%d"] = values["%b"].copy()
        for i, op in enumerate(self.ops):
            if i == OPS // 2:
                values["%e"] = values["%a"].copy()
            op.run(values)
        return [values[name] for name in (*MATRICES[:3], *VECTORS, "%s")]


def _avoid_late(program: Program) -> Program:
    """%e is not there before the second half."""
    for op in program.ops[: OPS // 2]:
        op.inputs = [("%d" if name == "%e" else name, access) for name, access in op.inputs]
        op.output = "%d" if op.output == "%e" else op.output
        op.inputs = [
            (name, "plain" if name == op.output and name in MATRICES else access)
            for name, access in op.inputs
        ]
    return program


@pytest.fixture(scope="module")
def programs() -> list[Program]:
    return [_avoid_late(Program(seed)) for seed in range(PROGRAMS)]


@pytest.fixture(scope="module")
def library(programs: list[Program], tmp_path_factory: pytest.TempPathFactory) -> Library:
    source = "".join(program.text() for program in programs)
    return Library(compile_module(source, tmp_path_factory.mktemp("regions")))


def check(library: Library, program: Program, size: int, threads: int) -> None:
    arrays = program.inputs(size)
    context = Context(threads)
    assert library.run(program.name, context, *arrays) == 0, context.message
    for name, got, want in zip("abcvws", arrays, program.expected(size), strict=True):
        # Halves and sums of two and maxima: each is rounded as in NumPy.
        np.testing.assert_array_equal(got, want, f"{program.name}: %{name}, {size}, {threads}")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("threads", THREADS)
def test_no_loop_runs_before_what_it_depends_on(
    programs: list[Program], library: Library, size: int, threads: int
) -> None:
    for program in programs:
        # Whether threads overlap is chance.
        for _ in range(3):
            check(library, program, size, threads)


def test_calls_at_the_same_time(programs: list[Program], library: Library) -> None:
    with ThreadPoolExecutor(4) as pool:
        calls = [
            pool.submit(check, library, program, size, 2)
            for size in (130, 300)
            for program in programs
        ]
        for call in calls:
            call.result()
