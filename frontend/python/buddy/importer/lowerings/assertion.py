"""Assertions and values that leave a tensor for a scalar."""

from __future__ import annotations

from typing import Any

import torch
from mlir import ir
from mlir.dialects import arith, tensor

from .. import scalars, types
from ..builder import Builder
from ..errors import Unsupported
from ..registry import lowers
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
    expr = as_expr(b.meta)
    symbols = list(getattr(expr, "free_symbols", ()))
    if len(symbols) != 1 or types.is_complex(x.dtype):
        raise Unsupported("the value of a tensor that no symbol stands for")
    element = tensor.extract(b.value(x), [b.index_constant(0)] * x.rank)
    if types.is_float(x.dtype):
        b.symbols.bind_local(symbols[0], scalars.cast(element, x.dtype, torch.float64))
    else:  # a bool is `symbol == 1`
        element = scalars.cast(element, x.dtype, torch.int64)
        b.symbols.bind_local(symbols[0], arith.index_cast(ir.IndexType.get(), element))
    return b.meta
