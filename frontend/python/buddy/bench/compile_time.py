"""`buddy bench compile`: how long a LLaMA takes to compile, cold, beside inductor.

build: `buddy build` of the model as its user starts it: a new process from its start to its end,
    all steps and the writing of the weights included.
torch.compile: the first calls of prefill and decode by `torch.compile(backend="buddy")`, on Hugging
    Face's model with a StaticCache, in a new process with an empty cache.  Starting Python, loading
    torch and opening the model are not counted.

The peer of both is inductor, measured as the latter, in its default mode: weights are inputs of the
graphs, which compiles faster than freezing.  Files that are read lie in the page cache.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from buddy.aot.bundle import LIBRARY
from buddy.aot.errors import BundleError
from buddy.bench import harness
from buddy.bench.elf import code_size
from buddy.bench.harness import OURS, Case, Result
from buddy.bench.ours import DTYPES

# What `buddy build` says of a step on stderr: "  trace ... 6.5 s".
_STEP = re.compile(r"  (.*) \.\.\. ([0-9.]+) s")
_PEER = "inductor"


def bench(
    model: str, dtype: str, *, prompt: int, threads: int, rounds: int, inductor: bool
) -> tuple[list[Result], dict[str, Any], str]:
    """Compile `rounds` times with each; return results, more fields of the report, its last lines.

    dtype: as `buddy build` takes it; PyTorch computes in f32 beside quantised weights.
    prompt: tokens that the prefill of torch.compile is compiled for.
    """
    through = Result(Case("torch.compile", _float(dtype)))
    build = Result(Case("build", _float(dtype)))
    steps: dict[str, list[dict[str, float]]] = {}
    code: dict[str, Any] = {}
    for number in range(rounds):
        where = f"round {number + 1}/{rounds}"
        with tempfile.TemporaryDirectory(prefix="buddy-bench-") as folder:
            bundle = Path(folder) / "bundle"
            seconds, made = _build(model, dtype, bundle, where)
            code = describe_code(bundle / LIBRARY)
        build.seconds.setdefault(OURS, []).append(seconds)
        steps.setdefault("build", []).append(made)
        for backend in (OURS, _PEER) if inductor else (OURS,):
            made = _first_calls(backend, model, _float(dtype), prompt, threads, where)
            made.pop("open")
            total = sum(made.values())
            through.seconds.setdefault(backend, []).append(total)
            if backend == _PEER:
                build.seconds.setdefault(backend, []).append(total)
            steps.setdefault(backend, []).append(made)
    harness.progress("")
    build.extra["steps"] = {"build": _medians(steps.pop("build"))}
    through.extra["steps"] = {name: _medians(made) for name, made in steps.items()}
    lines = [f"build: {_text(build.extra['steps']['build'])}"]
    lines += [f"torch.compile by {name}: {_text(made)}"
              for name, made in through.extra["steps"].items()]  # fmt: skip
    lines.append(f"the bundle's library: {code_text(code)}")
    return [build, through], {"model": model, "code": code}, "\n".join(lines)


def _float(dtype: str) -> str:
    return dtype if dtype in DTYPES else "f32"


def _medians(runs: list[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def _text(steps: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {seconds:.1f} s" for name, seconds in steps.items())


def describe_code(library: Path) -> dict[str, Any]:
    """The sizes of a library's code in bytes, as the report holds them."""
    size = code_size(library)
    return {"bytes": size.total, "largest": size.largest, "largest_name": size.largest_name}


def code_text(code: Mapping[str, Any]) -> str:
    """The same for people."""
    return (
        f"{code['bytes'] / 1024:.0f} KB of code, the largest function {code['largest_name']} "
        f"with {code['largest'] / 1024:.1f} KB"
    )


def _build(model: str, dtype: str, output: Path, where: str) -> tuple[float, dict[str, float]]:
    """Seconds of a `buddy build` and of its steps."""
    steps: dict[str, float] = {}
    command = ["buddy.cli", "build", model, "-o", str(output), "--dtype", dtype]
    harness.progress(f"{where} buddy build")
    start = time.perf_counter()
    process = _spawn(command, {}, stderr=subprocess.PIPE)
    last = ""
    assert process.stderr is not None
    for line in process.stderr:
        last = line.strip() or last
        found = _STEP.fullmatch(line.rstrip())
        if found:
            # The path and the amount are the same in each run.
            name = "write weights" if found[1].startswith("write ") else found[1].split(" ")[0]
            steps[name] = float(found[2])
            harness.progress(f"{where} buddy build: {last}")
    if process.wait():
        raise BundleError(f"buddy build failed: {last.removeprefix('buddy: ')}")
    return time.perf_counter() - start, steps


def _first_calls(
    backend: str, model: str, dtype: str, prompt: int, threads: int, where: str
) -> dict[str, float]:
    """Seconds of each step of cold.py."""
    steps: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="buddy-bench-") as folder:
        caches = {
            "BUDDY_CACHE_DIR": f"{folder}/buddy",
            "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
        }
        harness.progress(f"{where} {backend}")
        errors = Path(folder) / "stderr"
        with open(errors, "wb") as file:
            command = ["buddy.bench.cold", backend, model, dtype, str(prompt), str(threads)]
            process = _spawn(command, caches, stdout=subprocess.PIPE, stderr=file)
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith('{"step"'):
                    record = json.loads(line)
                    steps[record["step"]] = record["seconds"]
                    harness.progress(f"{where} {backend}: {_text(steps)}")
        if process.wait():
            lines = errors.read_text(errors="replace").split("\n")
            last = next((line.strip() for line in reversed(lines) if line.strip()), "no output")
            raise BundleError(f"{backend} failed: {last}")
    return steps


def _spawn(command: list[str], environment: dict[str, str], **streams: Any) -> Any:
    """Start a module of this package in a new Python with this one's paths."""
    paths = os.pathsep.join(path for path in sys.path if path)
    return subprocess.Popen(
        [sys.executable, "-m", *command],
        env={**os.environ, "PYTHONPATH": paths, **environment},
        stdin=subprocess.DEVNULL,
        text=True,
        **streams,
    )
