"""Makes custom operators write their arguments in place again.

AOTAutograd hands over functional graphs: a custom operator that mutates its arguments becomes
`auto_functionalized`, which copies them, and a write-back into the graph's input at the end. Here
each such node becomes the operator's own call. An argument is copied first only where its old value
is still needed: where something reads it later, or where it is the memory of an input that the
caller does not expect to change.
"""

from __future__ import annotations

import operator
from collections.abc import Collection
from typing import Any

import torch
from torch._higher_order_ops.auto_functionalize import (
    AliasViewInfo,
    AsStridedViewInfo,
    SliceViewInfo,
    auto_functionalized,
    auto_functionalized_v2,
    get_mutable_args,
    read_view_information_from_args,
)
from torch._library.utils import get_layout_constraint_tag, is_out
from torch._prims_common import clone_preserve_strides
from torch.utils._pytree import tree_map_only

from buddy.importer.custom_ops import Whole, has_lowering
from buddy.importer.registry import supported, tensor_metas

from .partition import custom_op, is_input_write, storages

aten = torch.ops.aten


def write_in_place(
    gm: torch.fx.GraphModule, called: Collection[torch.fx.Node] = ()
) -> set[torch.fx.Node]:
    """Replace the graph's functionalized custom operators by calls that write in place.

    called: nodes that are called although their operator has a lowering; others are left alone.

    Returns the nodes that PyTorch has to run: these calls, and the copies and views of their
    arguments. Operators tagged `needs_contiguous_strides` get contiguous arguments.
    """
    eager: set[torch.fx.Node] = set()
    for node in list(gm.graph.nodes):
        op = custom_op(node)
        if op is None or (has_lowering(node) and supported(node) and node not in called):
            continue
        if node.target in (auto_functionalized, auto_functionalized_v2) and not is_out(op):
            node = _replace(gm, node, op, eager)
        eager.add(node)
        if get_layout_constraint_tag(op) is torch.Tag.needs_contiguous_strides:
            _make_contiguous(gm, node, op, eager)
    if eager:
        gm.graph.lint()
        gm.recompile()
    return eager


def _replace(
    gm: torch.fx.GraphModule,
    node: torch.fx.Node,
    op: torch._ops.OpOverload,
    eager: set[torch.fx.Node],
) -> torch.fx.Node:
    """Replace a functionalized node by a call of its operator and return the call."""
    graph = gm.graph
    arguments: dict[str, Any] = dict(node.kwargs)
    names, kinds = get_mutable_args(op)
    old: list[Any]
    if node.target is auto_functionalized_v2:
        old = list(arguments.pop("_all_bases"))
        views = read_view_information_from_args(names, kinds, arguments, old)
    else:
        old = [arguments.pop(name) for name in names]
        views = {name: None if old[i] is None else Whole(i) for i, name in enumerate(names)}

    def add(target: Any, *args: Any) -> torch.fx.Node:
        added = graph.call_function(target, args)
        _infer(added)
        eager.add(added)
        return added

    def is_shared(base: Any) -> bool:
        """Tell whether two different bases, or lists of them, may be the same memory."""
        return isinstance(base, (list, tuple)) or any(
            other is not base and storages(other) & storages(base) for other in old
        )

    with graph.inserting_before(node):
        bases: list[Any] = []
        for base in old:
            if base is None:
                bases.append(None)
            elif is_shared(base) or _is_needed(graph, node, base):
                bases.append(
                    tree_map_only(torch.fx.Node, lambda x: add(clone_preserve_strides, x), base)
                )
            else:
                bases.append(base)

        def view(info: Any) -> Any:
            if info is None:
                return None
            if isinstance(info, list):
                return [view(item) for item in info]
            base = bases[info.base_index]
            if isinstance(info, AsStridedViewInfo):
                return add(
                    aten.as_strided.default, base, info.size, info.stride, info.storage_offset
                )
            if isinstance(info, SliceViewInfo):
                return add(aten.slice.Tensor, base, info.dim, info.start, info.end)
            if isinstance(info, AliasViewInfo):
                return add(aten.alias.default, base)
            return base

        written = {name: view(info) for name, info in views.items()}
        given = [{**arguments, **written}[argument.name] for argument in op._schema.arguments]
        positional = [
            value
            for argument, value in zip(op._schema.arguments, given, strict=True)
            if not argument.kwarg_only
        ]
        keywords = {
            argument.name: value
            for argument, value in zip(op._schema.arguments, given, strict=True)
            if argument.kwarg_only
        }
        call = graph.call_function(op, tuple(positional), keywords)
    returned = len(op._schema.returns)
    results: Any = node.meta["val"][:returned]
    call.meta = dict(node.meta)
    call.meta["val"] = None if not returned else results[0] if returned == 1 else results
    for user in list(node.users):
        index: Any = user.args[1]
        first = max(returned, 1)
        if index >= first:
            user.replace_all_uses_with(bases[index - first])
        elif op._schema.returns[index].alias_info is not None:
            # An operator returns an argument that it wrote only as `op_(x) -> x`.
            user.replace_all_uses_with(written[names[index]])
        elif returned == 1:
            user.replace_all_uses_with(call)
        else:
            user.update_arg(0, call)
            continue
        graph.erase_node(user)
    graph.erase_node(node)
    for base in bases:
        if isinstance(base, torch.fx.Node):
            _forget_write_back(graph, base)
            _infer_views(base)
    return call


def _is_needed(graph: torch.fx.Graph, write: torch.fx.Node, base: torch.fx.Node) -> bool:
    """Tell whether the value that a node overwrites is read later, or has to stay as it is."""
    memory = storages(base)
    after = False
    inputs_written: set[Any] = set()
    for node in graph.nodes:
        if node is write:
            after = True
        elif is_input_write(node):
            inputs_written |= storages(node.args[0])
            if storages(node.args[1]) & memory:
                return True
        elif after and any(storages(source) & memory for source in node.all_input_nodes):
            return True
    owned_elsewhere = any(
        node.op in ("placeholder", "get_attr") and storages(node) & memory for node in graph.nodes
    )
    return owned_elsewhere and not memory <= inputs_written


def _forget_write_back(graph: torch.fx.Graph, base: torch.fx.Node) -> None:
    """Erase the copies of an input into itself."""
    for user in list(base.users):
        if is_input_write(user) and user.args[0] is user.args[1]:
            user.replace_all_uses_with(base)
            graph.erase_node(user)


def _infer_views(base: torch.fx.Node) -> None:
    """Let the fake values of a node's views share its memory, as the views now do."""
    for user in base.users:
        target = user.target
        is_view = isinstance(target, torch._ops.OpOverload) and target.is_view
        if (is_view and user.args[0] is base) or target is operator.getitem:
            if not storages(user) & storages(base):
                _infer(user)
                _infer_views(user)


def _infer(node: torch.fx.Node) -> None:
    """Compute a node's fake value from those of its arguments."""
    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda source: source.meta["val"])
    (first, *_) = tensor_metas(list(node.all_input_nodes))
    target: Any = node.target
    with first.fake_mode:  # type: ignore[attr-defined]
        node.meta["val"] = target(*args, **kwargs)


def _make_contiguous(
    gm: torch.fx.GraphModule,
    call: torch.fx.Node,
    op: torch._ops.OpOverload,
    eager: set[torch.fx.Node],
) -> None:
    """Pass contiguous copies of the arguments that an operator only reads."""
    written = set(get_mutable_args(op)[0])
    names = [argument.name for argument in op._schema.arguments]

    def contiguous(source: torch.fx.Node) -> torch.fx.Node:
        meta = source.meta.get("val")
        if not isinstance(meta, torch.Tensor) or meta.is_contiguous():
            return source
        with gm.graph.inserting_before(call):
            copy = gm.graph.call_function(
                aten.clone.default, (source,), {"memory_format": torch.contiguous_format}
            )
        _infer(copy)
        return copy

    def convert(name: str, value: Any) -> Any:
        return value if name in written else torch.fx.map_arg(value, contiguous)

    call.args = tuple(convert(name, value) for name, value in zip(names, call.args, strict=False))
    call.kwargs = {name: convert(name, value) for name, value in call.kwargs.items()}
