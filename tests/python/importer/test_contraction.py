"""Products and convolutions."""

import pytest
import torch
import torch.nn.functional as F
from harness import compare
from torch import nn


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_products_of_odd_shapes_and_transposes(dtype):
    def values(*shape):
        return torch.randint(-4, 5, shape).to(dtype)

    def function(x, y, w, v):
        return (
            x @ y,
            x @ w.t(),
            y.t() @ x.t(),
            x @ v,
            torch.addmm(x[:, :1], x, y),
            torch.addmm(y[0], x, y, beta=2, alpha=3),
            x.unsqueeze(0).expand(2, 5, 3) @ y.expand(2, 3, 7),
        )

    compare(function, values(5, 3), values(3, 7), values(7, 3), values(3))


def test_batched_products_through_permutations():
    def function(q, k):
        scores = q.transpose(1, 2) @ k.permute(0, 2, 3, 1)
        return scores, torch.einsum("bthd,bshd->bhts", q, k), torch.bmm(q[:, 0], k[:, 0].mT)

    compare(function, torch.randn(2, 5, 3, 4), torch.randn(2, 6, 3, 4))


def test_bfloat16_is_accumulated_in_f32_and_rounded_once():
    x, w, b = torch.randn(4, 300), torch.randn(6, 300), torch.randn(6)
    arguments = [t.bfloat16() for t in (x, w, b)]
    compare(lambda x, w, b: (x @ w.t(), F.linear(x, w, b)), *arguments, rtol=0.008, atol=0.05)


@pytest.mark.parametrize("m", [0, 1, 4])
@pytest.mark.parametrize("k", [0, 1, 5])
def test_empty_and_unit_products(m, k):
    compare(lambda x, w, b: F.linear(x, w, b), torch.randn(m, k), torch.randn(3, k), torch.randn(3))


def test_linear_of_any_rank():
    model = nn.Linear(4, 3).eval()
    compare(model, torch.randn(2, 5, 4))
    compare(model, torch.randn(4))
    compare(model, torch.randn(2, 5, 4), dynamic=True, more=[[torch.randn(3, 2, 4)]])


def test_zero_beta_ignores_a_nan_bias():
    nan = torch.full((4,), float("nan"))
    compare(lambda b, x, y: torch.addmm(b, x, y, beta=0), nan, torch.randn(3, 5), torch.randn(5, 4))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"stride": 2, "padding": 1},
        {"dilation": 2, "padding": (2, 1)},
        {"groups": 2, "padding": 1},
        {"groups": 4},
    ],
    ids=str,
)
def test_convolutions(settings):
    groups = settings.get("groups", 1)
    weight, bias = torch.randn(8, 4 // groups, 3, 2), torch.randn(8)
    compare(
        lambda x, w, b: F.conv2d(x, w, b, **settings),
        torch.randn(2, 4, 9, 8),
        weight,
        bias,
        rtol=1e-4,
        atol=1e-4,
    )


def test_one_and_three_dimensional_and_transposed_convolutions():
    def function(x, w, y, v):
        return (
            F.conv1d(x, w, padding=1),
            F.conv3d(y, v),
            F.conv_transpose1d(x, w.transpose(0, 1), stride=2, padding=1, output_padding=1),
            F.conv_transpose2d(y[:, :, 0], v[:2, :, 0], dilation=2),
        )

    compare(
        function,
        torch.randn(2, 3, 7),
        torch.randn(5, 3, 3),
        torch.randn(2, 2, 4, 5, 6),
        torch.randn(3, 2, 2, 2, 2),
        rtol=1e-4,
        atol=1e-4,
    )


def test_pooling():
    def function(x):
        return (
            F.max_pool2d(x, 3, 2, 1),
            *F.max_pool2d(x, 2, return_indices=True),
            F.avg_pool2d(x, 3, 2, 1),
            F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
            F.max_pool2d(x, 3, 2, ceil_mode=True),
            F.adaptive_avg_pool2d(x, 1),
            F.adaptive_avg_pool2d(x, (2, 4)),
        )

    compare(function, torch.randn(2, 3, 10, 8))


def test_batch_norm_at_inference():
    model = nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU()).eval()
    model[1].running_mean.normal_()
    model[1].running_var.uniform_(0.5, 2)
    compare(model, torch.randn(2, 3, 8, 8), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "left, right",
    [
        ((15, 1), (1, 40, 1, 4)),
        ((2, 1, 1, 1), (1, 1, 65)),
        ((2, 3, 4, 1), (1, 5)),
        ((3, 1, 1), (3, 1, 5)),
        ((1, 7), (7, 1)),
    ],
)
def test_products_over_dimensions_of_size_1(left, right):
    compare(torch.matmul, torch.randn(left), torch.randn(right))


def test_products_of_constants_and_broadcasts():
    def function(x, w, b):
        return (
            torch.zeros_like(x) @ w.t(),
            torch.full((2, 17), 2.0) @ w.t(),
            F.linear(torch.zeros_like(x), w, b),
            x[:1].expand(4, 17) @ w.t(),
            x[:, :1].expand(2, 17) @ w.t(),
            w @ x[0, 0].expand(17),
            x @ torch.ones(17, 3),
        )

    compare(function, torch.randn(2, 17), torch.randn(7, 17), torch.randn(7))


def test_product_with_an_input_set_to_zero():
    def function(x, w, b):
        x.zero_()
        return F.linear(x, w, b)

    compare(function, torch.randn(2, 17), torch.randn(7, 17), torch.randn(7))
