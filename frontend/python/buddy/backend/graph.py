"""One graph of AOTAutograd, core ATen, to a function that runs it."""

from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Callable, Collection
from typing import Any, Literal

import torch

from buddy import panels
from buddy.importer import (
    ArgSpec,
    ImportedModule,
    MissingOp,
    UnsupportedOpsError,
    import_graph,
)

from . import data_sizes, logs, partition, randomness
from .call import make_call
from .library import load
from .mutation import write_in_place
from .options import Options

Call = Callable[[list[Any]], Any]


class FallbackWarning(UserWarning):
    """Names what runs in PyTorch instead of being compiled."""


def compile_graph(
    gm: torch.fx.GraphModule, name: str, options: Options, weights: Collection[int] = ()
) -> Call:
    """Compile a graph to a function of the list of its arguments.

    name: the entry point's; part of the module, so the same in all processes.
    weights: indices of the placeholders that are parameters or buffers.

    Raises `UnsupportedOpsError` with all ops that have no rule, unless `options.fallback` is
    "eager"; then they run in PyTorch, and a `FallbackWarning` names them.
    """
    random = randomness.take_seed(gm)
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    weight_nodes = {placeholders[i].name for i in weights}
    missing: dict[torch.fx.Node, MissingOp] = {}
    custom = write_in_place(gm)
    # Nor are reads of scalars compiled.
    custom |= data_sizes.take_reads(gm)
    for node in gm.graph.nodes:
        if node not in custom and (reason := partition.missing_op(node)) is not None:
            missing[node] = reason
    # A rule may still refuse its arguments: then the node counts as missing, and all begins again.
    while True:
        eager = custom | missing.keys()
        try:
            top, modules = _import(gm, name, options, weight_nodes, eager)
            break
        except UnsupportedOpsError as error:
            refused = _find(gm, error, eager)
            if not refused:
                raise
            # An operator of the user's whose lowering does not handle its arguments is called.
            called = {node for node in refused if partition.custom_op(node) is not None}
            custom |= write_in_place(gm, called | custom)
            missing.update({node: refused[node] for node in refused.keys() - called})
    if missing:
        if options.fallback == "error":
            raise UnsupportedOpsError(list(missing.values()))
        _warn(gm, missing)
    call = _assemble(top, modules, options)
    return (lambda args: call([*args, randomness.draw()])) if random else call


# An imported part: the module, and which placeholders PyTorch computes.
_Imported = tuple[ImportedModule, dict[int, str]]


def _import(
    gm: torch.fx.GraphModule,
    name: str,
    options: Options,
    weights: Collection[str],
    eager: Collection[torch.fx.Node],
) -> tuple[torch.fx.GraphModule | None, dict[str, _Imported]]:
    """Import the graph, in parts if some nodes are left to PyTorch."""
    if not eager:
        return None, {name: (_import_whole(gm, name, options, weights), {})}
    top, parts = partition.split(gm, lambda node: node not in eager, name)
    logs.graph.debug("%s: split into %d parts:\n%s", name, len(parts), top.graph)
    imported: dict[str, _Imported] = {}
    for part in parts:
        if part.compiled:
            module = _import_whole(part.module, part.name, options, weights)
            unchecked = {i: _describe(node) for i, node in part.from_eager.items()}
            imported[part.name] = (module, unchecked)
    return top, imported


def _import_whole(
    gm: torch.fx.GraphModule, name: str, options: Options, weights: Collection[str]
) -> ImportedModule:
    written = {node.args[0] for node in gm.graph.nodes if partition.is_input_write(node)}
    specs = []
    for node in gm.graph.nodes:
        if node.op != "placeholder":
            continue
        meta = node.meta.get("val")
        kind: Literal["input", "weight", "size", "constant"]
        if isinstance(meta, torch.SymInt) or data_sizes.scalar_symbol(meta) is not None:
            kind = "size"
        elif not node.users or not isinstance(meta, torch.Tensor):
            kind = "constant"
        else:
            kind = "weight" if node.name in weights and node not in written else "input"
        packs = options.freeze and kind == "weight" and panels.may_be_packed(meta)
        specs.append(ArgSpec(node.name, kind, meta, None, panels.PLAIN if packs else None))
    return import_graph(gm, specs, name=name, primary_dialect=options.primary_dialect)


def _assemble(
    top: torch.fx.GraphModule | None, imported: dict[str, _Imported], options: Options
) -> Call:
    calls = {
        name: make_call(
            module.entry,
            functools.partial(load, module, options),
            options.threads,
            unchecked,
        )
        for name, (module, unchecked) in imported.items()
    }
    if top is None:
        (call,) = calls.values()
        return call
    for name, call in calls.items():
        setattr(top, name, _CompiledPart(call))
    return lambda args: top(*args)


class _CompiledPart(torch.nn.Module):
    def __init__(self, call: Call):
        super().__init__()
        self.call = call

    def forward(self, *args: Any) -> Any:
        return self.call(list(args))


def _describe(node: torch.fx.Node) -> str:
    while node.target is operator.getitem:
        (node,) = node.all_input_nodes
    op = partition.custom_op(node)
    return str(op if op is not None else node.target)


def _find(
    gm: torch.fx.GraphModule, error: UnsupportedOpsError, known: Collection[torch.fx.Node]
) -> dict[torch.fx.Node, MissingOp]:
    """Return the nodes that an error of the importer is about."""
    reasons = {(entry.op, entry.dtypes, entry.source): entry for entry in error.missing}
    found = {}
    for node in gm.graph.nodes:
        if node.op == "call_function" and node not in known:
            entry = partition.describe(node, "")
            key = (entry.op, entry.dtypes, entry.source)
            if key in reasons:
                found[node] = reasons[key]
    return found


def _warn(gm: torch.fx.GraphModule, missing: dict[torch.fx.Node, MissingOp]) -> None:
    total = sum(node.op == "call_function" for node in gm.graph.nodes)
    lines = dict.fromkeys(str(entry) for entry in missing.values())
    warnings.warn(
        f"buddy: {len(missing)} of {total} ops are not compiled and run in PyTorch "
        '(fallback="error" makes this an error):\n  ' + "\n  ".join(lines),
        FallbackWarning,
        stacklevel=2,
    )
