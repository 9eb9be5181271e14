"""Reductions over runs of rows."""

from __future__ import annotations

import math
from typing import Any

import torch

import buddy.bags  # noqa: F401  (defines torch.ops.buddy.bag_sums)

from .table import decomposes, lowest, opmath, opmath_dtype

aten = torch.ops.aten
_SUM, _MEAN, _MAX = 0, 1, 2


def _owner(offsets: torch.Tensor, count: Any) -> torch.Tensor:
    """Return the bag of each of `count` elements, where bag i starts at offsets[i]."""
    starts = torch.zeros((count + 1,), dtype=torch.int64, device=offsets.device)
    starts = starts.index_add(0, offsets, torch.ones_like(offsets, dtype=torch.int64))
    return starts.cumsum(0).narrow(0, 0, count) - 1


@decomposes(aten._embedding_bag.default, aten._embedding_bag_forward_only.default)
def embedding_bag(
    weight: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: torch.Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> Any:
    """Return (sums, means or maxima of bags of rows, bag of each index, bag sizes, max's rows)."""
    count, width = indices.shape[0], weight.shape[1]
    dtype = offsets.dtype
    if include_last_offset:
        offsets = offsets.narrow(0, 0, offsets.shape[0] - 1)
    bags = offsets.shape[0]
    starts = torch.cat([offsets, offsets.new_full((1,), count)])
    first = (offsets[:1] == 0).all()
    torch._assert_async(first, "embedding_bag: the first offset is not 0")
    ascending = (starts[1:] >= starts[:-1]).all()
    torch._assert_async(ascending, "embedding_bag: offsets descend, or are beyond the indices")
    owner = _owner(offsets, count)
    if padding_idx >= 0:
        used = indices != padding_idx
        sizes = used.new_zeros((bags,), dtype=torch.int64).index_add(0, owner, used.to(torch.int64))
    else:
        used = torch.ones_like(indices, dtype=torch.bool)
        sizes = starts[1:] - starts[:-1]
    sizes = sizes.to(torch.int64)
    sources = sizes
    if mode == _MAX:
        rows = opmath(weight.index_select(0, indices.reshape(-1)))
        keep = used.unsqueeze(1)
        rows = torch.where(keep, rows, lowest(rows.dtype))
        place = owner.unsqueeze(1).expand(count, width)
        start = rows.new_full((bags, width), lowest(rows.dtype))
        result = start.scatter_reduce(0, place, rows, "amax")
        result = torch.where(sizes.unsqueeze(1) > 0, result, 0)
        # The first row that has the maximum.
        order = torch.arange(count, device=indices.device).unsqueeze(1)
        match = keep & (rows == result.index_select(0, owner))
        first = sizes.new_full((bags, width), count)
        first = first.scatter_reduce(0, place, torch.where(match, order, count), "amin")
        padded = torch.cat([indices, indices.new_zeros((1,))])
        sources = aten.index.Tensor(padded, [first])
    else:
        result = torch.ops.buddy.bag_sums(
            weight, indices, starts, per_sample_weights, padding_idx, opmath_dtype(weight.dtype)
        )
        if mode == _MEAN:
            result = result / sizes.clamp_min(1).unsqueeze(1)
    return result.to(weight.dtype), owner.to(dtype), sizes.to(dtype), sources.to(dtype)


@decomposes(aten.segment_reduce.default)
def segment_reduce(
    data: torch.Tensor,
    reduce: str,
    *,
    lengths: torch.Tensor | None = None,
    indices: torch.Tensor | None = None,
    offsets: torch.Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Any = None,
) -> Any:
    """Reduce runs of neighbours along the axis; the dimensions before it are lengths' as well."""
    if indices is not None:
        return NotImplemented
    from_lengths = lengths is not None
    if lengths is not None:
        ends = lengths.cumsum(axis)
        starts = ends - lengths
    elif offsets is not None:
        count = offsets.shape[axis] - 1
        starts, ends = offsets.narrow(axis, 0, count), offsets.narrow(axis, 1, count)
        lengths = ends - starts
    else:
        return NotImplemented
    lengths, starts = lengths.to(torch.int64), starts.to(torch.int64)
    size, segments = data.shape[axis], lengths.shape[axis]
    if not unsafe:
        torch._assert_async((lengths >= 0).all(), "segment_reduce: a segment's length is negative")
        if from_lengths:
            whole = (lengths.sum(axis) == size).all()
            torch._assert_async(whole, "segment_reduce: the lengths' sum is not the axis' size")
    shape = (*data.shape[:axis], segments, *data.shape[axis + 1 :])
    rest = [1] * (data.dim() - axis - 1)
    # Each place's segment; those after the last one go to a slab that is cut off.
    marks = starts.new_zeros((*data.shape[:axis], size + 1))
    marks = marks.scatter_add(axis, starts.clamp(0, size), torch.ones_like(starts))
    owner = marks.cumsum(axis).narrow(axis, 0, size) - 1
    used = torch.arange(size, device=data.device) < ends.narrow(axis, segments - 1, 1)
    owner = torch.where(used & (owner >= 0), owner, segments).reshape(
        *data.shape[: axis + 1], *rest
    )
    x = opmath(data)
    function = {"sum": "sum", "mean": "sum", "max": "amax", "min": "amin", "prod": "prod"}[reduce]
    if initial is None:
        initial = {"amax": -math.inf, "amin": math.inf, "prod": 1.0}.get(function, 0.0)
    start = x.new_full((*shape[:axis], segments + 1, *shape[axis + 1 :]), initial)
    result = start.scatter_reduce(axis, owner.expand(data.shape), x, function)
    result = result.narrow(axis, 0, segments)
    if reduce == "mean":
        counts = lengths.reshape(*data.shape[:axis], segments, *rest)
        filled = result / counts
        result = torch.where(counts > 0, filled, math.nan if initial == 0 else initial)
    return result.to(data.dtype)
