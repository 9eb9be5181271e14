"""Signatures: the arguments of an entry point and how its graph's results are made."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import sympy
import torch

from . import types
from .symbols import Dim, as_dims, as_expr, contiguous_strides, is_contiguous

ArgKind = Literal["input", "weight", "state", "output", "size", "constant"]
SpecKind = Literal["input", "weight", "state", "size", "constant"]


@dataclass(frozen=True)
class ArgSpec:
    """What the caller says about one placeholder.

    name: the argument's name in the module and the manifest.
    kind: "input", "weight" (read-only, never copied), "state" (may be updated in place), "size"
        (a symbolic integer), or "constant": a Python value that the graph was specialised to,
        which makes no argument. An input that the graph mutates becomes "state" in `ArgInfo`.
    meta: the fake tensor, or the SymInt, int or other Python value.
    weight_offset: byte offset in the weights file; the entry then makes the view itself.
    weight_format: the block format ("q4_0", "q4_1", "q8_0") that the weight's values are in, or
        "plain"; the compiler may then want it packed.
    """

    name: str
    kind: SpecKind
    meta: Any
    weight_offset: int | None = None
    weight_format: str | None = None


@dataclass(frozen=True)
class ArgInfo:
    """One MLIR argument of an entry point.

    shape, strides: SymPy expressions or ints, in elements; `shape_strings` are those of the
        `buddy.shape` attribute. A size has neither and its expression in `expr`; a scalar of dtype
        f64 is passed by its bits.
    contiguous: the memref has the identity layout.
    placeholder: index of the graph's placeholder; None for an output.
    mutated: a state that the graph writes.
    storage_offset: for an output, the storage offset that the tensor must report, in elements
        (AOTAutograd rebuilds views from it); 0 but for the rare output that is a part of a tensor
        which is not itself a result.
    """

    kind: ArgKind
    name: str
    dtype: torch.dtype
    shape: tuple[Dim, ...] = ()
    strides: tuple[Dim, ...] = ()
    contiguous: bool = True
    placeholder: int | None = None
    expr: Any = None
    weight_offset: int | None = None
    weight_format: str | None = None
    mutated: bool = False
    storage_offset: Dim = 0

    @property
    def shape_strings(self) -> tuple[str, ...]:
        """Return the symbolic expression of each dimension as text."""
        return tuple(str(dim) for dim in self.shape)

    @property
    def stride_strings(self) -> tuple[str, ...]:
        """Return the symbolic expression of each stride as text."""
        return tuple(str(stride) for stride in self.strides)

    @property
    def dtype_name(self) -> str:
        """Return the dtype's short name (f32, bf16, i64, i1, ...)."""
        return types.dtype_name(self.dtype)

    def renamed(self, **changes: Any) -> ArgInfo:
        """Return a copy with fields replaced."""
        return replace(self, **changes)


@dataclass(frozen=True)
class OutputInfo:
    """How the caller gets one result of the graph.

    kind: "new": the tensor of output argument `arg`, which the caller allocates with that
        argument's shape and strides; "alias": the tensor passed for argument `arg`; "view": the
        tensor of `shape` and `strides` that starts `offset` elements after the first element of
        argument `arg` (an input or an output); "scalar": the value of `expr`, a Python number or
        SymPy expression over the sizes; "none": None.
    arg: index into `FunctionInfo.args`.
    """

    kind: Literal["new", "alias", "view", "scalar", "none"]
    arg: int | None = None
    expr: Any = None
    shape: tuple[Dim, ...] = ()
    strides: tuple[Dim, ...] = ()
    offset: Dim = 0


@dataclass(frozen=True)
class FunctionInfo:
    """Signature of an entry point.

    args: the MLIR arguments in order, outputs last.
    outputs: one entry for each result of the graph, in order (those that only write a mutation
        back are left out).
    """

    name: str
    args: list[ArgInfo]
    outputs: list[OutputInfo]


def tensor_info(kind: ArgKind, name: str, meta: torch.Tensor, **fields: Any) -> ArgInfo:
    """Return the `ArgInfo` of a tensor argument from its fake tensor."""
    shape, strides = as_dims(meta.shape), as_dims(meta.stride())
    contiguous = is_contiguous(shape, strides)
    if contiguous:
        strides = contiguous_strides(shape)
    return ArgInfo(kind, name, meta.dtype, shape, strides, contiguous, **fields)


def size_info(name: str, meta: Any, **fields: Any) -> ArgInfo:
    """Return the `ArgInfo` of a size argument; the symbol of a bool is 0 or 1."""
    expr, dtype = as_expr(meta), torch.int64
    if isinstance(meta, torch.SymFloat):
        dtype = torch.float64
    elif isinstance(meta, torch.SymBool) and isinstance(expr, sympy.Eq):
        expr, dtype = expr.lhs, torch.bool
    return ArgInfo("size", name, dtype, expr=expr, **fields)
