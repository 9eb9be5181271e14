"""LSTM, GRU and plain RNN: a loop over time, in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from mlir import ir
from mlir.dialects import arith, math

from buddy.recurrence import EMPTY, GATES

from .. import scalars, types
from ..builder import PARALLEL, Builder
from ..errors import Unsupported
from ..registry import lowers
from ..shapes import squeeze
from ..values import Tensor
from .contraction import linear
from .functions import relu, sigmoid

# From the gates' parts of the input and of the state, and the old c (LSTM) or h, to the new h, and
# c (LSTM).
Gates = Sequence[ir.Value]
Cell = Callable[[torch.dtype, Gates, Gates, ir.Value], list[ir.Value]]


def _lstm(dtype: torch.dtype, x: Gates, y: Gates, c: ir.Value) -> list[ir.Value]:
    i, f, g, o = (arith.addf(a, b) for a, b in zip(x, y, strict=True))
    kept = arith.mulf(sigmoid(dtype, f), c)
    c = arith.addf(kept, arith.mulf(sigmoid(dtype, i), math.tanh(g)))
    return [arith.mulf(sigmoid(dtype, o), math.tanh(c)), c]


def _gru(dtype: torch.dtype, x: Gates, y: Gates, h: ir.Value) -> list[ir.Value]:
    reset, update = (sigmoid(dtype, arith.addf(x[i], y[i])) for i in (0, 1))
    new = math.tanh(arith.addf(x[2], arith.mulf(reset, y[2])))
    return [arith.addf(arith.mulf(arith.subf(h, new), update), new)]


def _tanh(dtype: torch.dtype, x: Gates, y: Gates, h: ir.Value) -> list[ir.Value]:
    return [math.tanh(arith.addf(x[0], y[0]))]


def _relu(dtype: torch.dtype, x: Gates, y: Gates, h: ir.Value) -> list[ir.Value]:
    return [relu(dtype, arith.addf(x[0], y[0]))]


_CELLS: dict[str, Cell] = {"lstm": _lstm, "gru": _gru, "tanh": _tanh, "relu": _relu}


@lowers(torch.ops.buddy.recurrence.default)
def _recurrence(
    b: Builder,
    x: Tensor,
    h: Tensor,
    c: Tensor | None,
    weight: Tensor,
    bias: Tensor | None,
    projection: Tensor | None,
    kind: str,
    reverse: bool,
) -> tuple[Tensor, ...]:
    if any(other is not None and other.dtype is not x.dtype for other in (h, c, weight, bias)):
        raise Unsupported("operands of several dtypes")
    time, batch, _ = x.shape
    size = h.shape[1] if projection is None else projection.shape[1]
    dtype, compute = x.dtype, types.opmath(x.dtype)
    _check_time(b, time)
    x = b.plain(x)
    identity = ir.AffineMap.get_identity(2)

    def gates(source: Tensor) -> list[Tensor]:
        """The parts [B, H] of [B, G * H]."""
        return [
            b.extract_slice(source, [0, gate * size], [batch, size], [1, 1])
            for gate in range(GATES[kind])
        ]

    def cell(given: list[Tensor], own: list[Tensor], before: Tensor, cells: list[ir.Value]) -> Any:
        """The new h, and an LSTM's c, which overwrites the old one."""
        inputs = [*given, *own, *([] if cells else [before])]

        def body(*elements: ir.Value) -> list[ir.Value]:
            # Not the place of the new h, which holds nothing yet.
            used = elements[: len(inputs)] + elements[len(inputs) + 1 :]
            types_ = [*(part.dtype for part in inputs), *[dtype] * len(cells)]
            wide = [scalars.cast(e, type_, compute) for e, type_ in zip(used, types_, strict=True)]
            count = len(given)
            results = _CELLS[kind](compute, wide[:count], wide[count : 2 * count], wide[-1])
            return [scalars.cast(result, compute, dtype) for result in results]

        return b.generic(
            [(b.value(part), identity) for part in inputs],
            [(value, identity) for value in (b.empty((batch, size), dtype), *cells)],
            [PARALLEL] * 2,
            body,
        )

    def row(moment: Any) -> list[Any]:
        return [moment, 0, 0]

    def step(at: list[ir.Value], carried: list[ir.Value]) -> list[ir.Value]:
        moment, one = at[0], b.index_constant(1)
        if reverse:
            moment = arith.subi(arith.subi(b.index(time), one), moment)
        after = arith.addi(moment, one)
        source, target = (after, moment) if reverse else (moment, after)
        rows = Tensor.plain(carried[0], dtype, (time + 1, *h.shape))
        before = squeeze(b, b.extract_slice(rows, row(source), [1, *h.shape], [1] * 3), [0])
        given = squeeze(b, b.extract_slice(x, row(moment), [1, *x.shape[1:]], [1] * 3), [0])
        own = linear(b, before, weight, bias, compute)
        new, *cells = cell(gates(given), gates(own), b.plain(before), carried[1:])
        if projection is not None:
            new = linear(b, Tensor.plain(new, dtype, (batch, size)), projection, None, dtype).base
        return [b.insert_slice(new, rows.base, row(target), [1, *h.shape]), *cells]

    # One row more than there are steps: each reads its state in the row that the one before wrote.
    first, last = (time, 0) if reverse else (0, time)
    rows = b.empty((time + 1, *h.shape), dtype)
    rows = b.insert_slice(b.value(h), rows, row(first), [1, *h.shape])
    results = b.loop([time], [rows, *([] if c is None else [b.value(c)])], step)
    done = Tensor.plain(results[0], dtype, (time + 1, *h.shape))
    outputs = b.extract_slice(done, row(0 if reverse else 1), [time, *h.shape], [1] * 3)
    state = squeeze(b, b.extract_slice(done, row(last), [1, *h.shape], [1] * 3), [0])
    if c is not None:
        return outputs, state, Tensor.plain(results[1], dtype, c.shape)
    return outputs, state, Tensor.plain(b.empty((0,), dtype), dtype, (0,))


def _check_time(b: Builder, time: Any) -> None:
    if isinstance(time, int):
        if time == 0:
            raise Unsupported(EMPTY)
        return
    some = arith.cmpi(arith.CmpIPredicate.sgt, b.index(time), b.index_constant(0))
    b.check(some, EMPTY, precondition=True)
