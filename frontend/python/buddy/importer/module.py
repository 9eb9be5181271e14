"""The imported module: what the importer takes and what it hands over.

See docs/architecture.md, section 2, for the form of the module.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import sympy
import torch
from mlir import ir

from .graph import FunctionImporter, Range
from .registry import Dialect
from .signature import ArgInfo, ArgSpec, FunctionInfo, OutputInfo

__all__ = [
    "ArgInfo",
    "ArgSpec",
    "FunctionInfo",
    "ImportedModule",
    "ModuleBuilder",
    "OutputInfo",
    "import_graph",
]


@dataclass(frozen=True)
class ImportedModule:
    """An imported module as bytecode, with the signatures of its entry points in order."""

    bytecode: bytes
    functions: dict[str, FunctionInfo] = field(default_factory=dict)

    def text(self, locations: bool = False) -> str:
        """Return the module as MLIR text."""
        with ir.Context() as context:
            context.allow_unregistered_dialects = True
            module = ir.Module.parse(self.bytecode)
            return module.operation.get_asm(enable_debug_info=locations)

    @property
    def entry(self) -> FunctionInfo:
        """Return the signature of the first entry point."""
        return next(iter(self.functions.values()))

    @property
    def args(self) -> list[ArgInfo]:
        """Return the MLIR arguments of the first entry point, in order."""
        return self.entry.args

    @property
    def outputs(self) -> list[OutputInfo]:
        """Return how the results of the first entry point's graph are made, in order."""
        return self.entry.outputs


class ModuleBuilder:
    """Collects entry points into one module.

    builder = ModuleBuilder()
    builder.add_function(prefill, prefill_args, name="prefill")
    builder.add_function(decode, decode_args, name="decode")
    module = builder.finish()
    """

    def __init__(self) -> None:
        self._context = ir.Context()
        self._context.allow_unregistered_dialects = True
        with self._context, ir.Location.unknown():
            self._module = ir.Module.create()
        self._functions: dict[str, FunctionInfo] = {}

    def add_function(
        self,
        gm: torch.fx.GraphModule,
        args: Sequence[ArgSpec],
        *,
        name: str,
        primary_dialect: Dialect = "linalg",
        mutations: Mapping[int, str] | None = None,
        alias_outputs: bool = True,
        ranges: Mapping[sympy.Symbol, Range] | None = None,
        may_copy: bool = False,
    ) -> FunctionInfo:
        """Import a graph as the entry point `name`.

        gm: a graph of core ATen operators (see `decompositions()`), each node with its fake value
            in `meta["val"]`.
        args: one `ArgSpec` for each placeholder, in order.
        primary_dialect: "tosa" uses TOSA rules where they exist and apply, else linalg.
        mutations: output index of the graph -> name of the argument that the output's value is
            written to; used where the graph has no `copy_` nodes (torch.export).
        alias_outputs: results that share memory with an argument are "view" results, as
            AOTAutograd's contract wants; otherwise they are copied into outputs of their own.
        ranges: bounds of symbolic sizes; a call outside of them returns an error at once.
        may_copy: a program that copies a weight or a state whole is compiled as it is; else that
            is an error.

        Raises `UnsupportedOpsError` with every missing op, `ImportGraphError` on a bad graph or
        argument list; nothing is added then.
        """
        if name in self._functions:
            raise ValueError(f"two entry points named {name}")
        with self._context, ir.Location.unknown():
            importer = FunctionImporter(
                gm,
                args,
                name,
                primary_dialect,
                dict(mutations or {}),
                alias_outputs,
                ranges,
                may_copy,
            )
            info = importer.run(self._module)
        self._functions[name] = info
        return info

    def finish(self) -> ImportedModule:
        """Verify the module and return it."""
        with self._context:
            self._module.operation.verify()
            buffer = io.BytesIO()
            self._module.operation.write_bytecode(buffer)
        return ImportedModule(buffer.getvalue(), dict(self._functions))


def import_graph(
    gm: torch.fx.GraphModule,
    args: Sequence[ArgSpec],
    *,
    name: str,
    primary_dialect: Dialect = "linalg",
) -> ImportedModule:
    """Import one graph as a module with one entry point; see `ModuleBuilder.add_function`.

    It may copy its arguments: the graph is what a user wrote for PyTorch, not a model that was
    made to keep its caches in place.
    """
    builder = ModuleBuilder()
    builder.add_function(gm, args, name=name, primary_dialect=primary_dialect, may_copy=True)
    return builder.finish()
