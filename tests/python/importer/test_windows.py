"""Windows over inputs of sizes known at the call only: what does not fit is not read or written."""

import random

import pytest
import torch
import torch.nn.functional as F
from harness import compare


def drawn(kind, seed):
    """Return (function of an input, spatial rank) with random window parameters."""
    draw = random.Random(seed)
    spatial = {"max_pool1d": 1, "avg_pool1d": 1, "conv1d": 1, "unfold": 1, "max_pool3d": 3}.get(
        kind, 2
    )
    kernel, stride = ([draw.randint(1, 4) for _ in range(spatial)] for _ in range(2))
    dilation = [draw.randint(1, 3) for _ in range(spatial)]
    padding = [draw.randint(0, size // 2) for size in kernel]
    ceil_mode, flag = draw.random() < 0.5, draw.random() < 0.5
    groups = draw.choice([1, 2])
    weight = torch.randn(4, 4 // groups, *kernel)
    if kind == "max_pool_indices":
        return lambda x: F.max_pool2d(x, kernel, stride, padding, dilation, ceil_mode, True), 2
    if kind.startswith("max_pool"):
        return lambda x: getattr(F, kind)(x, kernel, stride, padding, dilation, ceil_mode), spatial
    if kind.startswith("avg_pool"):
        return lambda x: getattr(F, kind)(x, kernel, stride, padding, ceil_mode, flag), spatial
    if kind.startswith("conv_transpose"):
        extra = [step - 1 for step in stride]
        return lambda x: F.conv_transpose2d(
            x, weight, None, stride, padding, extra, groups, dilation
        ), 2
    if kind.startswith("conv"):
        return lambda x: getattr(F, kind)(
            x, weight, None, stride, padding, dilation, groups
        ), spatial
    if kind == "unfold":
        return lambda x: x.unfold(2, kernel[0], stride[0]), 1
    if kind == "im2col":
        return lambda x: F.unfold(x, kernel, dilation, padding, stride), 2
    if kind == "adaptive_avg_pool":
        return lambda x: F.adaptive_avg_pool2d(x, kernel), 2
    if kind == "reflect":
        return lambda x: F.pad(x, (1, 2, 3, 1), mode="reflect"), 2
    pads = [draw.randint(-3, 3) for _ in range(3)]
    # Cuts off or adds, as the size says.
    return lambda x: F.pad(x, (pads[0], x.shape[-1] // 2 - 8, *pads[1:]), value=2.0), 2


KINDS = (
    "max_pool1d max_pool2d max_pool3d max_pool_indices avg_pool1d avg_pool2d conv1d conv2d "
    "conv_transpose2d unfold im2col adaptive_avg_pool reflect pad"
).split()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", KINDS)
def test_dynamic_sizes(kind, seed):
    torch.manual_seed(seed)
    draw = random.Random(seed)
    function, spatial = drawn(kind, seed)
    inputs = [
        (torch.randn(draw.randint(2, 4), 4, *[draw.randint(12, 25) for _ in range(spatial)]),)
        for _ in range(4)
    ]
    compare(function, *inputs[0], dynamic=True, more=inputs[1:], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("size", [(4, 4), (13, 14), (14, 13), (5, 5)])
def test_windows_that_do_not_divide_the_size(size):
    x = torch.randn(2, 4, *size)
    backend = compare(lambda x: F.max_pool2d(x, 2), x, dynamic=True)
    # Nothing is padded or cut: the windows just end where they end.
    assert "insert_slice" not in backend.modules[0].text()
    assert "extract_slice" not in backend.modules[0].text()
