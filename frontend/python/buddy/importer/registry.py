"""Lowering rules by ATen operator and dialect.

    @lowers(torch.ops.aten.add.Tensor)
    def add(b: Builder, self, other, alpha): ...

A rule gets the builder, then the operator's arguments in schema order with defaults filled in:
tensors as `values.Tensor`, sizes as ints or SymInts, the rest as in the graph. It returns a
`Tensor`, or a tuple of them for an operator with several results (None for an unused one).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from . import types

Dialect = Literal["linalg", "tosa"]
Rule = Callable[..., Any]
Condition = Callable[[torch.fx.Node], "str | None"]


@dataclass(frozen=True)
class Entry:
    """A rule and its condition: a function of the node that returns why not, or None."""

    rule: Rule
    condition: Condition | None


_RULES: dict[tuple[Any, Dialect], Entry] = {}


def lowers(
    *ops: Any, dialect: Dialect = "linalg", condition: Condition | None = None
) -> Callable[[Rule], Rule]:
    """Register a rule for operators (with overload) in a dialect."""

    def register(rule: Rule) -> Rule:
        for op in ops:
            if (op, dialect) in _RULES:
                raise ValueError(f"two {dialect} lowerings for {op}")
            _RULES[op, dialect] = Entry(rule, condition)
        return rule

    return register


def find(op: Any, dialect: Dialect) -> Entry | None:
    """Return the entry for an operator in a dialect."""
    return _RULES.get((op, dialect))


def called_op(node: torch.fx.Node) -> Any:
    """Return what a node calls; for a functionalized operator, the operator."""
    if isinstance(node.target, torch._ops.HigherOrderOperator):
        # A custom operator that mutates its arguments, made functional.
        if node.target.name().startswith("auto_functionalized") and node.args:
            return node.args[0]
    return node.target


def overload(node: torch.fx.Node) -> torch._ops.OpOverload:
    """Return the ATen (or other library) operator that a node calls."""
    assert isinstance(node.target, torch._ops.OpOverload), node.format_node()
    return node.target


def schema_arguments(op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Return the arguments of an operator in its schema's order, defaults filled in."""
    schema = getattr(op, "_schema", None)
    if schema is None:
        return [*args, *kwargs.values()]
    arguments = []
    for i, argument in enumerate(schema.arguments):
        if i < len(args):
            arguments.append(args[i])
        elif argument.name in kwargs:
            arguments.append(kwargs[argument.name])
        else:
            arguments.append(argument.default_value)
    return arguments


def node_arg(node: torch.fx.Node, index: int) -> torch.fx.Node:
    """Return the node that is a node's `index`-th positional argument."""
    arg = node.args[index]
    assert isinstance(arg, torch.fx.Node), node.format_node()
    return arg


def tensor_metas(value: Any) -> list[torch.Tensor]:
    """Return the (fake) tensors in nested arguments or results of nodes."""
    found: list[torch.Tensor] = []

    def visit(leaf: Any) -> None:
        if isinstance(leaf, torch.fx.Node):
            visit(leaf.meta.get("val"))
        elif isinstance(leaf, torch.Tensor):
            found.append(leaf)
        elif isinstance(leaf, (list, tuple)):
            for item in leaf:
                visit(item)

    visit(value)
    return found


def is_scalar_node(node: torch.fx.Node) -> bool:
    """Tell whether a node's value is a size or another Python scalar known by its expression."""
    value = node.meta.get("val")
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool))


def why_unsupported(node: torch.fx.Node) -> str | None:
    """Return the reason why a node cannot be imported, or None if it can."""
    from . import (
        custom_ops,
        lowerings,  # noqa: F401  (registers the rules; needs this module)
    )

    if node.op in ("placeholder", "output", "get_attr"):
        return None
    if node.op != "call_function":
        return f"a {node.op} node is not core ATen"
    for meta in tensor_metas([list(node.args), list(node.kwargs.values()), node]):
        if not types.is_supported_dtype(meta.dtype):
            return f"dtype {types.dtype_name(meta.dtype)} is not supported"
        if meta.device.type not in ("cpu", "meta"):
            return f"a tensor on {meta.device.type}; the importer takes CPU tensors"
        if meta.layout is not torch.strided:
            return f"a tensor of layout {meta.layout}"
    if node.target is torch.ops.aten.copy_.default and node_arg(node, 0).op == "placeholder":
        return None  # the graph's own write-back of a mutated input
    entry = find(called_op(node), "linalg")
    if entry is not None:
        if node.target is not called_op(node):
            return custom_ops.why_not(node)
        return entry.condition(node) if entry.condition else None
    unbacked = node.meta.get("unbacked_bindings")
    if is_scalar_node(node) or getattr(node.target, "__name__", "") == "getitem":
        return None
    return "the result's shape depends on data" if unbacked else "no lowering"


def supported(node: torch.fx.Node) -> bool:
    """Tell whether the importer can lower this node."""
    return why_unsupported(node) is None
