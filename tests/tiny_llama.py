"""A LLaMA of about a million parameters made from a seed, with a tokenizer, for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

TEXT = """
The quick brown fox jumps over the lazy dog. A model reads tokens one after another and says which
may come next; its caches remember keys and values. Numbers such as 0, 1, 2, 3 and 1984 occur, and
so do words: compile, kernel, vector, matrix, attention, position, capital of France, Paris, ...
"""


def make_model(**changes: Any) -> Any:
    """A LlamaForCausalLM in float32; `changes` go to its configuration."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = {
        "vocab_size": 512,
        "hidden_size": 128,
        "intermediate_size": 344,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        # Wide enough that the likeliest tokens differ clearly.
        "initializer_range": 0.15,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": None,
    }
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**{**config, **changes})).eval()
    with torch.no_grad():  # norms and biases are made trivial, which would hide an error
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter), alpha=0.1)
            del name
    return model


def make_tokenizer(vocab: int = 512) -> Any:
    """A byte-level BPE tokenizer trained on a few lines."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator([TEXT * 3], trainer)
    # Every id that the model may say has a text.
    core.add_tokens([f"<{i}>" for i in range(core.get_vocab_size(), vocab)])
    return PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", eos_token="</s>")


def write_directory(path: Path, *, shard: str | None = None, **changes: Any) -> Any:
    """Write a Hugging Face directory; return the model. `shard` is the largest file's size."""
    model = make_model(**changes)
    model.save_pretrained(path, **({"max_shard_size": shard} if shard else {}))
    make_tokenizer(model.config.vocab_size).save_pretrained(path)
    return model
