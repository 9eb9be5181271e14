"""Each subject of `buddy bench` runs, at sizes that take no time; figures are not judged."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from buddy import cli, panels

pytest.importorskip("_buddy")

from buddy.aot.errors import BundleError  # noqa: E402
from buddy.bench import ours, peaks  # noqa: E402

FACTORY = """
import torch
from torch import nn

def make():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(12, 20), nn.GELU(), nn.Linear(20, 3), nn.LayerNorm(3))
    return net, (torch.randn(5, 12),)

def lone():
    return nn.Linear(2, 2)
"""


@pytest.fixture(autouse=True)
def quick_peaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peaks, "_ROUNDS", 1)


@pytest.fixture
def factory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "bench_user_net.py").write_text(FACTORY)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "bench_user_net", raising=False)
    return "bench_user_net:make"


def bench(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert cli.main(["bench", *arguments, "--rounds", "1", "--json"]) == 0
    record: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert record["rounds"] == 1
    assert record["machine"]["threads"] >= 1
    counted = any(case["flops"] or case["bytes"] for case in record["cases"])
    assert record["peaks"]["read_gbs"] > 0 if counted else record["peaks"] is None
    assert record["geomean"]["all"] > 0
    for case in record["cases"]:
        assert min(case["ms"].values()) > 0
        assert set(case["percent"] or ()) == (set(case["ms"]) if counted else set())
        assert case["ratio"] > 0
    return record


def rows(record: dict[str, Any]) -> list[tuple[str, set[str]]]:
    return [(case["name"], set(case["ms"])) for case in record["cases"]]


def test_gemm(capsys: pytest.CaptureFixture[str]) -> None:
    record = bench(capsys, "gemm", "3x7x5", "2x3x5x4", "--trans", "nn,tt", "--dtype", "f32,bf16")
    two, three = {"buddy", "torch.mm", "F.linear"}, {"buddy", "torch.bmm"}
    expected = [
        (f"{shape} {trans} {dtype}", names)
        for dtype in ("f32", "bf16")
        for shape, names in (("3x7x5", two), ("2x3x5x4", three))
        for trans in ("nn", "tt")
    ]
    assert rows(record) == expected
    assert record["cases"][0]["flops"] == 2 * 3 * 7 * 5
    assert record["cases"][0]["bytes"] == 4 * (3 * 5 + 5 * 7 + 3 * 7)
    assert set(record["peaks"]["gflops"]) == {"f32", "bf16"}


def test_packed_weights(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    packed: list[tuple[int, ...]] = []
    pack = panels.pack

    def spy(weight: torch.Tensor, layout: Any) -> torch.Tensor:
        packed.append(tuple(weight.shape))
        return pack(weight, layout)

    monkeypatch.setattr(panels, "pack", spy)
    bench(capsys, "gemm", "3x7x5", "2x3x5x4", "--trans", "nn,nt", "--packed")
    assert packed == [(5, 7), (7, 5)]
    packed.clear()
    bench(capsys, "gemv", "70x33", "--packed")
    assert len(packed) > 1
    assert set(packed) == {(70, 33)}


def test_gemv_reads_more_than_the_cache(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    copies = ours_copies()

    def spy(weight: torch.Tensor) -> list[torch.Tensor]:
        found = copies(weight)
        made.append(len({w.data_ptr() for w in found}))
        return found

    monkeypatch.setattr("buddy.bench.operations._copies", spy)
    record = bench(capsys, "gemv", "70x33", "--threads", "2")
    assert rows(record) == [("70x33 f32", {"buddy", "torch.mv", "F.linear"})]
    assert made[0] > 1


def ours_copies() -> Any:
    from buddy.bench import operations

    return operations._copies


def test_conv(capsys: pytest.CaptureFixture[str]) -> None:
    record = bench(capsys, "conv", "2x4x9:6x3/2", "1x6x8:6x3g6")
    assert rows(record) == [
        ("2x4x9:6x3/2 f32", {"buddy", "F.conv2d"}), ("1x6x8:6x3g6 f32", {"buddy", "F.conv2d"}),
    ]  # fmt: skip
    assert record["cases"][0]["flops"] == 2 * 2 * 6 * 25 * 4 * 9
    assert record["cases"][0]["bytes"] == 4 * (2 * (4 * 81 + 6 * 25) + 6 * (36 + 1))
    assert set(record["geomean"]) == {"all", "dense f32", "depthwise f32"}


def test_attention(capsys: pytest.CaptureFixture[str]) -> None:
    record = bench(capsys, "attention", "4/2x8x1x9", "4/2x8x3x9", "2/2x8x5x5")
    grouped = {"buddy", "sdpa", "sdpa repeated"}
    assert [names for _, names in rows(record)] == [grouped, grouped, {"buddy", "sdpa"}]
    # A causal mask leaves 7 + 8 + 9 of 3 * 9 pairs.
    assert record["cases"][1]["flops"] == 4 * 4 * 8 * 24
    assert set(record["geomean"]) == {"all", "q 1 f32", "q 2-127 f32"}


def test_elementwise_with_inductor_and_a_plot(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    plot = tmp_path / "roof.png"
    record = bench(
        capsys, "elementwise", "3x10", "--ops", "silu_mul,softmax", "--cases", "silu*",
        "--plot", str(plot),
    )  # fmt: skip
    assert rows(record) == [("silu_mul 3x10 f32", {"buddy", "eager", "inductor"})]
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_every_elementwise_operation(capsys: pytest.CaptureFixture[str]) -> None:
    from buddy.bench.defaults import ELEMENTWISE

    record = bench(capsys, "elementwise", "3x10", "--no-inductor")
    assert rows(record) == [(f"{name} 3x10 f32", {"buddy", "eager"}) for name in ELEMENTWISE]


def test_operators(capsys: pytest.CaptureFixture[str]) -> None:
    names = "order: topk 50,algebra: mm complex,indexing: gather,movement: roll"
    record = bench(capsys, "operators", "--cases", names)
    found = dict(rows(record))
    assert set(found) == set(names.split(","))
    assert set(map(frozenset, found.values())) == {frozenset({"buddy", "eager"})}
    assert set(record["geomean"]) == {"all", "order", "algebra", "indexing", "movement"}


def test_model(capsys: pytest.CaptureFixture[str], factory: str) -> None:
    record = bench(capsys, "model", factory, "--no-inductor")
    assert rows(record) == [(factory, {"buddy", "eager"})]
    assert record["cases"][0]["flops"] == 2 * 5 * (12 * 20 + 20 * 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gemm", "3x4x5", "--cases", "9*"], "--cases 9*: no such case; there are 3x4x5 nn f32"),
        (["gemm", "3x4x5", "--cpus", "100000"], "--cpus: this process may use"),
        (["gemm", "3x4x5", "--plot", "/nonexistent/x.png"], "its folder does not exist"),
        (["model", "foo"], "foo: expected package.module:factory"),
        (["model", "bench_user_net:lone"], "got a Linear"),
        (["llm", "x.gguf", "/nonexistent"], "not a bundle"),
        (["llm", "x.gguf", "/nonexistent", "--start"], "not a bundle"),
        (["accuracy", "x.gguf", "/nonexistent"], "not a bundle"),
        (["overhead", "x.gguf"], "x.gguf: No such file"),
        (["overhead", "bench_user_net:make"], "buddy bench overhead is for LLaMAs"),
        (["compile", "bench_user_net:make", "--layers", "1,2"], "--layers is for LLaMAs"),
    ],
)
def test_mistakes_are_one_line(
    capsys: pytest.CaptureFixture[str], factory: str, arguments: list[str], message: str
) -> None:
    del factory
    assert cli.main(["bench", *arguments]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err
    assert printed.err.startswith("buddy: ")
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gemm", "3x4"], "'3x4' is no shape; expected MxNxK"),
        (["gemm", "3x4x5", "--dtype", "f8"], "any of f32, bf16, f16"),
        (["gemm", "3x4x5", "--plot", "x.jpg"], "does not end in .png"),
        (["elementwise", "--ops", "sinh"], "any of exp, tanh"),
        (["compile", "x.gguf", "--layers", "3,2"], "'3,2' is not FEW,MANY such as 2,32"),
        (["llm", "x.gguf", "y", "--peer-format", "q3_k"], "invalid choice: 'q3_k'"),
        (["fly"], "invalid choice"),
    ],
)
def test_mistakes_of_syntax_are_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit):
        cli.main(["bench", *arguments])
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.count("\n") == 1


def test_a_wrong_result_is_no_competitor() -> None:
    right = torch.ones(3)
    calls = {"buddy": lambda: right * 1.01, "eager": lambda: right}
    with pytest.raises(BundleError, match="case: buddy's result differs from eager's by 0.01"):
        ours.check_same("case", calls, "eager")
    assert ours.check_same("case", {"buddy": lambda: right, "eager": lambda: right}, "eager") == 0


def test_a_result_that_is_no_number_is_no_competitor() -> None:
    calls = {"buddy": lambda: torch.full((3,), torch.nan), "eager": lambda: torch.ones(3)}
    with pytest.raises(BundleError, match="differs"):
        ours.check_same("case", calls, "eager")


def test_the_read_loop_reads_every_byte() -> None:
    chunks, length, steps = 3, 8, 5
    shape = (chunks, peaks._STREAMS, steps * length)
    signature = [(list(shape), [shape[1] * shape[2], shape[2], 1]), None, None,
                 ([-1, length], [length, 1])]  # fmt: skip
    signature[0] = ([-1, peaks._STREAMS, -1], [-1, -1, 1])
    entry = ours.load_text(peaks.read_module(length), "read_peak", signature)
    x = torch.randint(0, 100, shape).float()
    out = torch.empty(chunks, length)
    entry((x, chunks, steps, out), (*shape[::2], x.stride(0), x.stride(1), chunks), 2, 0)
    # Each stream starts with its first vector, which it adds once more.
    expected = x.view(chunks, peaks._STREAMS, steps, length).sum((1, 2)) + x[..., :length].sum(1)
    assert torch.equal(out, expected)


def test_the_fma_loop_computes_every_sum() -> None:
    length, steps = 8, 6
    size = (2 + peaks._SUMS) * length
    signature = [([size], [1]), None, None, ([-1, length], [length, 1])]
    entry = ours.load_text(peaks.fma_module(length, False), "fma_peak", signature)
    x = torch.randint(0, 10, (size,)).float()
    out = torch.empty(2, length)
    entry((x, 2, steps, out), (2,), 2, 0)
    a, b, *sums = x.view(-1, length)
    expected = sum(sums) + peaks._SUMS * steps * a * b
    assert torch.equal(out, expected.expand(2, -1))


def test_results_of_bits_are_compared() -> None:
    flags = torch.tensor([True, False, True])
    assert ours.check_same("case", {"buddy": lambda: flags, "eager": lambda: flags}, "eager") == 0
    with pytest.raises(ours.BundleError, match="buddy's result differs"):
        ours.check_same("case", {"buddy": lambda: ~flags, "eager": lambda: flags}, "eager")
