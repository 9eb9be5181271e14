"""Any nn.Module: `package.module:factory` names a function that makes it with example inputs.

The factory returns `(module, example_inputs)` or `(module, example_inputs, dynamic_shapes)`;
`dynamic_shapes` is what torch.export takes. Text files that the program around it needs (the names
of classes, say) travel in the bundle if the module has them in its attribute `bundle_files`, by
name.
"""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from buddy.aot import blocks
from buddy.aot.blocks import FORMATS, Blocks
from buddy.aot.errors import BundleError
from buddy.aot.export import Traced, export
from buddy.aot.quantized import KEEP, block_formats
from buddy.aot.source import Description


class FactorySource:
    """A module made by the user's function.

    Its weights are stored in the dtype they have, or in blocks where `dtype` names a block format.
    """

    def __init__(self, name: str, dtype: str) -> None:
        if dtype == KEEP:
            raise BundleError(f"{name}: --dtype keep is for GGUF files; choose another")
        if dtype in ("bf16", "f16"):
            raise BundleError(
                f"{name}: a factory's module keeps its own dtype; make it {dtype} there, without "
                f"--dtype {dtype}"
            )
        self._dtype = dtype
        module, inputs, self._dynamic_shapes = make_module(name)
        self._name = name
        self._module, self._inputs = module.eval(), inputs
        self._values: dict[str, torch.Tensor] = {}
        for tensor in [*module.parameters(), *module.buffers()]:
            if not tensor.is_contiguous():  # stored row-major, so traced row-major
                tensor.data = tensor.data.contiguous()
        self.description = Description(
            name=name.rpartition(":")[2],
            architecture=type(module).__name__,
            origin={"format": "module", "factory": name},
            files=_files(name, module),
        )

    def trace(self) -> Traced:
        try:
            traced = export(self._module, self._inputs, self._dynamic_shapes)
        except Exception as error:  # whatever the tracer meets in the user's code
            raise BundleError(f"{self._name}: torch.export: {_first_line(error)}") from error
        for spec in traced.program.graph_signature.input_specs:
            if (
                spec.kind in (InputKind.PARAMETER, InputKind.BUFFER)
                and spec.persistent is not False
            ):
                self._values[spec.target] = traced.program.state_dict[spec.target]
            elif spec.kind in (InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
                self._values[spec.target] = traced.program.constants[spec.target]
        return traced

    def load(self, name: str) -> torch.Tensor:
        return self._values[name]

    def block_formats(self, program: ExportedProgram) -> dict[str, str]:
        return block_formats(program, self._dtype) if self._dtype in FORMATS else {}

    def load_blocks(self, name: str, format: str) -> Blocks:
        return blocks.quantize(self.load(name).detach().float().numpy(), format)

    def write_tokenizer(self, directory: Path) -> list[str]:
        del directory
        return []


def make_module(name: str) -> tuple[torch.nn.Module, tuple[Any, ...], Any]:
    """The module, example inputs and dynamic shapes (or None) of `package.module:factory`."""
    made = _call(name)
    if not isinstance(made, tuple) or len(made) not in (2, 3):
        raise BundleError(
            f"{name}: expected (module, example_inputs[, dynamic_shapes]), got {_kind(made)}"
        )
    module, inputs = made[:2]
    if not isinstance(module, torch.nn.Module):
        raise BundleError(f"{name}: the first value is {_kind(module)}, not an nn.Module")
    if not isinstance(inputs, tuple):
        raise BundleError(f"{name}: the example inputs are {_kind(inputs)}, not a tuple")
    return module, inputs, made[2] if len(made) == 3 else None


def _files(name: str, module: torch.nn.Module) -> dict[str, str]:
    files = getattr(module, "bundle_files", {})
    if not isinstance(files, dict) or not all(
        isinstance(part, str) for item in files.items() for part in item
    ):
        raise BundleError(f"{name}: bundle_files is not a dict of names to texts")
    for file in files:
        # Beside code, weights and manifest, whose names are others.
        if not re.fullmatch(r"\w[\w.-]*\.txt", file, re.ASCII):
            raise BundleError(
                f"{name}: bundle_files: '{file}' is not the plain name of a .txt file"
            )
    return files


def _call(name: str) -> Any:
    module_name, _, function_name = name.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")  # a console script has its own directory there instead
    try:
        value: Any = importlib.import_module(module_name)
    except Exception as error:
        raise BundleError(f"{name}: cannot import {module_name}: {_first_line(error)}") from error
    for part in function_name.split("."):
        if not hasattr(value, part):
            raise BundleError(f"{name}: {module_name} has no '{function_name}'")
        value = getattr(value, part)
    try:
        return value()
    except Exception as error:
        raise BundleError(f"{name}: the factory failed: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _kind(value: object) -> str:
    return f"a {type(value).__name__}"
