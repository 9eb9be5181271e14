"""Operators registered with torch.library: called, and written in place on the caller's memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from backend_testing import strict

pytest.importorskip("_buddy")

SEEN: list[tuple[int, tuple[int, ...]]] = []


def see(x: torch.Tensor) -> torch.Tensor:
    SEEN.append((x.data_ptr(), x.stride()))
    return x


@pytest.fixture(autouse=True, scope="module")
def library() -> Iterator[torch.library.Library]:
    def put(cache: torch.Tensor, rows: torch.Tensor, where: torch.Tensor) -> None:
        see(cache)[where] = rows

    def put_both(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        see(a).add_(1)
        see(b).mul_(2)
        return a.sum() + b.sum()

    with torch.library._scoped_library("custom_test", "FRAGMENT") as lib:
        lib.define("put(Tensor(a!) cache, Tensor rows, Tensor where) -> ()")
        lib.impl("put", put, "CPU")
        lib.impl("put", lambda *args: None, "Meta")
        lib.define("put_both(Tensor(a!) a, Tensor(b!)? b) -> Tensor")
        lib.impl("put_both", put_both, "CPU")
        lib.impl("put_both", lambda a, b: a.new_empty(()), "Meta")
        lib.define("bump_(Tensor(a!) x, int by=1) -> Tensor(a!)", tags=(torch.Tag.inplace,))
        lib.impl("bump_", lambda x, by=1: see(x).add_(by), "CPU")
        lib.impl("bump_", lambda x, by=1: x, "Meta")
        lib.define("fill_all(Tensor(a!)[] xs, *, float value) -> ()")
        lib.impl("fill_all", lambda xs, value: [see(x).fill_(value) for x in xs] and None, "CPU")
        lib.impl("fill_all", lambda xs, value: None, "Meta")
        lib.define("double(Tensor x) -> Tensor")
        lib.impl("double", lambda x: see(x) * 2, "CPU")
        lib.impl("double", lambda x: torch.empty_like(x), "Meta")
        lib.define("dense(Tensor x) -> Tensor", tags=(torch.Tag.needs_contiguous_strides,))
        lib.impl("dense", lambda x: see(x).contiguous() * 2, "CPU")
        lib.impl("dense", lambda x: torch.empty_like(x).contiguous(), "Meta")
        yield lib


ops: Any = torch.ops.custom_test


def check(fn: Any, *args: torch.Tensor) -> list[tuple[int, tuple[int, ...]]]:
    """Compare results and arguments with eager's; return what the operators' kernels saw."""
    expected_args = [arg.clone() for arg in args]
    with torch.no_grad():
        expected = fn(*expected_args)
        compiled = strict(fn)
        SEEN.clear()
        result = compiled(*args)
    seen = list(SEEN)
    torch.testing.assert_close(result, expected)
    torch.testing.assert_close(list(args), expected_args)
    return seen


def test_cache_is_written_where_it_lies_and_read_after() -> None:
    def fn(cache: torch.Tensor, x: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
        ops.put(cache, x + 1, where)
        y = cache.sum(0)
        ops.put(cache, x * 3, where + 1)
        return y + cache.sum(0)

    cache = torch.randn(7, 3)
    seen = check(fn, cache, torch.randn(2, 3), torch.tensor([1, 4]))
    assert [pointer for pointer, _ in seen] == [cache.data_ptr()] * 2


def test_views_of_an_input_are_written_where_they_lie() -> None:
    def fn(cache: torch.Tensor, x: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
        ops.put(cache[1], x, where)
        ops.put(cache.view(14, 3), x, where + 9)
        ops.put(cache[0].t()[:, 2:5], x[:, :3], where - 1)
        return cache.flatten() * 2

    cache, x = torch.randn(2, 7, 3), torch.randn(2, 3)
    seen = check(fn, cache, x, torch.tensor([1, 3]))
    base = cache.data_ptr()
    assert seen == [(base + 84, (3, 1)), (base, (3, 1)), (base + 24, (1, 3))]


def test_views_of_a_written_input_share_its_memory() -> None:
    def fn(cache: torch.Tensor, x: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
        ops.put(cache, x, where)
        return ops.double(cache.view(3, 7)) + ops.double(cache.split(4)[0]).sum()

    cache = torch.randn(7, 3)
    seen = check(fn, cache, torch.randn(2, 3), torch.tensor([1, 4]))
    assert [pointer for pointer, _ in seen] == [cache.data_ptr()] * 3


def test_intermediate_result_is_written_without_a_copy() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        ops.bump_(y, 5)
        ops.bump_(y)
        return y + 1

    seen = check(fn, torch.randn(6, 5))
    assert seen[0] == seen[1]


def test_result_of_an_operator_that_returns_its_argument() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = ops.bump_(x, 5) * 2
        return y + x

    x = torch.randn(3, 4)
    assert check(fn, x) == [(x.data_ptr(), x.stride())]


def test_several_written_arguments_and_a_result() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> Any:
        total = ops.put_both(x, y)
        return total, x + y

    x, y = torch.randn(3, 4), torch.randn(3, 4)
    assert [p for p, _ in check(fn, x, y)] == [x.data_ptr(), y.data_ptr()]


def test_written_list_of_tensors() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        ops.fill_all([x, y[1:]], value=2.5)
        return x + y[0]

    x, y = torch.randn(4), torch.randn(3, 4)
    assert [p for p, _ in check(fn, x, y)] == [x.data_ptr(), y.data_ptr() + 16]


def test_argument_is_read_before_it_is_written_even_if_the_reader_waits() -> None:
    def fn(x: torch.Tensor, q: torch.Tensor) -> Any:
        old = x + ops.double(q)  # waits for an operator, so that it runs in a later part
        ops.bump_(x, 7)
        return old, x * 3

    x = torch.randn(3, 4)
    seen = check(fn, x, torch.randn(3, 4))
    assert seen[1][0] == x.data_ptr()


def test_view_from_an_earlier_part_is_read_before_its_input_is_written() -> None:
    def fn(x: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
        turned = x.t()
        z = ops.double(q)
        y = turned + z
        x.add_(z)
        return y * x

    check(fn, torch.randn(37, 37), torch.randn(37, 37))


def test_gradients_through_a_written_intermediate() -> None:
    def fn(w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        ops.bump_(y, 5)
        return (w * y).sum()

    w, x = torch.randn(4, requires_grad=True), torch.randn(4)
    strict(fn)(w, x).backward()
    torch.testing.assert_close(w.grad, x * 2 + 5)


def test_input_that_the_caller_keeps_is_not_written() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        ops.bump_(y, 5)
        return y + x

    x = torch.randn(3, 4)
    ((pointer, _),) = check(fn, x)
    assert pointer != x.data_ptr()


def test_contiguous_arguments_where_the_operator_asks_for_them() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return ops.double(x.t()) + ops.dense(x.t())

    seen = check(fn, torch.randn(3, 4))
    assert [stride for _, stride in seen] == [(1, 4), (3, 1)]


def test_one_graph_serves_all_lengths() -> None:
    def fn(cache: torch.Tensor, x: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
        ops.put(cache, x * 2, where)
        return ops.double(cache[: x.size(0)]) + x

    compiled = strict(fn, dynamic=True)
    for length in (5, 2, 9):
        cache, x = torch.zeros(12, 3), torch.randn(length, 3)
        where = torch.randperm(12)[:length]
        expected_cache = cache.clone()
        expected = fn(expected_cache, x, where)
        SEEN.clear()
        torch.testing.assert_close(compiled(cache, x, where), expected)
        torch.testing.assert_close(cache, expected_cache)
        assert [p for p, _ in SEEN] == [cache.data_ptr()] * 2
