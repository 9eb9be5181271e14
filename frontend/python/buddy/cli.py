"""The command `buddy`: build, run, inspect, explain, bench.

Only the commands that compile import torch; `run` and `inspect` start at once.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from buddy import __version__
from buddy.aot.errors import BundleError
from buddy.bench import command as bench
from buddy.bench.shapes import positive

PHASES = ("import", "graph", "kernel", "llvm")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    # What follows `run DIR` is for the program in the bundle.
    passed_on: list[str] = []
    if arguments[:1] == ["run"] and len(arguments) > 2 and not arguments[1].startswith("-"):
        arguments, passed_on = arguments[:2], arguments[2:]
    try:
        args = _parser().parse_args(arguments)
        if args.command == "run":
            args.arguments = passed_on
        args.function(args)
        # Here, where a full disk or a closed pipe is still an error to report.
        _flush_output()
    except BundleError as error:
        print(f"buddy: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        _forget_output()
        return 1
    except OSError as error:
        _forget_output()
        where = f"{error.filename}: " if error.filename else "cannot write the output: "
        print(f"buddy: {where}{error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("buddy: interrupted; nothing was written", file=sys.stderr)
        return 130
    return 0


def _flush_output() -> None:
    if sys.stdout is None:  # Python's word for a closed one: what was printed is lost
        raise OSError(errno.EBADF, "standard output is closed")
    sys.stdout.flush()


def _forget_output() -> None:
    """Python flushes at exit once more, and would complain of the same fault in its own way."""
    if sys.stdout is not None:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Parser(argparse.ArgumentParser):
    """Errors are one line."""

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message}; see {self.prog} --help", file=sys.stderr)
        raise SystemExit(2)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="buddy", description="Compiles PyTorch models to native code.")
    parser.add_argument("--version", action="version", version=f"buddy {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    build = commands.add_parser("build", help="compile a model to a native bundle")
    build.add_argument(
        "model",
        metavar="MODEL",
        help="a Hugging Face directory, a GGUF file, a .pt2 file of torch.export.save, or "
        "package.module:factory returning (nn.Module, example_inputs[, dynamic_shapes]), an "
        "ExportedProgram, or a dict of entry points",
    )
    build.add_argument(
        "-o", "--output", metavar="DIR", required=True, type=Path, help="the bundle to write"
    )
    _add_compile_options(build)
    build.add_argument(
        "--tokenizer",
        metavar="PATH",
        type=Path,
        help="put this tokenizer.json, tokenizer.model or vocab.txt, or those in this folder, into "
        "the bundle, not the model's own",
    )
    build.add_argument("--threads", type=positive, help="threads of the build itself")
    build.add_argument("-O", dest="opt_level", type=int, choices=range(4), default=3)
    build.add_argument(
        "--stop-after",
        choices=PHASES,
        help="write the module after this phase to the file -o names, and no bundle",
    )
    build.add_argument("-q", "--quiet", action="store_true", help="no progress lines")
    build.set_defaults(function=_build)

    run = commands.add_parser("run", help="run the native program of a text model's bundle")
    run.add_argument("bundle", metavar="DIR", type=Path)
    run.add_argument("arguments", nargs="*", metavar="…", help="see `buddy run DIR --help`")
    run.set_defaults(function=_run)

    inspect = commands.add_parser("inspect", help="show what a bundle holds")
    inspect.add_argument("bundle", metavar="DIR", type=Path)
    inspect.add_argument("--json", action="store_true", help="print the manifest as it is")
    inspect.set_defaults(function=_inspect)

    explain = commands.add_parser(
        "explain",
        help="show a model's operations, what of them stayed scalar, and the memory of a call",
    )
    explain.add_argument("model", metavar="MODEL")
    _add_compile_options(explain)
    explain.add_argument(
        "--plot", metavar="FILE", type=Path, help="draw what lies where in memory, as PNG or SVG"
    )
    explain.set_defaults(function=_explain)

    bench.add(commands)
    return parser


def _add_compile_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dtype",
        choices=["f32", "bf16", "f16", "q8_0", "q4_1", "q4_0", "keep"],
        default="f32",
        help="of a LLaMA's weights, activations and caches, or blocks of 8 or 4 bits for matrices "
        "of weights (also of a factory's module), or the blocks that the GGUF file has",
    )
    parser.add_argument(
        "--activations",
        choices=["int8", "f32"],
        default="int8",
        help="what rows become where they meet quantised weights: blocks of int8, the fastest, or "
        "f32, which rounds nothing",
    )
    parser.add_argument("--target", default="native", help="native, x86-64-v4, rv64gcv, …")
    parser.add_argument("--primary-dialect", choices=["linalg", "tosa"], default="linalg")
    parser.add_argument(
        "--dump-phases-to", metavar="DIR", type=Path, help="write the module after each phase"
    )


def _build(args: argparse.Namespace) -> None:
    from buddy.aot.bundle import BuildOptions, build

    options = BuildOptions(
        target=args.target,
        dtype=args.dtype,
        activations=args.activations,
        primary_dialect=args.primary_dialect,
        threads=args.threads,
        opt_level=args.opt_level,
        dump_phases_to=args.dump_phases_to,
        stop_after=args.stop_after,
        tokenizer=args.tokenizer,
        quiet=args.quiet,
    )
    build(args.model, args.output, options)


def _run(args: argparse.Namespace) -> None:
    from buddy.aot.run import run

    run(args.bundle, args.arguments)


def _inspect(args: argparse.Namespace) -> None:
    from buddy.aot import manifest

    record = manifest.read(args.bundle)
    if args.json:
        print(json.dumps(record, indent=2, ensure_ascii=False))
    else:
        print(manifest.table(record))


def _explain(args: argparse.Namespace) -> None:
    from buddy.aot.bundle import BuildOptions
    from buddy.aot.explain import explain

    options = BuildOptions(
        target=args.target,
        dtype=args.dtype,
        activations=args.activations,
        primary_dialect=args.primary_dialect,
        dump_phases_to=args.dump_phases_to,
    )
    print(explain(args.model, options, args.plot))


if __name__ == "__main__":
    sys.exit(main())
