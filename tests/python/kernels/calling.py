"""Compiling a module with the tools and calling its entries with NumPy arrays."""

from __future__ import annotations

import ctypes
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

BUILD = Path(os.environ.get("BUDDY_BUILD_DIR", Path(__file__).resolve().parents[3] / "build"))
LLVM = Path("/usr/lib/llvm-22")

needs_tools = pytest.mark.skipif(
    not all((BUILD / "bin" / tool).exists() for tool in ("buddy-opt", "buddy-llc")),
    reason="buddy-opt and buddy-llc are not built",
)


class Context(ctypes.Structure):
    """buddy_ctx of frontend/interfaces/buddy/Context.h."""

    _fields_ = [
        ("abi", ctypes.c_uint32),
        ("num_threads", ctypes.c_int32),
        ("block_time_ms", ctypes.c_int32),
        ("error", ctypes.c_int32),
        ("workspace", ctypes.c_void_p),
        ("workspace_size", ctypes.c_int64),
        ("weights", ctypes.c_void_p),
        ("weights_size", ctypes.c_int64),
        ("alloc", ctypes.c_void_p),
        ("alloc_data", ctypes.c_void_p),
        ("rng_seed", ctypes.c_uint64),
        ("rng_offset", ctypes.c_uint64),
        ("message", ctypes.c_char * 432),
    ]

    def __init__(self, threads: int = 2) -> None:
        super().__init__(abi=1, num_threads=threads, block_time_ms=0)
        assert ctypes.sizeof(self) == 512

    def reserve(self, size: int) -> None:
        self.memory = np.empty(size + 64, np.uint8)
        # What the compiler takes for granted about it would show.
        self.memory.fill(0xFF)
        self.workspace = -(-self.memory.ctypes.data // 64) * 64
        self.workspace_size = size


def descriptor(array: np.ndarray | None) -> ctypes.Array | None:
    """The strided memref of an array; it lives as long as its result."""
    if array is None:
        return None
    fields = [array.ctypes.data, array.ctypes.data, 0, *array.shape]
    fields += [stride // array.itemsize for stride in array.strides]
    return (ctypes.c_int64 * len(fields))(*fields)


class Library:
    """Entries of a library, called with arrays, descriptors and integers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.library = ctypes.CDLL(str(path))

    def _call(self, symbol: str, restype: type, context: Context | None, arguments: tuple) -> int:
        passed = []
        for argument in arguments:
            if isinstance(argument, np.ndarray):
                argument = descriptor(argument)
            passed.append(ctypes.c_int64(argument) if isinstance(argument, int) else argument)
        function = getattr(self.library, symbol)
        function.restype = restype
        return function(ctypes.byref(context) if context else None, *passed)

    def workspace_size(self, name: str, context: Context | None, *arguments) -> int:
        return self._call(f"{name}_workspace_size", ctypes.c_int64, context, arguments)

    def raw(self, name: str, context: Context | None, *arguments) -> int:
        return self._call(name, ctypes.c_int32, context, arguments)

    def run(self, name: str, context: Context, *arguments) -> int:
        """Call with a workspace of the size asked for."""
        size = self.workspace_size(name, context, *arguments)
        assert size >= 0, context.message
        context.reserve(size)
        return self.raw(name, context, *arguments)


def compile_module(
    source: str, folder: Path, optimize: int = 3, options: str = "", target: str = "native"
) -> Path:
    """Run the whole pipeline; return the library's path."""
    lowered, output = folder / "module.mlir", folder / "module.so"
    pipeline = f"--buddy-pipeline=target={target} {options}"
    opt = [BUILD / "bin" / "buddy-opt", pipeline, "-", "-o", lowered]
    subprocess.run(opt, input=source, text=True, check=True)
    llc = [BUILD / "bin" / "buddy-llc", lowered, "--shared", f"--rpath={LLVM / 'lib'}"]
    subprocess.run([*llc, f"-O{optimize}", "-o", output], check=True)
    return output
