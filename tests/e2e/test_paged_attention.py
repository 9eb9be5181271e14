"""The example's operators over a paged cache, compiled by its lowerings, against their kernels."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("_buddy")

import buddy  # noqa: E402
from buddy.backend import buddy_backend, counters  # noqa: E402
from buddy.importer import registry  # noqa: E402

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "paged_attention"


@pytest.fixture(scope="module", autouse=True)
def lowered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Register the example's operators and lowerings for this file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLE))
        patch.setenv("BUDDY_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        importlib.import_module("operators")
        lowerings = importlib.import_module("lowerings")
        buddy.register_lowering(torch.ops.paged.reshape_and_cache)(lowerings.reshape_and_cache)
        buddy.register_lowering(torch.ops.paged.attention)(lowerings.attention)
        yield
    for op, dialect in list(registry._RULES):
        if op.namespace == "paged":
            del registry._RULES[op, dialect]
    for name in ("operators", "lowerings"):
        del sys.modules[name]


def step(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, kc: torch.Tensor, vc: torch.Tensor, *at: Any
) -> torch.Tensor:
    slots, table, start, lens = at
    torch.ops.paged.reshape_and_cache(k * 2, v, kc, vc, slots)
    return torch.ops.paged.attention(q, kc, vc, table, start, lens, q.shape[-1] ** -0.5) + 1


def tokens(counts: list[int], lens: list[int], table: torch.Tensor, block: int) -> tuple[Any, ...]:
    """Return slots, table, start and lens after `counts` new tokens of each sequence."""
    slots = []
    for i, (count, length) in enumerate(zip(counts, lens, strict=True)):
        position = torch.arange(length, length + count)
        slots.append(table[i, position // block] * block + position % block)
    after = torch.tensor([length + count for length, count in zip(lens, counts, strict=True)])
    return torch.cat(slots), table, torch.tensor([0, *counts]).cumsum(0), after


@pytest.mark.parametrize(
    ("heads", "groups", "size", "block", "dtype"),
    [
        (4, 2, 16, 4, torch.float32),
        (3, 3, 5, 3, torch.float32),
        (6, 1, 33, 16, torch.float32),
        (4, 2, 24, 8, torch.bfloat16),
    ],
)
def test_prefill_and_decode_equal_the_kernels_with_one_compile(
    heads: int, groups: int, size: int, block: int, dtype: torch.dtype, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
    counters.clear()
    blocks, most = 41, 6
    table = torch.randperm(blocks)[: 3 * most].view(3, most)
    caches = [torch.full((blocks, block, groups, size), torch.nan, dtype=dtype) for _ in "kv"]
    expected_caches = [cache.clone() for cache in caches]
    compiled = torch.compile(
        step,
        backend=buddy_backend,
        fullgraph=True,
        options={"fallback": "error", "dump_dir": str(tmp_path)},
    )
    lens = [0, 0, 0]
    tolerance = {torch.float32: 1e-5, torch.bfloat16: 2e-2}[dtype]
    for counts in ([7, 2, 5], [1, 1, 1], [1, 3, 0], [2, 0, 1]):
        total = sum(counts)
        q = torch.randn(total, heads, size).to(dtype)
        k, v = (torch.randn(total, groups, size).to(dtype) for _ in "kv")
        at = tokens(counts, lens, table, block)
        for tensor in (q, k, v, at[0]):
            torch._dynamo.mark_dynamic(tensor, 0)
        with torch.no_grad():
            result = compiled(q, k, v, *caches, *at)
            expected = step(q, k, v, *expected_caches, *at)
        torch.testing.assert_close(result, expected, atol=tolerance, rtol=tolerance)
        torch.testing.assert_close(caches, expected_caches, equal_nan=True)
        lens = at[3].tolist()
    assert counters.misses == 1
    # Nothing of a cache's size is allocated or copied.
    (kernel,) = tmp_path.rglob("*kernel*.mlir")
    shape = f"<{blocks}x{block}x{groups}x{size}x"
    lines = [line for line in kernel.read_text().splitlines() if shape in line]
    assert lines
    assert not any("memref.copy" in line or "memref.alloc" in line for line in lines)


def test_a_slot_outside_the_cache_is_an_error() -> None:
    torch._dynamo.reset()
    k = torch.randn(2, 1, 4)
    caches = [torch.zeros(3, 2, 1, 4) for _ in "kv"]

    def put(k: torch.Tensor, kc: torch.Tensor, vc: torch.Tensor, slots: torch.Tensor) -> None:
        torch.ops.paged.reshape_and_cache(k, k, kc, vc, slots)

    compiled = torch.compile(put, backend=buddy_backend, options={"fallback": "error"})
    compiled(k, *caches, torch.tensor([5, 0]))
    torch.testing.assert_close(caches[0].flatten(0, 1)[[5, 0]], k)
    with pytest.raises((IndexError, RuntimeError), match="reshape_and_cache: index out of range"):
        compiled(k, *caches, torch.tensor([6, 0]))
