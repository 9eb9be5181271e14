"""Discrete Fourier transforms by the run-time library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from mlir import ir
from mlir.dialects import arith, complex

from .. import scalars, types
from ..builder import Builder
from ..errors import Unsupported
from ..registry import lowers
from ..symbols import Dim, product
from ..values import Tensor
from .common import normalize
from .library import library_call

aten = torch.ops.aten

# What the sum is multiplied by, as ATen numbers it.
_PLAIN, _BY_ROOT, _BY_COUNT = range(3)


def _scaled(b: Builder, shape: Sequence[Dim], dims: Sequence[int], normalization: int) -> Any:
    """Return the factor of a transform along dimensions of a shape, a float or an f64."""
    if normalization == _PLAIN:
        return 1.0
    count = product(shape[dim] for dim in dims)
    power = -0.5 if normalization == _BY_ROOT else -1.0
    if isinstance(count, int):
        return float(max(count, 1)) ** power
    from mlir.dialects import math

    number = scalars.cast(b.scalar(count, torch.int64), torch.int64, torch.float64)
    if normalization == _BY_ROOT:
        number = math.sqrt(number)
    return arith.divf(scalars.constant(1.0, torch.float64), number)


def _dims(dims: Sequence[int], rank: int) -> list[int]:
    return [normalize(dim, rank) for dim in dims]


def _bits(dims: Sequence[int]) -> int:
    return sum(1 << dim for dim in set(dims))


def _check_dtype(dtype: torch.dtype) -> None:
    if dtype not in (torch.float32, torch.float64, torch.complex64, torch.complex128):
        raise Unsupported(f"a transform of {types.dtype_name(dtype)}")


@lowers(aten._fft_c2c.default)
def _fft_c2c(
    b: Builder, x: Tensor, dim: Sequence[int], normalization: int, forward: bool
) -> Tensor:
    _check_dtype(x.dtype)
    dims = _dims(dim, x.rank)
    if not dims:
        return x
    scale = _scaled(b, x.shape, dims, normalization)
    arguments = [x, _bits(dims), forward, scale]
    return library_call(b, "fourier_c2c", arguments, [(x.dtype, x.shape)])[0]


@lowers(aten._fft_r2c.default)
def _fft_r2c(
    b: Builder, x: Tensor, dim: Sequence[int], normalization: int, onesided: bool
) -> Tensor:
    _check_dtype(x.dtype)
    dims = _dims(dim, x.rank)
    scale = _scaled(b, x.shape, dims, normalization)
    arguments = [x, dims[-1], _bits(dims[:-1]), scale]
    return library_call(b, "fourier_r2c", arguments, [(b.result_dtype(), b.result_shape())])[0]


@lowers(aten._fft_c2r.default)
def _fft_c2r(
    b: Builder, x: Tensor, dim: Sequence[int], normalization: int, last_dim_size: Any
) -> Tensor:
    _check_dtype(x.dtype)
    dims = _dims(dim, x.rank)
    shape = b.result_shape()
    scale = _scaled(b, shape, dims, normalization)
    arguments = [x, dims[-1], _bits(dims[:-1]), scale]
    return library_call(b, "fourier_c2r", arguments, [(b.result_dtype(), shape)])[0]


@lowers(aten._conj.default, aten._conj_physical.default, aten.conj_physical.default)
def _conj(b: Builder, x: Tensor) -> Tensor:
    if not types.is_complex(x.dtype):
        return x
    type_ = types.element_type(x.dtype)

    def conjugate(value: ir.Value) -> ir.Value:
        return complex.create_(type_, complex.re(value), arith.negf(complex.im(value)))

    return b.pointwise([x], x.shape, x.dtype, conjugate)
