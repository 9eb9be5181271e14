"""Two operators over a paged key/value cache, as a serving engine would register them.

`paged::reshape_and_cache` writes the rows of new tokens into the caches, `paged::attention` reads
each sequence's blocks through a table. Shapes: see lowerings.py. The kernels are PyTorch's.
"""

from __future__ import annotations

import torch


def _reshape_and_cache(
    k: torch.Tensor, v: torch.Tensor, kc: torch.Tensor, vc: torch.Tensor, slots: torch.Tensor
) -> None:
    kc.flatten(0, 1)[slots] = k
    vc.flatten(0, 1)[slots] = v


def _attention(
    q: torch.Tensor,
    kc: torch.Tensor,
    vc: torch.Tensor,
    table: torch.Tensor,
    start: torch.Tensor,
    lens: torch.Tensor,
    scale: float,
) -> torch.Tensor:
    out = torch.zeros_like(q)
    block, share = kc.shape[1], q.shape[1] // kc.shape[2]
    for i, (first, last, length) in enumerate(
        zip(start[:-1].tolist(), start[1:].tolist(), lens.tolist(), strict=True)
    ):
        pages = table[i, : -(-length // block)]
        k, v = (
            cache[pages].flatten(0, 1)[:length].repeat_interleave(share, 1).transpose(0, 1)
            for cache in (kc, vc)
        )
        scores = q[first:last].transpose(0, 1).float() @ k.mT.float() * scale
        position = torch.arange(length - (last - first), length)[:, None]
        scores = scores.masked_fill(torch.arange(length)[None] > position, -torch.inf)
        out[first:last] = (scores.softmax(-1) @ v.float()).transpose(0, 1).to(q.dtype)
    return out


_library = torch.library.Library("paged", "DEF")
_library.define(
    "reshape_and_cache(Tensor k, Tensor v, Tensor(a!) kc, Tensor(b!) vc, Tensor slots) -> ()"
)
_library.define(
    "attention(Tensor q, Tensor kc, Tensor vc, Tensor table, Tensor start, Tensor lens, "
    "float scale) -> Tensor"
)
_library.impl("reshape_and_cache", _reshape_and_cache, "CPU")
_library.impl("attention", _attention, "CPU")
torch.library.register_fake("paged::reshape_and_cache", lambda *args: None, lib=_library)
torch.library.register_fake("paged::attention", lambda q, *args: torch.empty_like(q), lib=_library)
