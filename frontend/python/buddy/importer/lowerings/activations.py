"""Activations. Those with a rule here reach the midend as one operation each."""

from __future__ import annotations

from typing import Any

import torch
from mlir import ir
from mlir.dialects import arith, math

from .. import scalars
from ..builder import Builder
from ..registry import lowers
from ..values import Tensor
from . import functions
from .elementwise import elementwise

aten = torch.ops.aten


@lowers(aten.gelu.default)
def _gelu_rule(b: Builder, x: Tensor, approximate: str) -> Tensor:
    return elementwise(b, [x], functions.gelu(approximate))


@lowers(aten.leaky_relu.default)
def _leaky_relu(b: Builder, x: Tensor, slope: Any) -> Tensor:
    def emit(dtype: torch.dtype, value: ir.Value) -> ir.Value:
        positive = scalars.compare("gt", value, scalars.constant(0, dtype), dtype)
        return arith.select(positive, value, arith.mulf(value, b.scalar(slope, dtype)))

    return elementwise(b, [x], emit)


@lowers(aten.elu.default)
def _elu(b: Builder, x: Tensor, alpha: Any, scale: Any, input_scale: Any) -> Tensor:
    def emit(dtype: torch.dtype, value: ir.Value) -> ir.Value:
        zero = scalars.constant(0, dtype)
        negative = math.expm1(arith.mulf(value, b.scalar(input_scale, dtype)))
        negative = arith.mulf(negative, b.scalar(alpha * scale, dtype))
        positive = arith.mulf(value, b.scalar(scale, dtype))
        return arith.select(scalars.compare("gt", value, zero, dtype), positive, negative)

    return elementwise(b, [x], emit)


@lowers(aten.softplus.default)
def _softplus(b: Builder, x: Tensor, beta: Any, threshold: Any) -> Tensor:
    def emit(dtype: torch.dtype, value: ir.Value) -> ir.Value:
        scale = b.scalar(beta, dtype)
        scaled = arith.mulf(value, scale)
        linear = scalars.compare("gt", scaled, b.scalar(threshold, dtype), dtype)
        return arith.select(linear, value, arith.divf(math.log1p(math.exp(scaled)), scale))

    return elementwise(b, [x], emit)


@lowers(aten.hardsigmoid.default)
def _hardsigmoid(b: Builder, x: Tensor) -> Tensor:
    return elementwise(b, [x], _hardsigmoid_scalar)


def _hardsigmoid_scalar(dtype: torch.dtype, value: ir.Value) -> ir.Value:
    zero, three, six = (scalars.constant(c, dtype) for c in (0.0, 3.0, 6.0))
    inner = scalars.minimum(dtype, scalars.maximum(dtype, arith.addf(value, three), zero), six)
    return arith.divf(inner, six)


@lowers(aten.hardswish.default)
def _hardswish(b: Builder, x: Tensor) -> Tensor:
    def emit(dtype: torch.dtype, value: ir.Value) -> ir.Value:
        zero, three, six = (scalars.constant(c, dtype) for c in (0.0, 3.0, 6.0))
        inner = scalars.minimum(dtype, scalars.maximum(dtype, arith.addf(value, three), zero), six)
        return arith.divf(arith.mulf(value, inner), six)

    return elementwise(b, [x], emit)
