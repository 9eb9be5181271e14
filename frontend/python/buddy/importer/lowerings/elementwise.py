"""Element-wise operators: arithmetic, comparison, selection, activations and casts.

Type promotion is PyTorch's own (`elementwise_dtypes`); reduced floats are computed in f32 and
rounded once, as its CPU kernels do.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch._inductor.inductor_prims  # noqa: F401  (registers prims.fma, which decompositions use)
from mlir import ir
from mlir.dialects import arith, complex, math
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as Kind
from torch._prims_common import elementwise_dtypes
from torch.utils._python_dispatch import _disable_current_modes

from .. import scalars, types
from ..builder import PARALLEL, Builder, loop_index
from ..errors import Unsupported
from ..registry import lowers
from ..values import Tensor
from . import complex_functions, functions
from .common import check_all
from .functions import ScalarFunction

aten = torch.ops.aten


@functools.cache
def _sample(dtype: torch.dtype, rank: int) -> torch.Tensor:
    """Return a tensor that stands for all of this dtype with, or without, dimensions."""
    with _disable_current_modes():
        return torch.empty((1,) * rank, dtype=dtype, device="meta")


def promote(operands: Sequence[Any], kind: Kind) -> tuple[torch.dtype, torch.dtype]:
    """Return (compute dtype, result dtype) of an element-wise operator on these operands."""
    samples = [_sample(x.dtype, min(x.rank, 1)) if isinstance(x, Tensor) else x for x in operands]
    return elementwise_dtypes(*samples, type_promotion_kind=kind)


def elementwise(
    b: Builder,
    operands: Sequence[Any],
    function: ScalarFunction,
    kind: Kind = Kind.DEFAULT,
    *,
    round_numbers: bool = False,
) -> Tensor:
    """Lower an operator as `function(dtype, *elements)` over broadcast operands.

    operands: tensors and Python or symbolic numbers. `function` gets the compute dtype and the
    elements in it; it returns an element of the compute dtype, of its parts' if that is complex
    and the result is not, or i1 if the result is bool.
    round_numbers: round Python numbers to the tensors' narrow float dtype before computing, as
        eager does in some operators (comparisons always do).
    """
    compute, _ = promote(operands, kind)
    result = b.result_dtype()
    narrow = _narrow_dtype(operands) if round_numbers or kind is Kind.ALWAYS_BOOL else None
    tensors = [x for x in operands if isinstance(x, Tensor)]
    boolean = result is torch.bool

    def body(*elements: ir.Value) -> ir.Value:
        remaining = iter(elements)
        values = []
        for x in operands:
            if isinstance(x, Tensor):
                values.append(scalars.cast(next(remaining), x.dtype, compute))
            else:
                values.append(b.scalar(_rounded(x, narrow), compute))
        value = function(compute, *values)
        if boolean and value.type == ir.IntegerType.get_signless(1):
            return value
        if types.is_complex(compute) and not isinstance(value.type, ir.ComplexType):
            return scalars.cast(value, compute.to_real(), result)
        return scalars.cast(value, compute, result)

    return b.pointwise(tensors, b.result_shape(), result, body)


def _narrow_dtype(operands: Sequence[Any]) -> torch.dtype | None:
    """Return the reduced float dtype of the tensors, if all have that one."""
    dtypes = {x.dtype for x in operands if isinstance(x, Tensor)}
    return dtypes.pop() if len(dtypes) == 1 and dtypes <= set(types.REDUCED_FLOATS) else None


def _rounded(number: Any, dtype: torch.dtype | None) -> Any:
    """Return a Python float as the nearest one of a dtype; other numbers as they are."""
    if dtype is None or not isinstance(number, float):
        return number
    with _disable_current_modes():
        return torch.tensor(number, dtype=dtype).item()


def _unary(function: Callable[[ir.Value], ir.Value]) -> ScalarFunction:
    return lambda dtype, x: function(x)


def _constant_like(value: float) -> Callable[[torch.dtype], ir.Value]:
    return lambda dtype: scalars.constant(value, dtype)


# ---- tables: operator -> scalar function -----------------------------------------------------

_INT_TO_FLOAT = {
    aten.exp.default: math.exp,
    aten.exp2.default: math.exp2,
    aten.expm1.default: math.expm1,
    aten.log.default: math.log,
    aten.log2.default: math.log2,
    aten.log10.default: math.log10,
    aten.log1p.default: math.log1p,
    aten.sqrt.default: math.sqrt,
    aten.rsqrt.default: math.rsqrt,
    aten.sin.default: math.sin,
    aten.cos.default: math.cos,
    aten.tan.default: math.tan,
    aten.asin.default: math.asin,
    aten.acos.default: math.acos,
    aten.atan.default: math.atan,
    aten.sinh.default: math.sinh,
    aten.cosh.default: math.cosh,
    aten.tanh.default: math.tanh,
    aten.asinh.default: math.asinh,
    aten.acosh.default: math.acosh,
    aten.atanh.default: math.atanh,
    aten.erf.default: math.erf,
    aten.erfc.default: math.erfc,
}
_UNARY: dict[Any, tuple[ScalarFunction, Kind]] = {
    **{op: (_unary(function), Kind.INT_TO_FLOAT) for op, function in _INT_TO_FLOAT.items()},
    aten.sigmoid.default: (functions.sigmoid, Kind.INT_TO_FLOAT),
    aten.reciprocal.default: (functions.reciprocal, Kind.INT_TO_FLOAT),
    aten.silu.default: (functions.silu, Kind.DEFAULT),
    aten.relu.default: (functions.relu, Kind.DEFAULT),
    aten.neg.default: (scalars.neg, Kind.DEFAULT),
    aten.abs.default: (functions.abs, Kind.DEFAULT),
    aten.sign.default: (functions.sign, Kind.DEFAULT),
    aten.sgn.default: (functions.sign, Kind.DEFAULT),
    aten.ceil.default: (functions.rounding(math.ceil), Kind.DEFAULT),
    aten.floor.default: (functions.rounding(math.floor), Kind.DEFAULT),
    aten.trunc.default: (functions.rounding(math.trunc), Kind.DEFAULT),
    aten.round.default: (functions.rounding(math.roundeven), Kind.DEFAULT),
    aten.bitwise_not.default: (functions.bitwise_not, Kind.DEFAULT),
    aten.signbit.default: (functions.signbit, Kind.ALWAYS_BOOL),
    aten.logical_not.default: (functions.logical(scalars.logical_not), Kind.ALWAYS_BOOL),
    aten.isinf.default: (functions.is_inf, Kind.ALWAYS_BOOL),
    aten.isnan.default: (functions.is_nan, Kind.ALWAYS_BOOL),
}
_COMPARISONS = {
    kind: [getattr(getattr(aten, kind), overload) for overload in ("Tensor", "Scalar")]
    for kind in ("eq", "ne", "lt", "le", "gt", "ge")
}
_BINARY: dict[Any, tuple[ScalarFunction, Kind]] = {
    **{
        op: (functions.comparison(kind), Kind.ALWAYS_BOOL)
        for kind, ops in _COMPARISONS.items()
        for op in ops
    },
    aten.mul.Tensor: (scalars.mul, Kind.DEFAULT),
    aten.mul.Scalar: (scalars.mul, Kind.DEFAULT),
    aten.div.Tensor: (scalars.true_divide, Kind.INT_TO_FLOAT),
    aten.div.Scalar: (scalars.true_divide, Kind.INT_TO_FLOAT),
    aten.true_divide.Tensor: (scalars.true_divide, Kind.INT_TO_FLOAT),
    aten.maximum.default: (scalars.maximum, Kind.DEFAULT),
    aten.minimum.default: (scalars.minimum, Kind.DEFAULT),
    aten.fmax.default: (functions.float_maximum, Kind.DEFAULT),
    aten.fmin.default: (functions.float_minimum, Kind.DEFAULT),
    aten.atan2.default: (lambda dtype, y, x: math.atan2(y, x), Kind.INT_TO_FLOAT),
    aten.copysign.Tensor: (lambda dtype, x, y: math.copysign(x, y), Kind.INT_TO_FLOAT),
    aten.copysign.Scalar: (lambda dtype, x, y: math.copysign(x, y), Kind.INT_TO_FLOAT),
    aten.hypot.default: (functions.hypot, Kind.DEFAULT),
    aten.gcd.default: (functions.gcd, Kind.DEFAULT),
    aten.lcm.default: (functions.lcm, Kind.DEFAULT),
    aten.logical_and.default: (functions.logical(arith.andi), Kind.ALWAYS_BOOL),
    aten.logical_or.default: (functions.logical(arith.ori), Kind.ALWAYS_BOOL),
    aten.logical_xor.default: (functions.logical(arith.xori), Kind.ALWAYS_BOOL),
}
for _name, _function in (("and", arith.andi), ("or", arith.ori), ("xor", arith.xori)):
    for _overload in ("Tensor", "Scalar"):
        _BINARY[getattr(getattr(aten, f"bitwise_{_name}"), _overload)] = (
            lambda dtype, x, y, function=_function: function(x, y),
            Kind.DEFAULT,
        )
for _side, _symbol in (("left", "l"), ("right", "r")):
    _shifts = getattr(aten, f"bitwise_{_side}_shift")
    _operators = getattr(aten, f"__{_symbol}shift__")
    for _op in (_shifts.Tensor, _shifts.Tensor_Scalar, _operators.Tensor, _operators.Scalar):
        _BINARY[_op] = (functions.shift(_side), Kind.DEFAULT)


# Operators of torch._prims, which PyTorch's reference decompositions end in.
prims = torch.ops.prims
_PRIMS_UNARY = (
    *("abs acos acosh asin asinh atan atanh ceil cos cosh erf erfc exp exp2 expm1 floor").split(),
    *("log log10 log1p log2 neg reciprocal round rsqrt sign signbit sin sinh sqrt tan").split(),
    *("tanh trunc bitwise_not").split(),
)
for _name in _PRIMS_UNARY:
    _UNARY[getattr(prims, _name).default] = _UNARY[getattr(aten, _name).default]
_UNARY[prims.isfinite.default] = (functions.is_finite, Kind.ALWAYS_BOOL)
for _name in ("atan2", "fmax", "fmin", "hypot", "maximum", "minimum"):
    _BINARY[getattr(prims, _name).default] = _BINARY[getattr(aten, _name).default]
for _name in ("eq", "ne", "lt", "le", "gt", "ge", "mul"):
    _BINARY[getattr(prims, _name).default] = _BINARY[getattr(aten, _name).Tensor]
for _name in ("and", "or", "xor"):
    _BINARY[getattr(prims, f"bitwise_{_name}").default] = _BINARY[
        getattr(aten, f"bitwise_{_name}").Tensor
    ]
_BINARY[prims.add.default] = (scalars.add, Kind.DEFAULT)
_BINARY[prims.sub.default] = (scalars.sub, Kind.DEFAULT)


def _no_complex(node: torch.fx.Node) -> str | None:
    """Most functions have no complex rule yet."""
    from ..registry import tensor_metas

    if any(meta.is_complex() for meta in tensor_metas([list(node.args)])):
        return "complex arguments are not supported"
    return None


# Functions whose formulas of f32 err by more than eager's: of integers, which are no work that
# matters, they are computed in f64.
_EXACT_OF_INTEGERS = ("erf", "erfc")


def _register(op: Any, function: ScalarFunction, kind: Kind, arity: int) -> None:
    name = op._schema.name.split("::")[1]
    on_complex = complex_functions.find(name, function)

    def emit(dtype: torch.dtype, *elements: ir.Value) -> ir.Value:
        if types.is_complex(dtype) and on_complex is not None:
            return on_complex(dtype, *elements)
        return function(dtype, *elements)

    def exact(dtype: torch.dtype, *elements: ir.Value) -> ir.Value:
        wide = [scalars.cast(x, dtype, torch.float64) for x in elements]
        return scalars.cast(emit(torch.float64, *wide), torch.float64, dtype)

    @lowers(op, condition=_no_complex if on_complex is None else None)
    def rule(b: Builder, *args: Any) -> Tensor:
        whole = name in _EXACT_OF_INTEGERS and types.is_integer(args[0].dtype)
        return elementwise(b, args[:arity], exact if whole else emit, kind)


for _op, (_function, _kind) in _UNARY.items():
    _register(_op, _function, _kind, 1)
for _op, (_function, _kind) in _BINARY.items():
    _register(_op, _function, _kind, 2)


_register(prims.fma.default, lambda dtype, x, y, z: math.fma(x, y, z), Kind.DEFAULT, 3)


# ---- operators with more arguments -----------------------------------------------------------


@lowers(aten.add.Tensor, aten.add.Scalar)
def _add(b: Builder, x: Any, y: Any, alpha: Any = 1) -> Tensor:
    return _add_scaled(b, x, y, scalars.add, alpha)


@lowers(aten.sub.Tensor, aten.sub.Scalar)
def _sub(b: Builder, x: Any, y: Any, alpha: Any = 1) -> Tensor:
    return _add_scaled(b, x, y, scalars.sub, alpha)


@lowers(aten.rsub.Tensor, aten.rsub.Scalar)
def _rsub(b: Builder, x: Any, y: Any, alpha: Any = 1) -> Tensor:
    return _add_scaled(b, y, x, scalars.sub, alpha)


def _add_scaled(b: Builder, x: Any, y: Any, function: ScalarFunction, alpha: Any) -> Tensor:
    """Return function(x, y * alpha)."""
    factor = _rounded(alpha, _narrow_dtype([x, y]))

    def emit(dtype: torch.dtype, left: ir.Value, right: ir.Value) -> ir.Value:
        if not (isinstance(factor, (int, float)) and factor == 1):
            right = scalars.mul(dtype, right, b.scalar(factor, dtype))
        return function(dtype, left, right)

    return elementwise(b, [x, y], emit, round_numbers=True)


def _check_divisor(b: Builder, operands: Sequence[Any], name: str) -> None:
    """Make integer division by zero an error, as in eager."""
    compute, _ = promote(operands, Kind.DEFAULT)
    divisor = operands[1]
    if not types.is_integer(compute):
        return
    if isinstance(divisor, Tensor):
        check_all(
            b,
            [divisor],
            lambda x: scalars.compare("ne", x, scalars.constant(0, divisor.dtype), divisor.dtype),
            f"{name}: integer division by zero",
        )
    elif divisor == 0 and 0 not in b.result_shape():
        raise Unsupported("integer division by zero")


@lowers(aten.div.Tensor_mode, aten.div.Scalar_mode, condition=_no_complex)
def _div_mode(b: Builder, x: Any, y: Any, rounding_mode: str | None) -> Tensor:
    if rounding_mode is None:
        return elementwise(b, [x, y], scalars.true_divide, Kind.INT_TO_FLOAT)
    _check_divisor(b, [x, y], "div")
    narrow = _narrow_dtype([x, y])

    def divide(dtype: torch.dtype, p: ir.Value, q: ir.Value) -> ir.Value:
        if narrow is None or rounding_mode != "trunc":
            return scalars.divide(dtype, p, q, rounding_mode)
        # Eager truncates the quotient after it was rounded to the narrow dtype.
        quotient = scalars.cast(arith.divf(p, q), dtype, narrow)
        return math.trunc(scalars.cast(quotient, narrow, dtype))

    return elementwise(b, [x, y], divide)


@lowers(prims.div.default, condition=_no_complex)
def _prims_div(b: Builder, x: Any, y: Any) -> Tensor:
    """True division of floats, truncating division of integers."""
    if types.is_integer(b.result_dtype()):
        return _div_mode(b, x, y, "trunc")
    return elementwise(b, [x, y], scalars.true_divide, Kind.INT_TO_FLOAT)


@lowers(aten.floor_divide.default, aten.floor_divide.Scalar)
def _floor_divide(b: Builder, x: Any, y: Any) -> Tensor:
    return _div_mode(b, x, y, "floor")


@lowers(
    prims.remainder.default,
    aten.remainder.Tensor,
    aten.remainder.Scalar,
    aten.remainder.Scalar_Tensor,
)
def _remainder(b: Builder, x: Any, y: Any) -> Tensor:
    _check_divisor(b, [x, y], "remainder")
    return elementwise(
        b,
        [x, y],
        lambda dtype, p, q: scalars.remainder(dtype, p, q, "floor"),
        round_numbers=True,
    )


@lowers(prims.fmod.default, aten.fmod.Tensor, aten.fmod.Scalar)
def _fmod(b: Builder, x: Any, y: Any) -> Tensor:
    _check_divisor(b, [x, y], "fmod")
    return elementwise(
        b,
        [x, y],
        lambda dtype, p, q: scalars.remainder(dtype, p, q, "trunc"),
        round_numbers=True,
    )


@lowers(aten.pow.Tensor_Scalar)
def _pow_scalar(b: Builder, x: Tensor, exponent: Any) -> Tensor:
    def emit(dtype: torch.dtype, base: ir.Value, power: ir.Value) -> ir.Value:
        if types.is_complex(dtype):
            return complex_functions.FUNCTIONS["pow"](dtype, base, power)
        if isinstance(exponent, (int, float)) and float(exponent).is_integer():
            if 0 <= exponent <= 8:
                return scalars.power_by(dtype, base, int(exponent))
            if exponent in (-1, -2) and types.is_float(dtype):
                return functions.reciprocal(dtype, scalars.power_by(dtype, base, -int(exponent)))
        if exponent == 0.5:
            return math.sqrt(base)
        if exponent == -0.5:
            return math.rsqrt(base)
        return functions.power(dtype, base, power)

    return elementwise(b, [x, exponent], emit, round_numbers=True)


@lowers(aten.pow.Tensor_Tensor, aten.pow.Scalar, prims.pow.default)
def _pow(b: Builder, x: Any, y: Any) -> Tensor:
    def emit(dtype: torch.dtype, base: ir.Value, exponent: ir.Value) -> ir.Value:
        if types.is_complex(dtype):
            return complex_functions.FUNCTIONS["pow"](dtype, base, exponent)
        return functions.power(dtype, base, exponent)

    return elementwise(b, [x, y], emit)


@lowers(aten.nextafter.default, prims.nextafter.default)
def _nextafter(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    dtype = b.result_dtype()
    return b.pointwise(
        [x, y],
        b.result_shape(),
        dtype,
        lambda p, q: functions.next_after(
            dtype, scalars.cast(p, x.dtype, dtype), scalars.cast(q, y.dtype, dtype)
        ),
    )


@lowers(aten.where.self, prims.where.default)
def _where(b: Builder, condition: Tensor, x: Any, y: Any) -> Tensor:
    dtype = b.result_dtype()

    def body(flag: ir.Value, p: ir.Value, q: ir.Value) -> ir.Value:
        flag = scalars.cast(flag, condition.dtype, torch.bool)
        return arith.select(flag, scalars.cast(p, x.dtype, dtype), scalars.cast(q, y.dtype, dtype))

    return b.pointwise([condition, x, y], b.result_shape(), dtype, body)


@lowers(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def _masked_fill(b: Builder, x: Tensor, mask: Tensor, value: Any) -> Tensor:
    if isinstance(value, Tensor):
        operands = [x, mask, value]
    else:
        operands = [x, mask]

    def body(p: ir.Value, flag: ir.Value, *fill: ir.Value) -> ir.Value:
        other = scalars.cast(fill[0], value.dtype, x.dtype) if fill else b.scalar(value, x.dtype)
        return arith.select(flag, other, p)

    return b.pointwise(operands, b.result_shape(), x.dtype, body)


@lowers(aten.clamp.default, aten.clamp.Tensor)
def _clamp(b: Builder, x: Tensor, low: Any = None, high: Any = None) -> Tensor:
    bounds = [bound for bound in (low, high) if bound is not None]
    # Of a bound that is NaN the result is NaN.
    known = all(isinstance(bound, (int, float)) and bound == bound for bound in bounds)

    def emit(dtype: torch.dtype, value: ir.Value, *limits: ir.Value) -> ir.Value:
        remaining = iter(limits)
        if low is not None:
            value = (scalars.at_least if known else scalars.maximum)(dtype, value, next(remaining))
        if high is not None:
            value = (scalars.at_most if known else scalars.minimum)(dtype, value, next(remaining))
        return value

    return elementwise(b, [x, *bounds], emit)


@lowers(aten.clamp_min.default, aten.clamp_min.Tensor)
def _clamp_min(b: Builder, x: Tensor, low: Any) -> Tensor:
    return _clamp(b, x, low, None)


@lowers(aten.clamp_max.default, aten.clamp_max.Tensor)
def _clamp_max(b: Builder, x: Tensor, high: Any) -> Tensor:
    return _clamp(b, x, None, high)


@lowers(aten.hardtanh.default)
def _hardtanh(b: Builder, x: Tensor, low: Any, high: Any) -> Tensor:
    return _clamp(b, x, low, high)


@lowers(aten._to_copy.default)
def _to_copy(b: Builder, x: Tensor, *_: Any) -> Tensor:
    return b.cast(x, b.result_dtype())


@lowers(torch.ops.prims.convert_element_type.default)
def _convert_element_type(b: Builder, x: Tensor, dtype: torch.dtype) -> Tensor:
    return b.cast(x, dtype)


@lowers(aten.view_as_real.default)
def _view_as_real(b: Builder, x: Tensor) -> Tensor:
    part = x.dtype.to_real()
    shape = b.result_shape()
    source, map_ = b.operand(x, shape[:-1], rank=len(shape))

    def body(value: ir.Value, _: ir.Value) -> ir.Value:
        last = loop_index(len(shape) - 1)
        first = arith.cmpi(arith.CmpIPredicate.eq, last, arith.constant(last.type, 0))
        return arith.select(first, complex.re(value), complex.im(value))

    identity = ir.AffineMap.get_identity(len(shape))
    (result,) = b.generic(
        [(source, map_)], [(b.empty(shape, part), identity)], [PARALLEL] * len(shape), body
    )
    return Tensor.plain(result, part, shape)


@lowers(aten.view_as_complex.default)
def _view_as_complex(b: Builder, x: Tensor) -> Tensor:
    from .view import select

    dtype = b.result_dtype()
    parts = [select(b, x, x.rank - 1, i) for i in (0, 1)]
    type_ = types.element_type(dtype)
    return b.pointwise(
        parts, b.result_shape(), dtype, lambda re, im: complex.create_(type_, re, im)
    )
