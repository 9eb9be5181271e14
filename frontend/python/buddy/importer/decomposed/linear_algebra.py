"""Linear algebra in terms of arithmetic and factorizations."""

from __future__ import annotations

from typing import Any

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


@decomposes(aten.linalg_cross.default)
def cross(a: torch.Tensor, b: torch.Tensor, *, dim: int = -1) -> torch.Tensor:
    """Return the cross product, rounded to the dtype after each operation as ATen's kernel does."""
    a, b = torch.broadcast_tensors(a, b)
    (a0, a1, a2), (b0, b1, b2) = a.unbind(dim), b.unbind(dim)
    return torch.stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0], dim)


@decomposes(aten.addr.default)
def addr(
    x: torch.Tensor, vec1: torch.Tensor, vec2: torch.Tensor, *, beta: Any = 1, alpha: Any = 1
) -> torch.Tensor:
    """Return beta * x + alpha * vec1 * vec2ᵀ; beta = 0 ignores x.

    Narrow floats are rounded after each operation, numbers before, as ATen's kernel does.
    """
    if not {x.dtype, vec1.dtype, vec2.dtype} <= {torch.bfloat16, torch.float16}:
        return torch._refs.addr(x, vec1, vec2, beta=beta, alpha=alpha)
    dtype = torch.promote_types(torch.promote_types(x.dtype, vec1.dtype), vec2.dtype)
    column = vec1.to(dtype).unsqueeze(1)
    if alpha != 1:
        column = torch.full((), alpha, dtype=dtype) * column
    product = column * vec2.to(dtype)
    if beta == 0:
        return product
    x = x.to(dtype)
    return (x if beta == 1 else torch.full((), beta, dtype=dtype) * x) + product
