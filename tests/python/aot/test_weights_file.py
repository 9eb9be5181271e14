"""The weights file is a valid safetensors file whose tensors lie where the layout says, aligned."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from buddy.aot import weights_file
from buddy.aot.errors import BundleError
from buddy.aot.weights_file import TensorSpec
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open

DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.uint8, torch.bool]
SHAPES = st.lists(st.integers(0, 7), max_size=3).map(tuple)


def write(path: Path, tensors: dict[str, torch.Tensor]) -> tuple[weights_file.Layout, str]:
    specs = [TensorSpec(n, tuple(t.shape), t.dtype) for n, t in tensors.items()]
    layout = weights_file.plan(specs)
    return layout, weights_file.write(path, layout, tensors.__getitem__)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(SHAPES, st.sampled_from(DTYPES)), max_size=6))
def test_round_trip(
    tmp_path_factory: pytest.TempPathFactory, kinds: list[tuple[tuple[int, ...], torch.dtype]]
) -> None:
    path = tmp_path_factory.mktemp("weights") / "weights.safetensors"
    tensors = {
        f"w{i}": torch.randint(0, 2, shape, generator=torch.Generator().manual_seed(i)).to(dtype)
        for i, (shape, dtype) in enumerate(kinds)
    }
    layout, build_id = write(path, tensors)
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    assert start % weights_file.PAGE == 0
    assert len(data) == start + layout.size
    with safe_open(path, framework="pt") as file:
        assert file.metadata()["build_id"] == build_id
        for name, tensor in tensors.items():
            assert torch.equal(file.get_tensor(name), tensor)
        extra = set(file.keys()) - set(tensors)
        assert all(name.startswith(weights_file.PADDING_PREFIX) for name in extra)
    header = json.loads(data[8:start])
    for name in tensors:
        assert layout.offsets[name] % weights_file.ALIGNMENT == 0
        assert header[name]["data_offsets"][0] == layout.offsets[name]


def test_the_build_id_follows_the_contents(tmp_path: Path) -> None:
    path = tmp_path / "w"
    _, first = write(path, {"a": torch.zeros(3)})
    _, again = write(path, {"a": torch.zeros(3)})
    _, other = write(path, {"a": torch.ones(3)})
    _, renamed = write(path, {"b": torch.zeros(3)})
    assert first == again
    assert len({first, other, renamed}) == 3


def test_tensors_in_another_order_of_memory_are_stored_row_major(tmp_path: Path) -> None:
    tensor = torch.arange(6.0).reshape(2, 3).t()
    write(tmp_path / "w", {"a": tensor})
    with safe_open(tmp_path / "w", framework="pt") as file:
        assert torch.equal(file.get_tensor("a"), tensor)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", "a"], "two weights"),
        (["buddy.padding.0"], "reserved"),
        (["__metadata__"], "reserved"),
    ],
)
def test_names_that_cannot_be_stored(names: list[str], message: str) -> None:
    with pytest.raises(BundleError, match=message):
        weights_file.plan([TensorSpec(name, (1,), torch.float32) for name in names])


@pytest.mark.parametrize("wrong", [torch.zeros(4), torch.zeros(3, dtype=torch.float64)])
def test_a_weight_unlike_its_declaration_is_refused(tmp_path: Path, wrong: torch.Tensor) -> None:
    layout = weights_file.plan([TensorSpec("a", (3,), torch.float32)])
    with pytest.raises(BundleError, match="'a' has"):
        weights_file.write(tmp_path / "w", layout, lambda name: wrong)
