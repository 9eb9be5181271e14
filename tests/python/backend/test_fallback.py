"""Ops without a rule: strict mode lists them all, otherwise they run in PyTorch and are named."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from backend_testing import strict
from buddy.backend import FallbackWarning, UnsupportedOpsError, buddy_backend, counters
from torch._dynamo.exc import BackendCompilerFailed

pytest.importorskip("_buddy")


LENGTHS = torch.ones(4, dtype=torch.int64)


def two_missing(x: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
    y = torch.special.bessel_j0(x * 2)
    z = torch.segment_reduce(a, "sum", lengths=LENGTHS, unsafe=True)
    return (y + 1) @ z


def bump(x: torch.Tensor, by: int) -> None:
    x.add_(by)


@pytest.fixture(autouse=True)
def two_rules_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two operators count as missing here, however many there are rules for."""
    from buddy.importer import lowerings, registry  # noqa: F401  (registers the rules)
    from buddy.importer.decomposed import TABLE

    monkeypatch.delitem(registry._RULES, (torch.ops.aten.special_bessel_j0.default, "linalg"))
    monkeypatch.delitem(TABLE, torch.ops.aten.segment_reduce.default)


HERE = inspect.getsourcelines(two_missing)[1]
ARGS = (torch.randn(3, 4), torch.randn(4, 4))


def eager(fn: Any, **options: Any) -> Any:
    return torch.compile(fn, backend=buddy_backend, fullgraph=True, options=options)


@pytest.fixture(autouse=True, scope="module")
def library() -> Iterator[torch.library.Library]:
    """Operators that a user registered: one pure, one that writes, one with a wrong fake."""
    with torch.library._scoped_library("backend_test", "FRAGMENT") as lib:
        lib.define("double(Tensor x) -> Tensor")
        lib.impl("double", lambda x: (x * 2).t().contiguous().t(), "CPU")
        lib.impl("double", lambda x: torch.empty_like(x), "Meta")
        lib.define("bump_(Tensor(a!) x, int by) -> ()")
        lib.impl("bump_", bump, "CPU")
        lib.impl("bump_", lambda x, by: None, "Meta")
        lib.define("wrong(Tensor x) -> Tensor")
        lib.impl("wrong", lambda x: x[:1].clone(), "CPU")
        lib.impl("wrong", lambda x: torch.empty_like(x), "Meta")
        yield lib


def test_strict_lists_all_missing_ops_with_dtype_and_line() -> None:
    with pytest.raises(BackendCompilerFailed) as failure:
        strict(two_missing)(*ARGS)
    error = failure.value.inner_exception
    assert isinstance(error, UnsupportedOpsError)
    text = str(error)
    assert text.startswith("2 unsupported ops:")
    assert f"aten.special_bessel_j0.default (f32) at {__file__}:{HERE + 1}" in text
    assert f"aten.segment_reduce.default (f32, i64) at {__file__}:{HERE + 2}" in text


def test_environment_makes_it_strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUDDY_FALLBACK", "error")
    with pytest.raises(BackendCompilerFailed, match="2 unsupported ops"):
        eager(two_missing, fallback="eager")(*ARGS)


def test_the_rest_is_compiled_and_one_warning_names_what_is_not() -> None:
    with pytest.warns(FallbackWarning) as caught:
        compiled = eager(two_missing)
        result = compiled(*ARGS)
    torch.testing.assert_close(result, two_missing(*ARGS))
    (warning,) = caught
    assert "aten.special_bessel_j0.default (f32)" in str(warning.message)
    assert "aten.segment_reduce.default (f32, i64)" in str(warning.message)
    assert 'fallback="error"' in str(warning.message)
    assert counters.misses == 2  # before and after: x * 2, and (y + 1) @ z
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.testing.assert_close(compiled(*ARGS), result)


def test_independent_missing_ops_cut_once() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        a, b = x + 1, x + 2
        a, b = torch.special.bessel_j0(a), torch.special.bessel_j1(b)
        return a * b

    with pytest.warns(FallbackWarning):
        torch.testing.assert_close(eager(fn)(ARGS[0]), fn(ARGS[0]))
    assert counters.misses == 2


def test_input_written_after_a_missing_op_has_read_it() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        old = torch.special.bessel_j0(x)
        x.add_(1)
        return old + x

    x, copy = ARGS[0].clone(), ARGS[0].clone()
    with pytest.warns(FallbackWarning):
        result = eager(fn)(x)
    torch.testing.assert_close(result, fn(copy))
    torch.testing.assert_close(x, copy)


def test_random_numbers_of_all_parts_repeat() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        a = torch.special.bessel_j0(x + torch.bernoulli(torch.full_like(x, 0.5)))
        return a + torch.rand_like(x)

    compiled = eager(fn)
    torch.manual_seed(3)
    with pytest.warns(FallbackWarning):
        first = compiled(ARGS[0])
    assert not torch.equal(compiled(ARGS[0]), first)
    torch.manual_seed(3)
    assert torch.equal(compiled(ARGS[0]), first)


def test_dynamic_sizes_cross_parts() -> None:
    def fn(x: torch.Tensor) -> Any:
        y = torch.special.bessel_j0(x.flatten() * 2)
        return torch.cat([y, y]) + 1, x.size(0)

    compiled = torch.compile(fn, backend=buddy_backend, fullgraph=True, dynamic=True)
    with pytest.warns(FallbackWarning):
        for length in (3, 8):
            x = torch.randn(length, 4)
            torch.testing.assert_close(compiled(x), fn(x))


def test_custom_op_is_called_in_strict_mode() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.backend_test.double(x + 1) * 3

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Its result is column-major, its fake one row-major: both layouts must be read right.
        torch.testing.assert_close(strict(fn)(ARGS[0]), fn(ARGS[0]))


def test_custom_op_that_writes_its_argument() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        torch.ops.backend_test.bump_(y, 5)
        torch.ops.backend_test.bump_(x, 7)
        return y + x

    x, copy = ARGS[0].clone(), ARGS[0].clone()
    torch.testing.assert_close(strict(fn)(x), fn(copy))
    torch.testing.assert_close(x, copy)


def test_custom_op_that_breaks_its_promise_is_an_error() -> None:
    compiled = strict(lambda x: torch.ops.backend_test.wrong(x) + 1)
    with pytest.raises(RuntimeError, match="backend_test.wrong.default returned .*promised"):
        compiled(ARGS[0])


def test_strict_mode_with_custom_and_missing_ops_lists_the_missing() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.special.bessel_j0(torch.ops.backend_test.double(x))

    with pytest.raises(BackendCompilerFailed) as failure:
        strict(fn)(ARGS[0])
    assert "1 unsupported op:\n  aten.special_bessel_j0" in str(failure.value.inner_exception)
