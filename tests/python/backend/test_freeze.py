"""torch.compile(backend="buddy", options={"freeze": True}): weights in panels."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from backend_testing import strict
from buddy import panels
from buddy.backend import counters
from torch import nn

pytest.importorskip("_buddy")


class Tied(nn.Module):
    """A table that is looked up and multiplied with, and a product of odd sizes before."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.table = nn.Embedding(37, 19, dtype=dtype)
        self.inner = nn.Linear(19, 19, dtype=dtype)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.inner(self.table(tokens)))
        return hidden @ self.table.weight.T


@pytest.fixture
def packed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes of the weights that are packed, as they are."""
    shapes: list[tuple[int, ...]] = []
    pack = panels.pack

    def spy(weight: torch.Tensor, layout: Any) -> torch.Tensor:
        shapes.append(tuple(weight.shape))
        return pack(weight, layout)

    monkeypatch.setattr(panels, "pack", spy)
    return shapes


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_packs_once_and_again_after_a_write(
    dtype: torch.dtype, packed: list[tuple[int, ...]]
) -> None:
    model = Tied(dtype)
    compiled = strict(model, freeze=True)
    tolerances = {} if dtype is not torch.bfloat16 else {"rtol": 2e-2, "atol": 2e-2}
    with torch.no_grad():
        for length in (5, 1, 5):
            tokens = torch.randint(0, 37, (2, length))
            torch.testing.assert_close(compiled(tokens), model(tokens), **tolerances)
        # Once for each of the graphs (sizes 5, 1 and dynamic are at most that many).
        graphs = counters.misses + counters.hits
        assert sorted(set(packed)) == [(19, 19), (37, 19)]
        assert len(packed) == 2 * graphs
        before = len(packed)
        model.inner.weight.mul_(-3)
        torch.testing.assert_close(compiled(tokens), model(tokens), **tolerances)
        assert packed[before:] == [(19, 19)]
        model.table.weight = nn.Parameter(torch.randn(37, 19, dtype=dtype))
        torch.testing.assert_close(compiled(tokens), model(tokens), **tolerances)
        assert (37, 19) in packed[before:]


def test_a_library_of_the_cache_still_says_how_it_takes_weights() -> None:
    model, x = nn.Linear(20, 33), torch.randn(4, 20)
    with torch.no_grad():
        for hits in (0, 1):
            torch._dynamo.reset()
            torch.testing.assert_close(strict(model, freeze=True)(x), model(x))
            assert counters.hits == hits
        # Without packing it is another library.
        torch._dynamo.reset()
        torch.testing.assert_close(strict(model)(x), model(x))
    assert counters.misses == 2


def test_a_weight_that_is_returned_is_returned_as_it_is() -> None:
    model = nn.Linear(20, 33)

    def fn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return model(x), model.weight.T

    x = torch.randn(4, 20)
    with torch.no_grad():
        y, w = strict(fn, freeze=True)(x)
    torch.testing.assert_close(y, model(x))
    assert w.data_ptr() == model.weight.data_ptr()
    assert w.shape == (20, 33)


def test_trains() -> None:
    torch.manual_seed(3)
    model, reference = nn.Linear(20, 3), nn.Linear(20, 3)
    reference.load_state_dict(model.state_dict())
    compiled = strict(model, freeze=True)
    x = torch.randn(7, 20)
    for net, call in ((model, compiled), (reference, reference)):
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        for _ in range(3):
            optimizer.zero_grad()
            call(x).square().sum().backward()
            optimizer.step()
    torch.testing.assert_close(model.weight, reference.weight)


def test_inference_tensors() -> None:
    with torch.inference_mode():
        model, x = nn.Linear(20, 33), torch.randn(4, 20)
        torch.testing.assert_close(strict(model, freeze=True)(x), model(x))
