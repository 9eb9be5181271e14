"""Special functions by the run-time library, element by element, computed in f64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from mlir import ir
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as Kind

from .. import scalars
from ..builder import Builder
from ..registry import lowers
from ..values import Tensor
from .elementwise import elementwise

aten = torch.ops.aten

# Operator -> function of `libbuddy_math` after `buddy_special_`; arguments in the operator's order.
_FUNCTIONS = {
    aten.digamma.default: "digamma",
    aten.lgamma.default: "lgamma",
}


def scalar_call(name: str, *operands: ir.Value) -> ir.Value:
    """Return a function of f64 numbers of the run-time library, called on them."""
    return ir.Operation.create(
        "buddy.scalar_call",
        results=[ir.F64Type.get()],
        operands=list(operands),
        attributes={"callee": ir.StringAttr.get(f"buddy_special_{name}")},
    ).result


def _rule(name: str) -> Callable[..., Tensor]:
    def function(dtype: torch.dtype, *elements: ir.Value) -> ir.Value:
        wide = [scalars.cast(x, dtype, torch.float64) for x in elements]
        return scalars.cast(scalar_call(name, *wide), torch.float64, dtype)

    def rule(b: Builder, *operands: Any) -> Tensor:
        return elementwise(b, operands, function, Kind.INT_TO_FLOAT)

    return rule


for _op, _name in _FUNCTIONS.items():
    lowers(_op)(_rule(_name))
