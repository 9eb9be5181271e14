"""Random operators in terms of `rand`, `randn` and their kin; a generator of one's own stays."""

from __future__ import annotations

from typing import Any

import torch

from .table import decomposes

aten = torch.ops.aten


@decomposes(aten.bernoulli.p)
def _bernoulli(x: torch.Tensor, p: float = 0.5, *, generator: Any = None) -> Any:
    """Return 1 with probability p, else 0."""
    if generator is not None:
        return NotImplemented
    return (torch.rand_like(x, dtype=torch.float32) < p).to(x.dtype)


@decomposes(aten.normal.Tensor_float, aten.normal.float_Tensor, aten.normal.Tensor_Tensor)
def _normal(mean: Any, std: Any = 1.0, *, generator: Any = None) -> Any:
    """Return normally distributed numbers, the mean or the deviation of each given."""
    if generator is not None:
        return NotImplemented
    given = [x for x in (mean, std) if isinstance(x, torch.Tensor)]
    dtype = torch.promote_types(given[0].dtype, given[-1].dtype)
    shape = torch.broadcast_shapes(*(x.shape for x in given))
    return (torch.randn(shape, dtype=dtype) * std + mean).to(dtype)


@decomposes(aten.normal_functional.default)
def _normal_in_shape(
    x: torch.Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Any = None
) -> Any:
    """Return normally distributed numbers in the shape of x."""
    return NotImplemented if generator is not None else torch.randn_like(x) * std + mean


@decomposes(aten.uniform.default)
def _uniform(x: torch.Tensor, low: float = 0.0, high: float = 1.0, *, generator: Any = None) -> Any:
    """Return numbers of [low, high) in the shape of x."""
    return NotImplemented if generator is not None else torch.rand_like(x) * (high - low) + low


@decomposes(aten.normal.float_float)
def _normal_of_numbers(
    mean: float, std: float, size: Any, *, generator: Any = None, dtype: Any = None, **_: Any
) -> Any:
    if generator is not None:
        return NotImplemented
    return torch.randn(size, dtype=dtype) * std + mean


@decomposes(aten.randperm.default)
def _permutation(n: int, *, dtype: torch.dtype = torch.int64, **_: Any) -> torch.Tensor:
    """Return the order of n random numbers; two are equal once in 2^53 / n^2 calls."""
    return torch.rand(n, dtype=torch.float64).argsort().to(dtype)


@decomposes(aten.multinomial.default)
def _multinomial(
    weights: torch.Tensor, count: int, replacement: bool = False, *, generator: Any = None
) -> Any:
    """Return indices drawn by weights along the last dimension.

    With replacement by inversion of the cumulated weights; without, the largest of weights
    divided by exponential noise (Efraimidis and Spirakis, 2006).
    """
    if generator is not None:
        return NotImplemented
    weights = weights.to(torch.float64)
    allowed = ((weights >= 0) & weights.isfinite()).all() & (weights.sum(-1) > 0).all()
    torch._assert_async(allowed, "multinomial: weights must be finite, not negative, not all zero")
    if replacement:
        cumulated = weights.cumsum(-1)
        drawn = torch.rand((*weights.shape[:-1], count), dtype=torch.float64)
        places = torch.searchsorted(cumulated, drawn * cumulated[..., -1:], right=True)
        return places.clamp(max=weights.shape[-1] - 1)
    # Of (0, 1], so that the noise is no zero divided by.
    noise = -torch.log1p(-torch.rand_like(weights)) + torch.finfo(torch.float64).tiny
    return torch.topk(weights / noise, count, dim=-1).indices


@decomposes(aten.rrelu_with_noise_functional.default)
def _rrelu(
    x: torch.Tensor,
    noise: torch.Tensor,
    lower: float = 0.125,
    upper: float = 1.0 / 3,
    training: bool = False,
    generator: Any = None,
) -> Any:
    """Return (result, noise): in training the slope of negative elements is random."""
    if generator is not None:
        return NotImplemented
    if not training:
        return torch.where(x > 0, x, x * ((lower + upper) / 2)), noise.clone()
    slope = torch.rand_like(x) * (upper - lower) + lower
    noise = torch.where(x > 0, 1, slope).to(x.dtype)
    return x * noise, noise
