"""Bundles of several entry points: shared weights are stored once, state is one."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from buddy.aot.bundle import BuildOptions, build
from buddy.aot.entries import share_weights, states
from buddy.aot.errors import BundleError
from buddy.aot.export import Traced, decompose, export
from buddy.aot.factory import FactorySource
from buddy.aot.library import BundleLibrary
from buddy.importer.export import _ranges
from torch import nn
from torch.export import Dim

SOURCE = """
import torch
from torch import nn
from torch.export import Dim

class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(40, 24)
        self.enc = nn.Linear(24, 24)
        self.head = nn.Linear(24, 40, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("memory", torch.full((3, 24), 0.5))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def encode(self, x):
        self.memory.copy_(torch.tanh(self.enc(x)))
        return self.memory.sum()

    def decode(self, token):
        self.steps.add_(1)
        h = self.embedding(token) + self.memory.mean(0)
        return {"logits": self.head(h), "count": self.steps + 0}

def pair():
    torch.manual_seed(0)
    model = Pair()
    return {
        "encode": (model.encode, (torch.randn(3, 24),)),
        "decode": (model.decode, (torch.tensor([1, 2]),), {"token": {0: Dim("count")}}),
    }

def exported():
    model = Pair()
    return torch.export.export(model.enc, (torch.randn(3, 24),))

def empty():
    return {}

def bad_name():
    return {"a b": (Pair().enc, (torch.randn(3, 24),))}

def bad_value():
    return {"encode": 3}
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "user_pair.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "user_pair", raising=False)


@pytest.mark.parametrize("dtype", ["f32", "q8_0"])
def test_entries_share_weights_and_state(tmp_path: Path, dtype: str) -> None:
    out = tmp_path / "bundle"
    build("user_pair:pair", out, BuildOptions(dtype=dtype, quiet=True))
    import user_pair  # type: ignore[import-not-found]

    model = user_pair.pair()["encode"][0].__self__
    record = json.loads((out / "manifest.json").read_text())
    stored = 4 * (40 * 24 + 24 * 24 + 24 + 3 * 24) + 8
    assert [entry["name"] for entry in record["entries"]] == ["encode", "decode"]
    if dtype == "f32":  # the tied table once; alignment and panels may pad
        assert stored <= record["weights"]["bytes"] < stored + 40 * 24 * 4
    encode, decode = BundleLibrary(out, 1, "encode"), BundleLibrary(out, 1, "decode")
    kinds = {a["name"]: a["kind"] for e in record["entries"] for a in e["arguments"]}
    assert kinds["memory"] == kinds["steps"] == "state"
    memory, steps = torch.full((3, 24), 0.5), torch.zeros((), dtype=torch.int64)
    x, token = torch.randn(3, 24), torch.tensor([3, 0, 39])
    with torch.no_grad():
        expected_sum, expected = model.encode(x), model.decode(token)
    total, logits = torch.empty(()), torch.empty(3, 40)
    count = torch.empty((), dtype=torch.int64)
    values = {"x": x, "memory": memory, "steps": steps, "token": token,
              "logits": logits, "count": count, "output": total}  # fmt: skip
    for library in (encode, decode):
        library.call([values.get(a["name"], values["output"]) for a in library._arguments])
    tolerance = {"rtol": 1e-5, "atol": 1e-5} if dtype == "f32" else {"rtol": 0.1, "atol": 0.1}
    torch.testing.assert_close(total, expected_sum, **tolerance)
    torch.testing.assert_close(memory, model.memory, **tolerance)
    torch.testing.assert_close(logits, expected["logits"], **tolerance)
    assert steps == count == 1


def test_no_such_entry(tmp_path: Path) -> None:
    build("user_pair:pair", tmp_path / "b", BuildOptions(quiet=True))
    with pytest.raises(BundleError, match="no entry point 'x'; there are encode, decode"):
        BundleLibrary(tmp_path / "b", 1, "x")


@pytest.mark.parametrize("saved", [False, True])
def test_an_exported_program(tmp_path: Path, saved: bool) -> None:
    """From a factory or from a file; weights that are not row-major become so."""
    linear = nn.Linear(5, 7)
    linear.weight.data = torch.randn(5, 7).t()
    program = torch.export.export(linear, (torch.randn(4, 5),), dynamic_shapes=({0: Dim.DYNAMIC},))
    path = tmp_path / "linear.pt2"
    torch.export.save(program, path)
    out = tmp_path / "out"
    build(str(path) if saved else "user_pair:exported", out, BuildOptions(quiet=True))
    library = BundleLibrary(out, 1)
    if not saved:
        assert library.argument("input")["shape"] == [3, 24]
        return
    assert library.argument("input")["shape"] == ["input_size_0", 5]
    x, y = torch.randn(3, 5), torch.empty(3, 7)
    library.call([x, y])
    torch.testing.assert_close(y, linear(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("content", [None, b"", b"PK\x03\x04 no archive"])
def test_a_bad_file(
    tmp_path: Path, content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "x.pt2"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BundleError, match=r"x\.pt2: (No such file|not a program)"):
        build(str(path), tmp_path / "out", BuildOptions(quiet=True))
    assert not (tmp_path / "out").exists()
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("model", ["sub/user_pair.py:pair", "user_pair.py:pair", "user_pair.py"])
def test_a_script_as_a_module(tmp_path: Path, model: str) -> None:
    factory = "pair" if ":" in model else "FACTORY"
    with pytest.raises(BundleError, match=f"named by its module, user_pair:{factory}, looked"):
        build(model, tmp_path / "out", BuildOptions(quiet=True))


def test_weights_without_a_program(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    torch.save(nn.Linear(2, 2), path)
    with pytest.raises(BundleError, match=r"x\.pt: weights without a program; torch\.export\.save"):
        build(str(path), tmp_path / "out", BuildOptions(quiet=True))
    path = path.rename(path.with_suffix(".pt2"))
    with pytest.raises(BundleError, match=r"x\.pt2: not a program (?!.*warnings above)"):
        build(str(path), tmp_path / "out", BuildOptions(quiet=True))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("empty", "without entry points"),
        ("bad_name", "'a b' is no name"),
        ("bad_value", "entry 'encode': expected"),
    ],
)
def test_a_bad_dict(name: str, message: str) -> None:
    with pytest.raises(BundleError, match=message):
        FactorySource(f"user_pair:{name}", "f32")


def traced(module: nn.Module, inputs: tuple[Any, ...], shapes: Any = None) -> Traced:
    return decompose(export(module, inputs, shapes))


class Counter(nn.Module):
    def __init__(self, size: int = 2) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(size))
        self.register_buffer("step", torch.ones(size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(self.step)
        return x + self.count


def test_counters_that_start_alike_stay_two() -> None:
    """Equal constants are one; equal states of two modules are not."""
    entries = {name: traced(Counter(), (torch.zeros(2),)) for name in ("a", "b")}
    values = share_weights(entries)
    assert sorted(values) == ["b.count", "count", "step"]
    assert states(entries) == {"count", "b.count"}


class Reader(Counter):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.count


def test_what_another_module_reads_is_not_the_state_of_one_that_writes() -> None:
    for order in ((Counter, Reader), (Reader, Counter)):
        modules = zip("ab", order, strict=True)
        entries = {name: traced(kind(), (torch.zeros(2),)) for name, kind in modules}
        assert {"count", "b.count"} <= set(share_weights(entries))
        assert states(entries) == {"count" if order[0] is Counter else "b.count"}


def test_a_name_in_use_is_left_alone() -> None:
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.b = Counter()
            self.count = nn.Parameter(torch.ones(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.count + self.b(x)

    entries = {"a": traced(Pair(), (torch.zeros(2),)), "b": traced(Counter(), (torch.zeros(2),))}
    values = share_weights(entries)
    assert sorted(values) == ["b.count", "b.count_", "b.step", "count", "step"]


def test_other_constants_of_one_name_stay_two() -> None:
    second = Counter()
    second.step += 1
    entries = {"a": traced(Counter(), (torch.zeros(2),)), "b": traced(second, (torch.zeros(2),))}
    assert sorted(share_weights(entries)) == ["b.count", "b.step", "count", "step"]


class Writes(nn.Module):
    def forward(self, cache: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        cache[0].copy_(x)
        return cache.sum()


def test_states_that_disagree() -> None:
    def entry(rows: int) -> Traced:
        return traced(Writes(), (torch.zeros(rows, 4), torch.zeros(4)))

    with pytest.raises(BundleError, match=r"state 'cache' is float32 \[2, 4\] in entry 'a' and"):
        states({"a": entry(2), "b": entry(3)})
    assert states({"a": entry(2), "b": entry(2)}) == {"cache"}


def test_dynamic_states_agree() -> None:
    rows = Dim("rows")
    shapes = {"cache": {0: rows}, "x": None}
    inputs = (torch.zeros(3, 4), torch.zeros(4))
    dynamic = traced(Writes(), inputs, shapes)
    assert states({"a": dynamic, "b": traced(Writes(), inputs)}) == {"cache"}


def test_a_tokenizer_beside_a_module(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "model.safetensors").write_text("not copied")
    for given in (tmp_path, tmp_path / "tokenizer.json"):
        out = tmp_path / f"bundle-{given.name}"
        build("user_pair:exported", out, BuildOptions(tokenizer=given, quiet=True))
        assert (out / "tokenizer.json").read_text() == "{}"
        record = json.loads((out / "manifest.json").read_text())
        assert record["tokenizer"] == ["tokenizer.json"]


@pytest.mark.parametrize("content", [None, "{"])
def test_a_bad_tokenizer(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(BundleError, match=r"no tokenizer\.json|not valid JSON"):
        options = BuildOptions(tokenizer=tmp_path, quiet=True)
        build("user_pair:exported", tmp_path / "out", options)
    assert not (tmp_path / "out").exists()


class Append(nn.Module):
    def forward(self, cache: torch.Tensor, x: torch.Tensor, position: int) -> torch.Tensor:
        count = x.shape[0]
        torch._check(position >= 0)
        torch._check(position + count <= 20)
        cache.narrow(0, position, count).copy_(x)
        return cache.narrow(0, 0, position + count).sum(0)


def test_the_last_place_of_a_cache_can_be_written() -> None:
    """A bound of a position holds for one row, which the tracer does not assume by itself."""
    shapes = {"cache": None, "x": {0: Dim("count", min=1, max=20)}, "position": Dim.DYNAMIC}
    program = traced(Append(), (torch.zeros(20, 4), torch.ones(3, 4), 2), shapes).program
    assert sorted(_ranges(program).values()) == [(0, 19), (1, 20)]
