"""Bundles that compute in bf16 and f16: no further from float32 than eager in the same type."""

from __future__ import annotations

import copy

import pytest
import torch
from buddy.aot.library import BundleLibrary
from bundles import Built, make


@pytest.mark.parametrize(("name", "dtype"), [("bf16", torch.bfloat16), ("f16", torch.float16)])
def test_errors_are_those_of_eager(
    tiny: Built, tmp_path_factory: pytest.TempPathFactory, name: str, dtype: torch.dtype
) -> None:
    built = make(tiny.source, tmp_path_factory.mktemp(name), None, "--dtype", name)
    ids = torch.randint(3, 500, (40,), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        exact = tiny.model(ids[None]).logits[0]
        eager = copy.deepcopy(tiny.model).to(dtype)(ids[None]).logits[0].float()
    library = BundleLibrary(built.bundle, 2)
    for split in ([1] * 40, [7, 1, 31, 1]):
        state, position, ours, theirs = library.llama_state(40), 0, 0.0, 0.0
        for count in split:
            logits = library.llama_forward(ids[position : position + count], position, state)[0]
            position += count
            ours += float((logits - exact[position - 1]).square().sum())
            theirs += float((eager[position - 1] - exact[position - 1]).square().sum())
        assert ours <= 1.5**2 * theirs
    assert built.greedy([5, 6, 7], 8, 1) == built.greedy([5, 6, 7], 8, 2)
