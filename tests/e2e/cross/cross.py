"""Building for other architectures and running under an emulator.

Programs are built for an architecture's base, so that one of them can say that a CPU lacks what
the compiler's target needs.  What is needed: clang-22, lld-22, Debian's cross libraries, and
qemu-user (docs/dependencies.md).
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("BUDDY_BUILD_DIR", ROOT / "build"))
INTERFACES = ROOT / "frontend" / "interfaces"
LLVM_BIN = Path("/usr/lib/llvm-22/bin")
# Element types by MLIR's names. NumPy has no bf16: bits in integers, converted here.
NUMPY = {
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "bf16": np.uint16,
    "i32": np.int32,
}


@dataclass(frozen=True)
class Machine:
    """A target of the compiler, the base that programs are built for, and CPUs to run on."""

    target: str
    triple: str
    base: str
    debian: str  # the architecture's name in package names
    emulator: str
    cpus: tuple[str, ...]  # as the emulator names them
    disassembler: str = ""  # features

    def __str__(self) -> str:
        return self.target

    @property
    def sysroot(self) -> Path:
        return Path("/usr") / self.triple

    def missing_tools(self) -> list[str]:
        """What stands in the way of tests of this machine."""
        needed = {
            "clang++-22": shutil.which("clang++-22"),
            "ld.lld (lld-22)": (LLVM_BIN / "ld.lld").exists(),
            f"{self.emulator} (qemu-user)": shutil.which(self.emulator),
            f"libc6-dev-{self.debian}-cross": (self.sysroot / "include" / "stdio.h").exists(),
            f"libgomp1-{self.debian}-cross": (self.sysroot / "lib" / "libgomp.so.1").exists(),
            f"libstdc++-*-dev-{self.debian}-cross": any(self.sysroot.glob("include/c++/*")),
        }
        return [name for name, found in needed.items() if not found]

    def compile_program(
        self, sources: Sequence[Path], output: Path, *flags: str | Path, language: str = "c++17"
    ) -> Path:
        """Compile and link for the architecture's base."""
        command = [
            "clang++-22", f"--target={self.triple}", f"-march={self.base}", "-fuse-ld=lld", "-O1",
            f"-std={language}", "-Wall", "-Wextra", f"-I{INTERFACES}", *flags, *sources, "-o",
            output,
        ]  # fmt: skip
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return output

    def emulate(
        self, cpu: str, *command: str | Path, stdin: bytes = b"", trace: bool = False
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a program. With `trace` its system calls go to standard error."""
        return subprocess.run(
            [self.emulator, *(["-strace"] if trace else []), "-L", str(self.sysroot), "-cpu", cpu]
            + list(map(str, command)),
            input=stdin,
            capture_output=True,
            check=False,
            timeout=120,
        )

    def compile_library(self, source: str, folder: Path) -> Path:
        """A module's MLIR text to a shared library, by the tools."""
        (folder / "module.mlir").write_text(source)
        library = folder / "module.so"
        for command in (
            [BUILD / "bin" / "buddy-opt", folder / "module.mlir",
             f"--buddy-pipeline=target={self.target}", "-o", folder / "lowered.mlir"],
            [BUILD / "bin" / "buddy-llc", folder / "lowered.mlir", "--shared", "-o", library],
        ):  # fmt: skip
            done = subprocess.run(
                list(map(str, command)), capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr[-2000:]
        return library

    def disassembly(self, library: Path) -> str:
        command = [LLVM_BIN / "llvm-objdump", "-d", f"--mattr={self.disassembler}", library]
        return subprocess.run(command, text=True, capture_output=True, check=True).stdout

    def run_calls(self, program: Path, library: Path, cpu: str, calls: Sequence[Call]) -> None:
        """Make the calls in one emulated process; their results are in `calls` afterwards."""
        requests = b"".join(call.request() for call in calls)
        done = self.emulate(cpu, program, library, stdin=requests)
        assert done.returncode == 0, (done.returncode, done.stderr.decode()[-2000:])
        rest = memoryview(done.stdout)
        for call in calls:
            call.results.clear()
            rest = call.take(rest)
        assert not rest


RISCV = Machine(
    target="rv64gcv",
    triple="riscv64-linux-gnu",
    base="rv64gc",
    debian="riscv64",
    emulator="qemu-riscv64",
    cpus=tuple(f"rv64,v=true,vlen={vlen},vext_spec=v1.0" for vlen in (128, 256)),
    disassembler="+v,+d,+c,+a,+m",
)
ARM = Machine(
    target="neoverse-n1",
    triple="aarch64-linux-gnu",
    base="armv8-a",
    debian="arm64",
    emulator="qemu-aarch64",
    cpus=("neoverse-n1",),
    disassembler="+neon,+fullfp16,+dotprod",
)
MACHINES = (RISCV, ARM)
# CPUs that lack what the targets need.
LACKING = {RISCV: "rv64,v=false", ARM: "cortex-a57"}


def architecture(library: Path) -> str:
    """The instruction sets that a RISC-V library says it uses: rv64i2p1_m2p0_…_zvl128b1p0."""
    command = [LLVM_BIN / "llvm-readelf", "--arch-specific", library]
    text = subprocess.run(command, text=True, capture_output=True, check=True).stdout
    return next(line.split()[-1] for line in text.splitlines() if "rv64" in line)


@dataclass
class Call:
    """A call of an entry: its arguments are arrays and sizes; a result is written to an array."""

    entry: str
    arguments: list[np.ndarray | int]
    threads: int = 1
    code: int = -1
    message: str = ""
    results: list[np.ndarray] = field(default_factory=list)

    def request(self) -> bytes:
        name = self.entry.encode()
        parts = [_words(len(name)), name, _words(self.threads, len(self.arguments))]
        for argument in self.arguments:
            if isinstance(argument, int):
                parts.append(_words(0, argument))
                continue
            strides = (s // argument.itemsize for s in argument.strides)
            data = _storage(argument).tobytes()
            parts += [_words(1, argument.ndim, *argument.shape, *strides, len(data)), data]
        return b"".join(parts)

    def take(self, reply: memoryview) -> memoryview:
        """Read this call's part of the replies; return the rest."""
        self.code, length = struct.unpack("<2q", reply[:16])
        self.message, reply = bytes(reply[16 : 16 + length]).decode(), reply[16 + length :]
        for argument in self.arguments:
            if isinstance(argument, np.ndarray):
                size = _storage(argument).nbytes
                flat = np.frombuffer(reply[:size], argument.dtype)
                self.results.append(
                    np.lib.stride_tricks.as_strided(flat, argument.shape, argument.strides)
                )
                reply = reply[size:]
        return reply


def bf16(array: np.ndarray) -> np.ndarray:
    """float32 to bits of bfloat16, rounded to nearest even; no NaN, no overflow."""
    bits = np.ascontiguousarray(array).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def wide(array: np.ndarray) -> np.ndarray:
    """Any element type to float64, exactly."""
    if array.dtype == np.uint16:
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float64)


def _words(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}q", *values)


def _storage(array: np.ndarray) -> np.ndarray:
    """The elements from the first to the last in memory, gaps between rows included."""
    if array.size == 0:
        return np.empty(0, array.dtype)
    last = sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True))
    count = last // array.itemsize + 1
    return np.lib.stride_tricks.as_strided(array, (count,), (array.itemsize,))
