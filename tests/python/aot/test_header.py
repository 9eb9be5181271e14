"""model.h compiles for entries of every element type, and says what the manifest says."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from buddy.aot import header, manifest
from buddy.aot.errors import BundleError

INTERFACES = Path(__file__).resolve().parents[3] / "frontend" / "interfaces"
COMPILER = shutil.which("clang++-22") or shutil.which("clang++") or shutil.which("g++")


def argument(kind: str, name: str, dtype: str = "f32", shape: Any = (), **more: Any) -> dict:
    if kind == "size":
        return {"kind": kind, "name": name, "dtype": "i64", "expression": name}
    return {
        "kind": kind, "name": name, "dtype": dtype, "shape": list(shape), "layout": "identity",
        **more,
    }  # fmt: skip


def record(*arguments: dict, name: str = "forward", **more: Any) -> dict[str, Any]:
    entry = {"name": name, "symbol": name, "workspace_symbol": f"{name}_workspace_size"}
    return {
        "format": manifest.FORMAT, "name": "test", "architecture": "Test", "build_id": "ab" * 16,
        "target": {"name": "native", "triple": "t", "cpu": "c", "features": ["avx2"]},
        "versions": {"buddy": "0"}, "library": "libmodel.so", "header": "model.h",
        "weights": {"file": "weights.safetensors", "bytes": 0, "tensors": 0},
        "entries": [{**entry, "arguments": list(arguments)}], **more,
    }  # fmt: skip


def compile_header(folder: Path, text: str, use: str = "") -> None:
    """Compile a source file that includes the header and holds `use`."""
    (folder / "model.h").write_text(text)
    (folder / "use.cpp").write_text(f'#include "model.h"\n{use}\n')
    command = [
        str(COMPILER), "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
        f"-I{folder}", f"-I{INTERFACES}", str(folder / "use.cpp"),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_language_model(tmp_path: Path) -> None:
    cache = {"dtype": "f32", "shape": [2, "capacity", 16]}
    text = header.render(
        record(
            argument("weight", "embed", shape=[10, 4], offset=0),
            argument("input", "tokens", "i64", ["count"]),
            argument("size", "position"),
            *(argument("state", f"k_{i}", **cache) for i in range(12)),
            *(argument("state", f"v_{i}", **cache) for i in range(12)),
            argument("output", "logits", "f32", [1, 10]),
            context=64,
            eos_tokens=[2, 3],
        )
    )
    use = """
        void use(buddy::model::Model &model) {
          buddy::Context ctx = model.context(2);
          buddy::model::State state = model.state(/*capacity=*/32);
          static_assert(std::tuple_size_v<decltype(state.k)> == 12);
          buddy::MemRef<int64_t, 1> tokens({3});
          buddy::MemRef<float, 2> logits(model.logitsShape());
          model.forward(ctx, tokens, 0, state, logits);
          static_assert(buddy::model::ContextLength == 64);
        }
    """
    compile_header(tmp_path, text, use)


def test_every_element_type_compiles(tmp_path: Path) -> None:
    arguments = []
    for dtype in header._TYPES:
        arguments += [
            argument("input", f"x_{dtype}", dtype, ["n", 3]),
            argument("state", f"counter_{dtype}", dtype, [], initial=64),
            argument("output", f"y_{dtype}", dtype, ["n", 3]),
        ]
    compile_header(tmp_path, header.render(record(*arguments)))


def test_names_that_cplusplus_cannot_have(tmp_path: Path) -> None:
    arguments = [argument("input", name, shape=[2]) for name in ("int", "state", "a.b", "0x")]
    compile_header(
        tmp_path, header.render(record(*arguments, argument("output", "ctx", shape=[2])))
    )


def test_a_name_with_a_line_break_stays_a_comment(tmp_path: Path) -> None:
    text = header.render({**record(argument("input", "x", shape=[2])), "name": "a\n#error b"})
    compile_header(tmp_path, text)


def test_output_shapes_are_computed_from_sizes(tmp_path: Path) -> None:
    text = header.render(
        record(
            argument("input", "x", shape=["n", "m"]),
            argument("output", "y", shape=["n + m", "2*n", "(n//2)"]),
            argument("output", "z", shape=["Max(n, m)"]),
        )
    )
    use = "auto shape = buddy::model::Model::yShape(7, 3);"
    compile_header(tmp_path, text, use)
    assert "return {n + m, 2*n, (n/2)};" in text
    assert "zShape" not in text


def test_siblings_of_different_shapes_are_not_gathered(tmp_path: Path) -> None:
    text = header.render(
        record(
            argument("input", "x_0", shape=[2]),
            argument("input", "x_1", shape=[3]),
            argument("output", "y", shape=[2]),
        )
    )
    assert "std::array<MemRef" not in text
    compile_header(tmp_path, text)


def test_a_type_without_a_cplusplus_one_is_refused() -> None:
    with pytest.raises(BundleError, match="'x' of dtype f8"):
        header.render(record(argument("input", "x", "f8", [2])))


def test_the_manifest_comes_back_as_it_was(tmp_path: Path) -> None:
    made = record(argument("input", "x", shape=["n"]), argument("output", "y", shape=["n"]))
    (tmp_path / "manifest.json").write_text(manifest.dump(made))
    assert manifest.read(tmp_path) == made
    table = manifest.table(made)
    assert "input" in table
    assert "[n]" in table
