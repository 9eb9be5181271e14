"""torch.export for bundles: sizes stay symbolic, and only what the model needs is asserted.

In: a module, example inputs, dynamic shapes.  Out: an ExportedProgram in which each assertion about
sizes stands once.
"""

from __future__ import annotations

from typing import Any

import sympy
import torch
from torch.export import ExportedProgram

# How torch.export words an assertion that it derived by itself.
_DERIVED = "Runtime assertion failed for expression"


def export(
    module: torch.nn.Module, args: tuple[Any, ...], dynamic_shapes: Any = None
) -> ExportedProgram:
    """Trace `module`, which may be made of FakeTensors; its weights' values are not read."""
    with torch.no_grad():
        program = torch.export.export(
            module,
            args,
            dynamic_shapes=dynamic_shapes,
            strict=False,
            prefer_deferred_runtime_asserts_over_guards=True,
        )
    _tidy_assertions(program)
    return program


def _tidy_assertions(program: ExportedProgram) -> None:
    """Drop assertions said twice, and derived ones that two sizes differ.

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
        condition = node.args[0]
        value = condition.meta.get("val") if isinstance(condition, torch.fx.Node) else condition
        expression = value.node.expr if isinstance(value, torch.SymBool) else sympy.sympify(value)
        derived = str(node.args[1]).startswith(_DERIVED)
        differ = isinstance(expression, sympy.Ne) and expression.rhs != 0
        if expression == sympy.true or expression in seen or (derived and differ):
            graph.erase_node(node)
        seen.add(expression)
    graph.eliminate_dead_code()
    program.graph_module.recompile()


def _forget_pending_assertions(value: Any) -> None:
    """They stand in the graph already; a later decomposition would add them all again."""
    if isinstance(value, torch.SymInt):
        value.node.shape_env.deferred_runtime_asserts.clear()
