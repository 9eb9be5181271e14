"""Greedy decoding compared with PyTorch eager, token for token.

Where the texts part, eager's tokens are fed on and the likeliest token is compared at every
position; a difference counts as one of rounding only if eager's own two best logits are closer
than TIE.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from buddy.aot.library import BundleLibrary

TIE = 1e-4


@dataclass
class Comparison:
    """Over all prompts: positions compared, those that differ, those that differ without a tie."""

    positions: int = 0
    differing: int = 0
    wrong: int = 0


@dataclass(frozen=True)
class Reference:
    """What eager generates after a prompt, and how far its two best logits lie apart."""

    tokens: list[int]
    gaps: list[float]


def eager(model: Any, prompt: list[int], count: int) -> Reference:
    """Greedy decoding of a Hugging Face model with a DynamicCache."""
    from transformers import DynamicCache

    cache = DynamicCache(config=model.config)
    tokens: list[int] = []
    gaps: list[float] = []
    fed = prompt
    with torch.no_grad():
        for _ in range(count):
            output = model(
                torch.tensor([fed]), past_key_values=cache, use_cache=True, logits_to_keep=1
            )
            best = output.logits[0, -1].topk(2)
            tokens.append(int(best.indices[0]))
            gaps.append(float(best.values[0] - best.values[1]))
            fed = tokens[-1:]
    return Reference(tokens, gaps)


def compare(
    comparison: Comparison,
    library: BundleLibrary,
    prompt: list[int],
    said: list[int],
    reference: Reference,
) -> None:
    """Add one prompt's result to `comparison`."""
    count = len(reference.tokens)
    assert len(said) == count
    comparison.positions += count
    if said == reference.tokens:
        return
    state = library.llama_state(len(prompt) + count)
    position, fed = 0, prompt
    for token, gap in zip(reference.tokens, reference.gaps, strict=True):
        logits = library.llama_forward(torch.tensor(fed), position, state)
        position, fed = position + len(fed), [token]
        if int(logits.argmax()) != token:
            comparison.differing += 1
            comparison.wrong += gap >= TIE
