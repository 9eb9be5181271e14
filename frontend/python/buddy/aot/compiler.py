"""What bundles ask of the compiler module `_buddy`, with its errors as lines for the user."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from buddy.aot.errors import BundleError

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


def add_string(bytecode: bytes, name: str, value: str) -> bytes:
    """The module with a global constant `const char name[] = value` that its library exports."""
    from mlir import ir

    with ir.Context() as context, ir.Location.unknown():
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(bytecode)
        text = (
            f'llvm.mlir.global external constant @{name}("{value}\\00") {{addr_space = 0 : i32}}'
            f" : !llvm.array<{len(value) + 1} x i8>"
        )
        donor = ir.Module.parse(text)
        with ir.InsertionPoint(module.body):
            donor.body.operations[0].operation.clone()
        buffer = io.BytesIO()
        module.operation.write_bytecode(buffer)
    return buffer.getvalue()


def text_after(bytecode: bytes, target: Any, phase: str, dump_to: Path | None) -> str:
    """The module as MLIR text after a phase."""
    module = _run(bytecode, target, dump_to, f" stop-after={phase}")
    return str(module.text())


def compile_library(
    bytecode: bytes, target: Any, output: Path, *, opt_level: int, dump_phases_to: Path | None
) -> None:
    """Run the pipeline and write a shared library that looks for its runtime beside itself."""
    module = _run(bytecode, target, dump_phases_to)
    try:
        module.compile(str(output), shared=True, opt_level=opt_level, rpaths=["$ORIGIN"])
    except RuntimeError as error:
        raise BundleError(f"code generation failed: {_line(error)}") from error


def _run(bytecode: bytes, target: Any, dump_to: Path | None, more: str = "") -> Any:
    if dump_to is not None:
        if re.search(r"\s", str(dump_to)):
            raise BundleError(f"--dump-phases-to '{dump_to}': the path may not contain spaces")
        try:
            dump_to.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BundleError(f"--dump-phases-to {dump_to}: {error.strerror}") from None
        more += f" dump-phases-to={dump_to}"
    module = _module().Module(bytecode)
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
    return module


def _line(error: Exception) -> str:
    """What an error says, on one line."""
    return " | ".join(line.strip() for line in str(error).splitlines() if line.strip())


def copy_runtime(library: Path, target: Any) -> list[str]:
    """Put the OpenMP runtime that `library` names beside it; return the file names."""
    name = _RUNTIMES[target.openmp]
    if name.encode() not in library.read_bytes():  # no parallel region: nothing names it
        return []
    found = subprocess.run(
        [_clang(), f"--target={target.triple}", f"-print-file-name={name}"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    if not os.path.isabs(found):
        raise BundleError(f"{name} for {target.triple} is not installed; see docs/dependencies.md")
    shutil.copyfile(found, library.parent / name)
    return [name]


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
