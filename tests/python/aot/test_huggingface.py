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
        ({"num_hidden_layers": 10**9}, "complete"),
        ({"hidden_size": 10**30}, "too large"),
        ({"intermediate_size": 10**30}, "too large"),
        ({"max_position_embeddings": 10**12}, "too large"),
        ({"rms_norm_eps": float("nan")}, "norm_eps"),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 0}}, "theta"),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": "x"}}, "theta"),
        ({"rope_parameters": {"rope_type": "linear", "factor": float("inf")}}, "factor"),
        ({"rope_parameters": {"rope_type": ["linear"]}}, "rope type"),
        ({"bos_token_id": "x"}, "bos_token_id"),
        ({"bos_token_id": 10**9}, "the vocabulary has"),
    ],
)
def test_what_is_not_supported_is_named(model: Path, changes: dict[str, Any], message: str) -> None:
    edit(model, **changes)
    assert message in load_error(model)


@pytest.mark.parametrize("value", ["x", 1.5, [["1}; // "]], {"a": 1}, True, 10**30])
def test_end_tokens_are_ids(model: Path, value: Any) -> None:
    """They stand in model.h, which must compile."""
    (model / "generation_config.json").unlink(missing_ok=True)
    edit(model, eos_token_id=value)
    assert "eos_token_id" in load_error(model)


def test_no_token_is_not_an_end_token(model: Path) -> None:
    (model / "generation_config.json").unlink(missing_ok=True)
    edit(model, eos_token_id=[-1, 5])
    assert HuggingFaceSource(model, "f32").description.eos_tokens == [5]


def test_whole_numbers_are_no_weights(model: Path) -> None:
    weights = model / "model.safetensors"
    data = weights.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    header["model.norm.weight"]["dtype"] = "I32"
    text = json.dumps(header).encode()
    weights.write_bytes(len(text).to_bytes(8, "little") + text + data[end:])
    assert "'model.norm.weight' has dtype I32" in load_error(model)


def test_a_link_that_leads_nowhere_is_not_a_missing_file(model: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    config = model / "tokenizer_config.json"
    config.unlink(missing_ok=True)
    config.symlink_to("/nonexistent")
    with pytest.raises(BundleError, match="No such file"):
        HuggingFaceSource(model, "f32").write_tokenizer(tmp_path / "out")
    (model / "generation_config.json").unlink(missing_ok=True)
    (model / "generation_config.json").symlink_to("/nonexistent")
    assert "No such file" in load_error(model)


def test_a_damaged_tokenizer_is_found_by_the_build(model: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    tokenizer = model / "tokenizer.json"
    whole = tokenizer.read_bytes()
    for damaged in (b"", b"[]", b"\xff\xfe", whole[: len(whole) // 2]):
        tokenizer.write_bytes(damaged)
        with pytest.raises(BundleError, match=r"tokenizer\.json"):
            HuggingFaceSource(model, "f32").write_tokenizer(tmp_path / "out")


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
