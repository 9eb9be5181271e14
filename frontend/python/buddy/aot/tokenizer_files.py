"""The tokenizer of a bundle: the files of a Hugging Face directory, or one of them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from buddy.aot.errors import BundleError
from buddy.aot.json_file import read_object

# Each is a tokenizer by itself; the others say more about it.
_VOCABULARIES = ("tokenizer.json", "tokenizer.model", "vocab.txt")
_FILES = (
    *_VOCABULARIES,
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "generation_config.json",
)


def find(path: Path) -> list[str]:
    """The names of the tokenizer's files: those in a folder, or the one file that `path` is.

    Raises BundleError if there is none.
    """
    folder = path if path.is_dir() else path.parent
    found = _FILES if path.is_dir() else [path.name]
    names = [name for name in found if os.path.lexists(folder / name)]
    if not set(_VOCABULARIES) & set(names):
        raise BundleError(
            f"{path}: no {', '.join(_VOCABULARIES[:-1])} or {_VOCABULARIES[-1]}; a text model "
            "needs one"
        )
    return names


def copy(path: Path, directory: Path) -> list[str]:
    """Copy the tokenizer's files (see `find`) to `directory`; return their names."""
    names = find(path)
    folder = path if path.is_dir() else path.parent
    for name in names:
        if name.endswith(".json"):
            read_object(folder / name)  # a damaged one is better found now
        shutil.copyfile(folder / name, directory / name)
    return names
