"""Reductions, running sums and sorting."""

import pytest
import torch
from harness import compare

NAN, INF = float("nan"), float("inf")
SORTED = [
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32),
    *(torch.int8, torch.uint8, torch.bool),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_float_reductions(dtype):
    def function(x):
        return (
            x.sum(),
            x.sum(1),
            x.sum((0, 2), keepdim=True),
            x.mean(-1),
            x.mean(),
            x.amax(1),
            x.amin((0, 1)),
            x.var(1),
            x.std(-1, correction=0),
            x.prod(2),
            x.max(1),
            x.min(),
            x.argmax(2),
            x.argmin(),
            x.sum(-1, dtype=torch.float32),
        )

    compare(function, torch.randn(3, 5, 7).to(dtype))


def test_integer_and_bool_reductions():
    def function(x):
        flag = x > 0
        return (
            x.sum(),
            x.sum(0),
            x.prod(1),
            x.amax(),
            x.max(1),
            flag.any(),
            flag.all(1),
            flag.sum(0),
            x.any(0),
            x.mean(dtype=torch.float32),
        )

    compare(function, torch.randint(-5, 5, (4, 6)))
    compare(function, torch.randint(0, 200, (4, 6), dtype=torch.uint8))


def test_reductions_of_views():
    compare(
        lambda x: (x.t().sum(0), x.expand(3, 4, 5).sum(0), x.unsqueeze(1).amax(2), x[::2].mean(1)),
        torch.randn(4, 5),
    )


def test_reductions_over_nothing_and_of_scalars():
    def function(e, s):
        return e.sum(), e.sum(0), e.sum(1), e.mean(0), e.all(), s.sum(), s.mean(), s.argmax()

    compare(function, torch.empty(0, 3), torch.tensor(2.5))


def test_dynamic_reductions():
    compare(
        lambda x: (x.sum(0), x.mean(1), x.var(0), x.argmax(1), x.cumsum(1)),
        torch.randn(4, 6),
        dynamic=True,
        more=[[torch.randn(9, 2)]],
    )


def test_the_first_of_equal_extrema_is_taken():
    x = torch.tensor([[1.0, 3.0, 3.0], [-float("inf")] * 3])
    compare(lambda x: (x.argmax(1), x.max(1), x.argmin(1), x.min(0)), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.bool])
def test_running_sums(dtype):
    x = torch.randint(0, 3, (3, 9)).to(dtype)
    compare(lambda x: (x.cumsum(1), x.cumsum(0), x.cumprod(1), x[:, :0].cumsum(1)), x)


def test_sorting_is_stable_and_puts_nan_last():
    x = torch.tensor([3.0, float("nan"), 1.0, 3.0, -2.0, float("inf"), 1.0])

    def function(x, y):
        return (
            torch.sort(x, stable=True),
            torch.sort(x, stable=True, descending=True),
            torch.sort(y, dim=0, stable=True),
            y.topk(3, dim=1),
            y.topk(2, dim=0, largest=False),
            y.argsort(stable=True),
        )

    compare(function, x, torch.randperm(45).reshape(5, 9).float())


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", SORTED, ids=str)
def test_sorting_has_eagers_places_and_bits(dtype, descending):
    def function(x):
        return torch.sort(x, stable=True, descending=descending)

    def numbers(length):
        generator = torch.Generator().manual_seed(length)
        choice = torch.rand(3, length, generator=generator)
        if dtype.is_floating_point:
            few = torch.randint(-4, 5, (3, length), generator=generator) * 0.25
            x = few.where(choice > 0.2, few * 1e-3).masked_fill(choice > 0.8, -0.0)
            x = x.masked_fill(choice > 0.9, NAN).masked_fill(choice > 0.95, -INF)
            return x.masked_fill(choice > 0.97, INF).to(dtype)
        if dtype is torch.bool:
            return choice > 0.5
        range_ = torch.iinfo(dtype)
        x = torch.randint(range_.min, range_.max, (3, length), generator=generator, dtype=dtype)
        return x.where(choice > 0.4, x.flip(-1))

    lengths = (2, 3, 5, 8, 17, 31, 64, 100, 1000)
    more = [[numbers(length)] for length in lengths]
    compare(function, numbers(16), more=more, dynamic=True, rtol=0, atol=0)
    if dtype.is_floating_point:
        compare(lambda x: function(x)[0].nan_to_num(3.0).signbit(), numbers(40))


@pytest.mark.parametrize("length", [1, 2, 3, 8, 17])
def test_sorting_any_length(length):
    compare(lambda x: torch.sort(x, stable=True), torch.randint(0, 9, (3, length)))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("shape", [(8,), (5, 7), (3, 4, 5)])
def test_reductions_over_everything_keep_dimensions(shape, dynamic):
    dims = list(range(len(shape)))

    def function(x):
        return (
            x.sum(dims, keepdim=True),
            x.amax(dims, keepdim=True),
            x.mean(dims, keepdim=True) * x,
            x.std(dims, keepdim=True),
        )

    compare(function, torch.randn(shape), dynamic=dynamic)
    compare(function, torch.randn(shape[::-1]).permute(dims[::-1]), dynamic=dynamic)


INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "x",
    [
        torch.tensor([[1.0, 2, 2, 1], [NAN, 1, 2, NAN], [-INF, -INF, INF, INF], [3, 3, 2, NAN]]),
        torch.randint(-3, 3, (4, 6)),
        torch.randn(7, 5).t(),
        torch.randn(3, 0),
        torch.randn(3, 4, 5).bfloat16(),
    ],
    ids=["special", "integers", "transposed", "empty", "bfloat16"],
)
def test_running_extrema_and_log_sums(x, dynamic):
    compare(lambda x: (*torch.cummax(x, 0), *torch.cummin(x, -1)), x, dynamic=dynamic)
    if x.is_floating_point():
        compare(lambda x: (x.logcumsumexp(0), x.logcumsumexp(-1)), x, dynamic=dynamic)
