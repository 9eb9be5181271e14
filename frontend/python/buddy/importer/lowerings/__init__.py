"""Lowering rules, one file for each family of operators; importing this registers them."""

from . import (  # noqa: F401
    activations,
    assertion,
    attention_norm,
    contraction,
    convolution,
    creation,
    elementwise,
    indexing,
    linalg_parts,
    reduction,
    scan_sort,
    scatter,
    strided,
    tosa,
    view,
)
