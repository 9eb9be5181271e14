"""Imports programs of `torch.export`."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import sympy
import torch
from torch.export._remove_effect_tokens_pass import _remove_effect_tokens
from torch.export.graph_signature import InputKind, OutputKind

from .decomposition import decompositions
from .registry import Dialect
from .signature import ArgSpec, SpecKind

if TYPE_CHECKING:
    from .graph import Range
    from .module import ImportedModule, ModuleBuilder

_WEIGHTS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
_MUTATIONS = (
    OutputKind.BUFFER_MUTATION,
    OutputKind.PARAMETER_MUTATION,
    OutputKind.USER_INPUT_MUTATION,
)


def import_exported_program(
    ep: torch.export.ExportedProgram,
    *,
    name: str,
    weight_offsets: Mapping[str, int] | None = None,
    weight_formats: Mapping[str, str] | None = None,
    primary_dialect: Dialect = "linalg",
    decomposed: bool = False,
) -> ImportedModule:
    """Import a program as a module with one entry point.

    Parameters, buffers and constants are weights named by their fully qualified names; a buffer
    that the program writes is a state; the rest are inputs, SymInts sizes. `weight_offsets` gives
    the byte offset of each weight in a weights file, `weight_formats` the format of those
    that may be stored packed. decomposed: the program has been through `decompositions()` already.
    """
    from .module import ModuleBuilder

    builder = ModuleBuilder()
    add_exported_program(
        builder,
        ep,
        name=name,
        weight_offsets=weight_offsets,
        weight_formats=weight_formats,
        primary_dialect=primary_dialect,
        decomposed=decomposed,
    )
    return builder.finish()


def add_exported_program(
    builder: ModuleBuilder,
    ep: torch.export.ExportedProgram,
    *,
    name: str,
    weight_offsets: Mapping[str, int] | None = None,
    weight_formats: Mapping[str, str] | None = None,
    primary_dialect: Dialect = "linalg",
    decomposed: bool = False,
    states: Collection[str] = (),
) -> None:
    """Add a program as an entry point of a module; see `import_exported_program`.

    states: buffers and inputs that are a state here too, as another entry point writes them.
    """
    if not decomposed:
        ep = ep.run_decompositions(decompositions())
    if any(spec.kind is OutputKind.TOKEN for spec in ep.graph_signature.output_specs):
        # Tokens order operators with an effect, as the graph does.
        ep = _remove_effect_tokens(copy.deepcopy(ep) if decomposed else ep)
    gm = ep.graph_module
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    mutations: dict[int, str] = {}
    targets = {spec.arg.name: spec.target for spec in ep.graph_signature.input_specs}
    names = {spec.arg.name: spec.target or spec.arg.name for spec in ep.graph_signature.input_specs}
    by_target = {target: names[arg] for arg, target in targets.items() if target}
    for i, spec in enumerate(ep.graph_signature.output_specs):
        if spec.kind in _MUTATIONS:
            mutations[i] = by_target.get(spec.target, spec.target)

    args = []
    for node, spec in zip(placeholders, ep.graph_signature.input_specs, strict=True):
        meta = node.meta.get("val")
        arg_name = names[spec.arg.name]
        kind: SpecKind
        if isinstance(meta, (torch.SymInt, int)) and not isinstance(meta, bool):
            kind = "size" if isinstance(meta, torch.SymInt) else "constant"
        elif not isinstance(meta, torch.Tensor):
            kind = "constant"
        elif arg_name in states:
            kind = "state"
        elif spec.kind not in _WEIGHTS:
            kind = "input"
        else:
            kind = "state" if arg_name in mutations.values() else "weight"
        offset = (weight_offsets or {}).get(arg_name) if kind == "weight" else None
        block_format = (weight_formats or {}).get(arg_name) if kind == "weight" else None
        args.append(ArgSpec(arg_name, kind, meta, offset, block_format))
    builder.add_function(
        gm,
        args,
        name=name,
        primary_dialect=primary_dialect,
        mutations=mutations,
        alias_outputs=False,
        ranges=_ranges(ep),
    )


def _ranges(ep: torch.export.ExportedProgram) -> dict[sympy.Symbol, Range]:
    """What the program says of its symbols' bounds."""
    ranges: dict[sympy.Symbol, Range] = {}
    for symbol, bounds in ep.range_constraints.items():
        low, high = (
            int(bound) if bound.is_Integer else None for bound in (bounds.lower, bounds.upper)
        )
        # Sizes near the largest integer are torch.export's word for "no bound".
        if high is not None and high >= 2**62:
            high = None
        if low is not None or high is not None:
            ranges[symbol] = (low, high)
    assertions = _assertions(ep)
    for symbol, (low, high) in list(ranges.items()):
        if high is not None:
            ranges[symbol] = (low, _widened(symbol, high, assertions, ranges))
    return ranges


def assertion(node: torch.fx.Node) -> sympy.Basic:
    """What an `_assert_scalar` asks for."""
    condition = node.args[0]
    value = condition.meta.get("val") if isinstance(condition, torch.fx.Node) else condition
    return value.node.expr if isinstance(value, torch.SymBool) else sympy.sympify(value)


def _assertions(ep: torch.export.ExportedProgram) -> list[sympy.Le]:
    """The inequalities that the program asserts, as `… <= …`."""
    found = []
    for node in ep.graph.nodes:
        if node.target is torch.ops.aten._assert_scalar.default:
            expression = assertion(node)
            if isinstance(expression, sympy.Ge):
                expression = sympy.Le(expression.rhs, expression.lhs, evaluate=False)
            if isinstance(expression, sympy.Le):
                found.append(expression)
    return found


def _widened(
    symbol: sympy.Symbol,
    high: int,
    assertions: list[sympy.Le],
    ranges: Mapping[sympy.Symbol, Range],
) -> int:
    """The upper bound that the assertions imply, where the tracer's is lower.

    The tracer takes sizes to be at least 2, whatever their least value is said to be: of a position
    in a cache of 20 it derives from `position + count <= 20` that it is at most 18.
    """
    bounds = []
    for assertion in assertions:
        excess = sympy.expand(assertion.lhs - assertion.rhs)
        others = excess - symbol
        if others.has(symbol):
            continue
        least = others
        for other in others.free_symbols:
            low = ranges.get(other, (None, None))[0]
            factor = others.coeff(other)
            if not factor.is_Integer or factor <= 0 or low is None:
                break
            least = least.subs(other, low)
        if least.is_Integer:
            bounds.append(-int(least))
    return max(high, min(bounds)) if bounds else high
