"""Linear algebra in terms of factorizations."""

from __future__ import annotations

import torch

from .table import decomposes

aten = torch.ops.aten


@decomposes(aten.linalg_pinv.atol_rtol_tensor)
def pseudoinverse(
    a: torch.Tensor,
    *,
    atol: torch.Tensor | None = None,
    rtol: torch.Tensor | None = None,
    hermitian: bool = False,
) -> torch.Tensor:
    """Return the inverse on the space of singular values that are not about 0, as ATen does."""
    if a.numel() == 0:
        return torch.zeros((*a.shape[:-2], a.shape[-1], a.shape[-2]), dtype=a.dtype)
    epsilon = torch.finfo(a.dtype).eps * max(a.shape[-2:])
    if rtol is None:
        rtol = torch.full((), epsilon, dtype=torch.float64)
        if atol is not None:
            rtol = torch.where(atol > 0, torch.zeros((), dtype=torch.float64), rtol)
    if atol is None:
        atol = torch.zeros((), dtype=torch.float64)
    if hermitian:
        values, left = torch.linalg.eigh(a)
        right = left
    else:
        left, values, adjoint = torch.linalg.svd(a, full_matrices=False)
        right = adjoint.mH
    sizes = values.abs()
    limit = torch.maximum(atol.unsqueeze(-1), rtol.unsqueeze(-1) * sizes.amax(-1, keepdim=True))
    inverses = torch.where(sizes > limit, values.reciprocal(), 0).to(a.dtype)
    return torch.matmul(right * inverses.unsqueeze(-2), left.mH)
