"""Places of values in sorted sequences."""

from __future__ import annotations

from typing import Any

import torch
from mlir import ir
from mlir.dialects import arith, scf, tensor

from .. import scalars
from ..builder import PARALLEL, Builder, loop_index
from ..registry import lowers
from ..values import Tensor

aten = torch.ops.aten


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
    A NaN stands after all. The bisection's steps are eager's, also where nothing is sorted.
    """
    dtype, shape = b.result_dtype(), values.shape
    common = torch.promote_types(sequence.dtype, values.dtype)
    base, length = b.value(sequence), b.index(sequence.shape[-1])
    lead = sequence.rank - 1
    index, identity = ir.IndexType.get(), ir.AffineMap.get_identity(len(shape))
    zero, one = b.index_constant(0), b.index_constant(1)

    def body(value: ir.Value, _: ir.Value) -> ir.Value:
        value = scalars.cast(value, values.dtype, common)
        row = [loop_index(i) for i in range(lead)]
        loop = scf.WhileOp([index, index], [zero, length])
        for region in (loop.before, loop.after):
            region.blocks.append(index, index)
        with ir.InsertionPoint(loop.before.blocks[0]):
            low, high = loop.before.blocks[0].arguments
            scf.ConditionOp(arith.cmpi(arith.CmpIPredicate.slt, low, high), [low, high])
        with ir.InsertionPoint(loop.after.blocks[0]):
            low, high = loop.after.blocks[0].arguments
            middle = arith.addi(low, arith.shrui(arith.subi(high, low), one))
            element = tensor.extract(base, [*row, middle])
            element = scalars.cast(element, sequence.dtype, common)
            after = scalars.compare("gt" if right else "ge", element, value, common)
            above = arith.select(after, low, arith.addi(middle, one))
            scf.YieldOp([above, arith.select(after, middle, high)])
        found = arith.index_cast(ir.IntegerType.get_signless(64), loop.results[0])
        return scalars.cast(found, torch.int64, dtype)

    (result,) = b.generic(
        [(b.value(values), identity)],
        [(b.empty(shape, dtype), identity)],
        [PARALLEL] * len(shape),
        body,
    )
    return Tensor.plain(result, dtype, shape)
