"""JSON files of others, which may be missing or damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from buddy.aot.errors import BundleError


def read_object(path: Path) -> dict[str, Any]:
    """The object in a file; raises BundleError that names the file."""
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise BundleError(f"{path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{path}: not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise BundleError(f"{path}: expected a JSON object")
    return value
