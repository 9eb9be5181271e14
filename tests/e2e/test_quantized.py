"""Bundles with quantised weights against eager on the same dequantised weights."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
import torch
from buddy.aot import blocks
from buddy.aot.library import BundleLibrary
from bundles import Built, buddy, make


@pytest.fixture(scope="module", params=["q8_0", "q4_1", "q4_0"])
def quantized(
    request: pytest.FixtureRequest, tiny: Built, tmp_path_factory: pytest.TempPathFactory
) -> Built:
    """The million-parameter LLaMA in blocks, beside an eager model of what they stand for."""
    built = make(tiny.source, tmp_path_factory.mktemp("q"), None, "--dtype", request.param)
    record = json.loads((built.bundle / "manifest.json").read_text())
    packings = {
        argument["name"]: argument["packing"]
        for argument in record["entries"][0]["arguments"]
        if argument.get("packing", {}).get("format", "plain") != "plain"
    }
    model = copy.deepcopy(tiny.model)
    parameters = dict(model.named_parameters())
    for name, packing in packings.items():
        full = name if name in parameters else f"model.{name}"
        weight = parameters[full].data
        weight.copy_(
            torch.from_numpy(blocks.quantize(weight.numpy(), packing["format"]).dequantize())
        )
    # All matrices of whole blocks, the table of tokens and the head among them.
    matrices = {name for name, p in parameters.items() if p.dim() == 2 and p.shape[1] % 32 == 0}
    assert len(packings) == len(matrices)
    return Built(built.source, built.bundle, built.program, model)


def round_rows(module: torch.nn.Module, inputs: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
    """The rows a product with a quantised weight sees: 127 steps for each block of 32."""
    del module
    (x,) = inputs
    if x.shape[-1] % 32:
        return inputs
    cut = x.unflatten(-1, (-1, 32))
    scale = cut.abs().amax(-1, keepdim=True) / 127
    return ((cut / scale).nan_to_num().round() * scale).flatten(-2)


def test_logits_are_those_of_eager_with_rounded_rows(quantized: Built) -> None:
    for module in quantized.model.modules():
        if isinstance(module, torch.nn.Linear):
            module.register_forward_pre_hook(round_rows)
    ids = torch.randint(3, 500, (40,), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = quantized.model(ids[None]).logits[0]
    library = BundleLibrary(quantized.bundle, 2)
    for split in ([40], [1] * 40, [7, 1, 31, 1]):
        state, position, errors = library.llama_state(40), 0, []
        for count in split:
            logits = library.llama_forward(ids[position : position + count], position, state)[0]
            position += count
            away = (logits - expected[position - 1]).norm() / expected[position - 1].norm()
            errors.append(float(away))
        # Where an element lies between two steps, they may differ by one. A row of a cache
        # that does shows in all logits after it, but not in those before.
        assert max(errors) < 0.03
        if len(errors) == 40:
            assert errors[0] < 1e-5, errors


def test_rows_as_they_are(tiny: Built, quantized: Built, tmp_path: Path) -> None:
    record = json.loads((quantized.bundle / "manifest.json").read_text())
    assert record["activations"] == "int8"
    (dtype,) = {
        argument["packing"]["format"]
        for argument in record["entries"][0]["arguments"]
        if argument["name"].endswith("q_proj.weight")
    }
    built = make(tiny.source, tmp_path, None, "--dtype", dtype, "--activations", "f32")
    record = json.loads((built.bundle / "manifest.json").read_text())
    assert record["activations"] == "f32"
    model = copy.deepcopy(quantized.model)
    for module in model.modules():
        module._forward_pre_hooks.clear()  # of the test with rounded rows
    ids = torch.randint(3, 500, (40,), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = model(ids[None]).logits[0]
    library = BundleLibrary(built.bundle, 2)
    state, position = library.llama_state(40), 0
    for count in (7, 1, 31, 1):
        logits = library.llama_forward(ids[position : position + count], position, state)[0]
        position += count
        torch.testing.assert_close(logits, expected[position - 1], rtol=1e-4, atol=1e-4)


def test_the_program_runs(quantized: Built) -> None:
    one, two = quantized.greedy([5, 6, 7], 20, 1), quantized.greedy([5, 6, 7], 20, 2)
    assert one == two
    assert len(one) == 20


def test_keep_is_for_gguf(tiny: Built, tmp_path: Path) -> None:
    done = buddy("build", tiny.source, "-o", tmp_path / "b", "--dtype", "keep")
    assert done.returncode != 0
    assert "--dtype keep is for GGUF files" in done.stderr
    assert not (tmp_path / "b").exists()
