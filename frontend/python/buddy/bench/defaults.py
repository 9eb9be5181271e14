"""The cases that `buddy bench` measures if none are given, as they are written on the command line.

They are what LLaMAs of 135 million to a billion parameters compute, squares, and odd sizes.
"""

from __future__ import annotations

GEMM = (
    "512x512x512", "1024x1024x1024", "2048x2048x2048", "128x1536x576", "512x8192x2048",
    "64x49152x576", "33x577x1000", "7x1536x576", "300x300x300", "12x128x64x128",
)  # fmt: skip

GEMV = ("1536x576", "2048x8192", "49152x576")

ATTENTION = tuple(
    f"{heads}x{q}x{kv}"
    for heads in ("9/3x64", "9/3x128", "32/8x64", "32/8x128")
    for q in (1, 16, 128, 512)
    for kv in (128, 512, 1024, 4096)
    if q <= kv
)

# ResNet-50's, its first layer, strides, and MobileNet's depthwise ones.
CONV = (
    "1x64x56:64x3", "1x256x56:64x1", "1x64x56:256x1", "1x128x28:128x3", "1x512x7:512x3",
    "1x3x224:64x7/2", "1x256x56:512x1/2", "1x32x112:32x3g32", "1x576x14:576x3g576",
    "4x64x56:64x3", "1x17x33:19x5",
)  # fmt: skip

# One that the caches hold and one that they do not.
ROWS = ("512x2048", "4096x4096")

ELEMENTWISE = (
    "exp", "tanh", "gelu", "silu_mul", "add_relu", "softmax", "rms_norm", "layer_norm", "rope",
    "argmax",
)  # fmt: skip
