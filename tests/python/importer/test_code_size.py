"""No function of a compiled library is large, whatever is not known when it is compiled.

Sizes that are known at the call only make for edges of every kind; a kernel of many of them must
still fit into the caches of instructions of a core.
"""

from __future__ import annotations

import math
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from harness import LLVM, Backend

_buddy = pytest.importorskip("_buddy")

LARGEST = 64 << 10  # bytes


def layer(x, norm1, wq, wk, wv, wo, norm2, gate, up, down, cos, sin):
    """A LLaMA's layer; heads of queries share heads of keys."""

    def rotate(t):
        first, second = t.chunk(2, -1)
        return t * cos + torch.cat([-second, first], -1) * sin

    batch, length, depth = x.shape[0], x.shape[1], cos.shape[-1]
    h = F.rms_norm(x, norm1.shape, norm1, 1e-5)
    q, k, v = (F.linear(h, w).view(batch, length, -1, depth).transpose(1, 2) for w in (wq, wk, wv))
    a = F.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True, enable_gqa=True)
    x = x + F.linear(a.transpose(1, 2).reshape(batch, length, -1), wo)
    h = F.rms_norm(x, norm2.shape, norm2, 1e-5)
    return x + F.linear(F.silu(F.linear(h, gate)) * F.linear(h, up), down)


def layer_arguments(dtype: torch.dtype) -> list[torch.Tensor]:
    width, depth, hidden, length = 48, 8, 96, 7
    shapes = [
        (2, length, width), (width,), (width, width), (16, width), (16, width), (width, width),
        (width,), (hidden, width), (hidden, width), (width, hidden), (length, depth),
        (length, depth),
    ]  # fmt: skip
    return [(torch.randn(shape) / math.sqrt(shape[-1])).to(dtype) for shape in shapes]


def attention_with_mask(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def causal_attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def products(a, b, c, d):
    return a @ b, a @ c.mT, a.mT @ d, F.silu(a @ b) * d


HEADS = [(2, 4, 9, 24), (2, 4, 11, 24), (2, 4, 11, 20)]
CASES: list[tuple[Callable[..., Any], Callable[[torch.dtype], list[torch.Tensor]]]] = [
    (layer, layer_arguments),
    (attention_with_mask, lambda t: [torch.randn(s).to(t) for s in (*HEADS, (2, 1, 9, 11))]),
    (causal_attention, lambda t: [torch.randn(s).to(t) for s in HEADS]),
    (products, lambda t: [torch.randn(s).to(t) for s in ((5, 7), (7, 9), (9, 7), (5, 9))]),
]


def function_sizes(library: Path) -> dict[str, int]:
    """Bytes of each function in a library's symbol table."""
    command = [LLVM / "bin" / "llvm-readelf", "-sW", library]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in text.splitlines()]
    return {row[7]: int(row[2], 0) for row in rows if len(row) > 7 and row[3] == "FUNC"}


@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize(("function", "arguments"), CASES, ids=[f.__name__ for f, _ in CASES])
def test_functions_are_small(function, arguments, dtype, target: str, tmp_path: Path) -> None:
    torch._dynamo.reset()
    backend = Backend(execute=False)
    with torch.no_grad():
        torch.compile(function, backend=backend, fullgraph=True, dynamic=True)(*arguments(dtype))
    module = _buddy.Module(backend.modules[0].bytecode)
    module.pipeline(f"target={target}")
    library = tmp_path / "library.so"
    module.compile(str(library), shared=True)
    sizes = function_sizes(library)
    # The kernels are there: an entry alone would be small in any case.
    assert sum("omp_par" in name for name in sizes) > 0 and sum(sizes.values()) > 5000, sizes
    large = {name: size for name, size in sizes.items() if size >= LARGEST}
    assert not large, large
