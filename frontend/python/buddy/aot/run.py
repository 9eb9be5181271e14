"""`buddy run`: replaces this process by the native program of a bundle.

The program is examples/llama, linked to the bundle's library; the first run compiles it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

from buddy.aot import manifest
from buddy.aot.errors import BundleError

_TREE = Path(__file__).resolve().parents[4]
_EXAMPLE = _TREE / "examples" / "llama"
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
        print("  compile the program ...", file=sys.stderr, flush=True)
        compile_program(bundle)
    try:
        os.execv(program, [str(program), "-m", str(bundle), *arguments])
    except OSError as error:
        raise BundleError(
            f"{program}: {error.strerror}; remove it, and the next run compiles it again"
        ) from None


def compile_program(bundle: Path) -> None:
    """Compile examples/llama against the bundle, as `bundle`/llama."""
    if not _EXAMPLE.is_dir():
        raise BundleError(
            f"{_EXAMPLE}: the program's source is not there; install buddy from its source tree "
            "(pip install -e)"
        )
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
                f"-DBUDDY_BUNDLE={bundle.resolve()}",
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
