"""`package.module:factory`: what it returns is traced, and what it does wrong is named."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest
import torch
from buddy.aot import bundle, manifest
from buddy.aot.errors import BundleError
from buddy.aot.factory import FactorySource

SOURCE = """
import torch
from torch import nn
from torch.export import Dim

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.linear.weight.data = torch.randn(4, 3).t()
        self.register_buffer("shift", torch.arange(3.0), persistent=False)
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.constant = torch.full((3,), 2.0)

    def forward(self, x):
        self.count.add_(1)
        return self.linear(x) * self.constant + self.shift

def net():
    return Net(), (torch.randn(5, 4),), {"x": {0: Dim("n")}}

def not_a_module():
    return 1, (torch.randn(5, 4),)

def no_tuple():
    return Net()

def no_inputs():
    return Net(), [torch.randn(5, 4)]

def fails():
    raise ValueError("no luck\\nat all")

def wrong_inputs():
    return Net(), (torch.randn(5, 5),)

def with_files():
    net = Net()
    net.bundle_files = {"labels.txt": "first\\nsecond\\n"}
    return net, (torch.randn(5, 4),)

def outside():
    net = Net()
    net.bundle_files = {"../labels.txt": ""}
    return net, (torch.randn(5, 4),)

def no_text():
    net = Net()
    net.bundle_files = {"labels.txt": 3}
    return net, (torch.randn(5, 4),)
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "user_model.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "user_model", raising=False)


def test_parameters_buffers_and_constants_are_stored(tmp_path: Path) -> None:
    source = FactorySource("user_model:net", "f32")
    (traced,) = source.trace().values()
    assert list(traced.names.values()) == ["n"]
    specs = {spec.name: spec for spec in bundle.program_weights(traced.program)}
    assert set(specs) >= {"linear.weight", "linear.bias", "shift", "count"}
    assert len(specs) == 5
    for name, spec in specs.items():
        value = source.load(name)
        assert tuple(value.shape) == spec.shape
        assert value.dtype == spec.dtype
        assert value.is_contiguous()
    assert torch.equal(source.load("shift"), torch.arange(3.0))
    assert source.write_tokenizer(tmp_path) == []
    assert source.description.files == {}


def test_files_of_the_module_travel_in_the_bundle(tmp_path: Path) -> None:
    bundle.build("user_model:with_files", tmp_path / "bundle", bundle.BuildOptions(quiet=True))
    assert (tmp_path / "bundle" / "labels.txt").read_text() == "first\nsecond\n"
    assert manifest.read(tmp_path / "bundle")["files"] == ["labels.txt"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nonexistent_module:f", "cannot import nonexistent_module"),
        ("user_model:nothing", "no 'nothing'"),
        ("user_model:not_a_module", "not an nn.Module"),
        ("user_model:no_tuple", "expected"),
        ("user_model:no_inputs", "not a tuple"),
        ("user_model:fails", "ValueError: no luck"),
        ("user_model:wrong_inputs", r"torch\.export"),
        ("user_model:outside", "'../labels.txt' is not the plain name"),
        ("user_model:no_text", "not a dict of names to texts"),
    ],
)
def test_mistakes_are_named(
    name: str, message: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(BundleError, match=message) as caught:
        FactorySource(name, "f32").trace()
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(name)
    # torch logs the stack as well as it raises.
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("dtype", ["bf16", "f16", "keep"])
def test_a_dtype_that_would_be_ignored_is_refused(dtype: str) -> None:
    with pytest.raises(BundleError, match=f"--dtype {dtype}"):
        FactorySource("user_model:net", dtype)
