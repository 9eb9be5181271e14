"""Random element-wise ops, reductions and copies over buffers of any layout, against NumPy.

Ranks, sizes (1 and 0 among them), permutations, broadcasts, strides and slices of what is passed
are drawn; loads and stores that take a layout for another one give wrong numbers or do not verify.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from calling import Context, Library, compile_module, needs_tools

pytestmark = needs_tools

PROGRAMS, FUNCTIONS = 6, 10
SIZES = (0, 1, 1, 2, 3, 5, 16, 17, 33, 70)


def layout(draw: random.Random, shape: tuple[int, ...]) -> np.ndarray:
    """An array of the shape: a permuted, stepped part of a larger one."""
    order = list(range(len(shape)))
    draw.shuffle(order)
    if draw.random() < 0.4:
        order.sort()
    steps = [draw.choice([1, 1, 1, 2, 3]) for _ in shape]
    memory = np.random.default_rng(draw.randrange(1 << 30)).standard_normal(
        [shape[i] * steps[i] + draw.choice([0, 0, 2]) for i in order], dtype=np.float32
    )
    view = memory.transpose([order.index(i) for i in range(len(shape))])
    return view[(..., *[slice(0, n * s, s) for n, s in zip(shape, steps, strict=True)])]


class Operand:
    """An array of the shape, or a slice of one that has a dimension more."""

    def __init__(self, name: str, draw: random.Random, shape: tuple[int, ...]) -> None:
        # With sizes of 1 it is not told which dimension a slice drops; of 0 there are none.
        sliced = all(n > 1 for n in shape) and draw.random() < 0.6
        at = draw.randrange(len(shape) + 1) if sliced else None
        outer = shape if at is None else (*shape[:at], 3, *shape[at:])
        self.passed = layout(draw, outer)
        if at == len(shape) and draw.random() < 0.7:
            # What is left is contiguous, though the array's last dimension is its outermost.
            self.passed = np.moveaxis(np.ascontiguousarray(np.moveaxis(self.passed, -1, 0)), 0, -1)
        self.array = self.passed
        self.name, self.code = f"%{name}", ""
        sizes = [str(n) for n in outer]
        strides = [str(s // 4) if draw.random() < 0.7 else "?" for s in self.passed.strides]
        if at is None:
            sizes = [n if draw.random() < 0.7 else "?" for n in sizes]
        self.passed_type = self.type = _type(sizes, strides, "")
        if at is not None:
            self.array = self.passed[(slice(None),) * at + (1, ...)]
            offset = "" if strides[at] == "0" else f", offset: {strides[at]}"
            self.type = _type(
                sizes[:at] + sizes[at + 1 :], strides[:at] + strides[at + 1 :], offset
            )
            places = ", ".join("1" if i == at else "0" for i in range(len(outer)))
            extent = ", ".join("1" if i == at else n for i, n in enumerate(sizes))
            ones = ", ".join(["1"] * len(outer))
            self.code = (
                f"    %{name}_part = memref.subview {self.name}[{places}] [{extent}] [{ones}]"
                f" : {self.passed_type} to {self.type}\n"
            )
        self.used = self.name if at is None else f"%{name}_part"


def _type(sizes: list[str], strides: list[str], offset: str) -> str:
    shape = "".join(f"{n}x" for n in sizes)
    return f"memref<{shape}f32, strided<[{', '.join(strides)}]{offset}>>"


class Function:
    """`output[kept loops] (+)= sum of inputs`, each input with a subset of the loops, permuted."""

    def __init__(self, name: str, seed: int) -> None:
        draw = random.Random(seed)
        rank = draw.randrange(5)
        loops = tuple(draw.choice(SIZES) for _ in range(rank))
        if np.prod(loops) > 100000:
            loops = tuple(min(n, 5) for n in loops)
        self.reduced = [i for i in range(rank) if draw.random() < 0.35]
        kept = [i for i in range(rank) if i not in self.reduced]
        # One input has all loops, so that their sizes are known.
        used = [list(range(rank))]
        for _ in range(draw.randrange(3)):
            used.append([i for i in range(rank) if draw.random() < 0.6])
        for dims in [*used, kept]:
            if draw.random() < 0.5:
                draw.shuffle(dims)
        self.loops, self.used, self.kept = loops, used, kept
        self.operands = [
            Operand(f"a{i}", draw, tuple(loops[i] for i in dims))
            for i, dims in enumerate([*used, kept])
        ]
        self.name = name

    def text(self) -> str:
        *inputs, output = self.operands
        kinds = ["input"] * len(inputs) + ["state"]
        arguments = ", ".join(
            f'{x.name}: {x.passed_type} {{buddy.kind = "{kind}", buddy.name = "{x.name[1:]}"}}'
            for x, kind in zip(self.operands, kinds, strict=True)
        )
        names, types = [x.used for x in inputs], [x.type for x in inputs]
        domain = ", ".join(f"d{i}" for i in range(len(self.loops)))
        maps = ", ".join(
            f"affine_map<({domain}) -> ({', '.join(f'd{i}' for i in dims)})>"
            for dims in (*self.used, self.kept)
        )
        kinds_ = ", ".join(
            f'"{"reduction" if i in self.reduced else "parallel"}"' for i in range(len(self.loops))
        )
        elements = ", ".join(f"%e{i}: f32" for i in range(len(self.operands)))
        adds, total = "", "%e0"
        for i in range(1, len(self.operands)):
            adds += f"      %s{i} = arith.addf {total}, %e{i} : f32\n"
            total = f"%s{i}"
        return (
            f"  func.func @{self.name}({arguments}) attributes {{buddy.entry}} {{\n"
            f"{''.join(x.code for x in self.operands)}"
            f"    linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds_}]}}\n"
            f"      ins({', '.join(names)} : {', '.join(types)})\n"
            f"      outs({output.used} : {output.type}) {{\n"
            f"    ^bb0({elements}):\n{adds}      linalg.yield {total} : f32\n    }}\n"
            "    return\n  }\n"
        )

    def expected(self) -> np.ndarray:
        total = np.zeros(self.loops)
        for dims, operand in zip(self.used, self.operands, strict=False):
            ordered = operand.array.transpose([dims.index(i) for i in sorted(dims)])
            index = tuple(slice(None) if i in dims else None for i in range(len(self.loops)))
            total = total + ordered[index]
        reduced = total.sum(tuple(self.reduced))
        order = sorted(self.kept)
        return self.operands[-1].array + reduced.transpose([order.index(i) for i in self.kept])


@pytest.mark.parametrize("program", range(PROGRAMS))
def test_random_layouts(program: int, tmp_path: Path) -> None:
    functions = [Function(f"f{i}", 100 * program + i) for i in range(FUNCTIONS)]
    source = "module {\n" + "".join(f.text() for f in functions) + "}\n"
    library = Library(compile_module(source, tmp_path))
    for function in functions:
        expected = function.expected()
        passed = [operand.passed for operand in function.operands]
        context = Context()
        assert library.run(function.name, context, *passed) == 0, context.message
        np.testing.assert_allclose(
            function.operands[-1].array, expected, rtol=1e-4, atol=1e-3, err_msg=function.text()
        )
