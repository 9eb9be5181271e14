"""Layers that PyTorch has one kernel for."""

from __future__ import annotations

import pytest
import torch
from harness import compare
from torch import nn


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_lstm(bias: bool, bidirectional: bool) -> None:
    torch.manual_seed(0)
    model = nn.LSTM(5, 3, 2, bias=bias, bidirectional=bidirectional, batch_first=True).eval()
    torch._dynamo.config.allow_rnn = True
    compare(lambda x: model(x), torch.randn(2, 4, 5))


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("mask", ["none", "keys", "causal"])
def test_transformer_encoder(norm_first: bool, mask: str) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(
        12, 3, 20, activation="gelu", batch_first=True, norm_first=norm_first
    ).eval()
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.3)
    padding = torch.zeros(2, 5, dtype=torch.bool)
    padding[1, 3:] = mask == "keys"
    causal = torch.ones(5, 5, dtype=torch.bool).triu(1)

    def function(x: torch.Tensor) -> torch.Tensor:
        if mask == "keys":
            return layer(x, src_key_padding_mask=padding)
        return layer(x, src_mask=causal if mask == "causal" else None)

    compare(function, torch.randn(2, 5, 12), atol=1e-5, rtol=1e-5)
