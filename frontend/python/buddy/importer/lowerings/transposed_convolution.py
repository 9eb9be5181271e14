"""Transposed convolutions as plain ones, a few for each residue class of the stride.

Along one dimension, output `o` sums the products of tap `k` and input `(o + padding - k * dilation)
/ stride` where that is whole. Outputs of one residue modulo the stride, a phase, therefore see the
same taps, every `stride / gcd(stride, dilation)`-th one, and consecutive outputs consecutive
inputs: a convolution of stride 1 by a part of the filter, without the zeros that a convolution of
the spread-out input would multiply (Shi et al., "Is the deconvolution layer the same as a
convolutional layer?", 2016). Neighbouring phases whose windows are the same, all of them where
the kernel is as large as the stride, are output channels of one convolution.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, prod
from typing import Any

import torch
from mlir import ir
from mlir.dialects import arith, tensor

from .. import scalars, shapes
from ..builder import PARALLEL, Builder, loop_index
from ..symbols import Dim, as_dim
from ..values import Tensor
from .contraction import add_bias
from .view import pad_tensor, slice_dim


@dataclass
class Phases:
    """Consecutive residues along one dimension whose windows are the same.

    start: the first residue. first_taps: the first tap of each. taps: how many each has.
    step: from one tap to the next. first: the input that the first output's window starts at.
    dilation: from one of a window's inputs to the next.
    """

    start: int
    first_taps: list[int]
    taps: int
    step: int
    first: int
    dilation: int


def phases(kernel: int, stride: int, padding: int, dilation: int) -> list[Phases]:
    """Return the residues of one dimension that have taps, in order."""
    common = gcd(stride, dilation)
    found: list[Phases] = []
    for residue in range(stride):
        taps = [k for k in range(kernel) if (residue + padding - k * dilation) % stride == 0]
        if not taps:
            continue
        step, spread = stride // common, dilation // common
        last = (residue + padding - taps[0] * dilation) // stride
        first = last - (len(taps) - 1) * spread
        before = found[-1] if found else None
        if (
            before
            and before.start + len(before.first_taps) == residue
            and (before.first, before.taps) == (first, len(taps))
        ):
            before.first_taps.append(taps[0])
        else:
            found.append(Phases(residue, [taps[0]], len(taps), step, first, spread))
    return found


def convolve_transposed(
    b: Builder,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    shape: Sequence[Dim],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    output_padding: Sequence[int],
    groups: int,
    convolve: Any,
) -> Tensor:
    """Return the transposed convolution, in x's dtype.

    x: [N, C, ...], weight: [C, F/groups, k...] of a known kernel, shape: [N, F, ...]. `convolve`
    makes the convolution of a padded input in the accumulator's dtype.
    """
    spatial = x.rank - 2
    kernel = [int(k) for k in weight.shape[2:]]
    classes = [phases(*sizes) for sizes in zip(kernel, stride, padding, dilation, strict=True)]
    counts: list[Dim] = []  # Outputs of each phase, along each dimension.
    low: list[Dim] = [0, 0]
    high: list[Dim] = [0, 0]
    for i in range(spatial):
        s, size = stride[i], x.shape[2 + i]
        more = dilation[i] * (kernel[i] - 1) + output_padding[i] + 1 - s - 2 * padding[i]
        counts.append(as_dim(size + -(-more // s)))
        # Of the last output's window: where it ends, from the input's last element on.
        ends = [p.first + (p.taps - 1) * p.dilation + -(-more // s) for p in classes[i]]
        low.append(max([0, *[-p.first for p in classes[i]]]))
        high.append(max([0, *ends]))
    x = pad_tensor(b, b.plain(x), low, high, scalars.constant(0, x.dtype))
    features = as_dim(groups * weight.shape[1])
    if bias is not None:
        bias = shapes.reshape(b, bias, (groups, weight.shape[1]))
    # Phase by phase, each a whole image: [N, groups, stride..., F/groups, outputs...].
    buffer = (shape[0], groups, *stride, weight.shape[1], *counts)
    covered = prod(sum(len(p.first_taps) for p in parts) for parts in classes)
    result: ir.Value | None = None
    if covered != prod(stride):
        zero = b.full(buffer, scalars.constant(0, x.dtype), x.dtype)
        result = zero if bias is None else _add(b, zero, buffer, x.dtype, bias, x.dtype).base
    for parts in itertools.product(*classes):
        part = _convolve_phases(b, x, weight, bias, low, counts, parts, groups, convolve)
        residues = [len(p.first_taps) for p in parts]
        if prod(residues) == prod(stride):
            result = b.value(part)
            break
        if result is None:
            result = b.empty(buffer, x.dtype)
        offsets = [0, 0, *[p.start for p in parts], *[0] * (1 + spatial)]
        result = b.insert_slice(b.value(part), result, offsets, part.shape)
    assert result is not None
    order = [0, 1, 2 + spatial]
    for i in range(spatial):
        order += [3 + spatial + i, 2 + i]
    phased = Tensor.plain(result, x.dtype, buffer).permute(order)
    full = (shape[0], features, *[as_dim(c * s) for c, s in zip(counts, stride, strict=True)])
    whole = shapes.reshape(b, phased, full)
    for i in range(spatial):
        more = dilation[i] * (kernel[i] - 1) + output_padding[i] + 1 - 2 * padding[i]
        if more % stride[i] != 0:
            whole = slice_dim(b, whole, 2 + i, 0, shape[2 + i])
    return shapes.reshape(b, whole, tuple(shape))


def _convolve_phases(
    b: Builder,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    low: Sequence[Dim],
    counts: Sequence[Dim],
    parts: Sequence[Phases],
    groups: int,
    convolve: Any,
) -> Tensor:
    """Return some phases' outputs, [N, groups, residues..., F/groups, outputs...], in x's dtype.

    x is padded by `low`; bias: [groups, F/groups].
    """
    spatial = len(parts)
    for i, part in enumerate(parts):
        start = as_dim(low[2 + i] + part.first)
        size = as_dim(counts[i] + (part.taps - 1) * part.dilation)
        if start != 0 or size != x.shape[2 + i]:
            x = slice_dim(b, x, 2 + i, start, size)
    residues = [len(part.first_taps) for part in parts]
    features = weight.shape[1]
    filters = _take_taps(b, weight, parts, groups)
    channels = as_dim(groups * prod(residues) * features)
    flat = (channels, as_dim(weight.shape[0] // groups), *[part.taps for part in parts])
    filters = shapes.reshape(b, filters, flat)
    product = convolve(
        b, b.plain(x), filters, (x.shape[0], channels, *counts), [1] * spatial,
        [part.dilation for part in parts], groups,
    )  # fmt: skip
    result = (x.shape[0], groups, *residues, features, *counts)
    product = shapes.reshape(b, product, result)
    if bias is None:
        return b.cast(product, x.dtype)
    return _add(b, b.value(product), result, product.dtype, bias, x.dtype)


def _add(
    b: Builder,
    value: ir.Value,
    shape: Sequence[Dim],
    computed: torch.dtype,
    bias: Tensor,
    dtype: torch.dtype,
) -> Tensor:
    """Return a value of phases, [N, groups, residues..., F/groups, outputs...], plus the bias."""
    spatial = (len(shape) - 3) // 2
    for _ in range(spatial):
        bias = bias.unsqueeze(1)
    for _ in range(spatial):
        bias = bias.unsqueeze(bias.rank)
    return add_bias(b, Tensor.plain(value, computed, shape), bias, dtype, 1, 1)


def _take_taps(b: Builder, weight: Tensor, parts: Sequence[Phases], groups: int) -> Tensor:
    """Return the filters of some phases, the last tap first.

    weight: [C, F/groups, k...], result: [groups, residues..., F/groups, C/groups, taps...].
    """
    spatial = len(parts)
    inner = as_dim(weight.shape[0] // groups)
    residues = [len(part.first_taps) for part in parts]
    shape = (groups, *residues, weight.shape[1], inner, *[part.taps for part in parts])
    value = b.value(weight)

    def tap(i: int) -> ir.Value:
        part = parts[i]
        first = b.index_constant(part.first_taps[0])
        for residue, other in enumerate(part.first_taps[1:], 1):
            here = arith.cmpi(arith.CmpIPredicate.eq, loop_index(1 + i), b.index_constant(residue))
            first = arith.select(here, b.index_constant(other), first)
        back = arith.subi(b.index_constant(part.taps - 1), loop_index(3 + spatial + i))
        return arith.addi(first, arith.muli(back, b.index_constant(part.step)))

    def body(_: ir.Value) -> ir.Value:
        channel = arith.addi(arith.muli(loop_index(0), b.index(inner)), loop_index(2 + spatial))
        at = [channel, loop_index(1 + spatial), *[tap(i) for i in range(spatial)]]
        return tensor.extract(value, at)

    identity = ir.AffineMap.get_identity(len(shape))
    (result,) = b.generic(
        [], [(b.empty(shape, weight.dtype), identity)], [PARALLEL] * len(shape), body
    )
    return Tensor.plain(result, weight.dtype, shape)
