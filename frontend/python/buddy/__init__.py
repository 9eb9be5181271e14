"""Buddy: compiles PyTorch models to native code through MLIR."""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"
__all__ = ["register_lowering"]


def __getattr__(name: str) -> Any:
    # PyTorch is imported only by whoever needs it.
    if name == "register_lowering":
        from buddy.importer import register_lowering

        return register_lowering
    raise AttributeError(f"module 'buddy' has no attribute {name!r}")
