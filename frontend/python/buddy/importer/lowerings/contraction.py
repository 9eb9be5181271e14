"""Matrix products as `linalg.contract`.

A transposed operand is said by its indexing map, so no transpose is ever materialised. Reduced
floats are accumulated in f32 and rounded once at the end, together with the bias.
"""

from __future__ import annotations

from typing import Any

import torch
from mlir import ir
from mlir.dialects import arith, linalg
from mlir.dialects import complex as complex_

from .. import scalars, types
from ..builder import Builder
from ..registry import lowers
from ..values import Tensor

aten = torch.ops.aten


def contract(
    b: Builder,
    left: Tensor,
    right: Tensor,
    left_loops: list[int],
    right_loops: list[int],
    result_loops: list[int],
    shape: tuple[Any, ...],
) -> Tensor:
    """Return the sum of products over the loops that the result does not have.

    `*_loops` give the loop of each dimension. The result's dtype is the accumulator's.
    """
    if types.is_complex(left.dtype):
        return _contract_parts(b, left, right, left_loops, right_loops, result_loops, shape)
    dtype = types.accumulator(left.dtype)
    rank = max(*left_loops, *right_loops, *result_loops) + 1
    operands, maps = [], []
    for source, loops in ((left, left_loops), (right, right_loops)):
        if any(dim is None for dim in source.dims):
            source = b.plain(source)
        order = [loops[source.dims.index(dim)] for dim in range(source.rank)]
        operands.append(source.base)
        maps.append(_map(rank, order))
    init = b.full(shape, scalars.constant(0, dtype), dtype)
    maps.append(_map(rank, result_loops))
    cast = None
    if types.is_unsigned(left.dtype) and left.dtype is not torch.bool:
        cast = ir.Attribute.parse("#linalg.type_fn<cast_unsigned>")
    value = linalg.contract(
        *operands,
        outs=[init],
        indexing_maps=ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in maps]),
        cast=cast,
    )
    return Tensor.plain(value, dtype, shape)


def _contract_parts(b: Builder, left: Tensor, right: Tensor, *loops_and_shape: Any) -> Tensor:
    """Contract complex numbers by four contractions of real ones, which have fast kernels."""

    def parts(source: Tensor) -> list[Tensor]:
        real = source.dtype.to_real()
        return [
            b.pointwise([source], source.shape, real, part) for part in (complex_.re, complex_.im)
        ]

    products = [contract(b, x, y, *loops_and_shape) for x in parts(left) for y in parts(right)]
    dtype = types.accumulator(left.dtype)

    def combine(rr: ir.Value, ri: ir.Value, ir_: ir.Value, ii: ir.Value) -> ir.Value:
        return complex_.create_(types.element_type(dtype), arith.subf(rr, ii), arith.addf(ri, ir_))

    return b.pointwise(products, products[0].shape, dtype, combine)


def _map(rank: int, loops: list[int]) -> ir.AffineMap:
    return ir.AffineMap.get(rank, 0, [ir.AffineDimExpr.get(loop) for loop in loops])


def mm(b: Builder, left: Tensor, right: Tensor) -> Tensor:
    """[M, K] x [K, N]."""
    shape = (left.shape[0], right.shape[1])
    return contract(b, left, right, [0, 2], [2, 1], [0, 1], shape)


def bmm(b: Builder, left: Tensor, right: Tensor) -> Tensor:
    """[B, M, K] x [B, K, N]."""
    shape = (left.shape[0], left.shape[1], right.shape[2])
    return contract(b, left, right, [0, 1, 3], [0, 3, 2], [0, 1, 2], shape)


@lowers(aten.mm.default)
def _mm(b: Builder, left: Tensor, right: Tensor) -> Tensor:
    return b.cast(mm(b, left, right), left.dtype)


@lowers(aten.bmm.default)
def _bmm(b: Builder, left: Tensor, right: Tensor) -> Tensor:
    return b.cast(bmm(b, left, right), left.dtype)


@lowers(aten.mv.default)
def _mv(b: Builder, left: Tensor, right: Tensor) -> Tensor:
    result = contract(b, left, right, [0, 1], [1], [0], (left.shape[0],))
    return b.cast(result, left.dtype)


@lowers(aten.dot.default)
def _dot(b: Builder, left: Tensor, right: Tensor) -> Tensor:
    return b.cast(contract(b, left, right, [0], [0], [], ()), left.dtype)


@lowers(aten.addmm.default)
def _addmm(
    b: Builder, bias: Tensor, left: Tensor, right: Tensor, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    return add_bias(b, mm(b, left, right), bias, left.dtype, beta, alpha)


@lowers(aten.baddbmm.default)
def _baddbmm(
    b: Builder, bias: Tensor, left: Tensor, right: Tensor, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    return add_bias(b, bmm(b, left, right), bias, left.dtype, beta, alpha)


@lowers(aten.addbmm.default)
def _addbmm(
    b: Builder, bias: Tensor, left: Tensor, right: Tensor, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    shape = (left.shape[1], right.shape[2])
    product = contract(b, left, right, [2, 0, 3], [2, 3, 1], [0, 1], shape)
    return add_bias(b, product, bias, left.dtype, beta, alpha)


@lowers(aten.addmv.default)
def _addmv(
    b: Builder, bias: Tensor, left: Tensor, right: Tensor, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    product = contract(b, left, right, [0, 1], [1], [0], (left.shape[0],))
    return add_bias(b, product, bias, left.dtype, beta, alpha)


@lowers(aten.linear.default)
def _linear(b: Builder, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return linear(b, x, weight, bias, x.dtype)


def linear(
    b: Builder, x: Tensor, weight: Tensor, bias: Tensor | None, dtype: torch.dtype
) -> Tensor:
    """[..., K] x [N, K] (or [K]) + [N], rounded to the dtype."""
    batch = x.rank - 1
    n = batch + 1
    features = [] if weight.rank == 1 else [batch]
    shape = x.shape[:-1] + (() if weight.rank == 1 else (weight.shape[0],))
    product = contract(
        b,
        x,
        weight,
        [*range(batch), n],
        [*features, n],
        [*range(batch), *features],
        shape,
    )
    if bias is None:
        return b.cast(product, dtype)
    return add_bias(b, product, bias, dtype, 1, 1)


def add_bias(
    b: Builder, product: Tensor, bias: Tensor, dtype: torch.dtype, beta: Any, alpha: Any
) -> Tensor:
    """Return beta * bias + alpha * product in the dtype; beta = 0 ignores the bias, NaN too."""
    compute = product.dtype

    def scaled(value: ir.Value, factor: Any) -> ir.Value:
        if isinstance(factor, (int, float)) and factor == 1:
            return value
        return scalars.mul(compute, value, b.scalar(factor, compute))

    def body(value: ir.Value, *extra: ir.Value) -> ir.Value:
        value = scaled(value, alpha)
        if extra:
            other = scaled(scalars.cast(extra[0], bias.dtype, compute), beta)
            value = scalars.add(compute, value, other)
        return scalars.cast(value, compute, dtype)

    ignored = isinstance(beta, (int, float)) and beta == 0
    operands = [product] if ignored else [product, bias]
    return b.pointwise(operands, product.shape, dtype, body)
