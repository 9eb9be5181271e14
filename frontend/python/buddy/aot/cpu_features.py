"""What a CPU must have to run code for a target, by LLVM's feature names.

A native target lists its features itself.  For a named CPU LLVM implies them; here stand the ones
of the targets that `buddy build --target` knows.
"""

from __future__ import annotations

from typing import Any

from buddy.aot.errors import BundleError

# x86-64 psABI, section 3.1.1, "Processor Architecture".
_X86_64_V3 = (
    "cx16 sahf popcnt sse3 sse4.1 sse4.2 ssse3 avx avx2 bmi bmi2 f16c fma lzcnt movbe xsave"
).split()
_X86_64_V4 = [*_X86_64_V3, *"avx512f avx512bw avx512cd avx512dq avx512vl".split()]
_AVX512_2019 = (
    "avx512ifma avx512vbmi avx512vbmi2 avx512vnni avx512bitalg avx512vpopcntdq avx512bf16 "
    "gfni vaes vpclmulqdq aes pclmul adx sha rdseed rdrnd fsgsbase prfchw clflushopt clwb rdpid"
).split()
# LLVM 22, llvm/lib/Target/X86/X86.td: ProcessorFeatures of each CPU.
_IMPLIED = {
    "x86-64-v3": _X86_64_V3,
    "x86-64-v4": _X86_64_V4,
    "znver4": [*_X86_64_V4, *_AVX512_2019, "sse4a"],
    "sapphirerapids": [
        *_X86_64_V4, *_AVX512_2019, "avx512fp16", "avxvnni", "amx-tile", "amx-int8", "amx-bf16",
    ],
    # These list what they need themselves.
    "neoverse-n1": [],
    "neoverse-v1": [],
    "neoverse-v2": [],
    "generic-rv64": [],
}  # fmt: skip


def required_features(target: Any) -> list[str]:
    """The features of a `_buddy.TargetInfo`, sorted."""
    parts = [part for part in target.features.split(",") if part]
    present = {part[1:] for part in parts if part.startswith("+")}
    if target.name != "native":
        if target.cpu not in _IMPLIED:
            raise BundleError(f"target '{target.name}': the features of {target.cpu} are unknown")
        present.update(_IMPLIED[target.cpu])
    return sorted(present - {part[1:] for part in parts if part.startswith("-")})
