"""Pooling whose windows differ in size or place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .table import decomposes, lowest, opmath

aten = torch.ops.aten


def _windows(size: Any, count: Any, device: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the places in each of `count` windows over `size`, and which are real, [count, k].

    Window i covers floor(i size / count) up to ceil((i + 1) size / count).
    """
    window = torch.arange(count, device=device)
    start = torch.div(window * size, count, rounding_mode="floor")
    end = torch.div((window + 1) * size + (count - 1), count, rounding_mode="floor")
    longest = (size + count - 1) // count
    if size % count != 0:
        longest = longest + 1
    place = start.unsqueeze(1) + torch.arange(longest, device=device)
    return place.clamp_max(size - 1), place < end.unsqueeze(1)


@decomposes(aten._adaptive_avg_pool3d.default)
def adaptive_avg_pool3d(self: torch.Tensor, output_size: Sequence[Any]) -> torch.Tensor:
    x = opmath(self)
    spatial = len(output_size)
    for i, count in enumerate(output_size):
        dim = x.dim() - spatial + i
        size = x.shape[dim]
        if count == 0:
            return self.new_empty((*self.shape[:-spatial], *output_size))
        if size % count == 0:
            length = size // count
            x = x.reshape(*x.shape[:dim], count, length, *x.shape[dim + 1 :]).sum(dim + 1)
            x = x / length
            continue
        place, real = _windows(size, count, x.device)
        shape = [*real.shape, *[1] * (x.dim() - dim - 1)]
        parts = aten.index.Tensor(x, [None] * dim + [place])
        total = torch.where(real.view(shape), parts, 0).sum(dim + 1)
        x = total / real.sum(1).view(count, *shape[2:])
    return x.to(self.dtype)


def _largest(
    x: torch.Tensor, place: torch.Tensor, real: torch.Tensor | None, spatial: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the maxima over windows and their places: the first of equal ones, the last NaN.

    place: flat places in the last `spatial` dimensions of x, [..., outputs, window], with x's
    leading dimensions or none. real: those that count.
    """
    lead = x.dim() - spatial
    flat = x.flatten(lead)
    wanted = place.expand(*x.shape[:lead], *place.shape[-2:])
    if place.dim() == 2:
        values = aten.index.Tensor(flat, [None] * lead + [place])
    else:
        values = flat.gather(-1, place.flatten(-2)).view(wanted.shape)
    if real is not None:
        values = torch.where(real, values, lowest(x.dtype))
    best, at = values.max(-1, keepdim=True)
    if x.is_floating_point():
        order = torch.arange(place.shape[-1], device=x.device)
        last = torch.where(values.isnan(), order, -1).amax(-1, keepdim=True)
        at = torch.where(last >= 0, last, at)
    return best.squeeze(-1), wanted.gather(-1, at).squeeze(-1)


def _flat_places(places: Sequence[torch.Tensor], sizes: Sequence[Any]) -> torch.Tensor:
    """Join places of each dimension, [..., count, k], to flat ones, [..., counts, window]."""
    spatial = len(places)
    lead = places[0].shape[:-2]
    total: Any = 0
    for i, place in enumerate(places):
        shape = [1] * (2 * spatial)
        shape[i], shape[spatial + i] = place.shape[-2], place.shape[-1]
        total = total * sizes[i] + place.reshape(*lead, *shape)
    return total.flatten(len(lead) + spatial).flatten(len(lead), -2)


@decomposes(aten.adaptive_max_pool2d.default, aten.adaptive_max_pool3d.default)
def adaptive_max_pool(self: torch.Tensor, output_size: Sequence[Any]) -> Any:
    spatial = len(output_size)
    sizes = self.shape[-spatial:]
    shape = (*self.shape[:-spatial], *output_size)
    if 0 in output_size or self.numel() == 0:
        return self.new_empty(shape), torch.empty(shape, dtype=torch.int64, device=self.device)
    if all(isinstance(n, int) and n % m == 0 for n, m in zip(sizes, output_size, strict=True)):
        pool = {2: aten.max_pool2d_with_indices, 3: aten.max_pool3d_with_indices}[spatial]
        return pool(self, [n // m for n, m in zip(sizes, output_size, strict=True)])
    windows = [_windows(n, m, self.device) for n, m in zip(sizes, output_size, strict=True)]
    place = _flat_places([place for place, _ in windows], sizes)
    # What is beside a window in one dimension is beside it in all.
    real = _flat_places([real.logical_not().to(torch.int64) for _, real in windows], [1] * spatial)
    values, places = _largest(self, place, real == 0, spatial)
    return values.reshape(shape), places.reshape(shape)


@decomposes(aten.fractional_max_pool2d.default, aten.fractional_max_pool3d.default)
def fractional_max_pool(
    self: torch.Tensor,
    kernel_size: Sequence[int],
    output_size: Sequence[int],
    random_samples: torch.Tensor,
) -> Any:
    """random_samples: a number in [0, 1) a plane and dimension; in 2-D the width's comes first."""
    spatial = len(output_size)
    x = self if self.dim() == spatial + 2 else self.unsqueeze(0)
    sizes = x.shape[-spatial:]
    shape = (*x.shape[:2], *output_size)
    if x.numel() == 0:
        return self.new_empty((*self.shape[:-spatial], *output_size)), torch.empty(
            (*self.shape[:-spatial], *output_size), dtype=torch.int64, device=self.device
        )
    samples = random_samples.to(self.dtype)
    places = []
    for i in range(spatial):
        sample = samples.select(-1, spatial - 1 - i if spatial == 2 else i).unsqueeze(-1)
        last = sizes[i] - kernel_size[i]
        start = torch.full((*x.shape[:2], 1), last, dtype=torch.int64, device=x.device)
        if output_size[i] > 1:
            step = last / (output_size[i] - 1)
            window = torch.arange(output_size[i] - 1, device=x.device)
            others = ((window + sample) * step).long() - (sample * step).long()
            start = torch.cat([others, start], -1)
        places.append(start.unsqueeze(-1) + torch.arange(kernel_size[i], device=x.device))
    place = _flat_places(places, sizes)
    values, where = (part.reshape(shape) for part in _largest(x, place, None, spatial))
    return (values, where) if x is self else (values.squeeze(0), where.squeeze(0))
