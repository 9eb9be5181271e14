"""Lowering rules, one file for each family of operators; importing this registers them."""

from . import (  # noqa: F401
    activations,
    assertion,
    attention_norm,
    contraction,
    convolution,
    creation,
    decomposition,
    elementwise,
    fourier,
    indexing,
    linalg_parts,
    linear_algebra,
    random,
    reduction,
    scan_sort,
    scatter,
    special,
    strided,
    tosa,
    view,
)
