"""Attention over a paged cache: the operators called, and compiled by lowerings of our own.

    python examples/paged_attention/paged_attention.py

Prints the time of a decode step of a small model in eager mode, compiled with the operators left
as calls, and compiled with their lowerings; all give the same logits.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import buddy
import lowerings
import operators  # noqa: F401  (registers torch.ops.paged)
import torch
from torch import nn

HEADS, GROUPS, SIZE, BLOCK = 8, 2, 32, 16
WIDTH = HEADS * SIZE


class Layer(nn.Module):
    """Attention over the cache and a feed-forward network, with residuals."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, WIDTH + 2 * GROUPS * SIZE)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.RMSNorm(WIDTH), nn.Linear(WIDTH, 512), nn.SiLU(), nn.Linear(512, WIDTH)
        )

    def forward(self, x: torch.Tensor, caches: Any, slots: torch.Tensor, pages: Any) -> Any:
        """Return the tokens' new values; their keys and values go into the caches.

        x: [tokens, WIDTH]; caches: two of [blocks, BLOCK, GROUPS, SIZE]; pages: table, start, lens.
        """
        kc, vc = caches
        q, k, v = (
            part.unflatten(-1, (-1, SIZE))
            for part in self.qkv(self.norm(x)).split([WIDTH, GROUPS * SIZE, GROUPS * SIZE], -1)
        )
        torch.ops.paged.reshape_and_cache(k, v, kc, vc, slots)
        x = x + self.out(torch.ops.paged.attention(q, kc, vc, *pages, SIZE**-0.5).flatten(1))
        return x + self.mlp(x)


class Model(nn.Module):
    """A stack of layers."""

    def __init__(self, layers: int = 2) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(layers))

    def forward(self, x: torch.Tensor, caches: Any, slots: torch.Tensor, pages: Any) -> Any:
        """Return the last layer's values of the tokens."""
        for layer, cache in zip(self.layers, caches, strict=True):
            x = layer(x, cache, slots, pages)
        return x


class Engine:
    """Sequences whose blocks lie scattered over the caches."""

    def __init__(self, layers: int, blocks: int, sequences: int, most: int):
        shape = (blocks, BLOCK, GROUPS, SIZE)
        self.caches = [[torch.full(shape, torch.nan) for _ in "kv"] for _ in range(layers)]
        generator = torch.Generator().manual_seed(0)
        order = torch.randperm(blocks, generator=generator)
        self.table = order[: sequences * most].view(sequences, most)
        self.lens = [0] * sequences

    def inputs(self, counts: list[int]) -> tuple[Any, ...]:
        """Return the model's arguments after x for counts[i] new tokens of sequence i."""
        slots = []
        for i, count in enumerate(counts):
            position = torch.arange(self.lens[i], self.lens[i] + count)
            slots.append(self.table[i, position // BLOCK] * BLOCK + position % BLOCK)
        lens = [length + count for length, count in zip(self.lens, counts, strict=True)]
        start = torch.tensor([0, *counts]).cumsum(0)
        return self.caches, torch.cat(slots), (self.table, start, torch.tensor(lens))

    def step(self, fn: Callable[..., Any], x: torch.Tensor, counts: list[int]) -> torch.Tensor:
        """Feed x, counts[i] tokens of sequence i, and return what the model gives."""
        with torch.no_grad():
            result = fn(x, *self.inputs(counts))
        self.lens = [length + count for length, count in zip(self.lens, counts, strict=True)]
        return result


def run(fn: Callable[..., Any], model: Model) -> tuple[list[torch.Tensor], float]:
    """Prefill, then decode; return all results and a decode step's median time in ms."""
    engine = Engine(len(model.layers), blocks=256, sequences=3, most=8)
    generator = torch.Generator().manual_seed(1)
    results, times = [], []
    for step in range(30):
        counts = [17, 5, 40] if step == 0 else [1, 1, 1]
        x = torch.randn(sum(counts), WIDTH, generator=generator)
        torch._dynamo.maybe_mark_dynamic(x, 0)
        begin = time.perf_counter()
        results.append(engine.step(fn, x, counts))
        times.append((time.perf_counter() - begin) * 1e3)
    return results, statistics.median(times[5:])


def main() -> None:
    """Run the model in the three ways."""
    torch.manual_seed(0)
    model = Model().eval()
    expected, eager = run(model, model)
    print(f"eager                       {eager:8.3f} ms a decode step")
    for name in ("operators called", "operators lowered"):
        if name == "operators lowered":
            buddy.register_lowering(torch.ops.paged.reshape_and_cache)(lowerings.reshape_and_cache)
            buddy.register_lowering(torch.ops.paged.attention)(lowerings.attention)
            torch._dynamo.reset()
        compiled = torch.compile(model, backend="buddy", fullgraph=True)
        results, milliseconds = run(compiled, model)
        torch.testing.assert_close(results, expected, atol=1e-4, rtol=1e-4)
        print(f"compiled, {name:17} {milliseconds:8.3f} ms a decode step")


if __name__ == "__main__":
    main()
