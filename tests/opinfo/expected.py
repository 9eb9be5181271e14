"""The list of cases that fail, by dtype and operator: it may only shrink."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from samples import FAILURES, Case, Outcome

LIST = Path(__file__).resolve().parent / "failures.json"
# Samples of a case, and seconds for all of them together, that the list was made with.
SAMPLES = 8
TIMEOUT = 300

# mode ("float32", "float32 dynamic") -> operator -> (kind, reason)
Known = dict[str, dict[str, tuple[str, str]]]


def load() -> Known:
    """Read the list."""
    modes = json.loads(LIST.read_text())["failures"]
    return {mode: {op: tuple(entry) for op, entry in ops.items()} for mode, ops in modes.items()}


def problem(known: Known, case: Case, outcome: Outcome) -> str | None:
    """Return what is unexpected about an outcome, or None."""
    entry = known.get(case.mode, {}).get(case.name)
    failed = outcome.status in FAILURES
    if not failed:
        return f"{outcome.status}, take it off the list" if entry else None
    if entry is None:
        return f"{outcome.status}: {outcome.detail}"
    if entry[0] != outcome.status:
        return f"{outcome.status} instead of {entry[0]}: {outcome.detail}"
    return None


def update(cases: Sequence[Case], outcomes: Sequence[Outcome], whole: bool) -> None:
    """Write the list with these outcomes; other cases stay as they were.

    whole: the cases are all those of their modes; how many passed is noted.
    """
    known = load() if LIST.exists() else {}
    counts = json.loads(LIST.read_text())["counts"] if LIST.exists() else {}
    if whole:
        for mode in {case.mode for case in cases}:
            of_mode = [o.status for c, o in zip(cases, outcomes, strict=True) if c.mode == mode]
            counts[mode] = {status: of_mode.count(status) for status in ("passed", "skipped")}
    for case, outcome in zip(cases, outcomes, strict=True):
        entries = known.setdefault(case.mode, {})
        entries.pop(case.name, None)
        if outcome.status in FAILURES:
            entries[case.name] = (outcome.status, _reason(outcome.detail))
    ordered = {mode: dict(sorted(known[mode].items())) for mode in sorted(known)}
    content = {"counts": dict(sorted(counts.items())), "failures": ordered}
    LIST.write_text(json.dumps(content, indent=1) + "\n")


def _reason(detail: str) -> str:
    """Return a detail without what changes from run to run or machine to machine."""
    detail = re.sub(r" at (/\S+|unknown source)", "", detail)
    detail = re.sub(r"Greatest .*", "", detail)
    detail = re.sub(r"/\S+/", "", detail)
    return re.sub(r"\s+", " ", detail).strip()[:160]
