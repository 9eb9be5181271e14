"""`torch.compile(model, backend="buddy")`.

    model = torch.compile(model, backend="buddy")                       # nothing to import
    model = torch.compile(model, backend="buddy", fullgraph=True,
                          options={"fallback": "error", "threads": 2})

Dynamo and AOTAutograd make graphs of core ATen, the importer makes modules of them, and `_buddy`
makes libraries, which are cached on disk. A call passes the tensors' own memory; nothing is copied.
See `Options` for the options and docs/torch_compile.md for all of it.
"""

from __future__ import annotations

from buddy.importer import UnsupportedOpsError

from . import logs
from .cache import CacheError, counters
from .dynamo import buddy_backend
from .graph import FallbackWarning
from .library import CompileError
from .options import OptionError, Options

__all__ = [
    "CacheError",
    "CompileError",
    "FallbackWarning",
    "OptionError",
    "Options",
    "UnsupportedOpsError",
    "buddy_backend",
    "counters",
]

logs.configure()
