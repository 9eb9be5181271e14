"""The harness: means, choice of cases, ratios and shares of the peak, turns."""

from __future__ import annotations

import json
import math
from collections import Counter

import pytest
from buddy.aot.errors import BundleError
from buddy.bench import harness
from buddy.bench.harness import Case, Result

MACHINE = {"cpu": "c", "cpus": [0], "threads": 1, "load": 0.0, "versions": {"torch": "t"}}


class FakePeaks:
    """100 operations and 10 bytes a second."""

    cache_bytes = 50

    def fma(self, dtype: str) -> float:
        return {"f32": 100.0, "bf16": 200.0}[dtype]

    def read(self) -> float:
        return 10.0


def report(*results: Result) -> dict:
    return harness.report("bench x", results, machine=MACHINE, rounds=3, peaks=FakePeaks())


def test_geomean() -> None:
    assert harness.geomean([]) is None
    assert harness.geomean([2.0, 8.0]) == pytest.approx(4.0)
    assert harness.geomean([0.5, 2.0]) == pytest.approx(1.0)
    # No overflow, which a plain product would have.
    assert harness.geomean([1e200] * 3) == pytest.approx(1e200)


def test_select_keeps_the_order_and_names_what_is_unknown() -> None:
    names = ["gelu 1x2", "softmax 1x2", "gelu 3x4"]
    assert harness.select(names, [], str) == names
    assert harness.select(names, ["soft*", "gelu 3*"], str) == names[1:]
    with pytest.raises(BundleError, match=r"--cases tan\*: no such case; there are gelu 1x2, "):
        harness.select(names, ["gelu*", "tan*"], str)


def test_the_median_counts_and_the_best_peer_is_compared_with() -> None:
    seconds = {"buddy": [1.0, 2.0, 9.0], "slow": [8.0, 8.0, 8.0], "fast": [3.0, 0.1, 5.0]}
    (case,) = report(Result(Case("c", "f32", flops=100), seconds))["cases"]
    assert case["ms"] == {"buddy": 2000, "slow": 8000, "fast": 3000}
    assert case["best_ms"]["fast"] == pytest.approx(100)
    assert case["best_peer"] == "fast"
    assert case["ratio"] == pytest.approx(1.5)


def test_the_roof_is_the_slower_of_both_peaks() -> None:
    by_fma = Result(Case("a", "f32", flops=100, bytes=5), {"buddy": [2.0]})
    by_read = Result(Case("b", "f32", flops=100, bytes=100), {"buddy": [20.0]})
    twice = Result(Case("c", "bf16", flops=100, bytes=6), {"buddy": [2.0]})
    cold = Result(Case("d", "bf16", bytes=6, cold=True), {"buddy": [2.0]})
    first, second, third, fourth = report(by_fma, by_read, twice, cold)["cases"]
    assert (first["bound"], first["percent"]["buddy"]) == ("fma", pytest.approx(50))
    assert (second["bound"], second["percent"]["buddy"]) == ("read", pytest.approx(50))
    assert (third["bound"], third["percent"]["buddy"]) == ("read", pytest.approx(30))
    cached = [case["in_cache"] for case in (first, second, third, fourth)]
    assert cached == [False, False, True, False]


def test_groups_have_means_of_their_own() -> None:
    def result(name: str, group: str, ratio: float) -> Result:
        return Result(Case(name, "f32", group=group), {"buddy": [1.0], "peer": [ratio]})

    alone = Result(Case("alone", "f32"), {"buddy": [1.0]})
    record = report(result("a", "g", 2.0), result("b", "g", 8.0), result("c", "h", 0.5), alone)
    assert record["geomean"] == {
        "all": pytest.approx(2.0), "g": pytest.approx(4.0), "h": pytest.approx(0.5),
    }  # fmt: skip
    assert record["cases"][3]["ratio"] is None


def test_the_report_is_json_and_every_figure_is_in_the_table() -> None:
    result = Result(
        Case("a b", "f32", flops=100, bytes=40, items=7, unit="tok"),
        {"buddy": [2.0], "peer": [3.0]},
        {"difference": 0.25},
    )
    record = json.loads(json.dumps(report(result)))
    assert set(record) == {
        "command", "machine", "rounds", "peaks", "cases", "geomean",
    }  # fmt: skip
    assert record["peaks"] == {"gflops": {"f32": 1e-7}, "read_gbs": 1e-8}
    assert set(record["cases"][0]) == {
        "name", "dtype", "group", "flops", "bytes", "ms", "best_ms", "best_peer", "ratio",
        "bound", "percent", "in_cache", "difference", "unit", "rate",
    }  # fmt: skip
    text = harness.table(record)
    for part in ("a b", "2000 (3.5 tok/s)", "3000 (2.3 tok/s)", "1.50", "200* read", "1.500"):
        assert part in text
    assert all(line == line.rstrip() for line in text.splitlines())


def test_implementations_take_turns() -> None:
    calls: list[str] = []
    implementations = {name: (lambda name=name: calls.append(name)) for name in "abc"}
    result = harness.measure(Case("c", "f32"), implementations, rounds=3, sample_seconds=1e-9)
    assert {name: len(times) for name, times in result.seconds.items()} == dict.fromkeys("abc", 3)
    assert min(min(times) for times in result.seconds.values()) > 0
    # After two calls each to count, a round is one that is not timed and one that is.
    rounds = "".join(calls[6:])
    assert rounds == "aabbcc" + "bbccaa" + "ccaabb"


def test_short_calls_are_repeated() -> None:
    calls: Counter[str] = Counter()
    harness.measure(
        Case("c", "f32"), {"a": lambda: calls.update("a")}, rounds=1, sample_seconds=1e-3
    )
    assert calls["a"] > 20


def test_a_rate_is_of_the_median() -> None:
    result = Result(Case("pp", "f32", items=128, unit="tok"), {"buddy": [1.0, 2.0, 4.0]})
    (case,) = harness.report("x", [result], machine=MACHINE, rounds=3, peaks=None)["cases"]
    assert case["rate"] == {"buddy": 64}
    assert case["percent"] is None
    assert math.isclose(case["ms"]["buddy"], 2000)
