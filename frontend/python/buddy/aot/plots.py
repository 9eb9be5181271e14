"""What every `--plot FILE` needs."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from buddy.aot.errors import BundleError


def check_plot(path: Path) -> None:
    """Fail before the work whose result cannot be drawn there."""
    if importlib.util.find_spec("matplotlib") is None:
        raise BundleError("--plot needs the Python package matplotlib")
    if not path.absolute().parent.is_dir():
        raise BundleError(f"--plot {path}: its folder does not exist")
