"""The LLaMA architecture as Buddy compiles it: one entry for prefill and decode, caches in place.

`Llama.forward(tokens, position, k_cache, v_cache)` continues a sequence of which `position` tokens
are already in the caches by `tokens`, and returns the last one's logits.  Prefill is a call
with the prompt's real length, decode a call with one token; nothing is padded or masked.

Submodules bear the names Hugging Face gives them (without the leading `model.`), so that a
checkpoint's tensors bind by name.  Rotary angles are computed in float32 whatever the dtype, norms
by `buddy.rms_norm`, attention by `buddy.attention` with grouped heads as they are.

Sources: Touvron et al., "LLaMA" (2023); Su et al., "RoFormer" (2021) for rotary embeddings; Ainslie
et al., "GQA" (2023); the config.json keys of Hugging Face transformers' LlamaConfig.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

import buddy.ops  # noqa: F401  (defines torch.ops.buddy)

_LARGEST = torch.finfo(torch.float32).max
_MOST_ELEMENTS = 1 << 48  # of one matrix: beyond this a size is damage, not a model


@dataclass(frozen=True)
class RopeConfig:
    """Rotary embedding: `theta` and one of three ways to stretch it to longer contexts."""

    theta: float = 10000.0
    kind: str = "default"  # "default", "linear" or "llama3"
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_context: int = 8192

    def __post_init__(self) -> None:
        for field in ("theta", "factor", "low_freq_factor", "high_freq_factor", "original_context"):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise ValueError(f"rope {field} is {value!r:.40}, expected a number")
            if not 0 < value <= _LARGEST:
                raise ValueError(f"rope {field} is {value!r:.40}, not a positive float32")
        if self.kind == "llama3" and self.high_freq_factor <= self.low_freq_factor:
            raise ValueError("rope high_freq_factor is not above low_freq_factor")

    def inverse_frequencies(self, head_dim: int) -> torch.Tensor:
        """Radians a position for each rotated pair: float32 [head_dim / 2]."""
        exponents = torch.arange(0, head_dim, 2, dtype=torch.int64).float() / head_dim
        frequencies = 1.0 / (self.theta**exponents)
        if self.kind == "default":
            return frequencies
        if self.kind == "linear":
            return frequencies / self.factor
        if self.kind == "llama3":
            return self._llama3(frequencies)
        raise ValueError(f"rope type '{self.kind}'")

    def _llama3(self, frequencies: torch.Tensor) -> torch.Tensor:
        """Long waves are stretched by `factor`, short ones kept, those between interpolated."""
        longest = self.original_context / self.low_freq_factor
        shortest = self.original_context / self.high_freq_factor
        wavelength = 2 * math.pi / frequencies
        stretched = torch.where(wavelength > longest, frequencies / self.factor, frequencies)
        smooth = (self.original_context / wavelength - self.low_freq_factor) / (
            self.high_freq_factor - self.low_freq_factor
        )
        between = (1 - smooth) * stretched / self.factor + smooth * stretched
        is_between = ~(wavelength < shortest) & ~(wavelength > longest)
        return torch.where(is_between, between, stretched)


@dataclass(frozen=True)
class LlamaConfig:
    """Sizes of a LLaMA; `context` is the longest sequence it was trained for."""

    vocab: int
    width: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    context: int
    norm_eps: float
    rope: RopeConfig = RopeConfig()
    tied: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    dtype: torch.dtype = torch.float32

    def __post_init__(self) -> None:
        for field in ("vocab", "width", "hidden", "layers", "heads", "kv_heads", "context"):
            if getattr(self, field) < 1:
                raise ValueError(f"{field} is {getattr(self, field)}, expected at least 1")
        if self.heads % self.kv_heads:
            raise ValueError(f"{self.heads} heads are no multiple of {self.kv_heads} kv heads")
        if self.head_dim < 2 or self.head_dim % 2:
            raise ValueError(f"head dimension {self.head_dim} is not even")
        elements = max(self.vocab, self.hidden, self.heads * self.head_dim) * self.width
        if elements > _MOST_ELEMENTS or self.context >= 1 << 31:
            raise ValueError("the sizes are too large for any model")
        if not 0 <= self.norm_eps <= _LARGEST:
            raise ValueError(f"norm_eps is {self.norm_eps}, expected a float32 of at least 0")


class RMSNorm(nn.Module):
    """`x / sqrt(mean(x²) + eps) * weight` over the last dimension."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.eps = config.norm_eps
        self.weight = nn.Parameter(torch.ones(config.width, dtype=config.dtype))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.buddy.rms_norm(x, list(self.weight.shape), self.weight, self.eps)


class Attention(nn.Module):
    """Self-attention over the cached positions and the new ones."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = config.heads, config.kv_heads, config.head_dim

        def linear(rows: int, columns: int) -> nn.Linear:
            return nn.Linear(columns, rows, bias=config.attention_bias, dtype=config.dtype)

        self.q_proj = linear(config.heads * config.head_dim, config.width)
        self.k_proj = linear(config.kv_heads * config.head_dim, config.width)
        self.v_proj = linear(config.kv_heads * config.head_dim, config.width)
        self.o_proj = linear(config.width, config.heads * config.head_dim)

    def forward(
        self,
        x: torch.Tensor,
        position: int,
        rotation: tuple[torch.Tensor, torch.Tensor],
        k_cache: torch.Tensor,
        v_cache: torch.Tensor,
    ) -> torch.Tensor:
        count = x.shape[0]
        q = self.q_proj(x).view(count, self.heads, self.head_dim)
        k = self.k_proj(x).view(count, self.kv_heads, self.head_dim)
        v = self.v_proj(x).view(count, self.kv_heads, self.head_dim)
        k_cache.narrow(1, position, count).copy_(rotate(k, *rotation).transpose(0, 1))
        v_cache.narrow(1, position, count).copy_(v.transpose(0, 1))
        y = torch.ops.buddy.attention(
            rotate(q, *rotation).transpose(0, 1),
            k_cache.narrow(1, 0, position + count),
            v_cache.narrow(1, 0, position + count),
            causal="bottom_right",
        )
        return self.o_proj(y.transpose(0, 1).reshape(count, self.heads * self.head_dim))


class MLP(nn.Module):
    """The gated feed-forward part."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()

        def linear(rows: int, columns: int) -> nn.Linear:
            return nn.Linear(columns, rows, bias=config.mlp_bias, dtype=config.dtype)

        self.gate_proj = linear(config.hidden, config.width)
        self.up_proj = linear(config.hidden, config.width)
        self.down_proj = linear(config.width, config.hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """One decoder layer."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(config)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = RMSNorm(config)
        self.mlp = MLP(config)

    def forward(
        self,
        x: torch.Tensor,
        position: int,
        rotation: tuple[torch.Tensor, torch.Tensor],
        k_cache: torch.Tensor,
        v_cache: torch.Tensor,
    ) -> torch.Tensor:
        x = x + self.self_attn(self.input_layernorm(x), position, rotation, k_cache, v_cache)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    """The whole decoder; `rope_inv_freq` is a buffer because GGUF files may bring their own."""

    rope_inv_freq: torch.Tensor

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab, config.width, dtype=config.dtype)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.norm = RMSNorm(config)
        if not config.tied:
            self.lm_head = nn.Linear(config.width, config.vocab, bias=False, dtype=config.dtype)
        self.register_buffer("rope_inv_freq", config.rope.inverse_frequencies(config.head_dim))

    def forward(
        self,
        tokens: torch.Tensor,
        position: int,
        k_cache: list[torch.Tensor],
        v_cache: list[torch.Tensor],
    ) -> dict[str, torch.Tensor]:
        """Append `tokens` (int64 [T], T >= 1) at `position`; return the last one's logits.

        `k_cache` and `v_cache` hold one tensor [kv_heads, C, head_dim] a layer, position + T <= C;
        rows position … position + T - 1 are written, rows after them are not read.
        The result is `logits`, [1, vocab], float32.
        """
        count = tokens.shape[0]
        torch._check(position >= 0)
        torch._check(position + count <= k_cache[0].shape[1])
        x = self.embed_tokens(tokens)
        positions = torch.arange(position, position + count, device=x.device)
        angles = positions.float()[:, None] * self.rope_inv_freq
        rotation = angles.cos().to(x.dtype)[:, None], angles.sin().to(x.dtype)[:, None]
        for layer, k, v in zip(self.layers, k_cache, v_cache, strict=True):
            x = layer(x, position, rotation, k, v)
        last = self.norm(x[-1:])
        head = self.embed_tokens.weight if self.config.tied else self.lm_head.weight
        return {"logits": F.linear(last, head).float()}


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Turn the pairs (x[i], x[i + D/2]) of the last dimension by the angles of cos and sin."""
    first, second = x.chunk(2, -1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


def example_inputs(config: LlamaConfig) -> tuple[Any, ...]:
    """Arguments to trace `Llama.forward` with; sizes are arbitrary, all different, none 0 or 1."""
    count, position, capacity = 7, 5, 40

    def caches() -> list[torch.Tensor]:
        shape = (config.kv_heads, capacity, config.head_dim)
        return [torch.zeros(shape, dtype=config.dtype) for _ in range(config.layers)]

    return torch.zeros(count, dtype=torch.int64), position, caches(), caches()


def dynamic_shapes(config: LlamaConfig) -> dict[str, Any]:
    """What may differ between calls: the number of tokens, the position and the capacity."""
    capacity = torch.export.Dim("capacity", min=1)
    return {
        "tokens": {0: torch.export.Dim("count", min=1)},
        "position": torch.export.Dim.DYNAMIC,
        "k_cache": [{1: capacity}] * config.layers,
        "v_cache": [{1: capacity}] * config.layers,
    }
