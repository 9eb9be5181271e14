"""Graphs that cannot be imported give one error that says all."""

import re

import pytest
import torch
from buddy.importer import UnsupportedOpsError, import_graph, lowers, supported
from harness import argument_specs, imported_text
from torch.fx.experimental.proxy_tensor import make_fx


def test_all_missing_ops_are_listed_with_dtype_and_line():
    def function(x):
        y = torch.poisson(x)
        return y, torch._standard_gamma(x), x + 1

    first = function.__code__.co_firstlineno
    with pytest.raises(Exception) as caught:
        imported_text(function, torch.randn(3, 3))
    error = caught.value
    while error is not None and not isinstance(error, UnsupportedOpsError):
        error = getattr(error, "inner_exception", None) or error.__cause__
    assert isinstance(error, UnsupportedOpsError)
    names = {entry.op for entry in error.missing}
    assert any("poisson" in name for name in names)
    assert any("standard_gamma" in name for name in names)
    text = str(error)
    assert "(f32)" in text
    assert re.search(rf"test_errors.py:{first + 1}\b", text)
    assert re.search(rf"test_errors.py:{first + 2}\b", text)
    assert "aten.add" not in text


def test_unsupported_dtypes_are_named():
    gm = make_fx(lambda x: x.to(torch.float32) + 1, tracing_mode="fake")(
        torch.zeros(2, dtype=torch.float8_e4m3fn)
    )
    with pytest.raises(UnsupportedOpsError, match="float8_e4m3fn"):
        import_graph(gm, argument_specs(gm), name="f")


def test_supported_answers_for_each_node():
    gm = make_fx(lambda x, i: (x + 1, x[i > 0]), tracing_mode="symbolic")(
        torch.randn(3), torch.ones(3)
    )
    answers = {str(n.target): supported(n) for n in gm.graph.nodes if n.op == "call_function"}
    assert answers["aten.add.Tensor"] and not answers["aten.index.Tensor"]


def test_two_rules_for_one_operator_are_refused():
    with pytest.raises(ValueError, match="two linalg lowerings"):
        lowers(torch.ops.aten.add.Tensor)(lambda b: None)


def test_a_failed_import_leaves_the_builder_usable():
    from buddy.importer import ModuleBuilder

    builder = ModuleBuilder()
    bad = make_fx(torch.poisson, tracing_mode="fake")(torch.randn(3, 3))
    with pytest.raises(UnsupportedOpsError):
        builder.add_function(bad, argument_specs(bad), name="f")
    good = make_fx(lambda x: x + 1, tracing_mode="fake")(torch.randn(3))
    builder.add_function(good, argument_specs(good), name="f")
    assert list(builder.finish().functions) == ["f"]
