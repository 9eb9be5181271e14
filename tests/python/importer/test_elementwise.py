"""Element-wise operators: values, promotion and rounding equal to eager's."""

import pytest
import torch
import torch.nn.functional as F
from harness import CheckFailed, compare, compile_with

FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
INTS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


def values(dtype, *shape):
    generator = torch.Generator().manual_seed(1)
    if dtype is torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if dtype.is_floating_point:
        return (torch.randn(shape, generator=generator) * 3).to(dtype)
    low = 0 if dtype is torch.uint8 else -100
    return torch.randint(low, 100, shape, generator=generator).to(dtype)


@pytest.mark.parametrize("dtype", FLOATS)
def test_float_arithmetic(dtype):
    def function(x, y):
        return (
            x + y,
            x - 2 * y,
            x * y + 0.1,
            x / (y.abs() + 1),
            torch.rsub(x, 1.5),
            -x,
            x.abs(),
            torch.maximum(x, y),
            x.clamp(-1, 2),
            x.sign(),
            torch.where(x > y, x, y),
            x.masked_fill(x < 0, -1),
        )

    compare(function, values(dtype, 3, 5), values(dtype, 5), rtol=0, atol=0)
    if dtype.itemsize >= 4:
        # Of narrow dtypes eager rounds `alpha * y` or not, as its loops fall.
        compare(lambda x, y: torch.add(x, y, alpha=3), values(dtype, 3, 5), values(dtype, 5))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_float_functions(dtype):
    def function(x):
        p = x.abs() + 0.5
        return (
            x.exp(),
            p.log(),
            p.sqrt(),
            p.rsqrt(),
            x.sin(),
            x.cos(),
            x.tanh(),
            x.sigmoid(),
            x.erf(),
            x.floor(),
            x.ceil(),
            x.round(),
            x.trunc(),
            p.log1p(),
            x.expm1(),
            p.reciprocal(),
            x.pow(2),
            x.pow(3),
            p.pow(0.5),
            p.pow(-0.5),
            p.pow(1.7),
            p**p,
            2**x,
        )

    compare(function, values(dtype, 4, 7))


def test_activations():
    def function(x):
        return (
            F.relu(x),
            F.silu(x),
            F.gelu(x),
            F.gelu(x, approximate="tanh"),
            F.leaky_relu(x, 0.1),
            F.elu(x),
            F.softplus(x, 2, 5),
            F.hardtanh(x),
            F.hardswish(x),
            F.hardsigmoid(x),
            F.relu6(x),
            F.mish(x),
        )

    compare(function, values(torch.float32, 4, 33))


@pytest.mark.parametrize("dtype", INTS)
def test_integer_arithmetic_wraps_and_divides_as_eager(dtype):
    def function(x, y):
        z = torch.where(y == 0, 1, y)
        return (
            x + y,
            x * y,
            x - 3,
            x // z,
            x % z,
            torch.fmod(x, z),
            torch.div(x, z, rounding_mode="trunc"),
            x / z,
            x & y,
            x | y,
            x ^ y,
            ~x,
            x << 2,
            x >> 1,
            x**2,
            x < y,
            x == y,
            x.float(),
            x.to(torch.int16),
        )

    compare(function, values(dtype, 64), values(dtype, 64).flip(0))


def test_division_of_the_smallest_integer():
    x = torch.tensor([-(2**63), 7, -7, -7, 7])
    y = torch.tensor([-1, -2, 2, -2, 2])
    compare(lambda a, b: (a // b, a % b, torch.fmod(a, b)), x, y)


def test_integer_division_by_zero_is_an_error():
    compiled, _ = compile_with(lambda x, y: x // y)
    x = torch.tensor([4, 5])
    with torch.no_grad():
        assert compiled(x, torch.tensor([2, -2])).tolist() == [2, -3]
        with pytest.raises(CheckFailed, match="division by zero"):
            compiled(x, torch.tensor([2, 0]))


def test_float_remainders_and_floors():
    x = torch.tensor([5.5, -5.5, 0.0, -0.0, float("inf"), 7.0, -7.0, 1e30])
    y = torch.tensor([2.0, 2.0, 3.0, 3.0, 2.0, -0.5, 0.25, 3.0])
    compare(lambda a, b: (a % b, torch.fmod(a, b), a // b), x, y)


def test_bool_arithmetic():
    def function(x, y):
        return x + y, x * y, x & y, x | y, ~x, x ^ y, x.logical_not(), x.float(), x.sum(), x == y

    compare(function, values(torch.bool, 9), values(torch.bool, 9).flip(0))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.bfloat16, torch.float64])
def test_promotion(dtype):
    def function(x, half, flag):
        return x + 1, x + 1.5, x * half, x + flag, x < 0.1, x.mean(dtype=torch.float32), x + half[0]

    compare(function, values(dtype, 6), values(torch.float16, 6), values(torch.bool, 6))


def test_casts():
    def function(x):
        return [x.to(d) for d in (*FLOATS, *INTS, torch.bool)] + [x.to(torch.bfloat16).float()]

    compare(function, torch.tensor([0.0, -0.5, 1.75, 100.25, -3.0]))
    compare(function, torch.tensor([0, 1, 100, 77]))


def test_infinities_and_nans():
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -1.0])

    def function(x):
        y = x.flip(0)
        return (
            torch.maximum(x, y),
            torch.minimum(x, y),
            x.clamp(-1, 1),
            x.isnan(),
            x.isinf(),
            x != x,
            F.relu(x),
            torch.fmax(x, y),
            x.amax(),
            x.argmax(),
            x.sign(),
        )

    compare(function, x)


def test_symbolic_scalars():
    compare(
        lambda x: (x * x.shape[0], x + x.shape[1] / 2, torch.full((x.shape[0],), x.shape[1])),
        torch.randn(3, 4),
        dynamic=True,
        more=[[torch.randn(5, 7)]],
    )


def test_creation():
    def function(x):
        n = x.shape[0]
        return (
            torch.arange(n),
            torch.arange(2, 20, 3),
            torch.arange(0, 1, 0.25),
            torch.zeros(n, 2),
            torch.ones_like(x),
            torch.full((2, n), 1.5, dtype=torch.bfloat16),
            torch.eye(3),
            x.new_ones(3) + x[0, 0],
            torch.tensor([1.0, 2.5]) * x[0, 1],
        )

    compare(function, torch.randn(4, 5), dynamic=True, more=[[torch.randn(7, 3)]])


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64])
@pytest.mark.parametrize("shapes", [((1,), (3,)), ((3,), (1,)), ((7, 1), (33,)), ((), (5,))])
def test_integer_powers_of_broadcast_operands(dtype, shapes):
    low = 0 if dtype is torch.uint8 else -4
    base, exponent = (torch.randint(low, 7, shape, dtype=dtype) for shape in shapes)
    compare(torch.pow, base, exponent)


def test_large_constant_integer_powers():
    def function(x, y):
        return (x**1000003 + y, x ** (2**31 - 1) + y, torch.pow(torch.tensor(3), y), x**64)

    compare(function, torch.tensor([-3]), torch.arange(5))


def test_power_of_bools():
    compare(lambda x: (x**True, x**False, x**2), torch.tensor([True, False]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_neighbours_of_floats(dtype):
    values = [0.0, -0.0, 1.0, -1.0, float("inf"), -float("inf"), 1e-45, 3.4e38, float("nan")]
    x = torch.tensor(values).to(dtype)
    compare(torch.nextafter, x[:, None], x, rtol=0, atol=0)
    compare(lambda x, y: torch.nextafter(x, y).signbit(), x[:-1, None], x[:-1])


@pytest.mark.parametrize("dtype", [torch.bool, *INTS])
def test_functions_of_integers_are_rounded_once(dtype):
    def function(x):
        return x.expm1(), (x.abs() if dtype is not torch.bool else x).log1p(), x.erf(), x.erfc()

    compare(function, torch.arange(0, 60).to(dtype), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", INTS)
def test_common_divisors_and_multiples(dtype):
    x = torch.arange(-12, 13).to(dtype)
    compare(lambda x, y: (torch.gcd(x, y), torch.lcm(x, y)), x.unsqueeze(1), x)
    ends = torch.tensor([torch.iinfo(dtype).min, torch.iinfo(dtype).max, 6], dtype=dtype)
    compare(torch.gcd, ends, ends.flip(0))
    compare(torch.gcd, values(dtype, 3, 4), torch.tensor(12))


def test_nothing_may_be_divided_by_zero():
    compare(lambda x: (x // 0, x % 0, torch.fmod(x, 0)), torch.empty(0, 3, dtype=torch.int64))


_SPECIAL = [0, 0.5, 1, 2, 3, 2.5, 1e-39, 1e-38, 16777217, 3e9, 2e16, 3.4e38, float("inf")]
_SIGNED = torch.tensor([*_SPECIAL, *(-x for x in _SPECIAL), float("nan")])


def _with_sign(x):
    return x, x.signbit() & ~x.isnan()


@pytest.mark.parametrize("function", [torch.pow, torch.atan2], ids=lambda f: f.__name__)
def test_functions_of_two_special_numbers(function):
    # Both in vectors and one by one, and the signs of zeros too.
    for x in (_SIGNED, _SIGNED[:, None]):
        compare(lambda x, y: _with_sign(function(x, y)), x, _SIGNED)


@pytest.mark.parametrize(
    "name", "sin cos tan asin acos atan sinh cosh exp2 log10 log2 exp expm1 log1p tanh erf".split()
)
def test_functions_of_special_numbers(name):
    function = getattr(torch, name)
    for x in (_SIGNED, _SIGNED[10:12], torch.linspace(-20, 20, 1001), _SIGNED / 7):
        compare(lambda x: _with_sign(function(x)), x)


def test_angles_of_all_sizes():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(20000, generator=generator) * 2.0 ** torch.arange(-20, 20).repeat(500)
    compare(lambda x: (x.sin(), x.cos()), x, rtol=1e-6, atol=1e-7)
    # Beyond 2^50 a vector with one such angle has its others unchanged.
    mixed = torch.where(torch.arange(20000) % 37 == 0, x * 2.0**70, x)
    compare(lambda x: (x.sin(), x.cos(), x.tan()), mixed, rtol=1e-5, atol=1e-6)


def test_signs_of_zeros_are_eagers():
    functions = [torch.sin, torch.tan, torch.tanh, torch.sinh, torch.asin, torch.atan, torch.erf]
    functions += [torch.expm1, torch.log1p, torch.erfinv, torch.floor, torch.trunc, torch.sqrt]
    functions += [F.relu, F.relu6, F.elu, F.selu, F.celu, F.tanhshrink, F.softsign, F.leaky_relu]
    functions += [lambda x: x.clamp(0), lambda x: x.clamp(max=0), lambda x: x.clamp(-1, 1)]
    zeros = torch.tensor([-0.0, 0.0] * 20 + [-0.0])
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        compare(lambda x: torch.stack([f(x).signbit() for f in functions]), zeros.to(dtype))


def test_clamps_keep_nan_and_take_it_from_bounds():
    x = torch.tensor([float("nan"), -2.0, 0.5, float("inf")])
    compare(lambda x: (x.clamp(-1, 1), F.relu(x), x.clamp(float("nan"), 1), x.clamp(min=3)), x)
    compare(lambda x, low: (x.clamp(min=low), x.clamp(low, low + 1)), x, x.flip(0))
