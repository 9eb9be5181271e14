"""Cpu.h tells what this CPU has: /proc/cpuinfo is the witness."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from buddy.aot.cpu_features import required_features
from buddy.aot.errors import BundleError

INTERFACES = Path(__file__).resolve().parents[3] / "frontend" / "interfaces"
# LLVM's name: the kernel's.
NAMES = {
    "sse3": "pni", "ssse3": "ssse3", "sse4.1": "sse4_1", "sse4.2": "sse4_2", "popcnt": "popcnt",
    "avx": "avx", "avx2": "avx2", "fma": "fma", "f16c": "f16c", "bmi": "bmi1", "bmi2": "bmi2",
    "lzcnt": "abm", "movbe": "movbe", "avx512f": "avx512f", "avx512bw": "avx512bw",
    "avx512dq": "avx512dq", "avx512vl": "avx512vl", "avx512cd": "avx512cd",
    "avx512vnni": "avx512_vnni", "avx512bf16": "avx512_bf16", "avx512fp16": "avx512_fp16",
    "avx512vbmi": "avx512vbmi", "avx512vbmi2": "avx512_vbmi2", "avx512ifma": "avx512ifma",
    "avx512bitalg": "avx512_bitalg", "avx512vpopcntdq": "avx512_vpopcntdq", "gfni": "gfni",
    "vaes": "vaes", "vpclmulqdq": "vpclmulqdq", "sha": "sha_ni", "avxvnni": "avx_vnni",
    "amx-tile": "amx_tile", "amx-bf16": "amx_bf16", "amx-int8": "amx_int8", "sse4a": "sse4a",
    "xop": "xop", "fma4": "fma4", "tbm": "tbm", "prfchw": "3dnowprefetch", "adx": "adx",
    "sahf": "lahf_lm", "cx16": "cx16", "aes": "aes", "pclmul": "pclmulqdq",
}  # fmt: skip
PROGRAM = """
#include "buddy/Cpu.h"
#include <cstdio>
int main(int argc, char **argv) {
  std::vector<std::string> names(argv + 1, argv + argc);
  for (const std::string &name : buddy::missingCpuFeatures(names))
    std::printf("%s\\n", name.c_str());
  try {
    buddy::requireCpuFeatures("bundle", names);
  } catch (const buddy::Error &error) {
    std::fprintf(stderr, "%s\\n", error.what());
    return 1;
  }
}
"""

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the table is of x86")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cpu")
    (folder / "cpu.cpp").write_text(PROGRAM)
    compiler = shutil.which("clang++-22") or shutil.which("g++") or "c++"
    subprocess.run(
        [compiler, "-std=c++17", f"-I{INTERFACES}", str(folder / "cpu.cpp"), "-o", folder / "cpu"],
        check=True,
    )
    return folder / "cpu"


def test_missing_features_are_those_that_the_kernel_does_not_list(program: Path) -> None:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    flags = set(next(line for line in lines if line.startswith("flags")).split(":")[1].split())
    expected = {name for name, flag in NAMES.items() if flag not in flags}
    done = subprocess.run([program, *NAMES], capture_output=True, text=True, check=False)
    assert set(done.stdout.split()) == expected
    # No CPU has both AMD's XOP and Intel's AMX.
    assert done.returncode == 1
    assert done.stderr.startswith("bundle: built for a CPU with ")
    assert done.stderr.count("\n") == 1


def test_a_tuning_hint_is_not_a_missing_feature(program: Path) -> None:
    done = subprocess.run([program, "prefer-256-bit", "sse2"], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_required_features_of_targets() -> None:
    native = SimpleNamespace(name="native", cpu="x", features="+avx2,-sse4a,+fma")
    assert required_features(native) == ["avx2", "fma"]
    level = SimpleNamespace(name="x86-64-v4", cpu="x86-64-v4", features="-prefer-256-bit")
    assert {"avx512vl", "fma", "sse4.2"} <= set(required_features(level))
    riscv = SimpleNamespace(name="rv64gcv", cpu="generic-rv64", features="+m,+v")
    assert required_features(riscv) == ["m", "v"]
    with pytest.raises(BundleError, match="unknown"):
        required_features(SimpleNamespace(name="new", cpu="future", features=""))
