"""Writing and reading at index tensors."""

from __future__ import annotations

from typing import Any

import torch

from .table import decomposes

aten = torch.ops.aten


@decomposes(aten.index_reduce.default)
def index_reduce(
    self: torch.Tensor,
    dim: int,
    index: torch.Tensor,
    source: torch.Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> torch.Tensor:
    if self.dim() == 0:
        result = index_reduce(
            self.reshape(1), 0, index, source.reshape(-1), reduce, include_self=include_self
        )
        return result.reshape(())
    shape = [1] * self.dim()
    shape[dim] = index.numel()
    places = index.reshape(shape).expand(source.shape)
    if source.numel() == 0:
        return self.clone()
    return aten.scatter_reduce.two(
        self, dim, places.long(), source, reduce, include_self=include_self
    )


@decomposes(aten.put.default)
def put(
    self: torch.Tensor, index: torch.Tensor, source: torch.Tensor, accumulate: bool = False
) -> torch.Tensor:
    flat = aten.index_put.default(
        self.reshape(-1), [index.reshape(-1)], source.reshape(-1), accumulate
    )
    return flat.reshape(self.shape)


@decomposes(aten.take.default)
def take(self: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return aten.index.Tensor(self.reshape(-1), [index])


@decomposes(aten.embedding_renorm.default)
def embedding_renorm(
    self: torch.Tensor, indices: torch.Tensor, max_norm: float, norm_type: float
) -> torch.Tensor:
    """Scale the rows that indices name to a norm of at most `max_norm`."""
    places = indices.reshape(-1)
    rows = self.index_select(0, places)
    norms = torch.linalg.vector_norm(rows, norm_type, 1, keepdim=True)
    scaled = torch.where(norms > max_norm, rows * (max_norm / (norms + 1e-7)), rows)
    return aten.index_put.default(self, [places], scaled.to(self.dtype))


@decomposes(aten.nonzero_static.default)
def nonzero_static(self: torch.Tensor, *, size: Any, fill_value: int = -1) -> torch.Tensor:
    """The places of the first `size` elements that are not zero, [size, rank], then fill."""
    count = self.numel()
    if self.dim() == 0 or count == 0 or size == 0:
        return torch.full((size, self.dim()), fill_value, dtype=torch.int64, device=self.device)
    flags = (self != 0).reshape(-1)
    order = flags.to(torch.int64).cumsum(0) - 1
    # The others go to a place that is cut off.
    target = torch.where(flags & (order < size), order, size)
    flat = torch.full((size + 1,), -1, dtype=torch.int64, device=self.device)
    flat = flat.scatter(0, target, torch.arange(count, device=self.device)).narrow(0, 0, size)
    columns, step = [], 1
    for length in reversed(self.shape):
        place = torch.div(flat, step, rounding_mode="floor") % length
        columns.append(torch.where(flat < 0, fill_value, place))
        step = step * length
    return torch.stack(columns[::-1], 1)
