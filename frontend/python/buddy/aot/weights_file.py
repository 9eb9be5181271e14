"""The bundle's weights: one safetensors file that can be mapped and used where it lies.

safetensors allows no holes and aligns nothing.  Here the header is padded with spaces so that the
data section starts on a page, and every tensor on a multiple of 64 bytes; what lies between tensors
is itself a U8 tensor named `buddy.padding.N`.  The offsets are known before any weight is read, so
that a module can be compiled against them, and weights are written one at a time.

`__metadata__` holds `build_id`, a hash of the tensors' contents and layout; the library of the same
build carries it too.

Format: https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from buddy.aot.errors import BundleError

if TYPE_CHECKING:
    import torch

PAGE = 4096
ALIGNMENT = 64
PADDING_PREFIX = "buddy.padding."
_BUILD_ID_DIGITS = 32
_PIECE = 1 << 24  # bytes written at a time


def dtype_name(dtype: torch.dtype) -> str:
    """The safetensors name of a torch dtype."""
    import torch

    names = {
        torch.float64: "F64",
        torch.float32: "F32",
        torch.float16: "F16",
        torch.bfloat16: "BF16",
        torch.int64: "I64",
        torch.int32: "I32",
        torch.int16: "I16",
        torch.int8: "I8",
        torch.uint8: "U8",
        torch.bool: "BOOL",
        torch.complex64: "C64",
    }
    if dtype not in names:
        raise BundleError(f"a weight of dtype {dtype} cannot be stored in a bundle")
    return names[dtype]


@dataclass(frozen=True)
class TensorSpec:
    """A weight as it will be stored."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def bytes(self) -> int:
        count = self.dtype.itemsize
        for size in self.shape:
            count *= size
        return count


@dataclass(frozen=True)
class Layout:
    """Where each tensor lies: `offsets` and `size` are bytes in the data section."""

    specs: list[TensorSpec]
    offsets: dict[str, int]
    size: int


def plan(specs: list[TensorSpec]) -> Layout:
    """Lay tensors out in the given order."""
    offsets: dict[str, int] = {}
    position = 0
    for spec in specs:
        if spec.name in offsets:
            raise BundleError(f"two weights are named '{spec.name}'")
        if spec.name.startswith(PADDING_PREFIX) or spec.name == "__metadata__":
            raise BundleError(f"a weight may not be named '{spec.name}': the name is reserved")
        position = -(-position // ALIGNMENT) * ALIGNMENT
        offsets[spec.name] = position
        position += spec.bytes
    return Layout(specs, offsets, position)


def write(
    path: Path,
    layout: Layout,
    load: Callable[[str], torch.Tensor],
    progress: Callable[[int], None] = lambda done: None,
) -> str:
    """Write the file, asking `load` for one tensor at a time; return the build id.

    `progress` is told the number of data bytes written so far.
    """
    header = _header(layout, "0" * _BUILD_ID_DIGITS)
    digest = hashlib.sha256(header)
    with open(path, "wb") as file:
        file.write(header)
        for name, size in _pieces(layout):
            data = bytes(size) if name is None else _bytes_of(load(name), layout, name)
            for start in range(0, len(data), _PIECE):
                piece = data[start : start + _PIECE]
                digest.update(piece)
                file.write(piece)
            progress(file.tell() - len(header))
        build_id = digest.hexdigest()[:_BUILD_ID_DIGITS]
        file.seek(0)
        file.write(_header(layout, build_id))
        file.flush()
    return build_id


def _pieces(layout: Layout) -> Iterator[tuple[str | None, int]]:
    """Tensors (by name) and the padding between them (None), in the order of the file."""
    position = 0
    for spec in layout.specs:
        offset = layout.offsets[spec.name]
        if offset > position:
            yield None, offset - position
        yield spec.name, spec.bytes
        position = offset + spec.bytes


def _header(layout: Layout, build_id: str) -> bytes:
    """The length word and the JSON text, padded to a multiple of PAGE."""
    entries: dict[str, object] = {"__metadata__": {"format": "pt", "build_id": build_id}}
    specs = {spec.name: spec for spec in layout.specs}
    position = paddings = 0
    for name, size in _pieces(layout):
        if name is None:
            name, dtype, shape = f"{PADDING_PREFIX}{paddings}", "U8", [size]
            paddings += 1
        else:
            dtype, shape = dtype_name(specs[name].dtype), list(specs[name].shape)
        offsets = [position, position + size]
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
        position += size
    text = json.dumps(entries, ensure_ascii=True, separators=(",", ":")).encode()
    text = text.ljust(-(-(8 + len(text)) // PAGE) * PAGE - 8)
    return len(text).to_bytes(8, "little") + text


def _bytes_of(tensor: torch.Tensor, layout: Layout, name: str) -> memoryview:
    """The tensor's elements in row-major order, as bytes."""
    import torch

    spec = next(spec for spec in layout.specs if spec.name == name)
    if tuple(tensor.shape) != spec.shape:
        found, expected = list(tensor.shape), list(spec.shape)
        raise BundleError(f"weight '{name}' has shape {found}, the model needs {expected}")
    if tensor.dtype != spec.dtype:
        raise BundleError(f"weight '{name}' has dtype {tensor.dtype}, the model needs {spec.dtype}")
    flat = tensor.detach().contiguous().reshape(-1)
    return memoryview(flat.view(torch.uint8).numpy().data) if flat.numel() else memoryview(b"")
