"""Any nn.Module: `package.module:factory` names a function that makes it with example inputs.

The factory returns `(module, example_inputs)` or `(module, example_inputs, dynamic_shapes)`, where
`dynamic_shapes` is what torch.export takes; or a `torch.export.ExportedProgram`; or, for several
entry points over shared weights and state, a dict of such values by name.  In place of a module
may stand a method of one: `(model.encode, (image,))`.  Text files that the program around it needs
(the names of classes, say) travel in the bundle if the first module has them in its attribute
`bundle_files`, by name.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from buddy.aot import blocks
from buddy.aot.blocks import FORMATS, Blocks
from buddy.aot.entries import rename_weights, share_weights
from buddy.aot.errors import BundleError
from buddy.aot.export import ENTRY, Traced, decompose, export, from_program, no_traces_of_errors
from buddy.aot.quantized import KEEP, block_formats
from buddy.aot.source import Description

_EXPECTED = "(module, example_inputs[, dynamic_shapes])"


@dataclass(frozen=True)
class Entry:
    """What an entry point is traced from, if it is not traced yet."""

    module: torch.nn.Module
    inputs: tuple[Any, ...]
    dynamic_shapes: Any = None


class FactorySource:
    """Modules or programs made by the user's function.

    Weights are stored in the dtype they have, or in blocks where `dtype` names a block format.
    """

    def __init__(self, name: str, dtype: str) -> None:
        check_dtype(name, dtype)
        self._name, self._dtype = name, dtype
        made = make_entries(name)
        self._entries, self._values = made, dict[str, torch.Tensor]()
        first = next(iter(made.values()))
        module = _owner(first.module) if isinstance(first, Entry) else None
        for entry in made.values():
            if isinstance(entry, Entry):
                _prepare(entry.module)
        self.description = Description(
            name=name.rpartition(":")[2],
            architecture=type(module).__name__ if module is not None else "ExportedProgram",
            origin={"format": "module", "factory": name},
            files=_files(name, module),
        )

    def trace(self) -> dict[str, Traced]:
        traced = {n: decompose(self._trace(n, entry)) for n, entry in self._entries.items()}
        self._values = share_weights(traced)
        return traced

    def _trace(self, name: str, entry: Entry | ExportedProgram) -> Traced:
        where = self._name if len(self._entries) == 1 else f"{self._name}: entry '{name}'"
        try:
            if isinstance(entry, ExportedProgram):
                return from_program(entry)
            traced = export(entry.module, entry.inputs, entry.dynamic_shapes)
        except Exception as error:  # whatever the tracer meets in the user's code
            raise BundleError(f"{where}: torch.export: {_first_line(error)}") from error
        if isinstance(entry.module, _Method):
            _drop_prefix(traced.program, _Method.PREFIX)
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


class SavedProgramSource(FactorySource):
    """A program in a file that `torch.export.save` wrote; one entry point, `forward`."""

    def __init__(self, path: Path, dtype: str) -> None:
        check_dtype(str(path), dtype)
        self._name, self._dtype = str(path), dtype
        # torch prints the stack of what it meets first, then fails with less in a second place.
        with no_traces_of_errors("torch.export") as first:
            try:
                path.open("rb").close()
                program = torch.export.load(path)
            except OSError as error:
                raise BundleError(f"{path}: {error.strerror or error}") from None
            except Exception as error:  # a damaged file fails in many ways
                raise BundleError(
                    f"{path}: not a program of torch.export.save, or of another version of "
                    f"PyTorch: {_first_line(first[0] if first else error)}"
                ) from error
        self._entries: dict[str, Entry | ExportedProgram] = {ENTRY: program}
        self._values = dict[str, torch.Tensor]()
        self.description = Description(
            name=path.stem,
            architecture="ExportedProgram",
            origin={"format": "exported program", "file": path.name},
        )


class _Method(torch.nn.Module):
    """A method of a module as a module that can be exported."""

    PREFIX = "owner."

    def __init__(self, method: Any) -> None:
        super().__init__()
        self.owner: torch.nn.Module = method.__self__
        self.forward = method


def check_dtype(name: str, dtype: str) -> None:
    """Refuse what a model that is not read from a checkpoint cannot be turned into."""
    if dtype == KEEP:
        raise BundleError(f"{name}: --dtype keep is for GGUF files; choose another")
    if dtype in ("bf16", "f16"):
        raise BundleError(
            f"{name}: a module keeps its own dtype; make it {dtype} there, without --dtype {dtype}"
        )


def make_module(name: str) -> tuple[torch.nn.Module, tuple[Any, ...], Any]:
    """The module, example inputs and dynamic shapes (or None) of a factory of one entry point."""
    entries = make_entries(name)
    entry = next(iter(entries.values()))
    if len(entries) > 1 or not isinstance(entry, Entry):
        raise BundleError(f"{name}: one module is needed here: expected {_EXPECTED}")
    return entry.module, entry.inputs, entry.dynamic_shapes


def make_entries(name: str) -> dict[str, Entry | ExportedProgram]:
    """The entry points of `package.module:factory`, by name."""
    made = _call(name)
    if not isinstance(made, dict):
        return {ENTRY: _entry(name, made)}
    if not made:
        raise BundleError(f"{name}: the factory returned a dict without entry points")
    for key in made:
        if not isinstance(key, str) or not key.isidentifier() or not key.isascii():
            raise BundleError(f"{name}: {key!r} is no name of an entry point; use a C identifier")
    return {key: _entry(f"{name}: entry '{key}'", value) for key, value in made.items()}


def _entry(where: str, made: Any) -> Entry | ExportedProgram:
    if isinstance(made, ExportedProgram):
        return made
    if not isinstance(made, tuple) or len(made) not in (2, 3):
        raise BundleError(f"{where}: expected {_EXPECTED}, got {_kind(made)}")
    module, inputs = made[:2]
    if inspect.ismethod(module) and isinstance(module.__self__, torch.nn.Module):
        module = _Method(module)
    if not isinstance(module, torch.nn.Module):
        raise BundleError(
            f"{where}: the first value is {_kind(module)}, not an nn.Module or a method of one"
        )
    if not isinstance(inputs, tuple):
        raise BundleError(f"{where}: the example inputs are {_kind(inputs)}, not a tuple")
    return Entry(module, inputs, made[2] if len(made) == 3 else None)


def _prepare(module: torch.nn.Module) -> None:
    module.eval()
    for tensor in [*module.parameters(), *module.buffers()]:
        if not tensor.is_contiguous():  # stored row-major, so traced row-major
            tensor.data = tensor.data.contiguous()


def _owner(module: torch.nn.Module) -> torch.nn.Module:
    """The user's module."""
    return module.owner if isinstance(module, _Method) else module


def _drop_prefix(program: ExportedProgram, prefix: str) -> None:
    targets = [spec.target for spec in program.graph_signature.input_specs if spec.target]
    rename_weights(program, {name: name.removeprefix(prefix) for name in targets})


def _files(name: str, module: torch.nn.Module | None) -> dict[str, str]:
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
