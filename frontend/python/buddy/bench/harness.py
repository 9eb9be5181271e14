"""What every `buddy bench` subject shares: rounds, medians, the report, the table.

A `Case` says what is computed, an implementation is a function of no arguments that computes it
once.  The implementations of a case take turns in each round, and the medians over the rounds are
reported.  A call is timed from Python: its overhead (about a microsecond each for ours and for
torch's operators) is in all of them.
"""

from __future__ import annotations

import contextlib
import gc
import json
import math
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Protocol, TypeVar

from buddy.aot.errors import BundleError
from buddy.aot.tables import aligned

OURS = "buddy"
# The shortest time worth reading a clock for.
SAMPLE_SECONDS = 0.02
_MOST_CALLS = 10_000

Call = Callable[[], Any]
_T = TypeVar("_T")


@dataclass(frozen=True)
class Case:
    """One thing that all implementations compute.

    dtype: short name; whose FMA peak counts.
    flops: a multiplication and an addition are two; 0 if only the bytes count.
    bytes: what must at least be read and written, in bytes; 0 if not counted.
    group: cases whose geometric mean is taken apart.
    items, unit: what one call handles, for a rate ("128 tokens").
    cold: the calls take other memory in turns, so that the caches do not help.
    """

    name: str
    dtype: str
    flops: float = 0
    bytes: float = 0
    group: str = ""
    items: float = 0
    unit: str = ""
    cold: bool = False


class PeakSource(Protocol):
    """The machine's limits; each is measured when first asked for."""

    def fma(self, dtype: str) -> float:
        """Operations a second in registers; a multiplication and an addition are two."""

    def read(self) -> float:
        """Bytes a second read from memory."""

    @property
    def cache_bytes(self) -> int:
        """The last cache's."""


@dataclass
class Result:
    """The samples of one case: seconds a call, of each implementation, ours among them."""

    case: Case
    seconds: dict[str, list[float]] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)


def measure(
    case: Case,
    implementations: Mapping[str, Call],
    rounds: int,
    sample_seconds: float = SAMPLE_SECONDS,
) -> Result:
    """Time the implementations in turns.

    A sample is as many calls as take `sample_seconds`, after others for half of that time that
    do not count: they wake the implementation's own threads, outlast the spinning of the one's
    before (milliseconds of libgomp's), and fill the caches.
    """
    counts = {name: _calls(call, sample_seconds) for name, call in implementations.items()}
    result = Result(case, {name: [] for name in implementations})
    names = list(implementations)
    with uncollected():
        for number in range(rounds):
            progress(f"{case.name} {number + 1}/{rounds}")
            for name in in_turns(names, number):
                call = implementations[name]
                result.seconds[name].append(_sample(call, counts[name], sample_seconds / 2))
    progress("")
    return result


def in_turns(names: list[str], number: int) -> list[str]:
    """The order of a round: another one begins each time, as what ran before leaves its mark."""
    first = number % len(names)
    return names[first:] + names[:first]


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Keep Python's garbage collector out of the samples."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _calls(call: Call, sample_seconds: float) -> int:
    call()
    start = time.perf_counter()
    call()
    once = max(time.perf_counter() - start, 1e-9)
    return min(max(math.ceil(sample_seconds / once), 1), _MOST_CALLS)


def _sample(call: Call, count: int, settling_seconds: float) -> float:
    settled = time.perf_counter() + settling_seconds
    call()
    while time.perf_counter() < settled:
        call()
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def progress(text: str) -> None:
    """Show where a run is, on a terminal only; the empty text clears the line."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K  {text}" if text else "\r\x1b[K", end="", file=sys.stderr, flush=True)


def geomean(values: Iterable[float]) -> float | None:
    """The geometric mean; None of nothing."""
    logs = [math.log(value) for value in values]
    return math.exp(math.fsum(logs) / len(logs)) if logs else None


def select(names: Sequence[_T], patterns: Sequence[str], key: Callable[[_T], str]) -> list[_T]:
    """Those whose name matches one of the patterns (all, if there are none), in their order."""
    for pattern in patterns:
        if not any(fnmatchcase(key(item), pattern) for item in names):
            known = ", ".join(key(item) for item in names)
            raise BundleError(f"--cases {pattern}: no such case; there are {known}")
    return [
        item
        for item in names
        if not patterns or any(fnmatchcase(key(item), pattern) for pattern in patterns)
    ]


# ---- the machine ------------------------------------------------------------------------------


def prepare(threads: int, cpus: Sequence[int] | None, pinned: bool) -> list[int]:
    """Fix the thread count and the cores, which are returned; before an OpenMP runtime is loaded.

    pinned: several threads keep to a core each, in every OpenMP runtime of this process: left to
    itself Linux wakes the second thread of a pool on the first one's core while another pool's
    thread still spins on the other, and moves it milliseconds later.  Affinity that the user's
    environment asks for stays.
    """
    if cpus:
        try:
            os.sched_setaffinity(0, cpus)
        except OSError:
            mine = ",".join(map(str, sorted(os.sched_getaffinity(0))))
            raise BundleError(f"--cpus: this process may use {mine} only") from None
    os.environ["OMP_NUM_THREADS"] = str(threads)
    allowed = sorted(os.sched_getaffinity(0))
    if pinned and 1 < threads <= len(allowed):
        allowed = allowed[:threads]
        _pin(allowed)
    import torch

    torch.set_num_threads(threads)
    return allowed


def _pin(cpus: Sequence[int]) -> None:
    """Tell libgomp (PyTorch's) and libomp (ours) to keep a thread to each of these cores."""
    if {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"} & set(os.environ):
        return
    os.environ["GOMP_CPU_AFFINITY"] = " ".join(map(str, cpus))
    # libgomp, loaded first, has narrowed the process's mask to the first core by then.
    places = ",".join(map(str, cpus))
    os.environ["KMP_AFFINITY"] = f"norespect,granularity=fine,proclist=[{places}],explicit"
    # It would warn of the other runtime's variable.
    os.environ["KMP_WARNINGS"] = "off"


def machine(threads: int, cpus: Sequence[int]) -> dict[str, Any]:
    """What the figures were taken on, `cpus` among them."""
    import torch

    from buddy import __version__
    from buddy.aot.compiler import llvm_version

    return {
        "cpu": _cpu_name(),
        "cpus": list(cpus),
        "threads": threads,
        "load": round(os.getloadavg()[0], 2),
        "versions": {"buddy": __version__, "llvm": llvm_version(), "torch": torch.__version__},
    }


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    found = {
        key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)
    }
    name = found.get("model name") or found.get("uarch") or "unknown"
    model = " ".join(f"{key.split()[-1]} {found[key]}" for key in ("cpu family", "model")
                     if key in found)  # fmt: skip
    return f"{name} ({model})" if model else name


# ---- the report -------------------------------------------------------------------------------


def report(
    command: str,
    results: Sequence[Result],
    *,
    machine: Mapping[str, Any],
    rounds: int,
    peaks: PeakSource | None,
    **more: Any,
) -> dict[str, Any]:
    """The object that `--json` prints.

    cases[].ratio: the best peer's median time by ours, > 1 if we are faster; null without a peer.
    cases[].percent: of the roof, which is the larger of flops by the FMA peak and bytes by the
        read peak; cases[].bound says which; cases[].in_cache: the bytes fit the last cache, so
        that the memory is no limit and more than 100 % are possible.
    geomean: of the ratios, of all cases and of each group.
    """
    cases = [_case_record(result, peaks) for result in results]
    rated = [case for case in cases if case["ratio"] is not None]
    groups = dict.fromkeys(case["group"] for case in rated if case["group"])
    means = {"all": geomean(case["ratio"] for case in rated)}
    for group in groups:
        means[group] = geomean(case["ratio"] for case in rated if case["group"] == group)
    return {
        "command": command,
        "machine": dict(machine),
        "rounds": rounds,
        "peaks": None if peaks is None else _peaks_record(results, peaks),
        "cases": cases,
        "geomean": means,
        **more,
    }


def _peaks_record(results: Sequence[Result], peaks: PeakSource) -> dict[str, Any]:
    dtypes = dict.fromkeys(result.case.dtype for result in results if result.case.flops)
    return {
        "gflops": {dtype: peaks.fma(dtype) / 1e9 for dtype in dtypes},
        "read_gbs": peaks.read() / 1e9,
    }


def _case_record(result: Result, peaks: PeakSource | None) -> dict[str, Any]:
    case = result.case
    medians = {name: statistics.median(times) for name, times in result.seconds.items()}
    peers = {name: seconds for name, seconds in medians.items() if name != OURS}
    best = min(peers, key=peers.__getitem__) if peers else None
    record: dict[str, Any] = {
        "name": case.name,
        "dtype": case.dtype,
        "group": case.group,
        "flops": case.flops,
        "bytes": case.bytes,
        "ms": {name: seconds * 1e3 for name, seconds in medians.items()},
        "best_ms": {name: min(times) * 1e3 for name, times in result.seconds.items()},
        "best_peer": best,
        "ratio": peers[best] / medians[OURS] if best and OURS in medians else None,
        "bound": None,
        "percent": None,
        "in_cache": False,
        **result.extra,
    }
    if case.items:
        record["unit"] = case.unit
        record["rate"] = {name: case.items / seconds for name, seconds in medians.items()}
    if peaks is not None and (case.flops or case.bytes):
        limits = {
            "fma": case.flops / peaks.fma(case.dtype) if case.flops else 0.0,
            "read": case.bytes / peaks.read() if case.bytes else 0.0,
        }
        record["bound"] = max(limits, key=limits.__getitem__)
        roof = limits[record["bound"]]
        record["percent"] = {name: 100 * roof / seconds for name, seconds in medians.items()}
        fits = case.bytes <= peaks.cache_bytes and not case.cold
        record["in_cache"] = record["bound"] == "read" and fits
    return record


def table(record: Mapping[str, Any]) -> str:
    """The report as text."""
    host = record["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in host["versions"].items())
    lines = [
        f"{record['command']}: {host['cpu']}, cores {','.join(map(str, host['cpus']))}, "
        f"{host['threads']} threads, load {host['load']}; {versions}"
    ]
    if not record["cases"]:
        return lines[0]
    if record["peaks"]:
        peaks = [f"{peak:.1f} GFLOP/s {name}" for name, peak in record["peaks"]["gflops"].items()]
        peaks.append(f"{record['peaks']['read_gbs']:.1f} GB/s read")
        lines.append(f"peaks: {', '.join(peaks)}")
    lines.append(f"milliseconds, medians of {record['rounds']} rounds")
    cases = record["cases"]
    names = list(dict.fromkeys(name for case in cases for name in case["ms"]))
    rows = [["case", *names, "ratio", "% of peak"]]
    for case in cases:
        ratio = "-" if case["ratio"] is None else f"{case['ratio']:.2f}"
        rows.append([case["name"], *(_cell(case, name) for name in names), ratio, _percent(case)])
    lines += columns(rows)
    if any(case["in_cache"] for case in cases):
        lines.append("* fits the last cache: memory is no limit")
    means = record["geomean"]
    counts = Counter(case["group"] for case in cases)
    for group, mean in means.items():
        # What would only repeat a row or the line before says nothing.
        if mean is not None and (group == "all" or 1 < counts[group] < len(cases)):
            lines.append(f"geomean of the ratios, {group}: {mean:.3f} (> 1: buddy is faster)")
    return "\n".join(lines)


def _cell(case: Mapping[str, Any], name: str) -> str:
    if name not in case["ms"]:
        return "-"
    text = f"{case['ms'][name]:.4g}" if case["ms"][name] < 1000 else f"{case['ms'][name]:.0f}"
    if "rate" in case:
        text += f" ({case['rate'][name]:.1f} {case['unit']}/s)"
    return text


def _percent(case: Mapping[str, Any]) -> str:
    if not case["percent"] or OURS not in case["percent"]:
        return "-"
    star = "*" if case["in_cache"] else ""
    return f"{case['percent'][OURS]:.0f}{star} {case['bound']}"


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines: names first, figures after them."""
    return aligned(rows, right=range(1, len(rows[0])))


def publish(record: Mapping[str, Any], *, as_json: bool, plot: Path | None, text: str = "") -> None:
    """Print the report; draw it if asked to. `text`: lines after the table."""
    if plot is not None:
        from buddy.bench.plot import draw

        draw(record, plot)
    if as_json:
        print(json.dumps(record))
    else:
        print(table(record) + (f"\n{text}" if text else ""))
