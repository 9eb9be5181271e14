"""`buddy run`: replaces this process by the native program of a bundle.

The program is examples/llama, linked to the bundle's library; the first run compiles it.
"""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

from buddy.aot import manifest
from buddy.aot.errors import BundleError

_TREE = Path(__file__).resolve().parents[4]
_EXAMPLE = _TREE / "examples" / "llama"
PROGRAM = "llama"
# e_machine of the ELF specification by the name the kernel gives.
_ELF_MACHINES = {"x86_64": 62, "aarch64": 183, "riscv64": 243}


def run(bundle: Path, arguments: list[str]) -> None:
    """Execute the program with `arguments`; does not return."""
    record = manifest.read(bundle)
    if record["architecture"] != "llama":
        raise BundleError(
            f"{bundle}: a bundle of {record['architecture']} has no program to run; "
            f"link {record['library']} to your own with {record['header']}"
        )
    check_library(bundle, record)
    program = bundle / PROGRAM
    if not program.exists():
        compile_program(bundle)
    try:
        os.execv(program, [str(program), "-m", str(bundle), *arguments])
    except OSError as error:
        raise BundleError(
            f"{program}: {error.strerror}; remove it, and the next run compiles it again"
        ) from None


def check_library(bundle: Path, record: dict[str, Any]) -> None:
    """Refuse a bundle whose files are missing, cut short or for another machine."""
    for name in (record["library"], record["header"], record["weights"]["file"]):
        if not (bundle / name).is_file():
            raise BundleError(
                f"{bundle / name}: missing; build the bundle again with `buddy build`"
            )
    library = bundle / record["library"]
    with open(library, "rb") as file:
        head = file.read(64)
    # The ELF header: class and byte order, machine, and where the section table lies, at the end.
    if len(head) < 64 or head[:6] != b"\x7fELF\x02\x01":
        raise BundleError(f"{library}: no 64-bit ELF library; build the bundle again")
    (machine,) = struct.unpack_from("<H", head, 18)
    (sections,) = struct.unpack_from("<Q", head, 40)
    entry_size, count = struct.unpack_from("<HH", head, 58)
    if library.stat().st_size < sections + entry_size * count:
        raise BundleError(f"{library}: cut short; build the bundle again with `buddy build`")
    here = platform.machine()
    if machine != _ELF_MACHINES.get(here, machine):
        raise BundleError(
            f"{bundle}: built for {record['target']['triple']}, this machine is {here}; build it "
            "for this one, or link its library to a program of your own there"
        )


def compile_program(bundle: Path) -> None:
    """Compile examples/llama against the bundle, as `bundle`/llama."""
    # The path becomes a CMake list and part of a build rule.
    if any(c in str(bundle.resolve()) for c in '";\\$'):
        raise BundleError(
            f"{bundle}: the path may not contain quotes, semicolons, backslashes or dollar signs "
            "where the program is compiled; rename it"
        )
    if not _EXAMPLE.is_dir():
        raise BundleError(
            f"{_EXAMPLE}: the program's source is not there; install buddy from its source tree "
            "(pip install -e)"
        )
    print("  compile the program ...", file=sys.stderr, flush=True)
    # One place for all bundles, so that the containers are compiled once.
    build = _TREE / "build" / "bundle-program"
    aside = bundle / f".{PROGRAM}.{os.getpid()}"
    try:
        build.mkdir(parents=True, exist_ok=True)
        with open(build / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            _command(
                "cmake", "-S", str(_EXAMPLE), "-B", str(build), "-G", "Ninja",
                "-DCMAKE_BUILD_TYPE=Release",
                "-DCMAKE_C_COMPILER=clang-22", "-DCMAKE_CXX_COMPILER=clang++-22",
                f"-DBUDDY_BUNDLE={bundle.resolve()}", "-DBUDDY_PROGRAM_IN_BUNDLE=ON",
            )  # fmt: skip
            _command("ninja", "-C", str(build), PROGRAM)
            shutil.copy2(build / PROGRAM, aside)
        aside.rename(bundle / PROGRAM)
    except OSError as error:
        raise BundleError(f"{error.filename}: {error.strerror}") from None
    finally:
        aside.unlink(missing_ok=True)


def _command(*command: str) -> None:
    """Run a command; if it fails, say so with the line that tells most."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise BundleError(f"{command[0]} is not installed; run `make setup`") from None
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        told = next(
            (line for line in lines if "error" in line.lower()), (lines or ["no output"])[-1]
        )
        raise BundleError(f"{command[0]} failed for the bundle's program: {told.strip()}")
