"""Loggers of the backend, switched on by BUDDY_LOGS=graph,schedule,codegen.

    graph     the modules that the importer makes, and how graphs were split
    schedule  the schedules chosen for contractions
    codegen   cache hits and misses, times of the pipeline and of code generation

They are children of Python's logger "buddy" and can be configured there too.
"""

from __future__ import annotations

import logging
import os
import warnings

NAMES = ("graph", "schedule", "codegen")

graph = logging.getLogger("buddy.graph")
schedule = logging.getLogger("buddy.schedule")
codegen = logging.getLogger("buddy.codegen")


def configure(text: str | None = None) -> None:
    """Send the loggers named in `text` (default: $BUDDY_LOGS) to stderr."""
    text = os.environ.get("BUDDY_LOGS", "") if text is None else text
    wanted = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in NAMES]
    if unknown:
        warnings.warn(
            f"BUDDY_LOGS: no log named {', '.join(unknown)}; there are {', '.join(NAMES)}",
            stacklevel=2,
        )
    for name in wanted:
        logger = logging.getLogger(f"buddy.{name}")
        if name in NAMES and not logger.handlers:
            handler = logging.StreamHandler()
            handler.setFormatter(logging.Formatter("[%(name)s] %(message)s"))
            logger.addHandler(handler)
            logger.setLevel(logging.DEBUG)
            logger.propagate = False
