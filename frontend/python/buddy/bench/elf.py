"""The sizes of a library's code, out of its ELF symbol table."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

_SYMTAB, _DYNSYM = 2, 11
_EXECUTABLE = 4
_FUNCTION = 2


@dataclass(frozen=True)
class CodeSize:
    """Bytes: of all executable sections, and of the largest function, with its name."""

    total: int
    largest: int
    largest_name: str


def code_size(path: Path) -> CodeSize:
    """Measure a 64-bit little-endian ELF file that is not stripped; ValueError for others."""
    data = path.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError(f"{path}: no 64-bit little-endian ELF file")
    (table,) = struct.unpack_from("<Q", data, 0x28)
    entry, count = struct.unpack_from("<HH", data, 0x3A)
    # name, type, flags, address, offset, size, link, info, alignment, entry size
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * entry) for i in range(count)]
    total = sum(section[5] for section in sections if section[2] & _EXECUTABLE)
    tables = [s for s in sections if s[1] == _SYMTAB] or [s for s in sections if s[1] == _DYNSYM]
    largest, name = 0, ""
    for _, _, _, _, offset, size, link, _, _, step in tables:
        strings = sections[link][4]
        for at in range(offset, offset + size, step):
            name_at, info, _, _, _, length = struct.unpack_from("<IBBHQQ", data, at)
            if info & 15 == _FUNCTION and length > largest:
                end = data.index(b"\0", strings + name_at)
                largest, name = length, data[strings + name_at : end].decode()
    return CodeSize(total, largest, name)
