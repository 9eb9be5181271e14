"""Operators on the results of matrix decompositions."""

from __future__ import annotations

import torch
from mlir import ir
from mlir.dialects import arith, tensor

from .. import scalars
from ..builder import PARALLEL, Builder, loop_index
from ..registry import lowers
from ..symbols import Dim
from ..values import Tensor
from .view import slice_dim, triangle

aten = torch.ops.aten


@lowers(aten.lu_unpack.default)
def _lu_unpack(
    b: Builder, lu: Tensor, pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """(P, L, U) of a packed LU decomposition [..., m, n] and its row swaps [..., min(m, n)]."""
    permutation = lower = upper = None
    if unpack_pivots:
        permutation = _permutation_matrix(b, lu, pivots)
    if unpack_data:
        rank = lu.rank
        count = b.result_shape(1)[-1]
        low = triangle(b, slice_dim(b, lu, rank - 1, 0, count), -1, upper=False)
        lower = _with_unit_diagonal(b, low)
        upper = triangle(b, slice_dim(b, lu, rank - 2, 0, count), 0, upper=True)
    return tuple(  # type: ignore[return-value]
        Tensor.plain(b.empty((0,), lu.dtype), lu.dtype, (0,)) if part is None else part
        for part in (permutation, lower, upper)
    )


def _with_unit_diagonal(b: Builder, x: Tensor) -> Tensor:
    def body(value: ir.Value) -> ir.Value:
        row, column = loop_index(x.rank - 2), loop_index(x.rank - 1)
        same = arith.cmpi(arith.CmpIPredicate.eq, row, column)
        return arith.select(same, scalars.constant(1, x.dtype), value)

    return b.pointwise([x], x.shape, x.dtype, body)


def _permutation_matrix(b: Builder, lu: Tensor, pivots: Tensor) -> Tensor:
    batch: tuple[Dim, ...] = lu.shape[:-2]
    rows = lu.shape[-2]
    shape = (*batch, rows)
    identity = ir.AffineMap.get_identity(len(shape))
    index = ir.IndexType.get()
    i64 = ir.IntegerType.get_signless(64)
    (order,) = b.generic(
        [],
        [(b.empty(shape, torch.int64), identity)],
        [PARALLEL] * len(shape),
        lambda _: arith.index_cast(i64, loop_index(len(shape) - 1)),
    )
    swaps = b.value(pivots)
    zero, one = b.index_constant(0), b.index_constant(1)

    def swap(at: list[ir.Value], carried: list[ir.Value]) -> list[ir.Value]:
        pivot = scalars.cast(tensor.extract(swaps, at), pivots.dtype, torch.int64)
        row = arith.subi(arith.index_cast(index, pivot), one)
        last = arith.subi(b.index(rows), one)
        there = [*at[:-1], arith.maxsi(arith.minsi(row, last), zero)]
        first, second = tensor.extract(carried[0], at), tensor.extract(carried[0], there)
        return [tensor.insert(first, tensor.insert(second, carried[0], at), there)]

    if 0 not in (*shape, *pivots.shape):
        (order,) = b.loop(pivots.shape, [order], swap)
    columns = Tensor.plain(order, torch.int64, shape).unsqueeze(len(shape) - 1)

    def body(column: ir.Value) -> ir.Value:
        row = arith.index_cast(i64, loop_index(len(shape) - 1))
        return scalars.cast(arith.cmpi(arith.CmpIPredicate.eq, row, column), torch.bool, lu.dtype)

    return b.pointwise([columns], (*batch, rows, rows), lu.dtype, body)
