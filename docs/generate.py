#!/usr/bin/env python3
"""Write docs/passes.md and docs/dialect.md from the .td files (`make docs`).

With --check nothing is written; exits 1 if a page differs from what its .td file says now.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
LLVM = Path("/usr/lib/llvm-22")
INCLUDE = ROOT / "midend" / "include"

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


def main() -> int:
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    stale = []
    for name, (title, generator, sources) in PAGES.items():
        text, page = generate(title, generator, sources), DOCS / name
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
