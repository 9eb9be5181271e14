"""The tiny LLaMA built for other machines says under emulation what the x86 build and eager say."""

from __future__ import annotations

import random
import re
from pathlib import Path

import cross
import pytest
from bundles import Built, buddy
from greedy import TIE, eager
from symbols import unexpected

COUNT = 8


@pytest.fixture(scope="module")
def bundle(machine: cross.Machine, tiny: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cross") / "bundle"
    done = buddy("build", tiny.source, "--target", machine.target, "-o", folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def program(machine: cross.Machine, bundle: Path) -> Path:
    """The program greedy.cpp beside the bundle, whose folder may be moved with it."""
    library = cross.INTERFACES / "lib"
    return machine.compile_program(
        [
            Path(__file__).with_name("greedy.cpp"),
            library / "Weights.cpp",
            library / "MappedFile.cpp",
            bundle / "libmodel.so",
        ],
        bundle.parent / "greedy",
        f"-I{bundle}",
        # The JSON library is headers alone, those of this machine.
        "-idirafter/usr/include",
        "-Wl,-rpath,$ORIGIN/bundle",
    )


@pytest.mark.parametrize("length", [1, 3, 9])
def test_tokens_are_those_of_x86_and_of_eager(
    machine: cross.Machine, tiny: Built, bundle: Path, program: Path, length: int
) -> None:
    generator = random.Random(length)
    prompt = [generator.randrange(2, 512) for _ in range(length)]
    reference = eager(tiny.model, prompt, COUNT)
    assert min(reference.gaps) > TIE, "two tokens are as likely; choose another prompt"
    assert tiny.greedy(prompt, COUNT, 1) == reference.tokens
    for cpu in machine.cpus:
        for threads in (1, 2):
            done = machine.emulate(
                cpu, program, bundle, str(threads), str(COUNT), *map(str, prompt)
            )
            assert done.returncode == 0, done.stderr.decode()
            tokens = [int(token) for token in done.stdout.split()]
            assert tokens == reference.tokens, (cpu, threads)


@pytest.mark.parametrize("threads", [1, 2])
def test_as_many_threads_run_as_asked_for(
    machine: cross.Machine, bundle: Path, program: Path, threads: int
) -> None:
    prompt = ["5", "6", "7", "8", "9", "10", "11", "12"]
    done = machine.emulate(machine.cpus[0], program, bundle, str(threads), "1", *prompt, trace=True)
    assert done.returncode == 0
    assert len(re.findall(rb"\bclone3?\(", done.stderr)) == threads - 1


def test_the_library_multiplies_and_adds_in_vectors(machine: cross.Machine, bundle: Path) -> None:
    code = machine.disassembly(bundle / "libmodel.so")
    pattern = {cross.RISCV: r"\bvfm(?:acc|add)\.v[fv]\b", cross.ARM: r"\bfmla\tv\d+\.4s"}[machine]
    assert len(re.findall(pattern, code)) > 20


def test_the_library_needs_little(bundle: Path) -> None:
    assert unexpected(bundle / "libmodel.so", "gomp") == set()
    assert (bundle / "libgomp.so.1").exists()


def test_a_cpu_that_lacks_something_is_told(
    machine: cross.Machine, bundle: Path, program: Path
) -> None:
    done = machine.emulate(cross.LACKING[machine], program, bundle, "1", "1", "5")
    assert done.returncode == 1
    assert done.stdout == b""
    assert done.stderr.count(b"\n") == 1
    told = re.search(rb"built for a CPU with (.*), which this one lacks", done.stderr)
    missing = {cross.RISCV: [b"v"], cross.ARM: [b"lse", b"fullfp16", b"dotprod"]}[machine]
    assert told and set(missing) <= set(told[1].split(b", "))


def test_errors_of_the_model_are_told(machine: cross.Machine, bundle: Path, program: Path) -> None:
    done = machine.emulate(machine.cpus[0], program, bundle, "2", "1", "512")
    assert done.returncode == 1
    assert b"out of range" in done.stderr
