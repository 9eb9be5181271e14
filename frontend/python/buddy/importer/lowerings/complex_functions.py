"""Scalar functions of complex numbers, by the name of the ATen operator.

As in `functions`, each takes the dtype of its arguments first. Results are complex, real (`abs`)
or i1 (`isnan`). What is more than arithmetic is computed in f64 by the run-time library, part by
part: not fast, and exact.
"""

from __future__ import annotations

import torch
from mlir import ir
from mlir.dialects import arith, complex

from .. import scalars, types
from . import functions
from .functions import ScalarFunction

_LIBRARY = (
    *("exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh").split(),
    *("cosh tanh asinh acosh atanh sigmoid silu pow").split(),
)
# Operators whose function of real numbers is one of complex numbers, too.
_REAL_TOO = (
    *("add", "sub", "mul", "div", "true_divide", "neg", "reciprocal", "eq", "ne"),
    *("logical_not", "logical_and", "logical_or", "logical_xor"),
)


def find(name: str, function: ScalarFunction) -> ScalarFunction | None:
    """Return an operator's function of complex numbers; function: that of real ones."""
    return function if name in _REAL_TOO else FUNCTIONS.get(name)


def _called(name: str) -> ScalarFunction:
    def function(dtype: torch.dtype, *numbers: ir.Value) -> ir.Value:
        part, f64 = dtype.to_real(), torch.float64
        arguments = [
            scalars.cast(take(number), part, f64)
            for number in numbers
            for take in (complex.re, complex.im)
        ]
        results = [
            ir.Operation.create(
                "buddy.scalar_call",
                results=[ir.F64Type.get()],
                operands=[*arguments, scalars.constant(which, torch.int64)],
                attributes={"callee": ir.StringAttr.get(f"buddy_complex_{name}")},
            ).result
            for which in (0, 1)
        ]
        parts = [scalars.cast(result, f64, part) for result in results]
        return complex.create_(types.element_type(dtype), *parts)

    return function


def abs(dtype: torch.dtype, z: ir.Value) -> ir.Value:
    return functions.hypot(dtype.to_real(), complex.re(z), complex.im(z))


def sgn(dtype: torch.dtype, z: ir.Value) -> ir.Value:
    """z / |z|; 0 for 0."""
    part = dtype.to_real()
    size = abs(dtype, z)
    zero = scalars.constant(0, part)
    is_zero = scalars.compare("eq", size, zero, part)
    parts = [
        arith.select(is_zero, zero, arith.divf(take(z), size)) for take in (complex.re, complex.im)
    ]
    return complex.create_(types.element_type(dtype), *parts)


def _of_parts(function: ScalarFunction, combine: ScalarFunction) -> ScalarFunction:
    def of_number(dtype: torch.dtype, z: ir.Value) -> ir.Value:
        part = dtype.to_real()
        return combine(function(part, complex.re(z)), function(part, complex.im(z)))

    return of_number


FUNCTIONS: dict[str, ScalarFunction] = {
    **{name: _called(name) for name in _LIBRARY},
    "abs": abs,
    "sgn": sgn,
    "isnan": _of_parts(functions.is_nan, arith.ori),
    "isinf": _of_parts(functions.is_inf, arith.ori),
    "isfinite": _of_parts(functions.is_finite, arith.andi),
}
