"""Running sums, products and extrema along a dimension."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from mlir import ir
from mlir.dialects import arith, math, tensor

from .. import scalars, types
from ..builder import PARALLEL, Builder
from ..errors import Unsupported
from ..registry import lowers
from ..values import Tensor
from .common import normalize

aten = torch.ops.aten
_INF = float("inf")
Values = list[ir.Value]
# The dtypes of a state and of its result.
Kinds = Sequence[tuple[torch.dtype, torch.dtype]]


def _scan_accumulator(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which eager keeps a running sum: one size up for floats."""
    if dtype in types.REDUCED_FLOATS:
        return torch.float32
    return torch.float64 if dtype is torch.float32 else dtype


@lowers(aten.cumsum.default)
def _cumsum(b: Builder, x: Tensor, dim: int, *_: Any) -> Tensor:
    return _running(b, x, dim, scalars.add, 0)


@lowers(aten.cumprod.default)
def _cumprod(b: Builder, x: Tensor, dim: int, *_: Any) -> Tensor:
    return _running(b, x, dim, scalars.mul, 1)


@lowers(aten.logcumsumexp.default)
def _logcumsumexp(b: Builder, x: Tensor, dim: int) -> Tensor:
    if types.is_complex(x.dtype):
        raise Unsupported("complex numbers")

    def combine(dtype: torch.dtype, total: ir.Value, value: ir.Value) -> ir.Value:
        low = scalars.minimum(dtype, total, value)
        high = scalars.maximum(dtype, total, value)
        sum_ = arith.addf(math.log1p(math.exp(arith.subf(low, high))), high)
        # The difference of two infinities is no number.
        infinite = scalars.compare("eq", math.absf(low), scalars.constant(_INF, dtype), dtype)
        same = arith.andi(infinite, scalars.compare("eq", low, high, dtype))
        return arith.select(same, low, sum_)

    return _running(b, x, dim, combine, -_INF)


@lowers(aten.cummax.default, aten.cummin.default)
def _cumulative_extremum(b: Builder, x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """The running extremum and its place: the last of equal ones; a NaN counts as extremum."""
    better = "ge" if b.node.target is aten.cummax.default else "le"
    i64 = torch.int64
    if x.rank == 0:
        return x, Tensor.plain(b.full((), scalars.constant(0, i64), i64), i64, ())

    def step(new: ir.Value, position: ir.Value, best: ir.Value, where: ir.Value) -> Values:
        place = arith.index_cast(ir.IntegerType.get_signless(64), position)
        # No number compares with a NaN.
        take = scalars.compare(better, new, best, x.dtype)
        if types.is_float(x.dtype):
            take = arith.ori(take, scalars.is_nan(new))
        return [arith.select(take, new, best), arith.select(take, place, where)]

    kinds = [(x.dtype, x.dtype), (i64, i64)]
    first = scalars.lowest(x.dtype) if better == "ge" else scalars.highest(x.dtype)
    start = [scalars.constant(first, x.dtype), scalars.constant(0, i64)]
    values, places = _scan(b, x, dim, kinds, start, step)
    return values, places


def _running(
    b: Builder,
    x: Tensor,
    dim: int,
    combine: Callable[[torch.dtype, ir.Value, ir.Value], ir.Value],
    init: float,
) -> Tensor:
    """Combine the elements up to each one."""
    dtype = b.result_dtype()
    if x.rank == 0:
        return b.cast(x, dtype)
    compute = _scan_accumulator(dtype)

    def step(new: ir.Value, position: ir.Value, total: ir.Value) -> Values:
        return [combine(compute, total, scalars.cast(new, x.dtype, compute))]

    start = [scalars.constant(init, compute)]
    return _scan(b, x, dim, [(compute, dtype)], start, step)[0]


def _scan(
    b: Builder,
    x: Tensor,
    dim: int,
    kinds: Kinds,
    start: Values,
    step: Callable[..., Values],
) -> list[Tensor]:
    """Return the states after each element along a dimension, converted to the results' dtypes.

    `step` gets an element, its place and the states before it, and returns those after it. The
    leading dimensions are loops around the scan, the trailing ones run side by side in it: memory
    is read and written in its order, and without trailing dimensions the states stay in registers.
    """
    dim = normalize(dim, x.rank)
    x = b.plain(x)
    results = [Tensor.plain(b.empty(x.shape, dtype), dtype, x.shape) for _, dtype in kinds]
    if 0 not in x.shape:
        scan = _Scan(b, kinds, start, step)

        def line(at: Values, out: Values) -> Values:
            row = Tensor.plain(b.part(x, at), x.dtype, x.shape[dim:]) if at else x
            return scan.elements(row, out) if row.rank == 1 else scan.slabs(row, out)

        values = b.rows(dim, results, line)
        results = [
            Tensor.plain(v, dtype, x.shape) for v, (_, dtype) in zip(values, kinds, strict=True)
        ]
    return results


@dataclass(frozen=True)
class _Scan:
    """What a scan does; its methods scan one row, along its first dimension, into results."""

    b: Builder
    kinds: Kinds
    start: Values
    step: Callable[..., Values]

    def elements(self, row: Tensor, out: Values) -> Values:
        """A row of elements; the states are scalars."""
        count = len(self.start)

        def body(at: Values, carried: Values) -> Values:
            states = self.step(tensor.extract(row.base, at), at[0], *carried[:count])
            written = [
                tensor.insert(scalars.cast(state, *kind), into, at)
                for state, kind, into in zip(states, self.kinds, carried[count:], strict=True)
            ]
            return [*states, *written]

        return self.b.loop(row.shape, [*self.start, *out], body)[count:]

    def slabs(self, row: Tensor, out: Values) -> Values:
        """A row of slabs of the trailing dimensions; the states are tensors of their sizes."""
        b, count = self.b, len(self.start)
        sizes = (1, *row.shape[1:])
        ones, identity = [1] * row.rank, ir.AffineMap.get_identity(row.rank)

        def body(at: Values, carried: Values) -> Values:
            offsets = [at[0], *[0] * (row.rank - 1)]
            slab = b.extract_slice(row, offsets, sizes, ones)
            # The states are the operation's own result buffers, so that the loop stays in place.
            states = b.generic(
                [(slab.base, identity)],
                [(state, identity) for state in carried[:count]],
                [PARALLEL] * row.rank,
                lambda new, *states: self.step(new, at[0], *states),
            )
            written = []
            for state, (dtype, result), into in zip(
                states, self.kinds, carried[count:], strict=True
            ):
                part = b.cast(Tensor.plain(state, dtype, sizes), result)
                written.append(b.insert_slice(part.base, into, offsets, sizes))
            return [*states, *written]

        states = [
            b.full(sizes, value, dtype)
            for value, (dtype, _) in zip(self.start, self.kinds, strict=True)
        ]
        return b.loop(row.shape[:1], [*states, *out], body)[count:]
