"""Products of groups of rows."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from harness import compare


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("ends", [[2, 2, 7], [0, 0, 7], [1, 4, 7]])
def test_grouped_product_in_bfloat16(transposed: bool, ends: list[int]) -> None:
    torch.manual_seed(0)
    x = torch.randn(7, 16).bfloat16()
    w = torch.randn(3, 24, 16).bfloat16() if transposed else torch.randn(3, 16, 24).bfloat16()

    def function(x: torch.Tensor, w: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        return F.grouped_mm(x, w.mT if transposed else w, offs=ends)

    offsets = torch.tensor(ends, dtype=torch.int32)
    compare(function, x, w, offsets, rtol=0.02, atol=0.05)
