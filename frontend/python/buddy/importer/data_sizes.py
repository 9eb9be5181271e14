"""Operators whose results' sizes depend on data, taken apart into a count and the rest.

Each decomposition computes the count as a tensor, reads it (`aten._local_scalar_dense`, which
makes a symbol of the shape environment), and fills a result whose size is that symbol. So a graph
holds one kind of data-dependent operator: the read, at which the backend splits it. What ATen
cannot say with a size that is given is an operator of ours below.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.fx.experimental.symbolic_shapes import _constrain_range_for_size
from torch.utils.weak import WeakTensorKeyDictionary

aten = torch.ops.aten
_MASKS = (torch.bool, torch.uint8)
_i64 = torch.int64

# ---- operators of ours -----------------------------------------------------------------------


@torch.library.custom_op("buddy::nonzero", mutates_args=(), device_types="cpu")
def nonzero(x: torch.Tensor, count: int) -> torch.Tensor:
    """Return the places of the elements that are not 0, i64 [count, rank], as `torch.nonzero`.

    count: how many there are. The result lies column by column, as PyTorch's.
    """
    return torch.nonzero(x).t().contiguous().t()


@nonzero.register_fake
def _nonzero_fake(x: torch.Tensor, count: int) -> torch.Tensor:
    return x.new_empty_strided((count, x.dim()), (1, count), dtype=_i64)


@torch.library.custom_op("buddy::row_order", mutates_args=(), device_types="cpu")
def row_order(x: torch.Tensor) -> torch.Tensor:
    """Return the stable order, i64 [N], in which the rows of [N, M] are sorted from the left."""
    order = torch.arange(x.shape[0])
    for column in reversed(range(x.shape[1])):
        order = order[torch.argsort(x[order, column], stable=True)]
    return order


@row_order.register_fake
def _row_order_fake(x: torch.Tensor) -> torch.Tensor:
    return x.new_empty((x.shape[0],), dtype=_i64)


@torch.library.custom_op("buddy::runs", mutates_args=(), device_types="cpu")
def runs(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Number the runs of equal neighbours along the first dimension of [N, ...].

    Returns each one's run, i64 [N], counted from 0, and the number of runs, i64 [].
    """
    changed = (x[1:] != x[:-1]).reshape(max(x.shape[0] - 1, 0), -1).any(1).to(_i64)
    number = torch.cat([changed.new_zeros(min(x.shape[0], 1)), changed]).cumsum(0)
    return number, number[-1:].sum() + min(x.shape[0], 1)


@runs.register_fake
def _runs_fake(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.new_empty((x.shape[0],), dtype=_i64), x.new_empty((), dtype=_i64)


@torch.library.custom_op("buddy::run_bounds", mutates_args=(), device_types="cpu")
def run_bounds(number: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the first place and the length of each of `count` runs, both i64 [count]."""
    lengths = torch.bincount(number, minlength=count)
    return lengths.cumsum(0) - lengths, lengths


@run_bounds.register_fake
def _run_bounds_fake(number: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    return number.new_empty((count,)), number.new_empty((count,))


@torch.library.custom_op("buddy::repeated", mutates_args=(), device_types="cpu")
def repeated(repeats: torch.Tensor, count: int) -> torch.Tensor:
    """Return place i of [N] `repeats[i]` times, [count] in all; an error if that is not the sum."""
    return torch.repeat_interleave(repeats, output_size=count)


@repeated.register_fake
def _repeated_fake(repeats: torch.Tensor, count: int) -> torch.Tensor:
    return repeats.new_empty((count,))


@torch.library.custom_op("buddy::count_bins", mutates_args=(), device_types="cpu")
def count_bins(x: torch.Tensor, least: int) -> torch.Tensor:
    """Return 1 + the largest of [N] numbers, i64 [], at least `least`; an error if one is < 0."""
    largest = max([-1, *x.tolist()])
    return torch.tensor(max(largest + 1, least), dtype=_i64)


@count_bins.register_fake
def _count_bins_fake(x: torch.Tensor, least: int) -> torch.Tensor:
    return x.new_empty((), dtype=_i64)


# ---- counts ----------------------------------------------------------------------------------


@contextmanager
def _scalars_allowed(tensor: torch.Tensor) -> Iterator[None]:
    """Let a size be read although the user did not ask Dynamo for `capture_scalar_outputs`."""
    if not isinstance(tensor, FakeTensor):
        yield
        return
    mode = tensor.fake_mode
    before, mode.allow_scalar_outputs = mode.allow_scalar_outputs, True
    try:
        yield
    finally:
        mode.allow_scalar_outputs = before


def _read(count: torch.Tensor) -> Any:
    """Return a count as a size.

    Nothing is said of how large it may be: Dynamo's symbol, with bounds of its own, replaces this
    one, which is allowed if it can be no more than this one can.
    """
    with _scalars_allowed(count):
        size = aten._local_scalar_dense.default(count)
    if isinstance(size, torch.SymInt):
        _constrain_range_for_size(size)
    return size


# A mask's count, so that what is selected by one mask twice has one size. With the tracer whose
# graph the symbol belongs to.
_counts = WeakTensorKeyDictionary()


def _count_nonzero(mask: torch.Tensor) -> Any:
    if _is_empty(mask):
        return 0
    tracer = getattr(get_proxy_mode(), "tracer", None)
    known, count = _counts.get(mask, (None, None))
    if tracer is None or known is None or known() is not tracer:
        true = mask if mask.dtype is torch.bool else mask != 0
        count = _read(true.sum())
        if tracer is not None:
            _counts[mask] = (weakref.ref(tracer), count)
    return count


def _is_empty(x: torch.Tensor) -> bool:
    """Tell whether one of the sizes is known to be 0."""
    return any(isinstance(size, int) and size == 0 for size in x.shape)


# ---- decompositions --------------------------------------------------------------------------


def _nonzero(x: torch.Tensor) -> torch.Tensor:
    count = _count_nonzero(x)
    if isinstance(count, int) and count == 0:
        return x.new_empty((0, x.dim()), dtype=_i64)
    return torch.ops.buddy.nonzero(x, count)


def _masked_select(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    x, mask = torch.broadcast_tensors(x, mask)
    if not x.dim():
        x, mask = x.reshape(1), mask.reshape(1)
    return aten.index.Tensor(x, list(_nonzero(mask).unbind(1)))


def _places(indices: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
    """Return index tensors with each mask as the places where it is true."""
    result: list[torch.Tensor | None] = []
    for index in indices:
        if index is None or index.dtype not in _MASKS:
            result.append(index)
        else:
            result += _nonzero(index).unbind(1)
    return result


def _has_mask(indices: Sequence[torch.Tensor | None]) -> bool:
    return any(index is not None and index.dtype in _MASKS for index in indices)


def _has_scalar_mask(indices: Sequence[torch.Tensor | None]) -> bool:
    return any(index is not None and index.dtype in _MASKS and not index.dim() for index in indices)


def _index(x: torch.Tensor, indices: Sequence[torch.Tensor | None]) -> Any:
    if not _has_mask(indices):
        return NotImplemented
    if _has_scalar_mask(indices):
        # Such a mask takes no dimension and gives one of size 0 or 1.
        if len(indices) != 1 or indices[0] is None:
            return NotImplemented
        return aten.index.Tensor(x.unsqueeze(0), [_nonzero(indices[0].reshape(1)).squeeze(1)])
    return aten.index.Tensor(x, _places(indices))


def _index_put(
    x: torch.Tensor,
    indices: Sequence[torch.Tensor | None],
    values: torch.Tensor,
    accumulate: bool = False,
) -> Any:
    given = sum(index is not None for index in indices)
    if given == 1 or not _has_mask(indices) or _has_scalar_mask(indices):
        return NotImplemented  # by one mask there is a rule, which needs no count
    return aten.index_put.default(x, _places(indices), values, accumulate)


def _unsafe_index_put(
    x: torch.Tensor,
    indices: Sequence[torch.Tensor | None],
    values: torch.Tensor,
    accumulate: bool = False,
) -> Any:
    return _index_put(x, indices, values, accumulate)


def _unused(x: torch.Tensor) -> torch.Tensor:
    return x.new_empty((0,), dtype=_i64)


def _runs(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return each place's run and the first places and lengths of the runs of [N, ...]."""
    number, count = torch.ops.buddy.runs(x)
    size = 0 if isinstance(x.shape[0], int) and x.shape[0] == 0 else _read(count)
    return number, *torch.ops.buddy.run_bounds(number, size)


def _unsorted(number: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """Return what belongs to sorted elements in the order that they had before."""
    return aten.scatter.src(torch.empty_like(number), 0, order, number)


def _unique2(
    x: torch.Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    values, order = aten.sort.default(x.reshape(-1))
    number, starts, lengths = _runs(values)
    return (
        aten.index_select.default(values, 0, starts),
        _unsorted(number, order).reshape(x.shape) if return_inverse else _unused(x),
        lengths if return_counts else _unused(x),
    )


def _unique(
    x: torch.Tensor, sorted: bool = True, return_inverse: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    return _unique2(x, sorted, return_inverse)[:2]


def _nothing(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the unique slices of a tensor without any; eager refuses slices without elements."""
    return x.clone(), _unused(x), _unused(x)


def _unique_dim(
    x: torch.Tensor,
    dim: int,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> Any:
    if _is_empty(x):
        return _nothing(x)
    moved = x.movedim(dim, 0)
    order = torch.ops.buddy.row_order(moved.reshape(moved.shape[0], -1))
    ordered = aten.index_select.default(moved, 0, order)
    number, starts, lengths = _runs(ordered)
    return (
        aten.index_select.default(ordered, 0, starts).movedim(0, dim),
        # PyTorch's kernel gives both whether they are asked for or not.
        _unsorted(number, order),
        lengths,
    )


def _unique_consecutive(
    x: torch.Tensor,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    if dim is not None and _is_empty(x):
        return _nothing(x)
    rows = x.reshape(-1) if dim is None else x.movedim(dim, 0)
    number, starts, lengths = _runs(rows)
    values = aten.index_select.default(rows, 0, starts)
    if dim is not None:
        return values.movedim(0, dim), number, lengths
    return (
        values,
        number.reshape(x.shape) if return_inverse else _unused(x),
        lengths if return_counts else _unused(x),
    )


def _repeat_interleave(repeats: torch.Tensor, output_size: int | None = None) -> torch.Tensor:
    if output_size is None:
        aten._assert_async.msg((repeats >= 0).all(), "repeats can not be negative")
        output_size = 0 if _is_empty(repeats) else _read(repeats.sum(dtype=_i64))
    return torch.ops.buddy.repeated(repeats, output_size)


def _bincount(
    x: torch.Tensor, weights: torch.Tensor | None = None, minlength: int = 0
) -> torch.Tensor:
    dtype = _i64 if weights is None else weights.dtype
    if weights is not None and dtype is not torch.float32:
        weights, dtype = weights.to(torch.float64), torch.float64
    size = minlength if _is_empty(x) else _read(torch.ops.buddy.count_bins(x, minlength))
    bins = torch.zeros((size,), dtype=dtype)
    if _is_empty(x):
        return bins
    if weights is None:
        weights = torch.ones(x.shape, dtype=dtype)
    return aten.scatter_add.default(bins, 0, x.to(_i64), weights)


def data_size_decompositions() -> dict[Any, Callable[..., Any]]:
    """Return operator -> decomposition for the operators of this file."""
    return {
        aten.nonzero.default: _nonzero,
        aten.masked_select.default: _masked_select,
        aten.index.Tensor: _index,
        aten.index_put.default: _index_put,
        aten._unsafe_index_put.default: _unsafe_index_put,
        aten._unique.default: _unique,
        aten._unique2.default: _unique2,
        aten.unique_dim.default: _unique_dim,
        aten.unique_consecutive.default: _unique_consecutive,
        aten.repeat_interleave.Tensor: _repeat_interleave,
        aten.bincount.default: _bincount,
    }
