"""Convolutions and pooling as structured operations over windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from mlir import ir
from mlir.dialects import arith

from .. import scalars, shapes, types
from ..builder import PARALLEL, REDUCTION, Builder, loop_index
from ..registry import lowers, overload
from ..symbols import Dim, as_dim, at_least_zero
from ..values import Tensor
from .contraction import add_bias
from .transposed_convolution import convolve_transposed
from .view import gather_elements, pad_tensor

aten = torch.ops.aten


def _spread(values: Sequence[Any], count: int) -> list[Any]:
    """Return one entry for each spatial dimension."""
    values = list(values)
    return values * count if len(values) == 1 else values


def _window(out_loop: int, stride: int, window_loop: int, dilation: int) -> ir.AffineExpr:
    """Return the input index out * stride + window * dilation."""
    out, window = ir.AffineDimExpr.get(out_loop), ir.AffineDimExpr.get(window_loop)
    if stride != 1:
        out = ir.AffineExpr.get_mul(out, stride)
    if dilation != 1:
        window = ir.AffineExpr.get_mul(window, dilation)
    return ir.AffineExpr.get_add(out, window)


@lowers(aten.convolution.default)
def _convolution(
    b: Builder,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[Any],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Tensor:
    batched = x.rank == weight.rank
    if not batched:
        x = x.unsqueeze(0)
    spatial = x.rank - 2
    stride, padding, dilation, output_padding = (
        _spread(values, spatial) for values in (stride, padding, dilation, output_padding)
    )
    shape = b.result_shape() if batched else (1, *b.result_shape())
    if transposed and all(
        isinstance(n, int) for n in (*weight.shape[2:], *padding, *output_padding)
    ):
        result = convolve_transposed(
            b, x, weight, bias, shape, stride, padding, dilation, output_padding, groups, _convolve
        )
        return result if batched else shapes.squeeze(b, result, [0])
    if transposed:
        x, weight, padding = _as_plain_convolution(
            b, x, weight, stride, padding, dilation, output_padding, groups
        )
        stride = [1] * spatial
    else:
        padding = [(as_dim(p), as_dim(p)) for p in padding]
    low = [0, 0, *[p for p, _ in padding]]
    high = [0, 0, *[p for _, p in padding]]
    x = pad_tensor(b, b.plain(x), low, high, scalars.constant(0, x.dtype))
    product = _convolve(b, x, weight, shape, stride, dilation, groups)
    if bias is not None:
        for _ in range(spatial):
            bias = bias.unsqueeze(bias.rank)
        result = add_bias(b, product, bias, x.dtype, 1, 1)
    else:
        result = b.cast(product, x.dtype)
    return result if batched else shapes.squeeze(b, result, [0])


def _as_plain_convolution(
    b: Builder,
    x: Tensor,
    weight: Tensor,
    stride: Sequence[int],
    padding: Sequence[Any],
    dilation: Sequence[int],
    output_padding: Sequence[int],
    groups: int,
) -> tuple[Tensor, Tensor, list[tuple[Dim, Dim]]]:
    """Return input, weight and padding of the convolution that equals a transposed one.

    For kernels and paddings that are known at the call only, of which no phases can be made. The
    input gets stride - 1 zeros between its elements; the weight [C, F/g, k...] is flipped and
    becomes [F, C/g, k...].
    """
    spatial = x.rank - 2
    kernel = weight.shape[2:]
    if any(s != 1 for s in stride):
        sizes = [as_dim((size - 1) * s + 1) for size, s in zip(x.shape[2:], stride, strict=True)]
        shape = (*x.shape[:2], *sizes)
        zero = b.full(shape, scalars.constant(0, x.dtype), x.dtype)
        value = b.insert_slice(b.value(x), zero, [0] * x.rank, x.shape, [1, 1, *stride])
        x = Tensor.plain(value, x.dtype, shape)

    def flipped(dim: int, at: ir.Value) -> ir.Value:
        if dim < 2:
            return at
        return arith.subi(b.index(as_dim(weight.shape[dim] - 1)), at)

    weight = gather_elements(b, weight, weight.shape, flipped)
    inner, outer = as_dim(weight.shape[0] // groups), weight.shape[1]
    grouped = shapes.reshape(b, weight, (groups, inner, outer, *kernel))
    grouped = grouped.permute([0, 2, 1, *range(3, 3 + spatial)])
    weight = shapes.reshape(b, grouped, (as_dim(groups * outer), inner, *kernel))
    pads = []
    for k, p, d, extra in zip(kernel, padding, dilation, output_padding, strict=True):
        low = as_dim(d * (k - 1) - as_dim(p))
        pads.append((low, as_dim(low + extra)))
    return x, weight, pads


def _convolve(
    b: Builder,
    x: Tensor,
    weight: Tensor,
    shape: Sequence[Dim],
    stride: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    """Return the convolution of a padded input in the accumulator's dtype.

    x: [N, C, ...], weight: [F, C/groups, k...], shape: [N, F, ...].
    """
    spatial = x.rank - 2
    dtype = types.accumulator(x.dtype)
    dims = [ir.AffineDimExpr.get(i) for i in range(5 + 2 * spatial)]
    if groups == 1:
        # Loops: n, f, out..., c, window...
        n, f, out, c = 0, 1, 2, 2 + spatial
        window = c + 1
        lead_x, lead_w, lead_o = [dims[n]], [dims[f]], [dims[n], dims[f]]
        result_shape = tuple(shape)
    else:
        # Loops: n, group, f, out..., c, window...
        n, g, f, out, c = 0, 1, 2, 3, 3 + spatial
        window = c + 1
        lead_x, lead_w, lead_o = [dims[n], dims[g]], [dims[g], dims[f]], [dims[n], dims[g], dims[f]]
        features = as_dim(weight.shape[0] // groups)
        x = shapes.reshape(b, x, (x.shape[0], groups, weight.shape[1], *x.shape[2:]))
        weight = shapes.reshape(b, weight, (groups, features, *weight.shape[1:]))
        result_shape = (shape[0], groups, features, *shape[2:])
    rank = window + spatial
    places = [_window(out + i, stride[i], window + i, dilation[i]) for i in range(spatial)]
    maps = [
        ir.AffineMap.get(rank, 0, [*lead_x, dims[c], *places]),
        ir.AffineMap.get(rank, 0, [*lead_w, dims[c], *dims[window : window + spatial]]),
        ir.AffineMap.get(rank, 0, [*lead_o, *dims[out : out + spatial]]),
    ]
    kinds = [PARALLEL] * c + [REDUCTION] * (rank - c)
    init = b.full(result_shape, scalars.constant(0, dtype), dtype)

    def body(value: ir.Value, factor: ir.Value, total: ir.Value) -> ir.Value:
        value = scalars.cast(value, x.dtype, dtype)
        factor = scalars.cast(factor, weight.dtype, dtype)
        return scalars.add(dtype, total, scalars.mul(dtype, value, factor))

    (result,) = b.generic(
        [(b.value(x), maps[0]), (b.value(weight), maps[1])], [(init, maps[2])], kinds, body
    )
    return shapes.reshape(b, Tensor.plain(result, dtype, result_shape), shape)


# ---- pooling ---------------------------------------------------------------------------------


def _pool_operands(
    b: Builder,
    x: Tensor,
    shape: Sequence[Dim],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    fill: Any,
) -> tuple[Tensor, list[tuple[ir.Value, ir.AffineMap]], list[str], ir.AffineMap]:
    """Pad the input for all windows; return it, inputs, iterators and result map.

    Elements that no window reaches stay where they are: nothing reads them. A window goes past the
    padding with ceil_mode only.
    """
    spatial = len(kernel)
    lead = x.rank - spatial
    high: list[Dim] = [0] * lead + list(padding)
    for i in range(spatial if ceil_mode else 0):
        covered = (shape[lead + i] - 1) * stride[i] + dilation[i] * (kernel[i] - 1) + 1
        high[lead + i] = at_least_zero(as_dim(covered - padding[i] - x.shape[lead + i]))
    low = [0] * lead + list(padding)
    padded = pad_tensor(b, b.plain(x), low, high, scalars.constant(fill, x.dtype))
    dims = [ir.AffineDimExpr.get(i) for i in range(x.rank + spatial)]
    places = [_window(lead + i, stride[i], x.rank + i, dilation[i]) for i in range(spatial)]
    rank = x.rank + spatial
    inputs = [
        (padded.base, ir.AffineMap.get(rank, 0, [*dims[:lead], *places])),
        # Only its shape counts: the window's.
        (b.empty(kernel, x.dtype), ir.AffineMap.get(rank, 0, dims[x.rank :])),
    ]
    kinds = [PARALLEL] * x.rank + [REDUCTION] * spatial
    return padded, inputs, kinds, ir.AffineMap.get(rank, 0, dims[: x.rank])


@lowers(
    aten.max_pool2d_with_indices.default,
    aten.max_pool3d_with_indices.default,
)
def _max_pool(
    b: Builder,
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> tuple[Tensor, Tensor | None]:
    spatial = 2 if "2d" in overload(b.node).__name__ else 3
    kernel = _spread(kernel, spatial)
    stride = _spread(stride, spatial) if stride else kernel
    padding, dilation = _spread(padding, spatial), _spread(dilation, spatial)
    shape = b.result_shape(0)
    _, inputs, kinds, result_map = _pool_operands(
        b, x, shape, kernel, stride, padding, dilation, ceil_mode, scalars.lowest(x.dtype)
    )
    lowest = scalars.constant(scalars.lowest(x.dtype), x.dtype)
    best = (b.full(shape, lowest, x.dtype), result_map)
    if not b.is_used(1):
        (result,) = b.generic(
            inputs, [best], kinds, lambda value, _, top: scalars.maximum(x.dtype, top, value)
        )
        return Tensor.plain(result, x.dtype, shape), None
    lead = x.rank - spatial
    i64 = ir.IntegerType.get_signless(64)
    where = (b.full(shape, scalars.constant(-1, torch.int64), torch.int64), result_map)

    def body(value: ir.Value, _: ir.Value, top: ir.Value, place: ir.Value) -> list[ir.Value]:
        flat = b.index_constant(0)
        inside = scalars.constant(True, torch.bool)
        for i in range(spatial):
            at = arith.addi(
                arith.muli(loop_index(lead + i), b.index(stride[i])),
                arith.muli(loop_index(x.rank + i), b.index(dilation[i])),
            )
            at = arith.subi(at, b.index(padding[i]))
            size = b.index(x.shape[lead + i])
            inside = arith.andi(inside, arith.cmpi(arith.CmpIPredicate.ult, at, size))
            flat = arith.addi(arith.muli(flat, size), at)
        none_yet = scalars.compare("lt", place, scalars.constant(0, torch.int64), torch.int64)
        take = arith.ori(scalars.compare("gt", value, top, x.dtype), none_yet)
        if types.is_float(x.dtype):
            take = arith.ori(take, scalars.is_nan(value))
        take = arith.andi(take, inside)
        return [
            arith.select(take, value, top),
            arith.select(take, arith.index_cast(i64, flat), place),
        ]

    values, places = b.generic(inputs, [best, where], kinds, body)
    return (
        Tensor.plain(values, x.dtype, shape),
        Tensor.plain(places, torch.int64, shape),
    )


@lowers(aten.avg_pool2d.default, aten.avg_pool3d.default)
def _avg_pool(
    b: Builder,
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    spatial = 2 if "2d" in overload(b.node).__name__ else 3
    kernel = _spread(kernel, spatial)
    stride = _spread(stride, spatial) if stride else kernel
    padding = _spread(padding, spatial)
    shape, compute = b.result_shape(), types.opmath(x.dtype)
    _, inputs, kinds, result_map = _pool_operands(
        b, x, shape, kernel, stride, padding, [1] * spatial, ceil_mode, 0
    )
    zero = scalars.constant(0, compute)
    (total,) = b.generic(
        inputs,
        [(b.full(shape, zero, compute), result_map)],
        kinds,
        lambda value, _, acc: scalars.add(compute, acc, scalars.cast(value, x.dtype, compute)),
    )
    lead = x.rank - spatial

    def divide(value: ir.Value) -> ir.Value:
        if divisor_override is not None:
            divisor = scalars.constant(divisor_override, compute)
        else:
            covered = b.index_constant(1)
            for i in range(spatial):
                covered = arith.muli(covered, window_size(i))
            integer = arith.index_cast(ir.IntegerType.get_signless(64), covered)
            divisor = scalars.cast(integer, torch.int64, compute)
        if types.is_integer(compute):
            mean = scalars.divide(compute, value, divisor, "trunc")
        else:
            mean = scalars.true_divide(compute, value, divisor)
        return scalars.cast(mean, compute, x.dtype)

    def window_size(i: int) -> ir.Value:
        start = arith.subi(
            arith.muli(loop_index(lead + i), b.index(stride[i])), b.index(padding[i])
        )
        size = b.index(x.shape[lead + i])
        end = arith.addi(start, b.index(kernel[i]))
        if count_include_pad:
            end = arith.minsi(end, arith.addi(size, b.index(padding[i])))
        else:
            start = arith.maxsi(start, b.index_constant(0))
            end = arith.minsi(end, size)
        return arith.subi(end, start)

    return b.pointwise([Tensor.plain(total, compute, shape)], shape, x.dtype, divide)
