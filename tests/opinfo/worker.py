"""A process that checks cases, replaced when it crashes or hangs."""

from __future__ import annotations

import multiprocessing
from typing import Any

from samples import Case, Outcome, serve

_START_SECONDS = 300


class Worker:
    """Checks one case at a time; `close` ends the process."""

    def __init__(self, timeout: float) -> None:
        """timeout: seconds for a case."""
        self._timeout = timeout
        self._process: Any = None
        self._pipe: Any = None

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        if not self._pipe.poll(_START_SECONDS):
            self.close()
            raise RuntimeError("a worker did not start")
        try:
            self._pipe.recv()
        except EOFError:
            self.close()
            raise RuntimeError("a worker died at its start; its error stands above") from None

    def check(self, case: Case, samples: int) -> Outcome:
        """Return a case's outcome."""
        if self._process is None:
            self._start()
        try:
            self._pipe.send((case, samples))
            if not self._pipe.poll(self._timeout):
                self.close()
                return Outcome("timeout", f"more than {self._timeout:g} s")
            outcome: Outcome = self._pipe.recv()
            return outcome
        except (EOFError, ConnectionError):
            self._process.join()
            code = self._process.exitcode
            self.close()
            return Outcome("crash", f"signal {-code}" if code < 0 else f"exit code {code}")

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
            self._process = None
