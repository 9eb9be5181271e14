"""The decomposition table that both ways in share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

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
)


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Return operator -> decomposition: core ATen's, minus the operators that are kept whole.

    For AOTAutograd: `aot_autograd(decompositions=decompositions())`. For torch.export:
    `import_exported_program` uses it.
    """
    table = dict(torch._decomp.core_aten_decompositions())
    for op in _KEPT:
        table.pop(op, None)
    return table
