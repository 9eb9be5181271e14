"""Imports one FX graph as one function."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import sympy
import torch
from mlir import ir
from mlir.dialects import arith, bufferization, func, tensor
from torch.utils._python_dispatch import _disable_current_modes

from . import custom_ops, provenance, registry, scalars, types
from .boundary import (
    Bases,
    argument_attributes,
    argument_type,
    constant_tensor,
    results_of_unknown_size,
)
from .builder import Builder
from .errors import ImportGraphError, MissingOp, Unsupported, UnsupportedOpsError
from .registry import Dialect
from .signature import ArgInfo, ArgSpec, FunctionInfo, OutputInfo, size_info, tensor_info
from .slices import define_slices
from .symbols import SymbolTable, as_dim, as_dims, as_expr, static
from .values import Tensor

aten = torch.ops.aten

# Nodes without an effect in a compiled function: facts already in the expressions of the sizes.
_IGNORED = {
    aten.sym_constrain_range.default,
    aten.sym_constrain_range_for_size.default,
    aten._assert_tensor_metadata.default,
}


# The least and the greatest value of a symbol, None where there is no bound to check.
Range = tuple[int | None, int | None]


class FunctionImporter:
    """Builds the function of one graph; `run` does it and returns the signature."""

    def __init__(
        self,
        gm: torch.fx.GraphModule,
        args: Sequence[ArgSpec],
        name: str,
        primary_dialect: Dialect,
        mutations: dict[int, str],
        alias_outputs: bool = True,
        ranges: Mapping[sympy.Symbol, Range] | None = None,
        may_copy: bool = False,
    ):
        gm = custom_ops.inline(gm)
        self.gm, self.specs, self.name = gm, list(args), name
        self.primary_dialect, self.mutations = primary_dialect, mutations
        self.alias_outputs, self.may_copy = alias_outputs, may_copy
        self.ranges = dict(ranges or {})
        nodes = list(gm.graph.nodes)
        self.placeholders = [node for node in nodes if node.op == "placeholder"]
        self.output_node = next(node for node in nodes if node.op == "output")
        self.body_nodes = [n for n in nodes if n.op not in ("placeholder", "output")]
        self.env: dict[torch.fx.Node, Any] = {}
        self.args: list[ArgInfo] = []
        # Nodes that are no results, but whose memory several results share, and their outputs.
        self.shared: dict[torch.fx.Node, int] = {}
        self._values: list[ir.Value] = []

    # ---- checks before anything is built --------------------------------------------------

    def check(self) -> None:
        """Raise if the graph cannot be imported."""
        if len(self.placeholders) != len(self.specs):
            raise ImportGraphError(
                f"{self.name}: {len(self.specs)} argument specs for "
                f"{len(self.placeholders)} placeholders"
            )
        define_slices(self.gm)
        missing = []
        for node in self.body_nodes:
            reason = None if node.target in _IGNORED else registry.why_unsupported(node)
            if reason is not None:
                missing.append(self._missing(node, reason))
        for spec in self.specs:
            if isinstance(spec.meta, torch.Tensor) and not types.is_supported_dtype(
                spec.meta.dtype
            ):
                name = types.dtype_name(spec.meta.dtype)
                missing.append(
                    MissingOp(f"argument {spec.name}", (name,), "the call", "unsupported dtype")
                )
        metas = [spec.meta for spec in self.specs]
        for node in results_of_unknown_size(self.body_nodes, self.output_node, metas):
            missing.append(self._missing(node, "the result's shape depends on data"))
        if missing:
            raise UnsupportedOpsError(missing)

    @staticmethod
    def _missing(node: torch.fx.Node, reason: str) -> MissingOp:
        node = node.meta.get("functionalized", node)
        metas = registry.tensor_metas([list(node.args), list(node.kwargs.values())])
        dtypes = tuple(dict.fromkeys(types.dtype_name(meta.dtype) for meta in metas))
        target = registry.called_op(node)
        name = str(target) if not callable(target) else _target_name(target)
        return MissingOp(name, dtypes, provenance.describe_source(node), reason)

    # ---- the function ---------------------------------------------------------------------

    def run(self, module: ir.Module) -> FunctionInfo:
        """Add the function to the module and return its signature; on an error add nothing."""
        self.check()
        results = list(_flat(self.output_node.args[0]))
        written = self._collect_mutations(results)
        outputs = self._signature(results, written)
        function = self._declare(module)
        try:
            with ir.InsertionPoint(function.entry_block):
                # The prologue's end; size arithmetic is put before it.
                anchor = ir.Operation.create("buddy.prologue")
                self._bind_arguments(function.entry_block, anchor)
                self._check_ranges()
                for node in self.body_nodes:
                    self._lower(node)
                self._store(results, outputs, written)
                func.ReturnOp([])
                anchor.erase()
            self._tag(function)
        except BaseException:
            function.operation.erase()
            raise
        return FunctionInfo(self.name, self.args, outputs)

    def _collect_mutations(self, results: list[Any]) -> dict[int, torch.fx.Node]:
        """Return placeholder index -> node whose value it gets at the end."""
        index = {node: i for i, node in enumerate(self.placeholders)}
        by_name = {spec.name: i for i, spec in enumerate(self.specs)}
        written: dict[int, torch.fx.Node] = {}
        for node in self.body_nodes:
            if node.target is aten.copy_.default and node.args[0] in index:
                written[index[node.args[0]]] = node.args[1]
        for position, name in self.mutations.items():
            if name not in by_name:
                raise ImportGraphError(f"{self.name}: a mutation of the unknown argument {name}")
            written[by_name[name]] = results[position]
        return written

    def _signature(self, results: list[Any], written: dict[int, torch.fx.Node]) -> list[OutputInfo]:
        """Fill `self.args`; return how each result of the graph is made."""
        position: dict[torch.fx.Node, int] = {}
        for i, (node, spec) in enumerate(zip(self.placeholders, self.specs, strict=True)):
            if spec.kind == "constant":
                continue
            if spec.kind == "size":
                info = size_info(spec.name, spec.meta, placeholder=i)
            elif isinstance(spec.meta, torch.Tensor):
                mutated = i in written
                if mutated and spec.kind == "weight":
                    raise ImportGraphError(f"{self.name}: the weight {spec.name} is written")
                info = tensor_info(
                    "state" if mutated else spec.kind,
                    spec.name,
                    spec.meta,
                    placeholder=i,
                    weight_offset=spec.weight_offset,
                    weight_format=spec.weight_format,
                    mutated=mutated,
                )
            else:
                raise ImportGraphError(
                    f"{self.name}: argument {spec.name} of kind {spec.kind} is a "
                    f"{type(spec.meta).__name__}, not a tensor"
                )
            position[node] = len(self.args)
            self.args.append(info)

        return self._results(results, position)

    def _results(self, results: list[Any], position: dict[torch.fx.Node, int]) -> list[OutputInfo]:
        """Add output arguments to `self.args`; return how each result of the graph is made."""
        outputs: list[OutputInfo] = []
        produced: dict[torch.fx.Node, int] = {}
        bases = Bases(self.alias_outputs)
        for node, arg in position.items():
            bases.add(node.meta.get("val"), arg)
        kept = [result for i, result in enumerate(results) if i not in self.mutations]
        # Whole tensors first: other results may be views of them.
        for result in kept:
            meta = result.meta.get("val") if isinstance(result, torch.fx.Node) else None
            if not isinstance(meta, torch.Tensor) or not bases.is_whole(meta):
                continue
            if result not in position and result not in produced:
                if result.target is not aten.copy_.default and bases.find(meta) is None:
                    produced[result] = self._add_output(meta)
                    bases.add(meta, produced[result])
        tensors = [
            r
            for r in kept
            if isinstance(r, torch.fx.Node) and isinstance(r.meta.get("val"), torch.Tensor)
        ]
        for node in bases.find_whole(tensors, self.body_nodes):
            self.shared[node] = self._add_output(node.meta["val"])
            bases.add(node.meta["val"], self.shared[node])
        for result in kept:
            meta = result.meta.get("val") if isinstance(result, torch.fx.Node) else None
            if result is None or (isinstance(result, torch.fx.Node) and meta is None):
                outputs.append(OutputInfo("none"))
            elif not isinstance(meta, torch.Tensor):
                outputs.append(OutputInfo("scalar", expr=as_expr(result if meta is None else meta)))
            elif result.target is aten.copy_.default and result.args[0] in position:
                outputs.append(OutputInfo("alias", position[result.args[0]]))
            elif result in position:
                outputs.append(OutputInfo("alias", position[result]))
            elif result not in produced and (view := bases.find(meta)) is not None:
                outputs.append(view)
            else:
                if result not in produced:
                    produced[result] = self._add_output(meta)
                outputs.append(OutputInfo("new", produced[result]))
        return outputs

    def _add_output(self, meta: torch.Tensor) -> int:
        number = sum(info.kind == "output" for info in self.args)
        offset = as_dim(meta.storage_offset()) if self.alias_outputs else 0
        self.args.append(tensor_info("output", f"output{number}", meta, storage_offset=offset))
        return len(self.args) - 1

    def _declare(self, module: ir.Module) -> func.FuncOp:
        arg_types = [argument_type(info) for info in self.args]
        with ir.InsertionPoint(module.body):
            function = func.FuncOp(self.name, (arg_types, []))
        function.attributes["buddy.entry"] = ir.UnitAttr.get()
        if self.may_copy:
            function.attributes["buddy.may_copy"] = ir.UnitAttr.get()
        function.attributes["arg_attrs"] = ir.ArrayAttr.get(
            [argument_attributes(info) for info in self.args]
        )
        function.add_entry_block()
        return function

    def _bind_arguments(self, block: ir.Block, anchor: ir.Operation) -> None:
        self.builder = Builder(SymbolTable(anchor))
        self._values = list(block.arguments)
        symbols = self.builder.symbols
        for info, value in zip(self.args, self._values, strict=True):
            if info.kind in ("output", "size"):
                continue
            inner = ir.RankedTensorType.get(
                [static(d) for d in info.shape], types.boundary_type(info.dtype)
            )
            with ir.InsertionPoint(anchor):
                loaded = bufferization.to_tensor(
                    inner, value, restrict=True, writable=True if info.mutated else None
                )
            for i, dim in enumerate(info.shape):
                symbols.bind_size(dim, partial(self._size, loaded, i))
            assert info.placeholder is not None
            node = self.placeholders[info.placeholder]
            self.env[node] = Tensor.plain(loaded, info.dtype, info.shape)
        for info, value in zip(self.args, self._values, strict=True):
            if info.kind == "size":
                read = _as_float if info.dtype is torch.float64 else _as_index
                symbols.bind_size(info.expr, partial(read, value))
                assert info.placeholder is not None
                node = self.placeholders[info.placeholder]
                self.env[node] = node.meta.get("val", self.specs[info.placeholder].meta)
        for node, spec in zip(self.placeholders, self.specs, strict=True):
            if spec.kind == "constant":
                self.env[node] = spec.meta
            value = self.env[node]
            if isinstance(value, Tensor) and value.dtype is torch.bool and node.users:
                byte = Tensor.plain(value.base, torch.uint8, value.shape)
                self.env[node] = self.builder.pointwise(
                    [byte],
                    byte.shape,
                    torch.bool,
                    lambda x: scalars.cast(x, torch.uint8, torch.bool),
                )

    def _check_ranges(self) -> None:
        """Refuse sizes outside of what the graph was traced for."""
        checked: set[sympy.Symbol] = set()
        for info in self.args:
            if info.kind == "output":
                continue
            named = [(dim, f"dimension {i}") for i, dim in enumerate(info.shape)]
            if info.kind == "size":
                named = [(info.expr, "the value")]
            for symbol, what in named:
                if symbol in checked or symbol not in self.ranges:
                    continue
                checked.add(symbol)
                low, high = self.ranges[symbol]
                where = f"argument '{info.name}': {what} must be"
                # A dimension is never negative, an integer argument may be.
                if low is not None and (low > 0 or info.kind == "size"):
                    self._check_bound(symbol, "sge", low, f"{where} at least {low}")
                if high is not None:
                    self._check_bound(symbol, "sle", high, f"{where} at most {high}")

    def _check_bound(self, symbol: sympy.Symbol, predicate: str, bound: int, message: str) -> None:
        # Not by sympy, which knows the symbol's range and would fold the comparison.
        size = self.builder.symbols.index(symbol)
        limit = self.builder.index_constant(bound)
        holds = arith.cmpi(getattr(arith.CmpIPredicate, predicate), size, limit)
        self.builder.check(holds, message, precondition=True)

    def _size(self, value: ir.Value, dim: int) -> ir.Value:
        return tensor.dim(value, self.builder.index(dim))

    # ---- nodes ----------------------------------------------------------------------------

    def _lower(self, node: torch.fx.Node) -> None:
        if node.target in _IGNORED:
            return
        if node.target is aten.copy_.default and node.args[0] in self.placeholders:
            value = self.env[registry.node_arg(node, 1)]
            target = self.env[registry.node_arg(node, 0)]
            self.env[node] = value if isinstance(value, Tensor) else target
            return
        if node.op == "get_attr":
            self.env[node] = self._constant(node)
            return
        if node.target is operator.getitem:
            results, index = self.env.get(registry.node_arg(node, 0)), node.args[1]
            if isinstance(results, (tuple, list)):
                assert isinstance(index, int), node.format_node()
                self.env[node] = results[index]
                return
        entry = self._find_rule(node)
        if entry is None and registry.is_scalar_node(node):
            self.env[node] = node.meta["val"]
            return
        if entry is None:
            raise UnsupportedOpsError([self._missing(node, "no lowering")])
        arguments = [
            self._resolve(arg)
            for arg in registry.schema_arguments(node.target, node.args, node.kwargs)
        ]
        self.builder.node = node
        try:
            with ir.Location.name(node.name, provenance.location(node)):
                result = entry.rule(self.builder, *arguments)
                if result is NotImplemented:
                    fallback = registry.find(node.target, "linalg")
                    assert fallback is not None, "`check` lets no node without one pass"
                    result = fallback.rule(self.builder, *arguments)
                self.env[node] = result
        except Unsupported as error:
            raise UnsupportedOpsError([self._missing(node, str(error))]) from error

    def _find_rule(self, node: torch.fx.Node) -> registry.Entry | None:
        if self.primary_dialect == "tosa":
            entry = registry.find(node.target, "tosa")
            if entry is not None and (entry.condition is None or entry.condition(node) is None):
                return entry
        return registry.find(node.target, "linalg")

    def _resolve(self, arg: Any) -> Any:
        if isinstance(arg, torch.fx.Node):
            return self.env[arg]
        if isinstance(arg, (list, tuple)):
            return [self._resolve(item) for item in arg]
        return arg

    def _tag(self, function: func.FuncOp) -> None:
        """Put module paths on operations, found by the node names in their locations.

        One walk at the end, since a block's list of operations is slow to index.
        """
        nodes = {node.name: node for node in self.body_nodes}
        paths: dict[str, ir.Attribute | None] = {}

        def visit(op: ir.Operation) -> ir.WalkResult:
            location = op.location
            if location.is_a_name() and location.name_str in nodes:
                name = location.name_str
                if name not in paths:
                    path = provenance.module_path(nodes[name])
                    paths[name] = None if path is None else ir.StringAttr.get(path)
                if paths[name] is not None and op.block == function.entry_block:
                    op.attributes["buddy.module"] = paths[name]
                op.location = location.child_loc
            return ir.WalkResult.ADVANCE

        function.operation.walk(visit)

    def _constant(self, node: torch.fx.Node) -> Tensor:
        value: Any = self.gm
        for part in str(node.target).split("."):
            value = getattr(value, part)
        if not isinstance(value, torch.Tensor):
            return value
        with _disable_current_modes():
            return constant_tensor(self.builder, value.detach().cpu())

    # ---- results --------------------------------------------------------------------------

    def _store(
        self,
        results: list[Any],
        outputs: list[OutputInfo],
        written: dict[int, torch.fx.Node],
    ) -> None:
        """Write outputs and states.

        Values are all computed before the first write. What the memory of a state holds by then
        is no matter: a tensor read from it is its old value, whatever is written in between.
        """
        stores: list[tuple[ir.Value, int]] = []
        kept = [result for i, result in enumerate(results) if i not in self.mutations]
        done: set[int] = set()
        for result, output in zip(kept, outputs, strict=True):
            if output.kind == "new" and output.arg not in done:
                assert output.arg is not None
                done.add(output.arg)
                stores.append((self._boundary_value(self.env[result], output.arg), output.arg))
        for node, arg in self.shared.items():
            stores.append((self._boundary_value(self.env[node], arg), arg))
        states = {
            info.placeholder: i for i, info in enumerate(self.args) if info.placeholder in written
        }
        for placeholder, arg in states.items():
            source = self.env[written[placeholder]]
            if not isinstance(source, Tensor):
                raise ImportGraphError(f"{self.name}: {self.args[arg].name} gets no tensor")
            value = self._boundary_value(source, arg)
            owner = value.owner
            if owner.name == "bufferization.to_tensor" and owner.operands[0] == self._values[arg]:
                continue  # written with itself
            stores.append((value, arg))
        for value, arg in stores:
            bufferization.materialize_in_destination(
                None, value, self._values[arg], restrict=True, writable=True
            )

    def _boundary_value(self, source: Tensor, arg: int) -> ir.Value:
        """Return a tensor in the shape, dtype and element type of an argument."""
        info = self.args[arg]
        source = self.builder.cast(source, info.dtype)
        if source.rank != len(info.shape) or as_dims(source.shape) != as_dims(info.shape):
            source = _broadcast(source, info.shape, self.builder)
        if info.dtype is torch.bool:
            source = self.builder.pointwise(
                [source],
                info.shape,
                torch.uint8,
                lambda x: scalars.cast(x, torch.bool, torch.uint8),
            )
        value = self.builder.value(source)
        return self.builder.cast_static(value, info.shape)


def _as_index(value: ir.Value) -> ir.Value:
    return arith.index_cast(ir.IndexType.get(), value)


def _as_float(bits: ir.Value) -> ir.Value:
    return arith.bitcast(ir.F64Type.get(), bits)


def _broadcast(source: Tensor, shape: Sequence[Any], builder: Builder) -> Tensor:
    return builder.pointwise([source], shape, source.dtype, lambda x: x)


def _flat(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in _flat(item)]
    return [value]


def _target_name(target: Any) -> str:
    return str(target) if isinstance(target, torch._ops.OpOverload) else target.__name__
