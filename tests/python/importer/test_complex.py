"""Complex numbers: functions, comparisons, sums and constants, equal to eager's."""

import pytest
import torch
from harness import compare, have_buddy_tools

DTYPES = [torch.complex64, torch.complex128]
FUNCTIONS = (
    *("exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh").split(),
    *("cosh tanh asinh acosh atanh sigmoid abs sgn angle square reciprocal neg").split(),
)
needs_library = pytest.mark.skipif(not have_buddy_tools(), reason="calls libbuddy_math")


def values(dtype, *shape):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(shape, dtype=torch.complex128, generator=generator).to(dtype)


@needs_library
@pytest.mark.parametrize("dtype", DTYPES)
def test_functions(dtype):
    def function(x):
        return tuple(getattr(x, name)() for name in FUNCTIONS)

    compare(function, values(dtype, 3, 5).mT)


@needs_library
@pytest.mark.parametrize("shape", [(), (0, 3), (1,)])
def test_shapes(shape):
    compare(lambda x: (x.exp(), x.abs(), x == x, -x), values(torch.complex64, *shape))


@needs_library
def test_small_numbers_lose_nothing():
    tiny = values(torch.complex128, 7) * 1e-12
    compare(lambda x: (x.expm1(), x.log1p()), tiny, rtol=1e-12, atol=0)


@needs_library
@pytest.mark.parametrize("dtype", DTYPES)
def test_powers(dtype):
    def function(x, y):
        return x**y, x**2, x**-1, x**0.5, x ** (1 + 2j), 2**x, y.real**x, x**0

    compare(function, values(dtype, 3, 5), values(dtype, 5), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_arithmetic_and_comparisons(dtype):
    def function(x, y):
        return (
            x + 2 * y,
            x - y,
            x * y,
            x / (y + 3),
            x == y,
            x != y,
            -x,
            torch.logical_and(x, y),
            torch.logical_not(x),
            x.bool(),
            torch.where(x.real > 0, x, y),
        )

    x, y = values(dtype, 4, 5), values(dtype, 4, 5)
    x[0], y[1, :2] = y[0], 0
    # Equal in one part only; 0 in one part only.
    x[1, 0] = torch.complex(y[1, 0].real, y[1, 0].imag + 1)
    y[2, 0], y[2, 1] = 1j, 1
    compare(function, x, y)


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_that_are_not_finite(dtype):
    parts = torch.tensor([0.0, 1.0, float("inf"), -float("inf"), float("nan")], dtype=torch.float64)
    x = torch.complex(*torch.meshgrid(parts, parts, indexing="ij")).to(dtype)
    compare(lambda x: (x.isnan(), x.isinf(), x.isfinite()), x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions(dtype):
    def function(x):
        return (
            x.sum(),
            x.mean(0),
            x.prod(1),
            x.var(0),
            x.std(1, correction=0),
            *torch.var_mean(x),
            x.cumsum(1),
        )

    compare(function, values(dtype, 4, 5))


@pytest.mark.parametrize("dtype", [torch.complex32, *DTYPES])
def test_conversions(dtype):
    def function(x):
        return x.to(dtype), x.to(torch.complex64), x.to(torch.complex128)

    compare(function, values(torch.complex64, 3, 5).to(dtype))
    compare(lambda x: x.to(dtype), torch.randn(3, 5))
    compare(lambda x: x.to(dtype), torch.tensor([True, False]))


def test_constants():
    constant = torch.tensor([[1 + 2j, -3j], [0, 4]])
    compare(lambda x: x + constant, values(torch.complex64, 2, 2))
    compare(lambda x: x * torch.tensor(2j), values(torch.complex64, 2, 2))
