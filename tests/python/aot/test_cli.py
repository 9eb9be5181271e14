"""The command `buddy`: one clear line for each mistake, and no torch where none is needed."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from buddy.aot import manifest
from buddy.aot.errors import BundleError

RECORD = {
    "format": manifest.FORMAT, "name": "n", "architecture": "llama", "build_id": "b",
    "target": {"name": "t", "triple": "t", "cpu": "c"}, "versions": {}, "library": "l",
    "header": "h", "weights": {"file": "w", "tensors": 0, "bytes": 0},
    "entries": [{"name": "f", "symbol": "f", "workspace_symbol": "w", "arguments": [
        {"name": "n", "kind": "size", "dtype": "i64", "expression": "n"},
        {"name": "x", "kind": "input", "dtype": "f32", "shape": ["n"], "layout": "identity"}]}],
}  # fmt: skip


def buddy(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "buddy.cli", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=False,
    )


def error_line(*arguments: str, cwd: Path | None = None) -> str:
    """The one line on stderr of a command that must fail; progress lines are indented."""
    done = buddy(*arguments, cwd=cwd)
    assert done.returncode != 0
    assert done.stdout == ""
    lines = [line for line in done.stderr.splitlines() if not line.startswith("  ")]
    assert len(lines) == 1, done.stderr
    return lines[0]


def test_the_command_line_needs_no_torch() -> None:
    code = "import sys, buddy.cli; assert not {'torch', 'numpy', 'mlir'} & set(sys.modules)"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run([sys.executable, "-c", code], check=True, env=env)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "required"),
        (("fly",), "invalid choice"),
        (("build", "x"), "-o"),
        (("build", "x", "-o", "y", "--frobnicate"), "--frobnicate"),
        (("build", "x", "-o", "y", "--threads", "0"), "not at least 1"),
        (("inspect", "/nonexistent"), "not a bundle"),
        (("run", "/nonexistent", "-p", "x"), "not a bundle"),
        (("explain",), "MODEL"),
        (("build", "/", "-o", "y", "--target", ""), "--target is empty"),
    ],
)
def test_mistakes_on_the_command_line(arguments: tuple[str, ...], message: str) -> None:
    assert message in error_line(*arguments)


def test_inspect_reads_what_is_a_manifest_only(tmp_path: Path) -> None:
    path = tmp_path / manifest.MANIFEST
    for text, message in [("{", "not valid JSON"), ("[]", "format"), ('{"format": 99}', "99")]:
        path.write_text(text)
        assert message in error_line("inspect", str(tmp_path))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's /dev/full")
@pytest.mark.parametrize("arguments", ["inspect --json DIR", "inspect DIR"])
def test_output_that_cannot_be_written_is_an_error(tmp_path: Path, arguments: str) -> None:
    (tmp_path / manifest.MANIFEST).write_text(json.dumps(RECORD))
    command = f"{sys.executable} -m buddy.cli {arguments.replace('DIR', str(tmp_path))}"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    for redirection in (">/dev/full", ">&-"):
        done = subprocess.run(
            f"{command} {redirection}", shell=True, capture_output=True, text=True, env=env
        )
        assert done.returncode == 1
        assert done.stderr.startswith("buddy: ")
        assert done.stderr.count("\n") == 1


def places(value: Any, *path: Any) -> Iterator[tuple[Any, ...]]:
    """The path to every value inside of a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield (*path, key)
        if isinstance(inner, (dict, list)):
            yield from places(inner, *path, key)


def test_every_damage_to_a_manifest_is_one_line(tmp_path: Path) -> None:
    refused = 0
    for *outer, last in places(RECORD):
        for value in (None, [3], {"a": 1}, "x", -1):
            record = json.loads(json.dumps(RECORD))
            inner: Any = record
            for key in outer:
                inner = inner[key]
            inner[last] = value
            (tmp_path / manifest.MANIFEST).write_text(json.dumps(record))
            try:
                manifest.table(manifest.read(tmp_path))
            except BundleError as error:
                refused += 1
                assert "\n" not in str(error)
    assert refused > 60


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """Files as of a bundle; the library is one of this machine's."""
    (tmp_path / manifest.MANIFEST).write_text(json.dumps(RECORD))
    spec = importlib.util.find_spec("_ctypes")
    assert spec and spec.origin
    shutil.copyfile(spec.origin, tmp_path / "l")
    (tmp_path / "h").touch()
    (tmp_path / "w").touch()
    return tmp_path


def test_a_program_that_cannot_be_executed_is_named(bundle: Path) -> None:
    (bundle / "llama").write_text("no program")
    assert f"{bundle / 'llama'}: Permission denied" in error_line("run", str(bundle))
    (bundle / "llama").chmod(0o755)
    assert "Exec format error" in error_line("run", str(bundle))


def test_run_refuses_a_bundle_without_a_program(tmp_path: Path) -> None:
    text = json.dumps({**RECORD, "architecture": "Net"})
    (tmp_path / manifest.MANIFEST).write_text(text)
    assert "no program" in error_line("run", str(tmp_path))


@pytest.mark.parametrize("name", ["l", "h", "w"])
def test_run_names_the_missing_file(bundle: Path, name: str) -> None:
    (bundle / name).unlink()
    assert f"{bundle / name}: missing" in error_line("run", str(bundle))


def test_run_refuses_a_library_that_is_none(bundle: Path) -> None:
    library = (bundle / "l").read_bytes()
    (bundle / "l").write_bytes(library[:-1])
    assert "cut short" in error_line("run", str(bundle))
    (bundle / "l").write_bytes(b"#!/bin/sh")
    assert "no 64-bit ELF library" in error_line("run", str(bundle))
    (bundle / "l").write_bytes(library[:18] + b"\xf3\x00" + library[20:])
    assert "built for t, this machine is" in error_line("run", str(bundle))
