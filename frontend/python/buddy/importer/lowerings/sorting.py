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
    return sort(b, x, dim, descending)


@lowers(aten.sort.stable)
def _sort_stable(
    b: Builder, x: Tensor, stable: Any = None, dim: int = -1, descending: bool = False
) -> tuple[Tensor, Tensor]:
    return sort(b, x, dim, descending)


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


def sort(b: Builder, x: Tensor, dim: int, descending: bool) -> tuple[Tensor, Tensor]:
    """Return (sorted values, their indices) along a dimension; stable.

    Bottom-up merge sort: runs of 1, 2, 4, ... are merged into a second buffer and back by turns.
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
    length = b.index(rows.shape[-1])

    def sort_row(_: list[ir.Value], carried: list[ir.Value]) -> list[ir.Value]:
        return _merge_passes(b, length, carried, stands_before)

    pair = [rows.base, positions(b, rows)]
    pair += [b.empty(rows.shape, dtype) for dtype in (rows.dtype, torch.int64)]
    dtypes = [rows.dtype, torch.int64] * 2
    start = [Tensor.plain(v, dtype, rows.shape) for v, dtype in zip(pair, dtypes, strict=True)]
    values, places, *_ = b.rows(rows.rank - 1, start, sort_row)
    return values, places


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
        width = arith.muli(width, two)
        state = [*state[2:], *state[:2]]
        state = _merge_pass(b, width, length, state, stands_before)
        scf.YieldOp([arith.muli(width, two), *state[2:], *state[:2]])
    return list(loop.results)[1:]


def _merge_pass(
    b: Builder,
    width: ir.Value,
    length: ir.Value,
    state: list[ir.Value],
    stands_before: Before,
) -> list[ir.Value]:
    """Merge each two neighbouring runs of a width, from one pair of buffers to the other."""
    pairs = arith.ceildivsi(length, arith.muli(width, b.index_constant(2)))

    def merge(at: list[ir.Value], values: list[ir.Value]) -> list[ir.Value]:
        return _merge_pair(b, at[0], width, length, values, stands_before)

    return b.loop([pairs], state, merge)


def _merge_pair(
    b: Builder,
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
        left_place = [arith.minsi(left, arith.subi(length, one))]
        right_place = [arith.minsi(right, arith.subi(length, one))]
        left_key, right_key = tensor.extract(keys, left_place), tensor.extract(keys, right_place)
        left_left = arith.cmpi(arith.CmpIPredicate.slt, left, middle)
        right_left = arith.cmpi(arith.CmpIPredicate.slt, right, end)
        right_first = stands_before(right_key, left_key)
        take_right = arith.andi(right_left, arith.ori(scalars.logical_not(left_left), right_first))
        key = arith.select(take_right, right_key, left_key)
        place = arith.select(
            take_right, tensor.extract(places, right_place), tensor.extract(places, left_place)
        )
        keys_out = tensor.insert(key, keys_out, [out])
        places_out = tensor.insert(place, places_out, [out])
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
