"""The LLaMA wrapper computes what Hugging Face computes, and traces without specialising."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from buddy.aot.huggingface import HuggingFaceSource
from buddy.models.llama import Llama, LlamaConfig
from tiny_llama import write_directory

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "tied": {"tie_word_embeddings": True},
    "one kv head": {"num_key_value_heads": 1},
    "all kv heads": {"num_key_value_heads": 4},
    "wide heads": {"head_dim": 48},
    "biases": {"attention_bias": True, "mlp_bias": True},
    "linear rope": {
        "rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}
    },
    "llama3 rope": {"rope_parameters": LLAMA3},
}


def load(source: HuggingFaceSource) -> Llama:
    """The wrapper with the source's weights."""
    model = Llama(source.config).eval()
    model.load_state_dict({name: source.load(name) for name in model.state_dict()})
    return model


def caches(config: LlamaConfig, capacity: int) -> list[torch.Tensor]:
    shape = (config.kv_heads, capacity, config.head_dim)
    return [torch.full(shape, torch.nan) for _ in range(config.layers)]


@pytest.mark.parametrize("case", CASES)
def test_logits_equal_hugging_face(tmp_path: Path, case: str) -> None:
    """Prefill in two parts, then decode, against one call of Hugging Face eager."""
    reference = write_directory(tmp_path, **CASES[case])
    source = HuggingFaceSource(tmp_path, "f32")
    model = load(source)
    tokens = torch.randint(0, 512, (30,), generator=torch.Generator().manual_seed(1))
    k, v = caches(source.config, 30), caches(source.config, 30)
    with torch.no_grad():
        expected = reference(tokens[None]).logits[0]
        for start, end in [(0, 11), (11, 25), *((i, i + 1) for i in range(25, 30))]:
            logits = model(tokens[start:end], start, k, v)["logits"]
            torch.testing.assert_close(logits[0], expected[end - 1], rtol=1e-4, atol=1e-4)


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> tuple[Llama, Any]:
    path = tmp_path_factory.mktemp("tiny")
    write_directory(path)
    source = HuggingFaceSource(path, "f32")
    (trace,) = source.trace().values()
    assert set(trace.names.values()) == {"count", "position", "capacity"}
    assert trace.outputs == ["logits"]
    assert trace.decomposed  # its layers are copies of a traced one, and it changes no input
    return load(source), trace.program


@pytest.mark.parametrize(
    ("count", "position", "capacity"),
    [(1, 0, 1), (1, 0, 9), (5, 0, 5), (3, 6, 9), (1, 8, 9), (64, 100, 200)],
)
def test_one_trace_serves_every_length(
    traced: tuple[Llama, Any], count: int, position: int, capacity: int
) -> None:
    """The exported graph runs with lengths it was not traced with, also with a full cache."""
    model, program = traced
    graph = torch.fx.GraphModule(program.graph_module, program.graph)
    k = [torch.randn_like(cache) for cache in caches(model.config, capacity)]
    v = [torch.randn_like(cache) for cache in caches(model.config, capacity)]
    tokens = torch.arange(count) % 512
    weights = {**model.state_dict()}
    values = [
        weights[spec.target]
        for spec in program.graph_signature.input_specs
        if spec.target in weights
    ]
    with torch.no_grad():
        *written, logits = graph(*values, tokens, position, *k, *v)
        expected = model(tokens, position, k, v)["logits"]
    torch.testing.assert_close(logits, expected)
    targets = [spec.target for spec in program.graph_signature.output_specs[:-1]]
    names = [f"{kind}_cache_{i}" for kind in "kv" for i in range(len(k))]
    found = dict(zip(targets, written, strict=True))
    torch.testing.assert_close([found[name] for name in names], [*k, *v])


def test_assertions_do_not_grow_with_depth(traced: tuple[Llama, Any]) -> None:
    """Each condition stands once in the graph, not once a layer."""
    _, program = traced
    asserts = [
        node for node in program.graph.nodes if node.target is torch.ops.aten._assert_scalar.default
    ]
    assert 1 <= len(asserts) <= 5


def test_position_past_the_capacity_is_refused(traced: tuple[Llama, Any]) -> None:
    model, _ = traced
    k, v = caches(model.config, 8), caches(model.config, 8)
    with pytest.raises(RuntimeError):
        model(torch.arange(3), 6, k, v)
