"""Layers that PyTorch has one kernel for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from buddy.aot.export import export
from buddy.importer import import_exported_program
from harness import CheckFailed, compare, compile_module, imported_text
from torch import nn

RECURRENT: dict[str, tuple[Any, dict[str, Any]]] = {
    "lstm": (nn.LSTM, {}),
    "projected lstm": (nn.LSTM, {"proj_size": 2}),
    "gru": (nn.GRU, {}),
    "tanh": (nn.RNN, {}),
    "relu": (nn.RNN, {"nonlinearity": "relu"}),
}


@pytest.fixture(autouse=True)
def _dynamo_takes_recurrent_layers() -> Iterator[None]:
    with torch._dynamo.config.patch(allow_rnn=True):
        yield


def recurrent(kind: str, **settings: Any) -> nn.Module:
    torch.manual_seed(0)
    layer, own = RECURRENT[kind]
    return layer(5, 3, **own, **settings).eval()


@pytest.mark.parametrize(
    "settings",
    [{"bias": False, "num_layers": 2}, {"bidirectional": True, "batch_first": True}],
    ids=str,
)
@pytest.mark.parametrize("kind", RECURRENT)
def test_recurrent_layers(kind: str, settings: dict[str, Any]) -> None:
    model = recurrent(kind, **settings)
    compare(lambda x: model(x), torch.randn(4, 2, 5))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_recurrent_layers_of_other_dtypes(kind: str, dtype: torch.dtype) -> None:
    model = recurrent(kind).to(dtype)
    state = torch.randn(1, 3, dtype=dtype)
    given = (state, -state) if kind == "lstm" else state
    tolerance = 3e-2 if dtype is torch.bfloat16 else None
    compare(lambda x, s: model(x, s), torch.randn(3, 5, dtype=dtype), given,
            atol=tolerance, rtol=tolerance)  # fmt: skip


def test_a_long_sequence_is_a_loop() -> None:
    model = recurrent("gru")
    text = [imported_text(lambda x: model(x), torch.randn(n, 2, 5)) for n in (2, 200)]
    assert text[1].count("scf.for") == 1
    assert text[0].count("linalg.") == text[1].count("linalg.")


def test_one_compile_of_an_lstm_serves_every_length() -> None:
    model = recurrent("lstm", bidirectional=True, batch_first=True)
    more = [[torch.randn(3, 7, 5)], [torch.randn(2, 40, 5)]]
    backend = compare(lambda x: model(x), torch.randn(2, 4, 5), dynamic=True, more=more)
    assert len(backend.modules) == 1


@pytest.mark.parametrize("kind", RECURRENT)
def test_an_exported_layer_takes_every_length(kind: str) -> None:
    model = recurrent(kind, bidirectional=True)
    dims = ({0: torch.export.Dim("time", min=0), 1: torch.export.Dim("batch")},)
    program = export(model, (torch.randn(4, 2, 5),), dims).program
    run = compile_module(import_exported_program(program, name="forward"))

    def call(x: torch.Tensor) -> list[torch.Tensor]:
        specs = program.graph_signature.input_specs
        return run([program.state_dict[s.target] if s.target else x for s in specs])

    for time, batch in ((4, 2), (9, 3), (64, 2), (2, 17)):
        x = torch.randn(time, batch, 5)
        with torch.no_grad():
            expected = torch.utils._pytree.tree_leaves(model(x))
        torch.testing.assert_close(call(x), expected, check_stride=False)
    with pytest.raises(CheckFailed, match="sequence length to be larger than 0"):
        call(torch.randn(0, 2, 5))


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
