"""Which C++ compiler inductor is given."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from buddy.aot.errors import BundleError
from buddy.bench import inductor


def provide(folder: Path, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Let the path hold these programs only."""
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("CXX", "")


def test_it_keeps_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provide(tmp_path, monkeypatch, "g++", "clang++-22")
    inductor.find_compiler()
    assert os.environ["CXX"] == ""
    monkeypatch.setenv("CXX", "mine")
    inductor.find_compiler()
    assert os.environ["CXX"] == "mine"


def test_it_takes_the_set_ups_clang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = SimpleNamespace(cpp=SimpleNamespace(cxx=(None, "g++")))
    monkeypatch.setitem(sys.modules, "torch._inductor.config", config)
    provide(tmp_path, monkeypatch, "clang++-22")
    inductor.find_compiler()
    assert os.environ["CXX"] == str(tmp_path / "clang++-22")
    assert config.cpp.cxx == (None, str(tmp_path / "clang++-22"))


def test_without_any_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provide(tmp_path, monkeypatch)
    assert shutil.which("g++") is None
    with pytest.raises(BundleError, match="--no-inductor measures without it"):
        inductor.find_compiler()
