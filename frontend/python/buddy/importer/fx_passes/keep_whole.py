"""Replaces calls that AOTAutograd would take apart, or fail on, before it sees them.

`F.scaled_dot_product_attention` and `F.rms_norm` are composite: AOTAutograd decomposes them
whatever the decomposition table says. Layer norm and softmax reach the importer whole as they are.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

import buddy.ops  # noqa: F401  (defines torch.ops.buddy)

from .. import provenance
from ..errors import MissingOp, UnsupportedOpsError

aten = torch.ops.aten

_ATTENTION = {
    F.scaled_dot_product_attention,
    torch._C._nn.scaled_dot_product_attention,
    aten.scaled_dot_product_attention.default,
}
_RMS_NORM = {F.rms_norm, torch.rms_norm, aten.rms_norm.default}


def _bind(node: torch.fx.Node, names: list[str], defaults: dict[str, Any]) -> dict[str, Any]:
    values = dict(defaults)
    values.update(zip(names, node.args, strict=False))
    values.update(node.kwargs)
    return values


def _meta(node: Any) -> Any:
    if not isinstance(node, torch.fx.Node):
        return node
    return node.meta.get("example_value", node.meta.get("val"))


def _attention_call(node: torch.fx.Node) -> tuple[Any, ...] | None:
    """Return the arguments of `buddy.attention` for an SDPA call, or None to leave it alone."""
    names = ["query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa"]
    call = _bind(
        node,
        names,
        {"attn_mask": None, "dropout_p": 0.0, "is_causal": False, "scale": None},
    )
    q, k, v = call["query"], call["key"], call["value"]
    metas = [_meta(x) for x in (q, k, v)]
    if not all(isinstance(meta, torch.Tensor) and meta.dim() >= 3 for meta in metas):
        return None
    if call["dropout_p"] != 0.0 or (call["is_causal"] and call["attn_mask"] is not None):
        return None
    heads = [meta.shape[-3] for meta in metas]
    same_heads = heads[1] == heads[2]
    grouped = call.get("enable_gqa", False) or heads[0] == heads[1] or heads[1] == 1
    if not (same_heads and grouped):
        return None
    causal = "top_left" if call["is_causal"] else "none"
    return q, k, v, call["attn_mask"], causal, call["scale"]


def _rms_norm_call(node: torch.fx.Node) -> tuple[Any, ...] | None:
    """Return the arguments of `buddy.rms_norm` for such a call, or None to leave it alone."""
    call = _bind(
        node, ["input", "normalized_shape", "weight", "eps"], {"weight": None, "eps": None}
    )
    meta = _meta(call["input"])
    if isinstance(meta, torch.Tensor) and meta.is_complex():
        return None
    shape = call["normalized_shape"]
    if not isinstance(shape, torch.fx.Node):  # the shape of a tensor of unknown sizes is a node
        shape = list(shape)
    return call["input"], shape, call["weight"], call["eps"]


def _number_of_parts(node: torch.fx.Node) -> tuple[Any, ...] | None:
    """Return the arguments of a split into as many parts as a tensor says, with their number.

    AOTAutograd fails on such a tensor. Dynamo has read it to know the results, and guards it.
    None: any other split. Raises `UnsupportedOpsError` if Dynamo did not tell the results.
    """
    call = _bind(node, ["self", "tensor_indices_or_sections", "dim"], {"dim": 0})
    parts = _meta(call.get("tensor_indices_or_sections"))
    if not isinstance(parts, torch.Tensor) or parts.dim():
        return None
    results = node.meta.get("example_value")
    if not isinstance(results, tuple):
        reason = "the number of results depends on data"
        source = provenance.describe_source(node)
        raise UnsupportedOpsError([MissingOp("tensor_split", (), source, reason)])
    tensor = call["self"] if "self" in call else call["input"]
    return tensor, len(results), call["dim"]


def prepare_fx(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Replace attention and RMSNorm calls in place, in subgraphs too; return the module.

    So are splits into as many parts as a tensor says. A call that our operators do not cover
    (dropout, heads that only broadcast, complex numbers) stays as it is.
    """
    for module in gm.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        changed = False
        for node in list(module.graph.nodes):
            target: Any = node.target
            if target in (torch.tensor_split, "tensor_split"):
                arguments = _number_of_parts(node)
            elif node.op != "call_function":
                continue
            elif target in _ATTENTION:
                target, arguments = torch.ops.buddy.attention.default, _attention_call(node)
            elif target in _RMS_NORM:
                target, arguments = torch.ops.buddy.rms_norm.default, _rms_norm_call(node)
            else:
                continue
            if arguments is None:
                continue
            node.target, node.args, node.kwargs = target, arguments, {}
            changed = True
        if changed:
            module.graph.lint()
            module.recompile()
    return gm
