"""`buddy bench llm`: a LLaMA bundle against PyTorch eager and, where installed, llama.cpp.

pp is the prefill of `prompt` tokens in one call with the logits of the last one, tg the decoding of
`decode` tokens one by one after it, as llama-bench names them; both in tokens a second.
Implementations take turns in each round, each with the same thread count, and the medians over the
rounds are reported beside the best.  Eager is Hugging Face with a DynamicCache in float32.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from buddy.aot.errors import BundleError


class Runner(Protocol):
    """One implementation with its own cache; the token fed is always its own last answer."""

    name: str

    def prefill(self, tokens: list[int]) -> int:
        """Empty the cache, read `tokens`; return the likeliest next one."""

    def decode(self, token: int) -> int:
        """Read one token; return the likeliest next one."""


@dataclass
class Figures:
    """Seconds of every call of one implementation."""

    prefill: list[float] = field(default_factory=list)
    decode: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)

    def rates(self, prompt: int) -> dict[str, float]:
        """Tokens a second: the median call's and the best."""
        return {
            f"pp{prompt}": prompt / statistics.median(self.prefill),
            f"pp{prompt}_best": prompt / min(self.prefill),
            f"tg{len(self.tokens)}": 1 / statistics.median(self.decode),
            f"tg{len(self.tokens)}_best": 1 / min(self.decode),
        }


def bench(
    model: str,
    bundle: Path,
    *,
    threads: int,
    prompt: int,
    decode: int,
    rounds: int,
    as_json: bool,
) -> None:
    """Measure and print."""
    os.environ["OMP_NUM_THREADS"] = str(threads)  # before any of them loads its runtime
    import torch

    from buddy.bench.runners import make_runners

    torch.set_num_threads(threads)
    # transformers has begun to rename the argument, and still passes it on under the old name.
    warnings.filterwarnings("ignore", message=".*past_key_values.*", category=FutureWarning)
    runners = make_runners(model, bundle, threads, prompt + decode)
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(3, runners[0].vocab, (prompt,), generator=generator).tolist()
    figures = {runner.name: Figures() for runner in runners}
    for number in range(rounds + 1):  # the first one warms up
        for runner in runners:
            if sys.stderr.isatty():
                print(f"\r  round {number}/{rounds} {runner.name:<12}", end="", file=sys.stderr)
            measured = _round(runner, tokens, decode)
            if number:
                figures[runner.name].prefill += measured.prefill
                figures[runner.name].decode += measured.decode
            figures[runner.name].tokens = measured.tokens
    if sys.stderr.isatty():
        print("\r" + " " * 40 + "\r", end="", file=sys.stderr)
    report = {
        "model": model,
        "threads": threads,
        "rounds": rounds,
        "results": {name: f.rates(prompt) for name, f in figures.items()},
        "same_tokens": {
            name: f.tokens == figures[runners[0].name].tokens for name, f in figures.items()
        },
    }
    print(json.dumps(report) if as_json else _table(report))


def _round(runner: Runner, tokens: list[int], decode: int) -> Figures:
    figures = Figures()
    token = _timed(figures.prefill, partial(runner.prefill, tokens))
    for _ in range(decode):
        figures.tokens.append(token)
        token = _timed(figures.decode, partial(runner.decode, token))
    return figures


def _timed(times: list[float], call: Callable[[], int]) -> int:
    start = time.perf_counter()
    result = call()
    times.append(time.perf_counter() - start)
    return result


def _table(report: dict[str, Any]) -> str:
    results = report["results"]
    keys = list(next(iter(results.values())))
    base = next(iter(results.values()))
    lines = [
        f"{report['model']}, {report['threads']} threads, medians of {report['rounds']} rounds, "
        "tokens/s",
        "  ".join([f"{'':<12}", *(f"{key:>12}" for key in keys), "buddy is faster by"]),
    ]
    for name, rates in results.items():
        ratios = ", ".join(
            f"{key} {base[key] / rates[key]:.2f}" for key in keys if not key.endswith("_best")
        )
        cells = [f"{rates[key]:>12.1f}" for key in keys]
        lines.append("  ".join([f"{name:<12}", *cells, ratios]))
    return "\n".join(lines)


def require_bundle(bundle: Path) -> dict[str, Any]:
    """The manifest of a LLaMA's bundle."""
    from buddy.aot import manifest

    record = manifest.read(bundle)
    if record["architecture"] != "llama":
        raise BundleError(f"{bundle}: a bundle of {record['architecture']}, expected a LLaMA's")
    return record
