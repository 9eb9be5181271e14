"""Compiled libraries on disk, shared by all processes of a user.

An entry is one file `KEY.so`: the library and, behind it, notes of its builder and a trailer with
the key and a checksum of all before it (loaders ignore what follows an ELF image). So an entry
appears by one rename and is recognised as torn, or as another's, by itself. Whoever looks up or
builds an entry holds a lock on one of a fixed number of lock files; whoever evicts tries that lock
and skips entries in use.

    BUDDY_CACHE_DIR    where it lies; default ~/.cache/buddy
    BUDDY_CACHE_SIZE   bytes it may hold, suffixes K, M, G allowed; default 4G
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from . import logs

_MAGIC = b"BUDDY-CACHE-2\n"
_TRAILER = len(_MAGIC) + 64  # magic, key, SHA-256 of all before the checksum
_NOTES_SIZE = 8  # bytes that hold the length of the notes
_STALE_SECONDS = 3600  # a temporary file of this age belongs to a process that died
# What a write fails with where there is no space (left for this user, or for files of this size).
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class CacheError(RuntimeError):
    """The cache directory cannot be used."""


@dataclass
class Counters:
    """What the backend did in this process.

    hits, misses: lookups in the cache on disk.
    compiles: runs of the pass pipeline and code generator; links: runs of the linker.
    """

    hits: int = 0
    misses: int = 0
    compiles: int = 0
    links: int = 0

    def clear(self) -> None:
        """Set all to 0."""
        self.hits = self.misses = self.compiles = self.links = 0


counters = Counters()


def directory() -> Path:
    """Return the cache directory (which may not exist yet)."""
    if path := os.environ.get("BUDDY_CACHE_DIR"):
        return Path(path)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "buddy"


def size_limit() -> int:
    """Return how many bytes the cache may hold."""
    text = os.environ.get("BUDDY_CACHE_SIZE", "4G")
    match = re.fullmatch(r"(\d+)([KMG]?)", text.strip().upper())
    if match is None:
        raise CacheError(f"BUDDY_CACHE_SIZE={text}: a number of bytes is needed, such as 4G")
    return int(match[1]) * _UNITS[match[2]]


def make_key(parts: Iterable[bytes | str]) -> str:
    """Return the key (64 hex digits) of a sequence of parts."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        # With its length, so that moving a byte between parts gives another key.
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


@contextlib.contextmanager
def library(
    key: str, build: Callable[[Path], bytes], rebuild: bool = False
) -> Iterator[tuple[Path, bytes]]:
    """Yield the path of the library for a key, and the notes on it.

    It is built by `build(path)`, which returns the notes, if it is not there. The file cannot be
    evicted within the `with` block; load it there. rebuild: build in any case.
    """
    root = directory()
    try:
        (root / "locks").mkdir(parents=True, exist_ok=True)
        with _locked(_lock_path(root, key)):
            path = root / f"{key}.so"
            if not rebuild and _is_intact(path, key):
                counters.hits += 1
                os.utime(path)  # recently used
                logs.codegen.debug("cache hit: %s", path)
            else:
                counters.misses += 1
                logs.codegen.debug("cache miss: %s", path)
                _store(path, key, build)
                _evict(root, keep=path)
            yield path, _notes(path)
    except OSError as error:
        # A write that fails for want of space names no file.
        if error.errno not in FULL and not str(error.filename).startswith(str(root)):
            raise
        where = f": {error.filename}" if error.filename else ""
        raise CacheError(
            f"the cache directory {root} cannot be used ({error.strerror}{where}); "
            "set BUDDY_CACHE_DIR to another one"
        ) from error


def _lock_path(root: Path, key: str) -> Path:
    return root / "locks" / key[:2]


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        # Explicitly: a child forked meanwhile holds a copy of the descriptor.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _trailer(image: bytes, key: str) -> bytes:
    head = _MAGIC + bytes.fromhex(key)
    digest = hashlib.sha256(image)
    digest.update(head)
    return head + digest.digest()


def _is_intact(path: Path, key: str) -> bool:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return False
    if len(data) > _TRAILER and data[-_TRAILER:] == _trailer(data[:-_TRAILER], key):
        return True
    logs.codegen.debug("torn or foreign cache entry, rebuilt: %s", path)
    return False


def _notes(path: Path) -> bytes:
    data = path.read_bytes()[:-_TRAILER]
    size = int.from_bytes(data[-_NOTES_SIZE:], "little")
    return data[-_NOTES_SIZE - size : -_NOTES_SIZE]


def _store(path: Path, key: str, build: Callable[[Path], bytes]) -> None:
    temporary = path.with_name(f".{key}.{os.getpid()}.{time.monotonic_ns()}.so")
    try:
        notes = build(temporary)
        notes += len(notes).to_bytes(_NOTES_SIZE, "little")
        with open(temporary, "r+b") as file:
            image = file.read()
            file.write(notes + _trailer(image + notes, key))
            file.flush()
            os.fsync(file.fileno())
        # Renamed over, never rewritten: another process may have the old file mapped.
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()


def _evict(root: Path, keep: Path) -> None:
    """Remove the entries longest unused until the cache is within its limit."""
    entries, total = [], 0
    now = time.time()
    for file in root.iterdir():
        if not file.is_file():
            continue
        with contextlib.suppress(FileNotFoundError):
            status = file.stat()
            if file.name.startswith("."):
                if now - status.st_mtime > _STALE_SECONDS:
                    file.unlink()
                continue
            if file.suffix == ".so":
                entries.append((status.st_mtime, status.st_size, file))
                total += status.st_size
    limit = size_limit()
    own_lock = _lock_path(root, keep.stem)
    for _, size, file in sorted(entries):
        if total <= limit:
            return
        if file != keep and _remove_unused(file, _lock_path(root, file.stem), own_lock):
            logs.codegen.debug("evicted: %s", file)
            total -= size


def _remove_unused(file: Path, lock: Path, own_lock: Path) -> bool:
    if lock == own_lock:  # held by this call; nobody else uses entries below it
        file.unlink(missing_ok=True)
        return True
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.unlink(missing_ok=True)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
