"""The builder that lowering rules use: tensors in, tensors out.

Everything here works on `values.Tensor` and plain MLIR values; ATen's semantics is in
`lowerings/`. All operations are put at the current insertion point.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from mlir import ir
from mlir.dialects import arith, linalg, scf, tensor

from . import scalars, shapes, types
from .symbols import DYNAMIC, Dim, SymbolTable, as_dim, as_dims, as_expr, static
from .values import Tensor

PARALLEL = "parallel"
REDUCTION = "reduction"
Body = Callable[..., "ir.Value | Sequence[ir.Value]"]


def loop_index(loop: int) -> ir.Value:
    """Return the counter of a loop, in the body of a structured operation."""
    return linalg.IndexOp(loop).result


class Builder:
    """Builds the operations of one function.

    `node` is the FX node being lowered and `meta` its fake value; a rule reads result shapes and
    dtypes there. The importer sets it before each rule.
    """

    node: torch.fx.Node

    def __init__(self, symbols: SymbolTable):
        self.symbols = symbols

    # ---- the node being lowered ----------------------------------------------------------

    @property
    def meta(self) -> Any:
        """Return the fake value (or tuple of them) of the node being lowered."""
        return self.node.meta["val"]

    def result_shape(self, index: int | None = None) -> tuple[Dim, ...]:
        """Return the shape of the node's result (the `index`-th, when there are several)."""
        meta = self.meta if index is None else self.meta[index]
        return as_dims(meta.shape)

    def result_dtype(self, index: int | None = None) -> torch.dtype:
        """Return the dtype of the node's result (the `index`-th, when there are several)."""
        return (self.meta if index is None else self.meta[index]).dtype

    def is_used(self, index: int) -> bool:
        """Tell whether the `index`-th result of the node is used."""
        return any(user.op != "call_function" or user.args[1] == index for user in self.node.users)

    # ---- sizes and constants -------------------------------------------------------------

    def index(self, dim: Any) -> ir.Value:
        """Return a size (int, SymInt or expression) as an `index` value."""
        return self.symbols.index(as_expr(dim))

    def mixed(self, dims: Sequence[Any]) -> tuple[list[ir.Value], list[int]]:
        """Split sizes into the dynamic values and the static array that MLIR ops take."""
        dims = [as_dim(dim) if not isinstance(dim, ir.Value) else dim for dim in dims]
        values = [
            d if isinstance(d, ir.Value) else self.index(d) for d in dims if not isinstance(d, int)
        ]
        return values, [d if isinstance(d, int) else DYNAMIC for d in dims]

    def index_constant(self, value: int) -> ir.Value:
        """Return an `index` constant."""
        return arith.constant(ir.IndexType.get(), value)

    def scalar(self, value: Any, dtype: torch.dtype) -> ir.Value:
        """Return a Python or symbolic number as a scalar value, rounded as torch does."""
        expr = as_expr(value)
        if isinstance(expr, (bool, int, float, complex)):
            return scalars.constant(expr, dtype)
        result = self.symbols.value(expr)
        source = {ir.F64Type.get(): torch.float64, ir.IndexType.get(): torch.int64}.get(
            result.type, torch.bool
        )
        if source is torch.int64:
            result = arith.index_cast(ir.IntegerType.get_signless(64), result)
        return scalars.cast(result, source, dtype)

    def tensor_type(self, shape: Sequence[Dim], dtype: torch.dtype) -> ir.RankedTensorType:
        """Return the MLIR type of a tensor inside the function."""
        return ir.RankedTensorType.get([static(d) for d in shape], types.element_type(dtype))

    def empty(self, shape: Sequence[Dim], dtype: torch.dtype) -> ir.Value:
        """Return an uninitialised tensor."""
        sizes = [d if isinstance(d, int) else self.index(d) for d in shape]
        return tensor.empty(sizes, types.element_type(dtype))

    def full(self, shape: Sequence[Dim], value: ir.Value, dtype: torch.dtype) -> ir.Value:
        """Return a tensor filled with a scalar value of the dtype."""
        return linalg.fill(value, outs=[self.empty(shape, dtype)])

    # ---- structured operations -----------------------------------------------------------

    def generic(
        self,
        inputs: Sequence[tuple[ir.Value, ir.AffineMap]],
        outputs: Sequence[tuple[ir.Value, ir.AffineMap]],
        iterators: Sequence[str],
        body: Body,
    ) -> list[ir.Value]:
        """Build a `linalg.generic`; `body` gets the elements and returns those to yield."""
        kinds = [ir.Attribute.parse(f"#linalg.iterator_type<{kind}>") for kind in iterators]
        maps = [ir.AffineMapAttr.get(map_) for _, map_ in (*inputs, *outputs)]
        op = linalg.GenericOp(
            [value.type for value, _ in outputs],
            [value for value, _ in inputs],
            [value for value, _ in outputs],
            ir.ArrayAttr.get(maps),
            ir.ArrayAttr.get(kinds),
        )
        elements = [value.type.element_type for value, _ in (*inputs, *outputs)]
        here = ir.Location.current
        here = here.child_loc if here.is_a_name() else here
        block = op.regions[0].blocks.append(*elements, arg_locs=[here] * len(elements))
        with ir.InsertionPoint(block):
            results = body(*block.arguments)
            linalg.YieldOp([results] if isinstance(results, ir.Value) else list(results))
        return list(op.results)

    def operand(
        self, source: Tensor, shape: Sequence[Dim], rank: int | None = None, first: int = 0
    ) -> tuple[ir.Value, ir.AffineMap]:
        """Return a tensor as operand of a structured operation, broadcast to `shape`.

        The loops from `first` on go over `shape`; `rank` is the number of loops.
        """
        rank = len(shape) if rank is None else rank
        offset = len(shape) - source.rank
        broadcast = [
            i
            for i, dim in enumerate(source.dims)
            if dim is not None and source.shape[i] == 1 and shape[offset + i] != 1
        ]
        source = shapes.drop_unit_dims(self, source, broadcast)
        loops: dict[int, int] = {
            dim: first + offset + i for i, dim in enumerate(source.dims) if dim is not None
        }
        exprs = [ir.AffineDimExpr.get(loops[dim]) for dim in range(len(loops))]
        return source.base, ir.AffineMap.get(rank, 0, exprs)

    def pointwise(
        self,
        operands: Sequence[Tensor],
        shape: Sequence[Dim],
        dtype: torch.dtype,
        body: Body,
    ) -> Tensor:
        """Build an element-wise operation over tensors broadcast to `shape`."""
        shape = tuple(shape)
        inputs = [self.operand(operand, shape) for operand in operands]
        identity = ir.AffineMap.get_identity(len(shape))
        (result,) = self.generic(
            inputs,
            [(self.empty(shape, dtype), identity)],
            [PARALLEL] * len(shape),
            lambda *elements: body(*elements[: len(inputs)]),
        )
        return Tensor.plain(result, dtype, shape)

    def cast(self, source: Tensor, dtype: torch.dtype) -> Tensor:
        """Return the tensor converted to a dtype, with the view kept."""
        if source.dtype == dtype:
            return source
        base_shape = self.base_shape(source)
        base = self.pointwise(
            [Tensor.plain(source.base, source.dtype, base_shape)],
            base_shape,
            dtype,
            lambda x: scalars.cast(x, source.dtype, dtype),
        )
        return Tensor(base.base, dtype, source.shape, source.dims)

    @staticmethod
    def base_shape(source: Tensor) -> tuple[Dim, ...]:
        """Return the shape of the base value of a view."""
        sizes = {dim: size for dim, size in zip(source.dims, source.shape, strict=True)}
        return tuple(sizes[dim] for dim in range(len(sizes) - (None in sizes)))

    def value(self, source: Tensor) -> ir.Value:
        """Return the tensor as a plain value of its shape, moving data only if it must."""
        if source.is_plain:
            return source.base
        if source._plain is None:
            source._plain = shapes.materialize(self, source)
        return source._plain

    def plain(self, source: Tensor) -> Tensor:
        """Return the tensor as one that is its base value."""
        return Tensor.plain(self.value(source), source.dtype, source.shape)

    # ---- slices --------------------------------------------------------------------------

    def extract_slice(
        self, source: Tensor, offsets: Sequence[Any], sizes: Sequence[Any], strides: Sequence[Any]
    ) -> Tensor:
        """Return a rectangular part of a tensor; offsets, sizes and strides are mixed."""
        shape = as_dims(sizes)
        if 0 in shape:  # offsets that are the size are no valid ones
            return Tensor.plain(self.empty(shape, source.dtype), source.dtype, shape)
        base = self.value(source)
        dynamic = [self.mixed(part) for part in (offsets, sizes, strides)]
        result = tensor.ExtractSliceOp(
            self.tensor_type(shape, source.dtype),
            base,
            *[values for values, _ in dynamic],
            *[statics for _, statics in dynamic],
        ).result
        return Tensor.plain(result, source.dtype, shape)

    def run(self, source: ir.Value, first: ir.Value, count: ir.Value) -> ir.Value:
        """Return `count` elements, a number known at run time, of a vector from the first one."""
        parts = [self.mixed(part) for part in ([first], [count], [1])]
        return tensor.ExtractSliceOp(
            ir.RankedTensorType.get([DYNAMIC], source.type.element_type),
            source,
            *[values for values, _ in parts],
            *[statics for _, statics in parts],
        ).result

    def insert_slice(
        self,
        source: ir.Value,
        into: ir.Value,
        offsets: Sequence[Any],
        sizes: Sequence[Any],
        strides: Sequence[Any] | None = None,
    ) -> ir.Value:
        """Return `into` with a rectangular part replaced; the source may lack unit dimensions."""
        strides = [1] * len(offsets) if strides is None else strides
        if any(isinstance(size, int) and size == 0 for size in (*sizes, *into.type.shape)):
            return into
        dynamic = [self.mixed(part) for part in (offsets, sizes, strides)]
        return tensor.InsertSliceOp(
            source,
            into,
            *[values for values, _ in dynamic],
            *[statics for _, statics in dynamic],
        ).result

    # ---- loops ---------------------------------------------------------------------------

    def loop(
        self,
        sizes: Sequence[Any],
        carried: Sequence[ir.Value],
        body: Callable[[list[ir.Value], list[ir.Value]], Sequence[ir.Value]],
    ) -> list[ir.Value]:
        """Build a nest of `scf.for` from 0 to each size that carries values (tensors, scalars).

        `body` gets the loop counters and the carried values and returns the new ones. Tensors
        that are carried and written by `tensor.insert` or `insert_slice` bufferize in place.
        """

        def nest(
            rest: Sequence[Any], counters: list[ir.Value], values: list[ir.Value]
        ) -> list[ir.Value]:
            if not rest:
                return list(body(counters, values))
            zero, one = self.index_constant(0), self.index_constant(1)
            limit = rest[0] if isinstance(rest[0], ir.Value) else self.index(rest[0])
            loop = scf.ForOp(zero, limit, one, values)
            with ir.InsertionPoint(loop.body):
                counter = loop.induction_variable
                scf.YieldOp(nest(rest[1:], [*counters, counter], list(loop.inner_iter_args)))
            return list(loop.results)

        return nest(list(sizes), [], list(carried))

    def rows(
        self,
        depth: int,
        carried: Sequence[Tensor],
        body: Callable[[list[ir.Value], list[ir.Value]], Sequence[ir.Value]],
    ) -> list[ir.Value]:
        """Update plain tensors part by part, in parallel over their `depth` first dimensions.

        These dimensions have the same sizes. `body` gets the counters and the tensors' parts,
        without these dimensions, and returns the new ones; it must not read other parts.
        """
        bases = [value.base for value in carried]
        if depth == 0:
            return list(body([], bases))
        if any(0 in value.shape for value in carried):
            return bases
        limits = [d if isinstance(d, int) else self.index(d) for d in carried[0].shape[:depth]]
        loop = scf.ForallOp([0] * depth, limits, [1] * depth, bases)
        at = list(loop.induction_variables)
        held = list(loop.inner_iter_args)
        layouts = []
        with ir.InsertionPoint(loop.body):
            parts = []
            for value, base in zip(carried, held, strict=True):
                part, layout = self._part(base, value.dtype, value.shape, at)
                parts.append(part)
                layouts.append(layout)
            filled = body(at, parts)
            with ir.InsertionPoint(loop.terminator().block):
                for value, base, layout in zip(filled, held, layouts, strict=True):
                    tensor.parallel_insert_slice(value, base, *layout)
        return list(loop.results)

    def part(self, source: Tensor, at: Sequence[ir.Value]) -> ir.Value:
        """Return a plain tensor's part at indices of its first dimensions, without these."""
        if 0 in source.shape:  # offsets that are the size are no valid ones
            return self.empty(source.shape[len(at) :], source.dtype)
        return self._part(source.base, source.dtype, source.shape, at)[0]

    def _part(
        self, base: ir.Value, dtype: torch.dtype, shape: Sequence[Dim], at: Sequence[ir.Value]
    ) -> tuple[ir.Value, list[Any]]:
        """Return the part, and its place as the slice operations take it."""
        rank, rest = len(shape), list(shape[len(at) :])
        offsets = [*at, *[0] * len(rest)]
        sizes = [*[1] * len(at), *rest]
        mixed = [self.mixed(part) for part in (offsets, sizes, [1] * rank)]
        layout = [*(values for values, _ in mixed), *(statics for _, statics in mixed)]
        type_ = self.tensor_type(rest, dtype)
        return tensor.ExtractSliceOp(type_, base, *layout).result, layout

    # ---- checks and our ops --------------------------------------------------------------

    def buddy_op(
        self,
        name: str,
        operands: Sequence[ir.Value],
        results: Sequence[ir.Type],
        attributes: dict[str, ir.Attribute],
    ) -> ir.Operation:
        """Build an operation of our dialect, which the bindings do not know."""
        return ir.Operation.create(
            f"buddy.{name}", results=results, operands=operands, attributes=attributes
        )

    def check(self, condition: ir.Value, message: str, precondition: bool = False) -> None:
        """Make the call return an error with this message unless the i1 value is true.

        precondition: the condition is on sizes only, and what follows is not memory-safe without
        it; the attribute `buddy.precondition` asks that the call end here if it fails.
        """
        attributes: dict[str, ir.Attribute] = {"message": ir.StringAttr.get(message)}
        if precondition:
            attributes["buddy.precondition"] = ir.UnitAttr.get()
        self.buddy_op("check", [condition], [], attributes)

    def cast_static(self, value: ir.Value, shape: Sequence[Dim]) -> ir.Value:
        """Return the value with the static sizes of `shape` in its type."""
        type_ = ir.RankedTensorType.get([static(d) for d in shape], value.type.element_type)
        return value if value.type == type_ else tensor.cast(type_, value)


__all__ = ["PARALLEL", "REDUCTION", "Builder", "loop_index"]
