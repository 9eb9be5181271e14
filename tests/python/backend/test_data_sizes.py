"""Results whose sizes depend on data, and scalars read from tensors, against eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from backend_testing import strict
from buddy.backend import buddy_backend, counters

pytest.importorskip("_buddy")

torch.manual_seed(0)
FLOATS = torch.randn(4, 5)
FLAGS = FLOATS > 0
NUMBERS = torch.tensor([[3, 1, 3], [0, 1, 3], [3, 1, 3], [3, 1, 2]])
DTYPES = [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.uint8, torch.bool]


def check(fn: Callable[..., Any], *args: Any, dynamic: bool | None = None) -> Any:
    """Compile a function and compare its results, strides of them included; return it."""
    compiled = strict(fn, dynamic=dynamic)
    compare(compiled, fn, *args)
    return compiled


def compare(compiled: Callable[..., Any], fn: Callable[..., Any], *args: Any) -> None:
    actual, expected = compiled(*copies(args)), fn(*copies(args))
    assert type(actual) is type(expected)
    torch.testing.assert_close(actual, expected, rtol=1e-6, atol=0, equal_nan=True)


def copies(args: Any) -> list[Any]:
    return [x.clone() if isinstance(x, torch.Tensor) else x for x in args]


def samples(dtype: torch.dtype) -> torch.Tensor:
    return torch.tensor([[0, 2, 0, 1], [1, 0, 0, 2], [0, 0, 0, 3]]).to(dtype)


# ---- counts of what is not zero --------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dynamic", [False, True])
def test_nonzero(dtype: torch.dtype, dynamic: bool) -> None:
    check(torch.nonzero, samples(dtype), dynamic=dynamic)
    check(lambda x: torch.nonzero(x, as_tuple=True), samples(dtype), dynamic=dynamic)


@pytest.mark.parametrize(
    "x",
    [
        torch.tensor(3.0),
        torch.tensor(0),
        torch.zeros(0),
        torch.zeros(3, 0),
        torch.zeros(4, 3),
        torch.ones(2, 1, 3),
        torch.arange(24).reshape(2, 3, 4).transpose(0, 2),
    ],
    ids=["true", "false", "empty", "no columns", "none", "all", "transposed"],
)
def test_nonzero_of_odd_shapes(x: torch.Tensor) -> None:
    check(torch.nonzero, x)
    check(torch.argwhere, x)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dynamic", [False, True])
def test_masked_select(dtype: torch.dtype, dynamic: bool) -> None:
    x = samples(dtype)
    check(torch.masked_select, x, torch.rand(3, 4) > 0.4, dynamic=dynamic)
    check(torch.masked_select, x, torch.tensor([True, False, True, True]), dynamic=dynamic)


@pytest.mark.parametrize("value", [True, False])
def test_masks_of_no_and_all_elements(value: bool) -> None:
    mask = torch.full((4, 5), value)
    check(torch.masked_select, FLOATS, mask)
    check(lambda x, m: x[m] * 2 + 1, FLOATS, mask)
    check(lambda x, m: x[m].sum(), FLOATS, mask)
    check(lambda x, m: x[m[:, 0]] @ x.T, FLOATS, mask)
    check(torch.masked_select, torch.tensor(2.0), torch.tensor(value))


@pytest.mark.parametrize("dynamic", [False, True])
def test_index_by_masks(dynamic: bool) -> None:
    x = torch.randn(4, 5, 3)
    rows, columns = torch.tensor([True, False, True, True]), torch.rand(5) > 0.5
    check(lambda x, m: x[m], x, x > 0, dynamic=dynamic)
    check(lambda x, m: x[m], x, FLAGS, dynamic=dynamic)
    check(lambda x, m: x[m], x, rows, dynamic=dynamic)
    check(lambda x, m: x[:, m], x, columns, dynamic=dynamic)
    check(lambda x, m: x[1:, m, ::2], x, columns, dynamic=dynamic)
    check(lambda x, m: x[m, 1], x, rows, dynamic=dynamic)


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_put_of_several_values_by_a_mask(dtype: torch.dtype, accumulate: bool) -> None:
    def put(x: torch.Tensor, mask: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return x.index_put((mask,), values, accumulate=accumulate)

    count = int(FLAGS.sum())
    x = (FLOATS * 3).to(dtype)
    check(put, x, FLAGS, torch.arange(count).to(dtype))
    check(put, x, FLAGS[:, 0], torch.arange(5).to(dtype))
    check(put, x, FLAGS[:, 0], torch.tensor(1).to(dtype))


def test_put_of_the_wrong_number_of_values_is_an_error() -> None:
    def put(x: torch.Tensor, mask: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return x.index_put((mask,), values)

    compiled = strict(put)
    right = int(FLAGS.sum())
    compare(compiled, put, FLOATS, FLAGS, torch.arange(float(right)))
    with pytest.raises(IndexError, match="another number of elements"):
        compiled(FLOATS, ~FLAGS, torch.arange(float(right)))


def test_update_in_place_of_what_a_mask_selects() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        mask = x > 0
        x[mask] = x[mask] * 2 - 1
        return x[x > 1]

    x, copy = FLOATS.clone(), FLOATS.clone()
    torch.testing.assert_close(strict(fn)(x), fn(copy))
    torch.testing.assert_close(x, copy)


# ---- different elements ----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("counts", [False, True])
def test_unique(dtype: torch.dtype, inverse: bool, counts: bool) -> None:
    def fn(x: torch.Tensor, **options: Any) -> Any:
        return torch.unique(x, return_inverse=inverse, return_counts=counts, **options)

    def consecutive(x: torch.Tensor, **options: Any) -> Any:
        return torch.unique_consecutive(x, return_inverse=inverse, return_counts=counts, **options)

    x = NUMBERS.to(dtype)
    for function in (fn, consecutive):
        check(function, x)
        check(function, x, dynamic=True)
        for dim in (0, -1):
            check(lambda x, f=function, dim=dim: f(x, dim=dim), x)


@pytest.mark.parametrize(
    "x",
    [
        torch.tensor(3.0),
        torch.zeros(0),
        torch.zeros(0, 3),
        torch.zeros(7),
        torch.tensor([float("nan"), 1.0, float("nan"), 1.0]),
        torch.randint(3, (3, 4, 2)).transpose(0, 2),
    ],
    ids=["0-d", "empty", "no rows", "equal", "nan", "transposed"],
)
def test_unique_of_odd_inputs(x: torch.Tensor) -> None:
    check(lambda x: torch.unique(x, return_inverse=True, return_counts=True), x)
    check(lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True), x)


def test_unique_slices_of_no_slice() -> None:
    check(lambda x: torch.unique(x, dim=0, return_inverse=True), torch.zeros(0, 3))
    check(lambda x: torch.unique_consecutive(x, dim=1, return_counts=True), torch.zeros(2, 0))


# ---- repetition, bins ------------------------------------------------------------------------


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("repeats", [[2, 0, 1, 3], [0, 0, 0, 0], [1, 1, 1, 1]])
def test_repeat_interleave(repeats: list[int], dynamic: bool) -> None:
    times = torch.tensor(repeats)
    check(lambda x, r: x.repeat_interleave(r, dim=0) + 1, FLOATS, times, dynamic=dynamic)
    check(torch.repeat_interleave, times, dynamic=dynamic)
    check(torch.repeat_interleave, times.to(torch.int32), dynamic=dynamic)
    total = sum(repeats)
    check(lambda r: torch.repeat_interleave(r, output_size=total), times, dynamic=dynamic)


def test_repeats_that_cannot_be_are_errors() -> None:
    with pytest.raises(RuntimeError, match="repeats can not be negative"):
        strict(torch.repeat_interleave)(torch.tensor([2, -1]))
    with pytest.raises(RuntimeError, match="not the sum of repeats"):
        strict(lambda r: torch.repeat_interleave(r, output_size=2))(torch.tensor([2, 3]))


@pytest.mark.parametrize("least", [0, 3, 9])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
def test_bincount(dtype: torch.dtype, least: int) -> None:
    def fn(x: torch.Tensor, weights: torch.Tensor | None = None) -> torch.Tensor:
        return torch.bincount(x, weights, minlength=least)

    x = torch.tensor([1, 5, 1, 0, 2], dtype=dtype)
    for weights in (None, torch.randn(5), torch.arange(5)):
        check(fn, x, weights)
    check(fn, x[:0])
    check(fn, x, dynamic=True)


# ---- scalars ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        torch.tensor(3),
        torch.tensor([-2], dtype=torch.int8),
        torch.tensor(2.5),
        torch.tensor(-1.5, dtype=torch.bfloat16),
        torch.tensor(0.25, dtype=torch.float16),
        torch.tensor(float("inf"), dtype=torch.float64),
        torch.tensor(True),
    ],
    ids=lambda value: str(value.dtype),
)
def test_item(value: torch.Tensor) -> None:
    check(lambda x: x.item(), value)
    check(lambda x: (x + x).item(), value)
    check(lambda x, i: x * i.item(), FLOATS, value)
    check(lambda x, i: (x * i.item(), i.item()), FLOATS, value)


def test_item_as_a_size() -> None:
    def sized(n: torch.Tensor) -> torch.Tensor:
        size = n.item()
        torch._check(size >= 0)
        return torch.ones(size, 2) * size

    compiled = check(sized, torch.tensor(3))
    for size in (0, 1, 7):
        compare(compiled, sized, torch.tensor(size))


def test_item_as_an_index() -> None:
    def fn(x: torch.Tensor, i: torch.Tensor) -> Any:
        n = i.item()
        return x[n] + 1, x[:n] * 2, x[n:].sum(0), torch.narrow(x, 1, i, 2), x[n:]

    compiled = check(fn, FLOATS, torch.tensor(2))
    for i in (0, 1, 3):
        compare(compiled, fn, FLOATS, torch.tensor(i))
    with pytest.raises(IndexError):
        compiled(FLOATS, torch.tensor(4))
    with pytest.raises(IndexError):
        compiled(FLOATS, torch.tensor(-5))


def test_read_of_which_no_size_depends_cuts_nothing() -> None:
    def fn(x: torch.Tensor, i: torch.Tensor, f: torch.Tensor) -> Any:
        return x[i.item()] * f.item() + i.item()

    counters.clear()
    compiled = check(fn, FLOATS, torch.tensor(2), torch.tensor(0.5))
    assert counters.misses + counters.hits == 1
    compare(compiled, fn, FLOATS, torch.tensor(-3), torch.tensor(-1.5))
    for outside in (4, -5):
        with pytest.raises(IndexError):
            compiled(FLOATS, torch.tensor(outside), torch.tensor(0.5))


def test_narrow_outside_is_an_error() -> None:
    def fn(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return torch.narrow(x, 0, i, 2) + 1

    compiled = check(fn, FLOATS, torch.tensor(2))
    compare(compiled, fn, FLOATS, torch.tensor(-2))
    with pytest.raises((RuntimeError, IndexError)):
        compiled(FLOATS, torch.tensor(3))


@pytest.mark.parametrize("places", [[1, 3], [0, 4], [3, 1], [-1, 9], []])
def test_tensor_split(places: list[int]) -> None:
    sections = torch.tensor(places, dtype=torch.int64)
    check(lambda x, s: torch.tensor_split(x, s), FLOATS, sections)
    check(lambda x, s: [part + 1 for part in torch.tensor_split(x, s, 1)], FLOATS, sections)


def test_split_into_as_many_parts_as_a_tensor_says() -> None:
    for fn in (
        lambda x, n: torch.tensor_split(x, n),
        lambda x, n: [part + 1 for part in x.tensor_split(n, dim=1)],
        lambda x, n: torch.tensor_split(input=x, tensor_indices_or_sections=n, dim=-1),
    ):
        compiled = check(fn, FLOATS, torch.tensor(2))
        compare(compiled, fn, FLOATS, torch.tensor(3))
        with pytest.raises(RuntimeError):
            compiled(FLOATS, torch.tensor(0))


# ---- several, one after the other ------------------------------------------------------------


def test_several_in_one_graph_and_no_second_compilation() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> Any:
        mask = x > 0
        a, b = x[mask], y[mask]
        values, inverse = torch.unique((a * 4).round(), return_inverse=True)
        large = (a + b)[a > b]
        return a * b, values[inverse] + a, large, large.numel(), torch.nonzero(inverse).sum()

    compiled = check(fn, FLOATS, torch.randn(4, 5))
    before = counters.compiles
    for _ in range(3):
        compare(compiled, fn, torch.randn(4, 5), torch.randn(4, 5))
    compare(compiled, fn, -torch.ones(4, 5), torch.randn(4, 5))
    compare(compiled, fn, torch.ones(4, 5), torch.randn(4, 5))
    assert counters.compiles == before


def test_sizes_of_inputs_and_of_data_together() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        kept = x[x.sum(1) > 0]
        return torch.cat([kept @ x.T, kept.new_ones(1, x.shape[0])])

    compiled = check(fn, torch.ones(3, 6), dynamic=True)
    before = counters.compiles
    for rows in (4, 7, 12):
        x = torch.randint(-9, 9, (rows, 6)).float()
        compare(compiled, fn, x)
    assert counters.compiles == before


def test_gradient_through_a_mask() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return (x[x > 0] * 3).square().sum()

    x, y = (FLOATS.clone().requires_grad_() for _ in range(2))
    strict(fn)(x).backward()
    fn(y).backward()
    torch.testing.assert_close(x.grad, y.grad)


def test_default_capture_breaks_the_graph_and_agrees() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return (x * 2)[x > 0] + x.max().item()

    compiled = torch.compile(fn, backend=buddy_backend, options={"fallback": "error"})
    torch.testing.assert_close(compiled(FLOATS), fn(FLOATS))
