#!/usr/bin/env python3
"""Run the compiler over PyTorch's operator database and compare with the list of known failures.

    python tests/opinfo/sweep.py [--dtypes float32,int64] [--dynamic] [--ops add,mm] [--update]

Prints each case that the list does not expect, then a line a dtype; exits 1 if there is any.
--update rewrites the list for the cases that were run.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import threading
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TextIO

sys.path.insert(0, str(Path(__file__).resolve().parent))

import expected
import samples
from worker import Worker


def run(
    cases: list[samples.Case], count: int, jobs: int, timeout: float, log: TextIO | None
) -> list[samples.Outcome]:
    """Return the cases' outcomes, with progress on a terminal; failures go to the log at once."""
    own = threading.local()
    workers: list[Worker] = []
    done = 0

    def check(case: samples.Case) -> samples.Outcome:
        nonlocal done
        if not hasattr(own, "worker"):
            own.worker = Worker(timeout)
            workers.append(own.worker)
        outcome = own.worker.check(case, count)
        done += 1
        if log and outcome.status in samples.FAILURES:
            log.write(f"{outcome.status}\t{case.mode}\t{case.name}\t{outcome.detail}\n")
            log.flush()
        if sys.stderr.isatty():
            print(f"\r\x1b[K{done}/{len(cases)} {case.name}", end="", file=sys.stderr, flush=True)
        return outcome

    try:
        with ThreadPoolExecutor(jobs) as pool:
            outcomes = list(pool.map(check, cases))
    finally:
        for worker in workers:
            worker.close()
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dtypes", default="float32", help="comma-separated; default float32")
    parser.add_argument("--ops", default="", help="names or full names; default all")
    parser.add_argument("--dynamic", action="store_true", help="compile for symbolic sizes")
    parser.add_argument("--samples", type=int, default=expected.SAMPLES, help="a case, at most")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--timeout", type=float, default=expected.TIMEOUT, help="seconds a case")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each N-th case only")
    parser.add_argument("--update", action="store_true", help="write the list anew")
    parser.add_argument("--log", type=Path, help="write every failure with its detail here")
    args = parser.parse_args()
    cases = samples.cases(args.dtypes.split(","), args.dynamic)[:: args.every]
    wanted = set(filter(None, args.ops.split(",")))
    if wanted:
        infos = samples.database()
        cases = [case for case in cases if {case.name, infos[case.name].name} & wanted]
    if not cases:
        parser.error("no such case")
    with open(args.log, "w") if args.log else contextlib.nullcontext() as log:
        outcomes = run(cases, args.samples, args.jobs, args.timeout, log)
    if args.update:
        expected.update(cases, outcomes, whole=not wanted and args.every == 1)
    known = expected.load()
    surprises = 0
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for case, outcome in zip(cases, outcomes, strict=True):
        counts[case.mode][outcome.status] += 1
        problem = expected.problem(known, case, outcome)
        if problem:
            surprises += 1
            print(f"{case.mode} {case.name}: {problem}")
    for mode, statuses in counts.items():
        print(f"{mode}: " + ", ".join(f"{n} {status}" for status, n in statuses.most_common()))
    return 1 if surprises else 0


if __name__ == "__main__":
    sys.exit(main())
