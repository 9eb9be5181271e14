"""Tensors made from numbers."""

from __future__ import annotations

from typing import Any

import torch

from .table import decomposes

aten = torch.ops.aten


@decomposes(aten.linspace.default)
def linspace(
    start: Any, end: Any, steps: int, *, dtype: torch.dtype | None = None, **_: Any
) -> Any:
    """Return evenly spaced numbers, counted from the nearer end; whole ones in f64, as in eager."""
    if isinstance(start, complex) or isinstance(end, complex):
        return NotImplemented
    dtype = torch.get_default_dtype() if dtype is None else dtype
    if dtype.is_complex:
        return NotImplemented
    compute = dtype
    if not dtype.is_floating_point:
        compute = torch.float64
    elif dtype.itemsize < 4:
        compute = torch.float32
    if steps == 1:
        return torch.full((1,), start, dtype=dtype)
    place = torch.arange(steps)
    step = (end - start) / (steps - 1)
    low = start + step * place.to(compute)
    high = end - step * (steps - 1 - place).to(compute)
    return torch.where(place < steps // 2, low, high).to(dtype)
