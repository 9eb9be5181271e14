"""Operators of ours for what ATen would take apart: `torch.ops.buddy.attention` and `.rms_norm`.

They work in eager mode on the CPU, under fake tensors and with autograd, so that a graph which
holds them is a normal PyTorch graph; the importer lowers each to one operation.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

CAUSAL = ("none", "top_left", "bottom_right")


def _check_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: str) -> None:
    torch._check(causal in CAUSAL, lambda: f"buddy.attention: causal={causal!r}, not in {CAUSAL}")
    torch._check(
        min(q.dim(), k.dim(), v.dim()) >= 3,
        lambda: "buddy.attention: q, k and v need at least the dimensions [heads, length, size]",
    )
    torch._check(
        q.shape[-1] == k.shape[-1],
        lambda: f"buddy.attention: head sizes of q ({q.shape[-1]}) and k ({k.shape[-1]}) differ",
    )
    torch._check(
        k.shape[-2] == v.shape[-2],
        lambda: f"buddy.attention: lengths of k ({k.shape[-2]}) and v ({v.shape[-2]}) differ",
    )
    torch._check(
        q.shape[-3] % k.shape[-3] == 0 and k.shape[-3] == v.shape[-3],
        lambda: (
            f"buddy.attention: {q.shape[-3]} heads of q are no multiple of "
            f"{k.shape[-3]} and {v.shape[-3]} of k and v"
        ),
    )


def _scale(q: torch.Tensor, scale: float | None) -> float:
    return 1.0 / math.sqrt(q.shape[-1]) if scale is None else scale


def _causal_mask(t: int, s: int, causal: str, device: torch.device) -> torch.Tensor:
    ones = torch.ones(t, s, dtype=torch.bool, device=device)
    return ones.tril(diagonal=s - t if causal == "bottom_right" else 0)


def _repeat_heads(x: torch.Tensor, heads: int) -> torch.Tensor:
    return x.repeat_interleave(heads // x.shape[-3], dim=-3)


def _combined_mask(
    q: torch.Tensor, k: torch.Tensor, mask: torch.Tensor | None, causal: str
) -> torch.Tensor | None:
    """Return one mask for both the given one and causality."""
    if causal == "none":
        return mask
    allowed = _causal_mask(q.shape[-2], k.shape[-2], causal, q.device)
    if mask is None:
        return allowed
    if mask.dtype is torch.bool:
        return mask & allowed
    return mask.masked_fill(~allowed, -math.inf)


@torch.library.custom_op("buddy::attention", mutates_args=(), device_types="cpu")
def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None = None,
    causal: str = "none",
    scale: float | None = None,
) -> torch.Tensor:
    """Scaled dot-product attention with grouped heads.

    q: [B..., Hq, T, D]; k: [B..., Hkv, S, D]; v: [B..., Hkv, S, Dv]; Hq is a multiple of Hkv.
    mask: bool (True = attend) or float (added to the scores), broadcast to [B..., Hq, T, S].
    causal: "top_left": query i sees keys 0..i; "bottom_right": the last query sees all keys.
    scale: factor of the scores; None is 1/sqrt(D).
    Returns [B..., Hq, T, Dv].
    """
    _check_attention(q, k, v, causal)
    heads = q.shape[-3]
    mask = _combined_mask(q, k, mask, causal)
    result = F.scaled_dot_product_attention(
        q, _repeat_heads(k, heads), _repeat_heads(v, heads), attn_mask=mask, scale=scale
    )
    return result.contiguous()


@attention.register_fake
def _attention_fake(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None = None,
    causal: str = "none",
    scale: float | None = None,
) -> torch.Tensor:
    _check_attention(q, k, v, causal)
    batch = torch.broadcast_shapes(q.shape[:-3], k.shape[:-3], v.shape[:-3])
    return q.new_empty((*batch, *q.shape[-3:-1], v.shape[-1]))


def _attention_setup(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    q, k, v, mask, causal, scale = inputs
    ctx.causal, ctx.scale, ctx.has_mask = causal, scale, mask is not None
    ctx.save_for_backward(q, k, v, *([mask] if mask is not None else []))


def _sum_to_heads(x: torch.Tensor, heads: int) -> torch.Tensor:
    """Sum the gradient of repeated heads."""
    return x.unflatten(-3, (heads, x.shape[-3] // heads)).sum(-3)


def _attention_backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    q, k, v, *rest = ctx.saved_tensors
    mask = rest[0] if ctx.has_mask else None
    heads, kv_heads = q.shape[-3], k.shape[-3]
    keys, values = _repeat_heads(k, heads), _repeat_heads(v, heads)
    factor = _scale(q, ctx.scale)
    scores = q @ keys.transpose(-1, -2) * factor
    combined = _combined_mask(q, k, mask, ctx.causal)
    if combined is not None and combined.dtype is torch.bool:
        scores = scores.masked_fill(~combined, -math.inf)
    elif combined is not None:
        scores = scores + combined
    # A row without any key attends to nothing: its weights are 0, not NaN.
    weights = torch.softmax(scores, -1).nan_to_num(0.0)
    grad_weights = grad @ values.transpose(-1, -2)
    grad_scores = weights * (grad_weights - (grad_weights * weights).sum(-1, keepdim=True))
    grad_mask = None
    if mask is not None and mask.is_floating_point() and ctx.needs_input_grad[3]:
        grad_mask = grad_scores.sum_to_size(mask.shape)
    grad_q = (grad_scores @ keys * factor).sum_to_size(q.shape)
    grad_k = _sum_to_heads(grad_scores.transpose(-1, -2) @ q * factor, kv_heads)
    grad_v = _sum_to_heads(weights.transpose(-1, -2) @ grad, kv_heads)
    return (
        grad_q,
        grad_k.sum_to_size(k.shape),
        grad_v.sum_to_size(v.shape),
        grad_mask,
        None,
        None,
    )


attention.register_autograd(_attention_backward, setup_context=_attention_setup)


@torch.library.custom_op("buddy::rms_norm", mutates_args=(), device_types="cpu")
def rms_norm(
    x: torch.Tensor,
    normalized_shape: list[int],
    weight: torch.Tensor | None = None,
    eps: float | None = None,
) -> torch.Tensor:
    """x / sqrt(mean(x², over the trailing dimensions) + eps) * weight, computed in f32 or f64.

    normalized_shape: sizes of those dimensions, weight's shape. eps None is the machine epsilon
    of x's dtype, as in `torch.nn.functional.rms_norm`.
    """
    return torch.rms_norm(x, normalized_shape, weight, eps).clone(
        memory_format=torch.contiguous_format
    )


@rms_norm.register_fake
def _rms_norm_fake(
    x: torch.Tensor,
    normalized_shape: list[int],
    weight: torch.Tensor | None = None,
    eps: float | None = None,
) -> torch.Tensor:
    return x.new_empty(x.shape)


def _rms_norm_setup(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    x, normalized_shape, weight, eps = inputs
    ctx.dims, ctx.has_weight = len(normalized_shape), weight is not None
    ctx.eps = torch.finfo(x.dtype).eps if eps is None else eps
    ctx.save_for_backward(x, *([weight] if weight is not None else []))


def _rms_norm_backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    x, *rest = ctx.saved_tensors
    compute = torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype
    wide, grad_wide = x.to(compute), grad.to(compute)
    dims = list(range(-ctx.dims, 0))
    inverse = (wide.square().mean(dims, keepdim=True) + ctx.eps).rsqrt()
    normal = wide * inverse
    grad_normal = grad_wide * rest[0].to(compute) if ctx.has_weight else grad_wide
    grad_x = inverse * (grad_normal - normal * (grad_normal * normal).mean(dims, keepdim=True))
    grad_weight = None
    if ctx.has_weight:
        grad_weight = (grad_wide * normal).sum_to_size(rest[0].shape).to(rest[0].dtype)
    return grad_x.to(x.dtype), None, grad_weight, None


rms_norm.register_autograd(_rms_norm_backward, setup_context=_rms_norm_setup)
