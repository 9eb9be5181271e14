"""`buddy explain` says what stayed scalar, and why; what lies where in memory; what is copied."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from bundles import Built, buddy

SOURCE = """
import torch
from torch import nn
from torch.export import Dim

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(12, 20)
        self.second = nn.Linear(20, 3)
        self.register_buffer("last", torch.zeros(20, 12))
        self.register_buffer("next", torch.ones(20, 12))

    def forward(self, x):
        hidden = torch.relu(self.first(x))
        wave = torch.asinh(hidden)  # a call for each element
        thinned = (wave[:, ::2] * 2).contiguous()  # every other element
        return self.second(wave).softmax(-1), thinned

class Swap(Net):
    def forward(self, x):
        old = self.last.clone()
        self.last.copy_(self.next)
        self.next.copy_(old)
        return x + 1

def net():
    return Net(), (torch.randn(5, 12),), {"x": {0: Dim("rows")}}

def vectors():
    return nn.Sequential(nn.Linear(12, 20), nn.ReLU()), (torch.randn(5, 12),)

def swap():
    return Swap(), (torch.randn(5, 12),)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explain")
    (folder / "user_net.py").write_text(SOURCE)
    return folder


def explain(folder: Path, *arguments: str | Path) -> str:
    done = buddy("explain", *arguments, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def line_of(text: str) -> int:
    return next(i for i, line in enumerate(SOURCE.splitlines(), 1) if text in line)


def test_what_stays_scalar_is_listed_with_its_reason_and_line(folder: Path) -> None:
    text = explain(folder, "user_net:net")
    # The loop is of what was fused, from the first of its lines on.
    first = rf"user_net\.py:{line_of('torch.relu')}\b"
    assert re.search(rf"loop of .*math\.asinh +math\.asinh has no vector form +.*{first}", text)
    inverse = rf"user_net\.py:{line_of('torch.asinh')}\b"
    assert re.search(rf"call of math\.asinh f32 .*{inverse}", text)
    thinned = rf"user_net\.py:{line_of('wave[:, ::2]')}\b"
    assert re.search(rf"loop of .* is not contiguous along the innermost loop +.*{thinned}", text)
    assert "softmax" not in text.split("scalar")[1]


def test_the_code_is_that_of_a_bundle(folder: Path, tmp_path: Path) -> None:
    """Weights lie as `buddy build` lays them out."""
    explain(folder, "user_net:vectors", "--target", "x86-64-v4", "--dump-phases-to", tmp_path)
    graph = (tmp_path / "1-graph.mlir").read_text()
    assert "#buddy.panels<n = 20, k = 12, width = 32, unit = 1, transposed = false>" in graph


def test_what_is_vector_code_is_not_listed(folder: Path) -> None:
    text = explain(folder, "user_net:vectors")
    assert "no loop over floats is without vectors" in text


def test_the_arena_is_shown(folder: Path, tmp_path: Path) -> None:
    picture = tmp_path / "arena.svg"
    text = explain(folder, "user_net:net", "--plot", picture)
    assert "arena of @forward:" in text
    assert "heap: nothing is allocated in a call" in text
    assert "copies: none of a weight or a state" in text
    rows = re.findall(r"^ *(\d+) +(\d+) +([.#]{40}) +(memref<\S+) +(.*?) {2,}(\S*)", text, re.M)
    assert rows
    for offset, size, bar, *_ in rows:
        assert int(offset) % 64 == 0
        assert int(size) > 0
        assert re.fullmatch(r"[.#]*#[.#]*", bar)
    # Rows are unknown, taken for 128: 128 rows of 20 f32.
    assert any(
        re.fullmatch(r"80 \* s\d+", formula) and int(size) == 128 * 80
        for _, size, _, _, formula, _ in rows
    )
    assert picture.read_text().startswith("<?xml")


def test_copies_that_the_meaning_asks_for_are_told(folder: Path) -> None:
    text = explain(folder, "user_net:swap")
    assert re.search(r"state (last|next) +its old value is needed later", text)


def test_a_llama_copies_nothing_and_allocates_nothing(tiny: Built, tmp_path: Path) -> None:
    text = explain(tmp_path, tiny.source)
    assert "heap: nothing is allocated in a call" in text
    followed = re.search(r"copies: none of a weight or a state; (\d+) followed", text)
    assert followed
    assert int(followed[1]) > 10
    # The layer is one function, whose arena is part of the entry's.
    assert re.search(r"arena of @forward\.\w+", text.split("arena of @forward:")[1])


def test_mistakes_of_plot(folder: Path, tmp_path: Path) -> None:
    for path, message in ((tmp_path / "no" / "x.png", "its folder does not exist"),
                          (tmp_path / "x.doc", "doc")):  # fmt: skip
        done = buddy("explain", "user_net:net", "--plot", path, cwd=folder)
        assert done.returncode == 1
        assert message in done.stderr
        assert done.stderr.count("\n") == 1, done.stderr
