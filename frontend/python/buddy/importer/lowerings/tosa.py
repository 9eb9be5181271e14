"""Rules that make TOSA operations, used with `primary_dialect="tosa"`.

TOSA wants static, non-zero sizes here (MLIR's lowering of it rejects empty tensors and guesses at
equal dynamic ones), f32 or i32 elements and operands of equal rank. Where that does not hold, a
rule's condition says so, or the rule returns NotImplemented, and the linalg rule is used. A
transposed matrix operand is also left to linalg, where the transpose costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from mlir import ir
from mlir.dialects import tosa

from .. import types
from ..builder import Builder
from ..registry import lowers, tensor_metas
from ..values import Tensor
from .common import normalize, normalize_all

aten = torch.ops.aten


def _tosa_fits(*dtypes: torch.dtype) -> Callable[[torch.fx.Node], str | None]:
    """Return a condition: all tensors have these dtypes and static, non-zero sizes."""

    def condition(node: torch.fx.Node) -> str | None:
        for meta in tensor_metas([list(node.args), node]):
            if meta.dtype not in dtypes:
                return f"no TOSA rule for {types.dtype_name(meta.dtype)}"
            if not all(isinstance(size, int) and size > 0 for size in meta.shape):
                return "TOSA needs static, non-zero sizes"
        return None

    return condition


_FLOAT = _tosa_fits(torch.float32)
_NUMBER = _tosa_fits(torch.float32, torch.int32)
_COMPARED = _tosa_fits(torch.float32, torch.int32, torch.bool)
_BOOL = _tosa_fits(torch.bool)


def _type(b: Builder, shape: Sequence[Any], dtype: torch.dtype) -> ir.RankedTensorType:
    return b.tensor_type(shape, dtype)


def _shape_constant(shape: Sequence[int]) -> ir.Value:
    index = ir.IndexType.get()
    type_ = ir.Type.parse(f"!tosa.shape<{len(shape)}>")
    if not shape:
        return tosa.ConstShapeOp(type_, ir.Attribute.parse("dense<> : tensor<0xindex>")).output
    elements = ir.DenseElementsAttr.get(
        [ir.IntegerAttr.get(index, size) for size in shape],
        ir.RankedTensorType.get([len(shape)], index),
    )
    return tosa.ConstShapeOp(type_, elements).output


def _constant(value: Any, dtype: torch.dtype, rank: int) -> ir.Value:
    """Return a constant of one element with `rank` dimensions."""
    element = types.element_type(dtype)
    if types.is_float(dtype):
        attribute = ir.FloatAttr.get(element, float(value))
    else:
        attribute = ir.IntegerAttr.get(element, int(value))
    type_ = ir.RankedTensorType.get([1] * rank, element)
    return tosa.ConstOp(ir.DenseElementsAttr.get_splat(type_, attribute)).output


def _reshape(value: ir.Value, shape: Sequence[int]) -> ir.Value:
    if list(value.type.shape) == list(shape):
        return value
    type_ = ir.RankedTensorType.get(list(shape), value.type.element_type)
    return tosa.ReshapeOp(value, _shape_constant(shape), results=[type_]).output


def _ranked(b: Builder, x: Any, rank: int, dtype: torch.dtype) -> ir.Value | None:
    """Return an operand with `rank` dimensions, or None if its dtype is another one."""
    if not isinstance(x, Tensor):
        return _constant(x, dtype, rank) if isinstance(x, (int, float)) else None
    if x.dtype != dtype:
        return None
    # Broadcast dimensions stay of size 1.
    shape = [1 if d is None else s for s, d in zip(x.shape, x.dims, strict=True)]
    view = Tensor(x.base, x.dtype, tuple(shape), x.dims)
    return _reshape(b.value(view), [1] * (rank - x.rank) + shape)


def _result(b: Builder, value: ir.Value) -> Tensor:
    return Tensor.plain(value, b.result_dtype(), b.result_shape())


def _binary(op: Any, make: Callable[..., ir.Value], condition: Any) -> None:
    @lowers(op, dialect="tosa", condition=condition)
    def rule(b: Builder, x: Any, y: Any, *rest: Any) -> Any:
        if any(isinstance(r, (int, float)) and r != 1 for r in rest):
            return NotImplemented  # alpha
        dtypes = {t.dtype for t in (x, y) if isinstance(t, Tensor)}
        dtype, rank = dtypes.pop(), len(b.result_shape())
        ranked = [_ranked(b, operand, rank, dtype) for operand in (x, y)]
        operands = [operand for operand in ranked if operand is not None]
        if dtypes or len(operands) != len(ranked):
            return NotImplemented
        if not types.is_float(dtype) and any(isinstance(v, float) for v in (x, y)):
            return NotImplemented
        shapes = [list(operand.type.shape) for operand in operands]
        if [max(a, c) for a, c in zip(*shapes, strict=True)] != list(b.result_shape()):
            return NotImplemented  # broadcast by `expand` only
        type_ = _type(b, b.result_shape(), b.result_dtype())
        return _result(b, make(type_, *operands))


def _multiply(type_: ir.Type, x: ir.Value, y: ir.Value) -> ir.Value:
    shift = _constant(0, torch.int8, 1)
    return tosa.MulOp(type_, x, y, shift).output


for _op, _make, _condition in (
    (aten.add.Tensor, lambda t, x, y: tosa.AddOp(t, x, y).output, _NUMBER),
    (aten.sub.Tensor, lambda t, x, y: tosa.SubOp(t, x, y).output, _NUMBER),
    (aten.mul.Tensor, _multiply, _NUMBER),
    (aten.maximum.default, lambda t, x, y: tosa.MaximumOp(t, x, y).output, _NUMBER),
    (aten.minimum.default, lambda t, x, y: tosa.MinimumOp(t, x, y).output, _NUMBER),
    (aten.pow.Tensor_Tensor, lambda t, x, y: tosa.PowOp(t, x, y).output, _FLOAT),
    (aten.eq.Tensor, lambda t, x, y: tosa.EqualOp(x, y, results=[t]).output, _COMPARED),
    (aten.gt.Tensor, lambda t, x, y: tosa.GreaterOp(t, x, y).output, _COMPARED),
    (aten.gt.Scalar, lambda t, x, y: tosa.GreaterOp(t, x, y).output, _COMPARED),
    (aten.ge.Tensor, lambda t, x, y: tosa.GreaterEqualOp(t, x, y).output, _COMPARED),
    (aten.ge.Scalar, lambda t, x, y: tosa.GreaterEqualOp(t, x, y).output, _COMPARED),
    (aten.lt.Tensor, lambda t, x, y: tosa.GreaterOp(t, y, x).output, _COMPARED),
    (aten.le.Tensor, lambda t, x, y: tosa.GreaterEqualOp(t, y, x).output, _COMPARED),
    (aten.logical_and.default, lambda t, x, y: tosa.LogicalAndOp(t, x, y).output, _BOOL),
    (aten.logical_or.default, lambda t, x, y: tosa.LogicalOrOp(t, x, y).output, _BOOL),
    (aten.logical_xor.default, lambda t, x, y: tosa.LogicalXorOp(t, x, y).output, _BOOL),
):
    _binary(_op, _make, _condition)


def _unary(op: Any, make: Callable[..., ir.Value], condition: Any) -> None:
    @lowers(op, dialect="tosa", condition=condition)
    def rule(b: Builder, x: Tensor) -> Any:
        value = b.value(x)
        return _result(b, make(_type(b, x.shape, b.result_dtype()), value))


for _op, _tosa_op, _condition in (
    (aten.exp.default, tosa.ExpOp, _FLOAT),
    (aten.log.default, tosa.LogOp, _FLOAT),
    (aten.sin.default, tosa.SinOp, _FLOAT),
    (aten.cos.default, tosa.CosOp, _FLOAT),
    (aten.tanh.default, tosa.TanhOp, _FLOAT),
    (aten.sigmoid.default, tosa.SigmoidOp, _FLOAT),
    (aten.erf.default, tosa.ErfOp, _FLOAT),
    (aten.ceil.default, tosa.CeilOp, _FLOAT),
    (aten.floor.default, tosa.FloorOp, _FLOAT),
    (aten.rsqrt.default, tosa.RsqrtOp, _FLOAT),
    (aten.reciprocal.default, tosa.ReciprocalOp, _FLOAT),
    (aten.abs.default, tosa.AbsOp, _FLOAT),
    (aten.logical_not.default, tosa.LogicalNotOp, _BOOL),
):
    _unary(_op, lambda type_, value, make=_tosa_op: make(type_, value).output, _condition)


@lowers(aten.neg.default, dialect="tosa", condition=_FLOAT)
def _neg(b: Builder, x: Tensor) -> Tensor:
    zero = _constant(0, x.dtype, 1)
    type_ = _type(b, x.shape, x.dtype)
    return _result(b, tosa.NegateOp(type_, b.value(x), zero, zero).output)


@lowers(aten.relu.default, dialect="tosa", condition=_FLOAT)
def _relu(b: Builder, x: Tensor) -> Tensor:
    f32 = ir.F32Type.get()
    low, high = ir.FloatAttr.get(f32, 0.0), ir.FloatAttr.get(f32, math.inf)
    return _result(b, tosa.ClampOp(_type(b, x.shape, x.dtype), b.value(x), low, high).output)


@lowers(aten.where.self, dialect="tosa", condition=_COMPARED)
def _where(b: Builder, condition: Tensor, x: Tensor, y: Tensor) -> Any:
    shape, dtype = b.result_shape(), b.result_dtype()
    ranked = [
        _ranked(b, condition, len(shape), torch.bool),
        _ranked(b, x, len(shape), dtype),
        _ranked(b, y, len(shape), dtype),
    ]
    operands = [operand for operand in ranked if operand is not None]
    if len(operands) != len(ranked):
        return NotImplemented
    sizes = zip(*[list(operand.type.shape) for operand in operands], strict=True)
    if [max(triple) for triple in sizes] != list(shape):
        return NotImplemented
    return _result(b, tosa.SelectOp(_type(b, shape, dtype), *operands).output)


# ---- products --------------------------------------------------------------------------------


def _matmul(b: Builder, left: Tensor, right: Tensor) -> ir.Value | None:
    """Return [B, M, K] x [B, K, N], or None if an operand is a view that would be copied."""
    if not (left.is_plain and right.is_plain):
        return None
    operands = [left.base, right.base]
    if left.rank == 2:
        operands = [_reshape(x.base, [1, *x.shape]) for x in (left, right)]
    batch = list(operands[0].type.shape)[0]
    shape = [batch, left.shape[-2], right.shape[-1]]
    zero = _constant(0, left.dtype, 1)
    return tosa.MatMulOp(_type(b, shape, left.dtype), *operands, zero, zero).output


@lowers(aten.mm.default, aten.bmm.default, dialect="tosa", condition=_FLOAT)
def _mm(b: Builder, left: Tensor, right: Tensor) -> Any:
    product = _matmul(b, left, right)
    if product is None:
        return NotImplemented
    return _result(b, _reshape(product, b.result_shape()))


@lowers(aten.addmm.default, dialect="tosa", condition=_FLOAT)
def _addmm(
    b: Builder, bias: Tensor, left: Tensor, right: Tensor, beta: Any = 1, alpha: Any = 1
) -> Any:
    if (beta, alpha) != (1, 1) or not bias.is_plain:
        return NotImplemented
    product = _matmul(b, left, right)
    if product is None:
        return NotImplemented
    shape = b.result_shape()
    product = _reshape(product, shape)
    bias_value = _ranked(b, bias, 2, bias.dtype)
    return _result(b, tosa.AddOp(_type(b, shape, left.dtype), product, bias_value).output)


# ---- shapes ----------------------------------------------------------------------------------


@lowers(
    aten.view.default,
    aten._unsafe_view.default,
    aten.reshape.default,
    dialect="tosa",
    condition=_COMPARED,
)
def _view(b: Builder, x: Tensor, _: Any) -> Any:
    if not x.is_plain:
        return NotImplemented
    return _result(b, _reshape(x.base, b.result_shape()))


@lowers(aten.cat.default, dialect="tosa", condition=_COMPARED)
def _cat(b: Builder, tensors: Sequence[Tensor], dim: int = 0) -> Any:
    shape, dtype = b.result_shape(), b.result_dtype()
    if any(x.dtype != dtype or x.rank != len(shape) for x in tensors):
        return NotImplemented
    values = [b.value(x) for x in tensors]
    axis = normalize(dim, len(shape))
    result = tosa.ConcatOp(values, axis, results=[_type(b, shape, dtype)]).output
    return _result(b, result)


# ---- reductions ------------------------------------------------------------------------------


def _reduce(b: Builder, x: Tensor, dims: Sequence[int], make: Callable[..., ir.Value]) -> ir.Value:
    """Reduce over one dimension after the other; each stays with size 1."""
    value, shape = b.value(x), list(x.shape)
    for dim in dims:
        shape[dim] = 1
        type_ = _type(b, shape, x.dtype)
        value = make(value, ir.IntegerAttr.get(ir.IntegerType.get_signless(32), dim), type_)
    return value


def _reduction(ops: Sequence[Any], tosa_op: Any, condition: Any) -> None:
    @lowers(*ops, dialect="tosa", condition=condition)
    def rule(b: Builder, x: Tensor, dims: Any = None, keep: bool = False, *_: Any) -> Any:
        if x.dtype != b.result_dtype() or x.rank == 0:
            return NotImplemented
        value = _reduce(
            b,
            x,
            normalize_all(dims, x.rank),
            lambda v, axis, type_: tosa_op(v, axis, results=[type_]).output,
        )
        return _result(b, _reshape(value, b.result_shape()))


_reduction([aten.sum.dim_IntList, aten.sum.default], tosa.ReduceSumOp, _FLOAT)
_reduction([aten.amax.default], tosa.ReduceMaxOp, _NUMBER)
_reduction([aten.amin.default], tosa.ReduceMinOp, _NUMBER)
_reduction([aten.any.dim, aten.any.dims], tosa.ReduceAnyOp, _BOOL)
_reduction([aten.all.dim, aten.all.dims], tosa.ReduceAllOp, _BOOL)


@lowers(aten.mean.dim, dialect="tosa", condition=_FLOAT)
def _mean(b: Builder, x: Tensor, dims: Any, keep: bool = False, *_: Any) -> Any:
    if x.rank == 0:
        return NotImplemented
    dims = normalize_all(dims, x.rank)
    total = _reduce(
        b, x, dims, lambda v, axis, type_: tosa.ReduceSumOp(v, axis, results=[type_]).output
    )
    count = math.prod(x.shape[d] for d in dims)
    scale = _constant(1.0 / count, x.dtype, x.rank)
    mean = _multiply(total.type, total, scale)
    return _result(b, _reshape(mean, b.result_shape()))
