"""Sampling at places that are computed: grids in three dimensions, anti-aliased resizing."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .table import decomposes, opmath

aten = torch.ops.aten
_BILINEAR, _NEAREST = 0, 1
_ZEROS, _BORDER, _REFLECTION = 0, 1, 2


def _unnormalize(x: torch.Tensor, size: Any, padding: int, align_corners: bool) -> torch.Tensor:
    """Return places in elements for those in [-1, 1], inside of the tensor unless zeros pad it."""
    if align_corners:
        x = (x + 1) / 2 * (size - 1)
    else:
        x = ((x + 1) * size - 1) / 2
    if padding == _BORDER:
        return _clip(x, size)
    if padding == _REFLECTION:
        twice = (0, 2 * (size - 1)) if align_corners else (-1, 2 * size - 1)
        return _clip(_reflect(x, *twice), size)
    return x


def _clip(x: torch.Tensor, size: Any) -> torch.Tensor:
    x = torch.where(x < 0, 0, x)
    return torch.where(x < size - 1, x, size - 1)  # NaN goes to the end


def _reflect(x: torch.Tensor, twice_low: Any, twice_high: Any) -> torch.Tensor:
    if twice_low == twice_high:
        return torch.zeros_like(x)
    low, span = twice_low / 2, (twice_high - twice_low) / 2
    x = (x - low).abs()
    extra = torch.fmod(x, span)
    odd = torch.floor(x / span) % 2 != 0
    return torch.where(odd, span - extra + low, extra + low)


@decomposes(aten.grid_sampler_2d.default)
def grid_sampler_2d(
    input: torch.Tensor,
    grid: torch.Tensor,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
) -> torch.Tensor:
    """input [N, C, H, W], grid [N, h, w, 2] with x first; returns [N, C, h, w]."""
    if interpolation_mode not in (_BILINEAR, _NEAREST):
        whole = torch._decomp.decomposition_table[aten.grid_sampler_2d.default]
        return whole(input, grid, interpolation_mode, padding_mode, align_corners)
    return _sample(input, grid, interpolation_mode, padding_mode, align_corners)


@decomposes(aten.grid_sampler_3d.default)
def grid_sampler_3d(
    input: torch.Tensor,
    grid: torch.Tensor,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
) -> torch.Tensor:
    """input [N, C, D, H, W], grid [N, d, h, w, 3] with x first; returns [N, C, d, h, w]."""
    return _sample(input, grid, interpolation_mode, padding_mode, align_corners)


def _sample(
    input: torch.Tensor, grid: torch.Tensor, interpolation: int, padding: int, align_corners: bool
) -> torch.Tensor:
    """Places, and how much each of their neighbours counts, are the same for all channels."""
    batch, channels = input.shape[:2]
    sizes = input.shape[2:]
    dims = len(sizes)
    flat = input.flatten(2)
    places = [
        _unnormalize(opmath(grid.select(-1, dims - 1 - i)), sizes[i], padding, align_corners)
        for i in range(dims)
    ]

    def read(corner: Sequence[torch.Tensor], weight: Any) -> torch.Tensor:
        at: Any = 0
        inside: Any = None
        for place, size in zip(corner, sizes, strict=True):
            within = (place >= 0) & (place < size)
            inside = within if inside is None else inside & within
            at = at * size + torch.where(within, place, 0).long()
        at = at.reshape(batch, 1, -1).expand(batch, channels, -1)
        values = opmath(flat.gather(2, at)).reshape(batch, channels, *grid.shape[1:-1])
        return torch.where(inside.unsqueeze(1), values * weight, 0)

    if interpolation == _NEAREST:
        return read([place.round() for place in places], 1).to(input.dtype)
    lows = [place.floor() for place in places]
    result: Any = 0
    for upper in itertools.product((False, True), repeat=dims):
        corner = [low + 1 if up else low for low, up in zip(lows, upper, strict=True)]
        weight: Any = 1
        for place, low, up in zip(places, lows, upper, strict=True):
            weight = weight * (place - low if up else low + 1 - place)
        result = result + read(corner, weight.unsqueeze(1))
    return result.to(input.dtype)


# ---- anti-aliased resizing -------------------------------------------------------------------


def _triangle(x: torch.Tensor) -> torch.Tensor:
    return (1 - x.abs()).clamp_min(0)


def _cubic(x: torch.Tensor) -> torch.Tensor:
    """Keys' kernel with a = -1/2."""
    a, x = -0.5, x.abs()
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return torch.where(x < 1, near, torch.where(x < 2, far, 0))


def _resize(
    x: torch.Tensor,
    dim: int,
    count: Any,
    scale: float | None,
    align_corners: bool,
    filter: Callable[[torch.Tensor], torch.Tensor],
    radius: int,
) -> torch.Tensor:
    """Resize one dimension: each element is a weighted mean of those under the filter.

    The filter is as wide as `radius` elements of the larger of the two grids.
    """
    size = x.shape[dim]
    if align_corners:
        ratio = (size - 1) / (count - 1) if count > 1 else 0.0
    else:
        ratio = 1 / scale if scale is not None and scale > 0 else size / count
    support = radius * ratio if ratio >= 1 else float(radius)
    inverse = 1 / ratio if ratio >= 1 else 1.0
    dtype = x.dtype
    center = ratio * (torch.arange(count, device=x.device, dtype=dtype) + 0.5)
    start = (center - support + 0.5).long().clamp_min(0)
    end = (center + support + 0.5).long().clamp_max(size)
    taps = torch.arange(math.ceil(support) * 2 + 1, device=x.device)
    place = start.unsqueeze(1) + taps
    real = place < end.unsqueeze(1)
    weight = filter((place - center.unsqueeze(1) + 0.5) * inverse)
    weight = torch.where(real, weight, 0)
    weight = weight / weight.sum(1, keepdim=True)
    parts = aten.index.Tensor(x, [None] * dim + [place.clamp_max(size - 1)])
    return (parts * weight.view(*weight.shape, *[1] * (x.dim() - dim - 1))).sum(dim + 1)


def _resize_image(
    self: torch.Tensor,
    output_size: Sequence[Any],
    align_corners: bool,
    scales: tuple[float | None, float | None],
    filter: Callable[[torch.Tensor], torch.Tensor],
    radius: int,
) -> Any:
    if not self.is_floating_point():
        return NotImplemented
    x = opmath(self)
    for dim in (3, 2):
        x = _resize(x, dim, output_size[dim - 2], scales[dim - 2], align_corners, filter, radius)
    return x.to(self.dtype)


@decomposes(aten._upsample_bilinear2d_aa.default)
def upsample_bilinear2d_aa(
    self: torch.Tensor,
    output_size: Sequence[Any],
    align_corners: bool,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Any:
    return _resize_image(self, output_size, align_corners, (scales_h, scales_w), _triangle, 1)


@decomposes(aten._upsample_bicubic2d_aa.default)
def upsample_bicubic2d_aa(
    self: torch.Tensor,
    output_size: Sequence[Any],
    align_corners: bool,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Any:
    return _resize_image(self, output_size, align_corners, (scales_h, scales_w), _cubic, 2)
