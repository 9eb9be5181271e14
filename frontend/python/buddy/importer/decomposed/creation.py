"""Tensors made from numbers."""

from __future__ import annotations

from typing import Any

import torch

from .table import decomposes

aten = torch.ops.aten


@decomposes(
    aten.linspace.default,
    aten.linspace.Tensor_Tensor,
    aten.linspace.Tensor_Scalar,
    aten.linspace.Scalar_Tensor,
)
def linspace(
    start: Any, end: Any, steps: int, *, dtype: torch.dtype | None = None, **_: Any
) -> torch.Tensor:
    """Return evenly spaced numbers, counted from the nearer end.

    As in eager whole ones are computed in f64 between whole ends, and narrow floats are rounded
    after each step.
    """
    if dtype is None:
        dtype = torch.get_default_dtype()
        if any(isinstance(x, complex) or _is_complex_tensor(x) for x in (start, end)):
            dtype = dtype.to_complex()
    if steps == 1:
        return _number(start, dtype).reshape(1)
    is_whole = not (dtype.is_floating_point or dtype.is_complex)
    compute = torch.float64 if is_whole else dtype
    first, last = (_number(x, dtype).to(compute) for x in (start, end))
    step = (last - first) / _number(steps - 1, compute)
    place = torch.arange(steps)
    low = first + step * place.to(compute)
    high = last - step * (steps - 1 - place).to(compute)
    return torch.where(place < steps // 2, low, high).to(dtype)


def _is_complex_tensor(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.is_complex()


def _number(x: Any, dtype: torch.dtype) -> torch.Tensor:
    """Return a number, or a tensor of one, as a tensor; whole dtypes cut the fraction off."""
    if isinstance(x, torch.Tensor):
        return x.to(dtype)
    if not (dtype.is_floating_point or dtype.is_complex):
        x = torch.sym_int(x)
    return torch.full((), x, dtype=dtype)
