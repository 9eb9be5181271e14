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
    padded = torch.zeros(count * width, depth * unit, dtype=weight.dtype)
    padded[:n, :k] = matrix
    by_row = padded.view(count, width, depth, unit)  # panel, row in it, unit of k, element of it
    return by_row.transpose(1, 2).reshape(panels["stored_shape"]).contiguous()
