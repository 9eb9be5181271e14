"""Compiles many small programs as entry points of one module and compares them with eager.

One module costs one run of the compiler, so hundreds of programs take a minute.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from buddy.importer import decompositions, prepare_fx
from buddy.importer.module import ModuleBuilder
from functorch.compile import make_boxed_func
from harness import _copy, argument_specs, compile_entries
from torch._dynamo.backends.common import aot_autograd


@dataclass
class Program:
    """A function, the arguments it is run with, and its source where it was generated."""

    function: Callable[..., Any]
    args: Sequence[Any]
    source: str = ""


@dataclass
class _Traced:
    """A torch.compile backend: runs the graph as it is until `compiled` is set."""

    builder: ModuleBuilder
    name: str
    compiled: list[Callable[..., Any]] = field(default_factory=list)
    entries: list[str] = field(default_factory=list)

    def __call__(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        prepare_fx(gm)
        return aot_autograd(
            fw_compiler=self._add,
            inference_compiler=self._add,
            decompositions=decompositions(),
            keep_inference_input_mutations=True,
        )(gm, inputs)

    def _add(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        name = f"{self.name}_{len(self.entries)}"
        number = len(self.entries)
        self.entries.append(name)
        self.builder.add_function(gm, argument_specs(gm), name=name, may_copy=True)
        return make_boxed_func(
            lambda *args: self.compiled[number](args) if self.compiled else gm.forward(*args)
        )


def compile_programs(
    programs: Sequence[Program], dynamic: bool | None = False
) -> list[Callable[..., Any]]:
    """Compile all programs as entry points of one module; return what runs each.

    dynamic: sizes are symbols. Each program is traced by a call with its own arguments.
    """
    torch._dynamo.reset()
    builder = ModuleBuilder()
    traced, functions = [], []
    # Programs may be closures of one code, each of which Dynamo counts as compiling that again.
    limit = torch._dynamo.config.patch(recompile_limit=len(programs) + 1)
    with torch.no_grad(), limit:
        for number, program in enumerate(programs):
            backend = _Traced(builder, f"program{number}")
            function = torch.compile(
                program.function, backend=backend, fullgraph=True, dynamic=dynamic
            )
            function(*_copy(list(program.args)))
            traced.append(backend)
            functions.append(function)
        module = builder.finish()
        calls = iter(compile_entries(module, [name for t in traced for name in t.entries]))
        for backend in traced:
            backend.compiled = [next(calls) for _ in backend.entries]
    return functions


def mismatches(programs: Sequence[Program], dynamic: bool = False) -> list[str]:
    """Return what is wrong with the programs' results and mutated arguments: nothing, it is hoped.

    dynamic: sizes are symbols.
    """
    functions = compile_programs(programs, dynamic)
    wrong = []
    with torch.no_grad():
        for program, function in zip(programs, functions, strict=True):
            expected_args, actual_args = _copy(list(program.args)), _copy(list(program.args))
            expected = program.function(*expected_args)
            try:
                actual = function(*actual_args)
                torch.testing.assert_close(
                    (actual, actual_args),
                    (expected, expected_args),
                    rtol=1e-4,
                    atol=1e-4,
                    equal_nan=True,
                    check_stride=False,
                )
            except Exception as error:
                name = getattr(program.function, "__name__", "")
                wrong.append(f"{program.source or name}\n{error}")
    return wrong
