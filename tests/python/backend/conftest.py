"""A cache of their own for the tests; a fresh Dynamo for each."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))

from buddy.backend import counters  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep the tests' libraries apart from the user's."""
    path = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BUDDY_CACHE_DIR", str(path))
        patch.delenv("BUDDY_FALLBACK", raising=False)
        patch.delenv("BUDDY_CACHE_SIZE", raising=False)
        yield path


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Forget what Dynamo compiled, and start the counters at 0."""
    torch._dynamo.reset()
    counters.clear()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()
