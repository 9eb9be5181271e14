"""Splits a graph into parts that are compiled and parts that run in PyTorch.

Parts run one after the other: compiled 0, eager 0, compiled 1, eager 1, ... A node goes into the
earliest part of its kind in which its inputs are there, so that there are as few parts as the
longest chain of changes between the two kinds demands. What has an effect (random numbers, custom
operators, writes to the graph's inputs) keeps its order.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from buddy.importer import MissingOp, provenance, registry, types

from . import data_sizes

# Namespaces of PyTorch's own operators and of ours; an operator of any other one was registered
# by the user or a library of theirs with torch.library.
_BUILT_IN = frozenset(
    "aten prim prims buddy inductor quantized _quantized quantized_decomposed mkldnn mkl onednn "
    "mkldnn_prepacked xnnpack sparse static_runtime profiler debugprims rngprims c10d "
    "_c10d_functional c10d_functional _c10d_functional_autograd _dtensor streams cuda fsdp "
    "symm_mem rpc profiler_ops dist_autograd _caffe2 _nested _test export torchao_private".split()
)

aten = torch.ops.aten


@dataclass(frozen=True)
class Part:
    """A part of a split graph.

    module: its graph; the placeholders' `meta["val"]` are the fake values of the inputs.
    compiled: whether it is to be compiled.
    from_eager: placeholder index -> node that PyTorch computes, whose real value has yet to be
        compared with the fake one.
    """

    name: str
    module: torch.fx.GraphModule
    compiled: bool
    from_eager: dict[int, torch.fx.Node]


def custom_op(node: torch.fx.Node) -> torch._ops.OpOverload | None:
    """Return the user's operator that a node calls, if it does."""
    target = registry.called_op(node)
    if isinstance(target, torch._ops.OpOverload) and target.namespace not in _BUILT_IN:
        return target
    return None


def is_input_write(node: torch.fx.Node) -> bool:
    """Tell whether a node writes one of the graph's inputs back."""
    return (
        node.target is aten.copy_.default
        and isinstance(node.args[0], torch.fx.Node)
        and node.args[0].op == "placeholder"
    )


def storages(value: Any) -> frozenset[int]:
    """Return the memories that a node's value, or nested nodes', lies in."""
    return frozenset(meta.untyped_storage()._cdata for meta in registry.tensor_metas([value]))


def _writes(node: torch.fx.Node) -> frozenset[int]:
    """Return the memories that a node writes, other than its result's."""
    if not isinstance(node.target, torch._ops.OpOverload) or not node.target._schema.is_mutable:
        return frozenset()
    arguments = node.target._schema.arguments
    given = {argument.name: value for argument, value in zip(arguments, node.args, strict=False)}
    given |= node.kwargs
    written = [a.name for a in arguments if a.alias_info is not None and a.alias_info.is_write]
    return storages([given.get(name) for name in written])


def missing_op(node: torch.fx.Node) -> MissingOp | None:
    """Describe a node that the importer has no rule for; None if it has one."""
    reason = registry.why_unsupported(node)
    if reason is None:
        return None
    missing = describe(node, reason)
    original = node.meta.get("original_aten")
    if isinstance(original, torch._ops.OpOverload) and not missing.op.startswith("aten."):
        # What the user's line calls rather than what it was decomposed to.
        missing = dataclasses.replace(missing, op=str(original))
    return missing


def describe(node: torch.fx.Node, reason: str) -> MissingOp:
    """Return what an error says about a node that cannot be imported."""
    metas = registry.tensor_metas([list(node.args), list(node.kwargs.values())])
    dtypes = tuple(dict.fromkeys(types.dtype_name(meta.dtype) for meta in metas))
    target = registry.called_op(node)
    named = isinstance(target, (str, torch._ops.OpOverload))
    op = str(target) if named else getattr(target, "__name__", str(target))
    return MissingOp(op, dtypes, provenance.describe_source(node), reason)


def _has_effect(node: torch.fx.Node) -> bool:
    if custom_op(node) is not None:
        return True
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return isinstance(target, torch._ops.HigherOrderOperator)
    return torch.Tag.nondeterministic_seeded in target.tags or target._schema.is_mutable


def _place(
    gm: torch.fx.GraphModule, is_compiled: Callable[[torch.fx.Node], bool]
) -> dict[torch.fx.Node, tuple[int, bool]]:
    """Return for each operator node its level and whether it is compiled."""
    place: dict[torch.fx.Node, tuple[int, bool]] = {}
    last_effect = 0
    # Whose memory is written: who used it since the last write, that write included.
    users: dict[int, list[torch.fx.Node]] = {
        memory: [] for node in gm.graph.nodes for memory in _writes(node)
    }
    last_write: dict[int, torch.fx.Node] = {}

    def after(source: torch.fx.Node, compiled: bool) -> int:
        """Return the first level at which a node of a kind can run after another."""
        if source not in place:
            return 0
        level, source_compiled = place[source]
        return level + (compiled and not source_compiled)

    for node in gm.graph.nodes:
        if node.op in ("placeholder", "output", "get_attr"):
            continue
        if node.target is operator.getitem and node.args[0] in place:
            place[node] = place[node.args[0]]
            continue
        compiled = is_compiled(node)
        level = max((after(source, compiled) for source in node.all_input_nodes), default=0)
        writes = _writes(node)
        for memory in storages(list(node.all_input_nodes)) & users.keys():
            if memory in writes:
                before = users[memory]
                users[memory], last_write[memory] = [node], node
            else:
                before = [last_write[memory]] if memory in last_write else []
                users[memory].append(node)
            level = max(level, *(after(other, compiled) for other in before), 0)
        if _has_effect(node) and not is_input_write(node):
            level = last_effect = max(level, last_effect)
        place[node] = (level, compiled)
    return place


def _computes(nodes: list[torch.fx.Node]) -> bool:
    """Tell whether there is more in a part than arithmetic on sizes."""
    return any(
        node.target is not operator.getitem
        and isinstance(node.meta.get("val"), torch.Tensor)
        or isinstance(node.meta.get("val"), (tuple, list))
        for node in nodes
    )


def split(
    gm: torch.fx.GraphModule, is_compiled: Callable[[torch.fx.Node], bool], name: str
) -> tuple[torch.fx.GraphModule, list[Part]]:
    """Return a graph that calls one submodule for each part, and the parts.

    is_compiled: tells which nodes are compiled. The submodules are named after `name`; whoever
    compiles a part replaces its submodule.
    """
    place = _place(gm, is_compiled)
    groups: dict[tuple[int, bool], list[torch.fx.Node]] = {}
    for node in gm.graph.nodes:
        if node in place:
            level, compiled = place[node]
            groups.setdefault((level, not compiled), []).append(node)
    sizes = [
        node
        for node in gm.graph.nodes
        if node.op == "placeholder" and isinstance(node.meta.get("val"), torch.SymInt)
    ]

    read = {data_sizes.read_symbol(node): node for node in place}
    read.pop(None, None)

    top = torch.fx.Graph()
    values: dict[torch.fx.Node, Any] = {}
    by_eager: set[torch.fx.Node] = set()
    modules: dict[str, torch.fx.GraphModule] = {}
    parts: list[Part] = []
    for node in gm.graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            values[node] = top.node_copy(node)
            modules.update(_attributes(gm, node))
    result = next(node for node in gm.graph.nodes if node.op == "output")
    written = frozenset().union(*(_writes(node) for node in gm.graph.nodes))
    wanted = set(result.all_input_nodes)
    planned = []
    for (_, is_eager), nodes in sorted(groups.items(), key=lambda group: group[0]):
        compiled = not is_eager and _computes(nodes)
        inside = _with_views(gm, nodes, written) if compiled else nodes
        needed = list(sizes) if compiled else []
        if compiled and read:
            symbols = data_sizes.symbols_needed(inside)
            needed += [node for symbol, node in read.items() if symbol in symbols]
        inputs = _inputs(inside, needed)
        wanted.update(inputs)
        planned.append((compiled, is_eager, nodes, inside, inputs))
    for number, (compiled, is_eager, nodes, inside, inputs) in enumerate(planned):
        part_name = f"{name}_{number}"
        outputs = [node for node in nodes if node in wanted]
        module = _submodule(gm, inside, inputs, outputs)
        from_eager = {i: node for i, node in enumerate(inputs) if node in by_eager}
        parts.append(Part(part_name, module, compiled, from_eager))
        modules[part_name] = module
        call = top.call_module(part_name, tuple(values[node] for node in inputs))
        for i, node in enumerate(outputs):
            values[node] = top.call_function(operator.getitem, (call, i))
            if is_eager:
                by_eager.add(node)
    top.output(torch.fx.map_arg(result.args[0], lambda node: values[node]))
    return torch.fx.GraphModule(modules, top), parts


def _attributes(gm: torch.fx.GraphModule, node: torch.fx.Node) -> dict[str, Any]:
    if node.op != "get_attr":
        return {}
    value: Any = gm
    for part in str(node.target).split("."):
        value = getattr(value, part)
    return {str(node.target): value}


def _with_views(
    gm: torch.fx.GraphModule, nodes: list[torch.fx.Node], written: frozenset[int]
) -> list[torch.fx.Node]:
    """Add the views of memory that is written which a part would take from other parts.

    A part that got both a tensor and a view of it could not know that writing one changes the
    other; one that makes the view itself does.
    """
    inside = set(nodes)
    todo = list(nodes)
    while todo:
        for source in todo.pop().all_input_nodes:
            if source not in inside and _is_view(source) and storages(source) & written:
                inside.add(source)
                todo.append(source)
    return [node for node in gm.graph.nodes if node in inside]


def _is_view(node: torch.fx.Node) -> bool:
    if node.target is operator.getitem:
        return isinstance(node.args[0], torch.fx.Node) and _is_view(node.args[0])
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and target.is_view and registry.supported(node)


def _inputs(nodes: list[torch.fx.Node], sizes: list[torch.fx.Node]) -> list[torch.fx.Node]:
    """Return what a part takes, the symbolic sizes it may need included."""
    inside = set(nodes)
    taken = dict.fromkeys(
        source
        for node in nodes
        for source in node.all_input_nodes
        if source not in inside and source.op != "get_attr"
    )
    taken.update(dict.fromkeys(sizes))
    return list(taken)


def _submodule(
    gm: torch.fx.GraphModule,
    nodes: list[torch.fx.Node],
    inputs: list[torch.fx.Node],
    outputs: list[torch.fx.Node],
) -> torch.fx.GraphModule:
    graph = torch.fx.Graph()
    env: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in inputs:
        env[node] = graph.placeholder(node.name)
        env[node].meta = dict(node.meta)

    def value(node: torch.fx.Node) -> torch.fx.Node:
        if node not in env:  # a constant of the graph
            env[node] = graph.node_copy(node)
        return env[node]

    for node in nodes:
        env[node] = graph.node_copy(node, value)
    graph.output(tuple(env[node] for node in outputs))
    return torch.fx.GraphModule(gm, graph)
