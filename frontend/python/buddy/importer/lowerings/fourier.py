"""Discrete Fourier transforms by MKL, in the run-time library, called as eager calls it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from mlir import ir
from mlir.dialects import arith, complex

from .. import types
from ..builder import Builder
from ..errors import Unsupported
from ..registry import lowers, node_arg
from ..values import Tensor
from .common import normalize
from .library import library_call, like_result

aten = torch.ops.aten

# As many dimensions as MKL takes, in eager too.
_MOST_DIMS = 7


def _order(b: Builder, dims: Sequence[int], rank: int, *, fixed: int) -> int:
    """Return dimensions as the library takes them, a byte each: plus 1, the first one lowest.

    They are in eager's order, from the largest stride of the node's argument to the smallest but
    for the last `fixed` ones: sums are rounded in another order else.
    """
    dims = [normalize(dim, rank) for dim in dims]
    if len(dims) > _MOST_DIMS:
        raise Unsupported(f"a transform along more than {_MOST_DIMS} dimensions")
    strides = [_usual(stride) for stride in node_arg(b.node, 0).meta["val"].stride()]
    split = len(dims) - fixed
    order = [*sorted(dims[:split], key=lambda dim: -strides[dim]), *dims[split:]]
    return sum((dim + 1) << (8 * place) for place, dim in enumerate(order))


def _usual(stride: int | torch.SymInt) -> int:
    """Return a stride, of the sizes that the graph was traced with; 0 if none are known."""
    if isinstance(stride, torch.SymInt):
        return int(stride.node.hint) if stride.node.has_hint() else 0
    return stride


def _check_dtype(dtype: torch.dtype) -> None:
    if dtype not in (torch.float32, torch.float64, torch.complex64, torch.complex128):
        raise Unsupported(f"a transform of {types.dtype_name(dtype)}")


@lowers(aten._fft_c2c.default)
def _fft_c2c(
    b: Builder, x: Tensor, dim: Sequence[int], normalization: int, forward: bool
) -> Tensor:
    _check_dtype(x.dtype)
    if not dim:
        return x
    arguments = [x, _order(b, dim, x.rank, fixed=0), normalization, forward]
    return library_call(b, "fourier_c2c", arguments, [(x.dtype, x.shape)])[0]


@lowers(aten._fft_r2c.default)
def _fft_r2c(
    b: Builder, x: Tensor, dim: Sequence[int], normalization: int, onesided: bool
) -> Tensor:
    _check_dtype(x.dtype)
    arguments = [x, _order(b, dim, x.rank, fixed=1), normalization]
    return library_call(b, "fourier_r2c", arguments, [like_result(b)])[0]


@lowers(aten._fft_c2r.default)
def _fft_c2r(
    b: Builder, x: Tensor, dim: Sequence[int], normalization: int, last_dim_size: Any
) -> Tensor:
    _check_dtype(x.dtype)
    arguments = [x, _order(b, dim, x.rank, fixed=1), normalization]
    return library_call(b, "fourier_c2r", arguments, [like_result(b)])[0]


@lowers(aten._conj.default, aten._conj_physical.default, aten.conj_physical.default)
def _conj(b: Builder, x: Tensor) -> Tensor:
    if not types.is_complex(x.dtype):
        return x
    type_ = types.element_type(x.dtype)

    def conjugate(value: ir.Value) -> ir.Value:
        return complex.create_(type_, complex.re(value), arith.negf(complex.im(value)))

    return b.pointwise([x], x.shape, x.dtype, conjugate)
