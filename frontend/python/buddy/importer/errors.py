"""Errors of the importer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class MissingOp:
    """One FX node that cannot be imported.

    `op` is the operator with its overload, `dtypes` those of its tensor arguments, `source` the
    user's "file:line" (or "unknown source"), `reason` says why.
    """

    op: str
    dtypes: tuple[str, ...]
    source: str
    reason: str

    def __str__(self) -> str:
        dtypes = ", ".join(self.dtypes) or "no tensors"
        return f"{self.op} ({dtypes}) at {self.source}: {self.reason}"


class ImportGraphError(RuntimeError):
    """A graph or an argument list that breaks the importer's contract."""


class UnsupportedOpsError(RuntimeError):
    """Raised once for a graph, with every op that has no lowering (`missing`)."""

    def __init__(self, missing: Sequence[MissingOp]):
        self.missing = tuple(missing)
        lines = list(dict.fromkeys(str(entry) for entry in self.missing))
        super().__init__(
            f"{len(lines)} unsupported op{'s' if len(lines) > 1 else ''}:\n  "
            + "\n  ".join(lines)
            + "\nbuddy.register_lowering adds a rule; with fallback='eager' PyTorch runs them"
        )


class Unsupported(Exception):
    """Raised by a rule for arguments it does not handle; becomes an `UnsupportedOpsError`."""
