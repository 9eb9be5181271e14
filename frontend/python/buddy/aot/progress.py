"""Progress lines on stderr: what is being done, then how long it took."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator


class Progress:
    """Prints a line for each step; `quiet` prints nothing."""

    def __init__(self, quiet: bool = False) -> None:
        self._quiet = quiet
        self._terminal = sys.stderr.isatty()
        self.seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Time the block under the name `what`."""
        start = time.monotonic()
        self._print(f"  {what} ...", end="")
        try:
            yield
        except BaseException:
            self._print(" failed")
            raise
        self.seconds[what] = time.monotonic() - start
        self._print(f" {self.seconds[what]:.1f} s")

    def part(self, what: str, done: int, total: int) -> None:
        """Say how far the current step is; only a terminal shows it."""
        if self._terminal and total:
            self._print(
                f"\r  {what} ... {100 * done // total} %", end="\r" if done == total else ""
            )
            if done == total:
                self._print(f"  {what} ...      \r  {what} ...", end="")

    def line(self, text: str) -> None:
        """Print a line of its own."""
        self._print(text)

    def _print(self, text: str, end: str = "\n") -> None:
        if not self._quiet:
            print(text, end=end, file=sys.stderr, flush=True)
