"""Programs whose layers were copied are those that were traced whole."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from buddy.aot import llama_source, weights_file
from buddy.aot.bundle import program_weights
from buddy.aot.export import Traced, export
from buddy.aot.repeat_layers import NotRepeated, repeat_layers
from buddy.importer import decompositions, import_exported_program
from buddy.models.llama import Llama, LlamaConfig
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode


def fake(**changes: Any) -> Llama:
    sizes = {"vocab": 96, "width": 32, "hidden": 40, "heads": 4, "kv_heads": 2, "head_dim": 8}
    config = LlamaConfig(**{**sizes, "context": 64, "norm_eps": 1e-5, "layers": 12, **changes})
    with FakeTensorMode():
        return Llama(config).eval().requires_grad_(False)


def text(traced: Traced) -> str:
    """The imported module, its symbols by their names."""
    layout = weights_file.plan(program_weights(traced.program))
    module = import_exported_program(
        traced.program, name="forward", weight_offsets=layout.offsets, decomposed=traced.decomposed
    )
    return re.sub(r'"(s\d+)', lambda m: f'"{traced.names[m[1]]}', module.text())


@pytest.mark.parametrize(
    "changes",
    [
        {"tied": True},
        {"attention_bias": True, "mlp_bias": True, "dtype": torch.bfloat16},
        {"layers": 4},
        {"layers": 3},
    ],
)
def test_a_llama_is_the_one_traced_whole(changes: dict[str, Any]) -> None:
    model = fake(**changes)
    traced, whole = llama_source.trace(model), llama_source._trace(model)
    assert traced.decomposed == (model.config.layers > 3)
    assert program_weights(traced.program) == program_weights(whole.program)
    assert sorted(traced.names.values()) == sorted(whole.names.values())
    assert traced.outputs == whole.outputs
    assert text(traced) == text(whole)


class Block(nn.Module):
    def __init__(self, number: int, kind: str) -> None:
        super().__init__()
        self.linear, self.number, self.kind = nn.Linear(6, 6), number, kind

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.kind == "another op" and self.number == 2:
            return torch.tanh(self.linear(x))
        if self.kind == "another constant":
            return torch.relu(self.linear(x) * (1 + self.number))
        return torch.relu(self.linear(x))


class Stack(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block(i, kind) for i in range(3))
        self.kind = kind

    def forward(self, x: torch.Tensor) -> Any:
        results = []
        for layer in self.layers:
            y = layer(results[-2] if self.kind == "skips" and len(results) > 1 else x)
            results.append(y)
            x = y
        if self.kind == "returns all":
            return results
        return sum(results) if self.kind == "adds all" else x * 2


@pytest.mark.parametrize(
    "kind", ["another op", "another constant", "returns all", "adds all", "skips"]
)
def test_layers_that_differ_are_refused_and_left_alone(kind: str) -> None:
    program = export(Stack(kind), (torch.randn(4, 6),)).program.run_decompositions(decompositions())
    before = str(program.graph)
    with pytest.raises(NotRepeated):
        repeat_layers(program, "layers", 5)
    assert str(program.graph) == before


def test_a_stack_without_caches() -> None:
    traced = export(Stack("equal"), (torch.randn(4, 6),))
    program = traced.program.run_decompositions(decompositions())
    repeat_layers(program, "layers", 5)
    weights = program_weights(program)
    assert [spec.name for spec in weights] == [
        f"layers.{i}.linear.{name}" for i in range(5) for name in ("weight", "bias")
    ]
    module = import_exported_program(program, name="forward", decomposed=True)
    assert module.text().count("linalg.matmul") + module.text().count("linalg.contract") == 5
