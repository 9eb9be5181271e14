"""Reading by index tensors. Indices are checked once and clamped where they are used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from mlir import ir
from mlir.dialects import arith, tensor

from .. import scalars, shapes
from ..builder import PARALLEL, Builder, loop_index
from ..registry import lowers, tensor_metas
from ..symbols import Dim
from ..values import Tensor
from .common import check_all, normalize

aten = torch.ops.aten


def check_index(b: Builder, index: Tensor, size: Dim, name: str, negative: bool = True) -> None:
    """Make the call fail if an index is outside [-size, size), or [0, size)."""

    def inside(value: ir.Value) -> ir.Value:
        value = scalars.cast(value, index.dtype, torch.int64)
        limit = arith.index_cast(ir.IntegerType.get_signless(64), b.index(size))
        zero = scalars.constant(0, torch.int64)
        low = arith.subi(zero, limit) if negative else zero
        return arith.andi(
            scalars.compare("ge", value, low, torch.int64),
            scalars.compare("lt", value, limit, torch.int64),
        )

    check_all(b, [index], inside, f"{name}: index out of range")


def safe_index(
    b: Builder, value: ir.Value, dtype: torch.dtype, size: Dim, negative: bool = True
) -> ir.Value:
    """Return an index element as an `index` in [0, max(size, 1)), whatever it is."""
    value = scalars.cast(value, dtype, torch.int64)
    position = arith.index_cast(ir.IndexType.get(), value)
    limit, zero = b.index(size), b.index_constant(0)
    if negative:
        below = arith.cmpi(arith.CmpIPredicate.slt, position, zero)
        position = arith.select(below, arith.addi(position, limit), position)
    position = arith.minsi(position, arith.subi(limit, b.index_constant(1)))
    return arith.maxsi(position, zero)


@lowers(aten.embedding.default)
def _embedding(b: Builder, weight: Tensor, index: Tensor, *_: Any) -> Tensor:
    check_index(b, index, weight.shape[0], "embedding", negative=False)
    return take_rows(b, weight, index, negative=False)


def take_rows(b: Builder, source: Tensor, index: Tensor, negative: bool) -> Tensor:
    """Return source[index]: the index's shape, then the source's without its first dimension."""
    return gather(b, source, [index, *[None] * (source.rank - 1)], index.shape, 0, negative)


def gather(
    b: Builder,
    source: Tensor,
    indices: Sequence[Tensor | None],
    index_shape: Sequence[Dim],
    position: int,
    negative: bool = True,
) -> Tensor:
    """Return the elements at broadcast index tensors; dimensions without one are kept.

    index_shape: the indices' common shape, put at `position` among the kept dimensions.
    """
    kept = [i for i, index in enumerate(indices) if index is None]
    kept_shape = [source.shape[i] for i in kept]
    shape = (*kept_shape[:position], *index_shape, *kept_shape[position:])
    loops = [*range(position), *range(position + len(index_shape), len(shape))]
    loop_of = dict(zip(kept, loops, strict=True))
    used = [(i, index) for i, index in enumerate(indices) if index is not None]
    inputs = [b.operand(index, index_shape, len(shape), position) for _, index in used]
    value = b.value(source)

    def body(*elements: ir.Value) -> ir.Value:
        at: list[Any] = [None] * source.rank
        for dim, loop in loop_of.items():
            at[dim] = loop_index(loop)
        for (dim, index), element in zip(used, elements, strict=False):
            at[dim] = safe_index(b, element, index.dtype, source.shape[dim], negative)
        return tensor.extract(value, at)

    empty = any(source.shape[i] == 0 for i, _ in used)
    init = b.empty(shape, source.dtype)
    if empty:
        # Nothing can be read; the check has failed unless there is no index either.
        init = b.full(shape, scalars.constant(0, source.dtype), source.dtype)
        return Tensor.plain(init, source.dtype, shape)
    identity = ir.AffineMap.get_identity(len(shape))
    (result,) = b.generic(inputs, [(init, identity)], [PARALLEL] * len(shape), body)
    return Tensor.plain(result, source.dtype, shape)


def integer_indices(node: torch.fx.Node) -> str | None:
    """Say why the index tensors of a node cannot be used: bool masks have no static shape."""
    for meta in tensor_metas(node.args[1]):
        if meta.dtype in (torch.bool, torch.uint8):
            return "indexing by a mask has a data-dependent shape"
    return None


def index_layout(indices: Sequence[Any]) -> int:
    """Return where index dimensions go: at the first one if all are adjacent, else in front."""
    places = [i for i, index in enumerate(indices) if index is not None]
    adjacent = places == list(range(places[0], places[-1] + 1)) if places else True
    return places[0] if places and adjacent else 0


def broadcast_shape(tensors: Sequence[Tensor]) -> tuple[Dim, ...]:
    """Return the common shape of index tensors."""
    rank = max((x.rank for x in tensors), default=0)
    shape: list[Dim] = [1] * rank
    for x in tensors:
        for i, size in enumerate(x.shape):
            if size != 1:
                shape[rank - x.rank + i] = size
    return tuple(shape)


@lowers(aten.index.Tensor, aten._unsafe_index.Tensor, condition=integer_indices)
def _index(b: Builder, x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    indices = [*indices, *[None] * (x.rank - len(indices))]
    for dim, index in enumerate(indices):
        # An unsafe one's indices are known to be inside; its kernel does not look either.
        if index is not None and b.node.target is not aten._unsafe_index.Tensor:
            check_index(b, index, x.shape[dim], "index")
    index_shape = broadcast_shape([index for index in indices if index is not None])
    return gather(b, x, indices, index_shape, index_layout(indices))


@lowers(aten.index_select.default)
def _index_select(b: Builder, x: Tensor, dim: int, index: Tensor) -> Tensor:
    if x.rank == 0:
        return x
    dim = normalize(dim, x.rank)
    if index.rank == 0:
        index = index.unsqueeze(0)
    check_index(b, index, x.shape[dim], "index_select", negative=False)
    indices: list[Tensor | None] = [None] * x.rank
    indices[dim] = index
    return gather(b, x, indices, index.shape, dim, negative=False)


@lowers(aten.gather.default)
def _gather(b: Builder, x: Tensor, dim: int, index: Tensor, *_: Any) -> Tensor:
    if x.rank == 0:
        x = x.unsqueeze(0)
        index = index.unsqueeze(0) if index.rank == 0 else index
        result = _gather(b, x, 0, index)
        return shapes.reshape(b, result, b.result_shape())
    if index.rank == 0:
        index = index.unsqueeze(0)
    dim = normalize(dim, x.rank)
    check_index(b, index, x.shape[dim], "gather", negative=False)
    value, shape = b.value(x), index.shape
    if x.shape[dim] == 0:
        init = b.full(shape, scalars.constant(0, x.dtype), x.dtype)
        return Tensor.plain(init, x.dtype, shape)

    def body(element: ir.Value) -> ir.Value:
        at = [loop_index(i) for i in range(x.rank)]
        at[dim] = safe_index(b, element, index.dtype, x.shape[dim], negative=False)
        return tensor.extract(value, at)

    result = b.pointwise([index], shape, x.dtype, body)
    return shapes.reshape(b, result, b.result_shape())
