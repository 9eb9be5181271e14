"""The set-up's own promises: everything pinned, and test counts that add up."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins() -> dict[str, str]:
    lines = (ROOT / "thirdparty" / "constraints.txt").read_text().splitlines()
    pairs = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {canonical(name): version for name, version in pairs}


def load_runner() -> ModuleType:
    spec = importlib.util.spec_from_file_location("buddy_tests_run", ROOT / "tests" / "run.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_every_requested_package_is_pinned() -> None:
    for file in sorted(path.name for path in (ROOT / "thirdparty").glob("requirements*.txt")):
        for line in (ROOT / "thirdparty" / file).read_text().splitlines():
            if line and not line.startswith("#"):
                assert canonical(line) in pins(), f"{line} of {file} has no pin"


def test_installed_versions_are_the_pinned_ones() -> None:
    """Transitive dependencies too: nothing in the environment escapes constraints.txt."""
    if not (Path(sys.prefix) == ROOT / ".venv"):
        pytest.skip("not running in the environment that `make setup` made")
    strays = []
    # The environment's own folder: a test before this one may have imported setuptools, which adds
    # the packages it carries inside itself to sys.path.
    installed = importlib.metadata.distributions(path=[sysconfig.get_path("purelib")])
    for distribution in installed:
        name = canonical(distribution.metadata["Name"])
        version = distribution.version.split("+")[0]  # torch's build: 2.13.0+cpu
        if name != "buddy" and pins().get(name) != version:
            strays.append(f"{name}=={version}")
    assert not strays


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        ('<testcase name="a"/>', "1 passed, 0 failed"),
        ('<testcase name="a"><failure/></testcase><testcase name="b"/>', "1 passed, 1 failed"),
        ('<testcase name="a"><error/></testcase>', "0 passed, 1 failed"),
        ('<testcase name="a"><skipped/></testcase>', "0 passed, 0 failed, 1 skipped"),
        (
            '<testcase name="a" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/>'
            "</testcase>",
            "0 passed, 0 failed, 1 skipped",
        ),
        (
            '<testcase name="a" status="notrun"><skipped message="Unable to find executable"/>'
            "</testcase>",
            "0 passed, 1 failed",
        ),
        ('<testcase name="a" status="disabled"/>', "0 passed, 0 failed, 1 skipped"),
    ],
)
def test_runner_counts_a_report(tmp_path: Path, report: str, expected: str) -> None:
    file = tmp_path / "report.xml"
    file.write_text(f"<testsuites><testsuite>{report}</testsuite></testsuites>")
    assert str(load_runner().count(file)) == expected


def test_runner_that_runs_nothing_fails(tmp_path: Path) -> None:
    runner = load_runner()
    report = tmp_path / "report.xml"
    write = f"open({str(report)!r}, 'w').write('<testsuites/>')"
    counts, problem = runner.run("nothing", [sys.executable, "-c", write], report)
    assert counts.failed == 0 and problem == "nothing ran no test"


def test_runner_that_crashes_fails(tmp_path: Path) -> None:
    runner = load_runner()
    command = [sys.executable, "-c", "raise SystemExit(3)"]
    _, problem = runner.run("crash", command, tmp_path / "report.xml")
    assert problem == "crash exited with 3 and wrote no report"
