"""Sums of runs of rows that indices choose (embedding bags)."""

from __future__ import annotations

import torch
from mlir import ir
from mlir.dialects import arith, linalg, tensor

import buddy.bags  # noqa: F401  (defines torch.ops.buddy.bag_sums)

from .. import scalars
from ..builder import PARALLEL, REDUCTION, Builder, loop_index
from ..registry import lowers
from ..values import Tensor
from .indexing import check_index, safe_index


@lowers(torch.ops.buddy.bag_sums.default)
def _bag_sums(
    b: Builder,
    weight: Tensor,
    indices: Tensor,
    starts: Tensor,
    scales: Tensor | None,
    padding: int,
    dtype: torch.dtype,
) -> Tensor:
    check_index(b, indices, weight.shape[0], "embedding_bag", negative=False)
    shape = b.result_shape()
    (count,) = indices.shape
    zero = scalars.constant(0, dtype)
    if 0 in (count, weight.shape[0]):
        return Tensor.plain(b.full(shape, zero, dtype), dtype, shape)
    rows, limits = b.value(weight), b.value(starts)
    given = [indices, *([] if scales is None else [scales])]
    # Reductions outside: vectors then lie along the rows.
    d = [ir.AffineDimExpr.get(i) for i in range(2)]
    at_place, at_column = (ir.AffineMap.get(2, 0, [dim]) for dim in d)

    def add(index: ir.Value, *rest: ir.Value) -> ir.Value:
        *scale, total = rest
        row = safe_index(b, index, indices.dtype, weight.shape[0], negative=False)
        value = tensor.extract(rows, [row, loop_index(1)])
        value = scalars.cast(value, weight.dtype, dtype)
        if scales is not None:
            factor = scalars.cast(scale[0], scales.dtype, dtype)
            value = scalars.mul(dtype, value, factor)
        if padding >= 0:
            left_out = scalars.constant(padding, indices.dtype)
            used = scalars.compare("ne", index, left_out, indices.dtype)
            value = arith.select(used, value, zero)
        return scalars.add(dtype, total, value)

    def bag(at: list[ir.Value], sums: list[ir.Value]) -> list[ir.Value]:
        after = arith.addi(at[0], b.index_constant(1))
        # Whatever the limits are, nothing outside is read.
        first, last = (
            safe_index(b, tensor.extract(limits, [place]), starts.dtype, count + 1, negative=False)
            for place in (at[0], after)
        )
        size = arith.maxsi(arith.subi(last, first), b.index_constant(0))
        parts = [(b.run(b.value(source), first, size), at_place) for source in given]
        init = linalg.fill(zero, outs=sums)
        return b.generic(parts, [(init, at_column)], [REDUCTION, PARALLEL], add)

    sums = Tensor.plain(b.empty(shape, dtype), dtype, shape)
    return Tensor.plain(b.rows(1, [sums], bag)[0], dtype, shape)
