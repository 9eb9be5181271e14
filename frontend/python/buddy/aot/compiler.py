"""What bundles ask of the compiler module `_buddy`, with its errors as lines for the user."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from buddy.aot.errors import BundleError
from buddy.aot.remarks import Remark, parse

# The OpenMP runtime that each kind of target links against (_buddy.TargetInfo.openmp).
_RUNTIMES = {"omp": "libomp.so.5", "gomp": "libgomp.so.1"}


def _module() -> Any:
    try:
        import _buddy
    except ImportError as error:
        raise BundleError(f"the compiler is not built ({error}); run `make setup`") from None
    return _buddy


def llvm_version() -> str:
    """The version of LLVM that compiles."""
    return str(_module().llvm_version)


def target_info(name: str) -> Any:
    """The `_buddy.TargetInfo` of a target's name."""
    if not name:
        raise BundleError("--target is empty; leave it out for this machine")
    try:
        return _module().target_info(name)
    except RuntimeError as error:
        raise BundleError(f"--target {name}: {error}") from None


def text_after(
    bytecode: bytes, target: Any, phase: str, dump_to: Path | None, activations: str = "int8"
) -> str:
    """The module as MLIR text after a phase."""
    module = _module().Module(bytecode)
    _run_phases(module, target, dump_to, f" stop-after={phase} activations={activations}")
    return str(module.text())


def remarks_of(
    bytecode: bytes, target: Any, dump_to: Path | None, activations: str
) -> list[Remark]:
    """What the passes of all phases tell of the module."""
    module = _module().Module(bytecode, remarks=True)
    _run_phases(module, target, dump_to, f" activations={activations}")
    return parse(module.remarks())


class Compilation:
    """A module on its way to a library: what it wants of the weights file is known half-way.

    After `__init__` the module has been through the graph phase, and `packings` tells which weights
    are to be stored how.  `finish` is given where they lie.  activations: "int8" or "f32", what
    rows become where they meet quantised weights.
    """

    def __init__(
        self, bytecode: bytes, target: Any, dump_phases_to: Path | None, activations: str
    ) -> None:
        self._target, self._dump_to = target, dump_phases_to
        self._module = _module().Module(bytecode)
        more = f" stop-after=graph activations={activations}"
        _run_phases(self._module, target, dump_phases_to, more)
        self.packings: dict[str, dict[str, Any]] = self._module.packings()

    def finish(
        self, output: Path, *, offsets: dict[str, int], build_id: str, opt_level: int
    ) -> None:
        """Run the other phases and write a shared library that looks for its runtime beside itself.

        offsets: bytes in the data section of the weights file, by name.
        """
        self._module.set_weight_offsets(offsets)
        self._module.set_build_id(build_id)
        _run_phases(self._module, self._target, self._dump_to, " start-from=kernel")
        try:
            self._module.compile(str(output), shared=True, opt_level=opt_level, rpaths=["$ORIGIN"])
        except RuntimeError as error:
            raise BundleError(f"code generation failed: {_line(error)}") from error


def _run_phases(module: Any, target: Any, dump_to: Path | None, more: str) -> None:
    if dump_to is not None:
        if re.search(r"\s", str(dump_to)):
            raise BundleError(f"--dump-phases-to '{dump_to}': the path may not contain spaces")
        try:
            dump_to.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BundleError(f"--dump-phases-to {dump_to}: {error.strerror}") from None
        more += f" dump-phases-to={dump_to}"
    handle, name = tempfile.mkstemp(prefix="buddy-reproducer-", suffix=".mlir")
    os.close(handle)
    reproducer = Path(name)
    try:
        module.pipeline(f"target={target.name}{more}", name)
    except RuntimeError as error:
        replay = ""
        if reproducer.stat().st_size:
            replay = f"; replay it with: buddy-opt --run-reproducer {reproducer}"
        else:
            reproducer.unlink()
        raise BundleError(f"the compiler failed: {_line(error)}{replay}") from error
    reproducer.unlink()


def _line(error: Exception) -> str:
    """What an error says, on one line."""
    return " | ".join(line.strip() for line in str(error).splitlines() if line.strip())


def copy_runtime(library: Path, target: Any) -> list[str]:
    """Put the run-time libraries that `library` names beside it; return the file names.

    The licence of one that has others' code in it comes along.
    """
    content = library.read_bytes()
    copied = []
    for math in map(Path, _module().math_libraries):
        if math.name.encode() not in content:
            continue
        for file in (math, math.with_suffix(".LICENSE.txt")):
            if file.exists():
                shutil.copyfile(file, library.parent / file.name)
                copied.append(file.name)
    name = _RUNTIMES[target.openmp]
    if name.encode() not in content:  # no parallel region: nothing names it
        return copied
    found = subprocess.run(
        [_clang(), f"--target={target.triple}", f"-print-file-name={name}"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    if not os.path.isabs(found):
        raise BundleError(f"{name} for {target.triple} is not installed; see docs/dependencies.md")
    shutil.copyfile(found, library.parent / name)
    return [*copied, name]


def _clang() -> str:
    for name in ("clang-22", "/usr/lib/llvm-22/bin/clang", "clang"):
        path = shutil.which(name)
        if path:
            return path
    raise BundleError("clang-22 is not installed; run `make setup`")


def write_text(path: Path, text: str) -> None:
    """Write a file aside and rename it; what is no plain file (/dev/stdout) is written to as it is.

    To rename over a device would replace it.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if path.exists() and not path.is_file():
            path.write_text(text)
            return
        aside.write_text(text)
        aside.rename(path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise BundleError(f"{path}: {error.strerror}") from None
