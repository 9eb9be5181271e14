"""Operators that make tensors from numbers."""

from __future__ import annotations

from typing import Any

import torch
from mlir import ir
from mlir.dialects import arith

from .. import scalars, types
from ..builder import PARALLEL, Builder, loop_index
from ..registry import lowers
from ..values import Tensor

aten = torch.ops.aten


def filled(b: Builder, value: Any) -> Tensor:
    """Return a tensor of the node's shape and dtype filled with a number.

    It is a scalar with every dimension broadcast, so that its readers need no memory.
    """
    dtype, shape = b.result_dtype(), b.result_shape()
    scalar = b.full((), b.scalar(value, dtype), dtype)
    return Tensor(scalar, dtype, shape, (None,) * len(shape))


@lowers(
    aten.full.default,
    aten.full_like.default,
    aten.new_full.default,
)
def _full(b: Builder, _: Any, value: Any, *__: Any) -> Tensor:
    return filled(b, value)


@lowers(aten.scalar_tensor.default)
def _scalar_tensor(b: Builder, value: Any, *_: Any) -> Tensor:
    return filled(b, value)


@lowers(
    aten.zeros.default,
    aten.zeros_like.default,
    aten.new_zeros.default,
    aten.empty.memory_format,
    aten.empty_like.default,
    aten.empty_permuted.default,
    aten.empty_strided.default,
    aten.new_empty.default,
    aten.new_empty_strided.default,
)
def _zeros(b: Builder, *_: Any) -> Tensor:
    # Uninitialised tensors are zeros here: results stay the same from call to call.
    return filled(b, 0)


@lowers(aten.ones.default, aten.ones_like.default, aten.new_ones.default)
def _ones(b: Builder, *_: Any) -> Tensor:
    return filled(b, 1)


@lowers(aten.arange.default)
def _arange(b: Builder, end: Any, *_: Any) -> Tensor:
    return arange(b, 0, 1)


@lowers(aten.arange.start)
def _arange_start(b: Builder, start: Any, end: Any, *_: Any) -> Tensor:
    return arange(b, start, 1)


@lowers(aten.arange.start_step)
def _arange_step(b: Builder, start: Any, end: Any, step: Any = 1, *_: Any) -> Tensor:
    return arange(b, start, step)


@lowers(torch.ops.prims.iota.default)
def _iota(b: Builder, _: Any, start: Any, step: Any, *__: Any) -> Tensor:
    return arange(b, start, step)


def arange(b: Builder, start: Any, step: Any) -> Tensor:
    """Return start + i * step; the number of elements is the node's."""
    dtype, shape = b.result_dtype(), b.result_shape()
    compute = types.opmath(dtype)
    if types.is_integer(dtype):
        compute = torch.int64
    first, stride = b.scalar(start, compute), b.scalar(step, compute)

    def body(_: ir.Value) -> ir.Value:
        i = arith.index_cast(ir.IntegerType.get_signless(64), loop_index(0))
        i = scalars.cast(i, torch.int64, compute)
        value = scalars.add(compute, first, scalars.mul(compute, i, stride))
        return scalars.cast(value, compute, dtype)

    identity = ir.AffineMap.get_identity(1)
    (result,) = b.generic([], [(b.empty(shape, dtype), identity)], [PARALLEL], body)
    return Tensor.plain(result, dtype, shape)


@lowers(aten.eye.default, aten.eye.m)
def _eye(b: Builder, *_: Any) -> Tensor:
    dtype, shape = b.result_dtype(), b.result_shape()

    def body(_: ir.Value) -> ir.Value:
        diagonal = arith.cmpi(arith.CmpIPredicate.eq, loop_index(0), loop_index(1))
        return scalars.cast(diagonal, torch.bool, dtype)

    identity = ir.AffineMap.get_identity(2)
    (result,) = b.generic([], [(b.empty(shape, dtype), identity)], [PARALLEL] * 2, body)
    return Tensor.plain(result, dtype, shape)


@lowers(aten.fill.Scalar, aten.fill.Tensor)
def _fill(b: Builder, x: Tensor, value: Any) -> Tensor:
    if isinstance(value, Tensor):
        value = b.cast(value, x.dtype)
        return Tensor(value.base, x.dtype, x.shape, (None,) * x.rank)
    return filled(b, value)
