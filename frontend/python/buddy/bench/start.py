"""`buddy bench llm --start`: from nothing to the first token, in fresh processes.

Ours: from spawning the bundle's native program (`-n 1`, a prompt of five tokens) to the first byte
it writes.  llama.cpp: a fresh Python process, from before its library loads the model to the first
token; starting Python and importing llama_cpp is left out, which favours it.  The page cache is
warm: the first run of each is not counted.

Peak memory is the process's largest resident set, mapped weights included; for llama.cpp Python and
NumPy are in it.  Processes are spawned by a small one (spawn.py), as Linux counts what a process
held before `exec` towards the new program's peak.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from buddy.aot.errors import BundleError
from buddy.aot.run import PROGRAM, compile_program
from buddy.bench import harness
from buddy.bench.harness import OURS, Case, Result
from buddy.bench.llm import record_vocab, require_bundle, weight_dtype

_HERE = Path(__file__).resolve().parent
_PROMPT_TOKENS = 5
# Tokens that both make room for.
_CONTEXT = 256


def bench(
    model: str, bundle: Path, gguf: Path | None, threads: int, rounds: int
) -> tuple[list[Result], dict[str, Any], str]:
    """Measure `rounds` starts of each, in turns; returns as `llm.bench` does."""
    record = require_bundle(bundle)
    if not (bundle / PROGRAM).exists():
        compile_program(bundle)
    # No special tokens: those have the lowest ids.
    tokens = [min(10 + 7 * i, record_vocab(record) - 1) for i in range(_PROMPT_TOKENS)]
    ids = ",".join(map(str, tokens))
    commands = {
        OURS: [str(bundle / PROGRAM), "-m", str(bundle), "--tokens", ids, "-n", "1",
               "-c", str(_CONTEXT), "-t", str(threads), "--ignore-eos"],
    }  # fmt: skip
    if gguf is not None:
        commands["llama.cpp"] = [sys.executable, str(_HERE / "llama_cpp_start.py"), str(gguf),
                                 str(_CONTEXT), str(threads), ids]  # fmt: skip
    result = Result(Case("start to first token", weight_dtype(record)))
    peaks: dict[str, list[int]] = {}
    for number in range(rounds + 1):  # the first one warms the page cache
        for name, command in commands.items():
            harness.progress(f"round {number}/{rounds} {name}")
            seconds, peak = _spawn(command)
            if number:
                result.seconds.setdefault(name, []).append(seconds)
                peaks.setdefault(name, []).append(peak)
    harness.progress("")
    memory = {name: statistics.median(values) / 1e6 for name, values in peaks.items()}
    text = ", ".join(f"{name} {megabytes:.0f} MB" for name, megabytes in memory.items())
    result.extra["peak_mb"] = memory
    return [result], {"model": model}, f"peak memory: {text}"


def _spawn(command: list[str]) -> tuple[float, int]:
    """Seconds to the first token and the peak of memory in bytes."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(_HERE / "spawn.py"), *command],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        raise BundleError(f"{command[0]} failed: {lines[-1] if lines else 'no output'}")
    measured = json.loads(done.stdout)
    # A program that knows better says so itself (llama_cpp_start.py).
    return float(measured["told"] or measured["seconds"]), int(measured["peak"])
