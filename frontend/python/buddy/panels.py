"""Weights of floats laid out in panels, as `#buddy.panels` describes it and kernels stream them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

# The format (`buddy.format`) of a weight that may be laid out anew, its values as they are.
PLAIN = "plain"


def may_be_packed(tensor: Any) -> bool:
    """Whether a weight's (fake) tensor is one that the compiler may want in panels."""
    import torch

    return isinstance(tensor, torch.Tensor) and tensor.dim() == 2 and tensor.is_floating_point()


def pack(weight: torch.Tensor, panels: Mapping[str, Any]) -> torch.Tensor:
    """Lay a matrix out in panels.

    weight: [n, k], or [k, n] if `panels["transposed"]`. Returns a contiguous tensor of the same
    dtype and of shape `panels["stored_shape"]`, zeros beyond n and k.
    """
    import torch

    n, k, width, unit = (panels[name] for name in ("n", "k", "width", "unit"))
    matrix = weight.detach()
    if panels["transposed"]:
        matrix = matrix.T
    if tuple(matrix.shape) != (n, k):
        raise ValueError(f"a weight of shape {list(weight.shape)} in panels {dict(panels)}")
    count, depth = -(-n // width), -(-k // unit)
    stored = torch.zeros(count, depth, width, unit, dtype=weight.dtype)
    by_row = stored.permute(0, 2, 1, 3)  # panel, row in it, unit of k, element of the unit
    whole, pairs = n // width, k // unit
    if pairs * unit == k:
        by_row[:whole] = matrix[: whole * width].reshape(whole, width, depth, unit)
        if whole < count:
            rest = matrix[whole * width :]
            by_row[whole, : len(rest)] = rest.reshape(len(rest), depth, unit)
    else:
        padded = torch.nn.functional.pad(matrix, (0, depth * unit - k, 0, count * width - n))
        by_row[:] = padded.reshape(count, width, depth, unit)
    return stored.reshape(panels["stored_shape"])
