"""Quantised blocks: GGUF's bytes, rounding, and the layout that kernels read."""

from __future__ import annotations

import numpy as np
import pytest
from buddy.aot import blocks
from gguf.constants import GGMLQuantizationType
from gguf.quants import dequantize, quantize
from hypothesis import given, settings
from hypothesis import strategies as st

FORMATS = list(blocks.FORMATS)


def random(n: int, k: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, k)).astype(np.float32)


@pytest.mark.parametrize("form", FORMATS)
def test_bytes_of_gguf_are_read(form: str) -> None:
    kind = GGMLQuantizationType[form.upper()]
    raw = quantize(random(5, 96), kind)
    np.testing.assert_array_equal(
        blocks.read(form, raw, (5, 96)).dequantize(), dequantize(raw, kind).reshape(5, 96)
    )


@pytest.mark.parametrize("form", FORMATS)
def test_rounding_is_no_worse_than_ggufs(form: str) -> None:
    values = random(64, 256)
    kind = GGMLQuantizationType[form.upper()]
    theirs = dequantize(quantize(values, kind), kind).reshape(values.shape)
    ours = blocks.quantize(values, form).dequantize()
    assert np.square(ours - values).mean() <= 1.02 * np.square(theirs - values).mean()


@pytest.mark.parametrize("form", FORMATS)
def test_zeros_and_extremes(form: str) -> None:
    values = np.zeros((2, 64), np.float32)
    values[1, :32] = 7
    found = blocks.quantize(values, form).dequantize()
    np.testing.assert_allclose(found, values, rtol=1e-3)
    with pytest.raises(Exception, match="cannot hold"):
        blocks.quantize(np.full((1, 32), np.inf, np.float32), form)


@settings(max_examples=30, deadline=None)
@given(
    form=st.sampled_from(FORMATS),
    n=st.integers(0, 70),
    count=st.integers(0, 3),
    panel=st.sampled_from([8, 16, 32]),
    scale_bits=st.sampled_from([16, 32]),
)
def test_packed_bytes_are_where_the_layout_says(
    form: str, n: int, count: int, panel: int, scale_bits: int
) -> None:
    """Decoded element by element, as the description of #buddy.packing reads."""
    weight = blocks.quantize(random(n, count * 32), form)
    bits, zero, mins = blocks.FORMATS[form]
    panels = -(-n // panel)
    size = panel * 32 * bits // 8 + panel * scale_bits // 8 * (1 + mins)
    packing = {
        "format": form, "n": n, "k": count * 32, "panel": panel, "block": 32, "bits": bits,
        "zero": zero, "mins": mins, "scale_bits": scale_bits,
        "stored_shape": [panels, count, size],
    }  # fmt: skip
    packed = blocks.pack(weight, packing).view(np.uint8)
    assert packed.shape == (panels, count, size)
    scale_type = np.float16 if scale_bits == 16 else np.float32
    dense = weight.dequantize()
    for row in range(n):
        for column in range(0, count * 32, 5):
            block = packed[row // panel, column // 32]
            group, byte = divmod(column % 32, 4)
            high = bits == 4 and group >= 4
            value = int(block[((group - 4 * high) * panel + row % panel) * 4 + byte])
            if bits == 4:
                value = value >> 4 if high else value & 15
            parameters = block[panel * 32 * bits // 8 :].view(scale_type)
            result = np.float32(value - zero) * np.float32(parameters[row % panel])
            if mins:
                result += np.float32(parameters[panel + row % panel])
            assert result == dense[row, column]
