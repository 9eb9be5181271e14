"""SmolLM2-135M out of its GGUF: greedy text equal to eager's, memory within bounds."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from buddy.aot.library import BundleLibrary
from bundles import Built, make
from greedy import Comparison, compare, eager
from transformers import AutoTokenizer

pytestmark = pytest.mark.slow

TEXT = """
The capital of France is Paris, and the capital of Italy is Rome. In 1969 two people walked on the
moon; the flight took three days. Water boils at 100 degrees at sea level and lower on a mountain.
A program is a text that a machine can follow: it reads numbers, changes them and writes them back.
Once upon a time there was a small cat who wanted to see the ocean, so she packed a bag with bread.
To make a cake one needs flour, eggs, sugar and butter; mix them, fill a form and bake it for long.
Dear Anna, thank you for the letter of last week. The garden is full of apples, come and see it now!
def add(a, b): return a + b. The function takes two arguments and returns their sum as a number.
"""
LENGTHS = (1, 2, 3, 7, 16, 33, 64, 128, 250, 500)


@pytest.fixture(scope="module")
def prompts(smollm2: Built) -> list[list[int]]:
    """Parts of TEXT, each of its own, with as many tokens as LENGTHS say."""
    tokenizer = AutoTokenizer.from_pretrained(smollm2.source.parent, gguf_file=smollm2.source.name)
    ids = tokenizer(TEXT * 4, add_special_tokens=False)["input_ids"]
    parts = [ids[17 * i : 17 * i + length] for i, length in enumerate(LENGTHS)]
    assert [len(part) for part in parts] == list(LENGTHS)
    return parts


@pytest.mark.parametrize("threads", [1, 2])
def test_greedy_text_is_that_of_eager(
    smollm2: Built, prompts: list[list[int]], threads: int, record_property: pytest.RecordProperty
) -> None:
    comparison = Comparison()
    library = BundleLibrary(smollm2.bundle, threads)
    for prompt in prompts:
        reference = eager(smollm2.model, prompt, 64)
        said = smollm2.greedy(prompt, 64, threads)
        compare(comparison, library, prompt, said, reference)
    record_property("differing", f"{comparison.differing} of {comparison.positions}")
    assert comparison.wrong == 0, comparison
    assert comparison.differing <= 0.005 * comparison.positions, comparison


def test_the_files_own_blocks_serve_as_weights(smollm2: Built, tmp_path: Path) -> None:
    """Products of rows rounded to int8 stay close to eager's on the same weights."""
    kept = make(smollm2.source, tmp_path, smollm2.model, "--dtype", "keep")
    stored = (kept.bundle / "weights.safetensors").stat().st_size
    assert stored < 1.1 * smollm2.source.stat().st_size
    done = kept.run("-p", "The capital of France is", "-n", "16")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(" Paris")
    peak = int(re.search(r"peak memory (\d+) MB", done.stderr)[1])
    assert peak <= (stored >> 20) + 100
    tokenizer = AutoTokenizer.from_pretrained(smollm2.source.parent, gguf_file=smollm2.source.name)
    ids = torch.tensor(tokenizer(TEXT, add_special_tokens=False)["input_ids"])
    with torch.no_grad():
        expected = smollm2.model(ids[None]).logits[0]
    library = BundleLibrary(kept.bundle, 2)
    state = library.llama_state(len(ids))
    near = 0
    for i, token in enumerate(ids):
        logits = library.llama_forward(token[None], i, state)[0]
        assert torch.cosine_similarity(logits, expected[i], dim=0) > 0.99
        near += int(logits.argmax() == expected[i].argmax())
    assert near > 0.9 * len(ids), f"{near} of {len(ids)} likeliest tokens are eager's"


def test_memory_of_a_run_is_weights_cache_and_little_more(smollm2: Built) -> None:
    done = smollm2.run("-p", "The capital of France is", "-n", "16")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(" Paris")
    peak = int(re.search(r"peak memory (\d+) MB", done.stderr)[1])
    weights = (smollm2.bundle / "weights.safetensors").stat().st_size >> 20
    assert peak <= weights + 100


def test_memory_of_a_build_is_the_weights_and_700_mb(smollm2: Built, tmp_path: str) -> None:
    """Beyond what the import of torch takes."""
    code = (
        "import re, sys, torch\n"
        "def peak():\n"
        "    status = open('/proc/self/status').read()\n"
        "    return int(re.search(r'VmHWM:\\s+(\\d+)', status)[1])\n"
        "before = peak()\n"
        "from buddy.cli import main\n"
        "status = main(sys.argv[1:])\n"
        "print(peak() - before)\n"
        "sys.exit(status)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "build", str(smollm2.source), "-o", f"{tmp_path}/bundle"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.returncode == 0, done.stderr
    stored = (smollm2.bundle / "weights.safetensors").stat().st_size
    assert int(done.stdout) * 1024 <= stored + 700e6


def test_two_processes_share_the_weights(smollm2: Built) -> None:
    """Each counts its share of what it shares: together the weights once, and little more."""
    chats = [
        subprocess.Popen(
            [smollm2.program, "--chat", "-n", "4"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(2)
    ]
    try:
        for chat in chats:
            chat.stdin.write(b"Hello\n")
            chat.stdin.flush()
        for chat in chats:  # an answer means that every weight was read
            seen = b""
            while len(seen) < 8:
                byte = chat.stdout.read(1)
                assert byte, "the chat ended"
                seen += byte
        shares = []
        for chat in chats:
            rollup = Path(f"/proc/{chat.pid}/smaps_rollup").read_text()
            shares.append(int(re.search(r"^Pss:\s+(\d+) kB", rollup, re.MULTILINE)[1]) >> 10)
    finally:
        for chat in chats:
            chat.kill()
            chat.communicate()
    weights = (smollm2.bundle / "weights.safetensors").stat().st_size >> 20
    assert sum(shares) <= weights + 200, shares
    assert sum(shares) >= weights, shares
