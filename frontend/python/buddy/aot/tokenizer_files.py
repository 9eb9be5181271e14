"""The tokenizer of a Hugging Face directory, as a bundle carries it for `buddy::Text`."""

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


def find(folder: Path) -> list[str]:
    """The names of the tokenizer's files in `folder`; raises BundleError if there is none."""
    names = [name for name in _FILES if os.path.lexists(folder / name)]
    if not set(_VOCABULARIES) & set(names):
        raise BundleError(
            f"{folder}: no {', '.join(_VOCABULARIES[:-1])} or {_VOCABULARIES[-1]}; a text model "
            "needs one"
        )
    return names


def copy(folder: Path, directory: Path) -> list[str]:
    """Copy the tokenizer's files from `folder` to `directory`; return their names."""
    names = find(folder)
    for name in names:
        if name.endswith(".json"):
            read_object(folder / name)  # a damaged one is better found now
        shutil.copyfile(folder / name, directory / name)
    return names
