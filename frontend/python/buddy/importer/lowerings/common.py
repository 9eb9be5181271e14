"""What several families of rules share: run-time checks and dimension numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from mlir import ir
from mlir.dialects import arith, tensor

from .. import scalars
from ..builder import REDUCTION, Builder
from ..values import Tensor


def normalize(dim: int, rank: int) -> int:
    """Return a dimension number in [0, rank) (rank 0 counts as 1)."""
    return dim % max(rank, 1)


def normalize_all(dims: int | Sequence[int] | None, rank: int) -> list[int]:
    """Return dimension numbers in order; None or an empty list is all of them."""
    if dims is None or (not isinstance(dims, int) and not len(dims)):
        return list(range(rank))
    dims = [dims] if isinstance(dims, int) else dims
    return sorted({normalize(d, rank) for d in dims}) if rank else []


def check_all(
    b: Builder,
    operands: Sequence[Tensor],
    predicate: Callable[..., ir.Value],
    message: str,
    shape: Sequence[Any] | None = None,
) -> None:
    """Make the call fail with a message unless the predicate holds for all elements."""
    if 0 in (operands[0].shape if shape is None else shape):
        return
    if len(operands) == 1:
        # Repeated elements need no second look.
        source = operands[0]
        operands = [Tensor.plain(source.base, source.dtype, b.base_shape(source))]
    shape = operands[0].shape if shape is None else shape
    inputs = [b.operand(operand, shape) for operand in operands]
    true = scalars.constant(True, torch.bool)
    (result,) = b.generic(
        inputs,
        [(b.full((), true, torch.bool), ir.AffineMap.get(len(shape), 0, []))],
        [REDUCTION] * len(shape),
        lambda *elements: arith.andi(elements[-1], predicate(*elements[:-1])),
    )
    b.check(tensor.extract(result, []), message)
