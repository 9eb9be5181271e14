"""One check of the tools, one build of each program, for all tests of an architecture."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import cross  # noqa: E402


@pytest.fixture(scope="session", params=cross.MACHINES, ids=str)
def machine(request: pytest.FixtureRequest) -> cross.Machine:
    """Skip where the cross tools are not installed; in continuous integration they must be."""
    found: cross.Machine = request.param
    if missing := found.missing_tools():
        text = "not installed: " + ", ".join(missing)
        if os.environ.get("CI"):
            pytest.fail(text)
        pytest.skip(text)
    return found


@pytest.fixture(scope="session")
def caller(machine: cross.Machine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program call.cpp."""
    folder = tmp_path_factory.mktemp("call")
    return machine.compile_program([Path(__file__).with_name("call.cpp")], folder / "call")
