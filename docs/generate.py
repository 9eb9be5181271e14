#!/usr/bin/env python3
"""Write docs/passes.md and docs/dialect.md from the .td files, docs/coverage.md from the list of
PyTorch's operators that fail (`make docs`).

With --check nothing is written; exits 1 if a page differs from what its sources say now.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
LLVM = Path("/usr/lib/llvm-22")
INCLUDE = ROOT / "midend" / "include"
FAILURES = ROOT / "tests" / "opinfo" / "failures.json"

# page: (title, the generator of mlir-tblgen, the files it reads)
PAGES = {
    "passes.md": (
        "Passes",
        ["-gen-pass-doc"],
        sorted(INCLUDE.glob("buddy/Transforms/**/Passes.td")),
    ),
    "dialect.md": (
        "The buddy dialect",
        ["-gen-dialect-doc", "-dialect=buddy"],
        [INCLUDE / "buddy" / "Dialect" / "BuddyOps.td"],
    ),
}


def generate(title: str, generator: list[str], sources: list[Path]) -> str:
    """The text of one page; leaves with mlir-tblgen's own message if a .td file has an error."""
    parts = [f"# {title}\n"]
    for source in sources:
        command = [f"{LLVM}/bin/mlir-tblgen", *generator, str(source)]
        command += ["-I", f"{LLVM}/include", "-I", str(INCLUDE), "-I", str(source.parent)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stderr)
        name = source.relative_to(ROOT)
        parts.append(f"<!-- From {name} by `make docs`; edit that file instead. -->\n{done.stdout}")
    text = "\n".join(parts)
    return "\n".join(line.rstrip() for line in text.splitlines()).rstrip() + "\n"


_COVERAGE = """# Coverage of PyTorch's operators

<!-- From {source} by `make docs`; edit nothing here. -->

PyTorch describes its operators and inputs to try them on in a database, OpInfo. Each operator is
compiled at each dtype, up to eight of its inputs, with `fullgraph=True` and
`options={{"fallback": "error"}}`, and compared with eager by PyTorch's own tolerances; beyond them
a result passes if its error against eager in f64 is at most four times eager's own (1.5 times for
bf16), or if it differs in what PyTorch leaves open, such as which of equal elements an index
names. A case counts as the first of its inputs that fails. Skipped: eager refuses the inputs, the
result is random, or Dynamo cannot trace them for any backend. *dynamic*: for symbolic sizes.

    make check-all                                  # all cases
    python tests/opinfo/sweep.py --dtypes int64     # those of one dtype

A mode without a line in the table has been run in part only, so its list may lack failures.
The list of failures may only shrink: a case that passes although it is listed fails the tests.
How to add an operator: [operators.md](operators.md).
"""


def coverage() -> str:
    """The text of docs/coverage.md."""
    content = json.loads(FAILURES.read_text())
    counts, failures = content["counts"], content["failures"]
    parts = [_COVERAGE.format(source=FAILURES.relative_to(ROOT))]
    rows = ["| inputs | passed | failed | skipped | passed of those compared |", "| --- " * 5 + "|"]
    for mode, count in counts.items():
        passed, failed = count["passed"], len(failures.get(mode, {}))
        share = 100 * passed / max(passed + failed, 1)
        rows.append(f"| {mode} | {passed} | {failed} | {count['skipped']} | {share:.1f} % |")
    parts.append("\n".join(rows) + "\n")
    for mode, ops in failures.items():
        rows = [f"## {mode}\n", "| operator | kind | reason |", "| --- | --- | --- |"]
        for op, (kind, reason) in ops.items():
            escaped = reason.replace("|", "\\|")
            rows.append(f"| `{op}` | {kind} | {escaped} |")
        parts.append("\n".join(rows) + "\n")
    return "\n".join(parts)


def main() -> int:
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    stale = []
    pages = {name: generate(*how) for name, how in PAGES.items()}
    pages["coverage.md"] = coverage()
    for name, text in pages.items():
        page = DOCS / name
        if page.exists() and page.read_text() == text:
            continue
        stale.append(name)
        if not check:
            page.write_text(text)
            print(f"wrote docs/{name}")
    if check and stale:
        print(f"out of date: {', '.join(stale)}; run `make docs`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
