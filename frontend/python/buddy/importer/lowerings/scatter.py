"""Writing into parts of a tensor.

The target is carried through the writes (`insert_slice`, or `scf.for` with inserts), so that
bufferization updates a cache where it lies instead of copying it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from mlir import ir
from mlir.dialects import arith, tensor

from .. import scalars, types
from ..builder import PARALLEL, Builder
from ..registry import lowers, node_arg, tensor_metas
from ..shapes import reshape, squeeze
from ..symbols import Dim, as_dim, same
from ..values import Tensor
from .common import check_all, normalize
from .indexing import broadcast_shape, check_index, index_layout, safe_index, take_rows
from .view import clamp_start, expand, wrap_index

aten = torch.ops.aten
Combine = Callable[[ir.Value, ir.Value], ir.Value]


@lowers(aten.copy.default)
def _copy(b: Builder, x: Tensor, source: Tensor, *_: Any) -> Tensor:
    return expand(b, b.cast(source, x.dtype), x.shape)


@lowers(aten.slice_scatter.default)
def _slice_scatter(
    b: Builder,
    x: Tensor,
    source: Tensor,
    dim: int = 0,
    start: Any = None,
    end: Any = None,
    step: Any = 1,
) -> Tensor:
    dim = normalize(dim, x.rank)
    source = b.cast(source, x.dtype)
    if step == 1 and same(source.shape[dim], x.shape[dim]):
        return expand(b, source, x.shape)
    source_meta = node_arg(b.node, 1).meta["val"]
    sizes = [as_dim(size) for size in source_meta.shape]
    offsets: list[Any] = [0] * x.rank
    strides: list[Any] = [1] * x.rank
    offsets[dim], strides[dim] = clamp_start(start, x.shape[dim]), step
    value = b.insert_slice(b.value(source), b.value(x), offsets, sizes, strides)
    return Tensor.plain(value, x.dtype, x.shape)


@lowers(aten.select_scatter.default)
def _select_scatter(b: Builder, x: Tensor, source: Tensor, dim: int, index: Any) -> Tensor:
    dim = normalize(dim, x.rank)
    offsets: list[Any] = [0] * x.rank
    offsets[dim] = wrap_index(b, index, x.shape[dim], "select_scatter")
    source = b.cast(source, x.dtype).unsqueeze(dim)
    sizes = [1 if i == dim else size for i, size in enumerate(x.shape)]
    value = b.insert_slice(b.value(source), b.value(x), offsets, sizes)
    return Tensor.plain(value, x.dtype, x.shape)


@lowers(aten.diagonal_scatter.default)
def _diagonal_scatter(
    b: Builder, x: Tensor, source: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    dim1, dim2 = normalize(dim1, x.rank), normalize(dim2, x.rank)
    kept = [i for i in range(x.rank) if i not in (dim1, dim2)]
    values = b.value(b.cast(source, x.dtype))
    row, column = b.index_constant(max(-offset, 0)), b.index_constant(max(offset, 0))

    def body(at: list[ir.Value], carried: list[ir.Value]) -> list[ir.Value]:
        place: list[Any] = [None] * x.rank
        for loop, dim in enumerate(kept):
            place[dim] = at[loop]
        place[dim1], place[dim2] = arith.addi(at[-1], row), arith.addi(at[-1], column)
        return [tensor.insert(tensor.extract(values, at), carried[0], place)]

    (result,) = b.loop(source.shape, [b.value(x)], body)
    return Tensor.plain(result, x.dtype, x.shape)


def _slab(rank: int, dim: int, place: Any) -> list[Any]:
    offsets: list[Any] = [0] * rank
    offsets[dim] = place
    return offsets


@lowers(aten.index_copy.default)
def _index_copy(b: Builder, x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    return _write_slabs(b, x, dim, index, source, "index_copy", None)


@lowers(aten.index_fill.int_Scalar, aten.index_fill.int_Tensor)
def _index_fill(b: Builder, x: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    dim = normalize(dim, x.rank)
    count = index.shape[0] if index.rank else 1
    shape = tuple(count if i == dim else size for i, size in enumerate(x.shape))
    if isinstance(value, Tensor):
        source = expand(b, b.cast(value, x.dtype), shape)
    else:
        source = _spread(b, value, x.dtype, shape)
    return _write_slabs(b, x, dim, index, source, "index_fill", None, negative=True)


@lowers(aten.index_add.default)
def _index_add(
    b: Builder, x: Tensor, dim: int, index: Tensor, source: Tensor, alpha: Any = 1
) -> Tensor:
    def combine(old: ir.Value, new: ir.Value) -> ir.Value:
        compute = types.opmath(x.dtype)
        new = scalars.cast(new, x.dtype, compute)
        if not (isinstance(alpha, (int, float)) and alpha == 1):
            new = scalars.mul(compute, new, b.scalar(alpha, compute))
        total = scalars.add(compute, scalars.cast(old, x.dtype, compute), new)
        return scalars.cast(total, compute, x.dtype)

    return _write_slabs(b, x, dim, index, source, "index_add", combine)


def sum_in_opmath(dtype: torch.dtype) -> Combine:
    """Return the sum of two elements, of narrow floats computed in float32."""

    def combine(old: ir.Value, new: ir.Value) -> ir.Value:
        compute = types.opmath(dtype)
        total = scalars.add(
            compute, scalars.cast(old, dtype, compute), scalars.cast(new, dtype, compute)
        )
        return scalars.cast(total, compute, dtype)

    return combine


def combined(b: Builder, old: Tensor, new: Tensor, combine: Combine) -> Tensor:
    """Return combine(old, new) in old's memory."""
    rank = old.rank
    identity = ir.AffineMap.get_identity(rank)
    (result,) = b.generic(
        [b.operand(new, old.shape)],
        [(b.value(old), identity)],
        [PARALLEL] * rank,
        lambda element, before: combine(before, element),
    )
    return Tensor.plain(result, old.dtype, old.shape)


def _write_slabs(
    b: Builder,
    x: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    name: str,
    combine: Combine | None,
    negative: bool = False,
) -> Tensor:
    """Write slab i of the source at index[i] of a dimension, in order."""
    scalar = x.rank == 0
    if scalar:
        x = x.unsqueeze(0)
    if source.rank < x.rank:
        source = source.unsqueeze(0)
    if index.rank == 0:
        index = index.unsqueeze(0)
    dim = normalize(dim, x.rank)
    check_index(b, index, x.shape[dim], name, negative)
    source = b.plain(b.cast(source, x.dtype))
    places = b.value(index)
    sizes = [1 if i == dim else size for i, size in enumerate(x.shape)]

    def body(at: list[ir.Value], carried: list[ir.Value]) -> list[ir.Value]:
        element = tensor.extract(places, [at[0]])
        place = safe_index(b, element, index.dtype, x.shape[dim], negative)
        slab = b.extract_slice(source, _slab(x.rank, dim, at[0]), sizes, [1] * x.rank)
        offsets = _slab(x.rank, dim, place)
        if combine is not None:
            target = Tensor.plain(carried[0], x.dtype, x.shape)
            old = b.extract_slice(target, offsets, sizes, [1] * x.rank)
            slab = combined(b, old, slab, combine)
        return [b.insert_slice(slab.base, carried[0], offsets, sizes)]

    result = b.value(x)
    if 0 not in (*x.shape, *index.shape):
        (result,) = b.loop([index.shape[0]], [result], body)
    written = Tensor.plain(result, x.dtype, x.shape)
    if scalar:
        return squeeze(b, written, [0])
    return written


# ---- index_put -------------------------------------------------------------------------------


def _masks_of(node: torch.fx.Node) -> list[torch.Tensor]:
    return [m for m in tensor_metas(node.args[1]) if m.dtype in (torch.bool, torch.uint8)]


def _put_supported(node: torch.fx.Node) -> str | None:
    indices = node.args[1]
    assert isinstance(indices, (list, tuple)), node.format_node()
    if _masks_of(node) and sum(index is not None for index in indices) > 1:
        return "writing by a mask and other indices has a data-dependent shape"
    return None


@lowers(
    aten.index_put.default,
    aten._unsafe_index_put.default,
    condition=_put_supported,
)
def _index_put(
    b: Builder,
    x: Tensor,
    indices: Sequence[Tensor | None],
    values: Tensor,
    accumulate: bool = False,
    *_: Any,
) -> Tensor:
    values = b.cast(values, x.dtype)
    if _masks_of(b.node):
        return _put_mask(b, x, indices, values, accumulate)
    indices = [*indices, *[None] * (x.rank - len(indices))]
    used = [(i, index) for i, index in enumerate(indices) if index is not None]
    for dim, index in used:
        check_index(b, index, x.shape[dim], "index_put")
    index_shape = broadcast_shape([index for _, index in used])
    if 0 in (*x.shape, *index_shape):
        return x
    position = index_layout(indices)
    kept = [i for i, index in enumerate(indices) if index is None]
    kept_shape = [x.shape[i] for i in kept]
    shape = (*kept_shape[:position], *index_shape, *kept_shape[position:])
    _check_broadcast(b, values.shape, shape)
    source = b.plain(expand(b, values, shape))
    places = [b.value(expand(b, index, index_shape)) for _, index in used]
    sizes = [1 if index is not None else size for index, size in zip(indices, x.shape, strict=True)]
    slab_sizes = [
        1 if position <= i < position + len(index_shape) else size for i, size in enumerate(shape)
    ]
    dims = [dim for dim, _ in used]

    combine = sum_in_opmath(x.dtype)

    def body(at: list[ir.Value], carried: list[ir.Value]) -> list[ir.Value]:
        offsets: list[Any] = [0] * x.rank
        for (dim, index), place in zip(used, places, strict=True):
            element = tensor.extract(place, at)
            offsets[dim] = safe_index(b, element, index.dtype, x.shape[dim])
        from_: list[Any] = [0] * len(shape)
        from_[position : position + len(index_shape)] = at
        if not kept:
            new = tensor.extract(source.base, from_)
            if accumulate:
                new = combine(tensor.extract(carried[0], offsets), new)
            return [tensor.insert(new, carried[0], offsets)]
        slab = b.extract_slice(source, from_, slab_sizes, [1] * len(shape))
        slab = squeeze(b, slab, range(position, position + len(index_shape)))
        if accumulate:
            target = Tensor.plain(carried[0], x.dtype, x.shape)
            old = b.extract_slice(target, offsets, sizes, [1] * x.rank)
            slab = combined(b, squeeze(b, old, dims), slab, combine)
        for dim in dims:
            slab = slab.unsqueeze(dim)
        return [b.insert_slice(b.value(slab), carried[0], offsets, sizes)]

    (result,) = b.loop(index_shape, [b.value(x)], body)
    return Tensor.plain(result, x.dtype, x.shape)


def _check_broadcast(b: Builder, sizes: Sequence[Dim], shape: Sequence[Dim]) -> None:
    """Make the call fail where sizes that differ by their symbols are not equal.

    The number of places is not known before if it is how many elements of a mask are true.
    """
    for size, wanted in zip(reversed(sizes), reversed(shape), strict=False):
        if size != 1 and not same(size, wanted):
            equal = arith.cmpi(arith.CmpIPredicate.eq, b.index(size), b.index(wanted))
            b.check(
                equal,
                "shape mismatch: values cannot be broadcast to the result of indexing",
                precondition=True,
            )


def _put_mask(
    b: Builder, x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool
) -> Tensor:
    """Write where a mask is true: one value, or one after the other along values' dimension.

    The mask stands for dimensions `first` and following of x, and `first` of the values.
    """
    ((first, mask),) = [(i, index) for i, index in enumerate(indices) if index is not None]
    if mask.dtype is not torch.bool:
        mask = b.cast(mask, torch.bool)
    covered = range(first, first + mask.rank)
    rest = [i for i in range(x.rank) if i not in covered]
    rank = len(rest) + 1  # the values' when they are not broadcast
    count = values.shape[values.rank - rank + first] if values.rank > rank - 1 - first else 1
    # The masked dimensions go to the front: elements are then taken in order.
    order = [*covered, *rest]
    moved = x.permute(order)
    flags = mask
    for i in range(len(rest)):
        flags = flags.unsqueeze(mask.rank + i)
    whole = expand(b, values, (*x.shape[:first], count, *x.shape[first + mask.rank :]))
    whole = whole.permute([first, *(i for i in range(rank) if i != first)])

    def combine(old: ir.Value, flag: ir.Value, new: ir.Value) -> ir.Value:
        if accumulate:
            new = sum_in_opmath(x.dtype)(old, new)
        return arith.select(flag, new, old)

    if count != 1:
        whole = _taken(b, flags, whole, moved)
    else:
        whole = squeeze(b, whole, [0])
    result = b.pointwise([moved, flags, whole], moved.shape, x.dtype, combine)
    return result.permute([order.index(i) for i in range(x.rank)])


def _taken(b: Builder, flags: Tensor, values: Tensor, like: Tensor) -> Tensor:
    """Return a tensor of `like`'s shape with slab i of the values at the i-th true flag.

    flags: with `like`'s rank. The call fails unless there are as many true flags as slabs, or one
    slab for all. What stands at flags that are false has no meaning.
    """
    lead = flags.rank - values.rank + 1
    count = values.shape[0]
    marks = b.value(squeeze(b, flags, range(lead, flags.rank)))
    one, zero = b.index_constant(1), b.index_constant(0)
    shape = like.shape[:lead]
    i64 = torch.int64

    def number(at: list[ir.Value], carried: list[ir.Value]) -> list[ir.Value]:
        taken, result = carried
        place = arith.index_cast(ir.IntegerType.get_signless(64), taken)
        result = tensor.insert(place, result, at)
        return [
            arith.addi(taken, arith.index_castui(taken.type, tensor.extract(marks, at))),
            result,
        ]

    start = b.full(shape, scalars.constant(0, i64), i64)
    taken, order = b.loop(shape, [zero, start], number)
    size = b.index(count)
    fits = arith.cmpi(arith.CmpIPredicate.eq, taken, size)
    if not isinstance(count, int):
        fits = arith.ori(fits, arith.cmpi(arith.CmpIPredicate.eq, size, one))
    b.check(fits, "index_put: the mask selects another number of elements than there are values")
    if count == 0 or 0 in like.shape:
        zeros = b.full(like.shape, scalars.constant(0, like.dtype), like.dtype)
        return Tensor.plain(zeros, like.dtype, like.shape)
    return take_rows(b, values, Tensor.plain(order, i64, shape), negative=False)


# ---- scatter ---------------------------------------------------------------------------------


@lowers(aten.masked_scatter.default)
def _masked_scatter(b: Builder, x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Write the source's elements, one after the other, where the mask is true."""
    from ..symbols import product

    shape = b.result_shape()
    count = product(source.shape)
    values = b.value(reshape(b, b.cast(source, x.dtype), (count,)))
    flags = b.value(expand(b, mask, shape))
    one, zero, size = b.index_constant(1), b.index_constant(0), b.index(count)
    last = arith.subi(size, one)

    def body(at: list[ir.Value], carried: list[ir.Value]) -> list[ir.Value]:
        taken, result = carried
        flag = tensor.extract(flags, at)
        new = tensor.extract(values, [arith.maxsi(arith.minsi(taken, last), zero)])
        new = arith.select(flag, new, tensor.extract(result, at))
        taken = arith.select(flag, arith.addi(taken, one), taken)
        return [taken, tensor.insert(new, result, at)]

    target = b.value(expand(b, x, shape))
    if 0 in shape:
        return Tensor.plain(target, x.dtype, shape)
    if count == 0:
        check_all(b, [mask], scalars.logical_not, "masked_scatter: too few source elements")
        return Tensor.plain(target, x.dtype, shape)
    taken, result = b.loop(shape, [zero, target], body)
    enough = arith.cmpi(arith.CmpIPredicate.sle, taken, size)
    b.check(enough, "masked_scatter: too few source elements")
    return Tensor.plain(result, x.dtype, shape)


@lowers(aten.scatter.src)
def _scatter(b: Builder, x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    return scatter(b, x, dim, index, source, None)


@lowers(aten.scatter.value)
def _scatter_value(b: Builder, x: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    return scatter(b, x, dim, index, _spread(b, value, x.dtype, index.shape), None)


@lowers(aten.scatter_add.default)
def _scatter_add(b: Builder, x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    return scatter(b, x, dim, index, source, scalars.add)


@lowers(aten.scatter.reduce)
def _scatter_with(
    b: Builder, x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str
) -> Tensor:
    return scatter(b, x, dim, index, source, _REDUCTIONS[reduce])


@lowers(aten.scatter.value_reduce)
def _scatter_value_with(
    b: Builder, x: Tensor, dim: int, index: Tensor, value: Any, reduce: str
) -> Tensor:
    source = _spread(b, value, x.dtype, index.shape)
    return scatter(b, x, dim, index, source, _REDUCTIONS[reduce])


@lowers(aten.scatter_reduce.two)
def _scatter_reduce(
    b: Builder,
    x: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    include_self: bool = True,
) -> Tensor:
    if not include_self:
        # What is written to starts from the reduction's identity.
        identity = {
            "sum": 0,
            "mean": 0,
            "prod": 1,
            "amax": scalars.lowest(x.dtype),
            "amin": scalars.highest(x.dtype),
        }[reduce]
        x = scatter(b, x, dim, index, _spread(b, identity, x.dtype, index.shape), None)
    if reduce != "mean":
        return scatter(b, x, dim, index, source, _REDUCTIONS[reduce])
    total = scatter(b, x, dim, index, source, scalars.add)
    counter = torch.int64 if types.is_integer(x.dtype) else types.opmath(x.dtype)
    start = b.plain(_spread(b, int(include_self), counter, x.shape))
    one = _spread(b, 1, counter, index.shape)
    counts = scatter(b, start, dim, index, one, scalars.add)

    def divide(value: ir.Value, count: ir.Value) -> ir.Value:
        value = scalars.cast(value, x.dtype, counter)
        count = scalars.maximum(counter, count, scalars.constant(1, counter))
        if types.is_integer(counter):
            value = scalars.divide(counter, value, count, "floor")
        else:
            value = scalars.true_divide(counter, value, count)
        return scalars.cast(value, counter, x.dtype)

    return b.pointwise([total, counts], x.shape, x.dtype, divide)


_REDUCTIONS = {
    "add": scalars.add,
    "sum": scalars.add,
    "multiply": scalars.mul,
    "prod": scalars.mul,
    "amax": scalars.maximum,
    "amin": scalars.minimum,
}


def _spread(b: Builder, value: Any, dtype: torch.dtype, shape: Sequence[Any]) -> Tensor:
    scalar = b.full((), b.scalar(value, dtype), dtype)
    return Tensor(scalar, dtype, tuple(shape), (None,) * len(shape))


def scatter(
    b: Builder,
    x: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    combine: Callable[[torch.dtype, ir.Value, ir.Value], ir.Value] | None,
) -> Tensor:
    """Write source elements at x[..., index, ...], in row-major order of the index tensor."""
    shape = x.shape
    if x.rank == 0:
        x = x.unsqueeze(0)
    if index.rank == 0:
        index = index.unsqueeze(0)
    if source.rank == 0:
        source = source.unsqueeze(0)
    dim = normalize(dim, x.rank)
    check_index(b, index, x.shape[dim], "scatter", negative=False)
    places, values = b.value(index), b.value(b.cast(source, x.dtype))
    compute = types.opmath(x.dtype)

    def body(at: list[ir.Value], carried: list[ir.Value]) -> list[ir.Value]:
        where = list(at)
        element = tensor.extract(places, at)
        where[dim] = safe_index(b, element, index.dtype, x.shape[dim], negative=False)
        new = tensor.extract(values, at)
        if combine is not None:
            old = scalars.cast(tensor.extract(carried[0], where), x.dtype, compute)
            new = combine(compute, old, scalars.cast(new, x.dtype, compute))
            new = scalars.cast(new, compute, x.dtype)
        return [tensor.insert(new, carried[0], where)]

    result = b.value(x)
    if not any(size == 0 for size in (*x.shape, *index.shape)):
        (result,) = b.loop(index.shape, [result], body)
    return reshape(b, Tensor.plain(result, x.dtype, x.shape), shape)
