"""LSTM, GRU and plain RNN: a loop over time, in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from mlir import ir
from mlir.dialects import arith, math

from buddy.recurrence import EMPTY, GATES

from .. import scalars, types
from ..builder import PARALLEL, Builder
from ..errors import Unsupported
from ..registry import lowers
from ..values import Tensor
from .contraction import contract, linear
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


class _Rows:
    """A tensor over time, [T, ...]: a step reads or writes one moment of it."""

    def __init__(self, b: Builder, dtype: torch.dtype, time: Any, shape: Sequence[Any]):
        self.b, self.dtype, self.time, self.shape = b, dtype, time, list(shape)

    def empty(self) -> ir.Value:
        return self.b.empty((self.time, *self.shape), self.dtype)

    def read(self, rows: ir.Value, moment: ir.Value) -> Tensor:
        source = Tensor.plain(rows, self.dtype, (self.time, *self.shape))
        return Tensor.plain(self.b.part(source, [moment]), self.dtype, source.shape[1:])

    def write(self, row: ir.Value, rows: ir.Value, moment: Any) -> ir.Value:
        offsets = [moment, *[0] * len(self.shape)]
        return self.b.insert_slice(row, rows, offsets, [1, *self.shape])


class _Steps:
    """What the loops forth and back over time have in common; x: [T, B, G * H]."""

    def __init__(self, b: Builder, kind: str, x: Tensor, size: Any, reverse: bool):
        self.b, self.kind, self.reverse, self.dtype = b, kind, reverse, x.dtype
        self.time, self.batch, _ = x.shape
        self.size, self.compute = size, types.opmath(x.dtype)
        self.gates = _Rows(b, x.dtype, self.time, x.shape[1:])

    def split(self, row: Tensor) -> list[Tensor]:
        """The parts [B, H] of the gates [B, G * H]."""
        return [
            self.b.extract_slice(row, [0, gate * self.size], [self.batch, self.size], [1, 1])
            for gate in range(GATES[self.kind])
        ]

    def elementwise(
        self, inputs: list[Tensor], count: int, body: Callable[[list[ir.Value]], list[ir.Value]]
    ) -> list[ir.Value]:
        """`count` tensors [B, H] of the elements of others, computed in the wider dtype."""
        identity = ir.AffineMap.get_identity(2)

        def compute(*elements: ir.Value) -> list[ir.Value]:
            used = elements[: len(inputs)]  # the results' hold nothing yet
            pairs = zip(used, inputs, strict=True)
            wide = [scalars.cast(e, part.dtype, self.compute) for e, part in pairs]
            return [scalars.cast(value, self.compute, self.dtype) for value in body(wide)]

        empties = [self.b.empty((self.batch, self.size), self.dtype) for _ in range(count)]
        return self.b.generic(
            [(self.b.value(part), identity) for part in inputs],
            [(value, identity) for value in empties],
            [PARALLEL] * 2,
            compute,
        )

    def moment(self, step: ir.Value, backwards: bool) -> ir.Value:
        """The place in time of a step of the loop."""
        if not backwards:
            return step
        last = arith.subi(self.b.index(self.time), self.b.index_constant(1))
        return arith.subi(last, step)


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
    size = h.shape[1] if projection is None else projection.shape[1]
    steps = _Steps(b, kind, x, size, reverse)
    time, dtype = steps.time, x.dtype
    _check_time(b, time)
    given = b.value(x)
    # One row more than there are steps: each reads its state in the row that the one before wrote.
    states = [h] if c is None else [h, c]
    rows = [_Rows(b, dtype, time + 1, state.shape) for state in states]

    def step(at: list[ir.Value], carried: list[ir.Value]) -> list[ir.Value]:
        moment = steps.moment(at[0], reverse)
        after = arith.addi(moment, b.index_constant(1))
        source, target = (after, moment) if reverse else (moment, after)
        before = [row.read(value, source) for row, value in zip(rows, carried, strict=True)]
        own = linear(b, before[0], weight, bias, steps.compute)
        parts = [*steps.split(steps.gates.read(given, moment)), *steps.split(own)]

        def cell(elements: list[ir.Value]) -> list[ir.Value]:
            count = GATES[kind]
            x, y = elements[:count], elements[count:-1]
            return _CELLS[kind](steps.compute, x, y, elements[-1])

        new = steps.elementwise([*parts, before[-1]], len(states), cell)
        if projection is not None:
            shown = Tensor.plain(new[0], dtype, (steps.batch, size))
            new[0] = linear(b, shown, projection, None, dtype).base
        return [
            row.write(value, into, target)
            for row, value, into in zip(rows, new, carried, strict=True)
        ]

    first = time if reverse else 0
    starts = [
        row.write(b.value(state), row.empty(), first)
        for row, state in zip(rows, states, strict=True)
    ]
    results = []
    for value, state in zip(b.loop([time], starts, step), states, strict=True):
        done = Tensor.plain(value, dtype, (time + 1, *state.shape))
        offsets = [0 if reverse else 1, 0, 0]
        results.append(b.extract_slice(done, offsets, [time, *state.shape], [1] * 3))
    if c is None:
        results.append(_nothing(b, dtype))
    return tuple(results)


def _nothing(b: Builder, dtype: torch.dtype) -> Tensor:
    return Tensor.plain(b.empty((0,), dtype), dtype, (0,))


def _check_time(b: Builder, time: Any) -> None:
    if isinstance(time, int):
        if time == 0:
            raise Unsupported(EMPTY)
        return
    some = arith.cmpi(arith.CmpIPredicate.sgt, b.index(time), b.index_constant(0))
    b.check(some, EMPTY, precondition=True)


@dataclass(frozen=True)
class _Moment:
    """One step's elements on the way back, in a dtype.

    d: the gradients of the new h, and c (LSTM). x, y: the gates' parts of the input and of the
    state. old: c (LSTM) or h before the step; new: after it.
    """

    dtype: torch.dtype
    d: Gates
    x: Gates
    y: Gates
    old: ir.Value
    new: ir.Value


# To the gradients of the gates' parts of the input, then of the state's where it is another (GRU's
# last), then of the old c (LSTM) or directly of the old h (GRU).
Back = Callable[[_Moment], list[ir.Value]]


def _product(*factors: ir.Value) -> ir.Value:
    result, *rest = factors
    for factor in rest:
        result = arith.mulf(result, factor)
    return result


def _rest(dtype: torch.dtype, x: ir.Value) -> ir.Value:
    """1 - x."""
    return arith.subf(scalars.constant(1.0, dtype), x)


def _lstm_back(m: _Moment) -> list[ir.Value]:
    i, f, g, o = (arith.addf(a, b) for a, b in zip(m.x, m.y, strict=True))
    i, f, o = (sigmoid(m.dtype, gate) for gate in (i, f, o))
    g, shown, (d_h, d_c) = math.tanh(g), math.tanh(m.new), m.d
    d_c = arith.addf(d_c, _product(d_h, o, _rest(m.dtype, arith.mulf(shown, shown))))
    return [
        _product(d_c, g, i, _rest(m.dtype, i)),
        _product(d_c, m.old, f, _rest(m.dtype, f)),
        _product(d_c, i, _rest(m.dtype, arith.mulf(g, g))),
        _product(d_h, shown, o, _rest(m.dtype, o)),
        arith.mulf(d_c, f),
    ]


def _gru_back(m: _Moment) -> list[ir.Value]:
    r, z = (sigmoid(m.dtype, arith.addf(m.x[gate], m.y[gate])) for gate in (0, 1))
    n = math.tanh(arith.addf(m.x[2], arith.mulf(r, m.y[2])))
    (d_h,) = m.d
    d_n = _product(d_h, _rest(m.dtype, z), _rest(m.dtype, arith.mulf(n, n)))
    d_r = _product(d_n, m.y[2], r, _rest(m.dtype, r))
    d_z = _product(d_h, arith.subf(m.old, n), z, _rest(m.dtype, z))
    return [d_r, d_z, d_n, arith.mulf(d_n, r), arith.mulf(d_h, z)]


def _tanh_back(m: _Moment) -> list[ir.Value]:
    return [arith.mulf(m.d[0], _rest(m.dtype, arith.mulf(m.new, m.new)))]


def _relu_back(m: _Moment) -> list[ir.Value]:
    zero = scalars.constant(0.0, m.dtype)
    kept = arith.cmpf(arith.CmpFPredicate.UGT, m.new, zero)  # a NaN keeps it, as in eager
    return [arith.select(kept, m.d[0], zero)]


_BACK: dict[str, Back] = {
    "lstm": _lstm_back,
    "gru": _gru_back,
    "tanh": _tanh_back,
    "relu": _relu_back,
}


@lowers(torch.ops.buddy.recurrence_backward.default)
def _recurrence_backward(
    b: Builder,
    d_outputs: Tensor,
    d_cells: Tensor | None,
    x: Tensor,
    y: Tensor,
    old: Tensor,
    new: Tensor,
    weight: Tensor,
    kind: str,
    reverse: bool,
) -> tuple[Tensor, ...]:
    given = [d_outputs, *([] if d_cells is None else [d_cells]), x, y, old, new]
    if any(other.dtype is not x.dtype for other in (*given, weight)):
        raise Unsupported("operands of several dtypes")
    steps = _Steps(b, kind, x, old.shape[2], reverse)
    time, batch, size, dtype = steps.time, steps.batch, steps.size, x.dtype
    count, compute = GATES[kind], steps.compute
    states = _Rows(b, dtype, time, old.shape[1:])
    sources = [(steps.gates if part in (x, y) else states, b.value(part)) for part in given]
    apart = kind == "gru"  # the gradient of y is not that of x
    beside = kind in ("lstm", "gru")  # a gradient of the state that goes past the gates
    # One row more than there are steps, as in the loop forth.
    carries = _Rows(b, dtype, time + 1, old.shape[1:])

    def write(parts: list[ir.Value], rows: ir.Value, moment: ir.Value) -> ir.Value:
        for gate, part in enumerate(parts):
            offsets = [moment, 0, gate * size]
            rows = b.insert_slice(part, rows, offsets, [1, batch, size])
        return rows

    def step(at: list[ir.Value], carried: list[ir.Value]) -> list[ir.Value]:
        moment = steps.moment(at[0], not reverse)
        after = arith.addi(moment, b.index_constant(1))
        source, target = (moment, after) if reverse else (after, moment)
        rows, state_rows = carried[: 1 + apart], carried[1 + apart :]
        later = [carries.read(value, source) for value in state_rows]
        d_output, *d_cell, x_row, y_row, old_row, new_row = (
            part.read(value, moment) for part, value in sources
        )
        parts = [*steps.split(x_row), *steps.split(y_row)]

        def cell(e: list[ir.Value]) -> list[ir.Value]:
            d, (old, new) = [arith.addf(e[0], e[1])], e[-2:]
            if kind == "lstm":
                d.append(arith.addf(e[2], e[3]))
            elif kind == "gru":
                d[0] = arith.addf(d[0], e[2])
            gates = e[-2 - len(parts) : -2]
            x, y = gates[:count], gates[count:]
            return _BACK[kind](_Moment(compute, d, x, y, old, new))

        inputs = [d_output, later[0], *d_cell, *later[1:], *parts, old_row, new_row]
        results = steps.elementwise(inputs, count + apart + beside, cell)
        written = [write(results[:count], rows[0], moment)]
        if apart:
            by_state = [*results[: count - 1], results[count]]
            written.append(write(by_state, rows[1], moment))
        through = steps.gates.read(written[-1], moment)
        product = contract(b, through, weight, [0, 2], [2, 1], [0, 1], (batch, size))
        states = [b.value(b.cast(product, dtype)), *results[count + apart :]]
        for value, into in zip(states, state_rows, strict=True):
            written.append(carries.write(value, into, target))
        return written

    zero = b.full((batch, size), scalars.constant(0.0, dtype), dtype)
    first, last = (0, time) if reverse else (time, 0)
    starts = [steps.gates.empty() for _ in range(1 + apart)]
    starts += [carries.write(zero, carries.empty(), first) for _ in range(1 + beside)]
    results = b.loop([time], starts, step)
    d_x, *d_y = (Tensor.plain(value, dtype, x.shape) for value in results[: 1 + apart])
    d_states = [carries.read(value, b.index(last)) for value in results[1 + apart :]]
    if not beside:
        d_states.append(Tensor.plain(zero, dtype, (batch, size)))
    return (d_x, *(d_y or [_nothing(b, dtype)]), *d_states)
