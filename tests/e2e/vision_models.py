"""Small networks over images, with the shapes of the well-known ones and a few layers each."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn


class Conv(nn.Sequential):
    """Convolution without bias, batch norm, ReLU."""

    def __init__(self, c_in: int, c_out: int, size: int | tuple[int, int] = 1, stride: int = 1):
        sizes = (size, size) if isinstance(size, int) else size
        padding = (sizes[0] // 2, sizes[1] // 2)
        super().__init__(
            nn.Conv2d(c_in, c_out, sizes, stride, padding, bias=False),
            nn.BatchNorm2d(c_out),
            nn.ReLU(inplace=True),
        )


class Branches(nn.ModuleList):
    """Several paths from one input, joined along the channels."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([path(x) for path in self], 1)


def inception() -> nn.Module:
    """Branches of several kernel sizes, factorised ones too, as in Inception-v3."""
    return nn.Sequential(
        Conv(3, 8, 3, 2),
        nn.MaxPool2d(3, 2),
        Branches([
            Conv(8, 6),
            nn.Sequential(Conv(8, 4), Conv(4, 6, 5)),
            nn.Sequential(Conv(8, 4), Conv(4, 6, (1, 7)), Conv(6, 6, (7, 1))),
            nn.Sequential(nn.AvgPool2d(3, 1, 1), Conv(8, 5)),
        ]),
        Branches([
            Conv(23, 8, 3, 2),
            nn.Sequential(Conv(23, 4), Branches([Conv(4, 4, (1, 3), 2), Conv(4, 4, (3, 1), 2)])),
            nn.MaxPool2d(3, 2, 1),
        ]),
        nn.AdaptiveAvgPool2d(1), nn.Dropout(), nn.Flatten(), nn.Linear(39, 10),
    )  # fmt: skip


class DenseLayer(nn.Module):
    def __init__(self, channels: int, growth: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, 2 * growth, 1, bias=False),
            nn.BatchNorm2d(2 * growth), nn.ReLU(),
            nn.Conv2d(2 * growth, growth, 3, padding=1, bias=False),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, self.body(x)], 1)


def densenet() -> nn.Module:
    """Two dense blocks with a transition between them."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
        DenseLayer(8, 4), DenseLayer(12, 4), DenseLayer(16, 4),
        nn.BatchNorm2d(20), nn.ReLU(), nn.Conv2d(20, 10, 1, bias=False), nn.AvgPool2d(2),
        DenseLayer(10, 4), DenseLayer(14, 4),
        nn.BatchNorm2d(18), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(18, 10),
    )  # fmt: skip


class Detector(nn.Module):
    """Classes and decoded boxes of anchors at three scales, as SSD has them."""

    CLASSES, SHAPES = 5, 3  # anchors differ in shape at each place

    def __init__(self, side: int = 40) -> None:
        super().__init__()
        self.scales = nn.ModuleList(
            [
                nn.Sequential(Conv(3, 8, 3, 2), Conv(8, 12, 3, 2)),
                Conv(12, 16, 3, 2),
                nn.Sequential(Conv(16, 8), Conv(8, 10, 3, 2)),
            ]
        )
        channels = (12, 16, 10)
        self.classes = nn.ModuleList(
            nn.Conv2d(c, self.SHAPES * self.CLASSES, 3, padding=1) for c in channels
        )
        self.boxes = nn.ModuleList(nn.Conv2d(c, self.SHAPES * 4, 3, padding=1) for c in channels)
        anchors = []
        for scale in range(3):
            cells = -(-side // (4 << scale))
            places = (torch.arange(cells) + 0.5) / cells
            size = 0.2 * (scale + 1)
            for ratio in (1.0, 2.0, 0.5):
                y, x = torch.meshgrid(places, places, indexing="ij")
                root = ratio**0.5
                box = [x, y, torch.full_like(x, size * root), torch.full_like(x, size / root)]
                anchors.append(torch.stack(box, -1))
        by_place = [torch.stack(anchors[i : i + 3], 2).flatten(0, 2) for i in (0, 3, 6)]
        self.register_buffer("anchors", torch.cat(by_place))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        features = []
        for scale in self.scales:
            x = scale(x)
            features.append(F.normalize(x, dim=1) * 10)

        def flat(heads: nn.ModuleList, size: int) -> torch.Tensor:
            parts = [head(x) for head, x in zip(heads, features, strict=True)]
            return torch.cat(
                [part.permute(0, 2, 3, 1).reshape(len(part), -1, size) for part in parts], 1
            )

        scores, moved = flat(self.classes, self.CLASSES).softmax(-1), flat(self.boxes, 4)
        centre = self.anchors[:, :2] + moved[..., :2] * 0.1 * self.anchors[:, 2:]
        size = self.anchors[:, 2:] * (moved[..., 2:] * 0.2).exp()
        boxes = torch.cat([centre - size / 2, centre + size / 2], -1)
        return scores, boxes.clamp(0, 1)


# ---- diffusion -------------------------------------------------------------------------------


class ResidualBlock(nn.Module):
    """GroupNorm, SiLU, convolution, twice; the time's embedding, if any, in between."""

    def __init__(self, c_in: int, c_out: int, time: int = 0) -> None:
        super().__init__()
        self.first = nn.Sequential(
            nn.GroupNorm(4, c_in), nn.SiLU(), nn.Conv2d(c_in, c_out, 3, padding=1)
        )
        self.time = nn.Linear(time, c_out) if time else None
        self.second = nn.Sequential(
            nn.GroupNorm(4, c_out), nn.SiLU(), nn.Dropout(0.0),
            nn.Conv2d(c_out, c_out, 3, padding=1),
        )  # fmt: skip
        self.skip = nn.Conv2d(c_in, c_out, 1) if c_in != c_out else nn.Identity()

    def forward(self, x: torch.Tensor, time: torch.Tensor | None = None) -> torch.Tensor:
        h = self.first(x)
        if self.time is not None and time is not None:
            h = h + self.time(F.silu(time))[:, :, None, None]
        return self.skip(x) + self.second(h)


class Attention(nn.Module):
    """Tokens [batch, n, size] attend to those of `context`, or to themselves."""

    def __init__(self, size: int, context: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(size, size, bias=False)
        self.k, self.v = (nn.Linear(context, size, bias=False) for _ in range(2))
        self.out = nn.Linear(size, size)

    def forward(self, x: torch.Tensor, context: torch.Tensor | None = None) -> torch.Tensor:
        context = x if context is None else context
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in (self.q(x), self.k(context), self.v(context))
        )
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class TransformerBlock(nn.Module):
    """Pixels as tokens: self attention, attention to the text, gated feed-forward."""

    def __init__(self, channels: int, context: int, heads: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(4, channels, eps=1e-6)
        self.norms = nn.ModuleList(nn.LayerNorm(channels) for _ in range(3))
        self.itself = Attention(channels, channels, heads)
        self.text = Attention(channels, context, heads)
        self.wide, self.narrow = (
            nn.Linear(channels, 4 * channels),
            nn.Linear(2 * channels, channels),
        )
        self.out = nn.Conv2d(channels, channels, 1)

    def forward(self, image: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        x = self.norm(image).flatten(2).transpose(1, 2)
        x = x + self.itself(self.norms[0](x))
        x = x + self.text(self.norms[1](x), context)
        value, gate = self.wide(self.norms[2](x)).chunk(2, -1)
        x = x + self.narrow(value * F.gelu(gate))
        return image + self.out(x.transpose(1, 2).unflatten(-1, image.shape[-2:]))


class UNet(nn.Module):
    """Latents, a time step and a text's embedding to noise, as Stable Diffusion's."""

    def __init__(self, width: int = 16, context: int = 12) -> None:
        super().__init__()
        self.width, time, wide = width, 2 * width, 2 * width
        self.time = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
        self.stem = nn.Conv2d(4, width, 3, padding=1)
        self.down = ResidualBlock(width, width, time)
        self.text = TransformerBlock(width, context, 2)
        self.shrink = nn.Conv2d(width, width, 3, 2, 1)
        self.middle = ResidualBlock(width, wide, time)
        self.grow = nn.Conv2d(wide, wide, 3, padding=1)
        self.up = ResidualBlock(wide + width, width, time)
        self.end = nn.Sequential(
            nn.GroupNorm(4, width), nn.SiLU(), nn.Conv2d(width, 4, 3, padding=1)
        )

    def forward(
        self, latents: torch.Tensor, step: torch.Tensor, text: torch.Tensor
    ) -> torch.Tensor:
        half = self.width // 2
        rates = torch.exp(-math.log(10000) * torch.arange(half, dtype=torch.float32) / half)
        angles = step[:, None].float() * rates
        waves = torch.cat([angles.cos(), angles.sin()], -1).to(latents.dtype)
        time = self.time(waves)
        x = self.stem(latents)
        skip = self.text(self.down(x, time), text)
        x = self.middle(self.shrink(skip), time)
        x = self.grow(F.interpolate(x, size=skip.shape[-2:], mode="nearest"))
        return self.end(self.up(torch.cat([x, skip], 1), time))


class PixelAttention(nn.Module):
    """One head over all pixels, with a residual: the VAE's."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(4, channels, eps=1e-6)
        self.attention = Attention(channels, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = self.norm(x).flatten(2).transpose(1, 2)
        return x + self.attention(tokens).transpose(1, 2).reshape(x.shape)


def vae_decoder() -> nn.Module:
    """Latents to an image of four times the side."""
    return nn.Sequential(
        nn.Conv2d(4, 4, 1), nn.Conv2d(4, 16, 3, padding=1),
        PixelAttention(16), nn.Upsample(scale_factor=2.0), nn.Conv2d(16, 16, 3, padding=1),
        ResidualBlock(16, 8), nn.Upsample(scale_factor=2.0), nn.Conv2d(8, 8, 3, padding=1),
        nn.GroupNorm(4, 8, eps=1e-6), nn.SiLU(), nn.Conv2d(8, 3, 3, padding=1),
    )  # fmt: skip
