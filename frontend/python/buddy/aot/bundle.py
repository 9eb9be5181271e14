"""`buddy build`: from a model to a directory that runs without Python.

In: a Source.  Out: libmodel.so, model.h, weights.safetensors, manifest.json, tokenizer files and
the OpenMP runtime, all or nothing.  Weights are read, converted and written one at a time; the
graph is traced on shapes alone.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch.export import ExportedProgram

from buddy import __version__, panels
from buddy.aot import blocks, compiler, header, manifest, tokenizer_files, weights_file
from buddy.aot.blocks import FORMATS
from buddy.aot.cpu_features import required_features
from buddy.aot.entries import WEIGHT_KINDS, states
from buddy.aot.errors import BundleError
from buddy.aot.export import Traced, ignore_torchs_own_warnings
from buddy.aot.progress import Progress
from buddy.aot.source import Source, open_source
from buddy.aot.staging import MANIFEST, check_replaceable, staged
from buddy.aot.weights_file import Layout, TensorSpec
from buddy.importer import (
    ArgInfo,
    ImportedModule,
    ModuleBuilder,
    UnsupportedOpsError,
    add_exported_program,
)

LIBRARY, WEIGHTS, HEADER = "libmodel.so", "weights.safetensors", "model.h"
_RESERVE = 64 << 20  # bytes a bundle needs beside its weights, generously


@dataclass(frozen=True)
class BuildOptions:
    """What the command line may choose; see `buddy build --help`."""

    target: str = "native"
    dtype: str = "f32"
    activations: Literal["int8", "f32"] = "int8"
    primary_dialect: Literal["linalg", "tosa"] = "linalg"
    threads: int | None = None
    opt_level: int = 3
    dump_phases_to: Path | None = None
    stop_after: str | None = None
    tokenizer: Path | None = None  # a folder or a file; None: the model's own
    quiet: bool = False


def build(model: str, output: Path, options: BuildOptions) -> None:
    """Build the bundle `output`; with `stop_after` write only the module's text, to that file."""
    progress = Progress(options.quiet)
    target = compiler.target_info(options.target)
    if options.threads:
        torch.set_num_threads(options.threads)
    if not options.stop_after:
        check_replaceable(output)
    if options.tokenizer:
        tokenizer_files.find(options.tokenizer)
    with progress.step(f"open {model}"):
        source = open_source(model, options.dtype)
    with progress.step("trace"):
        entries = source.trace()
    with progress.step("import"):
        program = import_programs(entries, source.block_formats, options)
    imported, weights, formats = program.module, program.weights, program.formats
    if options.stop_after:
        with progress.step(f"run the phases up to {options.stop_after}"):
            text = compiler.text_after(
                imported.bytecode,
                target,
                options.stop_after,
                options.dump_phases_to,
                options.activations,
            )
        compiler.write_text(output, text)
        return
    with progress.step(f"optimise for {target.name} ({target.cpu})"):
        compilation = compiler.Compilation(
            imported.bytecode, target, options.dump_phases_to, options.activations
        )
    packings = compilation.packings
    layout = weights_file.plan([_stored(spec, packings.get(spec.name)) for spec in weights])
    _check_space(output, layout.size)

    def load(name: str) -> torch.Tensor:
        if name not in packings:
            return source.load(name)
        packing = packings[name]
        if packing["format"] == panels.PLAIN:
            return panels.pack(source.load(name), packing)
        return torch.from_numpy(blocks.pack(source.load_blocks(name, formats[name]), packing))

    with staged(output) as stage:
        with progress.step(f"write {layout.size / 1e6:.0f} MB of weights"):
            build_id = weights_file.write(stage / WEIGHTS, layout, load)
        if options.tokenizer:
            tokenizer = tokenizer_files.copy(options.tokenizer, stage)
        else:
            tokenizer = source.write_tokenizer(stage)
        with progress.step("generate code"):
            compilation.finish(
                stage / LIBRARY,
                offsets=layout.offsets,
                build_id=build_id,
                opt_level=options.opt_level,
            )
        wide = [name for name in formats if name not in packings]
        if wide:
            progress.line(
                f"  {len(wide)} weights stay unquantised, as they are not only multiplied with: "
                + ", ".join(wide[:3])
            )
        runtime = compiler.copy_runtime(stage / LIBRARY, target)
        record = _describe(source, build_id, target)
        if any(packing["format"] != panels.PLAIN for packing in packings.values()):
            record["activations"] = options.activations
        record |= {
            "runtime": runtime,
            "tokenizer": tokenizer,
            "files": sorted(source.description.files),
            "weights": {"file": WEIGHTS, "bytes": layout.size, "tensors": len(layout.specs)},
            "entries": [
                _describe_entry(name, imported.functions[name].args, layout, traced, packings)
                for name, traced in entries.items()
            ],
        }
        for name, text in source.description.files.items():
            (stage / name).write_text(text, encoding="utf-8")
        (stage / HEADER).write_text(header.render(record))
        (stage / MANIFEST).write_text(manifest.dump(record))
    progress.line(f"  {output}: built in {sum(progress.seconds.values()):.1f} s")


@dataclass(frozen=True)
class Program:
    """All entry points as one module, with the weights that they take, each once.

    formats: of the weights to store quantised, their block formats.
    """

    module: ImportedModule
    weights: list[TensorSpec]
    formats: dict[str, str]


def import_programs(
    entries: dict[str, Traced],
    block_formats: Callable[[ExportedProgram], dict[str, str]],
    options: BuildOptions,
) -> Program:
    """Import traced entry points, whose weights are stored in the formats that a Source chooses.

    Raises BundleError that names every operator that cannot be compiled.
    """
    written = states(entries)
    weights: dict[str, TensorSpec] = {}
    formats: dict[str, str] = {}
    for traced in entries.values():
        for spec in program_weights(traced.program):
            weights.setdefault(spec.name, spec)
        for name, chosen in block_formats(traced.program).items():
            # The finer one: what an embedding looks up is kept at 8 bits by all.
            formats[name] = max(chosen, formats.get(name, chosen), key=lambda f: FORMATS[f][0])
    kinds = weight_formats(list(weights.values()), formats)
    offsets = weights_file.plan(list(weights.values())).offsets
    builder = ModuleBuilder()
    missing: dict[str, None] = {}
    for name, traced in entries.items():
        try:
            with warnings.catch_warnings():
                ignore_torchs_own_warnings()
                add_exported_program(
                    builder,
                    traced.program,
                    name=name,
                    weight_offsets=offsets,
                    weight_formats=kinds,
                    primary_dialect=options.primary_dialect,
                    decomposed=traced.decomposed,
                    states=written,
                )
        except UnsupportedOpsError as error:
            missing |= dict.fromkeys(str(op) for op in error.missing)
    if missing:
        raise BundleError(
            f"the model has ops that cannot be compiled: {'; '.join(missing)}; "
            "buddy.register_lowering adds a rule of your own"
        )
    return Program(builder.finish(), list(weights.values()), formats)


def program_weights(program: ExportedProgram) -> list[TensorSpec]:
    """The parameters, buffers and constants that the program takes, in its order."""
    fakes = {node.name: node.meta.get("val") for node in program.graph.nodes}
    specs = {}
    for spec in program.graph_signature.input_specs:
        value = fakes.get(spec.arg.name)
        if spec.kind in WEIGHT_KINDS and spec.target and isinstance(value, torch.Tensor):
            shape = tuple(int(size) for size in value.shape)
            specs[spec.target] = TensorSpec(spec.target, shape, value.dtype)
    return list(specs.values())


def _stored(spec: TensorSpec, packing: dict[str, Any] | None) -> TensorSpec:
    """The weight as it lies in the file."""
    if packing is None:
        return spec
    dtype = spec.dtype if packing["format"] == panels.PLAIN else torch.int8
    return TensorSpec(spec.name, tuple(packing["stored_shape"]), dtype)


def weight_formats(weights: list[TensorSpec], blocks: dict[str, str]) -> dict[str, str]:
    """The format of each matrix, by name: of `blocks`, where it is in there, else plain floats."""
    matrices = (spec for spec in weights if len(spec.shape) == 2 and spec.dtype.is_floating_point)
    return {spec.name: panels.PLAIN for spec in matrices} | blocks


def _check_space(output: Path, size: int) -> None:
    """Fail before the long steps where the weights will not fit."""
    folder = output.absolute().parent
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if free < size + _RESERVE:
        raise BundleError(
            f"{folder}: {free / 1e6:.0f} MB are free, the bundle needs "
            f"{(size + _RESERVE) / 1e6:.0f} MB; free some or choose another place with -o"
        )


def _describe(source: Source, build_id: str, target: Any) -> dict[str, Any]:
    description = source.description
    return {
        "format": manifest.FORMAT,
        "name": description.name,
        "architecture": description.architecture,
        "context": description.context,
        "eos_tokens": description.eos_tokens,
        "bos_token": description.bos_token,
        "origin": description.origin,
        "build_id": build_id,
        "target": {
            "name": target.name,
            "triple": target.triple,
            "cpu": target.cpu,
            "features": required_features(target),
        },
        "versions": {
            "buddy": __version__,
            "torch": torch.__version__,
            "llvm": compiler.llvm_version(),
        },
        "library": LIBRARY,
        "header": HEADER,
    }


def _describe_entry(
    entry: str,
    arguments: list[ArgInfo],
    layout: Layout,
    traced: Traced,
    packings: dict[str, dict[str, Any]],
) -> dict[str, Any]:
    records = [manifest.describe_argument(info, traced.names) for info in arguments]
    outputs = [record for record in records if record["kind"] == "output"]
    if len(outputs) == len(traced.outputs):
        for record, name in zip(outputs, traced.outputs, strict=True):
            record["name"] = name
    for record in records:
        if record["kind"] == "weight":
            record["offset"] = layout.offsets[record["name"]]
            packing = packings.get(record["name"])
            if packing is not None:
                record |= {"shape": packing["stored_shape"], "packing": packing}
                if packing["format"] != panels.PLAIN:
                    record["dtype"] = "i8"
        if record["kind"] == "state" and record["name"] in layout.offsets:
            record["initial"] = layout.offsets[record["name"]]
    return {
        "name": entry,
        "symbol": entry,
        "workspace_symbol": f"{entry}_workspace_size",
        "arguments": records,
    }
