"""Products of groups of rows, each group with a matrix of its own (mixtures of experts)."""

from __future__ import annotations

from typing import Any

import torch
from mlir import ir
from mlir.dialects import arith, tensor

from .. import scalars, types
from ..builder import PARALLEL, REDUCTION, Builder
from ..errors import Unsupported
from ..registry import lowers
from ..values import Tensor
from .indexing import safe_index

aten = torch.ops.aten


@lowers(aten._grouped_mm.default)
def _grouped_mm(
    b: Builder, x: Tensor, w: Tensor, ends: Tensor | None, bias: Tensor | None, _: Any
) -> Tensor:
    """x: [rows, k]; w: [groups, k, n]; group i owns the rows ends[i - 1] to ends[i].

    Row by row, since groups' sizes are data: each row streams its group's matrix. Rows after the
    last group, which PyTorch leaves uninitialised, are 0.
    """
    if x.rank != 2 or w.rank != 3 or ends is None or bias is not None:
        raise Unsupported("only rows in groups, [rows, k] by [groups, k, n], without a bias")
    rows, k = x.shape
    groups, _, n = w.shape
    if groups == 0 or not isinstance(k, int) or not isinstance(n, int):
        raise Unsupported("no groups, or matrices of symbolic sizes")
    dtype, sum_type = b.result_dtype(), types.accumulator(x.dtype)
    left, limits = b.value(x), b.value(ends)
    # The matrices may lie transposed; they are read where they lie.
    order = [w.dims[1], w.dims[2]]
    if w.dims[0] != 0 or None in order:
        w = b.plain(w)
        order = [1, 2]
    transposed = order == [2, 1]
    inner = [n, k] if transposed else [k, n]

    def group(counters: list[ir.Value], values: list[ir.Value]) -> list[ir.Value]:
        (g,) = counters
        before = arith.maxsi(g, b.index_constant(1))
        previous = arith.subi(before, b.index_constant(1))
        first = safe_index(b, tensor.extract(limits, [previous]), ends.dtype, rows + 1, False)
        start = arith.cmpi(arith.CmpIPredicate.eq, g, b.index_constant(0))
        first = arith.select(start, b.index_constant(0), first)
        last = safe_index(b, tensor.extract(limits, [g]), ends.dtype, rows + 1, False)
        count = arith.maxsi(arith.subi(last, first), b.index_constant(0))
        matrix = _part(b, w.base, [g, 0, 0], [1, *inner], inner)

        def row(counters: list[ir.Value], values: list[ir.Value]) -> list[ir.Value]:
            at = [arith.addi(first, counters[0]), 0]
            vector = _part(b, left, at, [1, k], [k])
            d = [ir.AffineDimExpr.get(i) for i in range(2)]  # n, k
            at_w = [d[0], d[1]] if transposed else [d[1], d[0]]
            (total,) = b.generic(
                [
                    (vector, ir.AffineMap.get(2, 0, [d[1]])),
                    (matrix, ir.AffineMap.get(2, 0, at_w)),
                ],
                [
                    (
                        b.full([n], scalars.constant(0, sum_type), sum_type),
                        ir.AffineMap.get(2, 0, [d[0]]),
                    )
                ],
                [PARALLEL, REDUCTION],
                lambda p, q, acc: scalars.add(
                    sum_type,
                    acc,
                    scalars.mul(
                        sum_type,
                        scalars.cast(p, x.dtype, sum_type),
                        scalars.cast(q, w.dtype, sum_type),
                    ),
                ),
            )
            result = b.cast(Tensor.plain(total, sum_type, (n,)), dtype)
            return [b.insert_slice(b.value(result), values[0], at, [1, n])]

        return b.loop([count], values, row)

    init = b.full((rows, n), scalars.constant(0, dtype), dtype)
    (value,) = b.loop([groups], [init], group)
    return Tensor.plain(value, dtype, (rows, n))


def _part(
    b: Builder, source: ir.Value, offsets: list[Any], sizes: list[Any], shape: list[int]
) -> ir.Value:
    """Return a rectangular part without its unit dimensions."""
    type_ = ir.RankedTensorType.get(shape, source.type.element_type)
    parts = [b.mixed(part) for part in (offsets, sizes, [1] * len(sizes))]
    return tensor.ExtractSliceOp(
        type_, source, *[values for values, _ in parts], *[statics for _, statics in parts]
    ).result
