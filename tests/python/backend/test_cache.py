"""The cache on disk: what is kept, what is rebuilt, and what processes do to each other."""

from __future__ import annotations

import multiprocessing
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from buddy.backend import cache


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BUDDY_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("BUDDY_CACHE_SIZE", raising=False)
    cache.counters.clear()
    return tmp_path / "cache"


class Builder:
    """Writes `content` and counts how often."""

    def __init__(self, content: bytes = b"library"):
        self.content, self.runs = content, 0

    def __call__(self, path: Path) -> bytes:
        self.runs += 1
        path.write_bytes(self.content)
        return self.content[:3]


def get(key: str, build: Builder) -> bytes:
    with cache.library(key, build) as (path, notes):
        assert notes == build.content[:3]
        return path.read_bytes()[: len(build.content)]


KEY, OTHER = cache.make_key(["a"]), cache.make_key(["b"])


def test_second_lookup_is_a_hit(root: Path) -> None:
    build = Builder()
    assert get(KEY, build) == get(KEY, build) == b"library"
    assert build.runs == 1
    assert (cache.counters.hits, cache.counters.misses) == (1, 1)


def test_keys_depend_on_where_parts_end() -> None:
    assert cache.make_key(["ab", "c"]) != cache.make_key(["a", "bc"])
    assert cache.make_key(["ab", "c"]) == cache.make_key([b"ab", b"c"])


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "garbage"])
def test_torn_entry_is_rebuilt(root: Path, damage: str) -> None:
    build = Builder(b"x" * 1000)
    get(KEY, build)
    path = root / f"{KEY}.so"
    data = bytearray(path.read_bytes())
    if damage == "truncated":
        data = data[:700]
    elif damage == "flipped":
        data[500] ^= 1
    elif damage == "empty":
        data.clear()
    else:
        data = bytearray(os.urandom(2000))
    path.write_bytes(data)
    assert get(KEY, build) == b"x" * 1000
    assert build.runs == 2
    get(KEY, build)
    assert build.runs == 2


def test_entry_of_another_key_is_rebuilt(root: Path) -> None:
    get(KEY, Builder(b"one"))
    os.rename(root / f"{KEY}.so", root / f"{OTHER}.so")
    assert get(OTHER, Builder(b"two")) == b"two"


def test_failed_build_leaves_nothing(root: Path) -> None:
    def build(path: Path) -> bytes:
        path.write_bytes(b"half")
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"), cache.library(KEY, build):
        pass
    assert [file.name for file in root.iterdir() if file.is_file()] == []
    assert get(KEY, Builder()) == b"library"


def test_longest_unused_entries_are_evicted(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [cache.make_key([str(i)]) for i in range(4)]
    for age, key in enumerate(keys[:3]):
        get(key, Builder(b"x" * 1000))
        os.utime(root / f"{key}.so", (1000 + age, 1000 + age))
    get(keys[0], Builder(b"x" * 1000))  # used now
    monkeypatch.setenv("BUDDY_CACHE_SIZE", "3K")  # two entries with their trailers
    get(keys[3], Builder(b"x" * 1000))
    left = {file.stem for file in root.glob("*.so")}
    assert left == {keys[0], keys[3]}


def test_entry_in_use_is_not_evicted(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert KEY[:2] != OTHER[:2]
    get(KEY, Builder(b"x" * 1000))
    monkeypatch.setenv("BUDDY_CACHE_SIZE", "0")
    with cache.library(KEY, Builder()) as (path, _):
        get(OTHER, Builder(b"x" * 1000))
        assert path.exists()


def test_temporary_files_of_dead_processes_are_removed(root: Path) -> None:
    get(KEY, Builder())
    old, young = root / ".old.so", root / ".young.so"
    for file in (old, young):
        file.write_bytes(b"half")
    os.utime(old, (1, 1))
    get(OTHER, Builder())
    assert not old.exists() and young.exists()


def _slow_build(path: Path) -> bytes:
    time.sleep(0.2)
    path.write_bytes(b"library")
    return b""


def _lookup(_: int) -> tuple[int, bytes]:
    cache.counters.clear()
    with cache.library(KEY, _slow_build) as (path, _):
        return cache.counters.misses, path.read_bytes()[:7]


def test_processes_build_an_entry_once(root: Path) -> None:
    with multiprocessing.get_context("fork").Pool(4) as pool:
        results = pool.map(_lookup, range(4), chunksize=1)
    assert sum(misses for misses, _ in results) == 1
    assert {content for _, content in results} == {b"library"}


def test_unusable_directory_is_one_clear_error(root: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file, not a folder")
    with pytest.raises(cache.CacheError, match="cannot be used.*set BUDDY_CACHE_DIR"):
        get(KEY, Builder())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_directory_without_write_permission(root: Path) -> None:
    root.mkdir()
    root.chmod(stat.S_IRUSR | stat.S_IXUSR)
    with pytest.raises(cache.CacheError, match="Permission denied"):
        get(KEY, Builder())


def test_bad_size_names_the_variable(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUDDY_CACHE_SIZE", "lots")
    with pytest.raises(cache.CacheError, match="BUDDY_CACHE_SIZE=lots"):
        get(KEY, Builder())


COMPILE_ON_A_FULL_DISK = """
import sys
import torch
from buddy.backend import CacheError, buddy_backend
f = torch.compile(lambda x, y: (torch.softmax(x @ y, -1) + 1).tanh(), backend=buddy_backend,
                  options={"fallback": "error"})
try:
    f(torch.randn(5, 7), torch.randn(7, 9))
except Exception as error:
    print("No space left on device" in str(error) and "CacheError" in str(error), error)
else:
    print("compiled")
"""


@pytest.mark.parametrize("size", ["12k", "24k", "32k", "40k", "64m"])
def test_full_disk_is_one_clear_error(tmp_path: Path, size: str) -> None:
    """Wherever in a compilation the space ends."""
    pytest.importorskip("_buddy")
    (tmp_path / "cache").mkdir()
    mount = f"mount -t tmpfs -o size={size} none {tmp_path}/cache"
    space = ["unshare", "-r", "-m", "sh", "-c"]
    if subprocess.run([*space, mount], capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    (tmp_path / "run.py").write_text(COMPILE_ON_A_FULL_DISK)
    done = subprocess.run(
        [*space, f"{mount} && exec {sys.executable} {tmp_path}/run.py"],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "BUDDY_CACHE_DIR": str(tmp_path / "cache"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.startswith("compiled" if size == "64m" else "True"), done.stdout
