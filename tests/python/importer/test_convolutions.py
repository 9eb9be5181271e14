"""Convolutions of all forms equal PyTorch's: as products of windows and as loops."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from harness import compare

TOLERANCES = {
    torch.float32: 2e-4, torch.float64: 1e-10, torch.bfloat16: 3e-2, torch.float16: 5e-3,
}  # fmt: skip


def drawn(seed: int, spatial: int) -> tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]:
    """Shapes of an input and a weight that fit, and the other arguments."""
    draw = random.Random(seed)
    groups = draw.choice([1, 1, 1, 2, 3])
    inputs, outputs = (groups * draw.choice([1, 2, 4, 7, 16]) for _ in range(2))
    kernel = [draw.choice([1, 1, 2, 3, 5]) for _ in range(spatial)]
    options: dict[str, Any] = {
        "stride": [draw.choice([1, 1, 2, 3]) for _ in range(spatial)],
        "padding": [draw.randint(0, 2) for _ in range(spatial)],
        "dilation": [draw.choice([1, 1, 2]) for _ in range(spatial)],
        "groups": groups,
    }
    least = [(k - 1) * d + 1 for k, d in zip(kernel, options["dilation"], strict=True)]
    image = [low + draw.choice([0, 1, 6, 16, 19]) for low in least]
    batch = draw.choice([1, 1, 3])
    return (batch, inputs, *image), (outputs, inputs // groups, *kernel), options


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("spatial", [1, 2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_random_forms(seed: int, spatial: int, dtype: torch.dtype) -> None:
    torch.manual_seed(seed)
    shape, weight_shape, options = drawn(seed * 3 + spatial, spatial)
    convolve = getattr(F, f"conv{spatial}d")
    x, weight = torch.randn(shape, dtype=dtype), torch.randn(weight_shape, dtype=dtype)
    bias = torch.randn(weight_shape[0], dtype=dtype)
    tolerance = TOLERANCES[dtype]
    compare(
        lambda x, w, b: convolve(x, w, b, **options).relu(), x, weight, bias,
        rtol=tolerance, atol=tolerance * 4,
    )  # fmt: skip


def test_integers() -> None:
    x, weight = torch.randint(-9, 9, (2, 3, 8, 9)), torch.randint(-9, 9, (5, 3, 3, 2))
    compare(lambda x, w: F.conv2d(x, w, padding=1), x, weight)


@pytest.mark.parametrize("batch", [1, 2])
def test_columns_larger_than_the_cache(batch: int) -> None:
    """Made in parts, of which the last is smaller."""
    x, weight = torch.randn(batch, 16, 301, 303), torch.randn(7, 16, 3, 3)
    compare(lambda x, w: F.conv2d(x, w, padding=1), x, weight, rtol=1e-3, atol=1e-3)


def test_channels_last_weights_and_strided_inputs() -> None:
    x = torch.randn(2, 9, 11, 8).permute(0, 3, 1, 2)
    weight = torch.randn(6, 8, 3, 3).to(memory_format=torch.channels_last)
    compare(lambda x, w: F.conv2d(x, w), x, weight, rtol=2e-4, atol=2e-4)
    compare(lambda x, w: F.conv2d(x[:, :, ::2, 1:], w), x, weight, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("shape", [(0, 5, 9, 9), (2, 5, 2, 9), (1, 0, 9, 9)])
def test_empty(shape: tuple[int, ...]) -> None:
    weight = torch.randn(6, shape[1], 3, 3)
    compare(lambda x, w: F.conv2d(x, w, padding=(1, 0)), torch.randn(shape), weight)


def test_one_program_for_all_batches() -> None:
    weight = torch.randn(9, 5, 3, 3)
    inputs = [(torch.randn(n, 5, 14, 15), weight) for n in (3, 1, 2, 7)]
    convolve = lambda x, w: F.conv2d(x, w, stride=(1, 2))  # noqa: E731
    compare(convolve, *inputs[0], dynamic=True, more=inputs[1:], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kernel", [1, 3])
def test_one_program_for_all_images(kernel: int) -> None:
    weight = torch.randn(9, 5, kernel, kernel)
    sizes = [(2, 17, 19), (2, 40, 23), (3, 8, 8), (2, 3, 50)]
    inputs = [(torch.randn(n, 5, h, w), weight) for n, h, w in sizes]
    compare(
        lambda x, w: F.conv2d(x, w, padding=1).sigmoid(), *inputs[0],
        dynamic=True, more=inputs[1:], rtol=1e-4, atol=1e-4,
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("columns", [1, 15, 16, 33, 100])
def test_reductions_of_columns(columns: int, dtype: torch.dtype) -> None:
    """Vectors lie across the columns that are reduced."""
    x = torch.randn(3, 7, columns).mul(9).to(dtype)
    functions = [
        lambda x: x.sum(1), lambda x: x.amax((0, 1)), lambda x: x.prod(0), lambda x: x.argmin(1),
    ]  # fmt: skip
    for function in functions:
        compare(function, x, rtol=2e-2 if dtype is torch.bfloat16 else 1e-5, atol=1e-5)


@pytest.mark.parametrize("stride", [1, 2])
def test_pooling_windows(stride: int) -> None:
    x = torch.randn(2, 3, 20, 37)
    compare(lambda x: F.max_pool2d(x, 3, stride, 1), x)
    compare(lambda x: F.avg_pool2d(x, (2, 3), stride), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("image", [(7, 7), (14, 14), (6, 33), (3, 16), (9, 5), (40, 28)])
def test_windows_in_rows_of_many_lengths(image: tuple[int, int], dtype: torch.dtype) -> None:
    """Vectors of points lie in one row of the output or in several, and end in the middle."""
    tolerance = TOLERANCES[dtype]
    for channels, kernel, options in [
        (5, (3, 3), {"padding": 1}),
        (4, (3, 2), {"padding": (0, 1), "stride": 2}),
        (32, (3, 3), {"padding": 2, "dilation": 2}),
        (3, (5, 3), {"padding": (4, 1), "stride": (1, 3)}),
    ]:
        x = torch.randn(2, channels, *image, dtype=dtype)
        weight = torch.randn(9, channels, *kernel, dtype=dtype)
        bias = torch.randn(9, dtype=dtype)
        compare(
            lambda x, w, b, o=options: F.conv2d(x, w, b, **o).relu(), x, weight, bias,
            rtol=tolerance, atol=tolerance * 4,
        )  # fmt: skip


def test_padded_image_with_other_readers() -> None:
    """An image that is padded for two convolutions and read besides."""
    x, weight = torch.randn(1, 6, 14, 14), torch.randn(8, 6, 3, 3)

    def function(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        padded = F.pad(x.relu(), (1, 1, 1, 1))
        return F.conv2d(padded, w), F.conv2d(padded, w, stride=2), padded, F.conv2d(x, w, padding=1)

    compare(function, x, weight, rtol=1e-4, atol=1e-4)


def test_bottleneck_of_a_residual_network() -> None:
    """Norm, activation and residual are computed with the products; the input lives on."""
    torch.manual_seed(0)
    convolutions = [
        torch.nn.Conv2d(24, 12, 1, bias=False),
        torch.nn.Conv2d(12, 12, 3, padding=1, bias=False),
        torch.nn.Conv2d(12, 24, 1, bias=False),
    ]
    layers = [
        torch.nn.Sequential(c, torch.nn.BatchNorm2d(c.out_channels)).eval() for c in convolutions
    ]
    for layer in layers:
        layer[1].running_mean.normal_()
        layer[1].running_var.uniform_(0.5, 2)

    def function(x: torch.Tensor) -> torch.Tensor:
        y = layers[0](x).relu()
        return (layers[2](layers[1](y).relu()) + x).relu()

    with torch.no_grad():
        compare(function, torch.randn(2, 24, 15, 14), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("factor", [2, 3, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int16])
def test_pixels_in_turns(factor: int, dtype: torch.dtype) -> None:
    x = torch.randn(2, 2 * factor**2, 3, 37).mul(9).to(dtype)
    compare(lambda x: F.pixel_shuffle(x, factor) + 1, x)
