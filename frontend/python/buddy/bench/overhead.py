"""`buddy bench overhead`: what a decode step through torch.compile costs beside its kernels.

overhead: a step of a LLaMA of as many layers and parameters as the model's, and of the least sizes:
    what is measured is nearly all Dynamo's guards, wrappers, and the passing of each parameter and
    each cache.  The kernels' few microseconds are in it, on both sides.
step: the model itself, with half of its cache filled.

Both are Hugging Face's model with a StaticCache, called as a user calls it; its weights are inputs
of the graph, and inductor runs in its default mode.  The tensors that are passed are made
beforehand.
"""

from __future__ import annotations

import dataclasses
import statistics
from time import perf_counter
from typing import Any

import torch

from buddy.aot.errors import BundleError
from buddy.aot.source import open_source
from buddy.backend import buddy_backend
from buddy.bench import harness
from buddy.bench.harness import OURS, Case, Result
from buddy.bench.ours import DTYPES
from buddy.bench.runners import CompiledRunner
from buddy.models.llama import LlamaConfig
from buddy.models.reference import hugging_face_config, to_hugging_face

_SAMPLE_STEPS = 16
_SAMPLES = 8  # of the small model, in each round


def bench(
    model: str, dtype: str, *, context: int, threads: int, rounds: int, inductor: bool, step: bool
) -> tuple[list[Result], dict[str, Any], str]:
    """Measure; return the results, more fields of the report, and lines after its table.

    context: positions of the cache. step: measure the model's own step too.
    """
    config = getattr(open_source(model, "f32"), "config", None)
    if not isinstance(config, LlamaConfig):
        raise BundleError(f"{model}: buddy bench overhead is for LLaMAs")
    small = _make(smallest(config), dtype)
    arguments = (threads, inductor)
    guards = _guards(small)
    results = [_measure(Case("overhead", dtype), small, 2 * _SAMPLE_STEPS, _SAMPLES, rounds,
                        *arguments)]  # fmt: skip
    results[0].extra["guards_ms"] = guards * 1e3
    results[0].extra["parameters"] = sum(1 for _ in small.parameters())
    if step:
        reference = to_hugging_face(open_source(model, "f32")).to(DTYPES[dtype])
        results.append(_measure(Case("step", dtype), reference, context, 1, rounds, *arguments))
    return results, {"model": model}, _text(results[0])


def _text(result: Result) -> str:
    times = {name: statistics.median(seconds) * 1e6 for name, seconds in result.seconds.items()}
    text = ", ".join(f"{name} {microseconds:.0f} us" for name, microseconds in times.items())
    line = (
        f"overhead of a call with {result.extra['parameters']} parameters: {text}; of these "
        f"{result.extra['guards_ms'] * 1e3:.0f} us are Dynamo's own, whatever the backend"
    )
    if "inductor" in times:
        line += f"; ours is {times[OURS] / times['inductor']:.2f} of inductor's"
    return line


def smallest(config: LlamaConfig) -> LlamaConfig:
    """As many layers and parameters, heads grouped alike, the rest as small as can be."""
    group = config.heads // config.kv_heads
    return dataclasses.replace(
        config, vocab=16, width=4 * group, hidden=8, heads=group, kv_heads=1, head_dim=4,
        context=128,
    )  # fmt: skip


def _make(config: LlamaConfig, dtype: str) -> Any:
    from transformers import LlamaForCausalLM

    torch.manual_seed(0)
    return LlamaForCausalLM(hugging_face_config(config)).eval().to(DTYPES[dtype])


def _measure(
    case: Case, model: Any, context: int, samples: int, rounds: int, threads: int, inductor: bool
) -> Result:
    """Steps of all backends in turns; the time of one is the mean over a sample."""
    options = {"fallback": "error", "threads": threads}
    makers: dict[str, dict[str, Any]] = {OURS: {"backend": buddy_backend, "options": options}}
    if inductor:
        makers["inductor"] = {}
    torch._dynamo.reset()
    runners = {}
    for name, more in makers.items():
        harness.progress(f"{case.name} {name} compile")
        runners[name] = CompiledRunner(name, model, context, **more)
        _sample(runners[name], context)
    result = Result(case, {name: [] for name in runners})
    names = list(runners)
    with harness.uncollected():
        for number in range(rounds * samples):
            harness.progress(f"{case.name} {number + 1}/{rounds * samples}")
            for name in harness.in_turns(names, number):
                result.seconds[name].append(_sample(runners[name], context))
    harness.progress("")
    return result


def _sample(runner: CompiledRunner, context: int) -> float:
    """Seconds a step, from half the cache on; the first call is not counted."""
    count = min(_SAMPLE_STEPS, context - context // 2 - 1)
    position = context // 2
    inputs = [(torch.tensor([[3]]), torch.tensor([[position + i]])) for i in range(count + 1)]
    runner.rewind(position)
    runner.step(*inputs[0])
    start = perf_counter()
    for ids, positions in inputs[1:]:
        runner.step(ids, positions)
    return (perf_counter() - start) / count


def _guards(model: Any) -> float:
    """Seconds a step by a backend whose graphs compute nothing."""

    def nothing(gm: torch.fx.GraphModule, inputs: Any) -> Any:
        del inputs
        (output,) = (node for node in gm.graph.nodes if node.op == "output")
        fakes = [node.meta["example_value"] for node in output.args[0]]
        results = [torch.zeros(fake.shape, dtype=fake.dtype) for fake in fakes]
        return lambda *arguments: results

    harness.progress("Dynamo alone")
    torch._dynamo.reset()
    runner = CompiledRunner("nothing", model, 2 * _SAMPLE_STEPS, backend=nothing)
    _sample(runner, 2 * _SAMPLE_STEPS)
    with harness.uncollected():
        return statistics.median(_sample(runner, 2 * _SAMPLE_STEPS) for _ in range(_SAMPLES))
