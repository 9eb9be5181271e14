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
from ..symbols import Dim
from ..values import Tensor
from .common import normalize
from .library import library_call

aten = torch.ops.aten

# What fits into the number that tells the library an order of dimensions, and what MKL takes.
_MOST_DIMS, _MOST_TRANSFORMED = 16, 7


def _strides(b: Builder) -> list[int]:
    """Return the strides of the node's argument in eager."""
    return [_usual(stride) for stride in node_arg(b.node, 0).meta["val"].stride()]


def _usual(stride: int | torch.SymInt) -> int:
    """Return a stride, of the sizes that the graph was traced with; 0 if they are not known."""
    if isinstance(stride, torch.SymInt):
        return int(stride.node.hint) if stride.node.has_hint() else 0
    return stride


def _transform(
    b: Builder,
    name: str,
    x: Tensor,
    strides: Sequence[int],
    dims: Sequence[int],
    numbers: Sequence[int],
    dtype: torch.dtype,
    last: Dim | None = None,
    between: bool = False,
) -> tuple[Tensor, list[int]]:
    """Return a transform and, as strides, the order of its dimensions in eager's memory.

    The library is called with the memory that eager calls it with, whose order decides in which
    order sums are rounded: `strides` are those of `x`, and in the result, those dimensions come
    first that are not transformed. numbers: further arguments of the function. last: the size
    along the last one of `dims`, which is not one of the sorted ones; None: as `x`. between: the
    result is not the node's.
    """
    if x.rank > _MOST_DIMS or len(dims) > _MOST_TRANSFORMED or len(set(dims)) < len(dims):
        raise Unsupported(f"a transform along {len(dims)} dimensions {dims} of {x.rank}")
    layout = sorted(range(x.rank), key=lambda dim: -strides[dim])
    split = len(dims) - (last is not None)
    order = [
        *(dim for dim in layout if dim not in dims),
        *sorted(dims[:split], key=lambda dim: -strides[dim]),
        *dims[split:],
    ]
    shape = list(x.shape)
    if last is not None:
        shape[order[-1]] = last
    if node_arg(b.node, 0).op == "placeholder" and x.is_plain:
        places = order  # It lies there already.
    else:
        x = b.plain(x.permute(layout))
        places = [layout.index(dim) for dim in order]
    # What the call returns lies as in eager. Else the result is made as eager's memory is.
    returned = not between and any(user.op == "output" for user in b.node.users)
    order_to = order if returned else list(range(x.rank))
    (result,) = library_call(
        b,
        f"fourier_{name}",
        [x, _code(places), _code(order_to), *numbers],
        [(dtype, shape if returned else [shape[dim] for dim in order])],
    )
    place = [order.index(dim) for dim in range(x.rank)]
    return result if returned else result.permute(place), [-position for position in place]


def _code(dims: Sequence[int]) -> int:
    """Return dimensions as the library takes them: four bits each, the first ones lowest."""
    code = sum(dim << (4 * i) for i, dim in enumerate(dims))
    return code - ((code >> 63) << 64)


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
    dims = [normalize(d, x.rank) for d in dim]
    numbers = [len(dims), normalization, forward]
    return _transform(b, "c2c", x, _strides(b), dims, numbers, x.dtype)[0]


@lowers(aten._fft_r2c.default)
def _fft_r2c(
    b: Builder, x: Tensor, dim: Sequence[int], normalization: int, onesided: bool
) -> Tensor:
    _check_dtype(x.dtype)
    dims = [normalize(d, x.rank) for d in dim]
    numbers = [len(dims), normalization]
    last = b.result_shape()[dims[-1]]
    return _transform(b, "r2c", x, _strides(b), dims, numbers, b.result_dtype(), last)[0]


@lowers(aten._fft_c2r.default)
def _fft_c2r(
    b: Builder, x: Tensor, dim: Sequence[int], normalization: int, last_dim_size: Any
) -> Tensor:
    _check_dtype(x.dtype)
    *dims, last_dim = [normalize(d, x.rank) for d in dim]
    strides = _strides(b)
    # As eager does: of numbers that are no real array's transform, MKL would make something else.
    if dims:
        numbers = [len(dims), normalization, False]
        x, strides = _transform(b, "c2c", x, strides, dims, numbers, x.dtype, between=True)
    last, dtype = b.result_shape()[last_dim], b.result_dtype()
    return _transform(b, "c2r", x, strides, [last_dim], [normalization], dtype, last)[0]


@lowers(aten._conj.default, aten._conj_physical.default, aten.conj_physical.default)
def _conj(b: Builder, x: Tensor) -> Tensor:
    if not types.is_complex(x.dtype):
        return x
    type_ = types.element_type(x.dtype)

    def conjugate(value: ir.Value) -> ir.Value:
        return complex.create_(type_, complex.re(value), arith.negf(complex.im(value)))

    return b.pointwise([x], x.shape, x.dtype, conjugate)
