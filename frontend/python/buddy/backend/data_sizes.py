"""Values that a graph reads from its tensors: sizes that depend on data, and Python scalars.

A graph is split at a read: one part computes the tensor, the read happens here, and later parts
get the value as an argument, so that all their sizes are known when they are entered. A read of
which no size nor result depends stays within its part.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Collection
from typing import Any

import sympy
import torch

from buddy.importer import registry
from buddy.importer.slices import define_slices
from buddy.importer.symbols import as_dim, as_expr

aten = torch.ops.aten
_READS = (aten._local_scalar_dense.default, aten.item.default)
_SIMPLE: dict[torch.dtype, Any] = {
    torch.int8: ctypes.c_int8,
    torch.uint8: ctypes.c_uint8,
    torch.int16: ctypes.c_int16,
    torch.uint16: ctypes.c_uint16,
    torch.int32: ctypes.c_int32,
    torch.uint32: ctypes.c_uint32,
    torch.int64: ctypes.c_int64,
    torch.uint64: ctypes.c_uint64,
    torch.float32: ctypes.c_float,
    torch.float64: ctypes.c_double,
    torch.bool: ctypes.c_bool,
}


def read_scalar(tensor: torch.Tensor) -> Any:
    """Return the one element of a CPU tensor as a Python number."""
    pointer, dtype = tensor.data_ptr(), tensor.dtype
    if not pointer or tensor.is_neg() or tensor.is_conj():
        return tensor.item()
    if dtype in _SIMPLE:
        return _SIMPLE[dtype].from_address(pointer).value
    if dtype is torch.float16:
        return struct.unpack("e", ctypes.string_at(pointer, 2))[0]
    if dtype is torch.bfloat16:
        return struct.unpack("<f", b"\0\0" + ctypes.string_at(pointer, 2))[0]
    return tensor.item()


def take_reads(gm: torch.fx.GraphModule) -> set[torch.fx.Node]:
    """Return the reads at which the graph is to be split, made calls of `read_scalar`."""
    reads = {
        node for target in _READS for node in gm.graph.find_nodes(op="call_function", target=target)
    }
    if not reads:
        return reads
    define_slices(gm)
    shaped = _symbols_of_sizes(gm)
    results = gm.graph.find_nodes(op="output")[0].all_input_nodes
    taken = {n for n in reads if n in results or _symbols(as_expr(n.meta["val"])) & shaped}
    # A scalar that is computed from a read and returned is computed by the caller.
    for result in results:
        if registry.is_scalar_node(result):
            symbols = _symbols(as_expr(result.meta["val"]))
            taken |= {node for node in reads if _symbols(as_expr(node.meta["val"])) & symbols}
    for node in taken:
        node.target = read_scalar
    return taken


def read_symbol(node: torch.fx.Node) -> sympy.Symbol | None:
    """Return the symbol whose value a taken read gives; for a bool it is that of 0 or 1."""
    if node.target is not read_scalar:
        return None
    return scalar_symbol(node.meta["val"])


def scalar_symbol(value: Any) -> sympy.Symbol | None:
    """Return the symbol that a symbolic scalar is; for a bool the one that is 0 or 1."""
    expr = as_expr(value)
    if isinstance(expr, sympy.Symbol):
        return expr
    if isinstance(expr, sympy.Eq) and isinstance(expr.lhs, sympy.Symbol) and expr.rhs == 1:
        return expr.lhs
    return None


def symbols_needed(nodes: Collection[torch.fx.Node]) -> set[sympy.Symbol]:
    """Return the symbols in the sizes and scalars of nodes and of what they take."""
    found: set[sympy.Symbol] = set()
    sources = {source for node in nodes for source in node.all_input_nodes}
    for node in {*nodes, *sources}:
        for meta in registry.tensor_metas(node):
            for part in (meta.shape, meta.stride(), (meta.storage_offset(),)):
                found.update(*(_symbols(as_dim(size)) for size in part))
        if registry.is_scalar_node(node):
            found |= _symbols(as_expr(node.meta["val"]))
    return found


def _symbols(expr: Any) -> set[sympy.Symbol]:
    return set(expr.free_symbols) if isinstance(expr, sympy.Basic) else set()


def _symbols_of_sizes(gm: torch.fx.GraphModule) -> set[sympy.Symbol]:
    """Return the symbols in sizes of all tensors, and in offsets of results."""
    found: set[sympy.Symbol] = set()
    results = gm.graph.find_nodes(op="output")[0].all_input_nodes
    for node in gm.graph.nodes:
        for meta in registry.tensor_metas(node):
            sizes: list[Any] = [*meta.shape, *meta.stride()]
            if node in results:
                sizes.append(meta.storage_offset())
            found.update(*(_symbols(as_dim(size)) for size in sizes))
    return found
