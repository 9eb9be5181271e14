"""Element-wise operators by parts and bits."""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

import torch

from .table import decomposes

aten = torch.ops.aten
# dtype of the same width -> (bits of the mantissa, bits of the exponent).
_LAYOUT = {
    torch.float32: (torch.int32, 23, 8),
    torch.float64: (torch.int64, 52, 11),
}


@decomposes(aten.complex.default)
def complex_(real: torch.Tensor, imag: torch.Tensor) -> Any:
    if real.dtype is torch.float16:  # complex32
        return NotImplemented
    real, imag = torch.broadcast_tensors(real, imag)
    return torch.view_as_complex(torch.stack([real, imag], -1))


@decomposes(aten.polar.default)
def polar(abs: torch.Tensor, angle: torch.Tensor) -> Any:
    return complex_(abs * angle.cos(), abs * angle.sin())


@decomposes(aten.angle.default)
def angle(self: torch.Tensor) -> torch.Tensor:
    if self.is_complex():
        parts = torch.view_as_real(self)
        return torch.atan2(parts.select(-1, 1), parts.select(-1, 0))
    if not self.is_floating_point():
        return torch.where(self < 0, math.pi, 0.0).to(torch.get_default_dtype())
    # Of numbers alone `where` makes the default dtype, which may be narrower.
    flat = torch.where(self < 0, torch.full_like(self, math.pi), 0.0)
    return torch.where(self.isnan(), self, flat)


@decomposes(aten.frexp.Tensor)
def frexp(self: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(mantissa in [1/2, 1), exponent); what has none (0, infinity, NaN) is its own mantissa."""
    if self.dtype not in _LAYOUT:
        mantissa, exponent = frexp(self.float())
        return mantissa.to(self.dtype), exponent
    integer, low, width = _LAYOUT[self.dtype]
    bias = (1 << (width - 1)) - 1
    # Subnormal numbers are made normal first.
    small = self.abs() < 2.0 ** (1 - bias)
    bits = torch.where(small, self * 2.0 ** (low + 1), self).view(integer)
    field = (bits >> low) & ((1 << width) - 1)
    mantissa = ((bits & ~(((1 << width) - 1) << low)) | ((bias - 1) << low)).view(self.dtype)
    exponent = field - (bias - 1) - torch.where(small, low + 1, 0)
    bare = (self == 0) | ~self.isfinite()
    mantissa = torch.where(bare, self, mantissa)
    return mantissa, torch.where(bare, 0, exponent).to(torch.int32)


@decomposes(aten.mvlgamma.default)
def _multivariate_lgamma(x: torch.Tensor, p: int) -> torch.Tensor:
    """Return the logarithm of the multivariate gamma function of dimension p."""
    dtype = x.dtype if x.dtype.is_floating_point else torch.get_default_dtype()
    wide = torch.float32 if dtype.itemsize < 4 else dtype
    terms = [torch.lgamma(x.to(dtype) + (i - p) / 2).to(wide) for i in range(1, p + 1)]
    # In the order in which ATen adds up a few numbers: in four parts, what is left in the first.
    whole = p // 4 * 4
    parts = [terms[k:whole:4] for k in range(4)]
    parts[0] += terms[whole:]
    sums = [functools.reduce(operator.add, part) for part in parts if part]
    total = functools.reduce(operator.add, sums).to(dtype)
    return total + p * (p - 1) * math.log(math.pi) / 4
