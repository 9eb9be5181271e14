"""Running sums, sorting and selection of the largest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from mlir import ir
from mlir.dialects import arith, math, scf, tensor

from .. import scalars, types
from ..builder import PARALLEL, REDUCTION, Builder, loop_index
from ..errors import Unsupported
from ..registry import lowers
from ..values import Tensor
from .common import normalize
from .view import slice_dim

aten = torch.ops.aten
_INF = float("inf")
Before = Callable[[ir.Value, ir.Value], ir.Value]


def _scan_accumulator(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which eager keeps a running sum: one size up for floats."""
    if dtype in types.REDUCED_FLOATS:
        return torch.float32
    return torch.float64 if dtype is torch.float32 else dtype


@lowers(aten.cumsum.default)
def _cumsum(b: Builder, x: Tensor, dim: int, *_: Any) -> Tensor:
    return _scan(b, x, dim, scalars.add, 0)


@lowers(aten.cumprod.default)
def _cumprod(b: Builder, x: Tensor, dim: int, *_: Any) -> Tensor:
    return _scan(b, x, dim, scalars.mul, 1)


@lowers(aten.logcumsumexp.default)
def _logcumsumexp(b: Builder, x: Tensor, dim: int) -> Tensor:
    if types.is_complex(x.dtype):
        raise Unsupported("complex numbers")

    def combine(dtype: torch.dtype, total: ir.Value, value: ir.Value) -> ir.Value:
        low = scalars.minimum(dtype, total, value)
        high = scalars.maximum(dtype, total, value)
        sum_ = arith.addf(math.log1p(math.exp(arith.subf(low, high))), high)
        # The difference of two infinities is no number.
        infinite = scalars.compare("eq", math.absf(low), scalars.constant(_INF, dtype), dtype)
        same = arith.andi(infinite, scalars.compare("eq", low, high, dtype))
        return arith.select(same, low, sum_)

    return _scan(b, x, dim, combine, -_INF)


@lowers(aten.cummax.default, aten.cummin.default)
def _cumulative_extremum(b: Builder, x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """The running extremum and its place: the last of equal ones; a NaN counts as extremum."""
    better = "ge" if b.node.target is aten.cummax.default else "le"
    i64 = torch.int64
    if x.rank == 0:
        return x, Tensor.plain(b.full((), scalars.constant(0, i64), i64), i64, ())
    dim = normalize(dim, x.rank)
    x = b.plain(x)
    sizes = tuple(1 if i == dim else size for i, size in enumerate(x.shape))
    ones, identity = [1] * x.rank, ir.AffineMap.get_identity(x.rank)

    def body(at: list[ir.Value], carried: list[ir.Value]) -> list[ir.Value]:
        offsets: list[Any] = [0] * x.rank
        offsets[dim] = at[0]
        place = arith.index_cast(ir.IntegerType.get_signless(64), at[0])
        slab = b.extract_slice(x, offsets, sizes, ones)

        def step(new: ir.Value, best: ir.Value, where: ir.Value) -> list[ir.Value]:
            take = scalars.compare(better, new, best, x.dtype)
            if types.is_float(x.dtype):
                take = arith.andi(take, scalars.logical_not(scalars.is_nan(best)))
                take = arith.ori(take, scalars.is_nan(new))
            none_yet = scalars.compare("lt", where, scalars.constant(0, i64), i64)
            take = arith.ori(take, none_yet)
            return [arith.select(take, new, best), arith.select(take, place, where)]

        best, where = b.generic(
            [(slab.base, identity)],
            [(carried[0], identity), (carried[1], identity)],
            [PARALLEL] * x.rank,
            step,
        )
        return [
            best,
            where,
            b.insert_slice(best, carried[2], offsets, sizes),
            b.insert_slice(where, carried[3], offsets, sizes),
        ]

    if 0 in x.shape:
        return x, Tensor.plain(b.empty(x.shape, i64), i64, x.shape)
    start = [
        b.full(sizes, scalars.constant(0, x.dtype), x.dtype),
        b.full(sizes, scalars.constant(-1, i64), i64),
        b.empty(x.shape, x.dtype),
        b.empty(x.shape, i64),
    ]
    _, _, values, places = b.loop([x.shape[dim]], start, body)
    return Tensor.plain(values, x.dtype, x.shape), Tensor.plain(places, i64, x.shape)


def _scan(
    b: Builder,
    x: Tensor,
    dim: int,
    combine: Callable[[torch.dtype, ir.Value, ir.Value], ir.Value],
    init: float,
) -> Tensor:
    """Combine along a dimension, slab by slab."""
    dtype = b.result_dtype()
    if x.rank == 0:
        return b.cast(x, dtype)
    dim = normalize(dim, x.rank)
    compute = _scan_accumulator(dtype)
    x = b.plain(x)
    sizes = tuple(1 if i == dim else size for i, size in enumerate(x.shape))
    ones, identity = [1] * x.rank, ir.AffineMap.get_identity(x.rank)

    def body(at: list[ir.Value], carried: list[ir.Value]) -> list[ir.Value]:
        offsets: list[Any] = [0] * x.rank
        offsets[dim] = at[0]
        slab = b.extract_slice(x, offsets, sizes, ones)
        # The accumulator is the operation's own result buffer, so that the loop stays in place.
        (total,) = b.generic(
            [(slab.base, identity)],
            [(carried[0], identity)],
            [PARALLEL] * x.rank,
            lambda new, acc: combine(compute, acc, scalars.cast(new, x.dtype, compute)),
        )
        running = Tensor.plain(total, compute, sizes)
        part = b.cast(running, dtype)
        return [running.base, b.insert_slice(part.base, carried[1], offsets, sizes)]

    start = b.full(sizes, scalars.constant(init, compute), compute)
    _, result = b.loop([x.shape[dim]], [start, b.empty(x.shape, dtype)], body)
    return Tensor.plain(result, dtype, x.shape)


# ---- sorting ---------------------------------------------------------------------------------


@lowers(aten.sort.default)
def _sort(b: Builder, x: Tensor, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    return sort(b, x, dim, descending)


@lowers(aten.sort.stable)
def _sort_stable(
    b: Builder, x: Tensor, stable: Any = None, dim: int = -1, descending: bool = False
) -> tuple[Tensor, Tensor]:
    return sort(b, x, dim, descending)


@lowers(aten.argsort.default)
def _argsort(b: Builder, x: Tensor, dim: int = -1, descending: bool = False) -> Tensor:
    return sort(b, x, dim, descending)[1]


@lowers(aten.topk.default)
def _topk(
    b: Builder, x: Tensor, k: Any, dim: int = -1, largest: bool = True, *_: Any
) -> tuple[Tensor, Tensor]:
    values, places = sort(b, x, dim, largest)
    if x.rank == 0:
        return values, places
    dim = normalize(dim, x.rank)
    size = b.result_shape(0)[dim]
    return slice_dim(b, values, dim, 0, size), slice_dim(b, places, dim, 0, size)


@lowers(aten.searchsorted.Tensor)
def _searchsorted(
    b: Builder,
    sequence: Tensor,
    values: Tensor,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Tensor:
    return search(b, sequence, values, right or side == "right")


@lowers(aten.searchsorted.Scalar)
def _searchsorted_scalar(
    b: Builder,
    sequence: Tensor,
    value: Any,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Tensor:
    scalar = b.full((), b.scalar(value, sequence.dtype), sequence.dtype)
    values = Tensor.plain(scalar, sequence.dtype, ())
    return search(b, sequence, values, right or side == "right")


@lowers(aten.bucketize.Tensor)
def _bucketize(
    b: Builder, values: Tensor, boundaries: Tensor, out_int32: bool = False, right: bool = False
) -> Tensor:
    return search(b, boundaries, values, right)


def search(b: Builder, sequence: Tensor, values: Tensor, right: bool) -> Tensor:
    """Return how many elements of the last dimension stand before each value.

    sequence: sorted, [..., N] with values' leading dimensions, or [N]. `right`: equal ones count.
    Counting instead of bisecting makes every element the same straight work.
    """
    dtype, shape = b.result_dtype(), values.shape
    common = torch.promote_types(sequence.dtype, values.dtype)
    rank = len(shape) + 1
    lead = [] if sequence.rank == 1 else list(range(rank - 2))
    loops = [ir.AffineDimExpr.get(i) for i in range(rank)]
    sequence_map = ir.AffineMap.get(rank, 0, [*[loops[i] for i in lead], loops[-1]])
    own = ir.AffineMap.get(rank, 0, loops[:-1])
    zero = scalars.constant(0, dtype)

    def body(element: ir.Value, value: ir.Value, count: ir.Value) -> ir.Value:
        element = scalars.cast(element, sequence.dtype, common)
        value = scalars.cast(value, values.dtype, common)
        after = scalars.compare("gt" if right else "ge", element, value, common)
        before = scalars.cast(scalars.logical_not(after), torch.bool, dtype)
        return scalars.add(dtype, count, before)

    (result,) = b.generic(
        [(b.value(sequence), sequence_map), (b.value(values), own)],
        [(b.full(shape, zero, dtype), own)],
        [PARALLEL] * (rank - 1) + [REDUCTION],
        body,
    )
    return Tensor.plain(result, dtype, shape)


def before(dtype: torch.dtype, a: ir.Value, b_: ir.Value, descending: bool) -> ir.Value:
    """Return whether a must stand before b; NaN is the largest."""
    if descending:
        a, b_ = b_, a
    less = scalars.compare("lt", a, b_, dtype)
    if types.is_float(dtype):
        only_b = arith.andi(scalars.is_nan(b_), scalars.logical_not(scalars.is_nan(a)))
        less = arith.ori(less, only_b)
    return less


def sort(b: Builder, x: Tensor, dim: int, descending: bool) -> tuple[Tensor, Tensor]:
    """Return (sorted values, their indices) along a dimension; stable.

    Bottom-up merge sort: runs of 1, 2, 4, ... are merged into a second buffer and copied back.
    """
    dim = normalize(dim, x.rank)
    scalar = x.rank == 0
    if scalar:
        x = x.unsqueeze(0)
    order = [i for i in range(x.rank) if i != dim] + [dim]
    back = [order.index(i) for i in range(x.rank)]
    rows = b.plain(x.permute(order))

    def stands_before(first: ir.Value, second: ir.Value) -> ir.Value:
        return before(rows.dtype, first, second, descending)

    values, places = merge_sort(b, rows, stands_before)
    results = (
        Tensor.plain(values, rows.dtype, rows.shape).permute(back),
        Tensor.plain(places, torch.int64, rows.shape).permute(back),
    )
    if scalar:
        from ..shapes import squeeze

        return squeeze(b, results[0], [0]), squeeze(b, results[1], [0])
    return results


def merge_sort(b: Builder, rows: Tensor, stands_before: Before) -> tuple[ir.Value, ir.Value]:
    """Return the last dimension of a plain tensor sorted, and the indices that its elements had.

    stands_before: of two elements, whether the first must stand before the second.
    """
    batch, length = rows.shape[:-1], b.index(rows.shape[-1])

    def sort_row(at: list[ir.Value], carried: list[ir.Value]) -> list[ir.Value]:
        return _merge_passes(b, at, length, carried, stands_before)

    temporary = [b.empty(rows.shape, rows.dtype), b.empty(rows.shape, torch.int64)]
    start = [rows.base, _positions(b, rows), *temporary]
    values, places, *_ = b.loop(batch, start, sort_row)
    return values, places


def _positions(b: Builder, rows: Tensor) -> ir.Value:
    last = rows.rank - 1
    identity = ir.AffineMap.get_identity(rows.rank)
    (result,) = b.generic(
        [],
        [(b.empty(rows.shape, torch.int64), identity)],
        [PARALLEL] * rows.rank,
        lambda _: arith.index_cast(ir.IntegerType.get_signless(64), loop_index(last)),
    )
    return result


def _merge_passes(
    b: Builder,
    row: list[ir.Value],
    length: ir.Value,
    carried: list[ir.Value],
    stands_before: Before,
) -> list[ir.Value]:
    """Merge runs of doubling width in one row until one run is left."""
    index = ir.IndexType.get()
    one, two = b.index_constant(1), b.index_constant(2)
    types_ = [index, *[value.type for value in carried]]
    loop = scf.WhileOp(types_, [one, *carried])
    before = loop.before.blocks.append(*types_)
    after = loop.after.blocks.append(*types_)
    with ir.InsertionPoint(before):
        width, *state = before.arguments
        more = arith.cmpi(arith.CmpIPredicate.slt, width, length)
        scf.ConditionOp(more, [width, *state])
    with ir.InsertionPoint(after):
        width, *state = after.arguments
        double = arith.muli(width, two)
        pairs = arith.ceildivsi(length, double)

        def merge(at: list[ir.Value], values: list[ir.Value]) -> list[ir.Value]:
            return _merge_pair(b, row, at[0], width, length, values, stands_before)

        state = b.loop([pairs], state, merge)

        def copy(at: list[ir.Value], values: list[ir.Value]) -> list[ir.Value]:
            place = [*row, at[0]]
            return [
                tensor.insert(tensor.extract(values[2], place), values[0], place),
                tensor.insert(tensor.extract(values[3], place), values[1], place),
                values[2],
                values[3],
            ]

        state = b.loop([length], state, copy)
        scf.YieldOp([double, *state])
    return list(loop.results)[1:]


def _merge_pair(
    b: Builder,
    row: list[ir.Value],
    pair: ir.Value,
    width: ir.Value,
    length: ir.Value,
    carried: list[ir.Value],
    stands_before: Before,
) -> list[ir.Value]:
    """Merge two neighbouring runs into the temporary buffers."""
    one = b.index_constant(1)
    start = arith.muli(pair, arith.muli(width, b.index_constant(2)))
    middle = arith.minsi(arith.addi(start, width), length)
    end = arith.minsi(arith.addi(middle, width), length)

    def step(at: list[ir.Value], values: list[ir.Value]) -> list[ir.Value]:
        left, right, keys, places, keys_out, places_out = values
        out = arith.addi(start, at[0])
        # Reads stay inside the row even when a run is used up.
        left_place = [*row, arith.minsi(left, arith.subi(length, one))]
        right_place = [*row, arith.minsi(right, arith.subi(length, one))]
        left_key, right_key = tensor.extract(keys, left_place), tensor.extract(keys, right_place)
        left_left = arith.cmpi(arith.CmpIPredicate.slt, left, middle)
        right_left = arith.cmpi(arith.CmpIPredicate.slt, right, end)
        right_first = stands_before(right_key, left_key)
        take_right = arith.andi(right_left, arith.ori(scalars.logical_not(left_left), right_first))
        key = arith.select(take_right, right_key, left_key)
        place = arith.select(
            take_right, tensor.extract(places, right_place), tensor.extract(places, left_place)
        )
        keys_out = tensor.insert(key, keys_out, [*row, out])
        places_out = tensor.insert(place, places_out, [*row, out])
        return [
            arith.select(take_right, left, arith.addi(left, one)),
            arith.select(take_right, arith.addi(right, one), right),
            keys,
            places,
            keys_out,
            places_out,
        ]

    results = b.loop([arith.subi(end, start)], [start, middle, *carried], step)
    return results[2:]
