"""The decomposition table that both ways in share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from . import registry

aten = torch.ops.aten

# Operators with a rule that keeps them whole although core ATen would take them apart.
_KEPT = (
    aten._scaled_dot_product_flash_attention_for_cpu.default,
    aten.scaled_dot_product_attention.default,
    aten.rms_norm.default,
    aten.silu.default,
    aten.hardswish.default,
    aten.hardsigmoid.default,
    aten.softplus.default,
    aten.leaky_relu.default,
    aten.elu.default,
    aten.gelu.default,
    aten.unbind.int,
    aten.split.Tensor,
    aten.stack.default,
    aten.index_copy.default,
    aten.index_fill.int_Scalar,
    aten.index_fill.int_Tensor,
    aten.addmm.default,
    aten.baddbmm.default,
    aten.slice_scatter.default,
    aten.select_scatter.default,
    aten.tril.default,
    aten.triu.default,
    aten.floor_divide.default,
    aten.native_layer_norm.default,
    aten.native_group_norm.default,
    aten._softmax.default,
    aten.searchsorted.Tensor,
    aten.bucketize.Tensor,
    aten.median.default,
    aten.unfold.default,
    aten.randn.default,
    # Their decomposition fails on constants, which are no fake tensors.
    aten.detach.default,
    aten.lift.default,
    aten.lift_fresh.default,
)


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Return operator -> decomposition, for both ways in.

    Core ATen's decompositions without the operators that are kept whole, and PyTorch's other ones
    for operators that have no rule here.

    For AOTAutograd: `aot_autograd(decompositions=decompositions())`. For torch.export:
    `import_exported_program` uses it.
    """
    from . import lowerings  # noqa: F401  (registers the rules)

    table = dict(torch.export.default_decompositions().items())
    for kept in _KEPT:
        table.pop(kept, None)
    for op, function in torch._decomp.decomposition_table.items():
        if op not in table and op not in _KEPT and _wanted(op):
            table[op] = function
    table[aten.pow.Tensor_Scalar] = _power_of_bools
    table[aten.mvlgamma.default] = _multivariate_lgamma
    table[aten.bernoulli.p] = _bernoulli
    for overload in ("Tensor_float", "float_Tensor", "Tensor_Tensor"):
        table[getattr(aten.normal, overload)] = _normal
    table[aten.normal.float_float] = _normal_of_numbers
    table[aten.normal_functional.default] = _normal_in_shape
    table[aten.uniform.default] = _uniform
    table[aten.randperm.default] = _permutation
    table[aten.multinomial.default] = _multinomial
    table[aten.rrelu_with_noise_functional.default] = _rrelu
    return table


def _power_of_bools(base: torch.Tensor, exponent: Any) -> Any:
    """Return bool ** bool as bool, as the kernel does; the fake tensor's would be int64."""
    if base.dtype is not torch.bool or not isinstance(exponent, bool):
        return NotImplemented
    return base.clone() if exponent else torch.ones_like(base)


def _multivariate_lgamma(x: torch.Tensor, p: int) -> torch.Tensor:
    """Return the logarithm of the multivariate gamma function of dimension p."""
    dtype = x.dtype if x.dtype.is_floating_point else torch.get_default_dtype()
    shifts = [(1.0 - i) / 2 for i in range(1, p + 1)]
    total = torch.stack([torch.lgamma(x.to(dtype) + shift) for shift in shifts]).sum(0)
    return total + p * (p - 1) / 4 * math.log(math.pi)


def _bernoulli(x: torch.Tensor, p: float = 0.5, *, generator: Any = None) -> Any:
    """Return 1 with probability p, else 0."""
    if generator is not None:
        return NotImplemented
    return (torch.rand_like(x, dtype=torch.float32) < p).to(x.dtype)


def _normal(mean: Any, std: Any = 1.0, *, generator: Any = None) -> Any:
    """Return normally distributed numbers, the mean or the deviation of each given."""
    if generator is not None:
        return NotImplemented
    given = [x for x in (mean, std) if isinstance(x, torch.Tensor)]
    dtype = torch.promote_types(given[0].dtype, given[-1].dtype)
    shape = torch.broadcast_shapes(*(x.shape for x in given))
    return (torch.randn(shape, dtype=dtype) * std + mean).to(dtype)


def _normal_in_shape(
    x: torch.Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Any = None
) -> Any:
    """Return normally distributed numbers in the shape of x."""
    return NotImplemented if generator is not None else torch.randn_like(x) * std + mean


def _uniform(x: torch.Tensor, low: float = 0.0, high: float = 1.0, *, generator: Any = None) -> Any:
    """Return numbers of [low, high) in the shape of x."""
    return NotImplemented if generator is not None else torch.rand_like(x) * (high - low) + low


def _normal_of_numbers(
    mean: float, std: float, size: Any, *, generator: Any = None, dtype: Any = None, **_: Any
) -> Any:
    if generator is not None:
        return NotImplemented
    return torch.randn(size, dtype=dtype) * std + mean


def _permutation(n: int, *, dtype: torch.dtype = torch.int64, **_: Any) -> torch.Tensor:
    """Return the order of n random numbers; two are equal once in 2^53 / n^2 calls."""
    return torch.rand(n, dtype=torch.float64).argsort().to(dtype)


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
    if replacement:
        cumulated = weights.cumsum(-1)
        drawn = torch.rand((*weights.shape[:-1], count), dtype=torch.float64)
        places = torch.searchsorted(cumulated, drawn * cumulated[..., -1:], right=True)
        return places.clamp(max=weights.shape[-1] - 1)
    # Of (0, 1], so that the noise is no zero divided by.
    noise = -torch.log1p(-torch.rand_like(weights)) + torch.finfo(torch.float64).tiny
    return torch.topk(weights / noise, count, dim=-1).indices


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


def _wanted(op: Any) -> bool:
    """Tell whether an operator without a rule is one that graphs may hold: it changes nothing."""
    if not isinstance(op, torch._ops.OpOverload) or registry.find(op, "linalg") is not None:
        return False
    schema = op._schema
    return not schema.is_mutable and "out" not in schema.overload_name.split("_")
