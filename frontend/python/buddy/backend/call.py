"""From an entry point's signature to a Python function of a graph's arguments.

The function is generated as source, as there is one fixed thing to do for each graph: read the
symbols from the arguments, allocate the outputs, call, and put the results together.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv
from torch.utils._sympy.printers import PythonPrinter

from buddy import panels
from buddy.importer import ArgInfo, FunctionInfo, ImportGraphError

from .library import Library

# Milliseconds that idle workers of a pool of our own spin before they sleep; torch's pool, if it
# is libgomp's, is shared and spins as it does. Two pools want the same cores: with 2 threads on 2
# cores, pinned, a compiled and an eager layer in turns took 1.1 ms at 0, 4.0 ms at 1, and 1.0 ms
# on one pool.
BLOCK_TIME_MS = 0

# The most threads of a call; in a forked child, where libgomp's pool is gone, one.
_most_threads = [2**31 - 1]


def _after_fork() -> None:
    _most_threads[0] = 1


os.register_at_fork(after_in_child=_after_fork)


class _Printer(PythonPrinter):
    def _print_Where(self, expr: sympy.Expr) -> str:
        condition, yes, no = (self.doprint(arg) for arg in expr.args)
        return f"(({yes}) if ({condition}) else ({no}))"


class _Writer:
    """Collects the generated lines and the objects they name."""

    def __init__(self, info: FunctionInfo, unchecked: Mapping[int, str]):
        self.info, self.unchecked = info, unchecked
        self.lines: list[str] = []
        # `torch` and `math` are the printer's.
        self.names: dict[str, Any] = {
            # As inductor's code does: torch.empty_strided takes half a microsecond more.
            "empty_strided": torch._C._dynamo.guards._empty_strided_cpu,  # type: ignore[attr-defined]
            "torch": torch,
            "math": math,
        }
        self.symbols: dict[sympy.Symbol, str] = {}
        self.printer = _Printer()

    def add(self, line: str) -> None:
        self.lines.append(line)

    def name(self, prefix: str, value: Any) -> str:
        name = f"{prefix}{len(self.names)}"
        self.names[name] = value
        return name

    def expr(self, value: Any) -> str:
        if not isinstance(value, sympy.Basic):
            return repr(value)
        missing = value.free_symbols - self.symbols.keys()
        if missing:
            raise ImportGraphError(
                f"{self.info.name}: the size {value} of a result does not follow from the "
                "arguments' sizes"
            )
        # Dynamo names symbols as identifiers.
        return self.printer.doprint(value)

    def tuple(self, values: Sequence[Any]) -> str:
        return "(" + "".join(f"{self.expr(value)}, " for value in values) + ")"

    # ---- symbols --------------------------------------------------------------------------

    def bind_symbols(self) -> None:
        """Read every symbol from a size argument, else from a dimension that is the symbol."""
        sources = []
        for arg in self.info.args:
            if arg.kind == "size":
                code = f"args[{arg.placeholder}]"
                sources.append((arg.expr, f"int({code})" if arg.dtype is torch.bool else code))
        for arg in self.info.args:
            if arg.kind not in ("size", "output"):
                for method, dims in (("size", arg.shape), ("stride", arg.strides)):
                    sources += [
                        (dim, f"args[{arg.placeholder}].{method}({i})")
                        for i, dim in enumerate(dims)
                    ]
        sources = [(expr, code) for expr, code in sources if isinstance(expr, sympy.Basic)]
        # Plain symbols first; then sizes linear in one symbol.
        for expr, code in sources:
            if isinstance(expr, sympy.Symbol) and expr not in self.symbols:
                self._bind(expr, code)
        for expr, code in sources:
            if len(expr.free_symbols) == 1 and expr.free_symbols - self.symbols.keys():
                (symbol,) = expr.free_symbols
                if expr.is_polynomial(symbol) and sympy.degree(expr, symbol) == 1:
                    scale, offset = sympy.Poly(expr, symbol).all_coeffs()
                    size = sympy.Symbol("size", integer=True)
                    self.symbols[size] = "size"
                    self.add(f"size = {code}")
                    self._bind(symbol, self.expr(FloorDiv(size - offset, scale)))

    def _bind(self, symbol: sympy.Symbol, code: str) -> None:
        self.symbols[symbol] = str(symbol)
        self.add(f"{symbol} = {code}")

    # ---- arguments and results ------------------------------------------------------------

    def argument(self, index: int, arg: ArgInfo, packing: Mapping[str, Any] | None) -> str:
        if arg.kind != "output":
            assert arg.placeholder is not None
            given = f"args[{arg.placeholder}]"
            if packing is not None:
                return f"{self.name('packed', Packed(packing))}({given})"
            if arg.placeholder not in self.unchecked or arg.kind == "size":
                if arg.dtype is torch.float64 and arg.kind == "size":
                    self.names["bits"] = _bits
                    return f"bits({given})"
                return given
            self.names["conform"] = _conform
            self.add(
                f"in{index} = conform({given}, {self.tuple(arg.shape)}, "
                f"{self.tuple(arg.strides)}, {self.name('dtype', arg.dtype)}, "
                f"{self.unchecked[arg.placeholder]!r})"
            )
            return f"in{index}"
        dtype = self.name("dtype", arg.dtype)
        if arg.storage_offset != 0:
            # AOTAutograd reads the offset of a result that is a part of another tensor.
            self.names["place"] = _empty_at
            self.add(
                f"out{index} = place({self.tuple(arg.shape)}, {self.tuple(arg.strides)}, "
                f"{self.expr(arg.storage_offset)}, {dtype})"
            )
            return f"out{index}"
        sizes, strides = self.tuple(arg.shape), self.tuple(arg.strides)
        self.add(f"out{index} = empty_strided({sizes}, {strides}, {dtype})")
        return f"out{index}"

    def dynamic_sizes(self) -> str:
        dims = [
            dim
            for arg in self.info.args
            if arg.kind != "size"
            for dim in (*arg.shape, *arg.strides)
            if not isinstance(dim, int)
        ]
        return self.tuple(dims)


class Packed:
    """A weight in panels, packed anew where another tensor is passed or this one was written."""

    def __init__(self, packing: Mapping[str, Any]):
        self._packing = packing
        self._of: tuple[torch.Tensor, int, int] | None = None
        self._stored = torch.empty(0)

    def __call__(self, weight: torch.Tensor) -> torch.Tensor:
        """Return the weight as the library takes it."""
        # A tensor of inference mode counts no writes: it is taken to stay as it is.
        version = 0 if weight.is_inference() else weight._version
        pointer = weight.data_ptr()
        if self._of is None or self._of[1:] != (pointer, version):
            self._stored = panels.pack(weight, self._packing)
            # Held, so that its memory is not given to another one.
            self._of = (weight, pointer, version)
        return self._stored


def _empty_at(
    size: tuple[int, ...], stride: tuple[int, ...], offset: int, dtype: torch.dtype
) -> torch.Tensor:
    """Return an uninitialised tensor with a storage offset."""
    span = sum((n - 1) * s for n, s in zip(size, stride, strict=True)) + 1
    return torch.empty(max(span, 0) + offset, dtype=dtype).as_strided(size, stride, offset)


def _bits(value: float) -> int:
    """Return a float's bits, as an i64."""
    return int(struct.unpack("q", struct.pack("d", value))[0])


def _conform(
    tensor: torch.Tensor,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    dtype: torch.dtype,
    op: str,
) -> torch.Tensor:
    """Return an operator's result in the layout that its fake implementation promised."""
    if tensor.dtype is not dtype or tensor.shape != size or tensor.device.type != "cpu":
        raise RuntimeError(
            f"{op} returned {tensor.dtype} of shape {list(tensor.shape)} on {tensor.device}, but "
            f"its fake implementation promised {dtype} of shape {list(size)} on cpu"
        )
    if tensor.stride() == stride and not (tensor.is_conj() or tensor.is_neg()):
        return tensor
    return torch.empty_strided(size, stride, dtype=dtype).copy_(tensor)


def make_call(
    info: FunctionInfo,
    load: Callable[[], Library],
    threads: int | None,
    unchecked: Mapping[int, str],
) -> Callable[[list[Any]], list[Any]]:
    """Return a function that takes the graph's arguments as a list and returns its results.

    load: returns the library; it is not called if there is nothing to compute.
    threads: threads of a parallel region; None: torch's number at each call.
    unchecked: placeholder index -> operator that made the argument. Dynamo's guards cover the
        others; these are compared with their fake values at each call.
    """
    writer = _Writer(info, unchecked)
    writer.bind_symbols()
    computes = any(arg.kind == "output" or arg.mutated for arg in info.args)
    library = load() if computes else None
    packings = library.packings if library else {}
    # Results may be the arguments themselves, as they were passed.
    given = [writer.argument(i, arg, None) for i, arg in enumerate(info.args)]
    arguments = [
        writer.argument(i, arg, packings[arg.name]) if arg.name in packings else given[i]
        for i, arg in enumerate(info.args)
    ]
    if library:
        writer.names["entry"] = library.entry
        writer.names["num_threads"] = torch.get_num_threads
        writer.names["most_threads"] = _most_threads
        count = "num_threads()" if threads is None else repr(threads)
        count = f"min({count}, most_threads[0])"
        passed = "(" + "".join(f"{argument}, " for argument in arguments) + ")"
        writer.add(f"entry({passed}, {writer.dynamic_sizes()}, {count}, {BLOCK_TIME_MS})")
    results = []
    for output in info.outputs:
        if output.kind in ("new", "alias"):
            assert output.arg is not None
            results.append(given[output.arg])
        elif output.kind == "view":
            assert output.arg is not None
            base = given[output.arg]
            results.append(
                f"{base}.as_strided({writer.tuple(output.shape)}, {writer.tuple(output.strides)}, "
                f"{base}.storage_offset() + {writer.expr(output.offset)})"
            )
        else:
            results.append("None" if output.kind == "none" else writer.expr(output.expr))
    writer.add(f"return [{', '.join(results)}]")
    source = "def call(args):\n" + "".join(f"    {line}\n" for line in writer.lines)
    exec(compile(source, f"<buddy call of {info.name}>", "exec"), writer.names)
    return writer.names["call"]
