"""By name, across processes, with the options: what users of the back end meet around a call."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch
from backend_testing import PACKAGE_ROOT, strict
from buddy.backend import CompileError, counters, library
from torch import nn
from torch._dynamo.exc import BackendCompilerFailed

_buddy = pytest.importorskip("_buddy")

SCRIPT = """
    import torch
    from torch import nn

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    compiled = torch.compile(model, backend=BACKEND, fullgraph=True)
    x = torch.randn(3, 8)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))
    from buddy.backend import counters
    print(counters.hits, counters.misses, counters.compiles, counters.links)
"""


def run(script: str, cache: Path, **environment: str) -> str:
    path = os.pathsep.join([str(PACKAGE_ROOT), str(Path(_buddy.__file__).parent)])
    more = environment.pop("PYTHONPATH", os.environ.get("PYTHONPATH"))
    path = os.pathsep.join(filter(None, [path, more]))
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={**os.environ, "PYTHONPATH": path, "BUDDY_CACHE_DIR": str(cache), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout + result.stderr


BY_FUNCTION = "from buddy.backend import buddy_backend as BACKEND\n" + textwrap.dedent(SCRIPT)


def test_second_process_compiles_nothing(tmp_path: Path) -> None:
    assert run(BY_FUNCTION, tmp_path).split()[-4:] == ["0", "1", "1", "1"]
    # Other line numbers, and so other locations in the module: the key is the same.
    assert run("\n\n# moved\n" + BY_FUNCTION, tmp_path).split()[-4:] == ["1", "0", "0", "0"]


def test_torn_library_is_compiled_again(tmp_path: Path) -> None:
    run(BY_FUNCTION, tmp_path)
    (entry,) = tmp_path.glob("*.so")
    entry.write_bytes(entry.read_bytes()[:5000])
    assert run(BY_FUNCTION, tmp_path).split()[-4:] == ["0", "1", "1", "1"]
    assert run(BY_FUNCTION, tmp_path).split()[-4:] == ["1", "0", "0", "0"]


def test_found_by_name_without_an_import(tmp_path: Path) -> None:
    # As pip would record it, so that the test also holds in a tree that is not installed.
    project = tomllib.loads((PACKAGE_ROOT.parents[1] / "pyproject.toml").read_text())["project"]
    info = tmp_path / "site" / "buddy-0.0.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: buddy\nVersion: 0.0.0\n")
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    script = textwrap.dedent(SCRIPT).replace("BACKEND", "'buddy'")
    output = run(script, tmp_path / "cache", PYTHONPATH=str(tmp_path / "site"))
    assert output.split()[-4:] == ["0", "1", "1", "1"]


def test_logs_are_switched_by_the_environment(tmp_path: Path) -> None:
    output = run(BY_FUNCTION, tmp_path, BUDDY_LOGS="graph,schedule,codegen")
    assert "func.func @forward" in output and "[buddy.graph]" in output
    assert "[buddy.schedule]" in output and "#buddy.schedule" in output
    assert "cache miss" in output and "pipeline" in output
    output = run(BY_FUNCTION, tmp_path, BUDDY_LOGS="codegen")
    assert "cache hit" in output and "func.func" not in output


def fn(x: torch.Tensor) -> torch.Tensor:
    return (x @ x).relu()


@pytest.mark.parametrize("threads", [1, 2])
def test_threads(threads: int) -> None:
    x = torch.randn(200, 200)
    torch.testing.assert_close(strict(fn, threads=threads)(x), fn(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dialect", ["linalg", "tosa"])
def test_primary_dialect(dialect: str) -> None:
    x = torch.randn(20, 20)
    torch.testing.assert_close(strict(fn, primary_dialect=dialect)(x), fn(x))


def test_dump_dir_has_each_phase_of_each_graph(tmp_path: Path) -> None:
    for _ in range(2):  # cached the second time
        torch._dynamo.reset()
        strict(fn, dump_dir=tmp_path)(torch.randn(4, 4))
    folders = sorted(tmp_path.iterdir())
    assert len(folders) == 2
    for folder in folders:
        names = [file.name for file in sorted(folder.iterdir())]
        assert names == ["0-import.mlir", "1-graph.mlir", "2-kernel.mlir", "3-llvm.mlir"]
    assert "linalg." in (folders[0] / "0-import.mlir").read_text()
    assert "llvm.func" in (folders[0] / "3-llvm.mlir").read_text()


def failure(fn: Any, *args: Any, **options: Any) -> BaseException:
    with pytest.raises(BackendCompilerFailed) as error:
        strict(fn, **options)(*args)
    return error.value.inner_exception


def test_unknown_option_and_target() -> None:
    x = torch.randn(4, 4)
    assert "valid ones: target, threads, freeze" in str(failure(fn, x, thread=2))
    assert "native, x86-64-v3" in str(failure(fn, x, target="z80"))
    assert "cannot run its code, it lacks riscv64" in str(failure(fn, x, target="rv64gcv"))


def test_mode_is_refused() -> None:
    with pytest.raises(BackendCompilerFailed, match="has no modes, only options"):
        from buddy.backend import buddy_backend

        torch.compile(fn, backend=buddy_backend, mode="max-autotune")(torch.randn(4, 4))


def test_failed_compile_names_a_reproducer(
    cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def __init__(self, source: bytes):
            self.module = _buddy.Module(source)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.module, name)

        def compile(self, *args: Any, **kwargs: Any) -> None:
            raise RuntimeError("no registers left")

    class Compiler:
        Module = Broken

        def __getattr__(self, name: str) -> Any:
            return getattr(_buddy, name)

    monkeypatch.setattr(library, "compiler", Compiler)
    error = failure(lambda x: x * 41, torch.randn(4))
    assert isinstance(error, CompileError)
    assert "compiling forward failed: no registers left" in str(error)
    (reproducer,) = (cache_dir / "reproducers").glob("*.mlir")
    assert f"buddy-opt --buddy-pipeline='target=native' {reproducer}" in str(error)
    assert "func.func @forward" in reproducer.read_text()
    monkeypatch.undo()
    monkeypatch.setenv("BUDDY_CACHE_DIR", str(cache_dir))
    opt = Path(_buddy.__file__).parents[1] / "bin" / "buddy-opt"
    if opt.exists():
        command = [opt, "--buddy-pipeline=target=native stop-after=graph", reproducer]
        subprocess.run(command, check=True, capture_output=True)
    x = torch.randn(4)
    torch._dynamo.reset()
    torch.testing.assert_close(strict(lambda x: x * 41)(x), x * 41)  # nothing half-made is cached
    assert counters.misses == 2


def test_parameters_are_passed_without_a_copy() -> None:
    """The entry gets the parameter's own address."""
    seen: list[int] = []
    model, x = nn.Linear(8, 8, bias=False), torch.randn(2, 8)
    real = library.load

    def load(module: Any, options: Any) -> Any:
        loaded = real(module, options)
        names = [arg.kind for arg in module.entry.args]

        def call(args: tuple[Any, ...], *rest: Any) -> None:
            seen.extend(
                a.data_ptr() for a, kind in zip(args, names, strict=True) if kind == "weight"
            )
            loaded.entry(args, *rest)

        return library.Library(call, loaded.packings)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("buddy.backend.graph.load", load)
        with torch.no_grad():
            torch.testing.assert_close(strict(model)(x), model(x))
    assert seen == [model.weight.data_ptr()]


def test_library_needs_no_torch(cache_dir: Path) -> None:
    strict(fn)(torch.randn(4, 4))
    newest = max(cache_dir.glob("*.so"), key=lambda path: path.stat().st_mtime)
    readelf = shutil.which("llvm-readelf", path="/usr/lib/llvm-22/bin:" + os.environ["PATH"])
    assert readelf is not None
    output = subprocess.run([readelf, "-d", newest], capture_output=True, text=True, check=True)
    needed = [line for line in output.stdout.splitlines() if "(NEEDED)" in line]
    assert needed and not any("torch" in line or "MLIR" in line for line in needed)
