"""Reductions. Reduced floats are accumulated in f32, integers as ATen's result dtype says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from mlir import ir
from mlir.dialects import arith, complex, math

from .. import scalars, shapes, types
from ..builder import PARALLEL, REDUCTION, Builder, loop_index
from ..errors import Unsupported
from ..registry import lowers, overload
from ..symbols import product
from ..values import Tensor
from .common import normalize, normalize_all

aten = torch.ops.aten


def reduce_to(
    b: Builder,
    x: Tensor,
    dims: Sequence[int],
    inits: Sequence[tuple[Any, torch.dtype]],
    body: Callable[..., Any],
    beside: Sequence[Tensor] = (),
) -> list[Tensor]:
    """Reduce over dimensions, which are dropped; several accumulators go together.

    inits: start value and dtype of each accumulator. `body` gets the element (in x's dtype), those
    of the tensors `beside`, broadcast to x, and the accumulators, and returns the new ones.
    """
    kept = [i for i in range(x.rank) if i not in set(dims)]
    shape = tuple(x.shape[i] for i in kept)
    result_map = ir.AffineMap.get(x.rank, 0, [ir.AffineDimExpr.get(i) for i in kept])
    outputs = [
        (b.full(shape, scalars.constant(init, dtype), dtype), result_map) for init, dtype in inits
    ]
    kinds = [PARALLEL if i in kept else REDUCTION for i in range(x.rank)]
    if any(dim is None for dim in x.dims):
        x = b.plain(x)
    operands = [b.operand(tensor, x.shape) for tensor in (x, *beside)]
    results = b.generic(operands, outputs, kinds, body)
    return [
        Tensor.plain(value, dtype, shape) for value, (_, dtype) in zip(results, inits, strict=True)
    ]


def keep_dims(x: Tensor, dims: Sequence[int], keep: bool) -> Tensor:
    """Put reduced dimensions back with size 1 if asked."""
    if keep:
        for dim in sorted(dims):
            x = x.unsqueeze(dim)
    return x


def count(b: Builder, x: Tensor, dims: Sequence[int], dtype: torch.dtype) -> ir.Value:
    """Return the number of reduced elements as a scalar value of a float dtype."""
    return b.scalar(product(x.shape[i] for i in dims), dtype)


def sum_over(b: Builder, x: Tensor, dims: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Return the sum over dimensions, accumulated and returned in `dtype`."""
    return reduce_to(
        b,
        x,
        dims,
        [(0, dtype)],
        lambda value, acc: scalars.add(dtype, acc, scalars.cast(value, x.dtype, dtype)),
    )[0]


def mean_over(b: Builder, x: Tensor, dims: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Return the mean over dimensions in a float dtype."""
    total = sum_over(b, x, dims, dtype)
    return b.pointwise(
        [total],
        total.shape,
        dtype,
        lambda value: scalars.true_divide(dtype, value, count(b, x, dims, dtype)),
    )


def squared_deviation(
    b: Builder, x: Tensor, dims: Sequence[int], dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Return (mean, sum of squared deviations), both with the reduced dimensions kept as 1.

    Of complex numbers, the squares of the deviations' absolute values.
    """
    mean = keep_dims(mean_over(b, x, dims, dtype), dims, True)
    real = dtype.to_real()

    def square(value: ir.Value, m: ir.Value) -> ir.Value:
        difference = scalars.sub(dtype, scalars.cast(value, x.dtype, dtype), m)
        if not types.is_complex(dtype):
            return scalars.mul(dtype, difference, difference)
        parts = complex.re(difference), complex.im(difference)
        return arith.addf(*[arith.mulf(part, part) for part in parts])

    squares = b.pointwise([x, mean], x.shape, real, square)
    return mean, keep_dims(sum_over(b, squares, dims, real), dims, True)


def normalized_moments(
    b: Builder, x: Tensor, dims: Sequence[int], eps: float
) -> tuple[Tensor, Tensor]:
    """Return (mean, 1 / sqrt(variance + eps)) with the reduced dimensions kept as 1."""
    dtype = types.opmath(x.dtype)
    mean, squares = squared_deviation(b, x, dims, dtype)

    def inverse(value: ir.Value) -> ir.Value:
        variance = arith.divf(value, count(b, x, dims, dtype))
        return math.rsqrt(arith.addf(variance, scalars.constant(eps, dtype)))

    return mean, b.pointwise([squares], squares.shape, dtype, inverse)


# ---- sums and means --------------------------------------------------------------------------


@lowers(aten.sum.default)
def _sum(b: Builder, x: Tensor, *_: Any) -> Tensor:
    return _sum_dims(b, x, None, False)


@lowers(aten.sum.dim_IntList)
def _sum_dims(b: Builder, x: Tensor, dims: Any, keep: bool, *_: Any) -> Tensor:
    dims = normalize_all(dims, x.rank)
    dtype = b.result_dtype()
    compute = types.opmath(dtype)
    total = keep_dims(sum_over(b, x, dims, compute), dims, keep)
    return b.cast(total, dtype)


@lowers(aten.mean.default)
def _mean(b: Builder, x: Tensor, *_: Any) -> Tensor:
    return _mean_dims(b, x, None, False)


@lowers(aten.mean.dim)
def _mean_dims(b: Builder, x: Tensor, dims: Any, keep: bool, *_: Any) -> Tensor:
    dims = normalize_all(dims, x.rank)
    dtype = b.result_dtype()
    mean = mean_over(b, x, dims, types.opmath(dtype))
    return b.cast(keep_dims(mean, dims, keep), dtype)


@lowers(aten.prod.default)
def _prod(b: Builder, x: Tensor, *_: Any) -> Tensor:
    return _prod_over(b, x, list(range(x.rank)), False)


@lowers(aten.prod.dim_int)
def _prod_dim(b: Builder, x: Tensor, dim: int, keep: bool, *_: Any) -> Tensor:
    return _prod_over(b, x, [normalize(dim, x.rank)] if x.rank else [], keep)


def _prod_over(b: Builder, x: Tensor, dims: list[int], keep: bool) -> Tensor:
    dtype = b.result_dtype()
    compute = types.opmath(dtype)
    (result,) = reduce_to(
        b,
        x,
        dims,
        [(1, compute)],
        lambda value, acc: scalars.mul(compute, acc, scalars.cast(value, x.dtype, compute)),
    )
    return b.cast(keep_dims(result, dims, keep), dtype)


@lowers(aten.var.correction)
def _var(b: Builder, x: Tensor, dims: Any, correction: Any = 1, keep: bool = False) -> Tensor:
    return _variance(b, x, dims, correction, keep)[0]


@lowers(aten.var_mean.correction)
def _var_mean(
    b: Builder, x: Tensor, dims: Any, correction: Any = 1, keep: bool = False
) -> tuple[Tensor, Tensor]:
    return _variance(b, x, dims, correction, keep)


@lowers(aten.std.correction)
def _std(b: Builder, x: Tensor, dims: Any, correction: Any = 1, keep: bool = False) -> Tensor:
    variance, _ = _variance(b, x, dims, correction, keep, types.opmath(x.dtype))
    root = b.pointwise([variance], variance.shape, variance.dtype, math.sqrt)
    return b.cast(root, b.result_dtype())


def _variance(
    b: Builder,
    x: Tensor,
    dims: Any,
    correction: Any,
    keep: bool,
    result: torch.dtype | None = None,
) -> tuple[Tensor, Tensor]:
    dims = normalize_all(dims, x.rank)
    mean, squares = squared_deviation(b, x, dims, types.opmath(x.dtype))
    dtype = squares.dtype
    correction = 1 if correction is None else correction

    def divide(value: ir.Value) -> ir.Value:
        total = count(b, x, dims, dtype)
        divisor = arith.subf(total, scalars.constant(float(correction), dtype))
        divisor = scalars.maximum(dtype, divisor, scalars.constant(0.0, dtype))
        return arith.divf(value, divisor)

    variance = b.pointwise([squares], squares.shape, dtype, divide)
    if not keep:
        variance, mean = (shapes.squeeze(b, part, dims) for part in (variance, mean))
    result = result or x.dtype
    return b.cast(variance, result.to_real()), b.cast(mean, result)


# ---- extrema ---------------------------------------------------------------------------------


@lowers(aten.amax.default, aten.amin.default)
def _extremum_dims(b: Builder, x: Tensor, dims: Any = (), keep: bool = False) -> Tensor:
    largest = b.node.target is aten.amax.default
    return extremum(b, x, normalize_all(dims, x.rank), keep, largest)


@lowers(aten.max.default, aten.min.default)
def _extremum_all(b: Builder, x: Tensor) -> Tensor:
    largest = b.node.target is aten.max.default
    return extremum(b, x, list(range(x.rank)), False, largest)


def extremum(b: Builder, x: Tensor, dims: Sequence[int], keep: bool, largest: bool) -> Tensor:
    """Return the largest or smallest element over dimensions; NaN if one is NaN."""
    pick = scalars.maximum if largest else scalars.minimum
    init = scalars.lowest(x.dtype) if largest else scalars.highest(x.dtype)
    (result,) = reduce_to(
        b, x, dims, [(init, x.dtype)], lambda value, acc: pick(x.dtype, acc, value)
    )
    return keep_dims(result, dims, keep)


def arg_extremum(
    b: Builder, x: Tensor, dim: int, keep: bool, largest: bool
) -> tuple[Tensor, Tensor]:
    """Return (value, index) of the first largest or smallest element; a NaN counts as that."""
    if x.rank == 0:
        zero = b.full((), scalars.constant(0, torch.int64), torch.int64)
        return x, Tensor.plain(zero, torch.int64, ())
    # Two passes, each a plain reduction that vectorizes: the extremum, then the first index that
    # holds it.
    value = extremum(b, x, [dim], False, largest)
    last = torch.iinfo(torch.int64).max

    def candidate(element: ir.Value, best: ir.Value, acc: ir.Value) -> ir.Value:
        here = arith.index_cast(ir.IntegerType.get_signless(64), loop_index(dim))
        take = scalars.compare("eq", element, best, x.dtype)
        if types.is_float(x.dtype):
            both = arith.andi(scalars.is_nan(element), scalars.is_nan(best))
            take = arith.ori(take, both)
        found = arith.select(take, here, scalars.constant(last, torch.int64))
        return scalars.minimum(torch.int64, acc, found)

    best = keep_dims(value, [dim], True)
    (where,) = reduce_to(b, x, [dim], [(last, torch.int64)], candidate, beside=[best])
    return keep_dims(value, [dim], keep), keep_dims(where, [dim], keep)


@lowers(aten.max.dim, aten.min.dim)
def _extremum_dim(b: Builder, x: Tensor, dim: int, keep: bool = False) -> tuple[Tensor, Tensor]:
    largest = b.node.target is aten.max.dim
    return arg_extremum(b, x, normalize(dim, x.rank), keep, largest)


@lowers(aten.argmax.default, aten.argmin.default)
def _arg_extremum(b: Builder, x: Tensor, dim: Any = None, keep: bool = False) -> Tensor:
    largest = b.node.target is aten.argmax.default
    if dim is None:
        flat = shapes.reshape(b, x, [product(x.shape)])
        result = arg_extremum(b, flat, 0, False, largest)[1]
        return keep_dims(result, range(x.rank), keep)
    return arg_extremum(b, x, normalize(dim, x.rank), keep, largest)[1]


# ---- truth -----------------------------------------------------------------------------------


@lowers(aten.any.default, aten.all.default)
def _truth_all(b: Builder, x: Tensor) -> Tensor:
    return _truth(b, x, list(range(x.rank)), False)


@lowers(aten.any.dim, aten.any.dims, aten.all.dim, aten.all.dims)
def _truth_dims(b: Builder, x: Tensor, dims: Any = None, keep: bool = False) -> Tensor:
    return _truth(b, x, normalize_all(dims, x.rank), keep)


def _truth(b: Builder, x: Tensor, dims: list[int], keep: bool) -> Tensor:
    conjunction = "all" in overload(b.node).__name__
    combine = arith.andi if conjunction else arith.ori
    (result,) = reduce_to(
        b,
        x,
        dims,
        [(conjunction, torch.bool)],
        lambda value, acc: combine(acc, scalars.cast(value, x.dtype, torch.bool)),
    )
    return b.cast(keep_dims(result, dims, keep), b.result_dtype())


@lowers(aten.hash_tensor.default)
def _hash_tensor(
    b: Builder, x: Tensor, dims: Any = (), keep: bool = False, mode: int = 0
) -> Tensor:
    """The exclusive or of elements' bits, as f64 or 64-bit integers."""
    if mode != 0 or types.is_complex(x.dtype):
        raise Unsupported("a hash other than the exclusive or of real numbers")
    dims = normalize_all(dims, x.rank)
    wide = torch.float64 if types.is_float(x.dtype) else torch.int64
    i64 = ir.IntegerType.get_signless(64)

    def body(value: ir.Value, acc: ir.Value) -> ir.Value:
        value = scalars.cast(value, x.dtype, wide)
        return arith.xori(acc, arith.bitcast(i64, value) if value.type != i64 else value)

    (result,) = reduce_to(b, x, dims, [(0, torch.uint64)], body)
    return keep_dims(result, dims, keep)
