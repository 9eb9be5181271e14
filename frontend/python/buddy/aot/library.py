"""A bundle's library called from Python on torch tensors, for tests and measurements.

The C structs are those of frontend/interfaces/buddy: buddy_ctx of Context.h, and the memref
descriptor of MemRef.h.
"""

from __future__ import annotations

import ctypes
import functools
import json
import mmap
from pathlib import Path
from typing import Any

import torch

from buddy.aot import manifest
from buddy.aot.errors import BundleError

_ABI = 1
_ALLOC = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_DTYPES = {
    "f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16,
    "i64": torch.int64, "i32": torch.int32, "i16": torch.int16, "i8": torch.int8,
    "u8": torch.uint8, "i1": torch.bool, "complex64": torch.complex64,
}  # fmt: skip


class Context(ctypes.Structure):
    """`buddy_ctx`."""

    _fields_ = [  # noqa: RUF012
        ("abi", ctypes.c_uint32),
        ("num_threads", ctypes.c_int32),
        ("block_time_ms", ctypes.c_int32),
        ("error", ctypes.c_int32),
        ("workspace", ctypes.c_void_p),
        ("workspace_size", ctypes.c_int64),
        ("weights", ctypes.c_void_p),
        ("weights_size", ctypes.c_int64),
        ("alloc", _ALLOC),
        ("alloc_data", ctypes.c_void_p),
        ("rng_seed", ctypes.c_uint64),
        ("rng_offset", ctypes.c_uint64),
        ("message", ctypes.c_char * 432),
    ]


assert ctypes.sizeof(Context) == 512


@functools.cache
def _descriptor_type(rank: int) -> type[ctypes.Structure]:
    fields: list[Any] = [
        ("base", ctypes.c_void_p),
        ("aligned", ctypes.c_void_p),
        ("offset", ctypes.c_int64),
    ]
    if rank:
        fields += [("sizes", ctypes.c_int64 * rank), ("strides", ctypes.c_int64 * rank)]
    return type(f"Descriptor{rank}", (ctypes.Structure,), {"_fields_": fields})


def descriptor(tensor: torch.Tensor) -> ctypes.Structure:
    """The memref descriptor of a tensor, which must stay alive."""
    address = tensor.data_ptr()
    value = _descriptor_type(tensor.dim())(address, address, 0)
    if tensor.dim():
        value.sizes[:] = list(tensor.shape)
        value.strides[:] = list(tensor.stride())
    return value


class BundleLibrary:
    """An entry point of a bundle (the first, if not named), loaded; one call at a time."""

    def __init__(self, bundle: Path, threads: int, entry_name: str | None = None) -> None:
        self.manifest = manifest.read(bundle)
        entries = self.manifest["entries"]
        found = [entry for entry in entries if entry_name in (None, entry["name"])]
        if not found:
            names = ", ".join(entry["name"] for entry in entries)
            raise BundleError(f"{bundle}: no entry point '{entry_name}'; there are {names}")
        entry = found[0]
        self._arguments = [a for a in entry["arguments"] if a["kind"] != "weight"]
        self._library = ctypes.CDLL(str((bundle / self.manifest["library"]).resolve()))
        self._entry = getattr(self._library, entry["symbol"])
        self._entry.restype = ctypes.c_int32
        self._workspace_size = getattr(self._library, entry["workspace_symbol"])
        self._workspace_size.restype = ctypes.c_int64
        self._file, start = _map(bundle / self.manifest["weights"]["file"])
        data = torch.frombuffer(self._file, dtype=torch.uint8)
        self._weights = data[start:]
        self._workspace = torch.empty(0, dtype=torch.uint8)
        self.context = Context(abi=_ABI, num_threads=threads, block_time_ms=1)
        self.context.weights = self._weights.data_ptr()
        self.context.weights_size = self._weights.numel()

    def argument(self, name: str) -> dict[str, Any]:
        """The manifest's record of an argument."""
        return next(a for a in self._arguments if a["name"] == name or a["kind"] == name)

    def call(self, values: list[torch.Tensor | int]) -> None:
        """Call the entry with its arguments, weights left out, in order.

        Raises BundleError if the values are not of the arguments' number, kinds and dtypes, or if
        the entry refuses their shapes or fails.
        """
        self._check_values(values)
        passed: list[Any] = []
        for value in values:
            if isinstance(value, torch.Tensor):
                passed.append(ctypes.byref(descriptor(value)))
            else:
                passed.append(ctypes.c_int64(value))
        size = self._workspace_size(ctypes.byref(self.context), *passed)
        if size < 0:
            raise BundleError(self.context.message.decode("utf-8", "replace"))
        if size > self._workspace.numel() - 64:
            self._workspace = torch.empty(size + 64, dtype=torch.uint8)
            self.context.workspace = -(-self._workspace.data_ptr() // 64) * 64
            self.context.workspace_size = size
        status = self._entry(ctypes.byref(self.context), *passed)
        if status:
            raise BundleError(self.context.message.decode("utf-8", "replace") or f"error {status}")

    def _check_values(self, values: list[torch.Tensor | int]) -> None:
        """What a descriptor does not tell the entry: it reads the memory as what it declares."""
        if len(values) != len(self._arguments):
            names = ", ".join(a["name"] for a in self._arguments)
            raise BundleError(
                f"{len(values)} values for {len(self._arguments)} arguments ({names})"
            )
        for value, argument in zip(values, self._arguments, strict=True):
            name = f"argument '{argument['name']}'"
            if argument["kind"] == "size":
                if not isinstance(value, int) or isinstance(value, bool):
                    raise BundleError(f"{name}: an int is needed, not a {type(value).__name__}")
                continue
            if not isinstance(value, torch.Tensor):
                raise BundleError(f"{name}: a tensor is needed, not a {type(value).__name__}")
            dtype = _DTYPES[argument["dtype"]]
            if value.dtype is not dtype:
                raise BundleError(f"{name}: {dtype} is needed, not {value.dtype}")
            if value.device.type != "cpu" or value.layout is not torch.strided:
                raise BundleError(f"{name}: a strided tensor on the CPU is needed")

    def llama_state(self, capacity: int) -> list[torch.Tensor]:
        """Empty caches of a LLaMA, in the order of the arguments."""
        return [
            torch.zeros(
                [capacity if isinstance(size, str) else size for size in a["shape"]],
                dtype=_DTYPES[a["dtype"]],
            )
            for a in self._arguments
            if a["kind"] == "state"
        ]

    def llama_forward(
        self, tokens: torch.Tensor, position: int, state: list[torch.Tensor]
    ) -> torch.Tensor:
        """The logits [1, vocab] after reading `tokens` at `position`."""
        output = self.argument("output")
        logits = torch.empty(output["shape"], dtype=_DTYPES[output["dtype"]])
        caches = iter(state)
        given: dict[str, Any] = {"input": tokens, "size": position, "output": logits}
        self.call([next(caches) if a["kind"] == "state" else given[a["kind"]]
                   for a in self._arguments])  # fmt: skip
        return logits


def _map(path: Path) -> tuple[mmap.mmap, int]:
    """Map a safetensors file; return it with the start of its data section."""
    with open(path, "rb") as file:
        # A private mapping is writable for Python's buffers and still not copied.
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    length = int.from_bytes(mapped[:8], "little")
    json.loads(mapped[8 : 8 + length])
    return mapped, 8 + length
