"""Reshapes and views as `tensor.collapse_shape`, `tensor.expand_shape` and indexing maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import sympy
from mlir import ir
from mlir.dialects import linalg, tensor

from .symbols import Dim, product, same, static
from .values import Tensor

if TYPE_CHECKING:
    from .builder import Builder


def _reassociation(groups: Sequence[Sequence[int]]) -> ir.ArrayAttr:
    i64 = ir.IntegerType.get_signless(64)
    return ir.ArrayAttr.get(
        [ir.ArrayAttr.get([ir.IntegerAttr.get(i64, i) for i in group]) for group in groups]
    )


def _typed(value: ir.Value, shape: Sequence[Dim]) -> ir.RankedTensorType:
    return ir.RankedTensorType.get([static(d) for d in shape], value.type.element_type)


def collapse(value: ir.Value, shape: Sequence[Dim], groups: Sequence[Sequence[int]]) -> ir.Value:
    """Merge groups of neighbouring dimensions; `shape` is the result's."""
    if all(len(group) == 1 for group in groups) and value.type.rank == len(groups):
        return value
    return tensor.CollapseShapeOp(_typed(value, shape), value, _reassociation(groups)).result


def expand(
    builder: Builder, value: ir.Value, shape: Sequence[Dim], groups: Sequence[Sequence[int]]
) -> ir.Value:
    """Split dimensions into groups of neighbouring ones; `shape` is the result's."""
    if all(len(group) == 1 for group in groups) and len(shape) == len(groups):
        return value
    sizes, statics = builder.mixed(shape)
    return tensor.ExpandShapeOp(
        _typed(value, shape), value, _reassociation(groups), sizes, statics
    ).result


def drop_unit_dims(builder: Builder, source: Tensor, positions: Sequence[int]) -> Tensor:
    """Return the tensor with base dimensions of size 1 made broadcast dimensions (None)."""
    drop = {source.dims[i] for i in positions if source.dims[i] is not None}
    if not drop:
        return source
    base_shape = builder.base_shape(source)
    kept = [i for i in range(len(base_shape)) if i not in drop]
    base = source.base
    if kept:
        groups: list[list[int]] = [[] for _ in kept]
        for i in range(len(base_shape)):
            group = max((k for k, dim in enumerate(kept) if dim <= i), default=0)
            groups[group].append(i)
    else:
        groups = []
    base = collapse(base, [base_shape[i] for i in kept], groups)
    renumber = {old: new for new, old in enumerate(kept)}
    dims = tuple(None if dim is None or dim in drop else renumber[dim] for dim in source.dims)
    return Tensor(base, source.dtype, source.shape, dims)


def materialize(builder: Builder, source: Tensor) -> ir.Value:
    """Return a view's elements as a plain value."""
    present = [dim for dim in source.dims if dim is not None]
    if present == sorted(present) and all(
        size == 1 for size, dim in zip(source.shape, source.dims, strict=True) if dim is None
    ):
        return _insert_unit_dims(builder, source)
    if len(present) == source.rank:
        init = builder.empty(source.shape, source.dtype)
        result = linalg.transpose(source.base, outs=[init], permutation=present)
        return result.results[0] if not isinstance(result, ir.Value) else result
    return builder.pointwise([source], source.shape, source.dtype, lambda x: x).base


def _insert_unit_dims(builder: Builder, source: Tensor) -> ir.Value:
    """Expand the base so that the view's dimensions of size 1 exist."""
    groups: list[list[int]] = []
    leading: list[int] = []
    for i, dim in enumerate(source.dims):
        if dim is None and not groups:
            leading.append(i)
        elif dim is None:
            groups[-1].append(i)
        else:
            groups.append([*leading, i])
            leading = []
    return expand(builder, source.base, source.shape, groups)


def squeeze(builder: Builder, source: Tensor, positions: Sequence[int]) -> Tensor:
    """Return the view without the dimensions (of size 1) at these positions."""
    source = drop_unit_dims(builder, source, positions)
    kept = [i for i in range(source.rank) if i not in set(positions)]
    return source.permute(kept)


def _divides(part: Dim, whole: Dim) -> bool:
    """Tell whether `whole` is `part` times a size, as far as the expressions show."""
    if isinstance(part, int) and isinstance(whole, int):
        return part != 0 and whole % part == 0
    quotient = sympy.cancel(sympy.sympify(whole) / sympy.sympify(part))
    return sympy.denom(quotient) == 1


def _match(old: Sequence[Dim], new: Sequence[Dim]) -> list[tuple[list[int], list[int]]] | None:
    """Pair groups of neighbouring dimensions with equal products; None if that fails.

    Dimensions of size 1 go with the group before them, or the first.
    """
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        left: list[int] = []
        right: list[int] = []
        size_left: Dim = 1
        size_right: Dim = 1
        while True:
            if left and right and same(size_left, size_right):
                break
            take_left = i < len(old) and (
                not left or (bool(right) and _divides(size_left, size_right))
            )
            if take_left:
                left.append(i)
                size_left = product((size_left, old[i]))
                i += 1
            elif j < len(new):
                right.append(j)
                size_right = product((size_right, new[j]))
                j += 1
            elif i < len(old):
                left.append(i)
                size_left = product((size_left, old[i]))
                i += 1
            else:
                break
        if left and right and same(size_left, size_right):
            groups.append((left, right))
        elif groups and same(product((size_left, size_right)), 1):
            groups[-1] = (groups[-1][0] + left, groups[-1][1] + right)
        else:
            return None
    return groups


def reshape(builder: Builder, source: Tensor, shape: Sequence[Dim]) -> Tensor:
    """Return the tensor's elements in row-major order with another shape."""
    shape = tuple(shape)
    if len(shape) == source.rank and all(
        same(a, b) for a, b in zip(shape, source.shape, strict=True)
    ):
        return source
    if any(dim == 0 for dim in (*shape, *source.shape)):
        return Tensor.plain(builder.empty(shape, source.dtype), source.dtype, shape)
    only_units = _reshape_unit_dims(builder, source, shape)
    if only_units is not None:
        return only_units
    value = builder.value(source)
    groups = _match(source.shape, shape)
    if groups is None:
        groups = [(list(range(source.rank)), list(range(len(shape))))]
    middle = tuple(
        shape[right[0]] if len(right) == 1 else product(source.shape[i] for i in left)
        for left, right in groups
    )
    if source.rank == 0 or not shape:
        groups, middle = [], ()
    collapsed = [
        product(source.shape[i] for i in left)
        if all(isinstance(source.shape[i], int) for i in left)
        else sympy.Symbol("dynamic")
        for left, _ in groups
    ]
    value = collapse(value, collapsed, [left for left, _ in groups])
    value = builder.cast_static(value, middle)
    value = expand(builder, value, shape, [right for _, right in groups])
    return Tensor.plain(value, source.dtype, shape)


def _reshape_unit_dims(builder: Builder, source: Tensor, shape: tuple[Dim, ...]) -> Tensor | None:
    """Reshape by only adding and removing dimensions of size 1, which keeps views; else None."""
    old = [i for i, d in enumerate(source.shape) if d != 1]
    new = [i for i, d in enumerate(shape) if d != 1]
    if len(old) != len(new) or not all(
        same(source.shape[i], shape[j]) for i, j in zip(old, new, strict=True)
    ):
        return None
    view = squeeze(builder, source, [i for i in range(source.rank) if i not in old])
    for j, dim in enumerate(shape):
        if dim == 1:
            view = view.unsqueeze(j)
    return view
