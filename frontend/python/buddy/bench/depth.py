"""`buddy bench compile --layers FEW,MANY`: does a model take longer to compile if it is deeper?

Models of the given model's sizes with FEW and with MANY layers, on tensors that take no memory, are
traced and imported, which is not counted.  Counted is what comes after it, from the module to the
library: CPU seconds of all phases, of code generation and of the linker, of all threads.
"""

from __future__ import annotations

import dataclasses
import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

from torch.export import ExportedProgram

from buddy.aot import compiler, weights_file
from buddy.aot.blocks import FORMATS
from buddy.aot.bundle import BuildOptions, import_programs
from buddy.aot.errors import BundleError
from buddy.aot.export import ENTRY
from buddy.aot.llama_source import make_fake, trace
from buddy.aot.quantized import block_formats
from buddy.aot.source import open_source
from buddy.bench import harness
from buddy.bench.compile_time import code_text, describe_code
from buddy.bench.harness import OURS, Case, Result
from buddy.bench.ours import DTYPES
from buddy.models.llama import LlamaConfig


def bench(
    model: str, dtype: str, layers: tuple[int, int], rounds: int
) -> tuple[list[Result], dict[str, Any], str]:
    """Compile both `rounds` times, in turns; returns as `compile_time.bench` does."""
    config = getattr(open_source(model, dtype), "config", None)
    if not isinstance(config, LlamaConfig):
        raise BundleError(f"{model}: --layers is for LLaMAs")
    if dtype not in (*DTYPES, *FORMATS):
        raise BundleError(f"--dtype {dtype} is for the layers of a file; name a format")
    modules = {}
    for count in layers:
        harness.progress(f"trace and import {count} layers")
        modules[count] = _import(dataclasses.replace(config, layers=count), dtype)
    cases = {count: Case(f"{count} layers", dtype if dtype in DTYPES else "f32")
             for count in layers}  # fmt: skip
    results = {count: Result(case, {OURS: []}) for count, case in cases.items()}
    code: dict[int, dict[str, Any]] = {}
    options = BuildOptions()
    target = compiler.target_info(options.target)
    with tempfile.TemporaryDirectory(prefix="buddy-bench-") as folder:
        for number in range(rounds):
            for count in layers if number % 2 == 0 else layers[::-1]:
                harness.progress(f"round {number + 1}/{rounds} {count} layers")
                library = Path(folder) / f"{count}.so"
                bytecode, offsets = modules[count]
                start = _cpu_seconds()
                compilation = compiler.Compilation(bytecode, target, None, options.activations)
                compilation.finish(
                    library, offsets=offsets, build_id="bench", opt_level=options.opt_level
                )
                results[count].seconds[OURS].append(_cpu_seconds() - start)
                code[count] = describe_code(library)
    harness.progress("")
    few, many = (statistics.median(results[count].seconds[OURS]) for count in layers)
    for count, result in results.items():
        result.extra["code"] = code[count]
    lines = [f"{count} layers: {code_text(code[count])}" for count in layers]
    lines.append(f"CPU time; {layers[1]} layers take {many / few:.2f} of the time of {layers[0]}")
    more = {"model": model, "depth_ratio": many / few}
    return list(results.values()), more, "\n".join(lines)


def _import(config: LlamaConfig, dtype: str) -> tuple[bytes, dict[str, int]]:
    """The module, and the places of its weights in a file."""
    # Any number of tensors is there.
    traced = trace(make_fake(Path(), config, config.layers))

    def formats(program: ExportedProgram) -> dict[str, str]:
        return block_formats(program, dtype) if dtype in FORMATS else {}

    program = import_programs({ENTRY: traced}, formats, BuildOptions())
    return program.module.bytecode, weights_file.plan(program.weights).offsets


def _cpu_seconds() -> float:
    """Of this process and of those that it started and that are done."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
