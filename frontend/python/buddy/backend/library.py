"""An imported module as a loaded library: from the cache on disk, or compiled now."""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import math
import os
import re
import time
import types
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from buddy.importer import FunctionInfo, ImportedModule

from . import cache, logs
from .options import OptionError, Options

# Entered into keys: a change of what is stored, or of how it is compiled from here, changes it.
_FORMAT = "1"
_OPT_LEVEL = 3
_graph_numbers = itertools.count()


class CompileError(RuntimeError):
    """The compiler failed on a module that the importer made; the message names a reproducer."""


def compiler() -> ModuleType:
    """Return the module `_buddy`."""
    try:
        import _buddy
    except ImportError as error:
        raise ImportError(
            f"Buddy's compiler, the module _buddy, cannot be loaded ({error}); "
            "run `make setup`, or add its folder build/python to PYTHONPATH"
        ) from error
    return _buddy


@functools.cache
def build_id() -> str:
    """Return what identifies this build of the compiler: a hash of its code."""
    module = compiler()
    path = module.__file__
    assert path is not None
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


@functools.cache
def check_target(name: str) -> tuple[str, ...]:
    """Return what identifies a target; raise `OptionError` if its code cannot run here."""
    module = compiler()
    try:
        info = module.target_info(name)
    except RuntimeError as error:
        raise OptionError(f"option target: {error}") from None
    lacking = module.host_lacks(name)
    if lacking:
        raise OptionError(
            f"option target={name!r}: this machine cannot run its code, it lacks "
            f"{', '.join(lacking)}; torch.compile needs a target that runs here, such as 'native'"
        )
    return info.triple, info.cpu, info.features


@functools.cache
def process_gomp() -> str:
    """Return the file of the libgomp that this process, which is torch, has loaded, or "".

    Compiled graphs run on its threads. On a pool of their own they would wait for cores on which
    torch's idle threads spin (for 5 ms after each of torch's parallel operations), and the other
    way round.
    """
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return ""
    found = re.findall(r"/\S*/libgomp[^/\s]*\.so[^/\s]*$", maps, re.MULTILINE)
    # Other packages may have brought one too; torch's is in its folder or beside it.
    beside = str(Path(torch.__file__).parent)
    return next((path for path in found if path.startswith(beside)), found[0] if found else "")


def module_key(module: ImportedModule, options: Options) -> str:
    """Return the cache key of a module.

    The module goes in as text, which leaves its locations out: a source line that moved does not
    miss. Whether weights are packed is in the text, by their formats.
    """
    parts = [_FORMAT, build_id(), compiler().llvm_version, f"O{_OPT_LEVEL}", process_gomp()]
    return cache.make_key([*parts, *check_target(options.target), module.text()])


def signature(
    info: FunctionInfo, packings: Mapping[str, Mapping[str, Any]] = types.MappingProxyType({})
) -> list[tuple[list[int], list[int]] | None]:
    """Return the signature of an entry point as `_buddy.Callable` takes it.

    packings: how the arguments of these names lie in memory instead.
    """

    def static(dims: Any) -> list[int]:
        return [dim if isinstance(dim, int) else -1 for dim in dims]

    result: list[tuple[list[int], list[int]] | None] = []
    for arg in info.args:
        if arg.kind == "size":
            result.append(None)
        elif arg.name in packings:
            stored = list(packings[arg.name]["stored_shape"])
            strides = [math.prod(stored[i + 1 :]) for i in range(len(stored))]
            result.append((stored, strides))
        else:
            result.append((static(arg.shape), static(arg.strides)))
    return result


@dataclass(frozen=True)
class Library:
    """A loaded library.

    entry: the `_buddy.Callable` of the module's entry point.
    packings: the weights that it takes in panels, by argument name; see `buddy.panels`.
    """

    entry: Any
    packings: dict[str, dict[str, Any]]


def load(module: ImportedModule, options: Options) -> Library:
    """Return a module's library, from the cache or compiled."""
    key = module_key(module, options)
    symbol = module.entry.name
    if logs.graph.isEnabledFor(10):
        logs.graph.debug("%s (%s):\n%s", symbol, key[:16], module.text(locations=True))

    def build(output: Path) -> bytes:
        return json.dumps(_compile(module, key, options, output)).encode()

    with cache.library(key, build, rebuild=options.dump_dir is not None) as (path, notes):
        packings = json.loads(notes)
        entry = compiler().Callable(str(path), symbol, signature(module.entry, packings))
        return Library(entry, packings)


def _compile(
    module: ImportedModule, key: str, options: Options, output: Path
) -> dict[str, dict[str, Any]]:
    """Write the library; return the packings of weights."""
    reproducers = cache.directory() / "reproducers"
    reproducers.mkdir(parents=True, exist_ok=True)
    reproducer = reproducers / f"{key[:32]}.mlir"
    # Written first, so that it is there even if the compiler takes the process down.
    try:
        reproducer.write_text(module.text(locations=True))
    except OSError:
        reproducer.unlink(missing_ok=True)
        raise
    pipeline = f"target={options.target}"
    command = (
        f"buddy-opt --buddy-pipeline='{pipeline}' {reproducer} | "
        f"buddy-llc -O{_OPT_LEVEL} --shared -o /dev/null"
    )
    compiled = compiler().Module(module.bytecode)
    start = time.perf_counter()
    try:
        packings = _run_pipeline(compiled, pipeline, options, module.entry.name)
        lowered = time.perf_counter()
        compiled.compile(str(output), shared=True, opt_level=_OPT_LEVEL, gomp=process_gomp())
    except RuntimeError as error:
        for number in cache.FULL:
            if os.strerror(number) in str(error):
                reproducer.unlink(missing_ok=True)
                raise OSError(number, os.strerror(number), str(output)) from error
        raise CompileError(
            f"compiling {module.entry.name} failed: {error}\nto reproduce: {command}"
        ) from error
    reproducer.unlink()
    cache.counters.compiles += 1
    cache.counters.links += 1
    logs.codegen.debug(
        "%s: pipeline %.2f s, code and link %.2f s, %d bytes",
        module.entry.name,
        lowered - start,
        time.perf_counter() - lowered,
        output.stat().st_size,
    )
    return packings


def _run_pipeline(
    compiled: Any, pipeline: str, options: Options, name: str
) -> dict[str, dict[str, Any]]:
    if options.dump_dir is not None:
        folder = os.path.join(options.dump_dir, f"{next(_graph_numbers):03}-{name}")
        if re.search(r"\s", folder):
            raise OptionError(f"option dump_dir: a path without white space, not {folder!r}")
        pipeline += f" dump-phases-to={folder}"
    compiled.pipeline(f"{pipeline} stop-after=graph")
    if logs.schedule.isEnabledFor(10):
        for line in compiled.text().splitlines():
            if "#buddy.schedule" in line:
                logs.schedule.debug("%s", line.strip())
    packings: dict[str, dict[str, Any]] = compiled.packings()
    compiled.pipeline(f"{pipeline} start-from=kernel")
    return packings
