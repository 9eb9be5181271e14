"""Options of the backend: `torch.compile(model, backend="buddy", options={...})`."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

_FALLBACKS = ("eager", "error")
_DIALECTS = ("linalg", "tosa")


class OptionError(ValueError):
    """An unknown option or a value outside its domain."""


@dataclass(frozen=True)
class Options:
    """What the user may choose.

    target: name of the machine to compile for, as `buddy-opt` knows it; the code is run in this
        process, so it must be able to execute it. Default: this machine.
    threads: threads of a parallel region; None: `torch.get_num_threads()` at each call.
    freeze: hand weight matrices to products in panels, packed at the first call and again when a
        weight is another tensor or was written in place. Packed weights take their memory twice.
    fallback: what happens with ops that Buddy has no rule for. "eager" (default, as users of
        `torch.compile` expect a model to run): the rest is compiled, they run in PyTorch, and one
        warning a graph names them. "error" (strict): one `UnsupportedOpsError` lists all of them.
        The environment variable BUDDY_FALLBACK overrides this.
    primary_dialect: "linalg" or "tosa": which rules of the importer are tried first.
    dump_dir: write the module after each phase into a numbered folder below this one, for each
        graph; the pipeline then runs even if the library is cached.
    """

    target: str = "native"
    threads: int | None = None
    freeze: bool = False
    fallback: Literal["eager", "error"] = "eager"
    primary_dialect: Literal["linalg", "tosa"] = "linalg"
    dump_dir: str | None = None

    @staticmethod
    def parse(values: Mapping[str, Any]) -> Options:
        """Check option values and return them with the environment's overrides applied."""
        names = [field.name for field in dataclasses.fields(Options)]
        unknown = [name for name in values if name not in names]
        if unknown:
            raise OptionError(
                f"unknown option{'s' if len(unknown) > 1 else ''} of backend 'buddy': "
                f"{', '.join(unknown)}; valid ones: {', '.join(names)}"
            )
        values = dict(values)
        source = "option fallback"
        if override := os.environ.get("BUDDY_FALLBACK"):
            values["fallback"], source = override, "BUDDY_FALLBACK"
        if values.get("dump_dir") is not None:
            try:
                values["dump_dir"] = os.fspath(values["dump_dir"])
            except TypeError:
                raise OptionError(
                    f"option dump_dir: a path is needed, not {values['dump_dir']!r}"
                ) from None
        options = Options(**values)
        _check_choice(source, options.fallback, _FALLBACKS)
        _check_choice("option primary_dialect", options.primary_dialect, _DIALECTS)
        if options.threads is not None and (
            not isinstance(options.threads, int)
            or isinstance(options.threads, bool)
            or options.threads < 1
        ):
            raise OptionError(
                f"option threads: an integer of at least 1 is needed, not {options.threads!r}"
            )
        if not isinstance(options.freeze, bool):
            raise OptionError(f"option freeze: True or False is needed, not {options.freeze!r}")
        if not isinstance(options.target, str):
            raise OptionError(f"option target: a name is needed, not {options.target!r}")
        return options


def _check_choice(source: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise OptionError(f"{source}={value!r}: one of {', '.join(choices)} is needed")
