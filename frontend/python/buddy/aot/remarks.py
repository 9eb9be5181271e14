"""What passes told of a module, as text: what stayed scalar, what lies where in memory.

In: the list that `_buddy.Module.remarks()` gives; `buddy/Transforms/Remarks.h` describes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from buddy.aot.tables import aligned

ASSUMED_SIZE = 128  # what passes take an unknown size for
_COLUMNS = 40  # of the picture of when a buffer holds something
_ROWS = 24  # of a function's arena, beyond which only the largest buffers are listed


@dataclass(frozen=True)
class Remark:
    """One remark: where it is from ("FILE:LINE" each) and its values by name."""

    name: str
    function: str
    places: tuple[str, ...]
    values: Mapping[str, str]

    def __getitem__(self, key: str) -> str:
        return self.values[key]

    @property
    def place(self) -> str:
        """The first place, and how many others there are."""
        if not self.places:
            return ""
        return self.places[0] + (f" +{len(self.places) - 1}" if self.places[1:] else "")


def parse(found: Iterable[Mapping[str, Any]]) -> list[Remark]:
    """The remarks of a `_buddy.Module`."""
    return [
        Remark(each["name"], each["function"], tuple(each["places"]), each["values"])
        for each in found
    ]


@dataclass(frozen=True)
class Buffer:
    """A buffer of an arena: sizes in bytes, moments on the scale of its function."""

    what: str
    formula: str
    slot: int
    offset: int
    size: int
    begin: int
    end: int
    place: str


@dataclass
class Arena:
    """A function's part of the workspace, with `size` in bytes."""

    function: str
    size: int
    end: int
    buffers: list[Buffer] = field(default_factory=list)


def arenas(remarks: Sequence[Remark]) -> list[Arena]:
    """The arenas that were planned, callers first."""
    found: dict[str, Arena] = {}
    for remark in remarks:
        if remark.name == "arena":
            size, end = int(remark["estimate"]), int(remark["end"])
            found[remark.function] = Arena(remark.function, size, end)
        elif remark.name == "buffer":
            callee = remark["callee"]
            found[remark.function].buffers.append(
                Buffer(
                    what=f"arena of @{callee}" if callee else remark["type"],
                    formula="" if callee else remark["bytes"],
                    slot=int(remark["slot"]),
                    offset=int(remark["offset"]),
                    size=int(remark["estimate"]),
                    begin=int(remark["begin"]),
                    end=int(remark["end"]),
                    place=remark.place,
                )
            )
    return list(reversed(found.values()))


def text(remarks: Sequence[Remark]) -> str:
    """Everything that `buddy explain` says of the compiled module."""
    parts = [_scalar(remarks), *_memory(remarks), _heap(remarks), _copies(remarks)]
    return "\n\n".join(parts)


def human(size: int) -> str:
    """Bytes for people."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} B"


def _scalar(remarks: Sequence[Remark]) -> str:
    counts: Counter[tuple[str, ...]] = Counter()
    for remark in remarks:
        if remark.name == "scalar-loop":
            counts["loop of " + remark["body"], remark["reason"], remark.place] += 1
        elif remark.name == "math-call":
            counts["call of " + remark["function"], "by the C math library", remark.place] += 1
    if not counts:
        return "scalar: no loop over floats is without vectors, none calls the C math library"
    rows: list[tuple[str, ...]] = [("count", "scalar", "why", "from")]
    rows += [(str(count), *key) for key, count in counts.most_common()]
    return "\n".join(aligned(rows, right=[0]))


def _memory(remarks: Sequence[Remark]) -> list[str]:
    planned = arenas(remarks)
    parts = [] if planned else ["arena: none is needed"]
    for arena in planned:
        # Calls of one function are one row.
        alike: dict[tuple[Any, ...], list[Buffer]] = {}
        for b in arena.buffers:
            alike.setdefault((b.offset, b.size, b.what, b.formula, b.place), []).append(b)
        groups = sorted(alike.values(), key=lambda g: (-g[0].size, g[0].offset, g[0].begin))
        shown, hidden = groups[:_ROWS], groups[_ROWS:]
        rows = [("offset", "bytes", "holds something".ljust(_COLUMNS), "what", "formula", "from")]
        for group in sorted(shown, key=lambda g: (g[0].offset, g[0].begin)):
            first = group[0]
            what = first.what + (f" x {len(group)}" if len(group) > 1 else "")
            rows.append((str(first.offset), str(first.size), _bar(group, arena.end), what,
                         first.formula, first.place))  # fmt: skip
        left = sum(len(group) for group in hidden)
        head = (
            f"arena of @{arena.function}: {human(arena.size)}, {len(arena.buffers)} buffers of "
            f"{human(sum(b.size for b in arena.buffers))}; an unknown size is taken for "
            f"{ASSUMED_SIZE}"
        )
        more = [f"and {left} smaller ones"] if left else []
        parts.append("\n".join([head, *aligned(rows, right=[0, 1]), *more]))
    stack = Counter[str]()
    for remark in remarks:
        if remark.name == "stack":
            kind = "of each thread" if remark["threads"] == "true" else "of the caller"
            stack[f"{remark.function}, {kind}"] += int(remark["bytes"])
    if stack:
        sums = [(str(size), f"@{where}") for where, size in stack.most_common()]
        parts.append("\n".join(aligned([("bytes", "on the stack"), *sums], right=[0])))
    return parts


def _bar(buffers: Sequence[Buffer], end: int) -> str:
    scale = _COLUMNS / (end + 1)
    bar = ["."] * _COLUMNS
    for buffer in buffers:
        first = min(int(buffer.begin * scale), _COLUMNS - 1)
        last = min(max(first + 1, round((buffer.end + 1) * scale)), _COLUMNS)
        bar[first:last] = "#" * (last - first)
    return "".join(bar)


def _heap(remarks: Sequence[Remark]) -> str:
    found = [r for r in remarks if r.name == "heap"]
    if not found:
        return "heap: nothing is allocated in a call"
    rows = [("allocated in each call", "why", "from")]
    rows += [(f"@{r.function}: {r['type']}", r["reason"], r.place) for r in found]
    return "\n".join(aligned(rows))


def _copies(remarks: Sequence[Remark]) -> str:
    followed = sum(int(r["arguments"]) for r in remarks if r.name == "verified")
    found = [r for r in remarks if r.name == "copy"]
    if not found:
        return f"copies: none of a weight or a state; {followed} followed through all calls"
    rows = [("copied whole", "why", "from")]
    rows += [
        (f"{r['kind']} {r['argument']}", "its old value is needed later", r.place) for r in found
    ]
    return "\n".join(aligned(rows))
