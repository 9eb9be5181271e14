"""Assertions and values that leave a tensor for a scalar."""

from __future__ import annotations

from typing import Any

import sympy
import torch
from mlir import ir
from mlir.dialects import arith, tensor

from .. import scalars, types
from ..builder import Builder
from ..errors import Unsupported
from ..registry import find, lowers, schema_arguments
from ..symbols import as_expr
from ..values import Tensor
from .common import check_all

aten = torch.ops.aten


@lowers(aten._assert_async.msg, aten._assert_async.default)
def _assert_async(b: Builder, x: Tensor, message: str = "an assertion failed") -> None:
    check_all(b, [x], lambda value: scalars.cast(value, x.dtype, torch.bool), message)


@lowers(aten._assert_scalar.default)
def _assert_scalar(b: Builder, condition: Any, message: str) -> None:
    condition = as_expr(condition)
    if condition is True:
        return
    value = b.symbols.value(condition)
    if value.type != ir.IntegerType.get_signless(1):
        zero = arith.constant(value.type, 0)
        value = arith.cmpi(arith.CmpIPredicate.ne, value, zero)
    b.check(value, message, precondition=True)


@lowers(aten._local_scalar_dense.default, aten.item.default)
def _item(b: Builder, x: Tensor) -> Any:
    """Bind the symbol that stands for the element, so that sizes may depend on it."""
    symbol, dtype = as_expr(b.meta), torch.int64
    if isinstance(b.meta, torch.SymBool) and isinstance(symbol, sympy.Eq):
        symbol = symbol.lhs  # 0 or 1
    elif isinstance(b.meta, torch.SymFloat):
        dtype = torch.float64
    if types.is_complex(x.dtype):
        raise Unsupported("the value of a complex tensor")
    if isinstance(symbol, sympy.Symbol):
        element = tensor.extract(b.value(x), [b.index_constant(0)] * x.rank)
        element = scalars.cast(element, x.dtype, dtype)
        if dtype is torch.int64:
            element = arith.index_cast(ir.IndexType.get(), element)
        b.symbols.bind_local(symbol, element)
    return b.meta


def _effect_without_rule(node: torch.fx.Node) -> str | None:
    return None if find(node.args[1], "linalg") else f"no lowering of {node.args[1]}"


@lowers(torch.ops.higher_order.with_effects, condition=_effect_without_rule)
def _with_effects(b: Builder, token: Any, op: Any, *arguments: Any) -> tuple[Any, ...]:
    """An operator with an effect, in order by tokens, which are nothing: so are operations."""
    count = len(b.node.args) - 2
    kwargs = dict(zip(b.node.kwargs, arguments[count:], strict=True))
    entry = find(op, "linalg")
    assert entry is not None, "the condition lets no other pass"
    result = entry.rule(b, *schema_arguments(op, arguments[:count], kwargs))
    return (token, *result) if isinstance(result, (tuple, list)) else (token, result)


@lowers(torch.ops.prims._make_token.default, torch.ops.prims._sink_tokens.default)
def _tokens(b: Builder, *_: Any) -> None:
    return None
