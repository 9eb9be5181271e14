"""The k-th smallest of each row by quickselect, and the first k in order by a heap.

Quickselect is linear in the mean; its steps are those of eager's `kthvalue` (median of three as
pivot, Hoare's partition), so that among equal elements it is the same one that is found. The heap
has k elements: most of the others are compared with its root only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from mlir import ir
from mlir.dialects import arith, scf, tensor

from .. import scalars, shapes
from ..builder import Builder
from ..registry import lowers
from ..symbols import Dim, as_dim
from ..values import Tensor
from .common import normalize
from .sorting import before, positions, sort
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
    """A row of the keys and their places, which are carried as a pair of vectors."""

    def __init__(self, b: Builder, dtype: torch.dtype):
        self.b, self.dtype = b, dtype

    def key(self, pair: Values, i: ir.Value) -> ir.Value:
        return tensor.extract(pair[0], [i])

    def greater(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return before(self.dtype, y, x, False)

    def swap(self, pair: Values, i: ir.Value, j: ir.Value, condition: Any = None) -> Values:
        first, second, swapped = [i], [j], []
        for values in pair:
            x, y = tensor.extract(values, first), tensor.extract(values, second)
            if condition is not None:
                x, y = arith.select(condition, x, y), arith.select(condition, y, x)
            swapped.append(tensor.insert(x, tensor.insert(y, values, first), second))
        return swapped

    def order(self, pair: Values, i: ir.Value, j: ir.Value) -> Values:
        """Swap elements i and j if the first is greater."""
        return self.swap(pair, i, j, self.greater(self.key(pair, i), self.key(pair, j)))

    def put(self, pair: Values, i: ir.Value, item: Values) -> Values:
        place = [i]
        return [tensor.insert(x, into, place) for x, into in zip(item, pair, strict=True)]

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


class _Heap(_Row):
    """A heap of a row's first elements in order, the last of them at its root."""

    def __init__(self, b: Builder, dtype: torch.dtype, descending: bool):
        super().__init__(b, dtype)
        self.descending = descending

    def item(self, pair: Values, i: ir.Value) -> Values:
        return [tensor.extract(values, [i]) for values in pair]

    def stands_before(self, x: Values, y: Values) -> ir.Value:
        """Tell whether element x comes before y; of equal ones the place decides."""
        first = before(self.dtype, x[0], y[0], self.descending)
        last = before(self.dtype, y[0], x[0], self.descending)
        earlier = arith.cmpi(arith.CmpIPredicate.slt, x[1], y[1])
        return arith.ori(first, arith.andi(earlier, scalars.logical_not(last)))

    def sift(self, item: Values, place: ir.Value, size: ir.Value, pair: Values) -> Values:
        """Put an element at a place or below, where the heap of `size` elements wants it."""
        one, two = self.b.index_constant(1), self.b.index_constant(2)
        last = arith.subi(size, one)

        def later_child(values: Values) -> tuple[ir.Value, Values]:
            at, *pair = values
            left = arith.addi(arith.muli(at, two), one)
            inside = arith.cmpi(arith.CmpIPredicate.slt, left, size)
            left = arith.minsi(left, last)
            right = arith.minsi(arith.addi(left, one), last)
            children = self.item(pair, left), self.item(pair, right)
            lower = self.stands_before(*children)
            child = [arith.select(lower, y, x) for x, y in zip(*children, strict=True)]
            down = arith.andi(inside, self.stands_before(item, child))
            child = arith.select(lower, right, left)
            return down, [arith.select(down, child, at), *pair]

        def descend(values: Values) -> Values:
            child, *pair = values
            parent = arith.divui(arith.subi(child, one), two)
            return [child, *self.put(pair, parent, self.item(pair, child))]

        at, *pair = _while([place, *pair], later_child, descend)
        return self.put(pair, at, item)

    def keep_first(self, x: ir.Value, length: ir.Value, k: ir.Value, pair: Values) -> Values:
        """Return the pair with the first k elements of the row of x, in order."""
        b, one, zero = self.b, self.b.index_constant(1), self.b.index_constant(0)

        def element(at: ir.Value) -> Values:
            place = arith.index_cast(ir.IntegerType.get_signless(64), at)
            return [tensor.extract(x, [at]), place]

        def build(at: Values, pair: Values) -> Values:
            place = arith.subi(arith.subi(half, one), at[0])
            return self.sift(self.item(pair, place), place, k, pair)

        def offer(at: Values, pair: Values) -> Values:
            new = element(arith.addi(at[0], k))
            root = tensor.extract(pair[0], [zero])
            better = scf.IfOp(
                before(self.dtype, new[0], root, self.descending),
                [values.type for values in pair],
                has_else=True,
            )
            with ir.InsertionPoint(better.then_block):
                scf.YieldOp(self.sift(new, zero, k, pair))
            with ir.InsertionPoint(better.else_block):
                scf.YieldOp(pair)
            return list(better.results)

        def take_root(at: Values, pair: Values) -> Values:
            size = arith.subi(arith.subi(k, one), at[0])
            root, end = self.item(pair, zero), self.item(pair, size)
            return self.sift(end, zero, size, self.put(pair, size, root))

        half = arith.divui(k, self.b.index_constant(2))
        none = arith.cmpi(arith.CmpIPredicate.eq, k, zero)
        others = arith.select(none, zero, arith.subi(length, k))
        pair = b.loop([k], pair, lambda at, pair: self.put(pair, at[0], element(at[0])))
        pair = b.loop([half], pair, build)
        pair = b.loop([others], pair, offer)
        return b.loop([arith.subi(k, one)], pair, take_root)


def _few(k: Any, length: Any) -> bool:
    """Tell whether a heap of k elements beats sorting the row; both give the same order."""
    if not isinstance(k, int):
        return False
    return k <= 16 or (k * 16 <= length if isinstance(length, int) else k <= 256)


def _pair(values: Values, dtype: torch.dtype, shape: Sequence[Dim]) -> list[Tensor]:
    """Keys of a dtype and their places."""
    dtypes = (dtype, torch.int64)
    return [Tensor.plain(v, kind, tuple(shape)) for v, kind in zip(values, dtypes, strict=True)]


@lowers(aten.topk.default)
def _topk(
    b: Builder, x: Tensor, k: Any, dim: int = -1, largest: bool = True, *_: Any
) -> tuple[Tensor, Tensor]:
    if x.rank == 0:
        return sort(b, x, dim, largest)
    dim = normalize(dim, x.rank)
    size = b.result_shape(0)[dim]
    if not _few(size, x.shape[dim]):
        values, places = sort(b, x, dim, largest)
        return slice_dim(b, values, dim, 0, size), slice_dim(b, places, dim, 0, size)
    order = [i for i in range(x.rank) if i != dim] + [dim]
    back = [order.index(i) for i in range(x.rank)]
    rows, shape = b.plain(x.permute(order)), b.result_shape(0)
    shape = tuple(shape[i] for i in order)
    pair = [b.empty(shape, x.dtype), b.empty(shape, torch.int64)]
    if 0 not in shape:
        length, count = b.index(rows.shape[-1]), b.index(shape[-1])
        heap = _Heap(b, rows.dtype, largest)

        def row(at: Values, carried: Values) -> Values:
            return heap.keep_first(b.part(rows, at), length, count, carried)

        pair = b.rows(x.rank - 1, _pair(pair, x.dtype, shape), row)
    values = Tensor.plain(pair[0], x.dtype, shape).permute(back)
    return values, Tensor.plain(pair[1], torch.int64, shape).permute(back)


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
    pair = [rows.base, positions(b, rows)]
    place = as_dim(k - 1)
    if 0 not in rows.shape:
        length, wanted = b.index(rows.shape[-1]), b.index(place)
        row = _Row(b, rows.dtype)
        pair = b.rows(
            last,
            _pair(pair, x.dtype, rows.shape),
            lambda _, carried: row.select(length, wanted, carried),
        )
    results = []
    for values, dtype in zip(pair, (x.dtype, torch.int64), strict=True):
        found = slice_dim(b, Tensor.plain(values, dtype, rows.shape), last, place, 1)
        found = shapes.squeeze(b, found, [last])
        results.append(found.unsqueeze(dim) if keep and not scalar else found)
    return results[0], results[1]
