"""The cases' names on the command line: `512x512x512`, `9/3x64x1x1024`, lists of names."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable

DTYPES = ("f32", "bf16", "f16")
TRANSPOSES = ("nn", "nt", "tn", "tt")


def sizes(text: str, counts: tuple[int, ...], form: str) -> tuple[int, ...]:
    """`2x3x4` as numbers of at least 1; `form` is how the user reads what they mean."""
    if re.fullmatch(r"[0-9]+(x[0-9]+)*", text.lower()):
        values = tuple(int(part) for part in text.lower().split("x"))
        if len(values) in counts and min(values) >= 1:
            return values
    raise argparse.ArgumentTypeError(f"'{text}' is no shape; expected {form}, each at least 1")


def gemm(text: str) -> tuple[int, int, int, int]:
    """MxNxK or BATCHxMxNxK, as (batch, M, N, K); batch 0: no batch dimension."""
    values = sizes(text, (3, 4), "MxNxK or BATCHxMxNxK")
    batch, m, n, k = values if len(values) == 4 else (0, *values)
    return batch, m, n, k


def gemv(text: str) -> tuple[int, int]:
    """NxK: a weight of N rows and K columns."""
    n, k = sizes(text, (2,), "NxK")
    return n, k


def rows(text: str) -> tuple[int, int]:
    """ROWSxCOLUMNS."""
    count, width = sizes(text, (2,), "ROWSxCOLUMNS")
    return count, width


def attention(text: str) -> tuple[int, int, int, int, int]:
    """HEADS/KVHEADSxDIMxQxKV, as (heads, heads of keys and values, dim, q, kv)."""
    match = re.fullmatch(r"([0-9]+)/([0-9]+)x([0-9]+)x([0-9]+)x([0-9]+)", text.lower())
    heads, kv_heads, dim, q, kv = (int(part) for part in match.groups()) if match else [0] * 5
    if min(heads, kv_heads, dim, q) < 1 or heads % kv_heads or q > kv:
        raise argparse.ArgumentTypeError(
            f"'{text}' is no shape; expected HEADS/KVHEADSxDIMxQxKV, each at least 1, "
            "HEADS a multiple of KVHEADS, Q at most KV"
        )
    return heads, kv_heads, dim, q, kv


def conv(text: str) -> tuple[int, int, int, int, int, int, int]:
    """BATCHxCHANNELSxSIZE:OUTPUTSxKERNEL[/STRIDE][gGROUPS] of a square image and kernel.

    Returned as (batch, channels, size, outputs, kernel, stride, groups).
    """
    form = r"([0-9]+)x([0-9]+)x([0-9]+):([0-9]+)x([0-9]+)(?:/([0-9]+))?(?:g([0-9]+))?"
    match = re.fullmatch(form, text.lower())
    batch, channels, size, outputs, kernel, stride, groups = (
        (int(part or 1) for part in match.groups()) if match else [0] * 7
    )
    least = min(batch, channels, size, outputs, kernel, stride, groups)
    if least < 1 or channels % groups or outputs % groups or size + 2 * (kernel // 2) < kernel:
        raise argparse.ArgumentTypeError(
            f"'{text}' is no shape; expected BATCHxCHANNELSxSIZE:OUTPUTSxKERNEL[/STRIDE][gGROUPS], "
            "each at least 1, both numbers of channels multiples of GROUPS"
        )
    return batch, channels, size, outputs, kernel, stride, groups


def names(*choices: str) -> Callable[[str], list[str]]:
    """A parser of `a,b` out of `choices`."""

    def parse(text: str) -> list[str]:
        parts = [part for part in text.split(",") if part]
        wrong = [part for part in parts if part not in choices]
        if wrong or not parts:
            raise argparse.ArgumentTypeError(f"'{text}': any of {', '.join(choices)} are expected")
        return list(dict.fromkeys(parts))

    return parse


def patterns(text: str) -> list[str]:
    """A parser of `gelu*,softmax`."""
    return [part for part in text.split(",") if part]


def cpus(text: str) -> list[int]:
    """`0,2-3` as the numbers of cores."""
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"([0-9]+)(?:-([0-9]+))?", part)
        if not match or (match[2] and int(match[2]) < int(match[1])):
            raise argparse.ArgumentTypeError(f"'{text}' names no cores; expected such as 0,2-3")
        found += range(int(match[1]), int(match[2] or match[1]) + 1)
    return sorted(set(found))


def positive(text: str) -> int:
    """An integer of at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return value


def layers(text: str) -> tuple[int, int]:
    """`2,32` as two numbers of layers, the first one smaller."""
    match = re.fullmatch(r"([0-9]+),([0-9]+)", text)
    few, many = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= few < many:
        raise argparse.ArgumentTypeError(f"'{text}' is not FEW,MANY such as 2,32")
    return few, many


def context(text: str) -> int:
    """A number of positions, half of which are room for two calls at least."""
    value = int(text)
    if value < 4:
        raise argparse.ArgumentTypeError(f"{text} is not at least 4")
    return value
