"""`as_strided`: elements by their place in a tensor's memory.

Tensors have no memory here: a place in it is one in the contiguous order of the dimensions by
decreasing stride, for a tensor that fills its storage.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from mlir import ir
from mlir.dialects import arith, tensor

from .. import shapes
from ..builder import PARALLEL, Builder, loop_index
from ..errors import Unsupported
from ..registry import lowers, node_arg
from ..symbols import Dim, as_dim, as_dims, is_contiguous, product, same
from ..values import Tensor

aten = torch.ops.aten


def _memory_order(meta: torch.Tensor) -> list[int] | None:
    """Return the dimensions in the order in which they lie in memory; None if there are gaps."""
    if not same(as_dim(meta.storage_offset()), 0):
        return None
    stored = as_dim(meta.untyped_storage().nbytes())
    if not same(product((*as_dims(meta.shape), meta.element_size())), stored):
        return None
    shape, strides = as_dims(meta.shape), as_dims(meta.stride())
    order = list(range(meta.dim()))
    if not is_contiguous(shape, strides):
        if not all(isinstance(stride, int) for stride in strides):
            return None
        order.sort(key=lambda dim: strides[dim], reverse=True)
        if not is_contiguous(
            tuple(shape[dim] for dim in order), tuple(strides[dim] for dim in order)
        ):
            return None
    return order


def _filling(node: torch.fx.Node) -> str | None:
    if _memory_order(node_arg(node, 0).meta["val"]) is None:
        return "a tensor that does not fill its memory"
    return None


def _flat(b: Builder, x: Tensor) -> Tensor:
    order = _memory_order(node_arg(b.node, 0).meta["val"])
    if order is None:
        raise Unsupported("a tensor that does not fill its memory")
    return shapes.reshape(b, x.permute(order), (product(x.shape),))


def _check_inside(
    b: Builder, count: Dim, size: Sequence[Dim], stride: Sequence[Dim], offset: Dim, name: str
) -> None:
    """Make the call fail unless all places are inside; known sizes were checked in tracing."""
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if isinstance(last, int) and isinstance(count, int):
        return
    inside = arith.cmpi(arith.CmpIPredicate.slt, b.index(last), b.index(count))
    b.check(inside, f"{name}: out of the tensor's memory", precondition=True)


def _place(b: Builder, at: Sequence[ir.Value], stride: Sequence[Dim], offset: Dim) -> ir.Value:
    place = b.index(offset)
    for counter, step in zip(at, stride, strict=True):
        place = arith.addi(place, arith.muli(counter, b.index(step)))
    return place


@lowers(aten.as_strided.default, condition=_filling)
def _as_strided(
    b: Builder, x: Tensor, size: Sequence[Any], stride: Sequence[Any], offset: Any = None
) -> Tensor:
    shape, stride, start = as_dims(size), as_dims(stride), as_dim(offset or 0)
    if 0 in shape:
        return Tensor.plain(b.empty(shape, x.dtype), x.dtype, shape)
    flat = _flat(b, x)
    _check_inside(b, flat.shape[0], shape, stride, start, "as_strided")
    value = b.value(flat)

    def body(_: ir.Value) -> ir.Value:
        at = [loop_index(i) for i in range(len(shape))]
        return tensor.extract(value, [_place(b, at, stride, start)])

    identity = ir.AffineMap.get_identity(len(shape))
    (result,) = b.generic([], [(b.empty(shape, x.dtype), identity)], [PARALLEL] * len(shape), body)
    return Tensor.plain(result, x.dtype, shape)


@lowers(aten.as_strided_scatter.default, condition=_filling)
def _as_strided_scatter(
    b: Builder,
    x: Tensor,
    source: Tensor,
    size: Sequence[Any],
    stride: Sequence[Any],
    offset: Any = None,
) -> Tensor:
    """x with the source's elements, in row-major order, at places of its memory."""
    shape, stride, start = as_dims(size), as_dims(stride), as_dim(offset or 0)
    if 0 in shape:
        return x
    order = _memory_order(node_arg(b.node, 0).meta["val"])
    assert order is not None
    flat = _flat(b, x)
    _check_inside(b, flat.shape[0], shape, stride, start, "as_strided_scatter")
    values = b.value(b.cast(source, x.dtype))

    def body(at: list[ir.Value], carried: list[ir.Value]) -> list[ir.Value]:
        return [
            tensor.insert(tensor.extract(values, at), carried[0], [_place(b, at, stride, start)])
        ]

    (result,) = b.loop(shape, [b.value(flat)], body)
    whole = shapes.reshape(
        b, Tensor.plain(result, x.dtype, flat.shape), tuple(x.shape[dim] for dim in order)
    )
    return whole.permute([order.index(dim) for dim in range(x.rank)])
