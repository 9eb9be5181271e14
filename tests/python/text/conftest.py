"""Finds the driver `buddy-tokenize`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from tokenizer_driver import Driver  # noqa: E402

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def make_driver():
    folder = Path(os.environ.get("BUDDY_BUILD_DIR", REPOSITORY / "build"))
    binary = folder / "bin" / "buddy-tokenize"
    if not binary.exists():
        pytest.fail(f"{binary} is missing: build it, or set BUDDY_BUILD_DIR")
    return lambda tokenizer: Driver(binary, Path(tokenizer))
