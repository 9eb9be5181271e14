"""Symbolic sizes: SymPy expressions of a shape environment as `index` values.

A `Dim` is a Python int when the size is known and a SymPy expression otherwise. `SymbolTable`
turns expressions into index arithmetic, once for each expression and function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import sympy
import torch
from mlir import ir
from mlir.dialects import arith
from mlir.dialects import math as math_dialect
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils._sympy import functions as tsf
from torch.utils._sympy.numbers import int_oo

from .errors import ImportGraphError

Dim: TypeAlias = "int | sympy.Expr"
DYNAMIC = ir.ShapedType.get_dynamic_size()


def as_dim(value: Any) -> Dim:
    """Return a size (int, SymInt or SymPy expression) as a `Dim`."""
    if isinstance(value, torch.SymInt):
        # A size that the guards make 1 is broadcast, which must show.
        if value.node.hint == 1 and statically_known_true(value == 1):
            return 1
        value = value.node.expr
    if isinstance(value, sympy.Expr):
        return int(value) if value.is_Integer else _with_quotients(value)
    return int(value)


def _with_quotients(expr: Any) -> Any:
    """Return an expression with the floors that SymPy makes of `a // b` as PyTorch's quotients."""
    for rounded, quotient in ((sympy.floor, tsf.FloorDiv), (sympy.ceiling, tsf.CeilDiv)):
        if isinstance(expr, sympy.Basic) and expr.has(rounded) and not expr.has(sympy.Float):
            expr = expr.replace(
                rounded,
                lambda x, quotient=quotient: quotient(*sympy.fraction(sympy.together(x))),
            )
    return expr


def as_expr(value: Any) -> Any:
    """Return a Python or symbolic scalar as a SymPy object (bool, int and float stay as is)."""
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        value = value.node.expr
    if isinstance(value, sympy.Integer):
        return int(value)
    if isinstance(value, (sympy.Float, sympy.Rational)):
        return float(value)
    if value in (sympy.true, sympy.false):
        return bool(value)
    return _with_quotients(value)


def as_dims(values: Iterable[Any]) -> tuple[Dim, ...]:
    """Return sizes as `Dim`s."""
    return tuple(as_dim(value) for value in values)


def same(left: Dim, right: Dim) -> bool:
    """Tell whether two sizes are equal whatever the symbols are."""
    if isinstance(left, int) and isinstance(right, int):
        return left == right
    if left == right:
        return True
    return sympy.expand(left - right) == 0


def product(dims: Iterable[Dim]) -> Dim:
    """Return the product of sizes."""
    result: Any = 1
    for dim in dims:
        result = result * dim
    return as_dim(sympy.expand(result)) if isinstance(result, sympy.Expr) else result


def at_least_zero(dim: Dim) -> Dim:
    """Return the larger of a number, whose sign need not be known, and 0."""
    if isinstance(dim, int):
        return max(dim, 0)
    if dim.is_nonpositive:
        return 0
    return dim if dim.is_nonnegative else tsf.Max(0, dim)


def static(dim: Dim) -> int:
    """Return the size as a static dimension of an MLIR type."""
    return dim if isinstance(dim, int) else DYNAMIC


def contiguous_strides(shape: Iterable[Dim]) -> tuple[Dim, ...]:
    """Return the strides of a contiguous tensor, in elements."""
    strides: list[Dim] = []
    stride: Dim = 1
    for dim in reversed(list(shape)):
        strides.append(stride)
        stride = product((stride, dim))
    return tuple(reversed(strides))


def is_contiguous(shape: tuple[Dim, ...], strides: tuple[Dim, ...]) -> bool:
    """Tell whether the strides are those of a contiguous tensor, whatever the symbols are.

    Strides of dimensions of size 1 do not count, nor any stride when a size is 0.
    """
    if any(dim == 0 for dim in shape):
        return True
    expected = contiguous_strides(shape)
    return all(dim == 1 or same(s, e) for dim, s, e in zip(shape, strides, expected, strict=True))


class SymbolTable:
    """Values of symbols and of expressions over them, in one function.

    Arithmetic on the arguments' sizes is put before `anchor`, an operation at the end of the
    function's prologue, so that it belongs to no layer and every later operation can use it.
    Symbols that the function itself computes (`bind_local`) are used where they stand.
    """

    def __init__(self, anchor: ir.Operation):
        self._anchor = anchor
        self._local: set[sympy.Symbol] = set()
        self._sources: dict[sympy.Symbol, Callable[[], ir.Value]] = {}
        self._cache: dict[Any, ir.Value] = {}

    def bind(self, symbol: sympy.Symbol, source: Callable[[], ir.Value]) -> None:
        """Say how to make the `index` value of a symbol; the first binding holds."""
        self._sources.setdefault(symbol, source)

    def bind_local(self, symbol: sympy.Symbol, value: ir.Value) -> None:
        """Bind a symbol to an `index` value computed in the function's body."""
        self._local.add(symbol)
        self._sources[symbol] = lambda: value

    def bind_size(self, expr: Dim, source: Callable[[], ir.Value]) -> None:
        """Bind the symbol of a size such as `s0` or `2*s0 + 1` to where the size is found.

        The first binding of a symbol holds.
        """
        if isinstance(expr, int) or len(expr.free_symbols) != 1:
            return
        (symbol,) = expr.free_symbols
        if symbol in self._sources:
            return
        if expr == symbol:
            self._sources[symbol] = source
            return
        size = sympy.Dummy("size", integer=True)
        coefficients = sympy.Poly(expr, symbol).all_coeffs() if expr.is_polynomial(symbol) else []
        if len(coefficients) != 2:
            return
        scale, offset = coefficients
        self._sources[size] = source
        self._sources[symbol] = lambda: self.value(tsf.FloorDiv(size - offset, scale))

    def index(self, dim: Dim) -> ir.Value:
        """Return a size as an `index` value."""
        return self.value(dim)

    def value(self, expr: Any) -> ir.Value:
        """Return a scalar expression as an `index`, `f64` or `i1` value."""
        expr = as_expr(expr)
        key = (type(expr), expr)
        if key not in self._cache:
            with self._insertion_point(expr), ir.Location.unknown():
                self._cache[key] = self._emit(expr)
        return self._cache[key]

    def _insertion_point(self, expr: Any) -> ir.InsertionPoint:
        if not self._local or not self._local & getattr(expr, "free_symbols", set()):
            return ir.InsertionPoint(self._anchor)
        current = ir.InsertionPoint.current
        if current.block == self._anchor.block:
            return current
        owner = current.block.owner
        while owner.operation.block != self._anchor.block:
            owner = owner.operation.parent
        return ir.InsertionPoint(owner)

    def _emit(self, expr: Any) -> ir.Value:
        index, f64 = ir.IndexType.get(), ir.F64Type.get()
        if isinstance(expr, bool):
            return arith.constant(ir.IntegerType.get_signless(1), int(expr))
        if isinstance(expr, int):
            return arith.constant(index, expr)
        if isinstance(expr, float):
            return arith.constant(f64, expr)
        if expr in (sympy.oo, int_oo):
            return arith.constant(index, 2**63 - 1)
        if isinstance(expr, sympy.Symbol):
            if expr not in self._sources:
                raise ImportGraphError(
                    f"the size {expr} is not the size of an argument: "
                    "mark it dynamic on an input or pass it as an argument"
                )
            return self._sources[expr]()
        if isinstance(expr, sympy.Piecewise):
            return self._piecewise(expr)
        rule = _RULES.get(type(expr))
        if rule is None:
            raise ImportGraphError(f"no index arithmetic for {type(expr).__name__} in {expr}")
        return rule(*[self.value(arg) for arg in expr.args])

    def _piecewise(self, expr: sympy.Piecewise) -> ir.Value:
        *rest, (last, _) = expr.args
        result = self.value(last)
        for value, condition in reversed(rest):
            result = arith.select(self.value(condition), self.value(value), result)
        return result


def _to_float(value: ir.Value) -> ir.Value:
    f64 = ir.F64Type.get()
    if value.type == f64:
        return value
    integer = arith.index_cast(ir.IntegerType.get_signless(64), value)
    return arith.sitofp(f64, integer)


def _to_index(value: ir.Value) -> ir.Value:
    return arith.index_cast(
        ir.IndexType.get(), arith.fptosi(ir.IntegerType.get_signless(64), value)
    )


def _fold(integer: Callable, real: Callable) -> Callable[..., ir.Value]:
    def emit(*values: ir.Value) -> ir.Value:
        if any(value.type == ir.F64Type.get() for value in values):
            values = tuple(_to_float(value) for value in values)
            op = real
        else:
            op = integer
        result = values[0]
        for value in values[1:]:
            result = op(result, value)
        return result

    return emit


def _power(base: ir.Value, exponent: ir.Value) -> ir.Value:
    if base.type == ir.F64Type.get():
        return math_dialect.powf(base, _to_float(exponent))
    literal = getattr(exponent.owner.opview, "literal_value", None)
    if not isinstance(literal, int) or not 0 <= literal <= 64:
        raise ImportGraphError("a size raised to a power that is not a small constant")
    result = arith.constant(ir.IndexType.get(), 1)
    for _ in range(literal):
        result = arith.muli(result, base)
    return result


def _floor_mod(value: ir.Value, modulus: ir.Value) -> ir.Value:
    return arith.subi(value, arith.muli(arith.floordivsi(value, modulus), modulus))


def _compare(integer: arith.CmpIPredicate, real: arith.CmpFPredicate) -> Callable[..., ir.Value]:
    def emit(left: ir.Value, right: ir.Value) -> ir.Value:
        f64 = ir.F64Type.get()
        if f64 in (left.type, right.type):
            return arith.cmpf(real, _to_float(left), _to_float(right))
        return arith.cmpi(integer, left, right)

    return emit


def _rounded(op: Callable[[ir.Value], ir.Value]) -> Callable[[ir.Value], ir.Value]:
    return lambda value: _to_index(op(_to_float(value)))


def _not(value: ir.Value) -> ir.Value:
    return arith.xori(value, arith.constant(value.type, 1))


def _modular_indexing(value: ir.Value, divisor: ir.Value, modulus: ir.Value) -> ir.Value:
    return _floor_mod(arith.floordivsi(value, divisor), modulus)


_I, _F = arith.CmpIPredicate, arith.CmpFPredicate
_MIN = _fold(arith.minsi, arith.minimumf)
_MAX = _fold(arith.maxsi, arith.maximumf)
_RULES: dict[type, Callable[..., ir.Value]] = {
    sympy.Add: _fold(arith.addi, arith.addf),
    sympy.Mul: _fold(arith.muli, arith.mulf),
    sympy.Pow: _power,
    sympy.Min: _MIN,
    sympy.Max: _MAX,
    sympy.Eq: _compare(_I.eq, _F.OEQ),
    sympy.Ne: _compare(_I.ne, _F.UNE),
    sympy.Lt: _compare(_I.slt, _F.OLT),
    sympy.Le: _compare(_I.sle, _F.OLE),
    sympy.Gt: _compare(_I.sgt, _F.OGT),
    sympy.Ge: _compare(_I.sge, _F.OGE),
    sympy.And: _fold(arith.andi, arith.andi),
    sympy.Or: _fold(arith.ori, arith.ori),
    sympy.Not: _not,
    tsf.Min: _MIN,
    tsf.Max: _MAX,
    tsf.FloorDiv: arith.floordivsi,
    tsf.CleanDiv: arith.floordivsi,
    tsf.CeilDiv: arith.ceildivsi,
    tsf.Mod: _floor_mod,
    tsf.PythonMod: _floor_mod,
    tsf.ModularIndexing: _modular_indexing,
    tsf.PowByNatural: _power,
    tsf.FloatPow: lambda base, exponent: math_dialect.powf(_to_float(base), _to_float(exponent)),
    tsf.ToFloat: _to_float,
    tsf.IntTrueDiv: lambda a, b: arith.divf(_to_float(a), _to_float(b)),
    tsf.FloatTrueDiv: lambda a, b: arith.divf(_to_float(a), _to_float(b)),
    tsf.TruncToInt: _rounded(math_dialect.trunc),
    tsf.FloorToInt: _rounded(math_dialect.floor),
    tsf.CeilToInt: _rounded(math_dialect.ceil),
    tsf.RoundToInt: _rounded(math_dialect.roundeven),
    tsf.TruncToFloat: lambda value: math_dialect.trunc(_to_float(value)),
    tsf.Where: lambda condition, left, right: arith.select(condition, left, right),
    tsf.Identity: lambda value: value,
    tsf.OpaqueUnaryFn_sqrt: lambda value: math_dialect.sqrt(_to_float(value)),
}
