"""Hugging Face directories: whole and sharded checkpoints, and what is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from buddy.aot.errors import BundleError
from buddy.aot.huggingface import HuggingFaceSource
from safetensors.torch import load_file, save_file
from tiny_llama import write_directory


@pytest.fixture
def model(tmp_path: Path) -> Path:
    write_directory(tmp_path / "model")
    return tmp_path / "model"


def load_error(path: Path) -> str:
    with pytest.raises(BundleError) as caught:
        HuggingFaceSource(path, "f32")
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    return message


def edit(path: Path, **changes: Any) -> None:
    """Change keys of config.json; None removes one."""
    config = json.loads((path / "config.json").read_text())
    config.update(changes)
    config = {key: value for key, value in config.items() if value is not None}
    (path / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize("shard", [None, "500KB"])
def test_weights_are_found_in_whole_and_sharded_checkpoints(
    tmp_path: Path, shard: str | None
) -> None:
    reference = write_directory(tmp_path, shard=shard)
    assert (tmp_path / "model.safetensors.index.json").exists() == (shard is not None)
    source = HuggingFaceSource(tmp_path, "f32")
    for name, expected in reference.state_dict().items():
        assert torch.equal(source.load(name.removeprefix("model.")), expected)


def test_bfloat16_checkpoints_become_float32(model: Path) -> None:
    state = {k: v.bfloat16() for k, v in load_file(model / "model.safetensors").items()}
    save_file(state, model / "model.safetensors", {"format": "pt"})
    value = HuggingFaceSource(model, "f32").load("norm.weight")
    assert value.dtype is torch.float32
    assert torch.equal(value, state["model.norm.weight"].float())


def test_rope_keys_of_older_configurations(model: Path) -> None:
    edit(model, rope_parameters=None, rope_theta=5e4, rope_scaling={"type": "linear", "factor": 2})
    rope = HuggingFaceSource(model, "f32").config.rope
    assert (rope.kind, rope.theta, rope.factor) == ("linear", 5e4, 2.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architectures": ["MistralForCausalLM"]}, "MistralForCausalLM"),
        ({"model_type": "qwen2"}, "not supported"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"sliding_window": 128}, "sliding_window"),
        ({"pretraining_tp": 2}, "pretraining_tp"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 2.0}}, "yarn"),
        ({"rope_parameters": {"rope_type": "llama3", "factor": 2.0}}, "needs a number"),
        ({"rope_parameters": {"rope_type": "default", "mscale": 2.0}}, "mscale"),
        ({"hidden_size": None}, "hidden_size"),
        ({"hidden_size": "128"}, "hidden_size"),
        ({"num_hidden_layers": 5}, "missing"),
        ({"num_hidden_layers": 3}, "not known"),
        ({"intermediate_size": 300}, "shape"),
        ({"num_key_value_heads": 3}, "multiple"),
    ],
)
def test_what_is_not_supported_is_named(model: Path, changes: dict[str, Any], message: str) -> None:
    edit(model, **changes)
    assert message in load_error(model)


def test_damaged_files(model: Path) -> None:
    weights = model / "model.safetensors"
    whole = weights.read_bytes()
    for length in (0, 4, 8, 100, len(whole) // 2, len(whole) - 1):
        weights.write_bytes(whole[:length])
        assert "model.safetensors" in load_error(model)
    weights.write_bytes((2**40).to_bytes(8, "little") + whole[8:])
    assert "model.safetensors" in load_error(model)
    weights.unlink()
    assert "no model.safetensors" in load_error(model)
    (model / "config.json").write_text("{")
    assert "not valid JSON" in load_error(model)
    (model / "config.json").unlink()
    assert "No such file" in load_error(model)


def test_an_index_may_not_point_outside(model: Path) -> None:
    (model / "model.safetensors").rename(model.parent / "elsewhere.safetensors")
    index = {"weight_map": {"model.norm.weight": "../elsewhere.safetensors"}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "not a file name" in load_error(model)


def test_a_text_model_needs_a_tokenizer(model: Path, tmp_path: Path) -> None:
    source = HuggingFaceSource(model, "f32")
    (tmp_path / "out").mkdir()
    assert "tokenizer.json" in source.write_tokenizer(tmp_path / "out")
    (model / "tokenizer.json").unlink()
    with pytest.raises(BundleError, match=r"no tokenizer\.json"):
        source.write_tokenizer(tmp_path / "out")
