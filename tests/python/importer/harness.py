"""Runs imported modules and compares them with eager PyTorch.

`compare(function, *args)` compiles the function with `torch.compile` through the importer and
checks results, mutated arguments and dtypes. Modules run through buddy-opt and buddy-llc when
they are built (BUDDY_BUILD_DIR, default <repository>/build); otherwise, for modules without
operations of our dialect, through upstream passes and MLIR's execution engine.
"""

from __future__ import annotations

import ctypes
import functools
import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import sympy
import torch
from buddy.importer import (
    ArgSpec,
    ImportedModule,
    decompositions,
    import_exported_program,
    import_graph,
    prepare_fx,
    whole_recurrences,
)
from buddy.importer.signature import FunctionInfo
from functorch.compile import make_boxed_func
from mlir import ir
from mlir.dialects import func
from mlir.execution_engine import ExecutionEngine
from torch._dynamo.backends.common import aot_autograd

aten = torch.ops.aten
REPOSITORY = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("BUDDY_BUILD_DIR", REPOSITORY / "build"))
LLVM = Path(os.environ.get("BUDDY_LLVM_DIR", "/usr/lib/llvm-22"))
COMPILE_TIMEOUT = 300  # seconds, for compilations that would never end
CONTEXT_SIZE, ABI_VERSION, MESSAGE_OFFSET = 512, 1, 80

_UPSTREAM = (
    "builtin.module("
    "func.func(tosa-make-broadcastable,tosa-to-linalg-named,tosa-to-linalg,tosa-to-arith,"
    "tosa-to-tensor),"
    "one-shot-bufferize{allow-unknown-ops=false},canonicalize,cse,"
    "convert-bufferization-to-memref,func.func(convert-linalg-to-loops),"
    "expand-strided-metadata,lower-affine,convert-complex-to-standard,"
    "func.func(math-extend-to-supported-types,"
    "math-expand-ops{ops=rsqrt,roundeven,ceilf,floorf,truncf}),"
    "arith-expand{include-bf16=true},convert-scf-to-cf,convert-math-to-llvm,convert-math-to-libm,"
    "convert-complex-to-llvm,finalize-memref-to-llvm,convert-func-to-llvm,convert-arith-to-llvm,"
    "convert-index-to-llvm,convert-cf-to-llvm,reconcile-unrealized-casts)"
)


class CheckFailed(RuntimeError):
    """A `buddy.check` failed in the call, or the entry refused its arguments."""


def have_buddy_tools() -> bool:
    """Tell whether our tools are built (and not forbidden by BUDDY_TEST_LOWERING=upstream)."""
    return os.environ.get("BUDDY_TEST_LOWERING") != "upstream" and all(
        (BUILD / "bin" / tool).exists() for tool in ("buddy-opt", "buddy-llc")
    )


# ---- calling compiled code -------------------------------------------------------------------


def descriptor(tensor: torch.Tensor) -> ctypes.Structure:
    """Return MLIR's memref descriptor of a tensor."""
    rank = tensor.dim()
    fields: list[Any] = [
        ("base", ctypes.c_void_p),
        ("aligned", ctypes.c_void_p),
        ("offset", ctypes.c_int64),
    ]
    if rank:
        fields += [("sizes", ctypes.c_int64 * rank), ("strides", ctypes.c_int64 * rank)]
    struct = type("Descriptor", (ctypes.Structure,), {"_fields_": fields})
    # An empty tensor has no memory, but an entry point refuses null.
    pointer = tensor.data_ptr() or 64
    values = [pointer, pointer, 0]
    if rank:
        array = ctypes.c_int64 * rank
        values += [array(*tensor.shape), array(*tensor.stride())]
    return struct(*values)


def symbol_values(info: FunctionInfo, call: Sequence[Any]) -> dict[sympy.Symbol, int]:
    """Return the value of each symbol from the placeholders' values."""
    values: dict[sympy.Symbol, int] = {}

    def bind(expr: Any, value: int) -> None:
        if isinstance(expr, sympy.Symbol):
            assert values.setdefault(expr, value) == value, f"{expr} is {values[expr]} and {value}"

    for arg in info.args:
        if arg.kind == "size":
            bind(arg.expr, int(call[arg.placeholder]))
        elif arg.kind != "output":
            for expr, value in zip(arg.shape, call[arg.placeholder].shape, strict=True):
                bind(expr, value)
            # A stride along which nothing is stepped addresses nothing, and Dynamo may take it for
            # another.
            tensor = call[arg.placeholder]
            for expr, value, size in zip(arg.strides, tensor.stride(), tensor.shape, strict=True):
                if size > 1 and tensor.numel():
                    bind(expr, value)
    return values


def evaluate(expr: Any, symbols: dict[sympy.Symbol, int]) -> Any:
    """Return the Python value of a symbolic expression."""
    if isinstance(expr, sympy.Basic):
        value = expr.xreplace({k: sympy.Integer(v) for k, v in symbols.items()}).doit()
        if value in (sympy.true, sympy.false):
            return bool(value)
        return int(value) if value.is_Integer else float(value)
    return expr


def call_function(
    info: FunctionInfo, run: Callable[[list[Any]], None], call: Sequence[Any]
) -> list[Any]:
    """Allocate outputs, run, and return the graph's results."""
    symbols = symbol_values(info, call)
    arguments: list[Any] = []
    for arg in info.args:
        if arg.kind == "output":
            shape = [evaluate(d, symbols) for d in arg.shape]
            strides = [evaluate(s, symbols) for s in arg.strides]
            offset = evaluate(arg.storage_offset, symbols)
            span = sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1
            memory = torch.empty(max(span, 0) + offset, dtype=arg.dtype)
            arguments.append(memory.as_strided(shape, strides, offset))
            if not arg.dtype.is_complex and arg.dtype is not torch.bool:
                arguments[-1].fill_(77)
        else:
            arguments.append(call[arg.placeholder])
    run(arguments)
    results = []
    for output in info.outputs:
        if output.kind in ("new", "alias"):
            results.append(arguments[output.arg])
        elif output.kind == "view":
            base = arguments[output.arg]
            shape = [evaluate(d, symbols) for d in output.shape]
            strides = [evaluate(s, symbols) for s in output.strides]
            offset = base.storage_offset() + evaluate(output.offset, symbols)
            results.append(base.as_strided(shape, strides, offset))
        else:
            results.append(evaluate(output.expr, symbols))
    return results


def compile_module(module: ImportedModule, entry: str | None = None) -> Callable[..., list[Any]]:
    """Return a callable that takes placeholders' values and returns the graph's results."""
    return compile_entries(module, [entry or module.entry.name])[0]


def compile_entries(
    module: ImportedModule, entries: Sequence[str]
) -> list[Callable[..., list[Any]]]:
    """Return such a callable for each of the entry points named."""
    infos = [module.functions[entry] for entry in entries]
    if have_buddy_tools():
        loaded = _buddy_library(module)
        return [functools.partial(_call, info, _buddy_runner(loaded, info)) for info in infos]
    return [functools.partial(_call, info, _upstream_runner(module, info)) for info in infos]


def _call(info: FunctionInfo, run: Callable[[list[Any]], None], call: Sequence[Any]) -> list[Any]:
    return call_function(info, run, call)


def _pointers(arguments: Sequence[Any]) -> list[Any]:
    return [
        ctypes.c_int64(value) if isinstance(value, int) else descriptor(value)
        for value in arguments
    ]


def _buddy_library(module: ImportedModule) -> ctypes.CDLL:
    directory = tempfile.mkdtemp(prefix="buddy-importer-")
    source, library = f"{directory}/in.mlirbc", f"{directory}/out.so"
    Path(source).write_bytes(module.bytecode)
    lowered = subprocess.run(
        [BUILD / "bin" / "buddy-opt", "--buddy-pipeline=target=native", source],
        capture_output=True,
        check=False,
        timeout=COMPILE_TIMEOUT,
    )
    assert lowered.returncode == 0, lowered.stderr.decode() + "\n" + module.text()
    linked = subprocess.run(
        [BUILD / "bin" / "buddy-llc", "--shared", "-o", library],
        input=lowered.stdout,
        capture_output=True,
        check=False,
        timeout=COMPILE_TIMEOUT,
    )
    assert linked.returncode == 0, linked.stderr.decode()
    return ctypes.CDLL(library)


def _buddy_runner(loaded: ctypes.CDLL, info: FunctionInfo) -> Callable[[list[Any]], None]:
    function = getattr(loaded, info.name)
    size_function = getattr(loaded, f"{info.name}_workspace_size")
    size_function.restype = ctypes.c_int64

    def run(arguments: list[Any]) -> None:
        context = (ctypes.c_uint8 * (CONTEXT_SIZE + 64))()
        start = (-ctypes.addressof(context)) % 64
        address = ctypes.addressof(context) + start
        ctypes.c_uint32.from_address(address).value = ABI_VERSION
        ctypes.c_int32.from_address(address + 4).value = 2
        values = _pointers(arguments)
        passed = [
            value if isinstance(value, ctypes.c_int64) else ctypes.byref(value) for value in values
        ]
        size = size_function(ctypes.c_void_p(address), *passed)
        if size < 0:
            raise CheckFailed(ctypes.string_at(address + MESSAGE_OFFSET).decode())
        workspace = (ctypes.c_uint8 * (size + 64))()
        base = ctypes.addressof(workspace)
        ctypes.c_uint64.from_address(address + 16).value = base + (-base) % 64
        ctypes.c_int64.from_address(address + 24).value = size
        if function(ctypes.c_void_p(address), *passed) != 0:
            raise CheckFailed(ctypes.string_at(address + MESSAGE_OFFSET).decode())

    return run


def _upstream_runner(module: ImportedModule, info: FunctionInfo) -> Callable[[list[Any]], None]:
    failed: list[str] = []
    messages: list[str] = []

    @ctypes.CFUNCTYPE(None, ctypes.c_bool, ctypes.c_int64)
    def check(condition: bool, message: int) -> None:
        if not condition:
            failed.append(messages[message])

    with ir.Context() as context, ir.Location.unknown():
        context.allow_unregistered_dialects = True
        parsed = ir.Module.parse(module.bytecode)
        _replace_checks(parsed, messages)
        ours: set[str] = set()

        def visit(op: ir.Operation) -> ir.WalkResult:
            if op.name.startswith("buddy."):
                ours.add(op.name)
            return ir.WalkResult.ADVANCE

        parsed.operation.walk(visit)
        if ours:
            pytest.skip(f"needs buddy-opt and buddy-llc for {', '.join(sorted(ours))}")
        for op in parsed.body.operations:
            op.attributes["llvm.emit_c_interface"] = ir.UnitAttr.get()
        lowered = subprocess.run(
            [LLVM / "bin" / "mlir-opt", f"--pass-pipeline={_UPSTREAM}"],
            input=str(parsed).encode(),
            capture_output=True,
            check=False,
        )
        crashed = b"PLEASE submit a bug report" in lowered.stderr
        if crashed and "tensor.expand_shape" in module.text():
            pytest.skip("LLVM's expand-strided-metadata takes one dynamic size for each group")
        assert lowered.returncode == 0, lowered.stderr.decode() + "\n" + module.text()
        engine = ExecutionEngine(
            ir.Module.parse(lowered.stdout),
            1,
            [str(LLVM / "lib" / "libmlir_c_runner_utils.so")],
            False,
        )
    engine.register_runtime("test_check", check)

    def run(arguments: list[Any]) -> None:
        failed.clear()
        values = _pointers(arguments)
        packed = [
            ctypes.pointer(value)
            if isinstance(value, ctypes.c_int64)
            else ctypes.pointer(ctypes.pointer(value))
            for value in values
        ]
        engine.invoke(info.name, *packed)
        if failed:
            raise CheckFailed(failed[0])

    run.keep = check  # type: ignore[attr-defined]
    return run


def _replace_checks(module: ir.Module, messages: list[str]) -> None:
    checks: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "buddy.check":
            checks.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    if not checks:
        return
    i1, i64 = ir.IntegerType.get_signless(1), ir.IntegerType.get_signless(64)
    with ir.InsertionPoint(module.body):
        func.FuncOp("test_check", ([i1, i64], []), visibility="private")
    for op in checks:
        from mlir.dialects import arith

        with ir.InsertionPoint(op):
            number = arith.constant(i64, len(messages))
            func.CallOp([], "test_check", [op.operands[0], number])
        messages.append(ir.StringAttr(op.attributes["message"]).value)
        op.erase()


# ---- through torch.compile -------------------------------------------------------------------


def argument_specs(gm: torch.fx.GraphModule) -> list[ArgSpec]:
    """Return specs that call every tensor an input."""
    specs = []
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            meta = node.meta["val"]
            kind = "input" if isinstance(meta, torch.Tensor) else "size"
            specs.append(ArgSpec(node.name, kind, meta))
    return specs


class Backend:
    """A torch.compile backend that imports, compiles and keeps the modules it made."""

    def __init__(self, primary_dialect: str = "linalg", execute: bool = True, whole: bool = True):
        self.primary_dialect, self.execute, self.whole = primary_dialect, execute, whole
        self.modules: list[ImportedModule] = []
        self.graphs: list[torch.fx.GraphModule] = []

    def __call__(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        table = decompositions()
        if self.whole:
            prepare_fx(gm)
        else:  # nothing is left for operations of our dialect
            table = {
                **table,
                **torch._decomp.get_decompositions(
                    [
                        aten._scaled_dot_product_flash_attention_for_cpu,
                        aten._softmax,
                        aten.native_layer_norm,
                    ]
                ),
            }
        with torch._functorch.config.patch(unlift_effect_tokens=True), whole_recurrences():
            return aot_autograd(
                fw_compiler=self._compile,
                inference_compiler=self._compile,
                decompositions=table,
                keep_inference_input_mutations=True,
            )(gm, inputs)

    def _compile(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        module = import_graph(
            gm, argument_specs(gm), name="forward", primary_dialect=self.primary_dialect
        )
        self.modules.append(module)
        self.graphs.append(gm)
        if not self.execute:
            return make_boxed_func(gm.forward)
        compiled = compile_module(module)
        return make_boxed_func(lambda *args: compiled(args))


def _copy(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        part = value
        for dim, stride in enumerate(value.stride()):
            if stride == 0 and value.shape[dim] > 1:  # one element in memory
                part = part.narrow(dim, 0, 1)
        copy = torch.empty_strided(part.shape, part.stride(), dtype=value.dtype)
        copy.copy_(part)
        return copy if part is value else copy.expand(value.shape)
    if isinstance(value, (list, tuple)):
        return type(value)(_copy(item) for item in value)
    return value


def compile_with(
    function: Callable[..., Any],
    *,
    dynamic: bool | None = False,
    primary_dialect: str = "linalg",
    whole: bool = True,
) -> tuple[Callable[..., Any], Backend]:
    """Return (compiled function, its backend)."""
    torch._dynamo.reset()
    backend = Backend(primary_dialect, whole=whole)
    compiled = torch.compile(function, backend=backend, fullgraph=True, dynamic=dynamic)
    return compiled, backend


def compare(
    function: Callable[..., Any],
    *args: Any,
    dynamic: bool | None = False,
    primary_dialect: str = "linalg",
    whole: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    more: Sequence[Sequence[Any]] = (),
) -> Backend:
    """Compile the function, run it and assert that eager gives the same.

    more: other argument lists for the same compiled function. Mutated arguments are compared too.
    """
    compiled, backend = compile_with(
        function, dynamic=dynamic, primary_dialect=primary_dialect, whole=whole
    )
    with torch.no_grad():
        for arguments in (args, *more):
            expected_args, actual_args = _copy(list(arguments)), _copy(list(arguments))
            expected, actual = function(*expected_args), compiled(*actual_args)
            for got, want in ((actual, expected), (actual_args, expected_args)):
                torch.testing.assert_close(
                    got, want, rtol=rtol, atol=atol, equal_nan=True, check_stride=False
                )
    assert backend.modules
    return backend


def imported_text(
    function: Callable[..., Any], *args: Any, dynamic: bool = False, locations: bool = False
) -> str:
    """Return the imported module's text without compiling it further."""
    torch._dynamo.reset()
    backend = Backend(execute=False)
    with torch.no_grad():
        torch.compile(function, backend=backend, fullgraph=True, dynamic=dynamic)(*args)
    return backend.modules[0].text(locations)


def exported(model: torch.nn.Module, args: tuple[Any, ...], **kwargs: Any) -> ImportedModule:
    """Import a model through torch.export."""
    ep = torch.export.export(model.eval(), args, **kwargs)
    return import_exported_program(ep, name="forward")
