"""Random programs with many buffers, planned into one workspace, against NumPy.

A buffer that shares space with another one still alive gives wrong numbers; the workspace is
filled with NaN, so a buffer read where it was not written gives NaN.
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

PROGRAMS = 24
# Name of a size class -> its value from the argument's size.
CLASSES = {
    "n": lambda n: n,
    "m": lambda n: 2 * n + 5,
    "small": lambda n: 16,
    "large": lambda n: 300,
}
TYPES = {"n": "?xf32", "m": "?xf32", "small": "16xf32", "large": "300xf32"}
MAP = "affine_map<(i) -> (i)>"


class Program:
    """One function as MLIR text and as a Python function over the same statements."""

    def __init__(self, name: str, seed: int, layers: list[Program]) -> None:
        self.name, self.layers = name, layers
        self.random = random.Random(seed)
        self.count = 0
        self.code = self.block({"n": ["x", "w"], "m": [], "small": [], "large": []}, 12, 0)

    def fresh(self) -> str:
        self.count += 1
        return f"b{self.count}"

    def block(self, scope: dict[str, list[str]], statements: int, depth: int) -> list[tuple]:
        """Statements over the buffers in scope, by size class; what they allocate ends here."""
        scope = {size: list(names) for size, names in scope.items()}
        code: list[tuple] = []
        for _ in range(statements):
            size = self.random.choice([size for size in CLASSES if depth == 0 or scope[size]])
            kind = self.random.choices(
                ["new", "update", "for", "if", "call"], [5, 3, depth < 2, depth < 2, 1]
            )[0]
            written = [name for name in scope[size] if name not in ("x", "w")]
            if kind == "new" or (kind == "update" and not written):
                target = self.fresh()
                code.append(("alloc", target, size))
                sources = scope[size] or ["x"]
                if scope[size]:
                    code.append(("average", target, size, *self.random.choices(sources, k=2)))
                else:
                    code.append(("splat", target, size, self.random.choice(scope["n"])))
                scope[size].append(target)
            elif kind == "update":
                target = self.random.choice(written)
                sources = self.random.choices(scope[size], k=2)
                code.append(("average", target, size, *sources))
            elif kind in ("for", "if"):
                inner = [self.block(scope, 5, depth + 1) for _ in range(1 + (kind == "if"))]
                code.append((kind, *inner))
            elif self.layers:
                target = self.fresh()
                layer = self.random.choice(self.layers)
                code.append(("alloc", target, "n"))
                code.append(("call", target, layer, *self.random.choices(scope["n"], k=2)))
                scope["n"].append(target)
        if depth == 0:
            # Everything that is left counts, in an order that keeps some alive for long.
            for size in CLASSES:
                for name in self.random.sample(scope[size], len(scope[size])):
                    code.append(("add", size, name))
        return code

    def mlir(self, attributes: str) -> str:
        """The function; it adds to %y, of the same size as %x and %w."""
        kinds = (("x", "input"), ("w", "input"), ("y", "state"))
        entry = "buddy.entry" in attributes
        arguments = ", ".join(
            f"%{name}: memref<?xf32>"
            + (f' {{buddy.kind = "{kind}", buddy.name = "{name}", buddy.shape = ["n"]}}' * entry)
            for name, kind in kinds
        )
        visibility = "" if entry else "private "
        return f"""
func.func {visibility}@{self.name}({arguments}) {attributes} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c5 = arith.constant 5 : index
  %half = arith.constant 0.5 : f32
  %small = arith.constant 16 : index
  %large = arith.constant 300 : index
  %n = memref.dim %x, %c0 : memref<?xf32>
  %twice = arith.muli %n, %c2 : index
  %m = arith.addi %twice, %c5 : index
  %odd = arith.remui %n, %c2 : index
  %condition = arith.cmpi eq, %odd, %c1 : index
{self.lines(self.code)}  return
}}
"""

    def lines(self, code: list[tuple]) -> str:
        text = ""
        for op, *rest in code:
            if op == "alloc":
                target, size = rest
                dynamic = f"%{size}" if size in "nm" else ""
                text += f"%{target} = memref.alloc({dynamic}) : memref<{TYPES[size]}>\n"
            elif op == "average":
                target, size, a, b = rest
                type_ = f"memref<{TYPES[size]}>"
                text += f"""
linalg.generic {{indexing_maps = [{MAP}, {MAP}, {MAP}], iterator_types = ["parallel"]}}
  ins(%{a}, %{b} : {type_}, {type_}) outs(%{target} : {type_}) {{
^bb0(%l: f32, %r: f32, %o: f32):
  %sum = arith.addf %l, %r : f32
  %average = arith.mulf %sum, %half : f32
  linalg.yield %average : f32
}}
"""
            elif op == "splat":
                target, size, source = rest
                value = self.fresh()
                text += f"%{value} = memref.load %{source}[%c0] : memref<?xf32>\n"
                text += f"linalg.fill ins(%{value} : f32) outs(%{target} : memref<{TYPES[size]}>)\n"
            elif op == "call":
                target, layer, a, b = rest
                text += f"linalg.fill ins(%half : f32) outs(%{target} : memref<?xf32>)\n"
                text += f"func.call @{layer.name}(%{a}, %{b}, %{target})"
                text += " : (memref<?xf32>, memref<?xf32>, memref<?xf32>) -> ()\n"
            elif op == "for":
                text += (
                    f"scf.for %{self.fresh()} = %c0 to %c3 step %c1 {{\n{self.lines(rest[0])}}}\n"
                )
            elif op == "if":
                text += f"scf.if %condition {{\n{self.lines(rest[0])}}} else {{\n"
                text += f"{self.lines(rest[1])}}}\n"
            elif op == "add":
                size, name = rest
                # The last element is added to the first of y.
                value, last = self.fresh(), self.fresh()
                text += f"%{last} = arith.subi %{size}, %c1 : index\n"
                text += f"%{value} = memref.load %{name}[%{last}] : memref<{TYPES[size]}>\n"
                text += f"%{value}y = memref.load %y[%c0] : memref<?xf32>\n"
                text += f"%{value}s = arith.addf %{value}, %{value}y : f32\n"
                text += f"memref.store %{value}s, %y[%c0] : memref<?xf32>\n"
        return text

    def run(self, x: np.ndarray, w: np.ndarray, y: np.ndarray) -> None:
        self.interpret(self.code, {"x": x, "w": w}, y)

    def interpret(self, code: list[tuple], values: dict[str, np.ndarray], y: np.ndarray) -> None:
        n = len(values["x"])
        for op, *rest in code:
            if op == "alloc":
                values[rest[0]] = np.full(CLASSES[rest[1]](n), np.nan, np.float32)
            elif op == "average":
                target, _, a, b = rest
                values[target][:] = (values[a] + values[b]) * np.float32(0.5)
            elif op == "splat":
                values[rest[0]][:] = values[rest[2]][0]
            elif op == "call":
                target, layer, a, b = rest
                values[target][:] = 0.5
                layer.run(values[a], values[b], values[target])
            elif op == "for":
                for _ in range(3):
                    self.interpret(rest[0], dict(values), y)
            elif op == "if":
                self.interpret(rest[n % 2 == 0], dict(values), y)
            elif op == "add":
                y[0] += values[rest[1]][-1]


@pytest.fixture(scope="module")
def programs() -> list[Program]:
    layers: list[Program] = []
    for seed in range(4):
        layers.append(Program(f"layer{seed}", seed, list(layers)))
    return [*layers, *(Program(f"main{i}", 100 + i, layers) for i in range(PROGRAMS))]


@pytest.fixture(scope="module")
def library(programs: list[Program], tmp_path_factory: pytest.TempPathFactory) -> Library:
    source = "".join(
        program.mlir("attributes {buddy.entry}" if program.name.startswith("main") else "")
        for program in programs
    )
    return Library(compile_module(source, tmp_path_factory.mktemp("memory"), optimize=1))


@pytest.mark.parametrize("n", [1, 2, 17, 40])
def test_buffers_that_share_space_are_never_alive_together(
    programs: list[Program], library: Library, n: int
) -> None:
    assert sum("memref.alloc" in program.mlir("") for program in programs) == len(programs)
    for program in programs:
        if not program.name.startswith("main"):
            continue
        x, w, y = np.random.default_rng(n).standard_normal((3, n), np.float32)
        expected = y.copy()
        program.run(x, w, expected)
        context = Context()
        assert library.run(program.name, context, x, w, y) == 0, context.message
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4, err_msg=program.name)


def test_space_is_shared(programs: list[Program], library: Library) -> None:
    """The workspaces together are well under the sum of all buffers."""
    n = 1000
    x = np.zeros(n, np.float32)

    def buffers(program: Program, code: list[tuple]) -> int:
        total = 0
        for op, *rest in code:
            if op == "alloc":
                total += 4 * CLASSES[rest[1]](n)
            elif op == "call":
                total += buffers(rest[1], rest[1].code)
            elif op in ("for", "if"):
                total += sum(buffers(program, inner) for inner in rest)
        return total

    mains = [program for program in programs if program.name.startswith("main")]
    planned = sum(library.workspace_size(p.name, Context(), x, x, x) for p in mains)
    assert 0 < planned < 0.6 * sum(buffers(program, program.code) for program in mains)
