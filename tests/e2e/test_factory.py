"""Any nn.Module: `package.module:factory` to a bundle that computes what eager computes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from buddy.aot.errors import BundleError
from buddy.aot.library import BundleLibrary
from bundles import ROOT, buddy

SOURCE = """
import torch
from torch import nn
from torch.export import Dim

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(12, 20)
        self.second = nn.Linear(20, 3)
        self.register_buffer("calls", torch.full((1,), 5.0))

    def forward(self, x):
        self.calls.add_(1)
        return self.second(torch.relu(self.first(x))).softmax(-1)

def net():
    return Net(), (torch.randn(5, 12),), {"x": {0: Dim("rows")}}

class Solver(nn.Module):
    def forward(self, a, b):
        return torch.linalg.solve(a, b).contiguous() + torch.view_as_real(torch.fft.rfft(b)).sum(-1)

def solver():
    return Solver(), (torch.eye(3), torch.ones(3, 2))

class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.gru = nn.GRU(6, 20, bidirectional=True)
        self.lstm = nn.LSTM(40, 9)

    def forward(self, x):
        return self.lstm(self.gru(x)[0])[0]

def recurrent():
    return Recurrent(), (torch.randn(5, 2, 6),), {"x": {0: Dim("time")}}

def unsupported():
    class Bad(nn.Module):
        def forward(self, x):
            return torch.poisson(x)
    return Bad(), (torch.randn(4, 4),)
"""

MAIN = """
#include "model.h"
#include <cstdio>
int main(int, char **argv) {
  auto model = buddy::model::Model::load(argv[1]);
  auto context = model.context(1);
  auto state = model.state();
  buddy::MemRef<float, 2> x({2, 12}, 1.0f);
  buddy::MemRef<float, 2> y({2, 3});
  for (int i = 0; i < 3; ++i)
    model.forward(context, x, state, y);
  for (float value : y)
    std::printf("%.6f ", value);
  std::printf("%g\\n", state.calls(0));
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("factory")
    (folder / "user_net.py").write_text(SOURCE)
    return folder


@pytest.fixture(scope="module")
def bundle(folder: Path) -> Path:
    done = buddy("build", "user_net:net", "-o", "bundle", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "bundle"


@pytest.fixture
def net(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(folder))
    import user_net

    return user_net.Net()


def test_every_row_count_gives_eagers_result(bundle: Path, net: Any) -> None:
    library = BundleLibrary(bundle, 1)
    kinds = [argument["kind"] for argument in library.manifest["entries"][0]["arguments"]]
    assert sorted(kinds) == ["input", "output", "state", *["weight"] * 4]
    for rows in (1, 2, 5, 33):
        x = torch.randn(rows, 12)
        given = {"input": x, "state": torch.full((1,), 5.0), "output": torch.empty(rows, 3)}
        library.call([given[kind] for kind in kinds if kind != "weight"])
        torch.testing.assert_close(given["output"], net(x))
        assert given["state"].item() == 6


def test_wrong_values_are_one_line(bundle: Path) -> None:
    library = BundleLibrary(bundle, 1)
    kinds = [a["kind"] for a in library.manifest["entries"][0]["arguments"]]
    right = {"input": torch.randn(2, 12), "state": torch.zeros(1), "output": torch.empty(2, 3)}
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"input": torch.randn(2, 12).double()}, "torch.float32 is needed, not torch.float64"),
        ({"input": torch.ones(2, 12, dtype=torch.int32)}, "not torch.int32"),
        ({"input": None}, "a tensor is needed, not a NoneType"),
        ({"output": 5}, "a tensor is needed, not a int"),
        ({"input": torch.randn(2, 13)}, "12"),
        ({"input": torch.randn(12)}, ""),
        ({"output": torch.empty(3, 2)}, ""),
    ]
    for change, message in wrong:
        values = [{**right, **change}[kind] for kind in kinds if kind != "weight"]
        with pytest.raises(BundleError, match=message) as caught:
            library.call(values)
        assert "\n" not in str(caught.value)
    good = [right[kind] for kind in kinds if kind != "weight"]
    for values in (good[:-1], [*good, good[0]]):
        with pytest.raises(BundleError, match=f"{len(values)} values for 3 arguments"):
            library.call(values)
    library.call(good)


def test_a_cplusplus_program_calls_it_by_its_header(bundle: Path, net: Any) -> None:
    (bundle.parent / "main.cpp").write_text(MAIN)
    interfaces = ROOT / "frontend" / "interfaces"
    compiler = shutil.which("clang++-22") or "c++"
    command = [
        compiler, "-std=c++17", "main.cpp", interfaces / "lib/Weights.cpp",
        interfaces / "lib/MappedFile.cpp", f"-I{interfaces}", f"-I{bundle}",
        bundle / "libmodel.so", f"-Wl,-rpath,{bundle}", "-o", "main",
    ]  # fmt: skip
    subprocess.run(command, cwd=bundle.parent, check=True)
    done = subprocess.run(
        ["./main", "bundle"], cwd=bundle.parent, capture_output=True, text=True, check=True
    )
    *values, calls = map(float, done.stdout.split())
    with torch.no_grad():
        expected = net(torch.ones(2, 12)).flatten()
    torch.testing.assert_close(torch.tensor(values), expected, atol=1e-5, rtol=1e-5)
    assert calls == 8


def test_what_calls_the_library_of_linear_algebra_carries_it(folder: Path) -> None:
    done = buddy("build", "user_net:solver", "-o", "solver", cwd=folder)
    assert done.returncode == 0, done.stderr
    bundle = folder / "solver"
    # With its licence, and without the library that it does not call.
    assert "Intel" in (bundle / "libbuddy_linalg.LICENSE.txt").read_text()
    assert not (bundle / "libbuddy_math.so").exists()
    # No other library than Buddy's own and the C library's.
    needed = subprocess.run(
        ["readelf", "-d", bundle / "libbuddy_linalg.so"], capture_output=True, text=True, check=True
    ).stdout
    names = {line.split("[")[1].rstrip("]") for line in needed.splitlines() if "(NEEDED)" in line}
    assert names <= {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}
    library = BundleLibrary(bundle, 1)
    a, b = torch.randn(3, 3) + 3 * torch.eye(3), torch.randn(3, 2)
    result = torch.empty(3, 2)
    library.call([a, b, result])
    spectrum = torch.view_as_real(torch.fft.rfft(b)).sum(-1)
    torch.testing.assert_close(result, torch.linalg.solve(a, b) + spectrum)
    with pytest.raises(BundleError, match="singular"):
        library.call([torch.zeros(3, 3), b, result])


def test_recurrent_layers_take_every_length(folder: Path, net: Any) -> None:
    done = buddy("build", "user_net:recurrent", "-o", "recurrent", cwd=folder)
    assert done.returncode == 0, done.stderr
    library = BundleLibrary(folder / "recurrent", 2)
    import user_net

    model = user_net.Recurrent().eval()
    for time in (1, 5, 70):
        x, result = torch.randn(time, 2, 6), torch.empty(time, 2, 9)
        library.call([x, result])
        torch.testing.assert_close(result, model(x))


def test_the_library_of_mathematics_is_for_this_machine_only(folder: Path) -> None:
    done = buddy("build", "user_net:solver", "-o", "other", "--target", "rv64gcv", cwd=folder)
    assert done.returncode == 1
    assert "the run-time library, which is built for x86_64 and not for riscv64" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_op_that_cannot_be_compiled_is_named_and_nothing_is_written(folder: Path) -> None:
    done = buddy("build", "user_net:unsupported", "-o", "bad", cwd=folder)
    assert done.returncode == 1
    line = done.stderr.splitlines()[-1]
    assert "poisson" in line
    assert "user_net.py" in line
    assert not list(folder.glob("*bad*"))


def test_a_disk_that_is_full(folder: Path) -> None:
    """/dev/full cannot hold a directory; a file-size limit plays the part."""
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000));"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "from buddy.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "build", "user_net:net", "-o", "full"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.returncode == 1, done.stderr
    assert "File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert not [path for path in folder.iterdir() if "full" in path.name]
