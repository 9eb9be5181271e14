"""PyTorch's operator database against the list of what fails: nothing new, nothing that passes.

A part of the cases, the same in each run; BUDDY_OPINFO=all (`make check-all`) runs them all.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

pytest.importorskip("_buddy")

import expected
import samples
from worker import Worker

ALL = os.environ.get("BUDDY_OPINFO") == "all"
# Each how many-th case of a mode runs.
PARTS = {
    ("float32", False): 8,
    ("float32", True): 24,
    ("bfloat16", False): 24,
    ("int64", False): 24,
    ("bool", False): 24,
}
CASES = [
    case
    for (dtype, dynamic), part in PARTS.items()
    for case in samples.cases([dtype], dynamic)[:: 1 if ALL else part]
]


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    worker = Worker(expected.TIMEOUT)
    yield worker
    worker.close()


@pytest.fixture(scope="module")
def known() -> expected.Known:
    return expected.load()


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.mode}-{case.name}")
def test_case(case: samples.Case, worker: Worker, known: expected.Known) -> None:
    outcome = worker.check(case, expected.SAMPLES)
    problem = expected.problem(known, case, outcome)
    assert problem is None, problem
    if outcome.status == "skipped":
        pytest.skip(outcome.detail)


def test_the_list_has_no_wrong_results_and_no_crashes(known: expected.Known) -> None:
    """What is not handled has to say so."""
    entries = {f"{mode} {op}": kind for mode, ops in known.items() for op, (kind, _) in ops.items()}
    assert [name for name, kind in entries.items() if kind in ("wrong", "crash")] == []


def test_the_list_names_cases_of_the_database(known: expected.Known) -> None:
    dynamic = {mode for mode in known if mode.endswith(" dynamic")}
    for mode, ops in known.items():
        names = {case.name for case in samples.cases([mode.split()[0]], mode in dynamic)}
        assert set(ops) <= names


def test_a_wrong_backend_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison itself: results that are off, of another dtype, and no rule."""
    import buddy.backend
    from buddy.importer import UnsupportedOpsError

    infos = samples.database()
    case = samples.Case("add", "float32")

    def backend(change):  # type: ignore[no-untyped-def]
        def compile_(gm, inputs, **_):  # type: ignore[no-untyped-def]
            return lambda *args: [change(result) for result in gm(*args)]

        return compile_

    def refuses(gm, inputs, **_):  # type: ignore[no-untyped-def]
        raise UnsupportedOpsError([])

    for fake, status in (
        (backend(lambda x: x), "passed"),
        (backend(lambda x: x + 1), "wrong"),
        (backend(lambda x: x.double()), "wrong"),
        (refuses, "unsupported"),
    ):
        monkeypatch.setattr(buddy.backend, "buddy_backend", fake)
        assert samples.check(infos, case, 2).status == status
