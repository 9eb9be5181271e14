"""Weights quantised in blocks: read from GGUF, made from floats, packed for the kernels.

A matrix [n, k] is held as unsigned elements with a scale, and with some formats a minimum, for each
block of 32 columns of a row: `w = d * (u - zero) + m`.

    format  bits  zero  minima   a block of GGUF (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md)
    q4_0    4     8     no       f16 d, 16 bytes: column j in the low, j + 16 in the high half
    q4_1    4     0     yes      f16 d, f16 m, 16 bytes as q4_0's
    q8_0    8     128   no       f16 d, 32 int8: u - 128
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from buddy.aot.errors import BundleError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BLOCK = 32
# format: (bits, zero, has minima)
FORMATS = {"q4_0": (4, 8, False), "q4_1": (4, 0, True), "q8_0": (8, 128, False)}


@dataclass(frozen=True)
class Blocks:
    """A quantised matrix: `elements` uint8 [n, k], `scales` and `minima` float16 [n, k / 32]."""

    format: str
    elements: NDArray[np.uint8]
    scales: NDArray[np.float16]
    minima: NDArray[np.float16] | None

    def dequantize(self) -> NDArray[np.float32]:
        """The float32 matrix [n, k] that the blocks stand for."""
        import numpy as np

        n, k = self.elements.shape
        _, zero, _ = FORMATS[self.format]
        values = self.elements.reshape(n, k // BLOCK, BLOCK).astype(np.float32) - zero
        values *= self.scales.astype(np.float32)[..., None]
        if self.minima is not None:
            values += self.minima.astype(np.float32)[..., None]
        return values.reshape(n, k)

    def take_rows(self, rows: NDArray[np.int64]) -> Blocks:
        """The same with rows in another order."""
        minima = None if self.minima is None else self.minima[rows]
        return Blocks(self.format, self.elements[rows], self.scales[rows], minima)


def read(format: str, data: NDArray[np.uint8], shape: tuple[int, ...]) -> Blocks:
    """Blocks as a GGUF file stores them (`data`, bytes) of a matrix [n, k]."""
    import numpy as np

    bits, zero, has_minima = FORMATS[format]
    n, k = shape
    header = 4 if has_minima else 2
    raw = data.reshape(n, k // BLOCK, header + BLOCK * bits // 8)
    scales = raw[..., :2].copy().view(np.float16)[..., 0]
    minima = raw[..., 2:4].copy().view(np.float16)[..., 0] if has_minima else None
    body = raw[..., header:]
    if bits == 4:
        elements = np.concatenate([body & 15, body >> 4], -1)
    else:
        elements = body ^ np.uint8(zero)  # int8 + 128, as bits
    return Blocks(format, elements.reshape(n, k), scales, minima)


def quantize(values: NDArray[np.float32], format: str) -> Blocks:
    """Round a float32 matrix [n, k], k a multiple of 32, to blocks.

    The scale of q8_0 maps the largest magnitude to 127, that of q4_1 the range to 15, that of q4_0
    the element of largest magnitude to -8; it is rounded to float16 before elements are.
    """
    import numpy as np

    if not np.isfinite(values).all():
        raise BundleError(f"a weight has values that {format} cannot hold; choose --dtype f32")
    bits, zero, has_minima = FORMATS[format]
    n, k = values.shape
    blocks = values.reshape(n, k // BLOCK, BLOCK)
    minima = None
    if has_minima:
        low = blocks.min(-1)
        minima = low.astype(np.float16)
        scales = ((blocks.max(-1) - low) / 15).astype(np.float16)
        shifted = blocks - minima.astype(np.float32)[..., None]
    else:
        at = np.abs(blocks).argmax(-1)[..., None]
        extreme = np.take_along_axis(blocks, at, -1)[..., 0]
        scales = (np.abs(extreme) / 127 if bits == 8 else extreme / -8).astype(np.float16)
        shifted = blocks
    if not np.isfinite(scales).all():
        raise BundleError(f"a weight has values that {format} cannot hold; choose --dtype f32")
    divisor = scales.astype(np.float32)[..., None]
    steps = np.divide(shifted, divisor, out=np.zeros_like(shifted), where=divisor != 0)
    top = (1 << bits) - 1
    elements = np.clip(np.rint(steps) + zero, 0, top).astype(np.uint8)
    return Blocks(format, elements.reshape(n, k), scales, minima)


def pack(blocks: Blocks, packing: dict[str, Any]) -> NDArray[np.int8]:
    """The bytes of a weight as `#buddy.packing` lays them out: int8 of its stored shape."""
    import numpy as np

    n, k, panel, bits = (packing[key] for key in ("n", "k", "panel", "bits"))
    if blocks.elements.shape != (n, k) or blocks.format != packing["format"]:
        raise ValueError(f"{blocks.format} {blocks.elements.shape} packed as {packing}")
    panels, count, size = packing["stored_shape"]
    rows = panels * panel - n

    def padded(array: Any) -> Any:
        return np.pad(array, ((0, rows), (0, 0)))

    words = BLOCK // 4
    elements = padded(blocks.elements).reshape(panels, panel, count, words, 4)
    elements = elements.transpose(0, 2, 3, 1, 4)  # panel, block, word of 4 columns, row, column
    if bits == 4:
        elements = elements[:, :, : words // 2] | elements[:, :, words // 2 :] << 4
    parts = [elements.reshape(panels, count, panel * BLOCK * bits // 8)]
    scale_type = np.float16 if packing["scale_bits"] == 16 else np.float32
    for parameter in (blocks.scales, blocks.minima):
        if parameter is not None:
            values = padded(parameter).astype(scale_type).reshape(panels, panel, count)
            values = np.ascontiguousarray(values.transpose(0, 2, 1))
            parts.append(
                values.view(np.uint8).reshape(panels, count, panel * packing["scale_bits"] // 8)
            )
    result = np.concatenate(parts, -1)
    assert result.shape[-1] == size
    return result.view(np.int8)
