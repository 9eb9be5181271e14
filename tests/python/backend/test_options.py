"""Options of torch.compile(backend="buddy") and the loggers: bad values are one clear line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from buddy.backend import OptionError, Options, logs


@pytest.fixture(autouse=True)
def no_override(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BUDDY_FALLBACK", raising=False)


def test_defaults() -> None:
    assert Options.parse({}) == Options("native", None, False, "eager", "linalg", None)


def test_values_are_taken(tmp_path: Path) -> None:
    options = Options.parse({"threads": 3, "fallback": "error", "dump_dir": tmp_path})
    assert (options.threads, options.fallback, options.dump_dir) == (3, "error", str(tmp_path))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"thread": 2}, "unknown option of backend 'buddy': thread; valid ones: target, threads"),
        ({"threads": 0}, "option threads: an integer of at least 1 is needed, not 0"),
        ({"threads": True}, "option threads"),
        ({"threads": "2"}, "option threads"),
        ({"fallback": "none"}, "option fallback='none': one of eager, error is needed"),
        ({"primary_dialect": "hlo"}, "option primary_dialect='hlo': one of linalg, tosa"),
        ({"freeze": "yes"}, "option freeze: True or False is needed, not 'yes'"),
        ({"target": 5}, "option target: a name is needed"),
        ({"dump_dir": 5}, "option dump_dir: a path is needed, not 5"),
    ],
)
def test_bad_values(values: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError) as error:
        Options.parse(values)
    assert message in str(error.value)


def test_environment_overrides_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUDDY_FALLBACK", "error")
    assert Options.parse({"fallback": "eager"}).fallback == "error"
    monkeypatch.setenv("BUDDY_FALLBACK", "nothing")
    with pytest.raises(OptionError, match="BUDDY_FALLBACK='nothing'"):
        Options.parse({})


def test_unknown_log_is_a_warning() -> None:
    with pytest.warns(UserWarning, match="no log named grahp; there are graph, schedule, codegen"):
        logs.configure("grahp")
