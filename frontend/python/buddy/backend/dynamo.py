"""The function that Dynamo calls."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.eval_frame import innermost_backend
from torch._dynamo.symbolic_convert import InstructionTranslator
from torch._functorch.partitioners import min_cut_rematerialization_partition

from buddy.importer import (
    UnsupportedOpsError,
    decompositions,
    prepare_fx,
    whole_recurrences,
    whole_recurrences_if,
)

from .graph import Call, compile_graph
from .library import check_target
from .options import OptionError, Options


def buddy_backend(
    gm: torch.fx.GraphModule, example_inputs: Sequence[Any], **kwargs: Any
) -> Callable[..., Any]:
    """Compile a graph of Dynamo's; the backend named "buddy".

    kwargs: what `torch.compile` passes on: `options={...}`, see `Options`.
    """
    options = Options.parse(_option_values(kwargs))
    check_target(options.target)
    compile_ = functools.partial(_compile, options=options)
    backend = aot_autograd(
        fw_compiler=compile_,
        inference_compiler=compile_,
        bw_compiler=functools.partial(_compile_backward, options=options),
        partition_fn=min_cut_rematerialization_partition,
        decompositions=decompositions(),
        # Inputs that the model updates (KV caches, buffers) are written in place by our code
        # instead of being copied back after the call.
        keep_inference_input_mutations=True,
    )
    # Operators with an effect (an error that depends on data) are in order by tokens; with this
    # they are made in the graph instead of being arguments and results of it.
    with torch._functorch.config.patch(unlift_effect_tokens=True), whole_recurrences():
        return backend(prepare_fx(gm), example_inputs)


def _option_values(kwargs: dict[str, Any]) -> dict[str, Any]:
    values = dict(kwargs)
    if "mode" in values:
        raise OptionError(f"mode={values['mode']!r}: backend 'buddy' has no modes, only options")
    options = values.pop("options", None) or {}
    return {**values, **options}


def _compile(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], *, options: Options) -> Call:
    return _boxed(compile_graph(gm, "forward", options, _weights(gm)))


def _compile_backward(
    gm: torch.fx.GraphModule, example_inputs: Sequence[Any], *, options: Options
) -> Call:
    """Compile a backward graph; ops without a rule are an error when it is called.

    A model whose parameters want gradients is compiled with its backward graph even if only its
    results are asked for, which must not fail for the backward graph's ops.
    """
    try:
        return _boxed(compile_graph(gm, "backward", options))
    except UnsupportedOpsError as unsupported:
        error = unsupported

    def call(args: list[Any]) -> Any:
        raise UnsupportedOpsError(error.missing)

    return _boxed(call)


def _boxed(call: Call) -> Call:
    """Tell AOTAutograd that a function takes its arguments as one list."""
    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def _weights(gm: torch.fx.GraphModule) -> list[int]:
    """Return the indices of the placeholders that are parameters and buffers."""
    context = torch._guards.TracingContext.try_get()
    if context is None or context.fw_metadata is None:
        return []
    count = sum(node.op == "placeholder" for node in gm.graph.nodes)
    return [i for i in context.fw_metadata.static_input_indices if i < count]


def _traced_for_us() -> bool:
    """Tell whether Dynamo is tracing a function that this backend will compile."""
    try:
        compiler: Any = InstructionTranslator.current_tx().output.compiler_fn
    except AttributeError:  # nothing is traced in this thread
        return False
    compiler = innermost_backend(compiler)
    return getattr(compiler, "compiler_fn", compiler) is buddy_backend


# Dynamo computes shapes with the layers' steps otherwise, and so compiles once a length.
whole_recurrences_if(_traced_for_us)
