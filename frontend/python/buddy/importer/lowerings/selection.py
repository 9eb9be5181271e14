"""The k-th smallest of each row by quickselect, linear in the mean.

The steps are those of eager's `kthvalue` (median of three as pivot, Hoare's partition), so that
among equal elements it is the same one that is found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from mlir import ir
from mlir.dialects import arith, scf, tensor

from .. import shapes
from ..builder import Builder
from ..registry import lowers
from ..symbols import as_dim
from ..values import Tensor
from .common import normalize
from .scan_sort import _positions, before
from .view import slice_dim

aten = torch.ops.aten
Values = list[ir.Value]


def _while(
    inits: Values, before: Callable[[Values], tuple[ir.Value, Values]], after: Callable[..., Values]
) -> Values:
    """Build a loop: `before` says whether to go on and with what, `after` is one turn."""
    types_ = [value.type for value in inits]
    loop = scf.WhileOp(types_, inits)
    for region in (loop.before, loop.after):
        region.blocks.append(*types_)
    with ir.InsertionPoint(loop.before.blocks[0]):
        more, values = before(list(loop.before.blocks[0].arguments))
        scf.ConditionOp(more, values)
    with ir.InsertionPoint(loop.after.blocks[0]):
        scf.YieldOp(after(list(loop.after.blocks[0].arguments)))
    return list(loop.results)


class _Row:
    """One row of the keys and their places, which are carried as a pair of tensors."""

    def __init__(self, b: Builder, dtype: torch.dtype, row: Values):
        self.b, self.dtype, self.row = b, dtype, row

    def key(self, pair: Values, i: ir.Value) -> ir.Value:
        return tensor.extract(pair[0], [*self.row, i])

    def greater(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return before(self.dtype, y, x, False)

    def swap(self, pair: Values, i: ir.Value, j: ir.Value, condition: Any = None) -> Values:
        first, second, swapped = [*self.row, i], [*self.row, j], []
        for values in pair:
            x, y = tensor.extract(values, first), tensor.extract(values, second)
            if condition is not None:
                x, y = arith.select(condition, x, y), arith.select(condition, y, x)
            swapped.append(tensor.insert(x, tensor.insert(y, values, first), second))
        return swapped

    def order(self, pair: Values, i: ir.Value, j: ir.Value) -> Values:
        """Swap elements i and j if the first is greater."""
        return self.swap(pair, i, j, self.greater(self.key(pair, i), self.key(pair, j)))

    def seek(self, start: ir.Value, step: int, beyond: Callable[[ir.Value], ir.Value]) -> ir.Value:
        """Return the first place after `start`, stepwise, that is not `beyond`."""

        def before(values: Values) -> tuple[ir.Value, Values]:
            place = arith.addi(values[0], self.b.index_constant(step))
            return beyond(place), [place]

        return _while([start], before, list)[0]

    def select(self, length: ir.Value, k: ir.Value, pair: Values) -> Values:
        """Return the pair with the element that is k-th in order at place k."""
        one = self.b.index_constant(1)

        def several(values: Values) -> tuple[ir.Value, Values]:
            low, high = values[:2]
            return arith.cmpi(arith.CmpIPredicate.sgt, arith.subi(high, low), one), values

        def part(values: Values) -> Values:
            low, high, *pair = values
            i, j, pair = self.partition(low, high, pair)
            lower = arith.cmpi(arith.CmpIPredicate.sle, j, k)
            upper = arith.cmpi(arith.CmpIPredicate.sge, j, k)
            high = arith.select(upper, arith.subi(j, one), high)
            return [arith.select(lower, i, low), high, *pair]

        start = [self.b.index_constant(0), arith.subi(length, one), *pair]
        low, high, *pair = _while(start, several, part)
        # One or two elements are left; none if the ends have met.
        two = arith.cmpi(arith.CmpIPredicate.sgt, high, low)
        high = arith.select(two, high, low)
        return self.order(pair, low, high)

    def partition(
        self, low: ir.Value, high: ir.Value, pair: Values
    ) -> tuple[ir.Value, ir.Value, Values]:
        one, two = self.b.index_constant(1), self.b.index_constant(2)
        second = arith.addi(low, one)
        middle = arith.addi(low, arith.divui(arith.subi(high, low), two))
        pair = self.swap(pair, middle, second)
        pair = self.order(pair, second, high)
        pair = self.order(pair, low, high)
        pair = self.order(pair, second, low)
        pivot = self.key(pair, low)

        def before(values: Values) -> tuple[ir.Value, Values]:
            i, j, *pair = values
            i = self.seek(i, 1, lambda at: self.greater(pivot, self.key(pair, at)))
            j = self.seek(j, -1, lambda at: self.greater(self.key(pair, at), pivot))
            return arith.cmpi(arith.CmpIPredicate.sge, j, i), [i, j, *pair]

        def after(values: Values) -> Values:
            i, j, *pair = values
            return [i, j, *self.swap(pair, i, j)]

        i, j, *pair = _while([second, high, *pair], before, after)
        return i, j, self.swap(pair, low, j)


@lowers(aten.kthvalue.default)
def _kthvalue(
    b: Builder, x: Tensor, k: Any, dim: int = -1, keep: bool = False
) -> tuple[Tensor, Tensor]:
    scalar = x.rank == 0
    if scalar:
        x = x.unsqueeze(0)
    dim = normalize(dim, x.rank)
    rows = b.plain(x.permute([i for i in range(x.rank) if i != dim] + [dim]))
    last = rows.rank - 1
    pair = [rows.base, _positions(b, rows)]
    place = as_dim(k - 1)
    if 0 not in rows.shape:
        length, wanted = b.index(rows.shape[-1]), b.index(place)
        pair = b.loop(
            rows.shape[:-1],
            pair,
            lambda at, carried: _Row(b, rows.dtype, at).select(length, wanted, carried),
        )
    results = []
    for values, dtype in zip(pair, (x.dtype, torch.int64), strict=True):
        found = slice_dim(b, Tensor.plain(values, dtype, rows.shape), last, place, 1)
        found = shapes.squeeze(b, found, [last])
        results.append(found.unsqueeze(dim) if keep and not scalar else found)
    return results[0], results[1]
