"""GGUF files: what the `gguf` package writes is read back, what is damaged is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from buddy.aot.errors import BundleError
from buddy.aot.gguf_file import GGUFFile
from buddy.aot.gguf_source import GGUFSource
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_llama import make_model

Q = gguf.GGMLQuantizationType
LAYER = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def stored_name(name: str) -> str:
    """llama.cpp's name of a Hugging Face tensor."""
    name = name.removeprefix("model.")
    for ours, theirs in {"embed_tokens": "token_embd", "lm_head": "output"}.items():
        name = name.replace(ours, theirs)
    name = name.replace("layers.", "blk.")
    for ours, theirs in LAYER.items():
        name = name.replace(ours, theirs)
    return "output_norm.weight" if name == "norm.weight" else name


def permute(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """What llama.cpp's converter does to the rows of q and k (LlamaModel.permute)."""
    split = weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:])
    return split.swapaxes(1, 2).reshape(weight.shape)


def write_gguf(
    path: Path, model: Any, kind: Q = Q.F32, keys: dict[str, Any] | None = None, arch: str = "llama"
) -> None:
    """Write the model as llama.cpp's converter does; `keys` are added or replaced."""
    config = model.config
    writer = gguf.GGUFWriter(path, arch)
    metadata: dict[str, Any] = {
        "llama.block_count": config.num_hidden_layers,
        "llama.context_length": config.max_position_embeddings,
        "llama.embedding_length": config.hidden_size,
        "llama.feed_forward_length": config.intermediate_size,
        "llama.attention.head_count": config.num_attention_heads,
        "llama.attention.head_count_kv": config.num_key_value_heads,
        "llama.attention.layer_norm_rms_epsilon": float(config.rms_norm_eps),
        "llama.rope.freq_base": 10000.0,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": [f"t{i}" for i in range(config.vocab_size)],
        "tokenizer.ggml.eos_token_id": 1,
        **(keys or {}),
    }
    for key, value in metadata.items():
        if isinstance(value, list):
            writer.add_array(key, value)
        elif isinstance(value, str):
            writer.add_string(key, value)
        elif isinstance(value, float):
            writer.add_float32(key, value)
        elif value is not None:
            writer.add_uint32(key, value)
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        part = name.split(".")[-2]
        value = permute(tensor, heads[part]) if part in heads else tensor
        data = value.numpy()
        if kind is Q.F32 or data.ndim == 1 or data.shape[-1] % 32:
            writer.add_tensor(stored_name(name), data)
        else:
            writer.add_tensor(stored_name(name), gguf.quantize(data, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def load_error(path: Path) -> str:
    with pytest.raises(BundleError) as caught:
        GGUFSource(path, "f32")
    message = str(caught.value)
    assert "\n" not in message
    assert path.name in message
    return message


@pytest.mark.parametrize("tied", [False, True])
def test_weights_come_back_in_hugging_face_order(tmp_path: Path, tied: bool) -> None:
    model = make_model(tie_word_embeddings=tied)
    write_gguf(tmp_path / "m.gguf", model)
    source = GGUFSource(tmp_path / "m.gguf", "f32")
    state = model.state_dict()
    assert source.config.tied == tied
    names = [name for name in source.model.state_dict() if name != "rope_inv_freq"]
    assert len(names) == len(state) - tied
    for name in names:
        expected = state[name if name.startswith("lm_head") else f"model.{name}"]
        assert torch.equal(source.load(name), expected), name
    inv_freq = model.model.rotary_emb.inv_freq
    assert torch.equal(source.load("rope_inv_freq"), inv_freq)


def test_biases_are_put_in_order_too(tmp_path: Path) -> None:
    model = make_model(attention_bias=True, mlp_bias=True)
    write_gguf(tmp_path / "m.gguf", model)
    source = GGUFSource(tmp_path / "m.gguf", "f32")
    for part in ("self_attn.q_proj", "self_attn.k_proj", "mlp.down_proj"):
        name = f"layers.1.{part}.bias"
        assert torch.equal(source.load(name), model.state_dict()[f"model.{name}"])


@pytest.mark.parametrize("kind", [Q.F16, Q.BF16, Q.Q8_0, Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1])
def test_quantised_tensors_equal_the_packages_own_reading(tmp_path: Path, kind: Q) -> None:
    path = tmp_path / "m.gguf"
    write_gguf(path, make_model(), kind)
    file = GGUFFile(path)
    kinds = set()
    for tensor in gguf.GGUFReader(path).tensors:
        expected = gguf.dequantize(tensor.data, tensor.tensor_type)
        values = file.dequantize(tensor.name)
        assert values.dtype == np.float32
        assert np.array_equal(values, expected.reshape(tensor.shape[::-1]))
        kinds.add(tensor.tensor_type)
    assert kind in kinds


@pytest.mark.parametrize("kind", [Q.Q2_K, Q.Q3_K, Q.Q4_K, Q.Q5_K, Q.Q6_K])
def test_k_quants_are_read(tmp_path: Path, kind: Q) -> None:
    """The package does not write them: the bytes are random."""
    block, size = gguf.GGML_QUANT_SIZES[kind]
    data = np.random.default_rng(0).integers(0, 256, (3, 2 * size), dtype=np.uint8)
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama")
    writer.add_tensor("t", data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    values = GGUFFile(tmp_path / "m.gguf").dequantize("t")
    assert values.shape == (3, 2 * block)
    assert np.array_equal(values, gguf.dequantize(data, kind), equal_nan=True)


def test_the_tokenizer_file_keeps_the_metadata(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf", make_model())
    GGUFSource(tmp_path / "m.gguf", "f32").write_tokenizer(tmp_path)
    copy = GGUFFile(tmp_path / "tokenizer.gguf")
    assert copy.metadata == GGUFFile(tmp_path / "m.gguf").metadata
    assert not copy.tensors


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "small.gguf"
    write_gguf(path, make_model(num_hidden_layers=1, vocab_size=40, hidden_size=32), Q.Q8_0)
    return path


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_every_truncation_is_one_clear_line(small: Path, data: st.DataObject) -> None:
    whole = small.read_bytes()
    length = data.draw(
        st.integers(0, len(whole) - 33)
    )  # the last tensor may be followed by padding
    path = small.with_name("cut.gguf")
    path.write_bytes(whole[:length])
    load_error(path)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damage_never_ends_in_another_exception(small: Path, data: st.DataObject) -> None:
    """Any eight bytes of the header are overwritten: the file loads or is refused in one line."""
    damaged = bytearray(small.read_bytes())
    header = GGUFFile(small).tensors["token_embd.weight"].offset
    at = data.draw(st.integers(0, header - 8))
    word = data.draw(st.sampled_from([0, 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1]))
    damaged[at : at + 8] = word.to_bytes(8, "little")
    path = small.with_name("damaged.gguf")
    path.write_bytes(damaged)
    try:
        source = GGUFSource(path, "f32")
        source.load("layers.0.self_attn.q_proj.weight")
    except BundleError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"llama.expert_count": 8}, "llama.expert_count"),
        ({"llama.block_count": None}, "llama.block_count"),
        ({"llama.block_count": 5}, "missing"),
        ({"llama.block_count": 3}, "not known"),
        ({"llama.embedding_length": 64}, "shape"),
        ({"llama.attention.head_count": 0}, "head_count"),
        ({"llama.rope.scaling.type": "yarn"}, "yarn"),
        ({"llama.rope.dimension_count": 16}, "rope.dimension_count"),
        ({"llama.context_length": "long"}, "llama.context_length"),
        ({"llama.context_length": 2**32 - 1}, "too large"),
        ({"llama.block_count": 2**32 - 1}, "complete"),
        ({"llama.feed_forward_length": 2**32 - 1, "llama.embedding_length": 2**31}, "too large"),
        ({"llama.rope.freq_base": "x"}, "theta"),
        ({"llama.rope.freq_base": -1.0}, "theta"),
        ({"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 0.0}, "factor"),
        ({"tokenizer.ggml.eos_token_id": "1}; // "}, "eos_token_id"),
        ({"tokenizer.ggml.bos_token_id": 2**31}, "the vocabulary has"),
    ],
)
def test_what_is_not_supported_is_named(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    write_gguf(tmp_path / "m.gguf", make_model(), keys=changes)
    assert message in load_error(tmp_path / "m.gguf")


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    assert "No such file" in load_error(path)
    path.write_bytes(b"")
    assert "empty" in load_error(path)
    path.write_bytes(b"PK\x03\x04 and more")
    assert "not a GGUF file" in load_error(path)
    path.write_bytes(b"GGUF" + (99).to_bytes(4, "little") + bytes(64))
    assert "version 99" in load_error(path)
    write_gguf(path, make_model(), arch="qwen2")
    assert "'qwen2' is not supported" in load_error(path)
