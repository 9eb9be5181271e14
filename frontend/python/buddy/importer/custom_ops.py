"""Lowerings that users register for operators of their own.

An operator that writes its arguments reaches the importer as `auto_functionalized`, whose results
are the operator's and then the new value of each written tensor. `inline` makes it a call of the
operator itself, taken as a function from old to new values, which is what a lowering computes.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from mlir import ir
from torch._higher_order_ops.auto_functionalize import (
    AsStridedViewInfo,
    SliceViewInfo,
    auto_functionalized,
    auto_functionalized_v2,
    get_mutable_args,
    read_view_information_from_args,
)
from torch._library.utils import is_out, is_tensorlist_like_type

from . import registry, types
from .builder import Builder
from .errors import ImportGraphError
from .registry import Rule
from .symbols import as_dims, static
from .values import Tensor

aten = torch.ops.aten

_FUNCTIONALIZED = (auto_functionalized, auto_functionalized_v2)


class LoweringError(ImportGraphError):
    """A registered lowering that does not return what its operator promises."""


def register_lowering(op: Any) -> Callable[[Rule], Rule]:
    """Register the decorated function as the lowering of a `torch.library` operator.

    op: an overload (`torch.ops.mylib.op.default`), an operator that has just one, or what
        `torch.library.custom_op` returned.

    The function is called as `rule(b, *arguments)` while a graph is imported: `b` is the
    `buddy.importer.Builder`, the arguments are in the order of the schema with defaults filled in,
    tensors as `buddy.importer.Tensor`, sizes as ints or SymInts. It builds MLIR and returns the
    operator's results, then the new value of each argument that the schema marks as written
    (None for one that is None), in the schema's order; a single value may be returned as it is.
    Results have the shapes and dtypes that the fake implementation gives, new values those of the
    arguments. It may raise `buddy.importer.Unsupported("why")` for arguments that it does not
    handle: the operator is then called.

    Raises `ValueError` for an operator that has a lowering, is PyTorch's own, or writes a list of
    tensors. A lowering that returns something else than is said here makes compilation fail with
    `LoweringError`.
    """
    overload = _overload(op)
    if overload.namespace in ("aten", "prim", "prims", "buddy"):
        raise ValueError(f"{overload}: only operators of torch.library can get a lowering")
    for argument in overload._schema.arguments:
        written = argument.alias_info is not None and argument.alias_info.is_write
        if written and is_tensorlist_like_type(argument.type):
            raise ValueError(f"{overload}: it writes {argument.name}, a list of tensors")

    def register(rule: Rule) -> Rule:
        if registry.find(overload, "linalg") is not None:
            raise ValueError(f"{overload} has a lowering already")

        def checked(b: Builder, *arguments: Any) -> Any:
            return _check(b, overload, arguments, rule(b, *arguments))

        registry.lowers(overload)(checked)
        return rule

    return register


def _overload(op: Any) -> torch._ops.OpOverload:
    if isinstance(op, torch.library.CustomOpDef):
        op = op._opoverload
    if isinstance(op, torch._ops.OpOverloadPacket):
        overloads = op.overloads()
        if len(overloads) != 1:
            raise ValueError(f"{op} has the overloads {', '.join(overloads)}; name one")
        op = getattr(op, overloads[0])
    if not isinstance(op, torch._ops.OpOverload):
        raise ValueError(f"{op!r} is no operator of torch.library")
    return op


def _check(b: Builder, op: torch._ops.OpOverload, arguments: Sequence[Any], values: Any) -> Any:
    """Compare what a lowering returned with what is promised; return the values as a tuple."""
    values = tuple(values) if isinstance(values, (tuple, list)) else (values,)
    expected: list[tuple[str, tuple[Any, ...], torch.dtype] | None] = []
    results = b.meta if isinstance(b.meta, (tuple, list)) else (b.meta,)
    for i, meta in enumerate(results[: len(_results(op))]):
        if isinstance(meta, torch.Tensor):
            expected.append((f"result {i}", as_dims(meta.shape), meta.dtype))
        else:
            raise LoweringError(f"lowering of {op}: result {i} is no tensor")
    written = get_mutable_args(op)[0]
    for schema, value in zip(op._schema.arguments, arguments, strict=True):
        if schema.name not in written:
            continue
        name = f"the new value of {schema.name}"
        if isinstance(value, Tensor):
            expected.append((name, tuple(value.shape), value.dtype))
        else:
            expected.append(None)
    if values == (None,) and not expected:
        values = ()
    if len(values) != len(expected):
        names = ", ".join("None" if entry is None else entry[0] for entry in expected)
        raise LoweringError(
            f"lowering of {op}: it returned {len(values)} values, but {len(expected)} are "
            f"needed: {names}"
        )
    for value, entry in zip(values, expected, strict=True):
        if entry is None:
            continue
        name, shape, dtype = entry
        if not isinstance(value, Tensor):
            raise LoweringError(
                f"lowering of {op}: {name} is of type {type(value).__name__}, not a Tensor"
            )
        found, wanted = as_dims(value.shape), as_dims(shape)
        if found != wanted or value.dtype != dtype:
            raise LoweringError(
                f"lowering of {op}: {name} is {_describe(found, value.dtype)}, but must be "
                f"{_describe(wanted, dtype)}"
            )
        _check_type(op, name, value)
    # One result is the node's value itself; with new values there are several.
    if len(_results(op)) == 1 and not written:
        return values[0]
    return values


def _check_type(op: torch._ops.OpOverload, name: str, value: Tensor) -> None:
    """Refuse a tensor whose MLIR value is not of its shape and dtype."""
    type_ = value.base.type
    sizes = [static(size) for size in Builder.base_shape(value)]
    wanted = ir.RankedTensorType.get(sizes, types.element_type(value.dtype))
    same = isinstance(type_, ir.RankedTensorType) and (
        type_.element_type == wanted.element_type
        and type_.rank == wanted.rank
        and all(
            type_.is_dynamic_dim(i) or wanted.is_dynamic_dim(i) or a == b
            for i, (a, b) in enumerate(zip(type_.shape, wanted.shape, strict=True))
        )
    )
    if not same:
        raise LoweringError(f"lowering of {op}: {name} is of MLIR type {type_}, not {wanted}")


def _describe(shape: Sequence[Any], dtype: torch.dtype) -> str:
    return f"{types.dtype_name(dtype)}[{', '.join(str(size) for size in shape)}]"


def _results(op: torch._ops.OpOverload) -> list[Any]:
    """Return the results of an operator that are not the arguments it wrote."""
    return [result for result in op._schema.returns if result.alias_info is None]


# ---- operators that write their arguments ------------------------------------------------------


def has_lowering(node: torch.fx.Node) -> bool:
    """Tell whether a node calls an operator of the user's that has a lowering."""
    op = registry.called_op(node)
    return isinstance(op, torch._ops.OpOverload) and registry.find(op, "linalg") is not None


def inline(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Return the graph with calls instead of functionalized operators that have a lowering.

    The calls give the operator's results and then the written arguments' new values. The graph
    itself is not changed.
    """
    found = [
        node for node in gm.graph.nodes if node.target in _FUNCTIONALIZED and has_lowering(node)
    ]
    if not found:
        return gm
    graph = torch.fx.Graph()
    values: dict[torch.fx.Node, torch.fx.Node] = {}
    graph.output(graph.graph_copy(gm.graph, values))
    for old in found:
        call = _inline(graph, values[old])
        call.meta["functionalized"] = old  # what errors are about
    return torch.fx.GraphModule(gm, graph)


def _inline(graph: torch.fx.Graph, node: torch.fx.Node) -> torch.fx.Node:
    """Replace a functionalized operator by a call of the operator; return the call."""
    op = registry.called_op(node)
    arguments: dict[str, Any] = dict(node.kwargs)
    names, kinds = get_mutable_args(op)
    metas: Any = node.meta["val"]
    metas = metas if isinstance(metas, (tuple, list)) else (metas,)
    returned = len(op._schema.returns)
    bases: list[Any]
    views: dict[str, Any]

    def add(target: Any, *args: Any) -> torch.fx.Node:
        added = graph.call_function(target, args)
        added.meta = {key: value for key, value in node.meta.items() if key != "val"}
        given = torch.fx.map_arg(args, lambda source: source.meta["val"])
        (first, *_) = registry.tensor_metas(list(added.all_input_nodes))
        with first.fake_mode:  # type: ignore[attr-defined]
            added.meta["val"] = target(*given)
        return added

    with graph.inserting_before(node):
        if is_out(op):
            bases, views = [], {}
            for name in names:
                size, _ = arguments.pop(f"_{name}_size"), arguments.pop(f"_{name}_stride")
                dtype = arguments.pop(f"_{name}_dtype")
                arguments.pop(f"_{name}_device")
                empty = graph.call_function(aten.empty.memory_format, (size,), {"dtype": dtype})
                empty.meta["val"] = metas[names.index(name)]
                arguments[name] = empty
            arguments.pop("_all_bases")
            written = {name: arguments[name] for name in names}
        elif node.target is auto_functionalized_v2:
            bases = list(arguments.pop("_all_bases"))
            views = read_view_information_from_args(names, kinds, arguments, bases)
            written = {name: _read(add, bases, view) for name, view in views.items()}
        else:
            bases = [arguments.pop(name) for name in names]
            views = {name: None if bases[i] is None else Whole(i) for i, name in enumerate(names)}
            written = {name: bases[i] for i, name in enumerate(names)}
        schema = op._schema.arguments
        given = tuple({**arguments, **written}[argument.name] for argument in schema)
        call = graph.call_function(op, given)
        call.meta = dict(node.meta)
        fresh = len(_results(op))
        call.meta["val"] = tuple(metas[:fresh])

        def new_value(position: int) -> torch.fx.Node:
            value = graph.call_function(operator.getitem, (call, fresh + position))
            source = written[names[position]]
            value.meta["val"] = source.meta["val"]
            return value

        new = {name: new_value(i) for i, name in enumerate(names) if written[name] is not None}
        for name, value in new.items():
            if not is_out(op):
                info = views[name]
                bases[info.base_index] = _write(add, bases[info.base_index], info, value)
    if isinstance(node.meta["val"], torch.Tensor):  # `op(..., *, out) -> Tensor`
        node.replace_all_uses_with(new[names[0]])
    for user in list(node.users):
        index: Any = user.args[1]
        if is_out(op):
            user.replace_all_uses_with(new[names[index]])
        elif index >= max(returned, 1):
            user.replace_all_uses_with(bases[index - max(returned, 1)])
        elif op._schema.returns[index].alias_info is not None:
            user.replace_all_uses_with(new[names[index]])
        else:
            with graph.inserting_before(user):
                result = graph.call_function(operator.getitem, (call, index))
            result.meta = dict(user.meta)
            user.replace_all_uses_with(result)
        graph.erase_node(user)
    graph.erase_node(node)
    return call


class Whole:
    """What `read_view_information_from_args` says of an argument that is no view."""

    def __init__(self, base_index: int):
        self.base_index = base_index


def _read(add: Callable[..., torch.fx.Node], bases: Sequence[Any], info: Any) -> Any:
    """Return the argument that is a view of a base."""
    if info is None:
        return None
    base = bases[info.base_index]
    if isinstance(info, SliceViewInfo):
        return add(aten.slice.Tensor, base, info.dim, info.start, info.end)
    if isinstance(info, AsStridedViewInfo):
        flat = add(aten.view.default, base, [-1])
        part = add(aten.slice.Tensor, flat, 0, *_range(base, info))
        return add(aten.view.default, part, list(info.size))
    return base


def _write(
    add: Callable[..., torch.fx.Node], base: torch.fx.Node, info: Any, value: torch.fx.Node
) -> torch.fx.Node:
    """Return a base with a view of it replaced by a new value."""
    if isinstance(info, SliceViewInfo):
        return add(aten.slice_scatter.default, base, value, info.dim, info.start, info.end)
    if isinstance(info, AsStridedViewInfo):
        flat = add(aten.view.default, base, [-1])
        part = add(aten.view.default, value, [-1])
        flat = add(aten.slice_scatter.default, flat, part, 0, *_range(base, info))
        return add(aten.view.default, flat, list(base.meta["val"].shape))
    return value


def _range(base: torch.fx.Node, info: AsStridedViewInfo) -> tuple[int, int]:
    """Return which elements of a contiguous base a contiguous view of it covers."""
    start = int(info.storage_offset) - int(base.meta["val"].storage_offset())
    return start, start + math.prod(int(size) for size in info.size)


def why_not(node: torch.fx.Node) -> str | None:
    """Return why a functionalized operator with a lowering cannot use it, or None.

    Of written views, slices and those that are contiguous inside a contiguous tensor are known.
    """
    op = registry.called_op(node)
    if node.target is not auto_functionalized_v2 or is_out(op):
        return None
    arguments = dict(node.kwargs)
    bases: Any = arguments.pop("_all_bases")
    views = read_view_information_from_args(*get_mutable_args(op), arguments, bases)
    for name, info in views.items():
        if not isinstance(info, AsStridedViewInfo):
            continue
        base = bases[info.base_index].meta["val"]
        offsets = (info.storage_offset, base.storage_offset())
        sizes = (*info.size, *info.stride, *offsets, *base.shape)
        if not all(isinstance(size, int) for size in sizes):
            return f"{name} is a view of symbolic sizes"
        strides: list[Any] = []
        step: Any = 1
        for size in reversed(info.size):
            strides.insert(0, step)
            step *= size
        kept = [
            (have, want)
            for have, want, size in zip(info.stride, strides, info.size, strict=True)
            if size != 1
        ]
        if not base.is_contiguous() or any(have != want for have, want in kept):
            return f"{name} is a view that is not contiguous"
    return None
