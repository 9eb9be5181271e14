"""torch.export for bundles: sizes stay symbolic, and only what the model needs is asserted.

In: a module, example inputs, dynamic shapes.  Out: an ExportedProgram in which each assertion about
sizes stands once and says in the user's words what it asks for, and a name for each symbol.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind

from buddy.importer import decompositions, whole_recurrences
from buddy.importer.export import assertion

# The name of a model's entry point where there is only one.
ENTRY = "forward"
# How torch.export words an assertion that it derived by itself.
_DERIVED = "Runtime assertion failed for expression"


@dataclass(frozen=True)
class Traced:
    """A program, and what headers and manifests call its parts.

    names: a symbol is named as the `torch.export.Dim` that made it or the integer argument that it
        is.
    outputs: the keys, if the module returns a dict of tensors; else empty.
    decomposed: the program has been through the importer's decompositions.
    """

    program: ExportedProgram
    names: dict[str, str]
    outputs: list[str]
    decomposed: bool = False


def export(module: torch.nn.Module, args: tuple[Any, ...], dynamic_shapes: Any = None) -> Traced:
    """Trace `module`, which may be made of FakeTensors; its weights' values are not read."""
    with (
        torch.no_grad(),
        warnings.catch_warnings(),
        no_traces_of_errors("torch._subclasses.fake_tensor"),
        whole_recurrences(),
    ):
        ignore_torchs_own_warnings()
        program = torch.export.export(
            module,
            args,
            dynamic_shapes=dynamic_shapes,
            strict=False,
            prefer_deferred_runtime_asserts_over_guards=True,
        )
    inputs = _user_inputs(program)
    _tidy_assertions(program, _describe_symbols(inputs))
    names = _name_symbols(inputs, module, args, dynamic_shapes)
    return Traced(program, names, _output_names(program))


def from_program(program: ExportedProgram) -> Traced:
    """The same of a program that somebody has exported.  It is changed in place.

    Symbols are named after where the caller finds them; weights become row-major.
    """
    inputs = _user_inputs(program)
    places = _describe_symbols(inputs)
    _tidy_assertions(program, places)
    _make_contiguous(program)
    names = {str(symbol): _place_name(str(place)) for symbol, place in places.items()}
    return Traced(program, names, _output_names(program))


def decompose(traced: Traced) -> Traced:
    """Take the operators apart as the importer wants; only then the program says what it writes."""
    with warnings.catch_warnings():
        ignore_torchs_own_warnings()
        program = traced.program.run_decompositions(decompositions())
    return replace(traced, program=program, decomposed=True)


def _place_name(place: str) -> str:
    """`tokens.shape[0]` as a name: `tokens_size_0`."""
    return place.replace(".shape[", "_size_").rstrip("]")


def _make_contiguous(program: ExportedProgram) -> None:
    """Lay weights out as bundles store them.  No operator needs another layout of them."""
    for table in (program.state_dict, program.constants):
        for name, value in table.items():
            if isinstance(value, torch.nn.Parameter) and not value.is_contiguous():
                table[name] = torch.nn.Parameter(value.detach().contiguous(), value.requires_grad)
            elif isinstance(value, torch.Tensor) and not value.is_contiguous():
                table[name] = value.contiguous()
    kept = {spec.arg.name for spec in program.graph_signature.input_specs if spec.target}
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if node.name in kept and isinstance(value, torch.Tensor) and not value.is_contiguous():
            node.meta["val"] = value.contiguous()


@contextlib.contextmanager
def no_traces_of_errors(name: str) -> Iterator[list[BaseException]]:
    """Keep a logger of torch's from printing the stack of an exception; yield those it had."""
    logger = logging.getLogger(name)
    dropped: list[BaseException] = []

    def drop(record: logging.LogRecord) -> bool:
        if record.exc_info is None:
            return True
        if isinstance(record.exc_info, tuple) and record.exc_info[1] is not None:
            dropped.append(record.exc_info[1])
        return False

    logger.addFilter(drop)
    try:
        yield dropped
    finally:
        logger.removeFilter(drop)


def _output_names(program: ExportedProgram) -> list[str]:
    specs = program.graph_signature.output_specs
    tensors = [spec for spec in specs if spec.kind is OutputKind.USER_OUTPUT]
    spec = program.call_spec.out_spec
    if spec is None or spec.type is not dict or spec.num_leaves != spec.num_children:
        return []
    return [str(key) for key in spec.context] if len(tensors) == spec.num_leaves else []


def ignore_torchs_own_warnings() -> None:
    """torch.export copies pytree specs in a way that torch itself deprecates."""
    warnings.filterwarnings("ignore", message=".*LeafSpec.*", category=FutureWarning)


def _user_inputs(program: ExportedProgram) -> list[torch.fx.Node]:
    """The placeholders of the leaves of the arguments, in order."""
    names = set(program.graph_signature.user_inputs)
    nodes = [node for node in program.graph.nodes if node.op == "placeholder"]
    return [node for node in nodes if node.name in names]


def _describe_symbols(inputs: list[torch.fx.Node]) -> dict[sympy.Symbol, sympy.Symbol]:
    """Where the caller finds each symbol: `position`, `tokens.shape[0]`."""
    found: dict[sympy.Symbol, sympy.Symbol] = {}
    for node in inputs:
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt):
            found.setdefault(value.node.expr, sympy.Symbol(node.name))
        if isinstance(value, torch.Tensor):
            for i, size in enumerate(value.shape):
                if isinstance(size, torch.SymInt):
                    found.setdefault(size.node.expr, sympy.Symbol(f"{node.name}.shape[{i}]"))
    return found


def _tidy_assertions(program: ExportedProgram, places: dict[sympy.Symbol, sympy.Symbol]) -> None:
    """Drop assertions said twice, and derived ones that two sizes differ; reword the rest.

    The tracer takes another path through aliasing when a slice covers a whole dimension, and
    records that for these example sizes it did not.  The values are the same on either path, so a
    cache that is exactly full must not be refused.
    """
    graph = program.graph
    seen: set[sympy.Basic] = set()
    for node in list(graph.nodes):
        _forget_pending_assertions(node.meta.get("val"))
        if node.target is not torch.ops.aten._assert_scalar.default:
            continue
        condition, message = node.args
        expression = assertion(node)
        derived = str(message).startswith(_DERIVED)
        differ = isinstance(expression, sympy.Ne) and expression.rhs != 0
        if expression == sympy.true or expression in seen or (derived and differ):
            graph.erase_node(node)
        elif derived:
            node.args = (condition, f"expected {expression.xreplace(places)}")
        seen.add(expression)
    graph.eliminate_dead_code()
    program.graph_module.recompile()


def _forget_pending_assertions(value: Any) -> None:
    """They stand in the graph already; a later decomposition would add them all again."""
    if isinstance(value, torch.SymInt):
        value.node.shape_env.deferred_runtime_asserts.clear()


def _name_symbols(
    inputs: list[torch.fx.Node],
    module: torch.nn.Module,
    args: tuple[Any, ...],
    dynamic_shapes: Any,
) -> dict[str, str]:
    if isinstance(dynamic_shapes, dict):
        parameters = inspect.signature(module.forward).parameters
        dynamic_shapes = [dynamic_shapes.get(name) for name in list(parameters)[: len(args)]]
    names: dict[str, str] = {}
    for node, dims in zip(inputs, _leaves(args, dynamic_shapes), strict=True):
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt):
            names[str(value.node.expr)] = node.name
        if not isinstance(value, torch.Tensor) or not dims:
            continue
        for i, dim in dims.items() if isinstance(dims, dict) else enumerate(dims):
            size, name = value.shape[i], getattr(dim, "__name__", "")
            if isinstance(size, torch.SymInt) and re.fullmatch(r"[A-Za-z]\w*", name):
                names.setdefault(str(size.node.expr), name)
    # Two symbols may not share a name: those that would keep their own.
    shared = {name for name in names.values() if list(names.values()).count(name) > 1}
    return {symbol: name for symbol, name in names.items() if name not in shared}


def _leaves(value: Any, shapes: Any) -> Iterator[Any]:
    """The part of `shapes` that belongs to each leaf of the arguments, in torch's order."""
    if isinstance(value, (list, tuple)):
        parts = shapes or [None] * len(value)
        for item, part in zip(value, parts, strict=True):
            yield from _leaves(item, part)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, (shapes or {}).get(key))
    else:
        yield shapes
