"""`buddy bench model`: one pass of any nn.Module through torch.compile, beside eager and inductor.

All are called as a user calls them, guards included.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from buddy.aot.errors import BundleError
from buddy.aot.factory import make_module
from buddy.backend import buddy_backend
from buddy.bench import harness
from buddy.bench.harness import OURS, Call, Case, Result
from buddy.bench.operations import Settings
from buddy.bench.ours import check_same

_DTYPES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}


def bench(name: str, settings: Settings) -> list[Result]:
    """Measure the module that the factory makes with its example inputs."""
    if ":" not in name:
        raise BundleError(f"{name}: expected package.module:factory; for a LLaMA: buddy bench llm")
    module, inputs, _ = make_module(name)
    module = module.eval()
    with torch.no_grad():
        case = _case(name, module, inputs)
        calls: dict[str, Call] = {
            OURS: _compiled(module, inputs, "buddy",
                            options={"fallback": "error", "threads": settings.threads}),
            "eager": lambda: module(*inputs),
        }  # fmt: skip
        if settings.inductor:
            calls["inductor"] = _frozen(module, inputs)
        first = {key: _first_tensor(call) for key, call in calls.items()}
        difference = check_same(case.name, first, "eager")
        result = harness.measure(case, calls, settings.rounds)
    result.extra["difference"] = difference
    return [result]


def _case(name: str, module: torch.nn.Module, inputs: tuple[Any, ...]) -> Case:
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        module(*inputs)
    tensors = [*module.parameters(), *module.buffers()]
    dtypes = [_DTYPES[tensor.dtype] for tensor in tensors if tensor.dtype in _DTYPES]
    dtype = max(set(dtypes), key=dtypes.count) if dtypes else "f32"
    size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    return Case(name, dtype, flops=counter.get_total_flops(), bytes=size)


def _compiled(module: torch.nn.Module, inputs: tuple[Any, ...], backend: str, **more: Any) -> Call:
    torch._dynamo.reset()
    harness.progress(f"{backend} compile")
    # By the function, as the name is known to an installed package only.
    function: Any = buddy_backend if backend == OURS else backend
    compiled = torch.compile(module, backend=function, dynamic=False, **more)
    try:
        compiled(*inputs)
    except Exception as error:  # whatever a compiler meets
        line = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        raise BundleError(f"{backend} cannot compile the model: {line}") from error
    return lambda: compiled(*inputs)


def _frozen(module: torch.nn.Module, inputs: tuple[Any, ...]) -> Call:
    import torch._inductor.config

    with torch._inductor.config.patch(freezing=True):
        return _compiled(module, inputs, "inductor")


def _first_tensor(call: Call) -> Callable[[], torch.Tensor]:
    def first() -> torch.Tensor:
        leaves = torch.utils._pytree.tree_leaves(call())
        found = next((leaf for leaf in leaves if isinstance(leaf, torch.Tensor)), None)
        if found is None:
            raise BundleError("the model returns no tensor")
        return found

    return first
