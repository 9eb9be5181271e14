"""A bundle appears whole or not at all, whatever ends the build."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from buddy.aot.compiler import write_text
from buddy.aot.errors import BundleError
from buddy.aot.staging import MANIFEST, staged


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def make(final: Path, text: str = "{}") -> None:
    with staged(final) as stage:
        (stage / MANIFEST).write_text(text)


def test_success_leaves_the_bundle_alone_in_its_folder(tmp_path: Path) -> None:
    make(tmp_path / "a" / "bundle")
    assert names(tmp_path / "a") == ["bundle"]
    assert names(tmp_path / "a" / "bundle") == [MANIFEST]


def test_an_older_bundle_is_replaced(tmp_path: Path) -> None:
    make(tmp_path / "bundle", "old")
    (tmp_path / "bundle" / "more").write_text("")
    make(tmp_path / "bundle", "new")
    assert names(tmp_path) == ["bundle"]
    assert names(tmp_path / "bundle") == [MANIFEST]
    assert (tmp_path / "bundle" / MANIFEST).read_text() == "new"


@pytest.mark.parametrize("error", [ValueError(), OSError(28, "No space left on device", "x")])
def test_a_failure_leaves_what_was_there(tmp_path: Path, error: Exception) -> None:
    make(tmp_path / "bundle", "old")
    expected = BundleError if isinstance(error, OSError) else ValueError
    with pytest.raises(expected), staged(tmp_path / "bundle") as stage:
        (stage / "half").write_text("")
        raise error
    assert names(tmp_path) == ["bundle"]
    assert names(tmp_path / "bundle") == [MANIFEST]


def test_what_is_no_bundle_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter").write_text("")
    with pytest.raises(BundleError, match="not a bundle"):
        make(tmp_path / "thesis")
    (tmp_path / "file").write_text("")
    with pytest.raises(BundleError, match="not a directory"):
        make(tmp_path / "file")
    assert names(tmp_path) == ["file", "thesis"]


@pytest.mark.parametrize("place", ["/proc/bundle", "/dev/null/bundle"])
def test_a_place_that_cannot_be_written_is_one_line(place: str) -> None:
    with pytest.raises(BundleError) as caught:
        make(Path(place))
    assert str(caught.value).startswith(("/proc", "/dev"))


def test_a_text_is_written_to_a_pipe_and_does_not_replace_it(tmp_path: Path) -> None:
    """The same way a device in /dev would be lost to root."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_text(pipe, "text")
    assert os.read(reader, 10) == b"text"
    os.close(reader)
    assert pipe.is_fifo()
    with pytest.raises(BundleError, match="Is a directory"):
        write_text(tmp_path, "text")


def start_build(final: Path) -> subprocess.Popen[str]:
    """A process that is in the middle of a build."""
    code = f"""
        import pathlib, signal, time
        # A shell may have it ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        from buddy.aot.staging import staged
        with staged(pathlib.Path({str(final)!r})) as stage:
            (stage / "half").write_text("")
            print("begun", flush=True)
            time.sleep(60)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_removes_what_was_begun(tmp_path: Path, number: signal.Signals) -> None:
    process = start_build(tmp_path / "bundle")
    process.send_signal(number)
    assert process.wait(20) != 0
    assert names(tmp_path) == []


def test_a_killed_build_leaves_no_bundle_and_the_next_one_cleans_up(tmp_path: Path) -> None:
    process = start_build(tmp_path / "bundle")
    process.kill()
    process.wait(20)
    assert not (tmp_path / "bundle").exists()
    assert len(names(tmp_path)) == 1
    make(tmp_path / "bundle")
    assert names(tmp_path) == ["bundle"]


def test_a_build_leaves_another_ones_stage_alone(tmp_path: Path) -> None:
    process = start_build(tmp_path / "bundle")
    try:
        make(tmp_path / "bundle")
        assert len(names(tmp_path)) == 2
    finally:
        process.terminate()
        process.wait(20)
    assert names(tmp_path) == ["bundle"]
