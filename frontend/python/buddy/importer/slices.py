"""Slices from an index that depends on data.

Fake tensors cannot tell how long such a slice is, or where it starts, since that depends on the
index's sign and on whether it is in range; they make new symbols. Here these are said to be
expressions of the index.
"""

from __future__ import annotations

from typing import Any

import sympy
import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv, free_unbacked_symbols
from torch.utils._sympy import functions as tsf

from .symbols import as_dim

aten = torch.ops.aten
_SLICES = (aten.slice.Tensor, aten.select.int)


def define_slices(gm: torch.fx.GraphModule) -> None:
    """Replace the symbols that slices and selects of a graph made, in its shape environment."""
    for node in gm.graph.nodes:
        if node.target in _SLICES and node.meta.get("unbacked_bindings"):
            _define_results(node)


def _define_results(node: torch.fx.Node) -> None:
    """Say what the new symbols of a slice or a select are."""
    source = node.args[0]
    result = node.meta["val"]
    if not isinstance(source, torch.fx.Node) or not isinstance(result, torch.Tensor):
        return
    x = source.meta["val"]
    dim, *rest = [_value(argument) for argument in node.args[1:]]
    dim %= x.dim()
    size, stride = as_dim(x.shape[dim]), as_dim(x.stride(dim))
    offset = x.storage_offset()
    if node.target is aten.select.int:
        _define(result.storage_offset(), offset, _from_start(rest[0], size), stride)
        return
    start, end, step = [*rest, *[None] * 3][:3]
    step = 1 if step is None else as_dim(step)
    first = _clamp(0 if start is None else start, size)
    last = size if end is None else _clamp(end, size)
    _define(result.shape[dim], 0, tsf.FloorDiv(tsf.Max(last - first, 0) + step - 1, step), 1)
    _define(result.storage_offset(), offset, first, stride)


def _value(argument: Any) -> Any:
    return argument.meta["val"] if isinstance(argument, torch.fx.Node) else argument


def _from_start(index: Any, size: Any) -> Any:
    index = sympy.sympify(as_dim(index))
    if index.is_nonnegative:
        return index
    if index.is_negative:
        return index + size
    return tsf.Where(sympy.Lt(index, 0), index + size, index)


def _clamp(index: Any, size: Any) -> Any:
    return tsf.Max(tsf.Min(_from_start(index, size), size), 0)


def _define(value: Any, base: Any, index: Any, scale: Any) -> None:
    """Let a new symbol be base + index * scale."""
    if not isinstance(value, torch.SymInt):
        return
    env: ShapeEnv = value.node.shape_env
    symbol = env.replace(value.node.expr)
    if not isinstance(symbol, sympy.Symbol) or symbol not in free_unbacked_symbols(value):
        return
    expr = as_dim(base) + index * as_dim(scale)
    # Not by `_set_replacement`, which refuses what it cannot prove to be in the symbol's range.
    env.replacements[symbol] = sympy.sympify(expr)
    env._replacements_version_counter += 1
    env._update_version_counter()
