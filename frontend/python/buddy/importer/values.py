"""Tensors during import.

A permutation, an `unsqueeze` or an `expand` makes no operation: it is a `Tensor` whose `dims` say
which dimension of the base value each dimension is. Structured operations read such a tensor by
their indexing map, so a weight's transpose is never materialised; other operations ask the
builder for the plain value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from mlir import ir

from .symbols import Dim


@dataclass
class Tensor:
    """A torch tensor as a view of an MLIR tensor value.

    base: the MLIR value; its dimensions are those named in `dims`, each once.
    dtype: the torch dtype (MLIR integers are signless).
    shape: size of each dimension.
    dims: for each dimension the dimension of `base`, or None where all elements along it are the
        same (its size is then 1 or what `expand` said).
    """

    base: ir.Value
    dtype: torch.dtype
    shape: tuple[Dim, ...]
    dims: tuple[int | None, ...]
    _plain: ir.Value | None = field(default=None, repr=False)

    @classmethod
    def plain(cls, value: ir.Value, dtype: torch.dtype, shape: Sequence[Dim]) -> Tensor:
        """Return the tensor that is the value itself."""
        return cls(value, dtype, tuple(shape), tuple(range(len(shape))))

    @property
    def rank(self) -> int:
        """Return the number of dimensions."""
        return len(self.shape)

    @property
    def is_plain(self) -> bool:
        """Tell whether the tensor is its base value, with nothing permuted or broadcast."""
        return self.dims == tuple(range(len(self.shape)))

    def permute(self, order: Sequence[int]) -> Tensor:
        """Return the view whose dimension i is this one's dimension `order[i]`."""
        return Tensor(
            self.base,
            self.dtype,
            tuple(self.shape[i] for i in order),
            tuple(self.dims[i] for i in order),
        )

    def unsqueeze(self, position: int, size: Dim = 1) -> Tensor:
        """Return the view with a new dimension before `position`, repeated `size` times."""
        shape, dims = list(self.shape), list(self.dims)
        shape.insert(position, size)
        dims.insert(position, None)
        return Tensor(self.base, self.dtype, tuple(shape), tuple(dims))
