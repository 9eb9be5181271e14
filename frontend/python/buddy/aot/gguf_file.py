"""GGUF files: the header read with every length checked, tensors dequantised one at a time.

The `gguf` package knows the block formats and undoes them; the header is parsed here because a
damaged file must end in one line of text and neither loop, allocate without bound nor crash.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from buddy.aot.errors import BundleError

_SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
_STRING, _ARRAY = 8, 9
_MAX_RANK = 4
_DEFAULT_ALIGNMENT = 32


@dataclass(frozen=True)
class GGUFTensor:
    """A stored tensor; `shape` is row-major, as PyTorch says it, `offset` counts from the file."""

    name: str
    shape: tuple[int, ...]
    kind: int
    offset: int
    bytes: int


class _Cursor:
    """Reads little-endian values from `data`, refusing to pass its end."""

    def __init__(self, data: mmap.mmap, path: Path) -> None:
        self.data, self.path, self.at = data, path, 0

    def take(self, count: int) -> int:
        """Skip `count` bytes; return where they start."""
        start = self.at
        if count > len(self.data) - start:
            raise BundleError(
                f"{self.path}: truncated GGUF file: {count} bytes are needed at offset {start}, "
                f"the file has {len(self.data)}"
            )
        self.at += count
        return start

    def scalar(self, code: str) -> Any:
        return struct.unpack_from("<" + code, self.data, self.take(struct.calcsize("<" + code)))[0]

    def string(self) -> str:
        length = self.scalar("Q")
        start = self.take(length)
        return self.data[start : start + length].decode("utf-8", "replace")

    def value(self, kind: int, depth: int = 0) -> Any:
        if kind in _SCALARS:
            return self.scalar(_SCALARS[kind])
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY and depth == 0:
            element, count = self.scalar("I"), self.scalar("Q")
            if element in _SCALARS:
                code = _SCALARS[element]
                start = self.take(count * struct.calcsize("<" + code))
                return list(struct.unpack_from(f"<{count}{code}", self.data, start))
            if count > len(self.data) // 8:  # each string takes at least 8 bytes
                self.take(count * 8)
            return [self.value(element, depth + 1) for _ in range(count)]
        raise BundleError(f"{self.path}: damaged GGUF file: unknown value type {kind}")


class GGUFFile:
    """An open GGUF file: `metadata` by key, `tensors` by name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with open(path, "rb") as file:
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise BundleError(f"{path}: {error.strerror or error}") from None
        except ValueError:  # an empty file cannot be mapped
            raise BundleError(f"{path}: empty file, expected a GGUF file") from None
        cursor = _Cursor(self._data, path)
        magic = self._data[:4]
        if magic != b"GGUF":
            raise BundleError(f"{path}: not a GGUF file (it begins with {magic!r})")
        cursor.take(4)
        self._version = cursor.scalar("I")
        if self._version not in (2, 3):
            raise BundleError(
                f"{path}: GGUF version {self._version} is not supported (2 and 3 are); "
                "a big-endian file must be converted first"
            )
        tensor_count, self._key_count = cursor.scalar("Q"), cursor.scalar("Q")
        self._metadata_start = cursor.at
        self.metadata: dict[str, Any] = {}
        for _ in range(self._key_count):
            key = cursor.string()
            if key in self.metadata:
                raise BundleError(f"{path}: damaged GGUF file: key '{key}' occurs twice")
            self.metadata[key] = cursor.value(cursor.scalar("I"))
        self._metadata_end = cursor.at
        self.tensors = self._read_tensors(cursor, tensor_count)

    def _read_tensors(self, cursor: _Cursor, count: int) -> dict[str, GGUFTensor]:
        from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

        raw: list[tuple[str, tuple[int, ...], int, int]] = []
        for _ in range(count):
            name, rank = cursor.string(), cursor.scalar("I")
            if rank > _MAX_RANK:
                raise BundleError(
                    f"{self.path}: tensor '{name}' has rank {rank}, at most 4 is valid"
                )
            shape = tuple(reversed([cursor.scalar("Q") for _ in range(rank)]))
            raw.append((name, shape, cursor.scalar("I"), cursor.scalar("Q")))
        alignment = self.metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
        if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
            raise BundleError(f"{self.path}: damaged GGUF file: general.alignment is {alignment}")
        start = -(-cursor.at // alignment) * alignment
        tensors: dict[str, GGUFTensor] = {}
        for name, shape, kind, offset in raw:
            try:
                block, block_bytes = GGML_QUANT_SIZES[GGMLQuantizationType(kind)]
            except (ValueError, KeyError):
                raise BundleError(
                    f"{self.path}: tensor '{name}' has the unknown type {kind}"
                ) from None
            elements = 1
            for size in shape:
                elements *= size
            if name in tensors:
                raise BundleError(f"{self.path}: damaged GGUF file: two tensors '{name}'")
            if not shape or shape[-1] % block:
                raise BundleError(
                    f"{self.path}: tensor '{name}' of shape {list(shape)} does not consist of "
                    f"blocks of {block}, as its type requires"
                )
            size = elements // block * block_bytes
            if start + offset + size > len(self._data):
                raise BundleError(
                    f"{self.path}: truncated GGUF file: tensor '{name}' ends at byte "
                    f"{start + offset + size}, the file at {len(self._data)}"
                )
            tensors[name] = GGUFTensor(name, shape, kind, start + offset, size)
        return tensors

    def kind_name(self, name: str) -> str:
        """The tensor's type as GGUF names it (F32, Q4_1, …)."""
        from gguf.constants import GGMLQuantizationType

        return GGMLQuantizationType(self.tensors[name].kind).name

    def raw(self, name: str) -> Any:
        """The tensor's bytes, as a numpy array of uint8 over the mapped file."""
        import numpy as np

        tensor = self.tensors[name]
        return np.frombuffer(self._data, np.uint8, tensor.bytes, tensor.offset)

    def dequantize(self, name: str) -> Any:
        """The tensor as a float32 numpy array of its shape."""
        import numpy as np
        from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
        from gguf.quants import dequantize

        tensor = self.tensors[name]
        kind = GGMLQuantizationType(tensor.kind)
        data = self.raw(name)
        plain = {"F32": np.float32, "F16": np.float16, "F64": np.float64}.get(kind.name)
        if plain:
            return data.view(plain).astype(np.float32).reshape(tensor.shape)
        block, block_bytes = GGML_QUANT_SIZES[kind]
        rows = data.reshape(*tensor.shape[:-1], tensor.shape[-1] // block * block_bytes)
        try:
            values = dequantize(rows, kind)
        except NotImplementedError:
            raise BundleError(
                f"{self.path}: tensor '{name}' is stored as {kind.name}, which cannot be read"
            ) from None
        return values.reshape(tensor.shape).astype(np.float32, copy=False)

    def write_metadata(self, path: Path) -> None:
        """Write a GGUF file with the same metadata and no tensors."""
        with open(path, "wb") as file:
            file.write(b"GGUF" + struct.pack("<IQQ", self._version, 0, self._key_count))
            file.write(self._data[self._metadata_start : self._metadata_end])
