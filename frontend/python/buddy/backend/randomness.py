"""Random operators of a graph as functions of a seed that each call draws from torch's generator.

So `torch.manual_seed` makes calls repeat, each call has new numbers, and the generator's state
moves on by one draw a call. The numbers are not eager's: they come from a counter-based generator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._guards import detect_fake_mode

from buddy.importer import lowerings  # noqa: F401  (defines buddy::random)

aten = torch.ops.aten


def _integers(low: Any, high: Any) -> tuple[str, Any, Any]:
    return "integers", low, high


# Operator -> (distribution, low, high) by its positional arguments.
_OPERATORS: dict[Any, Callable[..., tuple[str, Any, Any]]] = {
    aten.rand.default: lambda *_: ("uniform", 0, 0),
    aten.rand_like.default: lambda *_: ("uniform", 0, 0),
    aten.randn.default: lambda *_: ("normal", 0, 0),
    aten.randn_like.default: lambda *_: ("normal", 0, 0),
    aten.randint.default: lambda high, *_: _integers(0, high),
    aten.randint.low: lambda low, high, *_: _integers(low, high),
    aten.randint_like.default: lambda x, high, *_: _integers(0, high),
    aten.randint_like.low_dtype: lambda x, low, high, *_: _integers(low, high),
}


def draw() -> torch.Tensor:
    """Return a seed, i64 [1], from torch's default generator."""
    return torch.randint(-(2**63), 2**63 - 1, (1,), dtype=torch.int64)


def take_seed(gm: torch.fx.GraphModule) -> bool:
    """Give the graph a last argument more, the seed, which its random operators use; in place.

    False: the graph has none that can be computed so, and stays as it is.
    """
    graph = gm.graph
    nodes = [node for node in graph.nodes if _is_random(node)]
    mode = detect_fake_mode([node.meta.get("val") for node in graph.nodes])
    if not nodes or mode is None:
        return False
    last = next(node for node in graph.nodes if node.op != "placeholder")
    with graph.inserting_before(last):
        seed = graph.placeholder("random_seed")
    with mode:
        seed.meta["val"] = torch.empty(1, dtype=torch.int64)
    for number, node in enumerate(nodes):
        distribution, low, high = _OPERATORS[node.target](*node.args)
        arguments = (seed, number, distribution, node.meta["val"].dtype, low, high)
        with graph.inserting_before(node):
            new = graph.call_function(torch.ops.buddy.random.default, arguments)
        new.meta = dict(node.meta)
        node.replace_all_uses_with(new)
        graph.erase_node(node)
    gm.recompile()
    return True


def _is_random(node: torch.fx.Node) -> bool:
    if node.op != "call_function" or node.target not in _OPERATORS:
        return False
    value = node.meta.get("val")
    return (
        isinstance(value, torch.Tensor)
        and value.layout is torch.strided
        and node.kwargs.get("generator") is None
    )
