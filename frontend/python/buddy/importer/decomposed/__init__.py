"""Operators written in terms of other ATen operators, which have rules.

One file for each family; `TABLE` is operator -> function. The functions are traced with fake
tensors: sizes may be symbols, values are not known.
"""

from . import (
    bags,
    convolution,
    creation,
    distance,
    elementwise,
    histogram,
    layers,
    linear_algebra,
    pooling,
    random,
    recurrence,
    resampling,
    scatter,
    selection,
)
from .table import TABLE

__all__ = [
    "TABLE",
    "bags",
    "convolution",
    "creation",
    "distance",
    "elementwise",
    "histogram",
    "layers",
    "linear_algebra",
    "pooling",
    "random",
    "recurrence",
    "resampling",
    "scatter",
    "selection",
]
