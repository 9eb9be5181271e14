"""What a compiled library may take from others."""

from __future__ import annotations

import subprocess
from pathlib import Path

LLVM_BIN = Path("/usr/lib/llvm-22/bin")

C_LIBRARY = {"malloc", "free", "memcpy", "memmove", "memset"}
# The angles of rotary positions are large: libm reduces their range.
MATH_LIBRARY = {"sinf", "cosf"}
LIBGOMP = {
    *(f"GOMP_{name}" for name in (
        "parallel", "barrier", "critical_start", "critical_end", "single_start")),
    "omp_get_thread_num", "omp_get_num_threads",
    "abort", "__tls_get_addr",  # of the layer over libgomp
}  # fmt: skip


def undefined(library: Path) -> set[str]:
    """The names, without versions, that a library takes from others."""
    command = [LLVM_BIN / "llvm-nm", "-D", "-j", "--undefined-only", library]
    text = subprocess.run(command, text=True, capture_output=True, check=True).stdout
    return {line.split("@")[0] for line in text.split()}


def unexpected(library: Path, openmp: str) -> set[str]:
    """Those that it should not; `openmp` is the target's runtime, "omp" or "gomp"."""
    rest = undefined(library) - C_LIBRARY - MATH_LIBRARY
    if openmp == "gomp":
        return rest - LIBGOMP
    known = {"kmp_set_blocktime", "omp_get_thread_num", "omp_get_num_threads"}
    return {name for name in rest - known if not name.startswith("__kmpc_")}
