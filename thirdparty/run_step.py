#!/usr/bin/env python3
"""Run one long command of the set-up: its output goes to a log, its progress to the terminal.

    run_step.py LABEL LOG COMMAND [ARGUMENT ...]

On a terminal one line shows the label, the seconds gone by and the command's latest line;
elsewhere a line is printed at the start, every 30 seconds and at the end. A failure prints the end
of the log and exits with the command's code. Needs nothing but Python's standard library.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO

TAIL_LINES = 40
ERROR_LINES = 5
HEARTBEAT_SECONDS = 30.0


def copy_output(stream: IO[str], log: IO[str], latest: list[str]) -> None:
    """Copy `stream` to `log`, leaving its last non-empty line in `latest[0]`."""
    for line in stream:
        log.write(line)
        log.flush()
        if line.strip():
            latest[0] = line.strip()


def main(arguments: list[str]) -> int:
    label, log_name, command = arguments[0], Path(arguments[1]), arguments[2:]
    log_name.parent.mkdir(parents=True, exist_ok=True)
    on_terminal = sys.stdout.isatty()
    start = time.monotonic()
    latest = [""]
    if not on_terminal:
        print(f"{label} ...", flush=True)
    with log_name.open("w", errors="replace") as log:
        log.write(f"$ {' '.join(command)}\n")
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
        except OSError as error:
            print(f"{label}: cannot run {command[0]}: {error.strerror}", file=sys.stderr)
            return 127
        assert process.stdout is not None
        reader = threading.Thread(target=copy_output, args=(process.stdout, log, latest))
        reader.start()
        next_beat = HEARTBEAT_SECONDS
        try:
            while reader.is_alive():
                reader.join(0.5)
                seconds = time.monotonic() - start
                if on_terminal:
                    width = shutil.get_terminal_size().columns - 1
                    print(
                        f"\r\033[K{f'{label} {seconds:4.0f} s  {latest[0]}'[:width]}",
                        end="",
                        flush=True,
                    )
                elif reader.is_alive() and seconds >= next_beat:
                    print(f"{label}: {seconds:.0f} s  {latest[0][:100]}", flush=True)
                    next_beat += HEARTBEAT_SECONDS
        except KeyboardInterrupt:
            process.terminate()
            process.wait()
            print(f"\n{label}: interrupted", file=sys.stderr)
            return 130
        code = process.wait()
    verdict = "done" if code == 0 else f"failed (exit {code})"
    clear = "\r\033[K" if on_terminal else ""
    print(f"{clear}{label}: {verdict}, {time.monotonic() - start:.0f} s", flush=True)
    if code != 0:
        lines = log_name.read_text(errors="replace").splitlines()
        tail = lines[-TAIL_LINES:]
        # A compiler's notes can push its errors out of the tail.
        errors = [line for line in lines[:-TAIL_LINES] if "error:" in line][:ERROR_LINES]
        print("\n".join([*errors, *tail]), file=sys.stderr)
        print(f"The whole log: {log_name}", file=sys.stderr)
    return code


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit("usage: run_step.py LABEL LOG COMMAND [ARGUMENT ...]")
    sys.exit(main(sys.argv[1:]))
