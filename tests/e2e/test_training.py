"""Training through torch.compile: forward and backward graphs, an optimizer's step."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

pytest.importorskip("_buddy")

from buddy.backend import buddy_backend

STEPS = 20


def strict(function: Any) -> Any:
    """Compile whole graphs; what is not compiled is an error."""
    return torch.compile(
        function, backend=buddy_backend, fullgraph=True, options={"fallback": "error"}
    )


def gpt2(dropout: float = 0.0) -> GPT2LMHeadModel:
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=96, n_positions=32, n_embd=48, n_layer=2, n_head=4,
        resid_pdrop=dropout, embd_pdrop=dropout, attn_pdrop=dropout,
    )  # fmt: skip
    return GPT2LMHeadModel(config).train()


def train(model: nn.Module, forward: Callable[..., torch.Tensor], fused: bool) -> list[float]:
    """Return the losses of some steps on fixed text."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    step = optimizer.step
    if fused:
        step = torch.compile(step, backend=buddy_backend, options={"fallback": "error"})
    generator = torch.Generator().manual_seed(1)
    text = torch.randint(0, 96, (STEPS, 3, 17), generator=generator) // 8 * 8
    losses = []
    for tokens in text:
        optimizer.zero_grad()
        loss = forward(tokens)
        loss.backward()
        step()
        losses.append(loss.item())
    return losses


def loss_of(model: nn.Module) -> Callable[[torch.Tensor], torch.Tensor]:
    def forward(tokens: torch.Tensor) -> torch.Tensor:
        logits = model(input_ids=tokens[:, :-1], use_cache=False).logits
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    return forward


@pytest.mark.parametrize("fused", [False, True], ids=["step eager", "step compiled"])
def test_gpt2_has_the_losses_of_eager(fused: bool) -> None:
    model = gpt2()
    reference = copy.deepcopy(model)
    expected = train(reference, loss_of(reference), fused=False)
    actual = train(model, strict(loss_of(model)), fused)
    assert expected[-1] < 0.8 * expected[0]
    torch.testing.assert_close(actual, expected, rtol=2e-3, atol=2e-3)


def test_gradients_equal_eagers() -> None:
    model = gpt2()
    reference = copy.deepcopy(model)
    tokens = torch.randint(0, 96, (2, 9))
    strict(loss_of(model))(tokens).backward()
    loss_of(reference)(tokens).backward()
    for (name, ours), theirs in zip(model.named_parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-6, msg=name)


def test_dropout_trains() -> None:
    model = gpt2(dropout=0.2)
    losses = train(model, strict(loss_of(model)), fused=False)
    assert losses[-1] < 0.9 * losses[0]


class Convolutions(nn.Module):
    """Convolution, batch norm in training (running statistics change), pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
            nn.MaxPool2d(2), nn.Conv2d(8, 6, 3, groups=2), nn.GELU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 5),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def test_convolutional_network_and_its_running_statistics() -> None:
    torch.manual_seed(0)
    model = Convolutions().train()
    reference = copy.deepcopy(model)
    x, target = torch.randn(4, 3, 17, 19), torch.randint(0, 5, (4,))
    compiled = strict(lambda x: F.cross_entropy(model(x), target))
    for _ in range(3):
        for net, loss in ((model, compiled(x)), (reference, None)):
            loss = F.cross_entropy(net(x), target) if loss is None else loss
            loss.backward()
            with torch.no_grad():
                for parameter in net.parameters():
                    parameter -= 0.1 * parameter.grad
                    parameter.grad = None
    for ours, theirs in zip(
        model.state_dict().values(), reference.state_dict().values(), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
