"""`buddy bench gemm | gemv | conv | attention | elementwise`: one operation a case."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from buddy.bench import harness
from buddy.bench.harness import OURS, Call, Case, Result
from buddy.bench.ours import DTYPES, check_same, compile_direct, compile_through


@dataclass(frozen=True)
class Settings:
    """What a run asks for beside the cases."""

    threads: int
    rounds: int
    inductor: bool
    patterns: Sequence[str] = ()
    packed: bool = False


@dataclass(frozen=True)
class Operation:
    """A case and what makes its implementations, ours among them and one of torch's at least."""

    case: Case
    make: Callable[[], dict[str, Call]]


def run(operations: Sequence[Operation], settings: Settings) -> list[Result]:
    """Measure the operations that the patterns choose."""
    chosen = harness.select(operations, settings.patterns, lambda op: op.case.name)
    results = []
    for operation in chosen:
        harness.progress(f"{operation.case.name} compile")
        with torch.no_grad():
            calls = operation.make()
            reference = next(name for name in calls if name not in (OURS, "inductor"))
            difference = check_same(operation.case.name, calls, reference)
            result = harness.measure(operation.case, calls, settings.rounds)
        result.extra["difference"] = difference
        results.append(result)
    return results


def _random(*shape: int, dtype: str) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(*shape, generator=generator).to(DTYPES[dtype])


# ---- products ---------------------------------------------------------------------------------


def gemm(
    shapes: Sequence[tuple[int, int, int, int]],
    dtypes: Sequence[str],
    transposes: Sequence[str],
    settings: Settings,
) -> list[Operation]:
    """C[M, N] = A[M, K] B[K, N]; 't' stores an operand transposed; batch 0: no batch dimension.

    With `packed` B is laid out ahead of the calls, unless there is a batch.
    """
    return [
        _gemm(shape, dtype, trans, settings)
        for dtype, shape, trans in itertools.product(dtypes, shapes, transposes)
    ]


def _gemm(
    shape: tuple[int, int, int, int], dtype: str, trans: str, settings: Settings
) -> Operation:
    batch, m, n, k = shape
    outer = (batch,) if batch else ()
    name = "x".join(map(str, (*outer, m, n, k)))
    count = max(batch, 1)
    size = DTYPES[dtype].itemsize
    case = Case(
        f"{name} {trans} {dtype}",
        dtype,
        flops=2 * count * m * n * k,
        bytes=size * count * (m * k + k * n + m * n),
        group=dtype,
    )

    def product(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        a = a.mT if trans[0] == "t" else a
        b = b.mT if trans[1] == "t" else b
        function = torch.bmm if batch else torch.mm
        return function(a, b) if out is None else function(a, b, out=out)

    def make() -> dict[str, Call]:
        a = _random(*outer, *((k, m) if trans[0] == "t" else (m, k)), dtype=dtype)
        b = _random(*outer, *((n, k) if trans[1] == "t" else (k, n)), dtype=dtype)
        out = torch.empty(*outer, m, n, dtype=DTYPES[dtype])
        calls: dict[str, Call] = {}
        weights = {1} if settings.packed and not batch else ()
        calls[OURS] = compile_direct(product, (a, b), settings.threads, weights)((a, b))
        calls["torch.bmm" if batch else "torch.mm"] = lambda: product(a, b, out)
        if not batch:
            x, w = a.mT if trans[0] == "t" else a, b if trans[1] == "t" else b.mT
            calls["F.linear"] = lambda: F.linear(x, w)
        if settings.inductor:
            bind = compile_through("inductor", product, (a, b), settings.threads)
            calls["inductor"] = bind((a, b))
        return calls

    return Operation(case, make)


def gemv(
    shapes: Sequence[tuple[int, int]], dtypes: Sequence[str], settings: Settings
) -> list[Operation]:
    """y[N] = W[N, K] x[K], one token through a layer.

    Copies of W that the last cache cannot hold together are used in turns, as the layers of a model
    are, so that W comes from memory.
    """
    return [_gemv(n, k, dtype, settings) for dtype in dtypes for n, k in shapes]


def _gemv(n: int, k: int, dtype: str, settings: Settings) -> Operation:
    size = DTYPES[dtype].itemsize
    case = Case(
        f"{n}x{k} {dtype}",
        dtype,
        flops=2 * n * k,
        bytes=size * (n * k + n + k),
        group=dtype,
        cold=True,
    )

    def make() -> dict[str, Call]:
        x = _random(1, k, dtype=dtype)
        weights = _copies(_random(n, k, dtype=dtype))
        out = torch.empty(n, dtype=DTYPES[dtype])
        row = x[0]
        packed = {1} if settings.packed else ()
        bind = compile_direct(F.linear, (x, weights[0]), settings.threads, packed)
        ours = [bind((x, w)) for w in weights]
        calls = {
            OURS: _in_turns(ours),
            "torch.mv": _in_turns([partial(torch.mv, w, row, out=out) for w in weights]),
            "F.linear": _in_turns([partial(F.linear, x, w) for w in weights]),
        }
        if settings.inductor:
            bind = compile_through("inductor", F.linear, (x, weights[0]), settings.threads)
            calls["inductor"] = _in_turns([bind((x, w)) for w in weights])
        return calls

    return Operation(case, make)


def _copies(weight: torch.Tensor) -> list[torch.Tensor]:
    from buddy.aot.compiler import target_info

    cache = int(target_info("native").l3_bytes)
    size = max(weight.numel() * weight.element_size(), 1)
    count = 1 if size >= 2 * cache else min(-(-2 * cache // size), 64)
    return [weight] + [weight.clone() for _ in range(count - 1)]


def _in_turns(calls: Sequence[Call]) -> Call:
    turns: Iterator[Call] = itertools.cycle(calls)
    return lambda: next(turns)()


# ---- convolutions -----------------------------------------------------------------------------


def conv(
    shapes: Sequence[tuple[int, int, int, int, int, int, int]],
    dtypes: Sequence[str],
    settings: Settings,
) -> list[Operation]:
    """Two-dimensional convolutions with a padding of half the kernel, and a bias."""
    return [_conv(shape, dtype, settings) for dtype in dtypes for shape in shapes]


def _conv(
    shape: tuple[int, int, int, int, int, int, int], dtype: str, settings: Settings
) -> Operation:
    batch, channels, size, outputs, kernel, stride, groups = shape
    places = ((size + 2 * (kernel // 2) - kernel) // stride + 1) ** 2
    taps = channels // groups * kernel * kernel
    elements = batch * (channels * size * size + outputs * places) + outputs * (taps + 1)
    name = f"{batch}x{channels}x{size}:{outputs}x{kernel}"
    name += f"/{stride}" * (stride > 1) + f"g{groups}" * (groups > 1)
    case = Case(
        f"{name} {dtype}",
        dtype,
        flops=2 * batch * outputs * places * taps,
        bytes=DTYPES[dtype].itemsize * elements,
        group=f"{'depthwise' if groups == channels else 'dense'} {dtype}",
    )

    def convolve(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return F.conv2d(x, weight, bias, stride, kernel // 2, groups=groups)

    def make() -> dict[str, Call]:
        inputs = (
            _random(batch, channels, size, size, dtype=dtype),
            _random(outputs, channels // groups, kernel, kernel, dtype=dtype),
            _random(outputs, dtype=dtype),
        )
        calls: dict[str, Call] = {
            OURS: compile_direct(convolve, inputs, settings.threads)(inputs),
            "F.conv2d": lambda: convolve(*inputs),
        }
        if settings.inductor:
            bind = compile_through("inductor", convolve, inputs, settings.threads)
            calls["inductor"] = bind(inputs)
        return calls

    return Operation(case, make)


# ---- attention --------------------------------------------------------------------------------


def attention(
    shapes: Sequence[tuple[int, int, int, int, int]], dtypes: Sequence[str], settings: Settings
) -> list[Operation]:
    """Causal attention of the last q of kv positions: softmax(Q K^T / sqrt(dim)) V."""
    return [_attention(shape, dtype, settings) for dtype in dtypes for shape in shapes]


def _attention(shape: tuple[int, int, int, int, int], dtype: str, settings: Settings) -> Operation:
    heads, kv_heads, dim, q_len, kv_len = shape
    # Pairs that a causal mask leaves.
    pairs = q_len * kv_len - q_len * (q_len - 1) // 2
    size = DTYPES[dtype].itemsize
    case = Case(
        f"{heads}/{kv_heads}x{dim}x{q_len}x{kv_len} {dtype}",
        dtype,
        flops=4 * heads * pairs * dim,
        bytes=2 * size * dim * (heads * q_len + kv_heads * kv_len),
        group=f"q {_range(q_len)} {dtype}",
    )
    causal = q_len == kv_len and q_len > 1
    grouped = heads != kv_heads

    def attend(q: Any, k: Any, v: Any, mask: Any = None) -> torch.Tensor:
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=causal, enable_gqa=k.shape[1] != q.shape[1]
        )

    def make() -> dict[str, Call]:
        q = _random(1, heads, q_len, dim, dtype=dtype)
        k, v = (_random(1, kv_heads, kv_len, dim, dtype=dtype) for _ in range(2))
        inputs = [q, k, v]
        if q_len > 1 and not causal:
            inputs.append(torch.ones(q_len, kv_len, dtype=torch.bool).tril(kv_len - q_len))
        calls: dict[str, Call] = {
            OURS: compile_direct(attend, inputs, settings.threads)(inputs),
            "sdpa": lambda: attend(*inputs),
        }
        if grouped:
            # torch's fused kernel may refuse grouped heads; repeating them is not counted.
            wide = [q, *(t.repeat_interleave(heads // kv_heads, 1) for t in (k, v)), *inputs[3:]]
            calls["sdpa repeated"] = lambda: attend(*wide)
        if settings.inductor:
            bind = compile_through("inductor", attend, inputs, settings.threads)
            calls["inductor"] = bind(inputs)
        return calls

    return Operation(case, make)


def _range(q_len: int) -> str:
    if q_len == 1:
        return "1"
    return "2-127" if q_len < 128 else ">= 128"


# ---- element-wise -----------------------------------------------------------------------------


def _rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


# Name -> (function, the forms of its inputs: x [rows, columns], c [columns]).
ELEMENTWISE: dict[str, tuple[Callable[..., torch.Tensor], str]] = {
    "exp": (torch.exp, "x"),
    "tanh": (torch.tanh, "x"),
    "gelu": (F.gelu, "x"),
    "silu_mul": (lambda a, b: F.silu(a) * b, "xx"),
    "add_relu": (lambda a, b: torch.relu(a + b), "xx"),
    "softmax": (lambda x: torch.softmax(x, -1), "x"),
    "rms_norm": (lambda x, w: F.rms_norm(x, (x.shape[-1],), w, 1e-5), "xc"),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (x.shape[-1],), w, b, 1e-5), "xcc"),
    "rope": (_rope, "xxx"),
    "argmax": (lambda x: x.argmax(-1), "x"),
}


def elementwise(
    shapes: Sequence[tuple[int, int]], dtypes: Sequence[str], names: Sequence[str],
    settings: Settings,
) -> list[Operation]:  # fmt: skip
    """Chains, norms, softmax and argmax over [rows, columns]; only bytes count for the peak."""
    return [
        _elementwise(name, shape, dtype, settings)
        for dtype, name, shape in itertools.product(dtypes, names, shapes)
    ]


def _elementwise(name: str, shape: tuple[int, int], dtype: str, settings: Settings) -> Operation:
    count, width = shape
    function, forms = ELEMENTWISE[name]
    size = DTYPES[dtype].itemsize
    elements = sum(count * width if form == "x" else width for form in forms)
    result_bytes = 8 * count if name == "argmax" else size * count * width
    case = Case(
        f"{name} {count}x{width} {dtype}",
        dtype,
        bytes=size * elements + result_bytes,
        group=f"{name} {dtype}",
    )

    def make() -> dict[str, Call]:
        inputs = [_random(*((count, width) if form == "x" else (width,)), dtype=dtype)
                  for form in forms]  # fmt: skip
        backends = {OURS: "buddy"} | ({"inductor": "inductor"} if settings.inductor else {})
        calls: dict[str, Call] = {
            name: compile_through(backend, function, inputs, settings.threads)(inputs)
            for name, backend in backends.items()
        }
        calls["eager"] = lambda: function(*inputs)
        return calls

    return Operation(case, make)
