"""Perplexity, errors and cosines of logits that are known."""

from __future__ import annotations

import math

import pytest
import torch
from buddy.bench.accuracy import Logits, compare


def test_figures_of_known_logits() -> None:
    exact = torch.tensor([[3.0, 4.0], [1.0, 0.0], [0.0, 2.0]], dtype=torch.float64)
    values = torch.tensor([[3.0, 4.0], [0.0, 1.0], [0.0, 4.0]])
    found = compare(Logits(torch.arange(3), values), exact, 2 * exact, [0, 1, 0])
    # Equal, at a right angle, twice as long.
    assert found["error"] == pytest.approx((0 + math.sqrt(2) + 1) / 3)
    assert found["cosine"] == pytest.approx((1 + 0 + 1) / 3)
    assert found["own_error"] == pytest.approx((0.5 + math.sqrt(5) / 2 + 0) / 3)
    # Tokens 1 and 0 follow; what follows the last one is not known.
    losses = [math.log(1 + math.exp(-1)), math.log(1 + math.e)]
    assert found["perplexity"] == pytest.approx(math.exp(sum(losses) / 2))


def test_some_positions_are_compared_with_their_own_and_have_no_perplexity() -> None:
    exact = torch.eye(4, dtype=torch.float64)
    found = compare(Logits(torch.tensor([1, 3]), exact[[1, 3]].float()), exact, exact, [0, 1, 2, 3])
    assert found["error"] == 0
    assert "perplexity" not in found
