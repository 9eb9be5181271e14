"""Lowerings of two operators over a paged cache: they become loops over the blocks of a sequence.

    reshape_and_cache(k, v, kc!, vc!, slots)     kc[slot // block, slot % block] = k[token]
    attention(q, kc, vc, table, start, lens, scale) -> out

q, out: [tokens, heads, size]; k, v: [tokens, groups, size]; kc, vc: [blocks, block, groups, size];
slots: [tokens]; table: [sequences, most blocks], block numbers of each sequence; start:
[sequences + 1], sequence i owns the tokens start[i] to start[i + 1], its last ones; lens:
[sequences], its length with these tokens. Heads share keys in groups. Sums are in f32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from buddy.importer import Builder, Tensor
from buddy.importer.builder import PARALLEL, REDUCTION, loop_index
from buddy.importer.lowerings.indexing import check_index, safe_index
from buddy.importer.scalars import cast, constant
from mlir import ir
from mlir.dialects import arith, math, tensor

f32 = torch.float32


def reshape_and_cache(
    b: Builder, k: Tensor, v: Tensor, kc: Tensor, vc: Tensor, slots: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the new caches; rows that `slots` does not name stay as they are."""
    blocks, block, groups, size = kc.shape
    check_index(b, slots, blocks * block, "reshape_and_cache", negative=False)
    rows = [b.value(k), b.value(v)]
    where = b.value(slots)

    def token(counters: list[ir.Value], caches: list[ir.Value]) -> list[ir.Value]:
        (t,) = counters
        slot = safe_index(b, tensor.extract(where, [t]), slots.dtype, blocks * block, False)
        page = [arith.divui(slot, b.index(block)), arith.remui(slot, b.index(block)), 0, 0]
        shape = [1, groups, size]
        return [
            b.insert_slice(_slice(b, row, [t, 0, 0], shape), cache, page, [1, *shape])
            for row, cache in zip(rows, caches, strict=True)
        ]

    new = b.loop([k.shape[0]], [b.value(kc), b.value(vc)], token)
    return Tensor.plain(new[0], kc.dtype, kc.shape), Tensor.plain(new[1], vc.dtype, vc.shape)


def attention(
    b: Builder,
    q: Tensor,
    kc: Tensor,
    vc: Tensor,
    table: Tensor,
    start: Tensor,
    lens: Tensor,
    scale: float,
    out: Tensor | None = None,
) -> Tensor:
    """Return causal attention, by a softmax that is corrected from block to block.

    out: what an operator that writes its result got for it; only its dtype and shape matter.
    """
    tokens, heads, size = q.shape
    blocks, block, groups, _ = kc.shape
    most = table.shape[1]
    share = heads // groups
    query, keys, values = b.value(q), b.value(kc), b.value(vc)
    pages, starts, lengths = b.value(table), b.value(start), b.value(lens)
    factor = b.scalar(scale, f32)

    def bounded(source: ir.Value, at: list[ir.Value], dtype: torch.dtype, limit: Any) -> ir.Value:
        return safe_index(b, tensor.extract(source, at), dtype, limit + 1, False)

    def sequence(counters: list[ir.Value], results: list[ir.Value]) -> list[ir.Value]:
        (i,) = counters
        following = arith.addi(i, b.index_constant(1))
        first = bounded(starts, [i], start.dtype, tokens)
        last = arith.maxsi(first, bounded(starts, [following], start.dtype, tokens))
        length = bounded(lengths, [i], lens.dtype, most * block)
        count = arith.subi(last, first)
        before = arith.subi(length, count)

        def head(counters: list[ir.Value], results: list[ir.Value]) -> list[ir.Value]:
            c, g = counters
            t = arith.addi(first, c)
            zero, one = b.index_constant(0), b.index_constant(1)
            seen = arith.maxsi(arith.addi(arith.addi(before, c), one), zero)
            at = [t, arith.muli(g, b.index_constant(share)), 0]
            mine = _slice(b, query, at, [1, share, size], drop=1)

            def page(counters: list[ir.Value], state: list[ir.Value]) -> list[ir.Value]:
                (j,) = counters
                number = safe_index(b, tensor.extract(pages, [i, j]), table.dtype, blocks, False)
                where, shape = [number, 0, g, 0], [1, block, 1, size]
                k, v = (_page(b, cache, where, shape) for cache in (keys, values))
                base = arith.muli(j, b.index(block))
                return _block(b, mine, k, v, q.dtype, state, factor, base, seen)

            state = [
                b.full([share], constant(float("-inf"), f32), f32),
                b.full([share], constant(0.0, f32), f32),
                b.full([share, size], constant(0.0, f32), f32),
            ]
            count_pages = arith.ceildivsi(seen, b.index(block))
            _, total, sums = b.loop([count_pages], state, page)
            (done,) = b.generic(
                [(sums, _map(2, 0, 1)), (total, _map(2, 0))],
                [(b.empty([share, size], q.dtype), _map(2, 0, 1))],
                [PARALLEL] * 2,
                lambda x, y, _: cast(arith.divf(x, y), f32, q.dtype),
            )
            return [b.insert_slice(done, results[0], at, [1, share, size])]

        return b.loop([count, groups], results, head)

    init = b.full(q.shape, constant(0.0, q.dtype), q.dtype)
    (result,) = b.loop([table.shape[0]], [init], sequence)
    return Tensor.plain(result, q.dtype, q.shape)


def _block(
    b: Builder,
    q: ir.Value,
    k: ir.Value,
    v: ir.Value,
    dtype: torch.dtype,
    state: Sequence[ir.Value],
    scale: ir.Value,
    base: ir.Value,
    seen: ir.Value,
) -> list[ir.Value]:
    """Add the keys of one block to the running maximum, sum and weighted values."""
    top, total, sums = state
    share, block = q.type.shape[0], k.type.shape[0]
    low = constant(float("-inf"), f32)
    product = [PARALLEL, PARALLEL, REDUCTION]

    def multiply(x: ir.Value, y: ir.Value, acc: ir.Value) -> ir.Value:
        return arith.addf(acc, arith.mulf(cast(x, dtype, f32), cast(y, dtype, f32)))

    (scores,) = b.generic(
        [(q, _map(3, 0, 2)), (k, _map(3, 1, 2))],
        [(b.full([share, block], constant(0.0, f32), f32), _map(3, 0, 1))],
        product,
        multiply,
    )

    def is_seen(row: ir.Value) -> ir.Value:
        return arith.cmpi(arith.CmpIPredicate.slt, arith.addi(base, row), seen)

    def visible(x: ir.Value, _: ir.Value) -> ir.Value:
        return arith.select(is_seen(loop_index(1)), arith.mulf(x, scale), low)

    def weigh(w: ir.Value, x: ir.Value, acc: ir.Value) -> ir.Value:
        # A row that was never written may hold anything, NaN too.
        x = arith.select(is_seen(loop_index(2)), cast(x, dtype, f32), constant(0.0, f32))
        return arith.addf(acc, arith.mulf(w, x))

    both = [PARALLEL] * 2
    (scores,) = b.generic(
        [(scores, _map(2, 0, 1))], [(b.empty([share, block], f32), _map(2, 0, 1))], both, visible
    )
    (highest,) = b.generic(
        [(scores, _map(2, 0, 1))],
        [(b.full([share], low, f32), _map(2, 0))],
        [PARALLEL, REDUCTION],
        lambda x, acc: arith.maximumf(x, acc),
    )
    (highest,) = b.generic(
        [(top, _map(1, 0))],
        [(highest, _map(1, 0))],
        [PARALLEL],
        lambda x, acc: arith.maximumf(x, acc),
    )
    (weights,) = b.generic(
        [(scores, _map(2, 0, 1)), (highest, _map(2, 0))],
        [(b.empty([share, block], f32), _map(2, 0, 1))],
        both,
        lambda x, m, _: math.exp(arith.subf(x, m)),
    )
    (factor,) = b.generic(
        [(top, _map(1, 0)), (highest, _map(1, 0))],
        [(b.empty([share], f32), _map(1, 0))],
        [PARALLEL],
        lambda x, m, _: math.exp(arith.subf(x, m)),
    )
    (total,) = b.generic(
        [(factor, _map(1, 0))], [(total, _map(1, 0))], [PARALLEL], lambda x, acc: arith.mulf(x, acc)
    )
    (total,) = b.generic(
        [(weights, _map(2, 0, 1))],
        [(total, _map(2, 0))],
        [PARALLEL, REDUCTION],
        lambda x, acc: arith.addf(x, acc),
    )
    (sums,) = b.generic(
        [(factor, _map(2, 0))],
        [(sums, _map(2, 0, 1))],
        both,
        lambda x, acc: arith.mulf(x, acc),
    )
    (sums,) = b.generic(
        [(weights, _map(3, 0, 2)), (v, _map(3, 2, 1))],
        [(sums, _map(3, 0, 1))],
        product,
        weigh,
    )
    # A carried tensor has to be written where it lies: the old maximum is read until here.
    (top,) = b.generic([(highest, _map(1, 0))], [(top, _map(1, 0))], [PARALLEL], arith.maximumf)
    return [top, total, sums]


def _page(b: Builder, cache: ir.Value, where: list[Any], shape: list[Any]) -> ir.Value:
    """Return one group's rows of a block, [block, size], where they lie."""
    return _slice(b, cache, where, shape, kept=(1, 3))


def _slice(
    b: Builder,
    source: ir.Value,
    offsets: list[Any],
    sizes: list[Any],
    drop: int = 0,
    kept: Sequence[int] | None = None,
) -> ir.Value:
    """Return a part of a tensor without its first `drop` dimensions, or with those `kept` only."""
    kept = range(drop, len(sizes)) if kept is None else kept
    type_ = ir.RankedTensorType.get(
        [
            size if isinstance(size := sizes[i], int) else ir.ShapedType.get_dynamic_size()
            for i in kept
        ],
        source.type.element_type,
    )
    parts = [b.mixed(part) for part in (offsets, sizes, [1] * len(sizes))]
    dynamic, static = [x for x, _ in parts], [x for _, x in parts]
    return tensor.ExtractSliceOp(type_, source, *dynamic, *static).result


def _map(loops: int, *dims: int) -> ir.AffineMap:
    return ir.AffineMap.get(loops, 0, [ir.AffineDimExpr.get(dim) for dim in dims])
