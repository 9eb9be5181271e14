"""Code sizes out of a symbol table, beside what LLVM's tools read."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from buddy.bench.elf import code_size

LLVM_BIN = Path("/usr/lib/llvm-22/bin")
SOURCE = """
int small(int x) { return x + 1; }
static __attribute__((noinline, used)) int hidden(volatile int *x) {
  int sum = 0;
  for (int i = 0; i < 9; ++i) { sum += x[i] * i; x[i] = sum % 7; sum ^= x[sum & 3]; }
  return sum;
}
int not_code[4096] = {1};
"""


@pytest.fixture(scope="module", params=["x86-64", "rv64"])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("elf") / "lib.so"
    target = {"x86-64": "x86_64-linux-gnu", "rv64": "riscv64-linux-gnu"}[request.param]
    subprocess.run(
        [LLVM_BIN / "clang", f"--target={target}", "-O1", "-shared", "-fPIC", "-nostdlib",
         "-fuse-ld=lld", "-x", "c", "-", "-o", path],
        input=SOURCE, text=True, check=True,
    )  # fmt: skip
    return path


def test_local_functions_count_and_data_does_not(library: Path) -> None:
    size = code_size(library)
    listed = subprocess.run(
        [LLVM_BIN / "llvm-nm", "-S", library], capture_output=True, text=True, check=True
    ).stdout
    sizes = {line.split()[3]: int(line.split()[1], 16) for line in listed.splitlines()
             if len(line.split()) == 4 and line.split()[2] in "tT"}  # fmt: skip
    assert set(sizes) >= {"small", "hidden"}
    assert (size.largest_name, size.largest) == ("hidden", sizes["hidden"])
    assert sum(sizes.values()) <= size.total < 4096


def test_what_is_no_library_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"\x7fELF\x01\x01 and more")
    with pytest.raises(ValueError, match="no 64-bit little-endian ELF file"):
        code_size(path)
