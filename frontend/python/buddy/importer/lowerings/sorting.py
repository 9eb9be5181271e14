"""Sorting along a dimension."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from mlir import ir
from mlir.dialects import arith, scf, tensor

from .. import scalars, types
from ..builder import PARALLEL, Builder, loop_index
from ..registry import lowers
from ..values import Tensor
from .common import normalize

aten = torch.ops.aten
Before = Callable[[ir.Value, ir.Value], ir.Value]


@lowers(aten.sort.default)
def _sort(b: Builder, x: Tensor, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    return sort(b, x, dim, descending, b.is_used(1))


@lowers(aten.sort.stable)
def _sort_stable(
    b: Builder, x: Tensor, stable: Any = None, dim: int = -1, descending: bool = False
) -> tuple[Tensor, Tensor]:
    return sort(b, x, dim, descending, b.is_used(1))


@lowers(aten.argsort.default)
def _argsort(b: Builder, x: Tensor, dim: int = -1, descending: bool = False) -> Tensor:
    return sort(b, x, dim, descending)[1]


def before(dtype: torch.dtype, a: ir.Value, b_: ir.Value, descending: bool) -> ir.Value:
    """Return whether a must stand before b; NaN is the largest."""
    if descending:
        a, b_ = b_, a
    if not types.is_float(dtype):
        return scalars.compare("lt", a, b_, dtype)
    # "Unordered or greater" is true where b is NaN, and where a is.
    greater = arith.cmpf(arith.CmpFPredicate.UGT, b_, a)
    return arith.andi(greater, arith.cmpf(arith.CmpFPredicate.ORD, a, a))


def sort(
    b: Builder, x: Tensor, dim: int, descending: bool, places_used: bool = True
) -> tuple[Tensor, Tensor]:
    """Return (sorted values, their indices) along a dimension; stable.

    Indices that are not used are any.
    Bottom-up merge sort: runs of 1, 2, 4, ... are merged into a second buffer and back by turns.
    Whole runs are merged from both ends at once, as in quadsort (I. van den Hoven: parity merge).
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

    if types.bit_width(rows.dtype) <= 32:
        values, places = _sort_words(b, rows, descending)
    elif places_used:
        values, places = merge_sort(b, rows, stands_before)
    else:
        (values,) = _merge_rows(b, [rows], stands_before)
        places = positions(b, rows)
    results = (
        Tensor.plain(values, rows.dtype, rows.shape).permute(back),
        Tensor.plain(places, torch.int64, rows.shape).permute(back),
    )
    if scalar:
        from ..shapes import squeeze

        return squeeze(b, results[0], [0]), squeeze(b, results[1], [0])
    return results


def _sort_words(b: Builder, rows: Tensor, descending: bool) -> tuple[ir.Value, ir.Value]:
    """Sort elements of at most 32 bits, each as one number: its order above, its place below."""
    i32, i64 = (ir.IntegerType.get_signless(bits) for bits in (32, 64))
    last = rows.rank - 1
    half = arith.constant(i64, 32)
    if not isinstance(rows.shape[last], int):
        few = arith.cmpi(
            arith.CmpIPredicate.ult, b.index(rows.shape[last]), b.index_constant(1 << 32)
        )
        b.check(few, "sort: more than 2^32 elements in a row", precondition=True)

    def pack(value: ir.Value) -> ir.Value:
        if types.is_float(rows.dtype):
            value = scalars.cast(value, rows.dtype, torch.float32)
            # Both zeros are equal, and all NaNs, which are the largest.
            nan = scalars.is_nan(value)
            value = arith.addf(value, scalars.constant(0.0, torch.float32))
            bits = arith.bitcast(i32, value)
            sign = arith.shrsi(bits, arith.constant(i32, 31))
            size = arith.andi(sign, arith.constant(i32, 0x7FFFFFFF))
            order = arith.select(nan, arith.constant(i32, 0x7FFFFFFF), arith.xori(bits, size))
            order = arith.extsi(i64, order)
        else:
            order = scalars.cast(value, rows.dtype, torch.int64)
        if descending:
            order = arith.xori(order, arith.constant(i64, -1))
        place = arith.index_cast(i64, loop_index(last))
        return arith.ori(arith.shli(order, half), place)

    words = b.pointwise([rows], rows.shape, torch.int64, pack)
    (merged,) = _merge_rows(
        b, [words], lambda first, second: arith.cmpi(arith.CmpIPredicate.slt, first, second)
    )
    words = Tensor.plain(merged, torch.int64, rows.shape)
    mask = arith.constant(i64, 0xFFFFFFFF)
    places = b.pointwise([words], rows.shape, torch.int64, lambda word: arith.andi(word, mask))

    def look_up(word: ir.Value) -> ir.Value:
        place = arith.index_cast(ir.IndexType.get(), arith.andi(word, mask))
        return tensor.extract(rows.base, [*(loop_index(i) for i in range(last)), place])

    values = b.pointwise([words], rows.shape, rows.dtype, look_up)
    return values.base, places.base


def merge_sort(b: Builder, rows: Tensor, stands_before: Before) -> tuple[ir.Value, ir.Value]:
    """Return the last dimension of a plain tensor sorted, and the indices that its elements had.

    stands_before: of two elements, whether the first must stand before the second.
    """
    places = Tensor.plain(positions(b, rows), torch.int64, rows.shape)
    values, order = _merge_rows(b, [rows, places], stands_before)
    return values, order


def _merge_rows(b: Builder, arrays: list[Tensor], stands_before: Before) -> list[ir.Value]:
    """Sort the last dimension of plain tensors of one shape, by the elements of the first one."""
    shape = arrays[0].shape
    length = b.index(shape[-1])
    other = [Tensor.plain(b.empty(shape, x.dtype), x.dtype, shape) for x in arrays]

    def sort_row(_: list[ir.Value], carried: list[ir.Value]) -> list[ir.Value]:
        return _merge_passes(b, length, carried, stands_before)

    return b.rows(len(shape) - 1, [*arrays, *other], sort_row)[: len(arrays)]


def positions(b: Builder, rows: Tensor) -> ir.Value:
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
        state = _merge_pass(b, width, length, state, stands_before)
        # Back again; if the row is one run by now, this copies it.
        width, count = arith.muli(width, two), len(state) // 2
        state = [*state[count:], *state[:count]]
        state = _merge_pass(b, width, length, state, stands_before)
        scf.YieldOp([arith.muli(width, two), *state[count:], *state[:count]])
    return list(loop.results)[1:]


def _merge_pass(
    b: Builder,
    width: ir.Value,
    length: ir.Value,
    state: list[ir.Value],
    stands_before: Before,
) -> list[ir.Value]:
    """Merge each two neighbouring runs of a width, from one pair of buffers to the other."""
    both = arith.muli(width, b.index_constant(2))
    whole = arith.divui(length, both)

    def merge_whole(at: list[ir.Value], values: list[ir.Value]) -> list[ir.Value]:
        return _merge_whole(b, arith.muli(at[0], both), width, values, stands_before)

    def merge_rest(at: list[ir.Value], values: list[ir.Value]) -> list[ir.Value]:
        start = arith.muli(arith.addi(whole, at[0]), both)
        return _merge_rest(b, start, width, length, values, stands_before)

    state = b.loop([whole], state, merge_whole)
    rest = arith.subi(arith.ceildivui(length, both), whole)
    return b.loop([rest], state, merge_rest)


def _merge_whole(
    b: Builder,
    start: ir.Value,
    width: ir.Value,
    carried: list[ir.Value],
    stands_before: Before,
) -> list[ir.Value]:
    """Merge two neighbouring runs of `width` elements into the other buffers.

    From the front and from the back by turns: after `width` steps each they have met, and neither
    can leave a run before, so that nothing is asked but which element stands before. The turns do
    not wait for each other.
    """
    one = b.index_constant(1)
    count = len(carried) // 2
    middle = arith.addi(start, width)
    last = arith.subi(arith.addi(middle, width), one)

    def step(at: list[ir.Value], values: list[ir.Value]) -> list[ir.Value]:
        left, right, left_end, right_end, *arrays = values
        first = [
            (tensor.extract(array, [left]), tensor.extract(array, [right]))
            for array in arrays[:count]
        ]
        final = [
            (tensor.extract(array, [left_end]), tensor.extract(array, [right_end]))
            for array in arrays[:count]
        ]
        take_right = stands_before(first[0][1], first[0][0])
        take_left = stands_before(final[0][1], final[0][0])
        front, back = arith.addi(start, at[0]), arith.subi(last, at[0])
        written = []
        for (x, y), (p, q), into in zip(first, final, arrays[count:], strict=True):
            into = tensor.insert(arith.select(take_right, y, x), into, [front])
            written.append(tensor.insert(arith.select(take_left, p, q), into, [back]))
        # Sums instead of choices, which the compiler might make branches.
        rights, lefts = (
            arith.index_castui(ir.IndexType.get(), taken) for taken in (take_right, take_left)
        )
        return [
            arith.addi(left, arith.subi(one, rights)),
            arith.addi(right, rights),
            arith.subi(left_end, lefts),
            arith.subi(right_end, arith.subi(one, lefts)),
            *arrays[:count],
            *written,
        ]

    ends = [arith.subi(middle, one), last]
    return b.loop([width], [start, middle, *ends, *carried], step)[4:]


def _merge_rest(
    b: Builder,
    start: ir.Value,
    width: ir.Value,
    length: ir.Value,
    carried: list[ir.Value],
    stands_before: Before,
) -> list[ir.Value]:
    """Merge the last two runs, of which the second may be short or missing."""
    one = b.index_constant(1)
    middle = arith.minsi(arith.addi(start, width), length)
    end = arith.minsi(arith.addi(middle, width), length)

    count = len(carried) // 2

    def step(at: list[ir.Value], values: list[ir.Value]) -> list[ir.Value]:
        left, right, *arrays = values
        out = arith.addi(start, at[0])
        # Reads stay inside the row even when a run is used up.
        last = arith.subi(length, one)
        left_place, right_place = arith.minsi(left, last), arith.minsi(right, last)
        pairs = [
            (tensor.extract(array, [left_place]), tensor.extract(array, [right_place]))
            for array in arrays[:count]
        ]
        left_left = arith.cmpi(arith.CmpIPredicate.slt, left, middle)
        right_left = arith.cmpi(arith.CmpIPredicate.slt, right, end)
        right_first = stands_before(pairs[0][1], pairs[0][0])
        take_right = arith.andi(right_left, arith.ori(scalars.logical_not(left_left), right_first))
        written = [
            tensor.insert(arith.select(take_right, y, x), into, [out])
            for (x, y), into in zip(pairs, arrays[count:], strict=True)
        ]
        return [
            arith.select(take_right, left, arith.addi(left, one)),
            arith.select(take_right, arith.addi(right, one), right),
            *arrays[:count],
            *written,
        ]

    results = b.loop([arith.subi(end, start)], [start, middle, *carried], step)
    return results[2:]
