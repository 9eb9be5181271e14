"""Where an FX node comes from: the user's source line and the module it belongs to."""

from __future__ import annotations

import os
import re

import torch
from mlir import ir

_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)', re.MULTILINE)
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
# Dynamo's name of the compiled callable: `L['self']`, or `L['args'][0]` under its wrapper.
_ROOT = re.compile(r"^L\['(args|kwargs)'\]\[[^\]]*\]|^L\['self'\]|^L__self___?")
_LOCAL = re.compile(r"^[LG]\['([^']*)'\]")


def source_line(node: torch.fx.Node) -> tuple[str, int] | None:
    """Return (file, line) of the innermost frame outside torch, or None if unknown."""
    frames = [
        (match["file"], int(match["line"]))
        for match in _FRAME.finditer(node.meta.get("stack_trace") or "")
    ]
    users = [frame for frame in frames if not frame[0].startswith(_TORCH)]
    known = users or frames
    return known[-1] if known else None


def location(node: torch.fx.Node) -> ir.Location:
    """Return the node's source line as an MLIR location."""
    source = source_line(node)
    if source is None:
        return ir.Location.unknown()
    return ir.Location.file(source[0], source[1], 1)


def describe_source(node: torch.fx.Node) -> str:
    """Return the node's source line as "file:line"."""
    source = source_line(node)
    return f"{source[0]}:{source[1]}" if source else "unknown source"


def _clean_path(path: str) -> str:
    path = _LOCAL.sub(r"\1", _ROOT.sub("", path))
    path = re.sub(r"_modules\['([^']*)'\]", r"\1", path)
    path = re.sub(r"\[['\"]?([^'\"\]]*)['\"]?\]", r".\1", path)
    return path.lstrip(".")


def module_path(node: torch.fx.Node) -> str | None:
    """Return the path of the innermost enclosing module that is a numbered container's element.

    For anything below `model.layers.3` that is "model.layers.3", unless a deeper module is itself
    such an element; None when there is none.
    """
    stack = node.meta.get("nn_module_stack") or {}
    for path, _ in reversed(list(stack.values())):
        parts = _clean_path(path).split(".")
        numbered = [i for i, part in enumerate(parts) if part.isdigit()]
        if numbered:
            return ".".join(parts[: numbered[-1] + 1])
    return None
