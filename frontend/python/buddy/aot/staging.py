"""A directory that appears whole or not at all.

It is made beside its final place under a hidden name and renamed at the end.  Whatever ends the
work early (an error, a signal, a full disk) leaves the final place as it was; what a killed process
left under the hidden name is removed by the next one, which knows it by its lock being free.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from buddy.aot.errors import BundleError

MANIFEST = "manifest.json"
_LOCK = ".lock"


@contextlib.contextmanager
def staged(final: Path) -> Iterator[Path]:
    """Yield an empty directory that becomes `final` if the block ends without an exception.

    An older bundle at `final` is replaced; anything else that stands there is left alone and an
    error.
    """
    final = Path(os.path.abspath(final))
    check_replaceable(final)
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(final)
        stage = final.parent / f".{final.name}.building-{uuid.uuid4().hex[:8]}"
        stage.mkdir()
    except OSError as error:
        raise BundleError(f"{error.filename}: {error.strerror}") from None
    with _signals_raise(), _lock(stage):
        try:
            yield stage
            (stage / _LOCK).unlink()
            _replace(stage, final)
        except OSError as error:
            where = error.filename or final
            raise BundleError(f"{where}: {error.strerror}; nothing was written") from None
        finally:
            shutil.rmtree(stage, ignore_errors=True)


def check_replaceable(final: Path) -> None:
    """Refuse to replace what is not a bundle."""
    if final.is_dir():
        if any(final.iterdir()) and not (final / MANIFEST).is_file():
            raise BundleError(
                f"{final}: exists and is not a bundle; choose another directory or remove it"
            )
    elif os.path.lexists(final):
        raise BundleError(f"{final}: exists and is not a directory")


@contextlib.contextmanager
def _lock(stage: Path) -> Iterator[None]:
    """Hold a lock in `stage` for as long as this process works there."""
    with open(stage / _LOCK, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def _remove_abandoned(final: Path) -> None:
    for stage in final.parent.glob(f".{final.name}.building-*"):
        try:
            with open(stage / _LOCK) as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue  # someone works there, or has not come to lock it
        shutil.rmtree(stage, ignore_errors=True)


def _replace(stage: Path, final: Path) -> None:
    """Rename `stage` to `final`, putting an older directory aside first."""
    if not final.exists():
        stage.rename(final)
        return
    aside = final.parent / f".{final.name}.old-{uuid.uuid4().hex[:8]}"
    final.rename(aside)
    try:
        stage.rename(final)
    except BaseException:
        aside.rename(final)
        raise
    shutil.rmtree(aside, ignore_errors=True)


@contextlib.contextmanager
def _signals_raise() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into SystemExit, so that the stage is removed."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    try:
        before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    except ValueError:  # not the main thread: its owner decides what signals do
        yield
        return
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
