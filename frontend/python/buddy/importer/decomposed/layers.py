"""The transformer encoder's layer, which PyTorch has one inference kernel for."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

import buddy.ops  # noqa: F401  (defines torch.ops.buddy)

from .table import decomposes

aten = torch.ops.aten


@decomposes(aten._transformer_encoder_layer_fwd.default)
def transformer_encoder_layer(
    x: torch.Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    proj_weight: torch.Tensor,
    proj_bias: torch.Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: torch.Tensor,
    norm_bias_1: torch.Tensor,
    norm_weight_2: torch.Tensor,
    norm_bias_2: torch.Tensor,
    ffn_weight_1: torch.Tensor,
    ffn_bias_1: torch.Tensor,
    ffn_weight_2: torch.Tensor,
    ffn_bias_2: torch.Tensor,
    mask: torch.Tensor | None = None,
    mask_type: int | None = None,
) -> Any:
    """x: [batch, time, embed_dim]; mask: true where a key is not seen.

    mask_type: 0 for [time, time], 1 for [batch, time] keys, 2 for [batch, heads, time, time].
    """
    if x.is_nested or x.dim() != 3:
        return NotImplemented
    seen = None
    if mask is not None:
        if mask.dtype is not torch.bool or mask_type not in (0, 1, 2):
            return NotImplemented
        seen = mask.logical_not()
        if mask_type == 1:
            seen = seen[:, None, None, :]

    def norm_1(y: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(y, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def norm_2(y: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(y, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    def attend(y: torch.Tensor) -> torch.Tensor:
        qkv = F.linear(y, qkv_weight, qkv_bias).unflatten(-1, (3, num_heads, -1))
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        out = torch.ops.buddy.attention(q, k, v, seen, "none", None)
        return F.linear(out.transpose(1, 2).flatten(2), proj_weight, proj_bias)

    def feed_forward(y: torch.Tensor) -> torch.Tensor:
        y = F.linear(y, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(y) if use_gelu else F.relu(y), ffn_weight_2, ffn_bias_2)

    if norm_first:
        x = x + attend(norm_1(x))
        return x + feed_forward(norm_2(x))
    x = norm_1(x + attend(x))
    return norm_2(x + feed_forward(x))
