"""A cache of their own, and torch's thread count as it was."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "frontend" / "python"))
sys.path.append(str(ROOT / "build" / "python"))


@pytest.fixture(scope="session", autouse=True)
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the tests' libraries apart from the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BUDDY_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def settings_of_the_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What `buddy bench` sets for its process is put back."""
    monkeypatch.setenv("OMP_NUM_THREADS", os.environ.get("OMP_NUM_THREADS", "1"))
    threads, cores = torch.get_num_threads(), os.sched_getaffinity(0)
    yield
    torch.set_num_threads(threads)
    os.sched_setaffinity(0, cores)
    torch._dynamo.reset()
