"""The operators of `data_sizes`: results whose sizes were counted before."""

from __future__ import annotations

from typing import Any

import torch
from mlir import ir
from mlir.dialects import arith, scf, tensor

from .. import data_sizes, scalars, types  # noqa: F401  (defines torch.ops.buddy)
from ..builder import PARALLEL, REDUCTION, Builder, loop_index
from ..registry import lowers
from ..values import Tensor
from .common import check_all
from .sorting import before, merge_sort

buddy = torch.ops.buddy
_i64 = torch.int64


def _as_i64(value: ir.Value) -> ir.Value:
    return arith.index_cast(ir.IntegerType.get_signless(64), value)


def _clamped(b: Builder, place: ir.Value, size: ir.Value) -> ir.Value:
    """Return a place in [0, max(size, 1))."""
    last = arith.subi(size, b.index_constant(1))
    return arith.maxsi(arith.minsi(place, last), b.index_constant(0))


def _unless_empty(b: Builder, count: ir.Value, trips: Any) -> ir.Value:
    """Return a number of trips, 0 if there is no place to write to."""
    none = arith.cmpi(arith.CmpIPredicate.eq, count, b.index_constant(0))
    return arith.select(none, b.index_constant(0), b.index(trips))


@lowers(buddy.nonzero.default)
def _nonzero(b: Builder, x: Tensor, count: Any) -> Tensor:
    """Each place is written where the next one goes, which moves on after an element that counts.

    So there is no branch to predict; what was written before at the last place stays there.
    """
    rank, shape = x.rank, b.result_shape()
    columns = (rank, shape[0])
    if 0 in (*x.shape, *columns):
        return Tensor.plain(b.empty(shape, _i64), _i64, shape)
    elements, size = b.value(x), b.index(shape[0])
    one = b.index_constant(1)

    def body(at: list[ir.Value], carried: list[ir.Value]) -> list[ir.Value]:
        taken, result = carried
        counts = scalars.cast(tensor.extract(elements, at), x.dtype, torch.bool)
        place = _clamped(b, taken, size)
        for dim, position in enumerate(at):
            where = [b.index_constant(dim), place]
            old = tensor.extract(result, where)
            new = arith.select(counts, _as_i64(position), old)
            result = tensor.insert(new, result, where)
        return [arith.select(counts, arith.addi(taken, one), taken), result]

    trips = [_unless_empty(b, size, x.shape[0]), *x.shape[1:]]
    _, result = b.loop(trips, [b.index_constant(0), b.empty(columns, _i64)], body)
    return Tensor.plain(result, _i64, columns).permute([1, 0])


@lowers(buddy.row_order.default)
def _row_order(b: Builder, x: Tensor) -> Tensor:
    rows, width = b.value(x), b.index(x.shape[1])
    index = ir.IndexType.get()
    zero, one = b.index_constant(0), b.index_constant(1)

    def row_before(first: ir.Value, second: ir.Value) -> ir.Value:
        """Tell whether a row stands before another: at the first column in which they differ."""
        rows_at = [arith.index_cast(index, first), arith.index_cast(index, second)]
        flag = ir.IntegerType.get_signless(1)
        no = arith.constant(flag, 0)
        loop = scf.WhileOp([index, flag, flag], [zero, no, no])
        head = loop.before.blocks.append(index, flag, flag)
        step = loop.after.blocks.append(index, flag, flag)
        with ir.InsertionPoint(head):
            column, less, differs = head.arguments
            more = arith.cmpi(arith.CmpIPredicate.slt, column, width)
            scf.ConditionOp(arith.andi(more, scalars.logical_not(differs)), [column, less, differs])
        with ir.InsertionPoint(step):
            column, _, _ = step.arguments
            left, right = (tensor.extract(rows, [row, column]) for row in rows_at)
            less = before(x.dtype, left, right, False)
            greater = before(x.dtype, right, left, False)
            scf.YieldOp([arith.addi(column, one), less, arith.ori(less, greater)])
        return loop.results[1]

    size = x.shape[0]
    if size == 0:
        return Tensor.plain(b.empty((0,), _i64), _i64, (0,))
    (places,) = b.generic(
        [],
        [(b.empty((size,), _i64), ir.AffineMap.get_identity(1))],
        [PARALLEL],
        lambda _: _as_i64(loop_index(0)),
    )
    order, _ = merge_sort(b, Tensor.plain(places, _i64, (size,)), row_before)
    return Tensor.plain(order, _i64, (size,))


@lowers(buddy.runs.default)
def _runs(b: Builder, x: Tensor) -> tuple[Tensor, Tensor]:
    size = x.shape[0]
    numbers, zero, one = b.empty((size,), _i64), b.index_constant(0), b.index_constant(1)
    if size == 0:
        none = b.full((), scalars.constant(0, _i64), _i64)
        return Tensor.plain(numbers, _i64, (0,)), Tensor.plain(none, _i64, ())
    elements = b.value(x)
    true = scalars.constant(True, torch.bool)

    def body(at: list[ir.Value], carried: list[ir.Value]) -> list[ir.Value]:
        run, result = carried
        previous = arith.maxsi(arith.subi(at[0], one), zero)

        def compare(rest: list[ir.Value], equal: list[ir.Value]) -> list[ir.Value]:
            left = tensor.extract(elements, [previous, *rest])
            right = tensor.extract(elements, [at[0], *rest])
            return [arith.andi(equal[0], scalars.compare("eq", left, right, x.dtype))]

        (equal,) = b.loop(x.shape[1:], [true], compare)
        first = arith.cmpi(arith.CmpIPredicate.eq, at[0], zero)
        run = arith.select(arith.ori(equal, first), run, arith.addi(run, one))
        return [run, tensor.insert(_as_i64(run), result, at)]

    last, numbers = b.loop([size], [zero, numbers], body)
    some = arith.minsi(b.index(size), one)
    count = b.full((), _as_i64(arith.addi(last, some)), _i64)
    return Tensor.plain(numbers, _i64, (size,)), Tensor.plain(count, _i64, ())


@lowers(buddy.run_bounds.default)
def _run_bounds(b: Builder, number: Tensor, count: Any) -> tuple[Tensor, Tensor]:
    shape = b.result_shape(0)
    zero = scalars.constant(0, _i64)
    starts, lengths = b.empty(shape, _i64), b.full(shape, zero, _i64)
    if 0 not in (*shape, *number.shape):
        runs, size = b.value(number), b.index(shape[0])
        one = scalars.constant(1, _i64)

        def body(at: list[ir.Value], carried: list[ir.Value]) -> list[ir.Value]:
            starts, lengths = carried
            run = arith.index_cast(ir.IndexType.get(), tensor.extract(runs, at))
            where = [_clamped(b, run, size)]
            seen = tensor.extract(lengths, where)
            new = arith.cmpi(arith.CmpIPredicate.eq, seen, zero)
            start = arith.select(new, _as_i64(at[0]), tensor.extract(starts, where))
            return [
                tensor.insert(start, starts, where),
                tensor.insert(arith.addi(seen, one), lengths, where),
            ]

        trips = [_unless_empty(b, size, number.shape[0])]
        starts, lengths = b.loop(trips, [starts, lengths], body)
    return Tensor.plain(starts, _i64, shape), Tensor.plain(lengths, _i64, shape)


@lowers(buddy.repeated.default)
def _repeated(b: Builder, repeats: Tensor, count: Any) -> Tensor:
    shape, dtype = b.result_shape(), repeats.dtype

    def not_negative(value: ir.Value) -> ir.Value:
        return scalars.compare("ge", value, scalars.constant(0, dtype), dtype)

    check_all(b, [repeats], not_negative, "repeats can not be negative")
    times, size, zero = b.value(repeats), b.index(shape[0]), b.index_constant(0)

    def body(at: list[ir.Value], carried: list[ir.Value]) -> list[ir.Value]:
        start, result = carried
        repeat = scalars.cast(tensor.extract(times, at), dtype, _i64)
        repeat = arith.maxsi(arith.index_cast(ir.IndexType.get(), repeat), zero)
        # What does not fit is not written; the check below tells.
        fits = arith.minsi(repeat, arith.maxsi(arith.subi(size, start), zero))
        place = scalars.cast(_as_i64(at[0]), _i64, dtype)

        def write(offset: list[ir.Value], values: list[ir.Value]) -> list[ir.Value]:
            return [tensor.insert(place, values[0], [arith.addi(start, offset[0])])]

        (result,) = b.loop([fits], [result], write)
        return [arith.addi(start, repeat), result]

    total, result = b.loop(repeats.shape, [zero, b.empty(shape, dtype)], body)
    same = arith.cmpi(arith.CmpIPredicate.eq, total, size)
    b.check(same, "repeat_interleave: output_size is not the sum of repeats")
    return Tensor.plain(result, dtype, shape)


@lowers(buddy.count_bins.default)
def _count_bins(b: Builder, x: Tensor, least: Any) -> Tensor:
    dtype = x.dtype

    def not_negative(value: ir.Value) -> ir.Value:
        return scalars.compare("ge", value, scalars.constant(0, dtype), dtype)

    check_all(b, [x], not_negative, "bincount: a negative element")
    one = scalars.constant(1, _i64)

    def body(value: ir.Value, most: ir.Value) -> ir.Value:
        return arith.maxsi(most, arith.addi(scalars.cast(value, dtype, _i64), one))

    (result,) = b.generic(
        [(b.value(x), ir.AffineMap.get_identity(1))],
        [(b.full((), b.scalar(least, _i64), _i64), ir.AffineMap.get(1, 0, []))],
        [REDUCTION],
        body,
    )
    return Tensor.plain(result, _i64, ())
