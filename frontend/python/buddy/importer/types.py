"""Torch dtypes as MLIR types.

Inside a function a tensor of `torch.bool` has elements of i1; in the memrefs at the boundary they
are i8, one byte as in torch. MLIR integers are signless, so the torch dtype goes along with each
value and chooses the signed or unsigned operation.
"""

from __future__ import annotations

import torch
from mlir import ir

_FLOATS = {
    torch.float32: ir.F32Type,
    torch.float64: ir.F64Type,
    torch.float16: ir.F16Type,
    torch.bfloat16: ir.BF16Type,
}
_INTEGERS = {
    torch.bool: 1,
    torch.uint8: 8,
    torch.int8: 8,
    torch.uint16: 16,
    torch.int16: 16,
    torch.uint32: 32,
    torch.int32: 32,
    torch.uint64: 64,
    torch.int64: 64,
}
_COMPLEX = {
    torch.complex32: torch.float16,
    torch.complex64: torch.float32,
    torch.complex128: torch.float64,
}
_UNSIGNED = {torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64}
_NAMES = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.bool: "i1",
    torch.uint8: "u8",
    torch.int8: "i8",
    torch.uint16: "u16",
    torch.int16: "i16",
    torch.uint32: "u32",
    torch.int32: "i32",
    torch.uint64: "u64",
    torch.int64: "i64",
    torch.complex32: "complex32",
    torch.complex64: "complex64",
    torch.complex128: "complex128",
}

# Dtypes that are stored narrow and computed in f32, as PyTorch's CPU kernels do.
REDUCED_FLOATS = (torch.float16, torch.bfloat16)


def is_supported_dtype(dtype: torch.dtype) -> bool:
    """Tell whether tensors of this dtype can be imported."""
    return dtype in _NAMES


def dtype_name(dtype: torch.dtype) -> str:
    """Return the short name used in messages: f32, bf16, u8, ..."""
    return _NAMES.get(dtype, str(dtype).removeprefix("torch."))


def is_float(dtype: torch.dtype) -> bool:
    """Tell whether the dtype is a real floating-point one."""
    return dtype in _FLOATS


def is_complex(dtype: torch.dtype) -> bool:
    """Tell whether the dtype is complex."""
    return dtype in _COMPLEX


def is_integer(dtype: torch.dtype) -> bool:
    """Tell whether the dtype is an integer (`torch.bool` counts)."""
    return dtype in _INTEGERS


def is_unsigned(dtype: torch.dtype) -> bool:
    """Tell whether the dtype is unsigned (`torch.bool` counts)."""
    return dtype in _UNSIGNED


def element_type(dtype: torch.dtype) -> ir.Type:
    """Return the element type of a tensor of this dtype inside a function."""
    if dtype in _FLOATS:
        return _FLOATS[dtype].get()
    if dtype in _INTEGERS:
        return ir.IntegerType.get_signless(_INTEGERS[dtype])
    return ir.ComplexType.get(element_type(_COMPLEX[dtype]))


def boundary_type(dtype: torch.dtype) -> ir.Type:
    """Return the element type of a memref argument of this dtype."""
    if dtype is torch.bool:
        return ir.IntegerType.get_signless(8)
    return element_type(dtype)


def bit_width(dtype: torch.dtype) -> int:
    """Return the number of bits of an element inside a function."""
    if dtype in _INTEGERS:
        return _INTEGERS[dtype]
    return dtype.itemsize * 8


def opmath(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which PyTorch's CPU kernels compute on this one."""
    if dtype is torch.complex32:
        return torch.complex64
    return torch.float32 if dtype in REDUCED_FLOATS else dtype


def accumulator(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which sums of products of this dtype are kept."""
    return opmath(dtype)
