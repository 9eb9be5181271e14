"""Small seeded models by torch.compile, nothing left to PyTorch, against eager mode."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("_buddy")
transformers = pytest.importorskip("transformers")

from buddy.backend import buddy_backend  # noqa: E402

SMALL = {
    "vocab_size": 100,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
}


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep the tests' libraries apart from the user's."""
    path = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BUDDY_CACHE_DIR", str(path))
        yield path


def experts() -> tuple[Any, dict[str, torch.Tensor]]:
    config = transformers.MixtralConfig(
        **SMALL, num_key_value_heads=2, num_local_experts=3, num_experts_per_tok=2
    )
    return transformers.MixtralModel(config), {"input_ids": torch.randint(0, 100, (1, 9))}


def bert() -> tuple[Any, dict[str, torch.Tensor]]:
    mask = torch.ones(2, 7, dtype=torch.long)
    mask[1, 5:] = 0
    ids = torch.randint(0, 100, (2, 7))
    model = transformers.BertModel(transformers.BertConfig(**SMALL))
    return model, {"input_ids": ids, "attention_mask": mask}


def t5() -> tuple[Any, dict[str, torch.Tensor]]:
    config = transformers.T5Config(
        vocab_size=100, d_model=32, d_kv=8, d_ff=48, num_layers=1, num_heads=4
    )
    ids = torch.randint(0, 100, (1, 7))
    return transformers.T5Model(config), {"input_ids": ids, "decoder_input_ids": ids[:, :5]}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("build", [experts, bert, t5])
def test_model_equals_eager(build: Any, dtype: torch.dtype) -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, inputs = build()
    with torch.no_grad():
        for parameter in model.parameters():  # no zero biases and unit gains
            parameter += torch.randn_like(parameter) * 0.1
        model = model.to(dtype).eval()
        compiled = torch.compile(
            model, backend=buddy_backend, fullgraph=True, options={"fallback": "error"}
        )
        expected = model(**inputs).last_hidden_state
        result = compiled(**inputs).last_hidden_state
    assert result.dtype is dtype and result.shape == expected.shape
    error = (result.float() - expected.float()).norm() / expected.float().norm()
    assert error < {torch.float32: 1e-5, torch.bfloat16: 3e-2}[dtype]
