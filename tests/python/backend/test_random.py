"""Random operators: they repeat by seed, and the numbers are distributed as they should be."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from backend_testing import strict
from buddy.backend import Options, randomness
from buddy.backend.graph import compile_graph
from buddy.importer import UnsupportedOpsError
from torch._subclasses.fake_tensor import FakeTensorMode

pytest.importorskip("_buddy")

N = 200_000

# What is drawn, its mean and its standard deviation.
DRAWN: dict[str, tuple[Callable[[], torch.Tensor], float, float]] = {
    "rand": (lambda: torch.rand(N), 0.5, 12**-0.5),
    "rand f64": (lambda: torch.rand(N, dtype=torch.float64), 0.5, 12**-0.5),
    "rand bf16": (lambda: torch.rand(N, dtype=torch.bfloat16), 0.498, 12**-0.5),
    "randn": (lambda: torch.randn(N // 7, 7), 0, 1),
    "randn f16": (lambda: torch.randn(N, dtype=torch.float16), 0, 1),
    "randint": (lambda: torch.randint(-3, 7, (N,)), 1.5, (99 / 12) ** 0.5),
    "bernoulli": (lambda: torch.bernoulli(torch.full((N,), 0.2)), 0.2, 0.4),
    "uniform_": (lambda: torch.empty(N).uniform_(3, 5), 4, 3**-0.5),
    "normal_": (lambda: torch.empty(N).normal_(2, 3), 2, 3),
    "exponential_": (lambda: torch.empty(N).exponential_(2.0), 0.5, 0.5),
    "dropout": (lambda: F.dropout(torch.ones(N), 0.2), 1, 0.5),
    "multinomial": (lambda: torch.multinomial(torch.tensor([1.0, 2, 1]), N, True), 1, 0.5**0.5),
}


@pytest.mark.parametrize("name", DRAWN)
def test_distribution_and_seed(name: str) -> None:
    function, mean, deviation = DRAWN[name]
    eager = function()
    compiled = strict(function)
    torch.manual_seed(3)
    first, second = compiled(), compiled()
    assert (first.dtype, first.shape) == (eager.dtype, eager.shape)
    assert not torch.equal(first, second)
    torch.manual_seed(3)
    assert torch.equal(compiled(), first)
    for drawn in (first, second):
        # Five times the deviation of the mean of so many.
        assert abs(drawn.double().mean() - mean) < 5 * deviation / N**0.5 + 1e-3
        assert abs(drawn.double().std() / deviation - 1) < 0.02


def test_uniform_numbers_are_philox(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counter and key 0: the known answer of the generator's authors, 6627e8d5 e169c58d."""
    monkeypatch.setattr(randomness, "draw", lambda: torch.zeros(1, dtype=torch.int64))
    (value,) = strict(lambda: torch.rand(1, dtype=torch.float64))()
    assert value.item() == (0xE169C58D6627E8D5 >> 11) / 2**53


def test_the_ends_of_the_interval() -> None:
    x = strict(lambda: torch.rand(N, dtype=torch.float16))()
    assert x.min() >= 0 and x.max() < 1
    assert strict(lambda: torch.randn(N))().isfinite().all()


def test_operators_of_a_graph_differ_and_sizes_may_be_symbols() -> None:
    compiled = torch.compile(strict(lambda x: (torch.rand_like(x), torch.rand_like(x))))
    for n in (5, 9, 0):
        x = torch.empty(n, 3)
        torch._dynamo.mark_dynamic(x, 0)
        a, b = compiled(x)
        assert a.shape == (n, 3)
        assert n == 0 or not torch.equal(a, b)


def test_permutation() -> None:
    order = strict(lambda: torch.randperm(1000))()
    assert torch.equal(order.sort().values, torch.arange(1000))
    assert not torch.equal(order, torch.arange(1000))


def test_draws_without_replacement_are_distinct() -> None:
    drawn = strict(lambda w: torch.multinomial(w, 3))(torch.tensor([[1.0, 1, 1, 0], [0, 1, 5, 1]]))
    assert torch.equal(drawn.sort().values, torch.tensor([[0, 1, 2], [1, 2, 3]]))


def test_dropout_in_training_has_one_mask_forward_and_backward() -> None:
    x = torch.ones(N, requires_grad=True)
    y = strict(lambda x: F.dropout(x, 0.25))(x)
    y.sum().backward()
    assert x.grad is not None
    assert torch.equal(y.detach(), x.grad)
    assert abs((y == 0).float().mean().item() - 0.25) < 0.01


def test_a_generator_of_its_own_is_refused() -> None:
    """Dynamo does not pass generators on; a graph that has one keeps its operator, and says so."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    drawn = graph.call_function(torch.ops.aten.rand_like.generator, (x,), {"generator": None})
    graph.output((drawn,))
    with FakeTensorMode():
        x.meta["val"], drawn.meta["val"] = torch.empty(3), torch.empty(3)
    gm = torch.fx.GraphModule(torch.nn.Module(), graph)
    with pytest.raises(UnsupportedOpsError, match=r"aten\.rand_like\.generator"):
        compile_graph(gm, "forward", Options(fallback="error"))


def test_weights_that_are_no_probabilities_are_an_error() -> None:
    draw = strict(lambda w: torch.multinomial(w, 2, True))
    draw(torch.tensor([0.5, 1.0]))
    for bad in ([-1.0, 2.0], [float("nan"), 1.0], [float("inf"), 1.0], [0.0, 0.0]):
        with pytest.raises(RuntimeError, match="multinomial"):
            draw(torch.tensor(bad))
