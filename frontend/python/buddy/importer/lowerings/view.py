"""Views and other operators that only move elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
import torch
from mlir import ir
from mlir.dialects import arith, tensor
from torch.utils._sympy import functions as tsf
from torch.utils._sympy.symbol import SymT, symbol_is_type

from .. import scalars, shapes
from ..builder import PARALLEL, Builder, loop_index
from ..errors import Unsupported
from ..registry import lowers
from ..symbols import Dim, as_dim, as_dims, at_least_zero, same
from ..values import Tensor
from .common import normalize, normalize_all

aten = torch.ops.aten


@lowers(
    aten.clone.default,
    aten.alias.default,
    aten.detach.default,
    aten.lift.default,
    aten.lift_fresh.default,
    aten.lift_fresh_copy.default,
    aten.contiguous.default,
)
def _identity(b: Builder, x: Tensor, *_: Any) -> Tensor:
    return x


@lowers(aten.view.default, aten._unsafe_view.default, aten.reshape.default)
def _view(b: Builder, x: Tensor, _: Any) -> Tensor:
    return shapes.reshape(b, x, b.result_shape())


@lowers(aten.view.dtype)
def _view_dtype(b: Builder, x: Tensor, dtype: torch.dtype) -> Tensor:
    if x.dtype == dtype:
        return x
    if x.dtype.itemsize != dtype.itemsize or torch.bool in (x.dtype, dtype):
        raise Unsupported("a view as a dtype of another size")
    return b.pointwise([x], x.shape, dtype, lambda value: bitcast(value, x.dtype, dtype))


def bitcast(value: ir.Value, source: torch.dtype, target: torch.dtype) -> ir.Value:
    """Return the same bits as another dtype of the same width."""
    from ..types import element_type

    type_ = element_type(target)
    return value if type_ == value.type else arith.bitcast(type_, value)


@lowers(aten.permute.default)
def _permute(b: Builder, x: Tensor, dims: Sequence[int]) -> Tensor:
    return x.permute([normalize(d, x.rank) for d in dims])


@lowers(aten.t.default)
def _t(b: Builder, x: Tensor) -> Tensor:
    return x.permute(list(reversed(range(x.rank))))


@lowers(aten.transpose.int)
def _transpose(b: Builder, x: Tensor, first: int, second: int) -> Tensor:
    order = list(range(x.rank))
    if order:
        first, second = normalize(first, x.rank), normalize(second, x.rank)
        order[first], order[second] = order[second], order[first]
    return x.permute(order)


@lowers(aten.unsqueeze.default)
def _unsqueeze(b: Builder, x: Tensor, dim: int) -> Tensor:
    return x.unsqueeze(normalize(dim, x.rank + 1))


@lowers(aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims)
def _squeeze(b: Builder, x: Tensor, dims: Any = None) -> Tensor:
    chosen = range(x.rank) if dims is None else normalize_all(dims, x.rank)
    return shapes.squeeze(b, x, [d for d in chosen if x.shape[d] == 1])


@lowers(aten.expand.default)
def _expand(b: Builder, x: Tensor, *_: Any) -> Tensor:
    return expand(b, x, b.result_shape())


def expand(b: Builder, x: Tensor, shape: Sequence[Dim]) -> Tensor:
    """Return the view broadcast to `shape`."""
    for _ in range(len(shape) - x.rank):
        x = x.unsqueeze(0)
    grown = [i for i, (old, new) in enumerate(zip(x.shape, shape, strict=True)) if old != new]
    grown = [i for i in grown if x.shape[i] == 1]
    x = shapes.drop_unit_dims(b, x, grown)
    return Tensor(x.base, x.dtype, tuple(shape), x.dims)


# ---- slices ----------------------------------------------------------------------------------


def clamp_start(start: Any, size: Dim) -> Dim:
    """Return the first index of a slice as ATen clamps it: negative from the end, in [0, size]."""
    start = 0 if start is None else as_dim(start)
    if isinstance(start, int) and isinstance(size, int):
        start = start + size if start < 0 else start
        return min(max(start, 0), size)
    if isinstance(start, int):
        if start == 0:
            return 0
        if start < 0:
            return tsf.Max(size + start, 0)
        return tsf.Min(start, size)
    if start.is_nonnegative is not True:
        start = tsf.Where(sympy.Lt(start, 0), start + size, start)
        start = tsf.Max(start, 0)
    return start if start == size else tsf.Min(start, size)


@lowers(aten.slice.Tensor)
def _slice(b: Builder, x: Tensor, dim: int, start: Any, end: Any, step: Any) -> Tensor:
    dim = normalize(dim, x.rank)
    shape = b.result_shape()
    if same(shape[dim], x.shape[dim]) and step == 1:
        return x
    first = clamp_start(start, x.shape[dim])
    if isinstance(shape[dim], int) and _depends_on_data(first):
        # The size was taken for granted (torch.narrow).
        span = (shape[dim] - 1) * step + 1 if shape[dim] else 0
        check_places(b, first, span, x.shape[dim], "slice: index out of range")
    return slice_dim(b, x, dim, first, shape[dim], step)


def _depends_on_data(dim: Dim) -> bool:
    return isinstance(dim, sympy.Expr) and any(
        symbol_is_type(symbol, SymT.UNBACKED_INT) for symbol in dim.free_symbols
    )


def slice_dim(b: Builder, x: Tensor, dim: int, start: Any, size: Dim, step: Any = 1) -> Tensor:
    """Return `size` elements along a dimension from `start` on; permutations stay views."""
    base_dim = x.dims[dim]
    shape = x.shape[:dim] + (size,) + x.shape[dim + 1 :]
    if base_dim is None:
        return Tensor(x.base, x.dtype, shape, x.dims)
    if 0 in shape:  # the start may be the size, which is no valid offset
        return Tensor.plain(b.empty(shape, x.dtype), x.dtype, shape)
    base_shape = list(b.base_shape(x))
    base = Tensor.plain(x.base, x.dtype, base_shape)
    offsets: list[Any] = [0] * base.rank
    strides: list[Any] = [1] * base.rank
    offsets[base_dim], strides[base_dim] = start, step
    base_shape[base_dim] = size
    part = b.extract_slice(base, offsets, base_shape, strides)
    return Tensor(part.base, x.dtype, shape, x.dims)


def select(b: Builder, x: Tensor, dim: int, index: Any) -> Tensor:
    """Return the tensor at one index (a `Dim` in range, or an `index` value) of a dimension."""
    return shapes.squeeze(b, slice_dim(b, x, dim, index, 1), [dim])


def wrap_index(b: Builder, index: Any, size: Dim, what: str) -> Any:
    """Return a scalar index counted from the start; checked, and clamped when not known."""
    index = as_dim(index)
    if isinstance(index, int) and isinstance(size, int):
        return index % size if size else 0
    if isinstance(index, int) and index < 0:
        return size + index
    if isinstance(index, int) or index.is_nonnegative is True:
        return index
    index = tsf.Where(sympy.Lt(index, 0), index + size, index)
    check_places(b, index, 1, size, f"{what}: index out of range")
    return index


def check_places(b: Builder, start: Dim, count: Dim, size: Dim, message: str) -> None:
    """Make the call fail unless start >= 0 and start + count <= size.

    For places that depend on data, of which nothing is known when the graph is traced.
    """
    low = arith.cmpi(arith.CmpIPredicate.sge, b.index(start), b.index_constant(0))
    end = arith.addi(b.index(start), b.index(count))
    high = arith.cmpi(arith.CmpIPredicate.sle, end, b.index(size))
    b.check(arith.andi(low, high), message, precondition=True)


@lowers(aten.select.int)
def _select(b: Builder, x: Tensor, dim: int, index: Any) -> Tensor:
    dim = normalize(dim, x.rank)
    return select(b, x, dim, wrap_index(b, index, x.shape[dim], "select"))


@lowers(aten.split.Tensor, aten.split_with_sizes.default)
def _split(b: Builder, x: Tensor, _: Any, dim: int = 0) -> tuple[Tensor, ...]:
    dim = normalize(dim, x.rank)
    parts, start = [], 0
    for i in range(len(b.meta)):
        size = b.result_shape(i)[dim]
        parts.append(slice_dim(b, x, dim, start, size))
        start = as_dim(start + size)
    return tuple(parts)


@lowers(aten.unbind.int)
def _unbind(b: Builder, x: Tensor, dim: int) -> tuple[Tensor, ...]:
    dim = normalize(dim, x.rank)
    return tuple(select(b, x, dim, i) for i in range(len(b.meta)))


# ---- joins -----------------------------------------------------------------------------------


@lowers(aten.cat.default)
def _cat(b: Builder, tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    shape, dtype = b.result_shape(), b.result_dtype()
    dim = normalize(dim, len(shape))
    # ATen skips the legacy empty tensors of shape [0] whatever the others' rank is.
    tensors = [x for x in tensors if not (x.shape == (0,) and len(shape) != 1)]
    tensors = [b.cast(x, dtype) for x in tensors if x.shape[dim] != 0]
    if len(tensors) == 1:
        return tensors[0]
    result = b.empty(shape, dtype)
    start: Dim = 0
    for x in tensors:
        offsets: list[Any] = [0] * len(shape)
        offsets[dim] = start
        result = b.insert_slice(b.value(x), result, offsets, x.shape)
        start = as_dim(start + x.shape[dim])
    return Tensor.plain(result, dtype, shape)


@lowers(aten.stack.default)
def _stack(b: Builder, tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    dim = normalize(dim, len(b.result_shape()))
    return _cat(b, [x.unsqueeze(dim) for x in tensors], dim)


@lowers(aten.repeat.default)
def _repeat(b: Builder, x: Tensor, repeats: Sequence[Any]) -> Tensor:
    shape = b.result_shape()
    for _ in range(len(repeats) - x.rank):
        x = x.unsqueeze(0)
    # Each dimension becomes (repeats, size): a broadcast, then a reshape.
    for i in reversed(range(x.rank)):
        x = x.unsqueeze(i, as_dim(repeats[i]))
    return shapes.reshape(b, x, shape)


@lowers(aten.flip.default)
def _flip(b: Builder, x: Tensor, dims: Sequence[int]) -> Tensor:
    flipped = set(normalize_all(dims, x.rank)) if dims else set()

    def source(position: int, value: ir.Value) -> ir.Value:
        if position not in flipped:
            return value
        last = arith.subi(b.index(x.shape[position]), b.index_constant(1))
        return arith.subi(last, value)

    return gather_elements(b, x, x.shape, source)


@lowers(aten.roll.default)
def _roll(b: Builder, x: Tensor, shifts: Sequence[Any], dims: Sequence[int] = ()) -> Tensor:
    if not dims:
        flat = shapes.reshape(b, x, [_product(x.shape)])
        return shapes.reshape(b, _rolled(b, flat, {0: shifts[0]}), x.shape)
    amounts: dict[int, Any] = {}
    for shift, dim in zip(shifts, dims, strict=True):
        dim = normalize(dim, x.rank)
        amounts[dim] = amounts.get(dim, 0) + as_dim(shift)
    return _rolled(b, x, amounts)


def _product(shape: Sequence[Dim]) -> Dim:
    from ..symbols import product

    return product(shape)


def _rolled(b: Builder, x: Tensor, amounts: dict[int, Any]) -> Tensor:
    if 0 in x.shape:
        return x
    sizes, zero = [b.index(size) for size in x.shape], b.index_constant(0)
    shifts = {}
    for position, amount in amounts.items():
        # In [0, size): one comparison an element is then enough.
        shift, size = b.index(as_dim(amount)), arith.maxsi(sizes[position], b.index_constant(1))
        shifts[position] = arith.subi(shift, arith.muli(arith.floordivsi(shift, size), size))

    def source(position: int, value: ir.Value) -> ir.Value:
        if position not in shifts:
            return value
        shifted = arith.subi(value, shifts[position])
        below = arith.cmpi(arith.CmpIPredicate.slt, shifted, zero)
        return arith.select(below, arith.addi(shifted, sizes[position]), shifted)

    return gather_elements(b, x, x.shape, source)


def gather_elements(b: Builder, x: Tensor, shape: Sequence[Dim], source: Any) -> Tensor:
    """Return the tensor whose element is x's at `source(dimension, loop index)`."""
    value = b.value(x)

    def body(_: ir.Value) -> ir.Value:
        return tensor.extract(value, [source(i, loop_index(i)) for i in range(x.rank)])

    identity = ir.AffineMap.get_identity(len(shape))
    (result,) = b.generic([], [(b.empty(shape, x.dtype), identity)], [PARALLEL] * len(shape), body)
    return Tensor.plain(result, x.dtype, shape)


@lowers(aten.constant_pad_nd.default)
def _constant_pad(b: Builder, x: Tensor, pad: Sequence[Any], value: Any) -> Tensor:
    low: list[Any] = [0] * x.rank
    high: list[Any] = [0] * x.rank
    for i in range(len(pad) // 2):
        low[x.rank - 1 - i], high[x.rank - 1 - i] = as_dim(pad[2 * i]), as_dim(pad[2 * i + 1])
    return pad_tensor(b, x, low, high, b.scalar(value, x.dtype))


def pad_tensor(
    b: Builder, x: Tensor, low: Sequence[Dim], high: Sequence[Dim], value: ir.Value
) -> Tensor:
    """Return the tensor with elements added (or, where negative, cut off) at each end.

    The sign of a symbolic amount is known at run time only: both happen, one of them to no element.
    """
    shape = as_dims(sum_(*triple) for triple in zip(low, x.shape, high, strict=True))
    for i in range(x.rank):
        cut_low, cut_high = at_least_zero(as_dim(-low[i])), at_least_zero(as_dim(-high[i]))
        if cut_low != 0 or cut_high != 0:
            size = as_dim(x.shape[i] - cut_low - cut_high)
            x = slice_dim(b, x, i, cut_low, size)
    low = [at_least_zero(dim) for dim in low]
    high = [at_least_zero(dim) for dim in high]
    if all(d == 0 for d in (*low, *high)):
        return x
    result = b.full(shape, value, x.dtype)
    result = b.insert_slice(b.value(x), result, low, x.shape)
    return Tensor.plain(result, x.dtype, shape)


def sum_(*dims: Dim) -> Dim:
    """Return the sum of sizes."""
    return as_dim(sum(dims[1:], dims[0]))


@lowers(aten.unfold.default)
def _unfold(b: Builder, x: Tensor, dim: int, size: int, step: int) -> Tensor:
    """Windows along a dimension; the place inside the window is a new last dimension."""
    if x.rank == 0:
        return x.unsqueeze(0)
    shape = b.result_shape()
    dim, rank = normalize(dim, x.rank), len(shape)
    loops = [ir.AffineDimExpr.get(i) for i in range(rank)]
    start = ir.AffineExpr.get_mul(loops[dim], step) if step != 1 else loops[dim]
    places = loops[: rank - 1]
    places[dim] = ir.AffineExpr.get_add(start, loops[-1])
    (result,) = b.generic(
        [(b.value(x), ir.AffineMap.get(rank, 0, places))],
        [(b.empty(shape, x.dtype), ir.AffineMap.get_identity(rank))],
        [PARALLEL] * rank,
        lambda value, _: value,
    )
    return Tensor.plain(result, x.dtype, shape)


@lowers(aten.diagonal.default)
def _diagonal(b: Builder, x: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    dim1, dim2 = normalize(dim1, x.rank), normalize(dim2, x.rank)
    shape = b.result_shape()
    kept = [i for i in range(x.rank) if i not in (dim1, dim2)]
    value = b.value(x)
    row, column = max(-offset, 0), max(offset, 0)

    def body(_: ir.Value) -> ir.Value:
        last = loop_index(len(shape) - 1)
        position: list[Any] = [None] * x.rank
        for loop, dim in enumerate(kept):
            position[dim] = loop_index(loop)
        position[dim1] = arith.addi(last, b.index_constant(row))
        position[dim2] = arith.addi(last, b.index_constant(column))
        return tensor.extract(value, position)

    identity = ir.AffineMap.get_identity(len(shape))
    (result,) = b.generic([], [(b.empty(shape, x.dtype), identity)], [PARALLEL] * len(shape), body)
    return Tensor.plain(result, x.dtype, shape)


def triangle(b: Builder, x: Tensor, diagonal: Any, upper: bool) -> Tensor:
    """Keep the elements on one side of a diagonal, zero elsewhere."""
    shape = x.shape

    def body(value: ir.Value) -> ir.Value:
        row, column = loop_index(len(shape) - 2), loop_index(len(shape) - 1)
        edge = arith.addi(row, b.index(as_dim(diagonal)))
        predicate = arith.CmpIPredicate.sge if upper else arith.CmpIPredicate.sle
        keep = arith.cmpi(predicate, column, edge)
        return arith.select(keep, value, scalars.constant(0, x.dtype))

    return b.pointwise([x], shape, x.dtype, body)


@lowers(aten.tril.default)
def _tril(b: Builder, x: Tensor, diagonal: Any = 0) -> Tensor:
    return triangle(b, x, diagonal, upper=False)


@lowers(aten.triu.default)
def _triu(b: Builder, x: Tensor, diagonal: Any = 0) -> Tensor:
    return triangle(b, x, diagonal, upper=True)
