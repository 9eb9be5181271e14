"""The command line of `buddy bench`; importing it loads no torch."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from buddy.aot.blocks import FORMATS
from buddy.aot.plots import check_plot
from buddy.bench import defaults, harness, inductor, peer_format, shapes

_ROUNDS, _STARTS = 5, 10


def add(commands: Any) -> None:
    """Add `bench` and its subjects to the parser of `buddy`."""
    bench = commands.add_parser("bench", help="measure against other implementations")
    subjects = bench.add_subparsers(dest="subject", required=True, metavar="SUBJECT")

    gemm = subjects.add_parser("gemm", help="matrix products")
    _shapes(gemm, shapes.gemm, "MxNxK or BATCHxMxNxK")
    gemm.add_argument(
        "--trans", type=shapes.names(*shapes.TRANSPOSES), default=list(shapes.TRANSPOSES),
        help="which operands are stored transposed, of nn,nt,tn,tt (default all)",
    )  # fmt: skip
    _packed(gemm, "B")
    _operation(gemm, _gemm)

    gemv = subjects.add_parser("gemv", help="one row by a weight")
    _shapes(gemv, shapes.gemv, "NxK")
    _packed(gemv, "the weight")
    _operation(gemv, _gemv)

    conv = subjects.add_parser("conv", help="two-dimensional convolutions")
    _shapes(conv, shapes.conv, "BATCHxCHANNELSxSIZE:OUTPUTSxKERNEL[/STRIDE][gGROUPS]")
    _operation(conv, _conv)

    attention = subjects.add_parser("attention", help="causal scaled dot product attention")
    _shapes(attention, shapes.attention, "HEADS/KVHEADSxDIMxQxKV")
    _operation(attention, _attention)

    elementwise = subjects.add_parser("elementwise", help="chains, norms, softmax, argmax")
    _shapes(elementwise, shapes.rows, "ROWSxCOLUMNS")
    elementwise.add_argument(
        "--ops", type=shapes.names(*defaults.ELEMENTWISE), default=list(defaults.ELEMENTWISE),
        help=f"of {','.join(defaults.ELEMENTWISE)} (default all)",
    )  # fmt: skip
    _operation(elementwise, _elementwise, inductor=True)

    operators = subjects.add_parser("operators", help="many single operators, to find slow ones")
    operators.add_argument(
        "--cases", type=shapes.patterns, default=[], metavar="PATTERN,…",
        help="only the cases of these names (* and ? as in a shell)",
    )  # fmt: skip
    _common(operators, _operators, inductor=False)

    model = subjects.add_parser("model", help="one pass of any nn.Module")
    model.add_argument("model", metavar="package.module:factory", help="as `buddy build` takes it")
    _common(model, _model, inductor=True)

    llm = subjects.add_parser("llm", help="prefill and decode of a LLaMA, and its start")
    llm.add_argument("model", metavar="MODEL", help="the GGUF file or directory built from")
    llm.add_argument("bundle", metavar="DIR", type=Path, help="its bundle")
    llm.add_argument("--prompt", type=shapes.positive, default=128, help="tokens (default 128)")
    llm.add_argument("--decode", type=shapes.positive, default=128, help="tokens (default 128)")
    _peer(llm)
    llm.add_argument(
        "--start", action="store_true",
        help="only the start: fresh processes to their first token, and peak memory",
    )  # fmt: skip
    _common(llm, _llm, inductor=False, rounds=f"default {_ROUNDS}, with --start {_STARTS}")

    accuracy = subjects.add_parser("accuracy", help="a LLaMA bundle's logits beside exact ones")
    accuracy.add_argument("model", metavar="MODEL", help="the GGUF file or directory built from")
    accuracy.add_argument("bundle", metavar="DIR", type=Path, help="its bundle")
    accuracy.add_argument(
        "--tokens", type=shapes.positive, help="how many of the text to read (default all)"
    )
    _peer(accuracy)
    _host(accuracy, _accuracy)

    compiling = subjects.add_parser(
        "compile", help="cold compile times of a LLaMA: buddy build, torch.compile"
    )
    compiling.add_argument("model", metavar="MODEL", help="a GGUF file or directory")
    compiling.add_argument(
        "--dtype", choices=(*shapes.DTYPES, *FORMATS, "keep"), default="f32", help="default f32"
    )
    compiling.add_argument(
        "--prompt", type=shapes.positive, default=128,
        help="tokens that torch.compile's prefill is compiled for (default 128)",
    )  # fmt: skip
    compiling.add_argument(
        "--layers", type=shapes.layers, metavar="FEW,MANY",
        help="only from MLIR to the library, of the model's sizes with so many layers, as 2,32",
    )  # fmt: skip
    _inductor(compiling, True)
    _host(compiling, _compile, f"default 1, with --layers {_ROUNDS}")

    overhead = subjects.add_parser(
        "overhead", help="a LLaMA's decode step through torch.compile, beside its kernels"
    )
    overhead.add_argument("model", metavar="MODEL", help="a GGUF file or directory")
    overhead.add_argument("--dtype", choices=shapes.DTYPES, default="f32", help="default f32")
    overhead.add_argument(
        "--context", type=shapes.context, default=256, help="positions of the cache (default 256)"
    )
    overhead.add_argument(
        "--step", action=argparse.BooleanOptionalAction, default=True,
        help="measure the step of the model itself too (default yes)",
    )  # fmt: skip
    _inductor(overhead, True)
    _host(overhead, _overhead, f"default {_ROUNDS}")


def _shapes(parser: argparse.ArgumentParser, kind: Any, form: str) -> None:
    parser.add_argument(
        "shapes", nargs="*", type=kind, metavar="SHAPE", help=f"{form} (default: a set of them)"
    )


def _packed(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument(
        "--packed", action="store_true",
        help=f"ours takes {what} as a bundle holds weights: laid out for the kernel ahead of calls",
    )  # fmt: skip


def _operation(parser: argparse.ArgumentParser, function: Any, inductor: bool = False) -> None:
    parser.add_argument(
        "--dtype", type=shapes.names(*shapes.DTYPES), default=["f32"],
        help=f"of {','.join(shapes.DTYPES)} (default f32)",
    )  # fmt: skip
    parser.add_argument(
        "--cases", type=shapes.patterns, default=[], metavar="PATTERN,…",
        help="only the cases of these names (* and ? as in a shell)",
    )  # fmt: skip
    _common(parser, function, inductor)


def _peer(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--peer-gguf", type=Path, metavar="FILE",
        help="what llama.cpp runs (default MODEL if it is a GGUF file)",
    )  # fmt: skip
    parser.add_argument(
        "--peer-format", choices=peer_format.FORMATS,
        help="let llama.cpp write that file anew in this format first, and run the result",
    )  # fmt: skip


def _common(
    parser: argparse.ArgumentParser,
    function: Any,
    inductor: bool,
    rounds: str = f"default {_ROUNDS}",
) -> None:
    _inductor(parser, inductor, " with freezing")
    parser.add_argument("--plot", type=_png, metavar="FILE.png", help="draw the roofline")
    _host(parser, function, rounds)


def _inductor(parser: argparse.ArgumentParser, default: bool, how: str = "") -> None:
    parser.add_argument(
        "--inductor", action=argparse.BooleanOptionalAction, default=default,
        help=f"compile by inductor{how} too (default {'yes' if default else 'no'})",
    )  # fmt: skip


def _host(parser: argparse.ArgumentParser, function: Any, rounds: str = "") -> None:
    """What says how to run; the last to be added."""
    parser.add_argument("--threads", type=shapes.positive, default=1, help="default 1")
    parser.add_argument("--cpus", type=shapes.cpus, metavar="LIST", help="cores such as 0,2-3")
    if rounds:
        parser.add_argument("--rounds", type=shapes.positive, help=rounds)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(function=_run, bench=function)


def _png(text: str) -> Path:
    path = Path(text)
    if path.suffix != ".png":
        raise argparse.ArgumentTypeError(f"'{text}' does not end in .png")
    return path


def _default_rounds(args: argparse.Namespace) -> int:
    if getattr(args, "start", False):
        return _STARTS
    # One cold compile takes minutes; logits are the same each time.
    if args.subject == "accuracy" or (args.subject == "compile" and not args.layers):
        return 1
    return _ROUNDS


def _run(args: argparse.Namespace) -> None:
    if getattr(args, "rounds", None) is None:
        args.rounds = _default_rounds(args)
    plot = getattr(args, "plot", None)
    if plot is not None:
        check_plot(plot)
    # Processes that are started and timed have their cores from the system.
    pinned = args.subject not in ("compile", "accuracy") and not getattr(args, "start", False)
    cpus = harness.prepare(args.threads, args.cpus, pinned)
    host = harness.machine(args.threads, cpus)  # before the load is our own
    if getattr(args, "inductor", False):
        inductor.find_compiler()
    results, more, text = args.bench(args)
    from buddy.bench.peaks import Peaks

    needed = any(result.case.flops or result.case.bytes for result in results)
    record = harness.report(
        f"bench {args.subject}", results, machine=host, rounds=args.rounds,
        peaks=Peaks(args.threads) if needed else None, **more,
    )  # fmt: skip
    harness.publish(record, as_json=args.json, plot=plot, text=text)


# What a subject returns: its results, more fields of the report, lines after the table.
_Outcome = tuple[list[harness.Result], dict[str, Any], str]


def _settings(args: argparse.Namespace) -> Any:
    from buddy.bench.operations import Settings

    return Settings(
        args.threads, args.rounds, args.inductor, getattr(args, "cases", []),
        getattr(args, "packed", False),
    )  # fmt: skip


def _measure(args: argparse.Namespace, operations: Any) -> _Outcome:
    from buddy.bench.operations import run

    return run(operations, _settings(args)), {}, ""


def _gemm(args: argparse.Namespace) -> _Outcome:
    from buddy.bench.operations import gemm

    chosen = args.shapes or [shapes.gemm(text) for text in defaults.GEMM]
    return _measure(args, gemm(chosen, args.dtype, args.trans, _settings(args)))


def _gemv(args: argparse.Namespace) -> _Outcome:
    from buddy.bench.operations import gemv

    chosen = args.shapes or [shapes.gemv(text) for text in defaults.GEMV]
    return _measure(args, gemv(chosen, args.dtype, _settings(args)))


def _conv(args: argparse.Namespace) -> _Outcome:
    from buddy.bench.operations import conv

    chosen = args.shapes or [shapes.conv(text) for text in defaults.CONV]
    return _measure(args, conv(chosen, args.dtype, _settings(args)))


def _attention(args: argparse.Namespace) -> _Outcome:
    from buddy.bench.operations import attention

    chosen = args.shapes or [shapes.attention(text) for text in defaults.ATTENTION]
    return _measure(args, attention(chosen, args.dtype, _settings(args)))


def _elementwise(args: argparse.Namespace) -> _Outcome:
    from buddy.bench.operations import elementwise

    chosen = args.shapes or [shapes.rows(text) for text in defaults.ROWS]
    return _measure(args, elementwise(chosen, args.dtype, args.ops, _settings(args)))


def _operators(args: argparse.Namespace) -> _Outcome:
    from buddy.bench.operators import operators

    return _measure(args, operators(_settings(args)))


def _model(args: argparse.Namespace) -> _Outcome:
    from buddy.bench.model import bench

    return bench(args.model, _settings(args)), {}, ""


def _llm(args: argparse.Namespace) -> _Outcome:
    with peer_format.peer_file(args.model, args.peer_gguf, args.peer_format) as gguf:
        if args.start:
            from buddy.bench.start import bench as start

            return start(args.model, args.bundle, gguf, args.threads, args.rounds)
        from buddy.bench.llm import bench

        return bench(
            args.model, args.bundle, gguf=gguf, threads=args.threads, prompt=args.prompt,
            decode=args.decode, rounds=args.rounds, inductor=args.inductor,
        )  # fmt: skip


def _accuracy(args: argparse.Namespace) -> _Outcome:
    with peer_format.peer_file(args.model, args.peer_gguf, args.peer_format) as gguf:
        from buddy.bench.accuracy import bench

        more, text = bench(args.model, args.bundle, gguf, tokens=args.tokens, threads=args.threads)
        return [], more, text


def _compile(args: argparse.Namespace) -> _Outcome:
    if args.layers:
        from buddy.bench.depth import bench as depth

        return depth(args.model, args.dtype, args.layers, args.rounds)
    from buddy.bench.compile_time import bench

    return bench(
        args.model, args.dtype, prompt=args.prompt, threads=args.threads, rounds=args.rounds,
        inductor=args.inductor,
    )  # fmt: skip


def _overhead(args: argparse.Namespace) -> _Outcome:
    from buddy.bench.overhead import bench

    return bench(
        args.model, args.dtype, context=args.context, threads=args.threads, rounds=args.rounds,
        inductor=args.inductor, step=args.step,
    )  # fmt: skip
