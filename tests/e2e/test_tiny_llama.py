"""A tiny LLaMA from a Hugging Face directory to text: what the bundle computes and how it fails."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from buddy.aot.library import BundleLibrary
from bundles import Built, buddy
from greedy import Comparison, compare, eager
from tiny_llama import make_tokenizer

LENGTHS = (1, 2, 7, 33, 128, 190)


def tokens(count: int, seed: int = 0) -> list[int]:
    generator = random.Random(seed)
    return [generator.randrange(2, 512) for _ in range(count)]


@pytest.mark.parametrize("threads", [1, 2])
def test_greedy_tokens_are_those_of_eager(tiny: Built, threads: int) -> None:
    comparison = Comparison()
    library = BundleLibrary(tiny.bundle, threads)
    for length in LENGTHS:
        prompt = tokens(length, seed=length)
        reference = eager(tiny.model, prompt, 64)
        compare(comparison, library, prompt, tiny.greedy(prompt, 64, threads), reference)
    assert comparison.wrong == 0
    assert comparison.differing <= 0.005 * comparison.positions, comparison


def test_logits_are_those_of_eager_in_any_split(tiny: Built) -> None:
    """One call for all, token by token, and pieces with an exactly full cache agree."""
    ids = tokens(40)
    with torch.no_grad():
        expected = tiny.model(torch.tensor([ids])).logits[0]
    library = BundleLibrary(tiny.bundle, 2)
    for split in ([40], [1] * 40, [7, 1, 31, 1]):
        state = library.llama_state(40)
        position = 0
        for count in split:
            fed = torch.tensor(ids[position : position + count])
            logits = library.llama_forward(fed, position, state)
            position += count
            torch.testing.assert_close(logits[0], expected[position - 1], rtol=1e-3, atol=1e-3)


def test_the_program_speaks_the_text_of_the_tokens(tiny: Built) -> None:
    tokenizer = make_tokenizer()
    prompt = "The quick brown fox"
    ids = tokenizer(prompt, add_special_tokens=False)["input_ids"]
    expected = tokenizer.decode(eager(tiny.model, ids, 20).tokens, skip_special_tokens=True)
    for arguments, given in [(("-p", prompt), None), ((), prompt)]:
        done = tiny.run(*arguments, "-n", "20", "--ignore-eos", input=given)
        assert done.returncode == 0, done.stderr
        assert done.stdout == expected + "\n"
        assert done.stderr.count("\n") == 1
        assert "tokens at" in done.stderr


def test_seeds_repeat_and_differ(tiny: Built) -> None:
    def sample(seed: int) -> str:
        return tiny.run(
            "-p", "A", "-n", "24", "--temp", "2", "-s", str(seed), "--ignore-eos"
        ).stdout

    assert sample(1) == sample(1)
    assert len({sample(seed) for seed in range(4)}) > 1


def test_two_runs_at_a_time_and_a_full_context(tiny: Built) -> None:
    """The context ends a text with a message and no failure, at exactly its size."""
    done = tiny.run("--tokens", "5,6,7", "-c", "10", "--ignore-eos")
    assert done.returncode == 0
    assert len(done.stdout.split()) == 8
    assert "context of 10 tokens is full" in done.stderr


BAD = [
    (("-n", "0", "-p", "x"), "-n 0"),
    (("--frobnicate",), "unknown flag '--frobnicate'"),
    (("-p", ""), "empty"),
    (("-p", "x", "-c", "100000"), "trained for up to 256"),
    (("-p", "The quick brown fox jumps", "-c", "2"), "shorten it"),
    (("-p", "x", "-t", "none"), "-t 'none'"),
    (("-p", "x", "--top-p", "0"), "top-p"),
    (("-f", "/nonexistent"), "No such file"),
    (("-f", "/"), "/: Is a directory"),
    (("-p", "x", "-t", "5000"), "at most 4096"),
    (("-p", "x", "-n", "9" * 20), "at most"),
    (("-p", "x", "--temp", ""), "--temp ''"),
    (("--tokens", "1,,2"), "--tokens ''"),
    (("--chat", "--tokens", "1"), "--chat"),
    (("-p", "x", "--tokens", "1"), "leave out -p"),
    (("-f", "/dev/null", "--tokens", "1"), "leave out -p"),
    (("-p", "x", "-t", "100000"), "at most 4096"),
    (("-p", "x", "-m", "/nonexistent"), "/nonexistent"),
    (("--tokens", "1,600", "-n", "1"), "out of range"),
    (("-p",), "needs a value"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_bad_input_is_one_line(tiny: Built, arguments: tuple[str, ...], message: str) -> None:
    done = tiny.run(*arguments)
    assert done.returncode not in (0, -11, -6)
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert message in done.stderr


@pytest.mark.parametrize("arguments", [("--help",), ("-p", "x", "-n", "1")])
def test_a_full_disk_is_an_error(tiny: Built, arguments: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [tiny.program, "-m", tiny.bundle, *arguments],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == "llama: cannot write to standard output\n"


def test_a_copy_of_a_bundle_runs_with_its_own_files_only(tiny: Built, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", tiny.bundle, copy], check=True)
    command = [copy / "llama", "-p", "x", "-n", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (copy / "weights.safetensors").unlink()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert str(copy / "weights.safetensors") in done.stderr
    (copy / "libmodel.so").unlink()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "libmodel.so" in done.stderr


def test_a_path_that_no_build_rule_can_hold(tiny: Built, tmp_path: Path) -> None:
    copy = tmp_path / 'a "quoted" name'
    subprocess.run(["cp", "-r", tiny.bundle, copy], check=True)
    (copy / "llama").unlink()
    done = buddy("run", copy, "--help")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "may not contain quotes" in done.stderr


def test_a_prompt_that_is_not_utf8(tiny: Built) -> None:
    done = tiny.run("-n", "1", input=b"abc\xff\xfe", text=False)
    assert done.returncode == 1
    assert done.stderr.count(b"\n") == 1
    assert b"UTF-8" in done.stderr


def test_parts_of_two_builds_are_refused(tiny: Built, tmp_path: Path) -> None:
    copy = tmp_path / "bundle"
    subprocess.run(["cp", "-r", tiny.bundle, copy], check=True)
    weights = (copy / "weights.safetensors").read_bytes()
    identity = json.loads((copy / "manifest.json").read_text())["build_id"].encode()
    (copy / "weights.safetensors").write_bytes(weights.replace(identity, b"0" * len(identity), 1))
    done = tiny.run("-m", str(copy), "-p", "x")
    assert done.returncode == 1
    assert "build" in done.stderr
    (copy / "weights.safetensors").write_bytes(weights[:5000])
    done = tiny.run("-m", str(copy), "-p", "x")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1


WRONG_CALLS = {
    "past the end of the caches": "[1, 2, 3], 6, state",
    "a negative position": "[1], -1, state",
    "a position that overflows": "[1], 1 << 62, state",
    "no token": "[], 0, state",
    "a token outside the vocabulary": "[512], 0, state",
    "caches of different lengths": "[1], 0, [torch.zeros(2, 4, 32), *state[1:]]",
    "a head too many": "[1], 0, [torch.zeros(3, 8, 32), *state[1:]]",
    "a cache that is not contiguous": "[1], 0, [state[0].transpose(0, 2).transpose(0, 2), "
    "state[1].new_zeros(2, 8, 64)[:, :, ::2], *state[2:]]",
}


@pytest.mark.parametrize("case", WRONG_CALLS)
def test_wrong_arguments_to_the_entry_are_errors(tiny: Built, case: str) -> None:
    """In a process of its own, so that a crash is a failure of this case only."""
    code = f"""
import sys, torch
from pathlib import Path
from buddy.aot.errors import BundleError
from buddy.aot.library import BundleLibrary

library = BundleLibrary(Path(sys.argv[1]), 1)
state = library.llama_state(8)

def call(tokens, position, state):
    library.llama_forward(torch.tensor(tokens, dtype=torch.int64), position, state)

try:
    call({WRONG_CALLS[case]})
except BundleError as error:
    print("refused:", error)
call([1], 0, state)  # the library is as good as before
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tiny.bundle)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("refused:")
    assert done.stdout.count("\n") == 1


def test_neither_python_nor_torch_is_in_the_program(tiny: Built) -> None:
    libraries = subprocess.run(["ldd", tiny.program], capture_output=True, text=True, check=True)
    assert "libmodel.so" in libraries.stdout
    assert "not found" not in libraries.stdout
    for name in ("python", "torch", "libLLVM", "libMLIR"):
        assert name not in libraries.stdout.replace(str(tiny.bundle), "")


def test_inspect_shows_every_argument(tiny: Built) -> None:
    done = buddy("inspect", tiny.bundle)
    assert done.returncode == 0
    for text in ("tokens", "[count]", "k_cache_3", "[2, capacity, 32]", "logits", "embed_tokens"):
        assert text in done.stdout
    shown = json.loads(buddy("inspect", "--json", tiny.bundle).stdout)
    assert shown == json.loads((tiny.bundle / "manifest.json").read_text())


def test_a_failed_build_leaves_the_older_bundle(tiny: Built, tmp_path: Path) -> None:
    copy = tmp_path / "bundle"
    subprocess.run(["cp", "-r", tiny.bundle, copy], check=True)
    before = sorted(path.name for path in copy.iterdir())
    done = buddy("build", tiny.source, "-o", copy, "--target", "pdp11")
    assert done.returncode == 1
    assert "pdp11" in done.stderr
    assert "native" in done.stderr
    assert sorted(path.name for path in copy.iterdir()) == before
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]
