"""Softmax, norms and attention, which reach the midend whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from mlir import ir
from mlir.dialects import arith, math
from torch.utils._sympy.functions import FloorDiv

import buddy.ops  # noqa: F401  (defines torch.ops.buddy)

from .. import scalars, types
from ..builder import Builder
from ..errors import Unsupported
from ..registry import lowers, overload
from ..shapes import reshape, squeeze
from ..symbols import as_dim, same
from ..values import Tensor
from .common import normalize
from .reduction import normalized_moments
from .view import expand

aten = torch.ops.aten


def _i64(value: int) -> ir.Attribute:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)


def _f64(value: float) -> ir.Attribute:
    return ir.FloatAttr.get(ir.F64Type.get(), value)


def _whole(
    b: Builder,
    name: str,
    operands: Sequence[Tensor],
    shape: Sequence[Any],
    attributes: dict[str, ir.Attribute],
) -> Tensor:
    dtype = operands[0].dtype
    op = b.buddy_op(name, [b.value(x) for x in operands], [b.tensor_type(shape, dtype)], attributes)
    return Tensor.plain(op.result, dtype, tuple(shape))


@lowers(aten._softmax.default)
def _softmax(b: Builder, x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    x = b.cast(x, b.result_dtype())
    if x.rank == 0:
        one = b.full((), scalars.constant(1, x.dtype), x.dtype)
        return Tensor.plain(one, x.dtype, ())
    return _whole(b, "softmax", [x], x.shape, {"dim": _i64(normalize(dim, x.rank))})


@lowers(aten.softmax.int)
def _softmax_int(b: Builder, x: Tensor, dim: int, _: Any = None) -> Tensor:
    return _softmax(b, x, dim, False)


# ---- norms -----------------------------------------------------------------------------------


@lowers(torch.ops.buddy.rms_norm.default, aten.rms_norm.default)
def _rms_norm(
    b: Builder, x: Tensor, shape: Sequence[int], weight: Tensor | None, eps: float | None
) -> Tensor:
    if eps is None:
        eps = torch.finfo(types.opmath(x.dtype)).eps
    operands = [x] if weight is None else [x, weight]
    attributes = {"eps": _f64(eps), "dims": _i64(len(shape))}
    return _whole(b, "rms_norm", operands, x.shape, attributes)


@lowers(aten.layer_norm.default)
def _layer_norm(
    b: Builder,
    x: Tensor,
    shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    _: Any = None,
) -> Tensor:
    operands = [operand for operand in (x, weight, bias) if operand is not None]
    attributes = {
        "eps": _f64(eps),
        "dims": _i64(len(shape)),
        "has_weight": ir.BoolAttr.get(weight is not None),
        "has_bias": ir.BoolAttr.get(bias is not None),
    }
    return _whole(b, "layer_norm", operands, x.shape, attributes)


@lowers(aten.native_layer_norm.default)
def _native_layer_norm(
    b: Builder,
    x: Tensor,
    shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> tuple[Tensor | None, ...]:
    result = _layer_norm(b, x, shape, weight, bias, eps)
    if not (b.is_used(1) or b.is_used(2)):
        return result, None, None
    dims = list(range(x.rank - len(shape), x.rank))
    mean, inverse = normalized_moments(b, x, dims, eps)
    return result, b.cast(mean, b.result_dtype(1)), b.cast(inverse, b.result_dtype(2))


@lowers(aten.native_group_norm.default)
def _native_group_norm(
    b: Builder,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    n: Any,
    c: Any,
    hw: Any,
    groups: int,
    eps: float,
) -> tuple[Tensor | None, ...]:
    channels = as_dim(c)
    grouped = reshape(b, x, (as_dim(n), groups, channels // groups, as_dim(hw)))
    mean, inverse = normalized_moments(b, grouped, [2, 3], eps)
    compute = mean.dtype

    def normalize_one(value: ir.Value, m: ir.Value, r: ir.Value) -> ir.Value:
        value = scalars.cast(value, x.dtype, compute)
        return scalars.mul(compute, scalars.sub(compute, value, m), r)

    normal = b.pointwise([grouped, mean, inverse], grouped.shape, compute, normalize_one)
    normal = reshape(b, normal, (as_dim(n), channels, as_dim(hw)))
    affine = [p.unsqueeze(p.rank) for p in (weight, bias) if p is not None]

    def scale_shift(value: ir.Value, *params: ir.Value) -> ir.Value:
        remaining = iter(zip(params, affine, strict=True))
        if weight is not None:
            param, source = next(remaining)
            value = scalars.mul(compute, value, scalars.cast(param, source.dtype, compute))
        if bias is not None:
            param, source = next(remaining)
            value = scalars.add(compute, value, scalars.cast(param, source.dtype, compute))
        return scalars.cast(value, compute, x.dtype)

    result = b.pointwise([normal, *affine], normal.shape, x.dtype, scale_shift)
    statistics = [
        b.cast(reshape(b, part, (as_dim(n), groups)), b.result_dtype(i)) if b.is_used(i) else None
        for i, part in ((1, mean), (2, inverse))
    ]
    return reshape(b, result, x.shape), *statistics


@lowers(
    aten._native_batch_norm_legit_no_training.default,
)
def _batch_norm(
    b: Builder,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    momentum: float,
    eps: float,
) -> tuple[Tensor | None, ...]:
    compute = types.opmath(x.dtype)
    scaled = [p for p in (variance, weight) if p is not None]

    def factor(value: ir.Value, *factors: ir.Value) -> ir.Value:
        value = scalars.cast(value, variance.dtype, compute)
        result = math.rsqrt(arith.addf(value, scalars.constant(eps, compute)))
        for other in factors:
            assert weight is not None
            result = arith.mulf(result, scalars.cast(other, weight.dtype, compute))
        return result

    # Once a channel, not once an element.
    scale = b.pointwise(scaled, mean.shape, compute, factor)
    views = []
    for parameter in [p for p in (mean, scale, bias) if p is not None]:
        for _ in range(x.rank - 2):
            parameter = parameter.unsqueeze(parameter.rank)
        views.append(parameter)

    def body(value: ir.Value, *params: ir.Value) -> ir.Value:
        value = scalars.cast(value, x.dtype, compute)
        values = [
            scalars.cast(p, source.dtype, compute) for p, source in zip(params, views, strict=True)
        ]
        value = arith.mulf(arith.subf(value, values[0]), values[1])
        if bias is not None:
            value = arith.addf(value, values[2])
        return scalars.cast(value, compute, x.dtype)

    result = b.pointwise([x, *views], x.shape, x.dtype, body)
    empty = Tensor.plain(b.empty((0,), b.result_dtype(1)), b.result_dtype(1), (0,))
    return result, empty, empty


# ---- attention -------------------------------------------------------------------------------


def attention(
    b: Builder,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    causal: str,
    scale: float | None,
) -> Tensor:
    """Build `buddy.attention`; scale None is 1/sqrt(head size)."""
    if scale is None and not isinstance(q.shape[-1], int):
        q, scale = _scaled_query(b, q), 1.0
    if scale is None:
        scale = q.shape[-1] ** -0.5 if q.shape[-1] else 1.0
    if not (isinstance(q.shape[-3], int) and isinstance(k.shape[-3], int)):
        parts = _heads_as_batch(b, q, k, v, mask)
        result = attention(b, *parts, causal, scale)
        lead = result.shape[: q.rank - parts[0].rank - 3]
        return reshape(b, result, (*lead, *q.shape[-3:-1], v.shape[-1]))
    batch = _batch_shape((q, k, v))
    q, k, v = (
        x if x.shape[:-3] == batch else expand(b, x, (*batch, *x.shape[-3:])) for x in (q, k, v)
    )
    operands = [q, k, v]
    if mask is not None:
        if mask.dtype is not torch.bool and mask.dtype != q.dtype:
            mask = b.cast(mask, q.dtype)
        operands.append(_mask(b, mask))
    shape = q.shape[:-1] + (v.shape[-1],)
    attributes = {"causal": ir.StringAttr.get(causal), "scale": _f64(scale)}
    return _whole(b, "attention", operands, shape, attributes)


def _scaled_query(b: Builder, q: Tensor) -> Tensor:
    """Return the query divided by the root of its head size, which the call knows."""
    compute = types.opmath(q.dtype)

    def scaled(value: ir.Value) -> ir.Value:
        root = math.sqrt(b.scalar(q.shape[-1], compute))
        return scalars.cast(
            arith.divf(scalars.cast(value, q.dtype, compute), root), compute, q.dtype
        )

    return b.pointwise([q], q.shape, q.dtype, scaled)


def _heads_as_batch(
    b: Builder, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Return the operands with heads, whose number the call knows, as batch dimensions.

    What is left is one head. Keys and values of several query heads are repeated.
    """
    heads, key_heads = q.shape[-3], k.shape[-3]
    if same(heads, key_heads):
        split: tuple[Any, ...] = (heads,)
    else:
        split = (key_heads, as_dim(FloorDiv(heads, key_heads)))

    def parted(x: Tensor) -> Tensor:
        if len(split) == 2 and x.shape[-3] == 1:
            x = x.unsqueeze(x.rank - 3)
        elif len(split) == 2:
            x = reshape(b, x, (*x.shape[:-3], *split, *x.shape[-2:]))
        return x.unsqueeze(x.rank - 2)

    def repeated(x: Tensor) -> Tensor:
        if len(split) == 2:
            x = x.unsqueeze(x.rank - 2, split[1])
        return x.unsqueeze(x.rank - 2)

    if mask is not None and mask.rank >= 3:
        mask = parted(mask)
    return parted(q), repeated(k), repeated(v), mask


def _batch_shape(tensors: Sequence[Tensor]) -> tuple[Any, ...]:
    rank = max(x.rank for x in tensors) - 3
    batch: list[Any] = [1] * rank
    for x in tensors:
        for i, size in enumerate(x.shape[:-3]):
            position = rank - (x.rank - 3) + i
            if size != 1 or same(batch[position], 1):
                batch[position] = size
    return tuple(batch)


def _mask(b: Builder, mask: Tensor) -> Tensor:
    """Return the mask with broadcast dimensions as size 1, so that nothing is copied."""
    shape = tuple(
        1 if dim is None else size for size, dim in zip(mask.shape, mask.dims, strict=True)
    )
    return Tensor(mask.base, mask.dtype, shape, mask.dims)


@lowers(torch.ops.buddy.attention.default)
def _buddy_attention(
    b: Builder,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    causal: str = "none",
    scale: float | None = None,
) -> Tensor:
    return attention(b, q, k, v, mask, causal, scale)


def _no_dropout(node: torch.fx.Node) -> str | None:
    values = dict(zip((a.name for a in overload(node)._schema.arguments), node.args, strict=False))
    values.update(node.kwargs)
    return "dropout is not supported" if values.get("dropout_p", 0.0) else None


@lowers(aten.scaled_dot_product_attention.default, condition=_no_dropout)
def _sdpa(
    b: Builder,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    dropout: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    headless = q.rank == 2
    if headless:
        q, k, v = (x.unsqueeze(0) for x in (q, k, v))
    result = attention(b, q, k, v, mask, "top_left" if is_causal else "none", scale)
    if not headless:
        return result
    return squeeze(b, result, [0])


@lowers(aten._scaled_dot_product_flash_attention_for_cpu.default, condition=_no_dropout)
def _flash_attention(
    b: Builder,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout: float = 0.0,
    is_causal: bool = False,
    mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor | None, ...]:
    if b.is_used(1):
        raise Unsupported("the logsumexp result of flash attention")
    return attention(b, q, k, v, mask, "top_left" if is_causal else "none", scale), None
