"""Scalar functions of element-wise operators: from elements of a compute dtype to one.

Each takes the dtype first; integers and floats share a function where ATen's operator does.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from mlir import ir
from mlir.dialects import arith, math, scf

from .. import scalars, types

ScalarFunction = Callable[..., ir.Value]


def sigmoid(dtype: torch.dtype, x: ir.Value) -> ir.Value:
    one = scalars.constant(1.0, dtype)
    return arith.divf(one, arith.addf(one, math.exp(arith.negf(x))))


def silu(dtype: torch.dtype, x: ir.Value) -> ir.Value:
    one = scalars.constant(1.0, dtype)
    return arith.divf(x, arith.addf(one, math.exp(arith.negf(x))))


def relu(dtype: torch.dtype, x: ir.Value) -> ir.Value:
    return scalars.at_least(dtype, x, scalars.constant(0, dtype))


def sign(dtype: torch.dtype, x: ir.Value) -> ir.Value:
    zero = scalars.constant(0, dtype)
    positive = scalars.cast(scalars.compare("gt", x, zero, dtype), torch.bool, dtype)
    if dtype is torch.bool:
        return x
    negative = scalars.cast(scalars.compare("lt", x, zero, dtype), torch.bool, dtype)
    return scalars.sub(dtype, positive, negative)


def abs(dtype: torch.dtype, x: ir.Value) -> ir.Value:
    if types.is_float(dtype):
        return math.absf(x)
    if types.is_unsigned(dtype):
        return x
    negative = scalars.compare("lt", x, scalars.constant(0, dtype), dtype)
    return arith.select(negative, scalars.neg(dtype, x), x)


def rounding(function: Callable[[ir.Value], ir.Value]) -> ScalarFunction:
    return lambda dtype, x: function(x) if types.is_float(dtype) else x


def reciprocal(dtype: torch.dtype, x: ir.Value) -> ir.Value:
    return scalars.true_divide(dtype, scalars.constant(1.0, dtype), x)


def bitwise_not(dtype: torch.dtype, x: ir.Value) -> ir.Value:
    return arith.xori(x, scalars.constant(True if dtype is torch.bool else -1, dtype))


def gelu(approximate: str) -> ScalarFunction:
    def exact(dtype: torch.dtype, x: ir.Value) -> ir.Value:
        half, one = scalars.constant(0.5, dtype), scalars.constant(1.0, dtype)
        root = scalars.constant(0.7071067811865476, dtype)
        inner = arith.addf(one, math.erf(arith.mulf(x, root)))
        return arith.mulf(arith.mulf(x, half), inner)

    def tanh(dtype: torch.dtype, x: ir.Value) -> ir.Value:
        half, one = scalars.constant(0.5, dtype), scalars.constant(1.0, dtype)
        beta = scalars.constant(0.7978845608028654, dtype)
        kappa = scalars.constant(0.044715, dtype)
        cube = arith.mulf(arith.mulf(x, x), x)
        inner = arith.mulf(beta, arith.addf(x, arith.mulf(kappa, cube)))
        return arith.mulf(arith.mulf(half, x), arith.addf(one, math.tanh(inner)))

    return tanh if approximate == "tanh" else exact


def is_inf(dtype: torch.dtype, x: ir.Value) -> ir.Value:
    if not types.is_float(dtype):
        return scalars.constant(False, torch.bool)
    return scalars.compare(
        "eq", math.absf(x), scalars.constant(scalars.highest(dtype), dtype), dtype
    )


def is_nan(dtype: torch.dtype, x: ir.Value) -> ir.Value:
    return scalars.is_nan(x) if types.is_float(dtype) else scalars.constant(False, torch.bool)


def comparison(kind: str) -> ScalarFunction:
    return lambda dtype, x, y: scalars.compare(kind, x, y, dtype)


def truth(dtype: torch.dtype, x: ir.Value) -> ir.Value:
    return scalars.cast(x, dtype, torch.bool)


def logical(function: Callable[..., ir.Value]) -> ScalarFunction:
    return lambda dtype, *xs: function(*[truth(dtype, x) for x in xs])


def float_maximum(dtype: torch.dtype, a: ir.Value, b_: ir.Value) -> ir.Value:
    return arith.maxnumf(a, b_) if types.is_float(dtype) else scalars.maximum(dtype, a, b_)


def float_minimum(dtype: torch.dtype, a: ir.Value, b_: ir.Value) -> ir.Value:
    return arith.minnumf(a, b_) if types.is_float(dtype) else scalars.minimum(dtype, a, b_)


def shift(side: str) -> ScalarFunction:
    """Shift that is defined for any count: all bits, or all but the sign, go out."""

    def emit(dtype: torch.dtype, x: ir.Value, count: ir.Value) -> ir.Value:
        limit = scalars.constant(types.bit_width(dtype) - 1, dtype)
        inside = arith.cmpi(arith.CmpIPredicate.ule, count, limit)
        safe = arith.select(inside, count, limit)
        zero = scalars.constant(0, dtype)
        if side == "left":
            return arith.select(inside, arith.shli(x, safe), zero)
        if types.is_unsigned(dtype):
            return arith.select(inside, arith.shrui(x, safe), zero)
        return arith.shrsi(x, safe)

    return emit


def signbit(dtype: torch.dtype, x: ir.Value) -> ir.Value:
    if types.is_float(dtype):
        x = math.copysign(scalars.constant(1.0, dtype), x)
    return scalars.compare("lt", x, scalars.constant(0, dtype), dtype)


def hypot(dtype: torch.dtype, x: ir.Value, y: ir.Value) -> ir.Value:
    """sqrt(x² + y²), scaled by the larger one so that squares do not overflow."""
    x, y = math.absf(x), math.absf(y)
    infinity = scalars.constant(scalars.highest(dtype), dtype)
    zero = scalars.constant(0.0, dtype)
    large, small = arith.maximumf(x, y), arith.minimumf(x, y)
    ratio = arith.divf(small, large)
    one = scalars.constant(1.0, dtype)
    scaled = arith.mulf(large, math.sqrt(arith.addf(one, arith.mulf(ratio, ratio))))
    scaled = arith.select(scalars.compare("eq", large, zero, dtype), zero, scaled)
    infinite = arith.ori(
        scalars.compare("eq", x, infinity, dtype), scalars.compare("eq", y, infinity, dtype)
    )
    return arith.select(infinite, infinity, scaled)


def is_finite(dtype: torch.dtype, x: ir.Value) -> ir.Value:
    if not types.is_float(dtype):
        return scalars.constant(True, torch.bool)
    infinity = scalars.constant(scalars.highest(dtype), dtype)
    return scalars.compare("lt", math.absf(x), infinity, dtype)


def power(dtype: torch.dtype, base: ir.Value, exponent: ir.Value) -> ir.Value:
    if types.is_float(dtype):
        return math.powf(base, exponent)
    return integer_power(dtype, base, exponent)


def integer_power(dtype: torch.dtype, base: ir.Value, exponent: ir.Value) -> ir.Value:
    """Integer power by squaring; a negative exponent gives 0, or ±1 for base ±1, as in ATen."""
    one, zero = scalars.constant(1, dtype), scalars.constant(0, dtype)
    if dtype is torch.bool:
        return arith.ori(base, scalars.logical_not(exponent))
    # A loop, not a chain of 63 squarings: LLVM's loop vectorizer looks at every path through such
    # a chain where the base stays the same.
    kinds = [base.type] * 3
    loop = scf.WhileOp(kinds, [one, base, exponent])
    for region in (loop.before, loop.after):
        region.blocks.append(*kinds)
    with ir.InsertionPoint(loop.before.blocks[0]):
        result, factor, rest = loop.before.blocks[0].arguments
        scf.ConditionOp(scalars.compare("ne", rest, zero, dtype), [result, factor, rest])
    with ir.InsertionPoint(loop.after.blocks[0]):
        result, factor, rest = loop.after.blocks[0].arguments
        odd = scalars.compare("ne", arith.andi(rest, one), zero, dtype)
        result = arith.select(odd, arith.muli(result, factor), result)
        scf.YieldOp([result, arith.muli(factor, factor), arith.shrui(rest, one)])
    result = loop.results[0]
    if types.is_unsigned(dtype):
        return result
    minus = scalars.constant(-1, dtype)
    is_one = scalars.compare("eq", base, one, dtype)
    is_minus = scalars.compare("eq", base, minus, dtype)
    even = scalars.compare("eq", arith.andi(exponent, one), zero, dtype)
    inverse = arith.select(is_minus, arith.select(even, one, minus), zero)
    inverse = arith.select(is_one, one, inverse)
    negative = scalars.compare("lt", exponent, zero, dtype)
    return arith.select(negative, inverse, result)


def gcd(dtype: torch.dtype, x: ir.Value, y: ir.Value) -> ir.Value:
    """Greatest common divisor of the absolute values, by Euclid; of two zeros 0."""
    zero = scalars.constant(0, dtype)
    kinds = [x.type] * 2
    loop = scf.WhileOp(kinds, [abs(dtype, x), abs(dtype, y)])
    for region in (loop.before, loop.after):
        region.blocks.append(*kinds)
    with ir.InsertionPoint(loop.before.blocks[0]):
        rest, divisor = loop.before.blocks[0].arguments
        scf.ConditionOp(scalars.compare("ne", rest, zero, dtype), [rest, divisor])
    with ir.InsertionPoint(loop.after.blocks[0]):
        rest, divisor = loop.after.blocks[0].arguments
        remainder = arith.remui if types.is_unsigned(dtype) else arith.remsi
        scf.YieldOp([remainder(divisor, rest), rest])
    return loop.results[1]


def lcm(dtype: torch.dtype, x: ir.Value, y: ir.Value) -> ir.Value:
    """Least common multiple of the absolute values; 0 if one of them is.

    Of narrow integers C++ takes the absolute value of an `int`, and cuts it off after that.
    """
    one, zero = scalars.constant(1, dtype), scalars.constant(0, dtype)
    divisor = gcd(dtype, x, y)
    divisor = arith.select(scalars.compare("eq", divisor, zero, dtype), one, divisor)
    divide = arith.divui if types.is_unsigned(dtype) else arith.divsi
    wide = torch.int32 if types.bit_width(dtype) < 32 else dtype
    factors = [scalars.cast(factor, dtype, wide) for factor in (divide(x, divisor), y)]
    return scalars.cast(abs(wide, arith.muli(*factors)), wide, dtype)


def next_after(dtype: torch.dtype, x: ir.Value, y: ir.Value) -> ir.Value:
    """The neighbour of x on the way to y, in any float dtype.

    The bits of floats, less the sign, are in the order of their magnitudes.
    """
    bits = ir.IntegerType.get_signless(dtype.itemsize * 8)
    wide = types.opmath(dtype)
    p, q = scalars.cast(x, dtype, wide), scalars.cast(y, dtype, wide)
    zero, one = arith.constant(bits, 0), arith.constant(bits, 1)
    number = arith.bitcast(bits, x)
    grows = arith.cmpi(
        arith.CmpIPredicate.eq,
        scalars.compare("lt", p, q, wide),
        arith.cmpi(arith.CmpIPredicate.sge, number, zero),
    )
    step = arith.select(grows, one, arith.constant(bits, -1))
    result = arith.bitcast(x.type, arith.addi(number, step))
    # From zero: the smallest number of y's sign.
    sign = arith.andi(arith.bitcast(bits, y), arith.constant(bits, -(1 << (bits.width - 1))))
    least = arith.bitcast(x.type, arith.ori(sign, one))
    is_zero = scalars.compare("eq", p, scalars.constant(0, wide), wide)
    result = arith.select(is_zero, least, result)
    result = arith.select(scalars.compare("eq", p, q, wide), y, result)
    result = arith.select(scalars.is_nan(q), y, result)
    return arith.select(scalars.is_nan(p), x, result)
