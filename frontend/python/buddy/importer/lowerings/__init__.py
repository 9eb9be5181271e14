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
    random,
    reduction,
    scan_sort,
    scatter,
    special,
    strided,
    tosa,
    view,
)
