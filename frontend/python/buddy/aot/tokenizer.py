"""The tokenizer's files of a bundle: what C++ programs open with `buddy::Text`."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from buddy.aot.errors import BundleError

# One of the first must be there; the others say more about it.
_VOCABULARIES = ("tokenizer.json", "tokenizer.model", "vocab.txt")
_FILES = (
    *_VOCABULARIES,
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "generation_config.json",
)


def copy_tokenizer(path: Path, directory: Path) -> list[str]:
    """Copy the tokenizer's files in the folder `path`, or the one file; return their names.

    Raises BundleError if there is none, or one is damaged.
    """
    folder = path if path.is_dir() else path.parent
    names = [n for n in (_FILES if path.is_dir() else [path.name]) if os.path.lexists(folder / n)]
    if not set(_VOCABULARIES) & set(names):
        raise BundleError(
            f"{path}: no {', '.join(_VOCABULARIES[:-1])} or {_VOCABULARIES[-1]}; a text model "
            "needs one"
        )
    for name in names:
        if name.endswith(".json"):
            read_json(folder / name)  # a damaged one is better found now
        shutil.copyfile(folder / name, directory / name)
    return names


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; BundleError names the file."""
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise BundleError(f"{path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{path}: not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise BundleError(f"{path}: expected a JSON object")
    return value
