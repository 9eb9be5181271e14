"""Scalar arithmetic by torch dtype, for the bodies of structured operations.

Values are elements (MLIR scalars); the torch dtype says how their bits are read. Reduced floats
never compute here: rules convert to `types.opmath` first and back at the end, as PyTorch's CPU
kernels do.
"""

from __future__ import annotations

import math as pymath
from typing import Any

import torch
from mlir import ir
from mlir.dialects import arith, complex, math

from . import types

_SIGNED = {
    "lt": arith.CmpIPredicate.slt,
    "le": arith.CmpIPredicate.sle,
    "gt": arith.CmpIPredicate.sgt,
    "ge": arith.CmpIPredicate.sge,
    "eq": arith.CmpIPredicate.eq,
    "ne": arith.CmpIPredicate.ne,
}
_UNSIGNED = {
    "lt": arith.CmpIPredicate.ult,
    "le": arith.CmpIPredicate.ule,
    "gt": arith.CmpIPredicate.ugt,
    "ge": arith.CmpIPredicate.uge,
    "eq": arith.CmpIPredicate.eq,
    "ne": arith.CmpIPredicate.ne,
}
_FLOAT = {
    "lt": arith.CmpFPredicate.OLT,
    "le": arith.CmpFPredicate.OLE,
    "gt": arith.CmpFPredicate.OGT,
    "ge": arith.CmpFPredicate.OGE,
    "eq": arith.CmpFPredicate.OEQ,
    "ne": arith.CmpFPredicate.UNE,
}


def constant(value: Any, dtype: torch.dtype) -> ir.Value:
    """Return a Python number as a constant of the dtype; integers wrap around."""
    type_ = types.element_type(dtype)
    if types.is_complex(dtype):
        part = types.element_type(dtype.to_real())
        number = complex_number(value)
        parts = [ir.FloatAttr.get(part, number.real), ir.FloatAttr.get(part, number.imag)]
        return complex.ConstantOp(type_, ir.ArrayAttr.get(parts)).result
    if types.is_float(dtype):
        return arith.constant(type_, ir.FloatAttr.get(type_, float(value)))
    if dtype is torch.bool:
        return arith.constant(type_, ir.IntegerAttr.get(type_, int(bool(value))))
    width = types.bit_width(dtype)
    if isinstance(value, float) and not pymath.isfinite(value):
        value = 0
    wrapped = (int(value) + (1 << (width - 1))) % (1 << width) - (1 << (width - 1))
    return arith.constant(type_, ir.IntegerAttr.get(type_, wrapped))


def complex_number(value: Any) -> Any:
    """Return a Python number as a complex one (the name `complex` is the dialect's here)."""
    return value if hasattr(value, "imag") else float(value) + 0j


def cast(value: ir.Value, source: torch.dtype, target: torch.dtype) -> ir.Value:
    """Convert an element as `Tensor.to` does."""
    if source == target:
        return value
    type_ = types.element_type(target)
    if types.is_complex(target):
        return _to_complex(value, source, target)
    if target is torch.bool:
        return compare("ne", value, constant(0, source), source)
    if types.is_complex(source):
        return cast(complex.re(value), source.to_real(), target)
    if types.is_float(source) and types.is_float(target):
        return _float_cast(value, source, target, type_)
    if types.is_float(source):
        # Through i64, as C++'s conversion in eager does for narrow and unsigned integers.
        wide = arith.fptosi(ir.IntegerType.get_signless(64), value)
        return wide if types.bit_width(target) == 64 else arith.trunci(type_, wide)
    if types.is_float(target):
        convert = arith.uitofp if types.is_unsigned(source) else arith.sitofp
        if target in types.REDUCED_FLOATS and types.bit_width(source) > 8:
            # Eager rounds twice: to f32, then to the narrow type.
            wide = convert(ir.F32Type.get(), value)
            return arith.truncf(type_, wide)
        return convert(type_, value)
    difference = types.bit_width(target) - types.bit_width(source)
    if difference == 0:
        return value
    if difference < 0:
        return arith.trunci(type_, value)
    extend = arith.extui if types.is_unsigned(source) else arith.extsi
    return extend(type_, value)


def _float_cast(
    value: ir.Value, source: torch.dtype, target: torch.dtype, type_: ir.Type
) -> ir.Value:
    difference = types.bit_width(target) - types.bit_width(source)
    if difference > 0:
        return arith.extf(type_, value)
    if difference == 0:  # f16 <-> bf16
        return arith.truncf(type_, arith.extf(ir.F32Type.get(), value))
    if source is torch.float64 and target in types.REDUCED_FLOATS:
        value = arith.truncf(ir.F32Type.get(), value)
    return arith.truncf(type_, value)


def _to_complex(value: ir.Value, source: torch.dtype, target: torch.dtype) -> ir.Value:
    part = target.to_real()
    type_ = types.element_type(target)
    if types.is_complex(source):
        old = source.to_real()
        real, imaginary = complex.re(value), complex.im(value)
        return complex.create_(type_, cast(real, old, part), cast(imaginary, old, part))
    return complex.create_(type_, cast(value, source, part), constant(0.0, part))


def compare(kind: str, left: ir.Value, right: ir.Value, dtype: torch.dtype) -> ir.Value:
    """Return the i1 of a comparison: lt, le, gt, ge, eq or ne."""
    if types.is_float(dtype):
        return arith.cmpf(_FLOAT[kind], left, right)
    if types.is_complex(dtype):
        part, combine = dtype.to_real(), arith.andi if kind == "eq" else arith.ori
        pairs = [(take(left), take(right)) for take in (complex.re, complex.im)]
        return combine(*[compare(kind, p, q, part) for p, q in pairs])
    table = _UNSIGNED if types.is_unsigned(dtype) else _SIGNED
    return arith.cmpi(table[kind], left, right)


def is_nan(value: ir.Value) -> ir.Value:
    """Return the i1 that a float is not a number."""
    return arith.cmpf(arith.CmpFPredicate.UNO, value, value)


def logical_not(value: ir.Value) -> ir.Value:
    """Return the negation of an i1."""
    return arith.xori(value, arith.constant(value.type, ir.IntegerAttr.get(value.type, 1)))


def add(dtype: torch.dtype, a: ir.Value, b: ir.Value) -> ir.Value:
    """a + b; for bool, or."""
    if types.is_float(dtype):
        return arith.addf(a, b)
    if types.is_complex(dtype):
        return complex.add(a, b)
    return arith.ori(a, b) if dtype is torch.bool else arith.addi(a, b)


def sub(dtype: torch.dtype, a: ir.Value, b: ir.Value) -> ir.Value:
    """a - b."""
    if types.is_float(dtype):
        return arith.subf(a, b)
    return complex.sub(a, b) if types.is_complex(dtype) else arith.subi(a, b)


def mul(dtype: torch.dtype, a: ir.Value, b: ir.Value) -> ir.Value:
    """a * b; for bool, and."""
    if types.is_float(dtype):
        return arith.mulf(a, b)
    if types.is_complex(dtype):
        return complex.mul(a, b)
    return arith.andi(a, b) if dtype is torch.bool else arith.muli(a, b)


def neg(dtype: torch.dtype, a: ir.Value) -> ir.Value:
    """-a."""
    if types.is_float(dtype):
        return arith.negf(a)
    if types.is_complex(dtype):
        return complex.create_(a.type, arith.negf(complex.re(a)), arith.negf(complex.im(a)))
    return arith.subi(constant(0, dtype), a)


def true_divide(dtype: torch.dtype, a: ir.Value, b: ir.Value) -> ir.Value:
    """a / b of floats or complex numbers."""
    return complex.div(a, b) if types.is_complex(dtype) else arith.divf(a, b)


def _safe_divisor(dtype: torch.dtype, b: ir.Value) -> tuple[ir.Value, ir.Value | None]:
    """Return a divisor that cannot trap, and the i1 that the real one is -1 (signed only)."""
    one = constant(1, dtype)
    zero = compare("eq", b, constant(0, dtype), dtype)
    if types.is_unsigned(dtype):
        return arith.select(zero, one, b), None
    minus = compare("eq", b, constant(-1, dtype), dtype)
    return arith.select(arith.ori(zero, minus), one, b), minus


def divide(dtype: torch.dtype, a: ir.Value, b: ir.Value, rounding: str) -> ir.Value:
    """a / b rounded by "trunc" or "floor"; never traps (b = 0 is checked by the rule)."""
    if types.is_float(dtype):
        if rounding == "trunc":
            return math.trunc(arith.divf(a, b))
        return _floor_divide_float(dtype, a, b)
    divisor, minus = _safe_divisor(dtype, b)
    if minus is None:
        return arith.divui(a, divisor)
    quotient = arith.divsi(a, divisor)
    if rounding == "floor":
        rest = arith.subi(a, arith.muli(quotient, divisor))
        inexact = compare("ne", rest, constant(0, dtype), dtype)
        opposite = compare("lt", arith.xori(rest, divisor), constant(0, dtype), dtype)
        lower = arith.subi(quotient, constant(1, dtype))
        quotient = arith.select(arith.andi(inexact, opposite), lower, quotient)
    return arith.select(minus, neg(dtype, a), quotient)


def _floor_divide_float(dtype: torch.dtype, a: ir.Value, b: ir.Value) -> ir.Value:
    """Floor division as Python and ATen define it: from the exact remainder."""
    zero, one, half = constant(0.0, dtype), constant(1.0, dtype), constant(0.5, dtype)
    rest = arith.remf(a, b)
    quotient = arith.divf(arith.subf(a, rest), b)
    wrong_sign = arith.andi(
        compare("ne", rest, zero, dtype),
        arith.xori(compare("lt", b, zero, dtype), compare("lt", rest, zero, dtype)),
    )
    quotient = arith.select(wrong_sign, arith.subf(quotient, one), quotient)
    floor = math.floor(quotient)
    up = compare("gt", arith.subf(quotient, floor), half, dtype)
    floor = arith.select(up, arith.addf(floor, one), floor)
    signed_zero = math.copysign(zero, arith.divf(a, b))
    result = arith.select(compare("ne", quotient, zero, dtype), floor, signed_zero)
    return arith.select(compare("eq", b, zero, dtype), arith.divf(a, b), result)


def remainder(dtype: torch.dtype, a: ir.Value, b: ir.Value, rounding: str) -> ir.Value:
    """Rest of a division rounded by "trunc" (fmod) or "floor" (remainder, sign of b)."""
    if types.is_float(dtype):
        rest = arith.remf(a, b)
        if rounding == "trunc":
            return rest
        zero = constant(0.0, dtype)
        wrong_sign = arith.andi(
            compare("ne", rest, zero, dtype),
            arith.xori(compare("lt", b, zero, dtype), compare("lt", rest, zero, dtype)),
        )
        return arith.select(wrong_sign, arith.addf(rest, b), rest)
    divisor, minus = _safe_divisor(dtype, b)
    if minus is None:
        return arith.remui(a, divisor)
    rest = arith.remsi(a, divisor)
    if rounding == "floor":
        nonzero = compare("ne", rest, constant(0, dtype), dtype)
        opposite = compare("lt", arith.xori(rest, divisor), constant(0, dtype), dtype)
        rest = arith.select(arith.andi(nonzero, opposite), arith.addi(rest, divisor), rest)
    return arith.select(minus, constant(0, dtype), rest)


def maximum(dtype: torch.dtype, a: ir.Value, b: ir.Value) -> ir.Value:
    """Larger of two; NaN if one is."""
    if types.is_float(dtype):
        return arith.maximumf(a, b)
    if dtype is torch.bool:
        return arith.ori(a, b)
    return arith.maxui(a, b) if types.is_unsigned(dtype) else arith.maxsi(a, b)


def minimum(dtype: torch.dtype, a: ir.Value, b: ir.Value) -> ir.Value:
    """Smaller of two; NaN if one is."""
    if types.is_float(dtype):
        return arith.minimumf(a, b)
    if dtype is torch.bool:
        return arith.andi(a, b)
    return arith.minui(a, b) if types.is_unsigned(dtype) else arith.minsi(a, b)


def at_least(dtype: torch.dtype, x: ir.Value, low: ir.Value) -> ir.Value:
    """x, or a bound that is no NaN where x is below it; -0 is not below 0, and NaN stays."""
    return arith.select(compare("lt", x, low, dtype), low, x)


def at_most(dtype: torch.dtype, x: ir.Value, high: ir.Value) -> ir.Value:
    """x, or a bound that is no NaN where x is above it."""
    return arith.select(compare("gt", x, high, dtype), high, x)


def lowest(dtype: torch.dtype) -> Any:
    """Return the identity of `maximum`."""
    if types.is_float(dtype):
        return -pymath.inf
    return False if dtype is torch.bool else torch.iinfo(dtype).min


def highest(dtype: torch.dtype) -> Any:
    """Return the identity of `minimum`."""
    if types.is_float(dtype):
        return pymath.inf
    return True if dtype is torch.bool else torch.iinfo(dtype).max


def power_by(dtype: torch.dtype, base: ir.Value, exponent: int) -> ir.Value:
    """base to a constant integer power >= 0, by squaring."""
    result = None
    while exponent:
        if exponent & 1:
            result = base if result is None else mul(dtype, result, base)
        exponent >>= 1
        if exponent:
            base = mul(dtype, base, base)
    return constant(1, dtype) if result is None else result
