"""Histograms: the bin of each element by arithmetic or search, then a sum by bins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .table import decomposes

aten = torch.ops.aten


def _limits(x: torch.Tensor, margin: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the least and the greatest element; 0 and 1 for none, set apart when equal."""
    if x.numel() == 0:
        return x.new_zeros(()), x.new_ones(())
    low, high = x.amin(), x.amax()
    return _apart(low, high, margin)


def _apart(low: torch.Tensor, high: torch.Tensor, margin: float) -> tuple[Any, Any]:
    same = low == high
    return torch.where(same, low - margin, low), torch.where(same, high + margin, high)


def _edges(low: torch.Tensor, high: torch.Tensor, bins: int) -> torch.Tensor:
    """bins + 1 evenly spaced numbers, each computed from the nearer end as `linspace` does."""
    step = (high - low) / bins
    place = torch.arange(bins + 1, device=low.device)
    near = low + step * place
    return torch.where(place < (bins + 1) // 2, near, high - step * (bins - place))


def _place(x: torch.Tensor, edges: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the bin of each element and whether it is in one; the last bin has both ends."""
    inside = (x >= edges[0]) & (x <= edges[-1])
    place = torch.searchsorted(edges, x, right=True) - 1
    return place.clamp(0, edges.shape[0] - 2), inside


def _count(
    place: torch.Tensor,
    inside: torch.Tensor,
    weight: torch.Tensor | None,
    like: torch.Tensor,
    n: Any,
) -> torch.Tensor:
    ones = inside.to(like.dtype) if weight is None else torch.where(inside, weight, 0)
    return like.new_zeros((n,)).scatter_add(0, place, ones.to(like.dtype))


@decomposes(aten.histc.default)
def histc(self: torch.Tensor, bins: int = 100, min: Any = 0, max: Any = 0) -> Any:
    x = self.reshape(-1)
    if not self.is_floating_point() or min > max:
        return NotImplemented
    if min == max and x.numel() == 0:
        low, high = _apart(x.new_full((), min), x.new_full((), max), 1)
    elif min == max:
        low, high = _limits(x, 1)
    else:
        low, high = x.new_full((), min), x.new_full((), max)
    torch._assert_async(low.isfinite() & high.isfinite(), "histc: the range is not finite")
    inside = (x >= low) & (x <= high)
    place = torch.where(inside, (x - low) * bins / (high - low), 0).long()
    return _count(place.clamp(0, bins - 1), inside, None, x, bins)


def _histogram(
    x: torch.Tensor, edges: Sequence[torch.Tensor], weight: torch.Tensor | None, density: bool
) -> torch.Tensor:
    """The histogram of the rows of x, [N, D]."""
    flat: Any = 0
    inside: Any = None
    counts = [edge.shape[0] - 1 for edge in edges]
    total = 1
    for i, edge in enumerate(edges):
        place, within = _place(x.select(1, i).contiguous(), edge)
        flat = flat * counts[i] + place
        inside = within if inside is None else inside & within
        total = total * counts[i]
    weight = None if weight is None else weight.reshape(-1)
    result = _count(flat, inside, weight, x, total).reshape(counts)
    if density:
        result = result / result.sum()
        for i, edge in enumerate(edges):
            shape = [1] * len(counts)
            shape[i] = counts[i]
            result = result / (edge[1:] - edge[:-1]).view(shape)
    return result


def _uniform(x: torch.Tensor, bins: Sequence[int], range: Sequence[float] | None) -> Any:
    edges = []
    for i, count in enumerate(bins):
        if range is None:
            low, high = _limits(x.select(1, i), 0.5)
        else:
            low, high = (x.new_full((), end) for end in range[2 * i : 2 * i + 2])
            low, high = _apart(low, high, 0.5)
        torch._assert_async(low.isfinite() & high.isfinite(), "histogram: the range is not finite")
        edges.append(_edges(low, high, count))
    return edges


@decomposes(aten.histogram.bin_ct)
def histogram(
    self: torch.Tensor,
    bins: int = 100,
    *,
    range: Sequence[float] | None = None,
    weight: torch.Tensor | None = None,
    density: bool = False,
) -> Any:
    x = self.reshape(-1, 1)
    (edges,) = _uniform(x, [bins], range)
    return _histogram(x, [edges], weight, density), edges


@decomposes(aten.histogram.bins_tensor)
def histogram_of(
    self: torch.Tensor,
    bins: torch.Tensor,
    *,
    weight: torch.Tensor | None = None,
    density: bool = False,
) -> Any:
    return _histogram(self.reshape(-1, 1), [bins], weight, density), bins.clone()


@decomposes(aten._histogramdd_bin_edges.default)
def histogramdd_bin_edges(
    self: torch.Tensor,
    bins: Sequence[int],
    *,
    range: Sequence[float] | None = None,
    weight: torch.Tensor | None = None,
    density: bool = False,
) -> Any:
    return _uniform(self.reshape(-1, self.shape[-1]), bins, range)


@decomposes(aten._histogramdd_from_bin_cts.default)
def histogramdd_from_bin_cts(
    self: torch.Tensor,
    bins: Sequence[int],
    *,
    range: Sequence[float] | None = None,
    weight: torch.Tensor | None = None,
    density: bool = False,
) -> Any:
    x = self.reshape(-1, self.shape[-1])
    return _histogram(x, _uniform(x, bins, range), weight, density)


@decomposes(aten._histogramdd_from_bin_tensors.default)
def histogramdd_from_bin_tensors(
    self: torch.Tensor,
    bins: Sequence[torch.Tensor],
    *,
    weight: torch.Tensor | None = None,
    density: bool = False,
) -> Any:
    return _histogram(self.reshape(-1, self.shape[-1]), bins, weight, density)
