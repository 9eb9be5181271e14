"""What a bundle is built from, whatever it is stored as.

A source knows a model's structure at once (`trace()` traces it without the weights' values) and
hands its weights over one at a time (`load`).  `open_source` finds the kind by what MODEL names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from buddy.aot.errors import BundleError

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

    from buddy.aot.blocks import Blocks
    from buddy.aot.export import Traced


@dataclass(frozen=True)
class Description:
    """What the manifest says of the model beyond its entries.

    files: text files that the bundle's program needs, by name.
    """

    name: str
    architecture: str
    context: int | None = None
    eos_tokens: list[int] = field(default_factory=list)
    bos_token: int | None = None
    origin: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)


class Source(Protocol):
    """A model that can be traced and whose weights can be read."""

    description: Description

    def trace(self) -> dict[str, Traced]:
        """Trace the entry points, by name; a weight has one name in all of them."""

    def load(self, name: str) -> torch.Tensor:
        """The value of one weight, by its fully qualified name in the traced module."""

    def block_formats(self, program: ExportedProgram) -> dict[str, str]:
        """The weights to store quantised, with their block formats."""

    def load_blocks(self, name: str, format: str) -> Blocks:
        """One of these weights in its format."""

    def write_tokenizer(self, directory: Path) -> list[str]:
        """Write the tokenizer's files; return their names (none if the model has no text)."""


def open_source(model: str, dtype: str) -> Source:
    """Open MODEL: a Hugging Face directory, a GGUF file, what `torch.export.save` wrote (.pt2) or
    `package.module:factory`."""
    path = Path(model)
    if path.is_dir():
        from buddy.aot.huggingface import HuggingFaceSource

        return HuggingFaceSource(path, dtype)
    if path.suffix == ".pt2":
        from buddy.aot.factory import SavedProgramSource

        return SavedProgramSource(path, dtype)
    if path.suffix in (".pt", ".pth", ".safetensors") and path.exists():
        raise BundleError(
            f"{model}: weights without a program; torch.export.save writes both (.pt2), and a "
            "Hugging Face directory has a config.json beside them"
        )
    if script := re.fullmatch(r"(?:.*/)?(\w+)\.py(?::(\w+))?", model):
        raise BundleError(
            f"{model}: a factory is named by its module, {script[1]}:{script[2] or 'FACTORY'}, "
            "looked for in the current folder and on PYTHONPATH"
        )
    if path.exists() or path.suffix == ".gguf":
        from buddy.aot.gguf_source import GGUFSource

        return GGUFSource(path, dtype)
    if re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", model):
        from buddy.aot.factory import FactorySource

        return FactorySource(model, dtype)
    raise BundleError(
        f"{model}: no such model; expected a Hugging Face directory, a GGUF file, a .pt2 file or "
        "package.module:factory"
    )
