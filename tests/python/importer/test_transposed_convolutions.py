"""Transposed convolutions of all forms equal PyTorch's."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from harness import compare


def drawn(seed: int, spatial: int) -> tuple[list[int], list[int], dict[str, Any]]:
    """Shapes of an input and a weight, and other arguments by which some output is left."""
    draw = random.Random(seed)
    while True:
        groups = draw.choice([1, 1, 2])
        kernel = [draw.choice([1, 2, 3, 4, 5]) for _ in range(spatial)]
        stride = [draw.choice([1, 2, 2, 3, 4]) for _ in range(spatial)]
        dilation = [draw.choice([1, 1, 2, 3]) for _ in range(spatial)]
        padding = [draw.randint(0, 2) for _ in range(spatial)]
        extra = [draw.randrange(max(pair)) for pair in zip(stride, dilation, strict=True)]
        image = [draw.randint(3, 9) for _ in range(spatial)]
        options: dict[str, Any] = {
            "stride": stride, "padding": padding, "output_padding": extra, "groups": groups,
            "dilation": dilation,
        }  # fmt: skip
        shape = [draw.choice([1, 2]), groups * 3, *image]
        weight = [groups * 3, draw.choice([1, 4]), *kernel]
        try:
            function = getattr(F, f"conv_transpose{spatial}d")
            function(torch.zeros(shape), torch.zeros(weight), **options)
        except RuntimeError:  # No output is left.
            continue
        return shape, weight, options


@pytest.mark.parametrize("spatial", [1, 2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_random_forms(seed: int, spatial: int) -> None:
    torch.manual_seed(seed)
    shape, weight_shape, options = drawn(seed * 3 + spatial, spatial)
    convolve = getattr(F, f"conv_transpose{spatial}d")
    x, weight = torch.randn(shape), torch.randn(weight_shape)
    bias = torch.randn(weight_shape[1] * options["groups"])
    compare(lambda x, w, b: convolve(x, w, b, **options), x, weight, bias, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_dtypes(dtype: torch.dtype) -> None:
    x, weight = torch.randn(2, 5, 7, 6, dtype=dtype), torch.randn(5, 8, 4, 3, dtype=dtype)
    compare(
        lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1).relu(), x, weight,
        rtol=3e-2, atol=1e-1,
    )  # fmt: skip


def test_phases_without_taps() -> None:
    """Between the outputs that the kernel reaches there is only the bias."""
    x, weight, bias = torch.randn(1, 4, 5, 4), torch.randn(4, 6, 1, 2), torch.randn(6)
    for options in ({"stride": 3}, {"stride": 2, "dilation": 2}):
        compare(lambda x, w, b, o=options: F.conv_transpose2d(x, w, b, **o), x, weight, bias)


def test_one_program_for_all_images() -> None:
    layer = torch.nn.ConvTranspose2d(5, 9, 3, stride=2, padding=1, output_padding=1).eval()
    sizes = [(2, 5, 6), (3, 9, 4), (2, 17, 16)]
    inputs = [(torch.randn(n, 5, h, w), layer.weight, layer.bias) for n, h, w in sizes]
    compare(
        lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1, 1).sigmoid(), *inputs[0],
        dynamic=True, more=inputs[1:], rtol=1e-4, atol=1e-4,
    )  # fmt: skip


def test_empty_batch() -> None:
    x, weight, bias = torch.randn(0, 4, 5, 5), torch.randn(4, 3, 3, 3), torch.randn(3)
    compare(lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2), x, weight, bias)
