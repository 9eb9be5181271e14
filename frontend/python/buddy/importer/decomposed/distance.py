"""Distances between rows, and products of three tensors."""

from __future__ import annotations

import math
from typing import Any

import torch

from .table import decomposes, opmath

aten = torch.ops.aten


def _norm(difference: torch.Tensor, p: float) -> torch.Tensor:
    """The p-norm over the last dimension; p = 0 counts what is not zero."""
    if p == 0:
        return (difference != 0).to(difference.dtype).sum(-1)
    size = difference.abs()
    if p == math.inf:
        if difference.shape[-1] == 0:
            return size.sum(-1)
        return size.amax(-1)
    if p == 1:
        return size.sum(-1)
    if p == 2:
        return (difference * difference).sum(-1).sqrt()
    return size.pow(p).sum(-1).pow(1 / p)


def _euclidean(x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor:
    """|a - b|² = |a|² - 2 ab + |b|², as one product of matrices."""
    norm1, norm2 = x1.pow(2).sum(-1, True), x2.pow(2).sum(-1, True)
    left = torch.cat([x1 * -2, norm1, torch.ones_like(norm1)], -1)
    right = torch.cat([x2, torch.ones_like(norm2), norm2], -1)
    return left.matmul(right.mT).clamp_min(0).sqrt()


@decomposes(aten._cdist_forward.default)
def cdist_forward(
    x1: torch.Tensor, x2: torch.Tensor, p: float, compute_mode: int | None
) -> torch.Tensor:
    """compute_mode: 0 products for more than 25 rows, 1 always, 2 never; for p = 2 only."""
    many = x1.shape[-2] > 25 or x2.shape[-2] > 25
    if p == 2 and (compute_mode == 1 or (not compute_mode and many)) and x1.shape[-1] != 0:
        return _euclidean(x1, x2)
    return _norm(x1.unsqueeze(-2) - x2.unsqueeze(-3), p)


@decomposes(aten._pdist_forward.default)
def pdist_forward(self: torch.Tensor, p: float = 2.0) -> torch.Tensor:
    """The distances of rows i < j, [n (n - 1) / 2]."""
    rows = self.shape[0]
    if rows <= 1:
        return self.new_empty((0,))
    pair = torch.arange(rows * (rows - 1) // 2, device=self.device)
    middle = rows - 0.5
    i = (middle - (middle * middle - 2 * pair.double() - 1).sqrt()).long()
    j = pair - rows * i + ((i * (i + 1)) >> 1) + i + 1
    return _norm(self.index_select(0, i) - self.index_select(0, j), p)


@decomposes(aten._trilinear.default)
def trilinear(
    i1: torch.Tensor,
    i2: torch.Tensor,
    i3: torch.Tensor,
    expand1: list[int],
    expand2: list[int],
    expand3: list[int],
    sumdim: list[int],
    unroll_dim: int = 1,
) -> Any:
    """The sum of products over `sumdim`; each tensor lacks the dimensions that `expand` names."""
    rank = i1.dim() + len(expand1)
    dtype = i1.dtype
    parts = []
    for x, missing in ((i1, expand1), (i2, expand2), (i3, expand3)):
        parts += [opmath(x), [d for d in range(rank) if d not in missing]]
    kept = [d for d in range(rank) if d not in sumdim]
    return torch.einsum(*parts, kept).to(dtype)
