"""Lowering rules, one file for each family of operators; importing this registers them."""

from . import (  # noqa: F401
    attention_norm,
    contraction,
    creation,
    elementwise,
    indexing,
    reduction,
    view,
)
