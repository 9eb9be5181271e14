"""Adding up windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from mlir import ir
from mlir.dialects import arith

from .. import scalars, shapes
from ..builder import Builder
from ..registry import lowers
from ..symbols import as_dim
from ..values import Tensor
from .scatter import combined, sum_in_opmath
from .view import slice_dim

aten = torch.ops.aten


@lowers(aten.col2im.default)
def _col2im(
    b: Builder,
    x: Tensor,
    output_size: Sequence[Any],
    kernel_size: Sequence[Any],
    dilation: Sequence[Any],
    padding: Sequence[Any],
    stride: Sequence[Any],
) -> Tensor:
    """x: [N, C * kh * kw, windows], or without N; returns the sums at each place, [N, C, H, W].

    For each place in a window, all windows' elements there are added to a part of the image.
    """
    shape = b.result_shape()
    if 0 in (*shape, *x.shape):
        return Tensor.plain(b.full(shape, scalars.constant(0, x.dtype), x.dtype), x.dtype, shape)
    lead, kernel = shape[:-2], [as_dim(size) for size in kernel_size]
    padded = [as_dim(shape[i - 2] + 2 * as_dim(padding[i])) for i in range(2)]
    windows = [
        as_dim((padded[i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1) for i in range(2)
    ]
    columns = shapes.reshape(b, x, (*lead, *kernel, *windows))
    columns = Tensor.plain(b.value(columns), x.dtype, columns.shape)
    zeros = [0] * len(lead)
    steps = [1] * len(lead)

    def body(at: list[ir.Value], carried: list[ir.Value]) -> list[ir.Value]:
        source = b.extract_slice(
            columns,
            [*zeros, *at, 0, 0],
            [*lead, 1, 1, *windows],
            [1] * columns.rank,
        )
        source = shapes.squeeze(b, source, [len(lead), len(lead) + 1])
        offsets = [arith.muli(at[i], b.index(as_dim(dilation[i]))) for i in range(2)]
        part = ([*zeros, *offsets], [*lead, *windows], [*steps, *stride])
        old = b.extract_slice(Tensor.plain(carried[0], x.dtype, (*lead, *padded)), *part)
        total = combined(b, old, source, sum_in_opmath(x.dtype))
        return [b.insert_slice(total.base, carried[0], *part)]

    start = b.full((*lead, *padded), scalars.constant(0, x.dtype), x.dtype)
    (sums,) = b.loop(kernel, [start], body)
    result = Tensor.plain(sums, x.dtype, (*lead, *padded))
    for i in range(2):
        if padding[i] != 0:
            dim = len(lead) + i
            result = slice_dim(b, result, dim, as_dim(padding[i]), shape[dim])
    return result
