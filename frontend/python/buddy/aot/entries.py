"""Several entry points of one model: what is the same tensor is stored once.

In: a traced program for each entry point.  Out: the same programs, in which a weight has one name
wherever it is used and two weights never share one, and the values by those names.  Buffers and
inputs that one entry point writes are state, which the others may read.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from buddy.aot.errors import BundleError
from buddy.aot.export import Traced

WEIGHT_KINDS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
_MUTATIONS = (
    OutputKind.BUFFER_MUTATION,
    OutputKind.PARAMETER_MUTATION,
    OutputKind.USER_INPUT_MUTATION,
)
_Key = tuple[object, ...]


def share_weights(entries: Mapping[str, Traced]) -> dict[str, torch.Tensor]:
    """Rename the weights of the programs, in place; return all values by name.

    One tensor, by its memory and shape, has one name.  Constants of one name and equal values are
    one too (programs that were saved apart); what a program writes is not: an equal start does not
    make two counters one.  Another weight of a name that is taken gets the entry point's name in
    front.
    """
    values: dict[str, torch.Tensor] = {}
    names: dict[_Key, str] = {}
    # By name: what one program writes another may only read.
    states = {name for traced in entries.values() for name in mutated(traced.program)}
    for entry, traced in entries.items():
        renamed: dict[str, str] = {}
        written = set(mutated(traced.program))
        for name, value in program_values(traced.program).items():
            key = _identity(value)
            if name in written and names.get(key) in renamed.values():
                key = (entry, name)  # written under one name of several: the program's own matter
            if key not in names:
                taken = values.get(name)
                equal = taken is not None and name not in states and _equal(taken, value)
                names[key] = name if taken is None or equal else _free(f"{entry}.{name}", values)
                values.setdefault(names[key], value)
            renamed[name] = names[key]
        rename_weights(traced.program, renamed)
    return values


def states(entries: Mapping[str, Traced]) -> set[str]:
    """The names of the buffers and inputs that one of the programs writes.

    Raises BundleError if programs disagree on the dtype, the number of dimensions or a known size
    of one.
    """
    found = {name for traced in entries.values() for name in mutated(traced.program)}
    first: dict[str, tuple[str, torch.Tensor]] = {}
    for entry, traced in entries.items():
        fakes = {node.name: node.meta.get("val") for node in traced.program.graph.nodes}
        for spec in traced.program.graph_signature.input_specs:
            name, value = spec.target or spec.arg.name, fakes.get(spec.arg.name)
            if name not in found or not isinstance(value, torch.Tensor):
                continue
            other, seen = first.setdefault(name, (entry, value))
            if not _compatible(seen, value):
                raise BundleError(
                    f"state '{name}' is {_kind(seen)} in entry '{other}' and {_kind(value)} in "
                    f"entry '{entry}'; give one of them another name"
                )
    return found


def program_values(program: ExportedProgram) -> dict[str, torch.Tensor]:
    """The parameters, buffers and constants that the program takes, in its order."""
    values: dict[str, torch.Tensor] = {}
    for spec in program.graph_signature.input_specs:
        if spec.kind not in WEIGHT_KINDS or not spec.target:
            continue
        stored = spec.kind is not InputKind.CONSTANT_TENSOR and spec.persistent is not False
        values[spec.target] = (program.state_dict if stored else program.constants)[spec.target]
    return values


def mutated(program: ExportedProgram) -> list[str]:
    """The names of the buffers and inputs that the program writes."""
    specs = program.graph_signature.output_specs
    return [spec.target for spec in specs if spec.kind in _MUTATIONS and spec.target]


def _free(name: str, taken: Mapping[str, torch.Tensor]) -> str:
    while name in taken:
        name += "_"
    return name


def _identity(value: torch.Tensor) -> _Key:
    """Equal for tensors that are the same memory, read in the same way."""
    memory = value.untyped_storage().data_ptr()
    if not memory or not value.numel():
        return (id(value),)
    return (memory, value.storage_offset(), value.dtype, *value.shape, *value.stride())


def _equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)


def _compatible(a: torch.Tensor, b: torch.Tensor) -> bool:
    sizes = zip(a.shape, b.shape, strict=False)
    known = [(x, y) for x, y in sizes if isinstance(x, int) and isinstance(y, int)]
    return a.dtype == b.dtype and a.dim() == b.dim() and all(x == y for x, y in known)


def _kind(value: torch.Tensor) -> str:
    sizes = ", ".join(str(size) for size in value.shape)
    return f"{str(value.dtype).removeprefix('torch.')} [{sizes}]"


def rename_weights(program: ExportedProgram, names: Mapping[str, str]) -> None:
    """Give weights other names wherever the program holds them."""
    if all(old == new for old, new in names.items()):
        return
    for spec in [*program.graph_signature.input_specs, *program.graph_signature.output_specs]:
        if spec.target in names and spec.kind is not OutputKind.USER_INPUT_MUTATION:
            spec.target = names[spec.target]
    for table in (program.state_dict, program.constants):
        moved = {names.get(name, name): value for name, value in table.items()}
        table.clear()
        table.update(moved)
