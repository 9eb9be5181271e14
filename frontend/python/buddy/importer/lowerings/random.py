"""Random numbers: a function of a seed, the operator's number in its graph and an element's place.

The seed comes with each call (see `buddy.backend.randomness`); each element is then computed by
itself, in any order and any number of times, by the counter-based generator Philox4x32-10 (Salmon,
Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011).
"""

from __future__ import annotations

import math as python_math
from typing import Any

import torch
from mlir import ir
from mlir.dialects import arith, math, tensor

from .. import scalars, types
from ..builder import PARALLEL, Builder, loop_index
from ..errors import Unsupported
from ..registry import lowers
from ..values import Tensor

_library = torch.library.Library("buddy", "FRAGMENT")
_library.define(
    "random(Tensor seed, int number, str distribution, ScalarType dtype, SymInt low, SymInt high)"
    " -> Tensor"
)

_ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_INCREMENTS = (0x9E3779B9, 0xBB67AE85)
# Bits of a uniform number, as in PyTorch: as many as the significand has.
_DIGITS = {torch.float64: 53, torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}


def _i32(value: int) -> ir.Value:
    type_ = ir.IntegerType.get_signless(32)
    return arith.constant(type_, value - (1 << 32) if value >= 1 << 31 else value)


def _i64(value: int) -> ir.Value:
    return arith.constant(ir.IntegerType.get_signless(64), value)


def _halves(value: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Return the low and the high 32 bits of an i64."""
    type_ = ir.IntegerType.get_signless(32)
    return arith.trunci(type_, value), arith.trunci(type_, arith.shrui(value, _i64(32)))


def _philox(seed: ir.Value, stream: int, place: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Return two i64 of random bits for an i64 place, by an i64 seed and a 32-bit stream."""
    low, high = _halves(place)
    counter = [low, high, _i32(stream), _i32(0)]
    key = list(_halves(seed))
    for round_ in range(_ROUNDS):
        if round_:
            key = [arith.addi(k, _i32(step)) for k, step in zip(key, _INCREMENTS, strict=True)]
        low0, high0 = arith.mului_extended(counter[0], _i32(_MULTIPLIERS[0]))
        low1, high1 = arith.mului_extended(counter[2], _i32(_MULTIPLIERS[1]))
        counter = [
            arith.xori(arith.xori(high1, counter[1]), key[0]),
            low1,
            arith.xori(arith.xori(high0, counter[3]), key[1]),
            low0,
        ]
    wide = [arith.extui(ir.IntegerType.get_signless(64), word) for word in counter]
    pair = [arith.ori(wide[i], arith.shli(wide[i + 1], _i64(32))) for i in range(0, len(wide), 2)]
    return pair[0], pair[1]


def _uniform(bits: ir.Value, dtype: torch.dtype, digits: int) -> ir.Value:
    """Return a number in [0, 1) that is a multiple of 2^-digits."""
    top = arith.shrui(bits, _i64(64 - digits))
    number = arith.uitofp(types.element_type(dtype), top)
    return arith.mulf(number, scalars.constant(2.0**-digits, dtype))


def _normal(first: ir.Value, second: ir.Value, dtype: torch.dtype) -> ir.Value:
    """Return a normally distributed number (Box and Muller, 1958)."""
    digits = _DIGITS[dtype]
    # Of (0, 1], as the logarithm of 0 is infinite.
    radius = arith.subf(scalars.constant(1.0, dtype), _uniform(first, dtype, digits))
    turn = _uniform(second, dtype, digits)
    angle = arith.mulf(turn, scalars.constant(2 * python_math.pi, dtype))
    square = arith.mulf(math.log(radius), scalars.constant(-2.0, dtype))
    return arith.mulf(math.sqrt(square), math.cos(angle))


@lowers(torch.ops.buddy.random.default)
def _random(
    b: Builder,
    seed: Tensor,
    number: int,
    distribution: str,
    dtype: torch.dtype,
    low: Any,
    high: Any,
) -> Tensor:
    """The random operator that is the graph's `number`-th.

    seed: i64 [1]. distribution: "uniform" of [0, 1), "normal", "integers" of [low, high).
    """
    shape, rank = b.result_shape(), len(b.result_shape())
    if dtype not in _DIGITS and distribution != "integers":
        raise Unsupported(f"random numbers of dtype {types.dtype_name(dtype)}")
    compute = torch.float32 if dtype in types.REDUCED_FLOATS else dtype
    key = tensor.extract(b.value(seed), [b.index_constant(0)])
    sizes = [b.index(dim) for dim in shape]
    if distribution == "integers":
        first = b.scalar(low, torch.int64)
        count = arith.subi(b.scalar(high, torch.int64), first)

    def body(_: ir.Value) -> ir.Value:
        place = b.index_constant(0)
        for dim in range(rank):
            place = arith.addi(arith.muli(place, sizes[dim]), loop_index(dim))
        bits = _philox(key, number, arith.index_cast(ir.IntegerType.get_signless(64), place))
        if distribution == "integers":
            value = arith.addi(first, arith.remui(bits[0], count))
            return scalars.cast(value, torch.int64, dtype)
        if distribution == "normal":
            return scalars.cast(_normal(*bits, compute), compute, dtype)
        return scalars.cast(_uniform(bits[0], compute, _DIGITS[dtype]), compute, dtype)

    (result,) = b.generic(
        [],
        [(b.empty(shape, dtype), ir.AffineMap.get_identity(rank))],
        [PARALLEL] * rank,
        body,
    )
    return Tensor.plain(result, dtype, shape)
