"""Small seeded models by torch.compile, nothing left to PyTorch, against eager mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import vision_models
from torch._dynamo.utils import counters
from torch.utils._pytree import tree_leaves, tree_map

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
Inputs = dict[str, torch.Tensor]


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep the tests' libraries apart from the user's."""
    path = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BUDDY_CACHE_DIR", str(path))
        yield path


@dataclass(frozen=True)
class Case:
    """A model; its inputs at a length; the inputs whose dimension 1 is of that length."""

    model: torch.nn.Module
    inputs: Callable[[int], Inputs]
    dynamic: tuple[str, ...] = ("input_ids",)


def tokens(*shape: int) -> torch.Tensor:
    return torch.randint(0, 100, shape)


def experts() -> Case:
    config = transformers.MixtralConfig(
        **SMALL, num_key_value_heads=2, num_local_experts=3, num_experts_per_tok=2, use_cache=False
    )
    return Case(transformers.MixtralModel(config), lambda n: {"input_ids": tokens(1, n)})


def bert() -> Case:
    def inputs(n: int) -> Inputs:
        mask = torch.ones(2, n, dtype=torch.long)
        mask[1, n - 2 :] = 0
        return {"input_ids": tokens(2, n), "attention_mask": mask}

    model = transformers.BertModel(transformers.BertConfig(**SMALL))
    return Case(model, inputs, ("input_ids", "attention_mask"))


def t5() -> Case:
    config = transformers.T5Config(
        vocab_size=100, d_model=32, d_kv=8, d_ff=48, num_layers=1, num_heads=4, use_cache=False
    )
    return Case(
        transformers.T5Model(config),
        lambda n: {"input_ids": tokens(1, n), "decoder_input_ids": tokens(1, 5)},
    )


def whisper() -> Case:
    config = transformers.WhisperConfig(
        vocab_size=100, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, num_mel_bins=16,
        max_source_positions=30, max_target_positions=40, pad_token_id=0, bos_token_id=1,
        eos_token_id=2, decoder_start_token_id=1, use_cache=False,
    )  # fmt: skip
    sound = torch.randn(1, 16, 60)
    return Case(
        transformers.WhisperModel(config),
        lambda n: {"input_features": sound, "decoder_input_ids": tokens(1, n)},
        ("decoder_input_ids",),
    )


def clip() -> Case:
    parts = {name: size for name, size in SMALL.items() if name != "vocab_size"}
    config = transformers.CLIPConfig(
        text_config={**parts, "vocab_size": 100, "eos_token_id": 99},
        vision_config={**parts, "image_size": 28, "patch_size": 7},
        projection_dim=16,
    )
    image = torch.randn(2, 3, 28, 28)

    def inputs(n: int) -> Inputs:
        ids = torch.randint(0, 99, (2, n))
        ids[:, -1] = 99
        return {"input_ids": ids, "pixel_values": image, "attention_mask": torch.ones_like(ids)}

    return Case(transformers.CLIPModel(config), inputs, ("input_ids", "attention_mask"))


def vit() -> Case:
    sizes = {name: size for name, size in SMALL.items() if name != "vocab_size"}
    model = transformers.ViTForImageClassification(
        transformers.ViTConfig(**sizes, image_size=30, patch_size=6, num_labels=7)
    )
    return Case(model, lambda _: {"pixel_values": torch.randn(2, 3, 30, 30)})


def unet() -> Case:
    return Case(
        vision_models.UNet(),
        lambda n: {
            "latents": torch.randn(2, 4, 10, 7),  # the upper half meets an odd side
            "step": torch.tensor([3, 700]),
            "text": torch.randn(2, n, 12),
        },
        ("text",),
    )


def vae() -> Case:
    return Case(vision_models.vae_decoder(), lambda _: {"input": torch.randn(1, 4, 6, 5)})


def detector() -> Case:
    return Case(vision_models.Detector(), lambda _: {"x": torch.randn(2, 3, 40, 40)})


def densenet() -> Case:
    return Case(vision_models.densenet(), lambda _: {"input": torch.randn(2, 3, 45, 37)})


def inception() -> Case:
    return Case(vision_models.inception(), lambda _: {"input": torch.randn(2, 3, 43, 39)})


SEQUENCES = [experts, bert, t5, whisper, clip, unet]
IMAGES = [vit, vae, detector, densenet, inception]


def make(build: Callable[[], Case]) -> Case:
    """The case with weights that all count: no zero biases, unit gains or bare statistics."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    case = build()
    with torch.no_grad():
        for parameter in case.model.parameters():
            parameter += torch.randn_like(parameter) * 0.1
        for module in case.model.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.running_mean.normal_(0, 0.1)
                module.running_var.uniform_(0.5, 1.5)
    case.model.eval()
    return case


def compiled(model: torch.nn.Module) -> Callable[..., Any]:
    options = {"fallback": "error"}
    return torch.compile(model, backend=buddy_backend, fullgraph=True, options=options)


def in_dtype(inputs: Inputs, dtype: torch.dtype) -> Inputs:
    return tree_map(lambda x: x.to(dtype) if x.is_floating_point() else x, inputs)


def outputs(model: Callable[..., Any], inputs: Inputs) -> list[torch.Tensor]:
    with torch.no_grad():
        return [x for x in tree_leaves(model(**inputs)) if isinstance(x, torch.Tensor)]


def assert_close(
    results: list[torch.Tensor], eager: list[torch.Tensor], exact: list[torch.Tensor]
) -> None:
    """Each result lies as near to the exact one as eager's, nearly: `exact` is computed in f32."""
    for result, other, want in zip(results, eager, exact, strict=True):
        assert result.dtype is other.dtype and result.shape == want.shape
        ours, theirs = ((x.float() - want).norm() / want.norm() for x in (result, other))
        assert ours <= (1e-5 if result.dtype is torch.float32 else 2 * theirs + 4e-3)


# In f32 some of the sequence models are only tried at changing lengths, below.
F32 = [(build, torch.float32) for build in (experts, bert, t5, *IMAGES)]
BF16 = [(build, torch.bfloat16) for build in (*SEQUENCES, *IMAGES)]


@pytest.mark.parametrize(("build", "dtype"), F32 + BF16)
def test_model_equals_eager(build: Callable[[], Case], dtype: torch.dtype) -> None:
    case = make(build)
    inputs = in_dtype(case.inputs(7), dtype)
    exact = outputs(case.model.float(), in_dtype(inputs, torch.float32))
    model = case.model.to(dtype)
    assert_close(outputs(compiled(model), inputs), outputs(model, inputs), exact)


@pytest.mark.parametrize("build", SEQUENCES)
def test_one_compile_serves_every_length(build: Callable[[], Case]) -> None:
    case = make(build)
    function = compiled(case.model)
    before = counters["stats"]["unique_graphs"]
    for length in (12, 5, 17):
        inputs = case.inputs(length)
        for name in case.dynamic:
            torch._dynamo.mark_dynamic(inputs[name], 1)
        expected = outputs(case.model, inputs)
        assert_close(outputs(function, inputs), expected, expected)
    assert counters["stats"]["unique_graphs"] == before + 1
