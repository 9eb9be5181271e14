#!/usr/bin/env python3
"""Run every test of a built tree and add the three runners' counts (`make check` runs this).

    run.py [--build DIR] [--jobs N] [--only lit,ctest,pytest]

Runs lit on DIR/tests/lit, CTest (GoogleTest) on DIR, and pytest on tests/python, tests/e2e and
tests/opinfo; each writes a JUnit report into DIR/reports, which is what is counted. The last line
is "N passed, N failed", with ", N skipped" if any were. A runner that fails in another way, or
that runs no test at all, counts as one failure. Exits 1 if anything failed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NO_TESTS_COLLECTED = 5  # pytest's exit code


@dataclass
class Counts:
    """How many tests passed, failed (errors included) and were skipped."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped
        )

    def __str__(self) -> str:
        text = f"{self.passed} passed, {self.failed} failed"
        return f"{text}, {self.skipped} skipped" if self.skipped else text


def count(report: Path) -> Counts:
    """Count the test cases of a JUnit report."""
    counts = Counts()
    for case in ET.parse(report).iter("testcase"):
        status, skipped = case.get("status", "run"), case.find("skipped")
        # CTest writes <skipped> for a missing program too, though it counts that as failed.
        chosen = skipped is None or skipped.get("message", "").startswith("SKIP_")
        missing = status == "notrun" and not chosen
        if case.find("failure") is not None or case.find("error") is not None or missing:
            counts.failed += 1
        elif skipped is not None or status in ("notrun", "disabled"):
            counts.skipped += 1
        else:
            counts.passed += 1
    return counts


def commands(build: Path, reports: Path, jobs: int) -> dict[str, tuple[list[str], Path]]:
    """For each runner: its command line and the report that it writes."""
    scripts = Path(sys.executable).parent
    lit, ctest, pytest = (reports / f"{name}.xml" for name in ("lit", "ctest", "pytest"))
    # A folder that does not exist yet is no error of the tests in the other.
    folders = [
        f"tests/{name}" for name in ("python", "e2e", "opinfo") if (ROOT / "tests" / name).is_dir()
    ]
    return {
        "lit": (
            [str(scripts / "lit"), "-s", "-v", f"-j{jobs}", f"--xunit-xml-output={lit}"]
            + [str(build / "tests" / "lit")],
            lit,
        ),
        "ctest": (
            ["/usr/bin/ctest", "--test-dir", str(build), "--output-on-failure", f"-j{jobs}"]
            + ["--no-tests=error", "--output-junit", str(ctest)],
            ctest,
        ),
        "pytest": (
            [sys.executable, "-m", "pytest", "-q", "-n", str(jobs), f"--junit-xml={pytest}"]
            + folders,
            pytest,
        ),
    }


def run(name: str, command: list[str], report: Path) -> tuple[Counts, str]:
    """Run one runner; return its counts and what went wrong besides failed tests, if anything."""
    print(f"\n=== {name}", flush=True)
    report.unlink(missing_ok=True)
    start = time.monotonic()
    code = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL).returncode
    seconds = time.monotonic() - start
    if not report.exists():
        return Counts(), f"{name} exited with {code} and wrote no report"
    try:
        counts = count(report)
    except ET.ParseError as error:
        return Counts(), f"{name} exited with {code} and its report cannot be read: {error}"
    print(f"=== {name}: {counts} in {seconds:.0f} s", flush=True)
    if code == NO_TESTS_COLLECTED or counts.passed + counts.failed == 0:
        return counts, f"{name} ran no test"
    if code != 0 and counts.failed == 0:
        return counts, f"{name} exited with {code} though no test failed"
    return counts, ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="the CMake build tree")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="tests at a time")
    parser.add_argument("--only", default="lit,ctest,pytest", help="runners, separated by commas")
    options = parser.parse_args()

    build = options.build.resolve()
    reports = build / "reports"
    reports.mkdir(parents=True, exist_ok=True)
    runners = commands(build, reports, options.jobs)
    names = options.only.split(",")
    if unknown := [name for name in names if name not in runners]:
        parser.error(f"no runner named {', '.join(unknown)}; there are {', '.join(runners)}")

    total, problems = Counts(), []
    for name in names:
        counts, problem = run(name, *runners[name])
        total += counts
        if problem:
            total.failed += 1  # the closing line must not read as if all were well
            problems.append(problem)
    print(flush=True)
    for problem in problems:
        print(f"run.py: {problem}", file=sys.stderr, flush=True)
    print(total, flush=True)
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
