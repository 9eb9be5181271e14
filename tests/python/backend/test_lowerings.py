"""Lowerings that a user registers for operators of torch.library."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import buddy
import pytest
import torch
from backend_testing import strict
from buddy.backend import counters
from buddy.importer import Builder, LoweringError, Tensor, Unsupported, registry
from mlir import ir
from mlir.dialects import arith
from torch._dynamo.exc import BackendCompilerFailed

pytest.importorskip("_buddy")

CALLS: list[str] = []


@pytest.fixture(autouse=True)
def library() -> Iterator[None]:
    """Operators whose kernels tell that they were called; lowerings last for a test."""

    def axpy(x: torch.Tensor, y: torch.Tensor, a: float = 2.0) -> torch.Tensor:
        CALLS.append("axpy")
        return x * a + y

    def bump(x: torch.Tensor, by: float) -> None:
        CALLS.append("bump")
        x.add_(by)

    def swap(a: torch.Tensor, b: torch.Tensor | None) -> torch.Tensor:
        CALLS.append("swap")
        old = a.clone()
        if b is not None:
            a.copy_(b)
            b.copy_(old)
        return old * 2

    CALLS.clear()
    with torch.library._scoped_library("lower_test", "FRAGMENT") as lib:
        lib.define("axpy(Tensor x, Tensor y, float a=2.0) -> Tensor")
        lib.impl("axpy", axpy, "CPU")
        lib.impl("axpy", lambda x, y, a=2.0: torch.empty_like(x), "Meta")
        lib.define("bump(Tensor(a!) x, float by) -> ()")
        lib.impl("bump", bump, "CPU")
        lib.impl("bump", lambda x, by: None, "Meta")
        lib.define("swap(Tensor(a!) a, Tensor(b!)? b) -> Tensor")
        lib.impl("swap", swap, "CPU")
        lib.impl("swap", lambda a, b: torch.empty_like(a), "Meta")
        lib.define("two(Tensor x) -> Tensor")
        lib.define("two.more(Tensor x, int n) -> Tensor")
        lib.define("all_of(Tensor(a!)[] xs) -> ()")
        yield
    for op, dialect in list(registry._RULES):
        if op.namespace == "lower_test":
            del registry._RULES[op, dialect]


ops: Any = torch.ops.lower_test


def elementwise(
    b: Builder, operands: list[Tensor], body: Callable[..., ir.Value], dtype: Any = None
) -> Tensor:
    return b.pointwise(operands, operands[0].shape, dtype or operands[0].dtype, body)


def lower_axpy(b: Builder, x: Tensor, y: Tensor, a: float) -> Tensor:
    factor = b.scalar(a, x.dtype)
    return elementwise(b, [x, y], lambda p, q: arith.addf(arith.mulf(p, factor), q))


def lower_bump(b: Builder, x: Tensor, by: float) -> Tensor:
    step = b.scalar(by, x.dtype)
    return elementwise(b, [x], lambda p: arith.addf(p, step))


def check(fn: Any, *args: torch.Tensor, dynamic: bool | None = None) -> None:
    """Compare results and arguments with eager's; nothing may be called."""
    expected_args = [arg.clone() for arg in args]
    with torch.no_grad():
        expected = fn(*expected_args)
        CALLS.clear()
        result = strict(fn, dynamic=dynamic)(*args)
    assert not CALLS
    torch.testing.assert_close(result, expected)
    torch.testing.assert_close(list(args), expected_args)


def test_lowering_is_compiled_into_the_graph_with_defaults_filled_in() -> None:
    buddy.register_lowering(ops.axpy)(lower_axpy)

    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return ops.axpy(x + 1, y.t()) * ops.axpy(x, y.t(), 0.5)

    check(fn, torch.randn(3, 5), torch.randn(5, 3))
    assert counters.misses == 1


def test_symbolic_sizes() -> None:
    buddy.register_lowering(ops.axpy.default)(lower_axpy)
    buddy.register_lowering(ops.bump)(lower_bump)

    def fn(x: torch.Tensor) -> torch.Tensor:
        ops.bump(x, 3.0)
        return ops.axpy(x, x)

    compiled = strict(fn, dynamic=True)
    for length in (7, 2, 5):
        x = torch.randn(length, 3)
        copy = x.clone()
        torch.testing.assert_close(compiled(x), fn(copy))
        torch.testing.assert_close(x, copy)
    assert counters.misses == 1


def test_written_argument_gets_the_new_value() -> None:
    buddy.register_lowering(ops.bump)(lower_bump)

    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        ops.bump(x, 3.0)
        z = y * 2
        ops.bump(z, 1.0)
        ops.bump(x, -1.0)
        return x + z

    check(fn, torch.randn(3, 5), torch.randn(3, 5))


@pytest.mark.parametrize("size", [5, 1, 0])
def test_written_views_of_an_argument(size: int) -> None:
    buddy.register_lowering(ops.bump)(lower_bump)

    def fn(x: torch.Tensor) -> torch.Tensor:
        ops.bump(x[1], 3.0)
        ops.bump(x.view(-1, 4), 1.0)
        ops.bump(x[:, :1], 2.0)
        return x * 2

    check(fn, torch.randn(2, size, 4))


def test_written_view_that_is_not_contiguous_is_called() -> None:
    buddy.register_lowering(ops.bump)(lower_bump)

    def fn(x: torch.Tensor) -> torch.Tensor:
        ops.bump(x.t()[:2], 3.0)
        return x * 2

    x = torch.randn(3, 5)
    copy = x.clone()
    torch.testing.assert_close(strict(fn)(x), fn(copy))
    torch.testing.assert_close(x, copy)
    assert CALLS == ["bump", "bump"]


def test_results_come_before_new_values_and_none_stays_none() -> None:
    @buddy.register_lowering(ops.swap)
    def lower_swap(b: Builder, x: Tensor, y: Tensor | None) -> Any:
        doubled = elementwise(b, [x], lambda p: arith.addf(p, p))
        return (doubled, x, None) if y is None else (doubled, y, x)

    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        total = ops.swap(x, y)
        return total + ops.swap(y, None) + x

    check(fn, torch.randn(3, 5), torch.randn(3, 5))


def test_cache_of_a_lowering_is_written_in_place(tmp_path: Path) -> None:
    buddy.register_lowering(ops.bump)(lower_bump)

    def fn(cache: torch.Tensor) -> torch.Tensor:
        ops.bump(cache, 3.0)
        return cache[::100] * 2

    cache = torch.randn(1000, 37)
    copy = cache.clone()
    compiled = strict(fn, dump_dir=str(tmp_path))
    torch.testing.assert_close(compiled(cache), fn(copy))
    torch.testing.assert_close(cache, copy)
    (kernel,) = tmp_path.rglob("*kernel*.mlir")
    text = kernel.read_text()
    assert "memref<1000x37xf32" in text
    assert not any("memref.copy" in line or "memref.alloc" in line for line in text.splitlines())


def test_a_lowering_may_refuse_its_arguments() -> None:
    @buddy.register_lowering(ops.bump)
    def rule(b: Builder, x: Tensor, by: float) -> Tensor:
        if x.dtype is not torch.float32:
            raise Unsupported("only f32")
        return lower_bump(b, x, by)

    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        ops.bump(x, 3.0)
        ops.bump(y, 3.0)
        return x + y

    x, y = torch.randn(3, 5), torch.randn(3, 5, dtype=torch.float64)
    copies = [x.clone(), y.clone()]
    torch.testing.assert_close(strict(fn)(x, y), fn(*copies))
    torch.testing.assert_close([x, y], copies)
    assert CALLS == ["bump"] * 3  # one compiled graph's, two of eager's


def test_refused_registrations() -> None:
    buddy.register_lowering(ops.axpy)(lower_axpy)
    with pytest.raises(ValueError, match=r"lower_test.axpy.default has a lowering already"):
        buddy.register_lowering(ops.axpy)(lower_axpy)
    with pytest.raises(ValueError, match="has the overloads default, more; name one"):
        buddy.register_lowering(ops.two)
    with pytest.raises(ValueError, match="writes xs, a list of tensors"):
        buddy.register_lowering(ops.all_of)
    with pytest.raises(ValueError, match=r"only operators of torch.library"):
        buddy.register_lowering(torch.ops.aten.add.Tensor)
    with pytest.raises(ValueError, match="is no operator of torch.library"):
        buddy.register_lowering(torch.add)


def test_operator_made_by_custom_op() -> None:
    @torch.library.custom_op("lower_test::thrice", mutates_args=())
    def thrice(x: torch.Tensor) -> torch.Tensor:
        CALLS.append("thrice")
        return x * 3

    @thrice.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    @buddy.register_lowering(thrice)
    def rule(b: Builder, x: Tensor) -> Tensor:
        three = b.scalar(3.0, x.dtype)
        return elementwise(b, [x], lambda p: arith.mulf(p, three))

    check(lambda x: thrice(x) + 1, torch.randn(4))


Wrong = Callable[[Builder, Tensor], Any]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda b, x: (None, x), "result 0 is of type NoneType, not a Tensor"),
        (lambda b, x: (x,), "returned 1 values, but 3 are needed: result 0, the new value of a,"),
        (lambda b, x: (x, x, x, x), "returned 4 values, but 3 are needed"),
        (lambda b, x: (x, x.permute([1, 0])), r"new value of a is f32\[5, 3\], but must be f32\["),
        (lambda b, x: (b.cast(x, torch.int64), x), r"result 0 is i64\[3, 5\], but must be f32\["),
        (
            lambda b, x: (Tensor.plain(b.value(x), torch.float32, x.shape), Tensor.plain(
                b.cast(x, torch.int32).base, torch.float32, x.shape)),
            "new value of a is of MLIR type tensor<3x5xi32>, not tensor<3x5xf32>",
        ),
    ],
)  # fmt: skip
def test_wrong_values_are_told(rule: Wrong, message: str) -> None:
    buddy.register_lowering(ops.swap)(lambda b, x, y: _padded(rule(b, x), y))
    with pytest.raises(BackendCompilerFailed, match=message) as failure:
        strict(lambda x: ops.swap(x, None) + x)(torch.randn(3, 5))
    assert isinstance(failure.value.inner_exception, LoweringError)
    assert "lower_test.swap.default" in str(failure.value)


def _padded(values: Any, y: Any) -> Any:
    """Add the new value of the second argument, which is None, to a pair."""
    return (*values, None) if isinstance(values, tuple) and len(values) == 2 else values


def test_another_lowering_is_another_library() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        ops.bump(x, 3.0)
        return x

    x = torch.zeros(11, 3)
    buddy.register_lowering(ops.bump)(lower_bump)
    assert strict(fn)(x)[0, 0] == 3
    del registry._RULES[ops.bump.default, "linalg"]
    torch._dynamo.reset()

    @buddy.register_lowering(ops.bump)
    def rule(b: Builder, x: Tensor, by: float) -> Tensor:
        step = b.scalar(by, x.dtype)
        return elementwise(b, [x], lambda p: arith.subf(p, step))

    assert strict(fn)(x)[0, 0] == 0
    assert counters.misses == 2


def test_importing_buddy_does_not_import_torch() -> None:
    code = "import buddy, sys; assert 'torch' not in sys.modules; buddy.register_lowering"
    subprocess.run([sys.executable, "-c", code], check=True)
