"""Special functions: eager's bits in f32, its digits in f64.

Eager's own bits depend on whether the processor has FMA instructions, so they are asked for where
it has them.
"""

from __future__ import annotations

import functools

import pytest
import torch
from harness import compare, compile_with

special = torch.special
FUSED = torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
EXACT = {"rtol": 0, "atol": 0} if FUSED else {"rtol": 1e-4, "atol": 1e-4}
INTEGERS = [torch.bool, torch.uint8, torch.int16, torch.int64]
# Those with kernels of f16 and bf16 too.
GAMMA = [
    torch.digamma,
    torch.lgamma,
    special.i0,
    functools.partial(torch.polygamma, 0),
    functools.partial(torch.polygamma, 1),
]
DERIVATIVES = [functools.partial(torch.polygamma, n) for n in range(2, 6)]
SCALED = [special.i0e, special.i1, special.i1e, special.ndtri, special.log_ndtr, special.entr]
BESSEL = [
    special.bessel_j0,
    special.bessel_j1,
    special.bessel_y0,
    special.bessel_y1,
    special.modified_bessel_i0,
    special.modified_bessel_i1,
    special.modified_bessel_k0,
    special.modified_bessel_k1,
    special.scaled_modified_bessel_k0,
    special.scaled_modified_bessel_k1,
    special.spherical_bessel_j0,
    special.airy_ai,
    special.erfcx,
]
POLYNOMIALS = [
    special.chebyshev_polynomial_t,
    special.chebyshev_polynomial_u,
    special.chebyshev_polynomial_v,
    special.chebyshev_polynomial_w,
    special.shifted_chebyshev_polynomial_t,
    special.shifted_chebyshev_polynomial_u,
    special.shifted_chebyshev_polynomial_v,
    special.shifted_chebyshev_polynomial_w,
    special.hermite_polynomial_h,
    special.hermite_polynomial_he,
    special.laguerre_polynomial_l,
    special.legendre_polynomial_p,
]
ENDS = [0.0, -0.0, 1.0, -1.0, float("inf"), -float("inf"), float("nan"), 1e-45, -1e-45, 3.4e38]
# Where a function passes from one formula to another.
BORDERS = [0.13533528, 0.5, 0.8646647, 1.2, 2.0, 2.09, 2.3, 5.0, 6.1, 7.0, 8.0, 8.3203353, 10.0]
BORDERS += [1e-30, 1e-5, 26.7, 50.0, 103.892, 128.0, 5e7, 1e17]


def every(functions):
    """A function that returns the results of all."""
    return lambda *args: tuple(function(*args) for function in functions)


def neighbours(values, dtype=torch.float32):
    """Each value and its negative with the eight numbers around it."""
    x = torch.tensor(values, dtype=dtype)
    bits = x.view(torch.int32) + torch.arange(-4, 5, dtype=torch.int32)[:, None]
    near = bits.view(dtype).flatten()
    return torch.cat([near, -near])


def numbers(seed):
    """f32 of all magnitudes, most of them where the functions change."""
    generator = torch.Generator().manual_seed(seed)
    normal = torch.randn(20000, generator=generator)
    unit = torch.rand(10000, generator=generator)
    bits = torch.randint(-(2**31), 2**31, (10000,), generator=generator).to(torch.int32)
    return torch.cat(
        [
            normal * 4,
            normal[:5000] * 60,
            unit,
            bits.view(torch.float32),
            torch.arange(-200, 300).float(),
            neighbours(BORDERS),
            torch.tensor(ENDS),
        ]
    )


@pytest.mark.parametrize("functions", [GAMMA, SCALED, BESSEL], ids=["gamma", "scaled", "bessel"])
def test_functions_of_floats_have_eagers_bits(functions):
    compare(every(functions), numbers(0), more=[(numbers(1),)], **EXACT)


def test_derivatives_of_digamma_have_eagers_bits():
    # Of large negative numbers eager adds up as many terms.
    compare(every(DERIVATIVES), numbers(0).clamp(min=-99.5), **EXACT)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize(
    "functions",
    [GAMMA, DERIVATIVES, SCALED, BESSEL],
    ids=["gamma", "derivatives", "scaled", "bessel"],
)
def test_functions_of_integers_have_eagers_bits(functions, dtype):
    compare(every(functions), torch.arange(-20, 235).to(dtype), **EXACT)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_functions_of_reduced_floats_have_eagers_bits(dtype):
    compare(every(GAMMA), numbers(0)[::7].to(dtype), **EXACT)


def test_signs_of_zeros_are_eagers():
    def signs(x):
        return tuple(function(x).signbit() for function in GAMMA[2:3] + SCALED[:3] + BESSEL)

    compare(signs, torch.tensor([0.0, -0.0]))


def test_polynomials_have_eagers_bits():
    # Not of NaN, where eager returns what was in a register.
    x = numbers(0)[::5].nan_to_num(2.0)
    generator = torch.Generator().manual_seed(0)
    low = torch.randint(-2, 12, x.shape, generator=generator).float()
    high = torch.rand(x.shape, generator=generator) * 150
    compare(every(POLYNOMIALS), x, low, more=[(x, high)], **EXACT)


def test_degrees_of_polynomials_may_be_anything():
    degrees = torch.tensor([*ENDS, 128.0, 129.0, -0.5, 2.5])
    # Eager's loops of infinite degrees end where values overflow.
    compare(every(POLYNOMIALS), torch.tensor([[1.5], [-3.0], [1.0], [-1.0]]), degrees, **EXACT)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64])
def test_polynomials_of_integers_have_eagers_bits(dtype):
    x = torch.arange(-6, 7).to(dtype)[:, None]
    compare(every(POLYNOMIALS), x, torch.arange(-2, 12).to(dtype), **EXACT)
    compare(lambda x: tuple(function(x, 5) for function in POLYNOMIALS), x, **EXACT)


def test_polynomials_of_nan_are_nan():
    compiled, _ = compile_with(lambda x: torch.stack([f(x, 7) for f in POLYNOMIALS]))
    assert compiled(torch.tensor(float("nan"))).isnan().all()


def test_zeta_has_eagers_bits():
    q = numbers(0)[::9].nan_to_num(1.0).clamp(-500, 1e30)
    generator = torch.Generator().manual_seed(0)
    whole = torch.randint(-1, 20, q.shape, generator=generator).float()
    real = torch.rand(q.shape, generator=generator) * 8
    compare(special.zeta, whole, q, more=[(real, q)], **EXACT)
    compare(special.zeta, torch.arange(-3, 9)[:, None], torch.arange(-9, 30), **EXACT)
    compare(lambda x: (special.zeta(x, 2.5), special.zeta(3, x)), torch.arange(1, 9), **EXACT)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int16, torch.int64])
@pytest.mark.parametrize("p", [1, 3, 4, 6])
def test_multivariate_lgamma_has_eagers_bits(p, dtype):
    x = torch.linspace(p / 2, 50, 101).to(dtype)
    compare(lambda x: torch.mvlgamma(x, p), x[x > (p - 1) / 2], **EXACT)


def test_functions_of_doubles_have_eagers_digits():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2000, generator=generator, dtype=torch.float64) * 4
    compare(every(SCALED[:3] + [special.modified_bessel_i1, special.entr]), x, rtol=1e-13, atol=0)
    compare(every([special.modified_bessel_k0, torch.digamma]), x.abs() + 2, rtol=1e-13, atol=0)


def test_tails_of_doubles_have_eagers_digits():
    x = torch.linspace(-26, 40, 5001, dtype=torch.float64)
    compare(lambda x: (special.erfcx(x), special.log_ndtr(x * 3)), x, rtol=4e-15, atol=0)


def test_doubles_near_zero_keep_their_digits():
    x = torch.logspace(-300, -0.5, 3001, dtype=torch.float64)
    x = torch.cat([x, -x, torch.tensor([0.0, float("inf"), float("nan")], dtype=torch.float64)])
    compare(lambda x: (x.expm1(), x.log1p()), x, rtol=1e-15, atol=0)
    compare(lambda x: x.log1p().expm1().signbit(), torch.tensor([0.0, -0.0], dtype=torch.float64))


def test_the_tail_of_the_normal_distribution_keeps_its_digits():
    compiled, _ = compile_with(lambda x: 1 + torch.erf(x))
    x = torch.linspace(-4.19, 7, 4001)
    expected = torch.special.erfc(-x.double())
    torch.testing.assert_close(compiled(x).double(), expected, rtol=2e-5, atol=0)
    torch.testing.assert_close(compiled(x[x > -1]).double(), expected[x > -1], rtol=8e-7, atol=0)
    far = torch.tensor([-4.21, -30, float("-inf"), 30, float("inf"), float("nan")])
    want = torch.tensor([0.0, 0, 0, 2, 2, float("nan")])
    torch.testing.assert_close(compiled(far), want, rtol=0, atol=0, equal_nan=True)


def test_exp_and_log_of_doubles():
    generator = torch.Generator().manual_seed(0)
    edges = [0.0, float("inf"), float("nan"), 1e-300, 5e-324, 1e-310, 1.0, 709.78, 709.79, 745.1]
    edges += [745.2, 1e300, 720.125, 2.2250738585072014e-308]
    x = torch.tensor(edges, dtype=torch.float64)
    x = torch.cat([x, torch.rand(5001, generator=generator, dtype=torch.float64) * 700])
    x = torch.cat([x, -x, 1 / x, torch.randn(3, dtype=torch.float64)])
    # Each is within one unit in the last place.
    compare(lambda x: (x.exp(), x.log()), x, rtol=5e-16, atol=0)
    compare(lambda x: x.softmax(-1), x[14:5015].view(-1, 3), rtol=2e-15, atol=0)


def test_digamma_beside_poles():
    x = [-1 - 2**-52, -2 - 2**-51, -1 + 2**-53, -1e-300, -0.5, -30.25]
    compare(torch.digamma, torch.tensor(x, dtype=torch.float64), rtol=1e-14, atol=1e-14)
