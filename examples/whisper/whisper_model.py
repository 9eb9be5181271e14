"""Whisper for `buddy build`: two entry points over shared weights and caches.

    listen(samples)           half a minute of sound; fills the cross-attention caches
    speak(tokens, position)   the next tokens of the text; returns the likelihood of what follows

`factory()` makes them of the folder that the environment variable WHISPER_MODEL names: what
`save_pretrained` writes of a WhisperForConditionalGeneration (config.json, model.safetensors,
generation_config.json); without it, of OpenAI's Whisper base as two Python packages bring it.

Sources: Radford et al., "Robust Speech Recognition via Large-Scale Weak Supervision", 2022; the
mel scale is Slaney's (Auditory Toolbox, 1998).  Modules are named as in Hugging Face's checkpoints.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import buddy.ops  # noqa: F401  (torch.ops.buddy.attention)
import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import nn
from torch.export import Dim

RATE, SECONDS = 16000, 30
SAMPLES = RATE * SECONDS
FFT, HOP = 400, 160  # samples
MODEL_VARIABLE = "WHISPER_MODEL"


@dataclass(frozen=True)
class WhisperConfig:
    """Sizes of a model; tokens that are never chosen, always and right after the prompt."""

    width: int
    mels: int
    heads: int
    encoder_layers: int
    decoder_layers: int
    hidden: int
    vocab: int
    frames: int  # that the encoder hands on: half the spectrogram's
    context: int  # tokens
    prompt: int = 4  # tokens before the text: start, language, task, no time stamps
    suppressed: list[int] = field(default_factory=list)
    suppressed_at_begin: list[int] = field(default_factory=list)

    @staticmethod
    def read(folder: Path) -> WhisperConfig:
        """From config.json and generation_config.json."""
        keys = json.loads((folder / "config.json").read_text())
        for key, needed in {"model_type": "whisper", "activation_function": "gelu"}.items():
            if keys.get(key) != needed:
                raise ValueError(f"{folder}: {key} is {keys.get(key)!r}, not {needed!r}")
        if keys["encoder_ffn_dim"] != keys["decoder_ffn_dim"]:
            raise ValueError(f"{folder}: encoder and decoder of different hidden sizes")
        if keys["encoder_attention_heads"] != keys["decoder_attention_heads"]:
            raise ValueError(f"{folder}: encoder and decoder of different numbers of heads")
        generation = folder / "generation_config.json"
        chosen = json.loads(generation.read_text()) if generation.exists() else keys
        return WhisperConfig(
            width=keys["d_model"],
            mels=keys["num_mel_bins"],
            heads=keys["encoder_attention_heads"],
            encoder_layers=keys["encoder_layers"],
            decoder_layers=keys["decoder_layers"],
            hidden=keys["encoder_ffn_dim"],
            vocab=keys["vocab_size"],
            frames=keys["max_source_positions"],
            context=keys["max_target_positions"],
            suppressed=chosen.get("suppress_tokens") or [],
            suppressed_at_begin=chosen.get("begin_suppress_tokens") or [],
        )


def mel_filters(mels: int) -> torch.Tensor:
    """Triangles over the bins of a Fourier transform, of equal area, [FFT / 2 + 1, mels].

    Slaney's scale: linear below 1000 Hz, logarithmic above.
    """
    break_hz, step_hz, log_step = 1000.0, 200.0 / 3.0, math.log(6.4) / 27.0

    def to_hz(mel: torch.Tensor) -> torch.Tensor:
        above = break_hz * torch.exp(log_step * (mel - break_hz / step_hz))
        return torch.where(mel < break_hz / step_hz, mel * step_hz, above)

    top = break_hz / step_hz + math.log(RATE / 2 / break_hz) / log_step
    edges = to_hz(torch.linspace(0, top, mels + 2, dtype=torch.float64))
    bins = torch.linspace(0, RATE / 2, FFT // 2 + 1, dtype=torch.float64)
    low, middle, high = edges[:-2], edges[1:-1], edges[2:]
    rising = (bins[:, None] - low) / (middle - low)
    falling = (high - bins[:, None]) / (high - middle)
    return (torch.minimum(rising, falling).clamp(min=0) * 2 / (high - low)).float()


class Attention(nn.Module):
    """Multi-head attention; keys have no bias."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.k_proj = nn.Linear(width, width, bias=False)
        self.v_proj = nn.Linear(width, width)
        self.q_proj = nn.Linear(width, width)
        self.out_proj = nn.Linear(width, width)

    def split(self, x: torch.Tensor) -> torch.Tensor:
        """[T, width] as [heads, T, width / heads]."""
        return x.view(x.shape[0], self.heads, -1).transpose(0, 1)

    def forward(
        self, x: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False
    ) -> torch.Tensor:
        """Of x [T, width] over keys and values [heads, S, width / heads]."""
        q = self.split(self.q_proj(x))
        mode = "bottom_right" if causal else "none"
        y = torch.ops.buddy.attention(q, k, v, causal=mode)
        return self.out_proj(y.transpose(0, 1).reshape(x.shape))


class Layer(nn.Module):
    """One layer of the encoder or, with attention to it, of the decoder."""

    def __init__(self, config: WhisperConfig, crosses: bool) -> None:
        super().__init__()
        self.self_attn = Attention(config.width, config.heads)
        self.self_attn_layer_norm = nn.LayerNorm(config.width)
        if crosses:
            self.encoder_attn = Attention(config.width, config.heads)
            self.encoder_attn_layer_norm = nn.LayerNorm(config.width)
        self.fc1 = nn.Linear(config.width, config.hidden)
        self.fc2 = nn.Linear(config.hidden, config.width)
        self.final_layer_norm = nn.LayerNorm(config.width)

    def feed_forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.fc2(F.gelu(self.fc1(self.final_layer_norm(x))))


class Encoder(nn.Module):
    """Spectrogram to what the decoder attends to."""

    def __init__(self, config: WhisperConfig) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(config.mels, config.width, 3, padding=1)
        self.conv2 = nn.Conv1d(config.width, config.width, 3, stride=2, padding=1)
        self.embed_positions = nn.Embedding(config.frames, config.width)
        self.layers = nn.ModuleList(Layer(config, False) for _ in range(config.encoder_layers))
        self.layer_norm = nn.LayerNorm(config.width)

    def forward(self, mel: torch.Tensor) -> torch.Tensor:
        """[mels, 2 frames] to [frames, width]."""
        x = F.gelu(self.conv2(F.gelu(self.conv1(mel[None]))))[0].T + self.embed_positions.weight
        for layer in self.layers:
            attention = layer.self_attn
            y = layer.self_attn_layer_norm(x)
            k, v = attention.split(attention.k_proj(y)), attention.split(attention.v_proj(y))
            x = layer.feed_forward(x + attention(y, k, v))
        return self.layer_norm(x)


class Decoder(nn.Module):
    """Tokens to the state before the output matrix, which is the embedding's."""

    def __init__(self, config: WhisperConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab, config.width)
        self.embed_positions = nn.Embedding(config.context, config.width)
        self.layers = nn.ModuleList(Layer(config, True) for _ in range(config.decoder_layers))
        self.layer_norm = nn.LayerNorm(config.width)


class Core(nn.Module):
    """What Hugging Face calls `model`."""

    def __init__(self, config: WhisperConfig) -> None:
        super().__init__()
        self.encoder, self.decoder = Encoder(config), Decoder(config)


class Whisper(nn.Module):
    """Speech to text, f32. The caches are the caller's: one tensor for each decoder layer."""

    filters: torch.Tensor
    window: torch.Tensor
    barred: torch.Tensor
    barred_at_begin: torch.Tensor

    def __init__(self, config: WhisperConfig) -> None:
        super().__init__()
        self.config = config
        self.model = Core(config)
        for name, value in {
            "filters": mel_filters(config.mels),
            "window": torch.hann_window(FFT),
            "barred": _barred(config.vocab, config.suppressed),
            "barred_at_begin": _barred(config.vocab, config.suppressed_at_begin),
        }.items():
            self.register_buffer(name, value, persistent=False)

    def spectrogram(self, samples: torch.Tensor) -> torch.Tensor:
        """Logarithms of energies in mel bands, [mels, samples / HOP], scaled to about -1 … 1."""
        padded = F.pad(samples[None], (FFT // 2, FFT // 2), mode="reflect")[0]
        frames = padded.unfold(0, FFT, HOP)[:-1] * self.window
        spectrum = torch.view_as_real(torch.fft.rfft(frames))
        energy = torch.log10((spectrum.square().sum(-1) @ self.filters).clamp(min=1e-10))
        return (torch.maximum(energy, energy.max() - 8).T + 4) / 4

    def listen(
        self, samples: torch.Tensor, cross_k: list[torch.Tensor], cross_v: list[torch.Tensor]
    ) -> None:
        """Encode samples (f32 at 16 kHz, 2 HOP frames of them), -1 … 1; silence behind the end.

        cross_k, cross_v: written; [heads, frames, width / heads] each.
        """
        x = self.model.encoder(self.spectrogram(samples))
        for layer, k, v in zip(self.model.decoder.layers, cross_k, cross_v, strict=True):
            attention = layer.encoder_attn
            k.copy_(attention.split(attention.k_proj(x)))
            v.copy_(attention.split(attention.v_proj(x)))

    def speak(
        self,
        tokens: torch.Tensor,
        position: int,
        self_k: list[torch.Tensor],
        self_v: list[torch.Tensor],
        cross_k: list[torch.Tensor],
        cross_v: list[torch.Tensor],
    ) -> dict[str, torch.Tensor]:
        """Append `tokens` (int64 [T]) at `position`; returns `logits` [vocab] of what follows.

        self_k, self_v: [heads, context, width / heads] each; rows position … are written.
        """
        decoder, count = self.model.decoder, tokens.shape[0]
        torch._check(position >= 0)
        torch._check(position + count <= self.config.context)
        positions = decoder.embed_positions.weight.narrow(0, position, count)
        x = decoder.embed_tokens(tokens) + positions
        for layer, k, v, memory_k, memory_v in zip(
            decoder.layers, self_k, self_v, cross_k, cross_v, strict=True
        ):
            attention, y = layer.self_attn, layer.self_attn_layer_norm(x)
            k.narrow(1, position, count).copy_(attention.split(attention.k_proj(y)))
            v.narrow(1, position, count).copy_(attention.split(attention.v_proj(y)))
            end = position + count
            x = x + attention(y, k.narrow(1, 0, end), v.narrow(1, 0, end), causal=True)
            x = x + layer.encoder_attn(layer.encoder_attn_layer_norm(x), memory_k, memory_v)
            x = layer.feed_forward(x)
        last = decoder.layer_norm(x[-1])
        logits = F.linear(last, decoder.embed_tokens.weight) + self.barred
        at_begin = torch.full((), position + count) == self.config.prompt
        return {"logits": torch.where(at_begin, logits + self.barred_at_begin, logits)}


def _barred(vocab: int, tokens: list[int]) -> torch.Tensor:
    """What added to logits makes `tokens` impossible."""
    return torch.zeros(vocab).index_fill(0, torch.tensor(tokens, dtype=torch.int64), -torch.inf)


def entries(model: Whisper) -> dict[str, tuple[Any, ...]]:
    """The entry points as `buddy build` takes them."""
    config = model.config
    size = config.width // config.heads

    def caches(length: int) -> list[torch.Tensor]:
        return [torch.zeros(config.heads, length, size) for _ in range(config.decoder_layers)]

    cross = caches(config.frames), caches(config.frames)
    own = caches(config.context), caches(config.context)
    shapes = {
        "tokens": {0: Dim("count", min=1, max=config.context)},
        "position": Dim.DYNAMIC,
        **dict.fromkeys(("self_k", "self_v", "cross_k", "cross_v"), [None] * config.decoder_layers),
    }
    samples = torch.zeros(2 * HOP * config.frames)
    return {
        "listen": (model.listen, (samples, *cross)),
        "speak": (model.speak, (torch.zeros(3, dtype=torch.int64), 2, *own, *cross), shapes),
    }


def load(folder: Path) -> Whisper:
    """The model of a folder as `save_pretrained` writes it; ValueError names what is wrong."""
    model = Whisper(WhisperConfig.read(folder)).eval()
    with safe_open(folder / "model.safetensors", framework="pt") as file:
        values = {
            name: file.get_tensor(name).float() for name in file.keys() if name != "proj_out.weight"
        }
    try:
        model.load_state_dict(values)
    except RuntimeError as error:
        raise ValueError(f"{folder}: {error}") from None
    return model.requires_grad_(False)


def factory() -> dict[str, tuple[Any, ...]]:
    """What `buddy build whisper_model:factory` compiles."""
    folder = os.environ.get(MODEL_VARIABLE)
    if folder:
        return entries(load(Path(folder)))
    from ctranslate2_model import load_packages

    return entries(load_packages())
