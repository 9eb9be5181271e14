"""GGUF files in another format, for llama.cpp to run the weights as a bundle holds them."""

from __future__ import annotations

import contextlib
import importlib.util
import tempfile
from collections.abc import Iterator
from pathlib import Path

from buddy.aot.errors import BundleError
from buddy.bench import harness

# Name -> the name of llama.cpp's constant.
FORMATS = {
    "f32": "ALL_F32", "f16": "MOSTLY_F16", "bf16": "MOSTLY_BF16",
    "q8_0": "MOSTLY_Q8_0", "q4_0": "MOSTLY_Q4_0", "q4_1": "MOSTLY_Q4_1",
}  # fmt: skip
# llama.cpp keeps the table of tokens, where it is the last layer too, at 6 bits; Buddy at 8.
_TABLE = {"q4_0": "q8_0", "q4_1": "q8_0"}


@contextlib.contextmanager
def peer_file(model: str, peer_gguf: Path | None, peer_format: str | None) -> Iterator[Path | None]:
    """What llama.cpp runs; None if it is not installed or there is no file for it.

    That is peer_gguf, or MODEL if it is a GGUF file; with peer_format written anew in that format
    by llama.cpp, into a folder that lives as long as the context.
    """
    if peer_gguf is not None and not peer_gguf.is_file():
        raise BundleError(f"--peer-gguf {peer_gguf}: no such file")
    installed = importlib.util.find_spec("llama_cpp") is not None
    for option, value in (("--peer-gguf", peer_gguf), ("--peer-format", peer_format)):
        if value is not None and not installed:
            raise BundleError(f"{option} needs the Python package llama-cpp-python")
    found = peer_gguf or (Path(model) if installed and Path(model).is_file() else None)
    if peer_format is None:
        yield found
        return
    if found is None:
        raise BundleError(f"--peer-format: {model} is no GGUF file; name one with --peer-gguf")
    with tempfile.TemporaryDirectory(prefix="buddy-bench-") as folder:
        target = Path(folder) / f"{peer_format}.gguf"
        harness.progress(f"write {found.name} as {peer_format}")
        _requantize(found, target, peer_format)
        yield target


def _requantize(source: Path, target: Path, format: str) -> None:
    """Write all matrices of a GGUF file in `format`; tables of tokens in at least 8 bits."""
    import ctypes
    import logging

    import llama_cpp

    # llama_cpp hands llama.cpp's lines to this logger.
    logging.getLogger("llama-cpp-python").setLevel(logging.ERROR)
    parameters = llama_cpp.llama_model_quantize_default_params()
    parameters.ftype = getattr(llama_cpp, f"LLAMA_FTYPE_{FORMATS[format]}")
    parameters.allow_requantize = True
    parameters.pure = True
    if format in _TABLE:
        parameters.token_embedding_type = getattr(llama_cpp, f"GGML_TYPE_{_TABLE[format].upper()}")
    failed = llama_cpp.llama_model_quantize(
        str(source).encode(), str(target).encode(), ctypes.byref(parameters)
    )
    if failed or not target.is_file():
        raise BundleError(f"llama.cpp cannot write {source} as {format}")
