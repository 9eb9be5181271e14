"""Padding by elements of the tensor itself: mirrored, or its edges repeated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from mlir import ir
from mlir.dialects import arith

from ..builder import Builder
from ..registry import lowers
from ..symbols import as_dim
from ..values import Tensor
from .view import gather_elements

aten = torch.ops.aten


@lowers(aten.reflection_pad1d.default, aten.reflection_pad2d.default, aten.reflection_pad3d.default)
def _reflection_pad(b: Builder, x: Tensor, padding: Sequence[Any]) -> Tensor:
    def mirrored(place: ir.Value, last: ir.Value) -> ir.Value:
        zero = b.index_constant(0)
        place = arith.maxsi(place, arith.subi(zero, place))
        beyond = arith.subi(last, place)
        return arith.subi(last, arith.maxsi(beyond, arith.subi(zero, beyond)))

    return _pad_by_places(b, x, padding, mirrored)


@lowers(
    aten.replication_pad1d.default, aten.replication_pad2d.default, aten.replication_pad3d.default
)
def _replication_pad(b: Builder, x: Tensor, padding: Sequence[Any]) -> Tensor:
    return _pad_by_places(b, x, padding, lambda place, last: place)


def _pad_by_places(b: Builder, x: Tensor, padding: Sequence[Any], where: Any) -> Tensor:
    """Return x with each element from `where(its place in x or beyond, the last place)`.

    padding: (before, after) of the last dimension, then of the one before it, as ATen has it.
    What `where` returns is clamped.
    """
    first = x.rank - len(padding) // 2
    lows = {x.rank - 1 - i: as_dim(padding[2 * i]) for i in range(len(padding) // 2)}

    def source(dim: int, place: ir.Value) -> ir.Value:
        if dim < first:
            return place
        last = arith.subi(b.index(x.shape[dim]), b.index_constant(1))
        place = where(arith.subi(place, b.index(lows[dim])), last)
        return arith.maxsi(arith.minsi(place, last), b.index_constant(0))

    return gather_elements(b, x, b.result_shape(), source)
