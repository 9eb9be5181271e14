"""The same operation compiled by Buddy and by inductor, called with the least overhead.

`compile_direct` goes through the importer to a library and calls its entry with the tensors
themselves, results allocated beforehand.  `compile_through` gives a graph to a backend of
torch.compile and calls what it returned without Dynamo's guards; results are allocated at each
call, so that ours and inductor's kernels are called the same way.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import torch

from buddy import panels
from buddy.aot.errors import BundleError
from buddy.aot.export import ignore_torchs_own_warnings
from buddy.backend import CompileError, Options, buddy_backend, cache
from buddy.backend.call import BLOCK_TIME_MS
from buddy.backend.library import build_id, check_target, compiler, load
from buddy.bench.harness import Call
from buddy.importer import UnsupportedOpsError, import_exported_program

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
# Relative to the largest value of the reference; a wrong result is no competitor.
_TOLERANCE = {
    torch.float64: 1e-9,
    torch.float32: 1e-3,
    torch.complex64: 1e-3,
    torch.bfloat16: 5e-2,
    torch.float16: 1e-2,
}

Function = Callable[..., torch.Tensor]


class _Wrapped(torch.nn.Module):
    """A function, some of whose inputs are parameters: `weight0` is input 0, and so on."""

    def __init__(self, function: Function, weights: dict[int, torch.Tensor]) -> None:
        super().__init__()
        self._function, self._indices = function, list(weights)
        for i, weight in weights.items():
            self.register_parameter(f"weight{i}", torch.nn.Parameter(weight, requires_grad=False))

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        values = list(inputs)
        for i in self._indices:
            values.insert(i, getattr(self, f"weight{i}"))
        return self._function(*values)


def compile_direct(
    function: Function,
    inputs: Sequence[torch.Tensor],
    threads: int,
    weights: Collection[int] = (),
) -> Callable[[Sequence[torch.Tensor]], Call]:
    """Compile for the sizes of `inputs`; return what makes a call of other inputs of the same form.

    weights: indices of inputs that are laid out for the kernels ahead of the calls, if the compiler
    wants it.  The calls return the result's tensor, the same one at each call.
    """
    parameters = {i: inputs[i] for i in sorted(weights)}
    others = [i for i in range(len(inputs)) if i not in parameters]
    try:
        with warnings.catch_warnings():
            ignore_torchs_own_warnings()
            wrapped = _Wrapped(function, parameters)
            passed = tuple(inputs[i] for i in others)
            program = torch.export.export(wrapped, passed, strict=False)
            formats = {f"weight{i}": panels.PLAIN for i in parameters}
            module = import_exported_program(program, name="bench", weight_formats=formats)
        library = load(module, Options(threads=threads))
    except (UnsupportedOpsError, CompileError, RuntimeError) as error:
        raise BundleError(f"buddy cannot compile this case: {first_line(error)}") from error
    info = module.entry

    def bind(values: Sequence[torch.Tensor]) -> Call:
        passed, result = [], None
        for arg in info.args:
            if arg.kind == "output":
                result = torch.empty_strided(arg.shape, arg.strides, dtype=arg.dtype)
                passed.append(result)
            elif arg.kind == "weight":
                value = values[int(arg.name.removeprefix("weight"))]
                packing = library.packings.get(arg.name)
                passed.append(value if packing is None else panels.pack(value, packing))
            else:
                assert arg.placeholder is not None
                passed.append(values[others[arg.placeholder - len(parameters)]])
        arguments = tuple(passed)

        def call() -> Any:
            library.entry(arguments, (), threads, BLOCK_TIME_MS)
            return result

        return call

    return bind


def compile_through(
    backend: str, function: Function, inputs: Sequence[torch.Tensor], threads: int
) -> Callable[[Sequence[torch.Tensor]], Call]:
    """As `compile_direct`, by the backend `buddy` or `inductor` (with freezing)."""
    made: list[Any] = []

    def keep(gm: torch.fx.GraphModule, example_inputs: Any) -> Callable[..., Any]:
        compiled = _compile(backend, gm, example_inputs, threads)

        def run(*arguments: Any) -> Any:
            made[:] = [compiled, arguments]
            return compiled(*arguments)

        return run

    torch._dynamo.reset()
    try:
        with torch.no_grad():
            torch.compile(function, backend=keep, fullgraph=True, dynamic=False)(*inputs)
    except Exception as error:  # whatever a compiler meets
        raise BundleError(f"{backend} cannot compile this case: {first_line(error)}") from error
    compiled, arguments = made
    # Dynamo passes the inputs in the order of their use.
    order = [next(i for i, given in enumerate(inputs) if given is arg) for arg in arguments]

    def bind(values: Sequence[torch.Tensor]) -> Call:
        passed = tuple(values[i] for i in order)
        return lambda: compiled(*passed)[0]

    return bind


def _compile(backend: str, gm: Any, inputs: Any, threads: int) -> Callable[..., Any]:
    if backend == "buddy":
        return buddy_backend(gm, inputs, options={"fallback": "error", "threads": threads})
    import torch._inductor.config
    from torch._inductor.compile_fx import compile_fx

    with torch._inductor.config.patch(freezing=True):
        compiled: Any = compile_fx(gm, inputs)
        return compiled


def first_line(error: BaseException) -> str:
    """What an error says, as one line; Dynamo's "backend=… raised:" says nothing by itself."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].endswith(":"):
        return f"{lines[0]} {lines[1]}"
    return lines[0] if lines else type(error).__name__


def check_same(case: str, calls: dict[str, Call], reference: str) -> float:
    """Compare each result with the one named `reference`.

    Returns the largest difference, relative to the reference's largest value; raises BundleError
    if one is wrong.
    """
    expected = calls[reference]().clone()
    exact = torch.complex128 if expected.is_complex() else torch.float64
    wide = expected.to(exact)
    scale = float(wide.abs().max()) if wide.numel() else 0.0
    worst = 0.0
    for name, call in calls.items():
        result = call()
        error = result.reshape(expected.shape).to(exact) - wide
        difference = float(error.abs().max()) if error.numel() else 0.0
        relative = difference / scale if scale else difference
        if not relative <= _TOLERANCE.get(expected.dtype, 0.0):
            raise BundleError(
                f"{case}: {name}'s result differs from {reference}'s by {relative:.2g} of its "
                "largest value"
            )
        worst = max(worst, relative)
    return worst


def load_text(text: str, symbol: str, signature: Sequence[Any]) -> Any:
    """The `_buddy.Callable` of an entry of a module given as text."""
    key = cache.make_key([build_id(), compiler().llvm_version, *check_target("native"), text])

    def build(output: Path) -> bytes:
        module = compiler().Module(text.encode())
        module.pipeline("target=native")
        module.compile(str(output), shared=True)
        return b""

    with cache.library(key, build, rebuild=False) as (path, _):
        return compiler().Callable(str(path), symbol, list(signature))
