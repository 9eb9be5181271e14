"""Calls of the run-time library with whole tensors (`buddy.library_call`)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from mlir import ir
from mlir.dialects import arith, tensor

from .. import scalars
from ..builder import Builder
from ..symbols import Dim
from ..values import Tensor


def library_call(
    b: Builder,
    name: str,
    arguments: Sequence[Tensor | int | float | ir.Value],
    results: Sequence[tuple[torch.dtype, Sequence[Dim]]],
) -> list[Tensor]:
    """Return the tensors that a function of the run-time library makes, and check its last result.

    name: what follows `buddy_`. arguments: tensors, and numbers, which are passed as i64 (also
    booleans) or f64; a value is an `index` or an f64. results: dtype and shape of each, but for
    the last one, an i32 that is not 0 if the function found no memory for its work or does not
    take such sizes; then the call fails.
    """
    operands = [_operand(b, argument) for argument in arguments]
    inits = [b.empty(shape, dtype) for dtype, shape in (*results, (torch.int32, ()))]
    op = b.buddy_op(
        "library_call",
        [*operands, *inits],
        [init.type for init in inits],
        {
            "callee": ir.StringAttr.get(f"buddy_{name}"),
            "destinations": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), len(inits)),
        },
    )
    *values, failed = op.results
    zero = scalars.constant(0, torch.int32)
    b.check(
        scalars.compare("eq", tensor.extract(failed, []), zero, torch.int32),
        f"{name.replace('_', '.', 1)}: no memory for its work, or sizes that the library refuses",
    )
    return [
        Tensor.plain(value, dtype, shape)
        for value, (dtype, shape) in zip(values, results, strict=True)
    ]


def _operand(b: Builder, argument: Tensor | int | float | ir.Value) -> ir.Value:
    if isinstance(argument, Tensor):
        return b.value(argument)
    i64 = ir.IntegerType.get_signless(64)
    if isinstance(argument, ir.Value):
        return arith.index_cast(i64, argument) if argument.type == ir.IndexType.get() else argument
    if isinstance(argument, float):
        return arith.constant(ir.F64Type.get(), argument)
    return arith.constant(i64, int(argument))


def like_result(b: Builder, index: int | None = None) -> tuple[torch.dtype, Sequence[Dim]]:
    """Return dtype and shape of the node's result (the `index`-th, when there are several)."""
    return b.result_dtype(index), b.result_shape(index)
