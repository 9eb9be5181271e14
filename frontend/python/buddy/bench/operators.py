"""`buddy bench operators`: many single operators beside eager, to find what is slow.

Each case is one operator, or two that are used together, on up to some million elements of f32
(unless its name says otherwise), compiled through torch.compile and called without Dynamo's guards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from buddy.bench.harness import OURS, Call, Case
from buddy.bench.operations import Operation, Settings
from buddy.bench.ours import compile_through

_ROWS, _COLUMNS = 256, 4096


class _Inputs:
    """Reproducible tensors by kind."""

    def __init__(self) -> None:
        self._generator = torch.Generator().manual_seed(0)

    def normal(self, *shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=self._generator)

    def uniform(self, *shape: int) -> torch.Tensor:
        return torch.rand(shape, generator=self._generator)

    def below(self, limit: int, *shape: int) -> torch.Tensor:
        return torch.randint(limit, shape, generator=self._generator)

    def x(self) -> torch.Tensor:
        return self.normal(_ROWS, _COLUMNS)

    def positive(self) -> torch.Tensor:
        return self.x().abs() + 0.1

    def places(self) -> torch.Tensor:
        return self.below(_ROWS, _ROWS, _COLUMNS)

    def image(self) -> torch.Tensor:
        return self.normal(4, 64, 56, 56)


Make = Callable[[_Inputs], Sequence[torch.Tensor]]
Table = dict[str, tuple[Callable[..., Any], Make]]


def _x(f: _Inputs) -> list[torch.Tensor]:
    return [f.x()]


def _xx(f: _Inputs) -> list[torch.Tensor]:
    return [f.x(), f.x()]


def _positive(f: _Inputs) -> list[torch.Tensor]:
    return [f.positive()]


def _image(f: _Inputs) -> list[torch.Tensor]:
    return [f.image()]


def _placed(f: _Inputs) -> list[torch.Tensor]:
    return [f.x(), f.places(), f.x()]


def _of_rows(f: _Inputs) -> list[torch.Tensor]:
    return [f.x(), f.below(_ROWS, 2 * _ROWS), f.normal(2 * _ROWS, _COLUMNS)]


def _square(size: int, count: int = 1) -> Make:
    return lambda f: [f.normal(size, size) for _ in range(count)]


def _batch(*shape: int, count: int = 1) -> Make:
    return lambda f: [f.normal(*shape) for _ in range(count)]


def _filters(*shape: int) -> Make:
    return lambda f: [f.image(), f.normal(*shape)]


_POINTWISE: Table = {
    "add": (torch.add, _xx),
    "add column": (torch.add, lambda f: [f.x(), f.normal(_ROWS, 1)]),
    "add transposed": (lambda a, b: a.t() + b, _square(1024, 2)),
    "where": (torch.where, lambda f: [f.x() > 0, f.x(), f.x()]),
    "clamp": (lambda x: x.clamp(-1, 1), _x),
    "exp": (torch.exp, _x),
    "log": (torch.log, _positive),
    "sin": (torch.sin, _x),
    "tanh": (torch.tanh, _x),
    "erf": (torch.erf, _x),
    "atan2": (torch.atan2, _xx),
    "pow": (torch.pow, lambda f: [f.positive(), f.x()]),
    "gelu": (F.gelu, _x),
    "silu": (F.silu, _x),
    "softplus": (F.softplus, _x),
    "lgamma": (torch.lgamma, _positive),
    "remainder": (torch.remainder, lambda f: [f.x(), f.positive()]),
    "exp f64": (torch.exp, lambda f: [f.x().double()]),
    "add bf16": (torch.add, lambda f: [f.x().bfloat16(), f.x().bfloat16()]),
    "divide i64": (lambda a, b: a // b, lambda f: [f.places(), f.places() + 1]),
    "to bf16": (lambda x: x.bfloat16(), _x),
    "multiply complex": (lambda a, b: torch.view_as_complex(a) * torch.view_as_complex(b),
                         _batch(_ROWS, _COLUMNS // 2, 2, count=2)),
}  # fmt: skip
_REDUCTIONS: Table = {
    "sum": (torch.sum, _x),
    "sum of rows": (lambda x: x.sum(1), _x),
    "sum of columns": (lambda x: x.sum(0), _x),
    "sum of channels": (lambda x: x.sum((0, 2, 3)), _image),
    "mean of images": (lambda x: x.mean((2, 3)), _image),
    "max of rows": (lambda x: x.max(1), _x),
    "argmax of columns": (lambda x: x.argmax(0), _x),
    "var of rows": (lambda x: x.var(1), _x),
    "any of rows": (lambda x: (x > 3).any(1), _x),
    "logsumexp": (lambda x: x.logsumexp(1), _x),
    "softmax": (lambda x: x.softmax(1), _x),
    "softmax of columns": (lambda x: x.softmax(0), _x),
    "layer_norm": (lambda x: F.layer_norm(x, x.shape[1:]), _x),
    "group_norm": (lambda x: F.group_norm(x, 8), _image),
    "batch_norm": (lambda x: F.batch_norm(x, None, None, training=True), _image),
    "cross_entropy": (F.cross_entropy, lambda f: [f.x(), f.below(_ROWS, _ROWS)]),
}
_ORDER: Table = {
    "cumsum of rows": (lambda x: x.cumsum(1), _x),
    "cumsum of columns": (lambda x: x.cumsum(0), _x),
    "cummax": (lambda x: x.cummax(1), _x),
    "sort": (lambda x: x.sort(1), _x),
    "topk 50": (lambda x: x.topk(50), _x),
    "topk 2000": (lambda x: x.topk(2000), _x),
    "median": (lambda x: x.median(1), _x),
    "mode": (lambda x: x.mode(1), lambda f: [f.places()]),
    "searchsorted": (torch.searchsorted, lambda f: [f.normal(_COLUMNS).sort().values, f.x()]),
}
_INDEXING: Table = {
    "gather": (lambda x, i: x.gather(1, i), lambda f: [f.x(), f.places()]),
    "index_select": (lambda x, i: x.index_select(0, i), lambda f: _of_rows(f)[:2]),
    "index of rows": (lambda x, i: x[i], lambda f: _of_rows(f)[:2]),
    "scatter": (lambda x, i, y: x.scatter(1, i, y), _placed),
    "scatter_add": (lambda x, i, y: x.scatter_add(1, i, y), _placed),
    "index_add": (lambda x, i, y: x.index_add(0, i, y), _of_rows),
    "index_put": (lambda x, i, y: x.index_put((i,), y, accumulate=True), _of_rows),
    "embedding": (F.embedding, lambda f: [f.below(_ROWS, _ROWS, 64), f.normal(_ROWS, 512)]),
    "embedding_bag": (F.embedding_bag, lambda f: [f.below(_ROWS, _ROWS, 64),
                                                  f.normal(_ROWS, 512)]),
}  # fmt: skip
_MOVEMENT: Table = {
    "transpose": (lambda x: x.t().contiguous(), _square(1024)),
    "channels last": (lambda x: x.permute(0, 2, 3, 1).contiguous(), _image),
    "cat": (lambda a, b: torch.cat([a, b], 1), _xx),
    "stack": (lambda a, b: torch.stack([a, b], -1), _xx),
    "repeat": (lambda x: x.repeat(2, 2), _x),
    "flip": (lambda x: x.flip(1), _x),
    "roll": (lambda x: x.roll(7, 1), _x),
    "every other": (lambda x: x[:, ::2] + 1, _x),
    "pad": (lambda x: F.pad(x, (1, 1, 1, 1)), _image),
    "pad by reflection": (lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"), _image),
    "slice_scatter": (lambda x: torch.slice_scatter(x, x[:100] * 2, 0, 3, 103), _x),
}
_IMAGES: Table = {
    "max_pool2d": (lambda x: F.max_pool2d(x, 3, 2, 1), _image),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, 1, 1), _image),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, 7), _image),
    "nearest": (lambda x: F.interpolate(x, scale_factor=2.0), _image),
    "bilinear": (lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"), _image),
    "bicubic": (lambda x: F.interpolate(x, scale_factor=2.0, mode="bicubic"), _image),
    "grid_sample": (lambda x, g: F.grid_sample(x, g, align_corners=False),
                    lambda f: [f.image(), f.uniform(4, 56, 56, 2) * 2 - 1]),
    "unfold": (lambda x: F.unfold(x, 3), _image),
    "fold": (lambda x: F.fold(x, (56, 56), 3), _batch(4, 576, 54 * 54)),
    "conv2d 3x3": (lambda x, w: F.conv2d(x, w, padding=1), _filters(64, 64, 3, 3)),
    "conv2d 1x1": (F.conv2d, _filters(256, 64, 1, 1)),
    "conv2d of stride 2": (lambda x, w: F.conv2d(x, w, None, 2, 1), _filters(128, 64, 3, 3)),
    "conv2d of groups": (lambda x, w: F.conv2d(x, w, padding=1, groups=4), _filters(64, 16, 3, 3)),
    "conv2d depthwise": (lambda x, w: F.conv2d(x, w, padding=1, groups=64), _filters(64, 1, 3, 3)),
    "conv_transpose2d 2x2": (lambda x, w: F.conv_transpose2d(x, w, stride=2),
                             _filters(64, 32, 2, 2)),
    "conv_transpose2d 4x4": (lambda x, w: F.conv_transpose2d(x, w, None, 2, 1),
                             _filters(64, 32, 4, 4)),
    "conv1d": (lambda x, w: F.conv1d(x, w, padding=1),
               lambda f: [f.normal(4, 80, 1000), f.normal(256, 80, 3)]),
    "conv3d": (lambda x, w: F.conv3d(x, w, padding=1),
               lambda f: [f.normal(1, 16, 16, 32, 32), f.normal(32, 16, 3, 3, 3)]),
}  # fmt: skip
_ALGEBRA: Table = {
    "mm": (torch.mm, _square(512, 2)),
    "mm f64": (lambda a, b: a.double() @ b.double(), _square(512, 2)),
    "mm complex": (lambda a, b: torch.complex(a, b) @ torch.complex(b, a), _square(256, 2)),
    "bmm": (torch.bmm, _batch(8, 256, 256, count=2)),
    "cdist": (torch.cdist, _batch(512, 64, count=2)),
    "attention": (F.scaled_dot_product_attention, _batch(2, 8, 256, 64, count=3)),
    "fft": (lambda x: torch.view_as_real(torch.fft.fft(x)), _batch(_ROWS, 1024)),
    "rfft": (lambda x: torch.view_as_real(torch.fft.rfft(x)), _batch(_ROWS, 1024)),
    "inv": (torch.linalg.inv, _batch(16, 64, 64)),
    "svd": (torch.linalg.svdvals, _batch(8, 64, 64)),
    "qr": (torch.linalg.qr, _batch(8, 64, 64)),
}

GROUPS: dict[str, Table] = {
    "pointwise": _POINTWISE,
    "reductions": _REDUCTIONS,
    "order": _ORDER,
    "indexing": _INDEXING,
    "movement": _MOVEMENT,
    "images": _IMAGES,
    "algebra": _ALGEBRA,
}


def operators(settings: Settings) -> list[Operation]:
    """The cases, named "<group>: <operator>"."""
    return [
        _operator(group, name, function, make, settings)
        for group, table in GROUPS.items()
        for name, (function, make) in table.items()
    ]


def _operator(
    group: str, name: str, function: Callable[..., Any], make: Make, settings: Settings
) -> Operation:
    def calls() -> dict[str, Call]:
        inputs = tuple(make(_Inputs()))
        backends = {OURS: "buddy"} | ({"inductor": "inductor"} if settings.inductor else {})
        found: dict[str, Call] = {
            name: compile_through(backend, function, inputs, settings.threads)(inputs)
            for name, backend in backends.items()
        }
        found["eager"] = lambda: _first(function(*inputs))
        return found

    return Operation(Case(f"{group}: {name}", "f32", group=group), calls)


def _first(result: Any) -> torch.Tensor:
    return result if isinstance(result, torch.Tensor) else result[0]
