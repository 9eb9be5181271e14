"""`buddy run`: replaces this process by the native program of a bundle.

The program is examples/llama, linked to the bundle's library; the first run compiles it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from buddy.aot import manifest
from buddy.aot.errors import BundleError

_EXAMPLE = Path(__file__).resolve().parents[4] / "examples" / "llama"
PROGRAM = "llama"


def run(bundle: Path, arguments: list[str]) -> None:
    """Execute the program with `arguments`; does not return."""
    record = manifest.read(bundle)
    if record["architecture"] != "llama":
        raise BundleError(
            f"{bundle}: a bundle of {record['architecture']} has no program to run; "
            f"link {record['library']} to your own with {record['header']}"
        )
    program = bundle / PROGRAM
    if not program.exists():
        print("  compile the program ...", end="", file=sys.stderr, flush=True)
        compile_program(bundle)
        print(" done", file=sys.stderr)
    os.execv(program, [str(program), "-m", str(bundle), *arguments])


def compile_program(bundle: Path) -> None:
    """Compile examples/llama against the bundle, as `bundle`/llama."""
    if not _EXAMPLE.is_dir():
        raise BundleError(
            f"{_EXAMPLE}: the program's source is not there; install buddy from its source tree "
            "(pip install -e)"
        )
    build = bundle / ".program"
    commands = [
        ["cmake", "-S", str(_EXAMPLE), "-B", str(build), "-DCMAKE_BUILD_TYPE=Release",
         "-DCMAKE_CXX_COMPILER=clang++-22", f"-DBUDDY_BUNDLE={bundle.resolve()}"],
        ["cmake", "--build", str(build), "-j", str(os.cpu_count() or 1)],
    ]  # fmt: skip
    for command in commands:
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise BundleError(f"{command[0]}: {error.strerror}; run `make setup`") from None
        if done.returncode:
            lines = (done.stderr or done.stdout).strip().splitlines() or ["no output"]
            raise BundleError(f"compiling {_EXAMPLE.name} failed: {lines[-1]} (see {build})")
    (build / PROGRAM).rename(bundle / PROGRAM)
