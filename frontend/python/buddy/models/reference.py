"""The Hugging Face model that a source describes: what compiled LLaMAs are compared with."""

from __future__ import annotations

from typing import Any

from buddy.aot.errors import BundleError
from buddy.models.llama import LlamaConfig, RopeConfig


def to_hugging_face(source: Any) -> Any:
    """A `LlamaForCausalLM` in eval mode with the source's weights (float32)."""
    from transformers import LlamaForCausalLM

    config = getattr(source, "config", None)
    if not isinstance(config, LlamaConfig):
        raise BundleError("only LLaMAs have a Hugging Face counterpart to compare with")
    model = LlamaForCausalLM(hugging_face_config(config)).eval()
    state = {}
    for name in source.model.state_dict():
        if name == "rope_inv_freq":
            # GGUF files may bring their own; the module computes it from the configuration.
            model.model.rotary_emb.inv_freq.copy_(source.load(name))
            continue
        state[name if name.startswith("lm_head") else f"model.{name}"] = source.load(name)
    missing, unexpected = model.load_state_dict(state, strict=False)
    if unexpected or set(missing) - {"lm_head.weight"}:
        raise BundleError(f"weights do not fit: missing {missing}, unexpected {unexpected}")
    model.tie_weights()
    return model


def hugging_face_config(config: LlamaConfig) -> Any:
    """The same sizes as transformers' LlamaConfig."""
    from transformers import LlamaConfig as HuggingFaceConfig

    return HuggingFaceConfig(
        vocab_size=config.vocab,
        hidden_size=config.width,
        intermediate_size=config.hidden,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        num_key_value_heads=config.kv_heads,
        head_dim=config.head_dim,
        max_position_embeddings=config.context,
        rms_norm_eps=config.norm_eps,
        rope_parameters=_rope(config.rope),
        tie_word_embeddings=config.tied,
        attention_bias=config.attention_bias,
        mlp_bias=config.mlp_bias,
    )


def _rope(rope: RopeConfig) -> dict[str, Any]:
    parameters: dict[str, Any] = {"rope_type": rope.kind, "rope_theta": rope.theta}
    if rope.kind != "default":
        parameters["factor"] = rope.factor
    if rope.kind == "llama3":
        parameters |= {
            "low_freq_factor": rope.low_freq_factor,
            "high_freq_factor": rope.high_freq_factor,
            "original_max_position_embeddings": rope.original_context,
        }
    return parameters
