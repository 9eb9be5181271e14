"""What the tests of the backend share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from buddy.backend import buddy_backend

PACKAGE_ROOT = Path(__file__).resolve().parents[3] / "frontend" / "python"


def strict(fn: Callable[..., Any], dynamic: bool | None = None, **options: Any) -> Any:
    """Compile the whole of a function; anything that is not compiled is an error."""
    options.setdefault("fallback", "error")
    return torch.compile(
        fn, backend=buddy_backend, fullgraph=True, dynamic=dynamic, options=options
    )
