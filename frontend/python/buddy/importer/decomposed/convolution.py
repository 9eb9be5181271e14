"""The gradients of a convolution, as convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .table import decomposes

aten = torch.ops.aten


@decomposes(aten.convolution_backward.default)
def convolution_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias_sizes: Sequence[Any] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[torch.Tensor | None, ...]:
    """Return the gradients of the input, the weight [O, C / groups, K...] and the bias.

    The weight's gradient correlates input and gradient over the batch: a convolution with batch and
    channels exchanged, in which the gradient is the kernel, and stride and dilation trade places.
    """
    rank = x.dim() - 2
    stride, padding, dilation = (_repeated(v, rank) for v in (stride, padding, dilation))
    to_input = to_weight = to_bias = None
    if output_mask[0]:
        if transposed:
            to_input = aten.convolution(
                grad, weight, None, stride, padding, dilation, False, [0] * rank, groups
            )
        else:
            # What the strides left over at the input's end.
            rest = [
                x.shape[i + 2]
                - ((grad.shape[i + 2] - 1) * stride[i] - 2 * padding[i])
                - (dilation[i] * (weight.shape[i + 2] - 1) + 1)
                for i in range(rank)
            ]
            to_input = aten.convolution(
                grad, weight, None, stride, padding, dilation, True, rest, groups
            )
    if output_mask[1]:
        # A transposed convolution's gradient plays the input's part.
        large, small = (grad, x) if transposed else (x, grad)
        batch, spatial = large.shape[0], list(range(3, 3 + rank))
        split = large.reshape(batch, groups, -1, *large.shape[2:])
        image = split.permute(2, 1, 0, *spatial).reshape(-1, groups * batch, *large.shape[2:])
        full = aten.convolution(
            image, small.transpose(0, 1), None, dilation, padding, stride, False, [0] * rank, groups
        )
        for i in range(rank):
            full = full.narrow(i + 2, 0, weight.shape[i + 2])
        to_weight = full.transpose(0, 1)
    if output_mask[2]:
        to_bias = grad.sum([0, *range(2, 2 + rank)])
    return to_input, to_weight, to_bias


def _repeated(values: Sequence[int], rank: int) -> list[int]:
    """Return one value for each spatial dimension; one may stand for all."""
    return list(values) if len(values) == rank else [values[0]] * rank
