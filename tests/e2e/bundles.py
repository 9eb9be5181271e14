"""Building bundles with the command line and running their programs."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def buddy(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command `buddy`."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(
        [sys.executable, "-m", "buddy.cli", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        **options,
    )


@dataclass(frozen=True)
class Built:
    """A bundle beside the model that it was built from."""

    source: Path
    bundle: Path
    program: Path
    model: Any

    def run(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run the bundle's program."""
        return subprocess.run(
            [str(self.program), "-m", str(self.bundle), *arguments],
            capture_output=True,
            text=options.pop("text", True),
            check=False,
            stdin=options.pop("stdin", None if "input" in options else subprocess.DEVNULL),
            **options,
        )

    def greedy(self, prompt: list[int], count: int, threads: int) -> list[int]:
        """The ids that the program generates."""
        ids = ",".join(map(str, prompt))
        done = self.run("--tokens", ids, "-n", str(count), "-t", str(threads), "--ignore-eos")
        assert done.returncode == 0, done.stderr
        return [int(token) for token in done.stdout.split()]


def make(source: str | Path, folder: Path, model: Any, *options: str) -> Built:
    """Build a bundle with the command line, and its program by running it once."""
    bundle = folder / "bundle"
    done = buddy("build", source, "-o", bundle, *options)
    assert done.returncode == 0, done.stderr
    done = buddy("run", bundle, "--help")
    assert done.returncode == 0, done.stderr
    return Built(Path(source), bundle, bundle / "llama", model)
