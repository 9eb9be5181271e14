"""LSTM, GRU and plain RNN under torch.compile: gradients, and one compile for every length."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from backend_testing import strict
from buddy.backend import counters
from torch import nn

pytest.importorskip("_buddy")

LAYERS: dict[str, tuple[type[nn.RNNBase], dict[str, Any]]] = {
    "lstm": (nn.LSTM, {}),
    "lstm without biases": (nn.LSTM, {"bias": False}),
    "gru": (nn.GRU, {}),
    "tanh": (nn.RNN, {}),
    "relu": (nn.RNN, {"nonlinearity": "relu"}),
    "layers": (nn.GRU, {"num_layers": 2, "bidirectional": True, "batch_first": True}),
}


@pytest.fixture(autouse=True)
def allow_rnn() -> Iterator[None]:
    with torch._dynamo.config.patch(allow_rnn=True):
        yield


def layer(name: str, dtype: torch.dtype = torch.float32) -> nn.RNNBase:
    torch.manual_seed(0)
    kind, options = LAYERS[name]
    return kind(5, 7, **options).to(dtype)


def gradients(model: nn.Module, function: Any, x: torch.Tensor, **state: Any) -> list[torch.Tensor]:
    """The results, and the gradients of a weighted sum of them."""
    model.zero_grad()
    x = x.clone().requires_grad_()
    results = torch.utils._pytree.tree_leaves(function(x, **state))
    generator = torch.Generator().manual_seed(1)
    weights = [torch.randn(r.shape, generator=generator, dtype=x.dtype) for r in results]
    loss = sum((r * w).sum() for r, w in zip(results, weights, strict=True))
    assert isinstance(loss, torch.Tensor)
    loss.backward()
    given = [parameter.grad for parameter in model.parameters()]
    return [*(r.detach() for r in results), *(g for g in (x.grad, *given) if g is not None)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", LAYERS)
def test_gradients_of_many_lengths_in_one_compile(name: str, dtype: torch.dtype) -> None:
    model = layer(name, dtype)
    compiled = strict(model, dynamic=True)
    for time, batch in ((4, 3), (9, 2), (31, 3)):
        x = torch.randn(*((batch, time) if model.batch_first else (time, batch)), 5, dtype=dtype)
        torch.testing.assert_close(
            gradients(model, compiled, x), gradients(model, model, x), check_stride=False
        )
    assert counters.misses + counters.hits == 2  # forward and backward


def test_gradients_through_a_given_state() -> None:
    model = layer("lstm")
    compiled = strict(model)
    state = tuple(torch.randn(1, 3, 7, requires_grad=True) for _ in range(2))
    taken = []
    for function in (compiled, model):
        results = gradients(model, function, torch.randn(4, 3, 5).fill_(0.5), hx=state)
        taken.append([*results, *(s.grad for s in state)])
        for s in state:
            s.grad = None
    torch.testing.assert_close(*taken, check_stride=False)


def test_a_projection_is_trained_step_by_step() -> None:
    torch.manual_seed(0)
    model = nn.LSTM(5, 7, proj_size=3)
    x = torch.randn(4, 3, 5)
    torch.testing.assert_close(
        gradients(model, strict(model), x), gradients(model, model, x), check_stride=False
    )


@pytest.mark.parametrize("name", ["gru", "tanh", "layers"])
def test_one_compile_for_every_length(name: str) -> None:
    model = layer(name).eval()
    compiled = strict(model, dynamic=True)
    with torch.no_grad():
        for length in (4, 2, 40):
            x = torch.randn(length, 6, 5)
            torch.testing.assert_close(compiled(x), model(x))
    assert (counters.misses, counters.hits) == (1, 0)


def test_other_backends_still_trace_the_steps() -> None:
    graphs = []

    def record(gm: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        graphs.append(gm)
        return gm

    model = layer("gru").eval()
    backend = torch._dynamo.backends.common.aot_autograd(fw_compiler=record)
    x = torch.randn(3, 2, 5)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, backend=backend)(x), model(x))
    assert not any("recurrence" in str(node.target) for node in graphs[0].graph.nodes)
