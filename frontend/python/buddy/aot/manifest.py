"""manifest.json: what a bundle holds and how its entry points are called.

    {"format": 1, "name", "architecture", "context", "eos_tokens", "bos_token", "origin",
     "activations": "int8" | "f32",               if there are quantised weights: what meets them
     "build_id",                                  as in weights.safetensors and libmodel.so
     "target": {"name", "triple", "cpu", "features": [LLVM names that the CPU must have]},
     "versions": {"buddy", "torch", "llvm"},
     "library", "header", "runtime": [...], "tokenizer": [...],
     "files": [...],                              what a factory's module brings along
     "weights": {"file", "bytes", "tensors"},
     "entries": [{"name", "symbol", "workspace_symbol", "arguments": [
        {"name", "kind", "dtype", "shape": [4, "capacity", …], "layout": "identity" | {"strides"},
         "offset" (weights), "expression" (sizes)}]}]}

Arguments stand in the order of the C function; weights are listed but are no arguments of it.
Reading a manifest needs no torch.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from buddy.aot.errors import BundleError
from buddy.aot.staging import MANIFEST
from buddy.aot.tables import aligned

if TYPE_CHECKING:
    from buddy.importer import ArgInfo

FORMAT = 1
# What every reader of a bundle may rely on.
_FIELDS = {
    "name": str, "architecture": str, "build_id": str, "versions": dict, "library": str,
    "header": str, "target": {"name": str, "triple": str, "cpu": str},
    "weights": {"file": str, "bytes": int, "tensors": int}, "entries": list,
}  # fmt: skip
_ENTRY_FIELDS = {"name": str, "symbol": str, "workspace_symbol": str, "arguments": list}
_SIZE_FIELDS = {"name": str, "kind": str, "dtype": str, "expression": (int, str)}
_MEMREF_FIELDS = {"name": str, "kind": str, "dtype": str, "shape": list, "layout": (str, dict)}


def describe_argument(info: ArgInfo, rename: dict[str, str]) -> dict[str, Any]:
    """The manifest's record of one argument; `rename` gives symbols readable names."""
    record: dict[str, Any] = {"name": info.name, "kind": info.kind, "dtype": info.dtype_name}
    if info.kind == "size":
        record["expression"] = _dimension(info.expr, rename)
        return record
    record["shape"] = [_dimension(size, rename) for size in info.shape]
    record["layout"] = (
        "identity"
        if info.contiguous
        else {"strides": [_dimension(stride, rename) for stride in info.strides]}
    )
    if info.weight_offset is not None:
        record["offset"] = info.weight_offset
    return record


def _dimension(size: Any, rename: dict[str, str]) -> int | str:
    """An int where the size is known, else an expression over the renamed symbols."""
    text = str(size)
    if text.lstrip("-").isdigit():
        return int(text)
    symbols = getattr(size, "free_symbols", ())
    import sympy

    names = {symbol: sympy.Symbol(rename.get(str(symbol), str(symbol))) for symbol in symbols}
    return str(size.subs(names)) if names else text


def dump(manifest: dict[str, Any]) -> str:
    """The file's text; one line an argument, so that it can be read and compared."""
    entries = manifest["entries"]
    outer = json.dumps({**manifest, "entries": []}, indent=2, ensure_ascii=False)
    lines = []
    for entry in entries:
        arguments = ",\n".join(
            f"        {json.dumps(argument, ensure_ascii=False)}" for argument in entry["arguments"]
        )
        head = json.dumps({**entry, "arguments": []}, ensure_ascii=False)
        lines.append(
            "    " + head.replace('"arguments": []', f'"arguments": [\n{arguments}\n    ]')
        )
    body = ",\n".join(lines)
    return outer.replace('"entries": []', f'"entries": [\n{body}\n  ]') + "\n"


def read(directory: Path) -> dict[str, Any]:
    """The manifest of a bundle, checked to be one of this format."""
    path = directory / MANIFEST
    try:
        manifest = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise BundleError(f"{directory}: not a bundle (no {MANIFEST}); see `buddy build`") from None
    except OSError as error:
        raise BundleError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{path}: not valid JSON: {error}") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        found = manifest.get("format") if isinstance(manifest, dict) else None
        raise BundleError(
            f"{path}: format {found} is not {FORMAT}; build the bundle again with `buddy build`"
        )
    _check(path, "", manifest, _FIELDS)
    for i, entry in enumerate(manifest["entries"]):
        _check(path, f"entries[{i}].", entry, _ENTRY_FIELDS)
        for j, argument in enumerate(entry["arguments"]):
            by_value = isinstance(argument, dict) and argument.get("kind") == "size"
            fields = _SIZE_FIELDS if by_value else _MEMREF_FIELDS
            _check(path, f"entries[{i}].arguments[{j}].", argument, fields)
    return manifest


def _check(path: Path, where: str, record: Any, fields: dict[str, Any]) -> None:
    """Refuse a record that lacks one of `fields` (name: type, or the fields of an object)."""
    for name, kind in fields.items():
        value = record.get(name) if isinstance(record, dict) else None
        if not isinstance(value, dict if isinstance(kind, dict) else kind):
            raise BundleError(
                f"{path}: damaged: '{where}{name}' is missing or of another type; build the bundle "
                "again with `buddy build`"
            )
        if isinstance(kind, dict):
            _check(path, f"{where}{name}.", value, kind)


def table(manifest: dict[str, Any]) -> str:
    """The manifest as text for people."""
    target, weights = manifest["target"], manifest["weights"]
    lines = [
        f"{manifest['name']}  ({manifest['architecture']})",
        f"  build     {manifest['build_id']}",
        f"  target    {target['name']}: {target['triple']}, {target['cpu']}",
        f"  weights   {weights['tensors']} tensors, {weights['bytes'] / 1e6:.1f} MB",
    ]
    if manifest.get("activations"):
        lines.append(f"  rows      {manifest['activations']} where they meet quantised weights")
    if manifest.get("context"):
        lines.append(f"  context   {manifest['context']} tokens")
    if manifest.get("tokenizer"):
        lines.append(f"  tokenizer {', '.join(manifest['tokenizer'])}")
    lines.append("  versions  " + ", ".join(f"{k} {v}" for k, v in manifest["versions"].items()))
    for entry in manifest["entries"]:
        lines += ["", f"{entry['name']}  ({entry['symbol']} in {manifest['library']})"]
        rows = [("kind", "name", "dtype", "shape", "layout")]
        rows += [_row(argument) for argument in entry["arguments"]]
        lines += [f"  {line}" for line in aligned(rows)]
    return "\n".join(lines)


def _row(argument: dict[str, Any]) -> tuple[str, str, str, str, str]:
    if argument["kind"] == "size":
        return "size", argument["name"], argument["dtype"], str(argument["expression"]), "by value"
    layout = argument["layout"]
    text = layout if isinstance(layout, str) else f"strides {layout.get('strides')}"
    if "offset" in argument:
        text = f"at {argument['offset']}"
    shape = "[" + ", ".join(str(size) for size in argument["shape"]) + "]"
    return argument["kind"], argument["name"], argument["dtype"], shape, text
