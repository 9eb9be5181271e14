"""`buddy bench llm`: a LLaMA bundle against PyTorch eager, llama.cpp and, if asked for, inductor.

pp is the prefill of `prompt` tokens in one call with the logits of the last one, tg the decoding of
`decode` tokens one by one after it, as llama-bench names them.  The implementations take turns in
each round, each with the same thread count, and each is fed its own last answer.  Eager is Hugging
Face with a DynamicCache, in the bundle's float type; inductor is the same model with a StaticCache
of just so many positions, prefill and decode compiled for their sizes.  It compiles in the round
that warms up, of which `first_call_s` tells.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

from buddy.aot.errors import BundleError
from buddy.bench import harness
from buddy.bench.harness import Call, Case, Result

_FLOATS = ("f32", "f16", "bf16")
_BYTES = {"f64": 8, "i64": 8, "f32": 4, "i32": 4, "f16": 2, "bf16": 2, "i8": 1, "u8": 1, "i1": 1}


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


def bench(
    model: str,
    bundle: Path,
    *,
    gguf: Path | None,
    threads: int,
    prompt: int,
    decode: int,
    rounds: int,
    inductor: bool,
) -> tuple[list[Result], dict[str, Any], str]:
    """Measure; return the results, more fields of the report, and lines after its table.

    model: what the bundle was built from. gguf: what llama.cpp runs, if it is to.
    """
    record = require_bundle(bundle)
    import torch

    from buddy.bench.runners import make_runners

    # transformers has begun to rename the argument, and still passes it on under the old name.
    warnings.filterwarnings("ignore", message=".*past_key_values.*", category=FutureWarning)
    runners = make_runners(
        model, bundle, threads=threads, capacity=prompt + decode, dtype=weight_dtype(record),
        gguf=gguf, inductor=inductor,
    )  # fmt: skip
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(3, runners[0].vocab, (prompt,), generator=generator).tolist()
    figures = {runner.name: Figures() for runner in runners}
    first: dict[str, dict[str, float]] = {}
    for number in range(rounds + 1):  # the first one warms up
        for runner in runners:
            harness.progress(f"round {number}/{rounds} {runner.name}")
            measured = _round(runner, tokens, decode)
            if number:
                figures[runner.name].prefill += measured.prefill
                figures[runner.name].decode += measured.decode
            else:
                first[runner.name] = {"prefill": measured.prefill[0], "decode": measured.decode[0]}
            figures[runner.name].tokens = measured.tokens
    harness.progress("")
    cases = _cases(record, prompt, decode)
    results = [
        Result(cases[0], {name: f.prefill for name, f in figures.items()}),
        Result(cases[1], {name: f.decode for name, f in figures.items()}),
    ]
    same = {name: f.tokens == figures[runners[0].name].tokens for name, f in figures.items()}
    others = ", ".join(name for name, equal in same.items() if not equal) or "none"
    more = {"model": model, "same_tokens": same, "first_call_s": first}
    return results, more, f"{model}: other tokens than buddy's from: {others}"


def _round(runner: Runner, tokens: list[int], decode: int) -> Figures:
    figures = Figures()
    token = _timed(figures.prefill, partial(runner.prefill, tokens))
    for _ in range(decode):
        figures.tokens.append(token)
        token = _timed(figures.decode, partial(runner.decode, token))
    return figures


def _timed(times: list[float], call: Call) -> int:
    start = perf_counter()
    result = call()
    times.append(perf_counter() - start)
    return int(result)


def _cases(record: dict[str, Any], prompt: int, decode: int) -> list[Case]:
    """What prefill and decode must do: products by the weights, each weight read once a call.

    The embedding is a product only where it is the last layer too; one row of it is read else.
    """
    dtype = weight_dtype(record)
    vocab = record_vocab(record)
    matrices = _matrices(record)
    heads = [matrix for matrix in matrices if matrix[0] == vocab]
    # The logits of the last token only.
    head = math.prod(heads[-1]) if heads else 0
    body = sum(math.prod(matrix) for matrix in matrices if matrix not in heads)
    tied = len(heads) < 2
    size = sum(_bytes(argument) for argument in _weights(record))
    if not tied:
        size -= max(_bytes(a) for a in _weights(record) if _shape(a) == heads[0])
    return [
        Case(f"pp{prompt}", dtype, 2 * (prompt * body + head), size, "pp", prompt, "tok"),
        Case(f"tg{decode}", dtype, 2 * (body + head), size, "tg", 1, "tok"),
    ]


def record_vocab(record: dict[str, Any]) -> int:
    """The number of tokens that a bundle's logits are over."""
    outputs = [a for a in record["entries"][0]["arguments"] if a["kind"] == "output"]
    return int(outputs[0]["shape"][-1])


def weight_dtype(record: dict[str, Any]) -> str:
    """The float type of most of a bundle's matrices; f32 if they are quantized.

    Quantized products are rated by f32's peak too, so that they may be above 100 %.
    """
    sizes: dict[str, int] = {}
    for argument in _weights(record):
        if len(_shape(argument)) == 2:
            dtype = argument["dtype"]
            sizes[dtype] = sizes.get(dtype, 0) + math.prod(_shape(argument))
    found = max(sizes, key=sizes.__getitem__) if sizes else "f32"
    return found if found in _FLOATS else "f32"


def _weights(record: dict[str, Any]) -> list[dict[str, Any]]:
    return [a for a in record["entries"][0]["arguments"] if a["kind"] == "weight"]


def _matrices(record: dict[str, Any]) -> list[tuple[int, ...]]:
    return [_shape(a) for a in _weights(record) if len(_shape(a)) == 2]


def _shape(argument: dict[str, Any]) -> tuple[int, ...]:
    """A weight's own shape, however it is stored."""
    packing = argument.get("packing")
    return (packing["n"], packing["k"]) if packing else tuple(argument["shape"])


def _bytes(argument: dict[str, Any]) -> int:
    return int(math.prod(argument["shape"])) * _BYTES.get(argument["dtype"], 4)


def require_bundle(bundle: Path) -> dict[str, Any]:
    """The manifest of a LLaMA's bundle."""
    from buddy.aot import manifest

    record = manifest.read(bundle)
    if record["architecture"] != "llama":
        raise BundleError(f"{bundle}: a bundle of {record['architecture']}, expected a LLaMA's")
    return record
