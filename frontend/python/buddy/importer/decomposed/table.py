"""The table of our own decompositions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Decomposition = Callable[..., Any]
TABLE: dict[Any, Decomposition] = {}


def decomposes(*ops: Any) -> Callable[[Decomposition], Decomposition]:
    """Register a function of an operator's arguments that returns its results.

    It may return NotImplemented: the operator then stays as it is.
    """

    def register(function: Decomposition) -> Decomposition:
        for op in ops:
            if op in TABLE:
                raise ValueError(f"two decompositions of {op}")
            TABLE[op] = function
        return function

    return register


def opmath_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype that eager computes in: float32 for the narrow floats."""
    return torch.float32 if dtype in (torch.bfloat16, torch.float16) else dtype


def opmath(x: torch.Tensor) -> torch.Tensor:
    """Return the tensor in the dtype that eager computes in."""
    return x.to(opmath_dtype(x.dtype))


def lowest(dtype: torch.dtype) -> Any:
    """Return the identity of the maximum."""
    if dtype is torch.bool:
        return False
    return float("-inf") if dtype.is_floating_point else torch.iinfo(dtype).min
