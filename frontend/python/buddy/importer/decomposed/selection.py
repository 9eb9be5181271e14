"""Order statistics along a dimension.

NaN sorts last.
"""

from __future__ import annotations

from typing import Any

import torch

from .table import decomposes

aten = torch.ops.aten


def _single(self: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return self.clone(), torch.zeros((), dtype=torch.int64, device=self.device)


def _keep(parts: tuple[torch.Tensor, ...], dim: int, keepdim: bool) -> tuple[torch.Tensor, ...]:
    return parts if keepdim else tuple(part.squeeze(dim) for part in parts)


@decomposes(aten.median.dim)
def median(self: torch.Tensor, dim: int, keepdim: bool = False) -> Any:
    """The lower of two middle elements; the first NaN if there is one.

    Of equal elements it is the one that a stable sort would put there, as in eager.
    """
    if self.dim() == 0:
        return _single(self)
    middle = (self.shape[dim] + 1) // 2
    value = torch.kthvalue(self, middle, dim, keepdim=True).values
    equal = self == value
    place = middle - (self < value).sum(dim, keepdim=True)
    found = equal & (equal.cumsum(dim) == place)
    index = found.to(torch.uint8).argmax(dim, keepdim=True)
    if self.is_floating_point():
        nan = self.isnan()
        some = nan.any(dim, keepdim=True)
        first = nan.to(torch.uint8).argmax(dim, keepdim=True)
        value, index = torch.where(some, float("nan"), value), torch.where(some, first, index)
    return _keep((value, index), dim, keepdim)


@decomposes(aten.nanmedian.dim)
def nanmedian(self: torch.Tensor, dim: int, keepdim: bool = False) -> Any:
    """The lower of two middle elements of those that are numbers; NaN if none is."""
    if not self.is_floating_point():
        return median(self, dim, keepdim)
    if self.dim() == 0:
        return _single(self)
    ordered = torch.sort(self, dim=dim, stable=True)
    numbers = self.isnan().logical_not().sum(dim, keepdim=True)
    middle = ((numbers - 1).clamp_min(0)) >> 1
    return _keep(tuple(part.gather(dim, middle) for part in ordered), dim, keepdim)


@decomposes(aten.median.default)
def median_of_all(self: torch.Tensor) -> Any:
    return _of_all(self, median)


@decomposes(aten.nanmedian.default)
def nanmedian_of_all(self: torch.Tensor) -> Any:
    return _of_all(self, nanmedian)


def _of_all(self: torch.Tensor, function: Any) -> Any:
    if self.numel() == 0:
        if not self.is_floating_point():
            return NotImplemented
        return torch.full((), float("nan"), dtype=self.dtype, device=self.device)
    return function(self.reshape(-1), 0)[0]


@decomposes(aten.mode.default)
def mode(self: torch.Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """The least of the most frequent values and its last place."""
    if self.dim() == 0:
        return _single(self)
    values, places = torch.sort(self, dim=dim, stable=True)
    size = self.shape[dim]
    shape = [1] * self.dim()
    shape[dim] = size
    position = torch.arange(size, device=self.device).view(shape)
    # The length of the run of equal values that ends at each place; a NaN equals nothing.
    new = values.narrow(dim, 1, size - 1) != values.narrow(dim, 0, size - 1)
    new = torch.cat([torch.ones_like(values.narrow(dim, 0, 1), dtype=torch.bool), new], dim)
    start = torch.cummax(torch.where(new, position, 0), dim).values
    longest = (position - start).argmax(dim, keepdim=True)
    return _keep((values.gather(dim, longest), places.gather(dim, longest)), dim, keepdim)


@decomposes(aten.searchsorted.Tensor)
def searchsorted(
    sorted_sequence: torch.Tensor,
    self: torch.Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: torch.Tensor | None = None,
) -> Any:
    if sorter is None:
        return NotImplemented
    ordered = sorted_sequence.gather(-1, sorter)
    return aten.searchsorted.Tensor(ordered, self, out_int32=out_int32, right=right, side=side)


@decomposes(aten.searchsorted.Scalar)
def searchsorted_number(
    sorted_sequence: torch.Tensor,
    self: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: torch.Tensor | None = None,
) -> Any:
    if sorter is None:
        return NotImplemented
    ordered = sorted_sequence.gather(-1, sorter)
    return aten.searchsorted.Scalar(ordered, self, out_int32=out_int32, right=right, side=side)
