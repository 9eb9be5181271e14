"""What stands between a graph and its function: argument types, constants, shared memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from mlir import ir
from mlir.dialects import arith, complex

from . import types
from .builder import Builder
from .signature import ArgInfo, OutputInfo
from .symbols import as_dim, as_dims, as_expr, is_contiguous, same, static
from .values import Tensor


class Bases:
    """Arguments by their storage, to find what a result is a view of."""

    def __init__(self, enabled: bool):
        self._enabled = enabled
        self._by_storage: dict[int, tuple[torch.Tensor, int]] = {}

    def add(self, meta: Any, arg: int) -> None:
        if self._enabled and isinstance(meta, torch.Tensor):
            self._by_storage.setdefault(meta.untyped_storage()._cdata, (meta, arg))

    def is_whole(self, meta: torch.Tensor) -> bool:
        """Tell whether a tensor is contiguous and all of its storage."""
        shape = as_dims(meta.shape)
        size = as_dim(meta.untyped_storage().nbytes())
        return (
            as_dim(meta.storage_offset()) == 0
            and is_contiguous(shape, as_dims(meta.stride()))
            and same(size, math.prod(shape) * meta.element_size())
        )

    def find_whole(
        self, results: Sequence[torch.fx.Node], nodes: Iterable[torch.fx.Node]
    ) -> list[torch.fx.Node]:
        """Return the tensors that several results are parts of, themselves no results.

        As outputs of their own the parts would no longer share memory, as they do in PyTorch.
        """
        parts: dict[int, set[torch.fx.Node]] = {}
        for result in results:
            meta = result.meta["val"]
            key = meta.untyped_storage()._cdata
            if self._enabled and key not in self._by_storage:
                parts.setdefault(key, set()).add(result)
        shared = {key for key, group in parts.items() if len(group) > 1}
        found = []
        for node in nodes if shared else ():
            meta = node.meta.get("val")
            if not isinstance(meta, torch.Tensor) or not self.is_whole(meta):
                continue
            key = meta.untyped_storage()._cdata
            if key in shared and any(r.meta["val"].dtype == meta.dtype for r in parts[key]):
                shared.remove(key)
                found.append(node)
        return found

    def find(self, meta: torch.Tensor) -> OutputInfo | None:
        """Return the result as a view of an argument, if it is one."""
        base, arg = self._by_storage.get(meta.untyped_storage()._cdata, (None, 0))
        if base is None or base.dtype != meta.dtype:
            return None
        offset = as_dim(meta.storage_offset() - base.storage_offset())
        return OutputInfo(
            "view",
            arg,
            shape=as_dims(meta.shape),
            strides=as_dims(meta.stride()),
            offset=offset,
        )


def results_of_unknown_size(
    nodes: Iterable[torch.fx.Node], output: torch.fx.Node, arguments: Iterable[Any]
) -> list[torch.fx.Node]:
    """Return the results whose size, or value if they are scalars, is read from a tensor.

    Who calls the function could not allocate them. arguments: the fake values of its arguments.
    """
    targets = (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.item.default)
    read = set().union(*(_symbols(n.meta["val"]) for n in nodes if n.target in targets))
    if read:
        read.difference_update(*map(_symbols, arguments))
    return [
        node
        for node in output.all_input_nodes
        if node.op == "call_function" and read & _symbols(node.meta.get("val"))
    ]


def _symbols(value: Any) -> set[Any]:
    """Return the symbols in a tensor's sizes or in a scalar."""
    found: set[Any] = set()
    for size in value.shape if isinstance(value, torch.Tensor) else [value]:
        found |= getattr(as_expr(size), "free_symbols", set())
    return found


def constant_tensor(builder: Builder, value: torch.Tensor) -> Tensor:
    """Return a constant's elements as a dense `arith.constant`."""
    shape = tuple(value.shape)
    type_ = builder.tensor_type(shape, value.dtype)
    if value.numel() == 0:
        return Tensor.plain(builder.empty(shape, value.dtype), value.dtype, shape)
    if types.is_complex(value.dtype):
        element = types.element_type(value.dtype)
        parts = [constant_tensor(builder, part) for part in torch.view_as_real(value).unbind(-1)]
        return builder.pointwise(
            parts, shape, value.dtype, lambda re, im: complex.create_(element, re, im)
        )
    if value.dtype is torch.bool or types.is_integer(value.dtype):
        elements = [int(x) for x in value.flatten().tolist()]
        attributes = [_integer_attribute(type_.element_type, x) for x in elements]
    else:
        attributes = [
            ir.FloatAttr.get(type_.element_type, x) for x in value.double().flatten().tolist()
        ]
    dense = ir.DenseElementsAttr.get(attributes, type_)
    return Tensor.plain(arith.constant(type_, dense), value.dtype, shape)


def _integer_attribute(type_: ir.Type, value: int) -> ir.IntegerAttr:
    width = ir.IntegerType(type_).width
    if width > 1:
        value = (value + (1 << (width - 1))) % (1 << width) - (1 << (width - 1))
    return ir.IntegerAttr.get(type_, value)


def argument_type(info: ArgInfo) -> ir.Type:
    if info.kind == "size":
        return ir.IntegerType.get_signless(64)
    shape, element = [static(d) for d in info.shape], types.boundary_type(info.dtype)
    if info.contiguous:
        return ir.MemRefType.get(shape, element)
    layout = ir.StridedLayoutAttr.get(0, [static(s) for s in info.strides])
    return ir.MemRefType.get(shape, element, layout=layout)


def argument_attributes(info: ArgInfo) -> ir.DictAttr:
    attributes: dict[str, ir.Attribute] = {
        "buddy.kind": ir.StringAttr.get(info.kind),
        "buddy.name": ir.StringAttr.get(info.name),
    }
    if info.kind == "size":
        attributes["buddy.shape"] = ir.ArrayAttr.get([ir.StringAttr.get(str(info.expr))])
    else:
        attributes["buddy.shape"] = ir.ArrayAttr.get(
            [ir.StringAttr.get(text) for text in info.shape_strings]
        )
    if info.weight_offset is not None:
        i64 = ir.IntegerType.get_signless(64)
        attributes["buddy.weight_offset"] = ir.IntegerAttr.get(i64, info.weight_offset)
    if info.weight_format is not None:
        attributes["buddy.format"] = ir.StringAttr.get(info.weight_format)
    return ir.DictAttr.get(attributes)
