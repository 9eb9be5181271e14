"""The decomposition table that both ways in share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from . import registry
from .data_sizes import data_size_decompositions
from .decomposed import TABLE

aten = torch.ops.aten

# Operators with a rule that keeps them whole although core ATen would take them apart.
_KEPT = (
    aten._scaled_dot_product_flash_attention_for_cpu.default,
    aten.scaled_dot_product_attention.default,
    aten.rms_norm.default,
    aten.silu.default,
    aten.hardswish.default,
    aten.hardsigmoid.default,
    aten.softplus.default,
    aten.leaky_relu.default,
    aten.elu.default,
    aten.gelu.default,
    aten.unbind.int,
    aten.split.Tensor,
    aten.stack.default,
    aten.index_copy.default,
    aten.index_fill.int_Scalar,
    aten.index_fill.int_Tensor,
    aten.addmm.default,
    aten.baddbmm.default,
    aten.slice_scatter.default,
    aten.select_scatter.default,
    aten.tril.default,
    aten.triu.default,
    aten.floor_divide.default,
    aten.native_layer_norm.default,
    aten.native_group_norm.default,
    aten._softmax.default,
    aten.searchsorted.Tensor,
    aten.bucketize.Tensor,
    aten.unfold.default,
    aten.roll.default,
    aten.col2im.default,
    aten.reflection_pad1d.default,
    aten.reflection_pad2d.default,
    aten.reflection_pad3d.default,
    aten.replication_pad1d.default,
    aten.replication_pad2d.default,
    aten.replication_pad3d.default,
    aten.randn.default,
    aten.special_entr.default,
    aten.special_log_ndtr.default,
    # Their decomposition fails on constants, which are no fake tensors.
    aten.detach.default,
    aten.lift.default,
    aten.lift_fresh.default,
)


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Return operator -> decomposition, for both ways in.

    Core ATen's decompositions without the operators that are kept whole, and PyTorch's other ones
    for operators that have no rule here.

    For AOTAutograd: `aot_autograd(decompositions=decompositions())`. For torch.export:
    `import_exported_program` uses it.
    """
    from . import lowerings  # noqa: F401  (registers the rules)

    table = dict(torch.export.default_decompositions().items())
    for kept in _KEPT:
        table.pop(kept, None)
    for op, function in torch._decomp.decomposition_table.items():
        if op not in table and op not in _KEPT and _wanted(op):
            table[op] = function
    table.update(TABLE)
    table.update(data_size_decompositions())
    table[aten.pow.Tensor_Scalar] = _power_of_bools
    return table


def _power_of_bools(base: torch.Tensor, exponent: Any) -> Any:
    """Return bool ** bool as bool, as the kernel does; the fake tensor's would be int64."""
    if base.dtype is not torch.bool or not isinstance(exponent, bool):
        return NotImplemented
    return base.clone() if exponent else torch.ones_like(base)


def _wanted(op: Any) -> bool:
    """Tell whether an operator without a rule is one that graphs may hold: it changes nothing."""
    if not isinstance(op, torch._ops.OpOverload) or registry.find(op, "linalg") is not None:
        return False
    schema = op._schema
    return not schema.is_mutable and "out" not in schema.overload_name.split("_")
