"""`buddy explain`: what a model's operations are, and what the compiler made of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from buddy.aot import compiler, remarks
from buddy.aot.bundle import BuildOptions, import_programs
from buddy.aot.plots import check_plot
from buddy.aot.source import open_source
from buddy.aot.tables import aligned
from buddy.importer import FunctionInfo


def explain(model: str, options: BuildOptions, plot: Path | None = None) -> str:
    """Return tables of the imported operations, of what stayed scalar and of the memory of a call.

    plot: a picture of the arenas is written there.
    """
    if plot is not None:
        check_plot(plot)
    info = compiler.target_info(options.target)
    source = open_source(model, options.dtype)
    imported = import_programs(source.trace(), source.block_formats, options).module
    counts, places = _operations(imported.bytecode)
    rows = [("count", "operation", "first from")]
    rows += [(str(count), name, places[name]) for name, count in counts.most_common()]
    summary = "; ".join(_arguments(name, info) for name, info in imported.functions.items())
    told = compiler.remarks_of(imported.bytecode, info, options.dump_phases_to, options.activations)
    if plot is not None:
        from buddy.aot.arena_plot import draw

        draw(remarks.arenas(told), source.description.name, plot)
    head = [f"{source.description.name}: {summary}", *aligned(rows, right=[0])]
    return "\n".join(head) + "\n\n" + remarks.text(told)


def _arguments(name: str, info: FunctionInfo) -> str:
    kinds = Counter(arg.kind for arg in info.args)
    return f"{name} of " + ", ".join(f"{count} {kind}" for kind, count in kinds.items())


def _operations(bytecode: bytes) -> tuple[Counter[str], dict[str, str]]:
    """How often each operation occurs in the entries' bodies, and the first source line."""
    from mlir import ir

    counts: Counter[str] = Counter()
    places: dict[str, str] = {}
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(bytecode)
        for function in module.body.operations:
            for region in function.operation.regions:
                for block in region.blocks:
                    for operation in block.operations:
                        name = operation.operation.name
                        counts[name] += 1
                        places.setdefault(name, _place(operation.operation))
    return counts, places


def _place(operation: Any) -> str:
    text = str(operation.location)
    return text.removeprefix("loc(").removesuffix(")").replace('"', "") if text else ""
