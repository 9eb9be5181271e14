"""A tiny Hugging Face LLaMA through torch.compile: prefill and decode with a static cache."""

import pytest
import torch
from harness import Backend

transformers = pytest.importorskip("transformers")


def tiny_model():
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=97,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
    )
    return transformers.LlamaForCausalLM(config).eval()


def decode(model, config, sequence):
    cache = transformers.StaticCache(config=config, max_cache_len=24)
    logits = [
        model(input_ids=ids, past_key_values=cache, use_cache=True).logits for ids in sequence
    ]
    return torch.cat(logits, 1)


@pytest.mark.parametrize("whole", [False, True], ids=["decomposed", "whole"])
def test_prefill_of_any_length_is_one_compile(whole):
    model, backend = tiny_model(), Backend(whole=whole)
    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend, dynamic=True, fullgraph=True)
    with torch.no_grad():
        for length in (7, 13, 2):
            ids = torch.randint(0, 97, (1, length))
            expected = model(input_ids=ids, use_cache=False).logits
            actual = compiled(input_ids=ids, use_cache=False).logits
            torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
    assert len(backend.modules) == 1


@pytest.mark.parametrize("whole", [False, True], ids=["decomposed", "whole"])
def test_static_cache_decode_updates_the_cache(whole):
    model, backend = tiny_model(), Backend(whole=whole)
    torch._dynamo.reset()
    sequence = [torch.randint(0, 97, (1, n)) for n in (5, 1, 1, 1)]
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    with torch.no_grad():
        expected = decode(model, model.config, sequence)
        actual = decode(compiled, model.config, sequence)
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
    states = [a for a in backend.modules[-1].args if a.kind == "state"]
    assert sum(a.dtype is torch.float32 for a in states) == 4  # keys and values of two layers


def test_layers_are_named_and_attention_is_whole():
    model, backend = tiny_model(), Backend(execute=False)
    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend, dynamic=True, fullgraph=True)
    with torch.no_grad():
        compiled(input_ids=torch.randint(0, 97, (1, 7)), use_cache=False)
    text = backend.modules[0].text()
    assert text.count('"buddy.attention"') == 2
    for layer in (0, 1):
        assert text.count(f'"model.layers.{layer}"') > 50
    assert text.count('"model.layers.0"') == text.count('"model.layers.1"')
