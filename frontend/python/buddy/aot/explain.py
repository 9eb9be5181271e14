"""`buddy explain`: what the importer made of a model, operation by operation."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Literal

from buddy.aot import compiler, weights_file
from buddy.aot.bundle import BuildOptions, import_program, program_weights
from buddy.aot.source import open_source


def explain(
    model: str, target: str, primary_dialect: Literal["linalg", "tosa"], dump_to: Path | None
) -> str:
    """Return a table of the imported module's operations: how many, and where they come from."""
    options = BuildOptions(target=target, primary_dialect=primary_dialect)
    source = open_source(model, options.dtype)
    program = source.trace().program
    layout = weights_file.plan(program_weights(program))
    imported = import_program(program, layout, options)
    if dump_to is not None:
        info = compiler.target_info(target)
        compiler.text_after(imported.bytecode, info, "llvm", dump_to)
    counts, places = _operations(imported.bytecode)
    rows = [("count", "operation", "first from")]
    rows += [(str(count), name, places[name]) for name, count in counts.most_common()]
    widths = [max(len(row[i]) for row in rows) for i in range(2)]
    lines = [f"{a:>{widths[0]}}  {b:<{widths[1]}}  {c}".rstrip() for a, b, c in rows]
    kinds = Counter(info.kind for info in imported.args)
    summary = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    return "\n".join([f"{source.description.name}: {summary}", *lines])


def _operations(bytecode: bytes) -> tuple[Counter[str], dict[str, str]]:
    """How often each operation occurs in the entry's body, and the first source line."""
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
