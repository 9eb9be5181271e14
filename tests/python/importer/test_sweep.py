"""Random products, chains, reductions, norms and attention: shapes, strides and dtypes drawn.

Sizes are 0, 1, around a vector, around a register tile and odd; operands are permuted, stepped
and padded parts of larger tensors, or broadcast. A program that fails is printed with the command
that runs it alone:

    python tests/python/importer/test_sweep.py KIND SEED [--dynamic] [--count N]
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent))

from harness import _copy  # noqa: E402
from program_batch import Program, compile_programs  # noqa: E402

FLOATS = [torch.float32] * 3 + [torch.bfloat16, torch.float16, torch.float64]
INTS = [torch.int32, torch.int64, torch.int8, torch.uint8, torch.int16]
SIZES = [0, 1, 1, 2, 3, 5, 8, 13, 16, 17, 31, 33, 64, 70]
# A program may err so many times as much as eager, or by so many roundings of its largest result;
# in f64 eager itself is what is compared with.
FACTOR, ROUNDINGS, DOUBLE_ROUNDINGS = 8.0, 4.0, 100.0


@dataclass
class Operand:
    """A tensor of the shape: `order` of dimensions in memory, steps and padding along each."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    order: list[int]
    steps: list[int]
    padding: list[int]
    expanded: list[int]  # dimensions of stride 0
    seed: int

    def tensor(self) -> torch.Tensor:
        generator = torch.Generator().manual_seed(self.seed)
        stored = [
            1 if i in self.expanded else self.shape[i] * self.steps[i] + self.padding[i]
            for i in self.order
        ]
        if self.dtype is torch.bool:
            memory = torch.rand(stored, generator=generator) < 0.5
        elif self.dtype.is_floating_point:
            memory = torch.randn(stored, generator=generator, dtype=torch.float64).to(self.dtype)
        else:
            low = 0 if self.dtype is torch.uint8 else -9
            memory = torch.randint(low, 10, stored, generator=generator).to(self.dtype)
        view = memory.permute([self.order.index(i) for i in range(len(self.shape))])
        for i, (size, step) in enumerate(zip(self.shape, self.steps, strict=True)):
            if i in self.expanded:
                continue
            view = view.narrow(i, self.padding[i], size * step)
            view = view[(slice(None),) * i + (slice(None, None, step),)]
        return view.expand(self.shape)


@dataclass
class Draw:
    """One program: an expression of operands `a`, `b`, …, by the generator of its kind."""

    seed: int
    operands: list[Operand] = field(default_factory=list)
    expression: str = ""

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def size(self) -> int:
        return self.random.choice(SIZES)

    def operand(self, shape: tuple[int, ...], dtype: torch.dtype, plain: float = 0.4) -> str:
        r, rank = self.random, len(shape)
        order, steps, padding = list(range(rank)), [1] * rank, [0] * rank
        expanded: list[int] = []
        if r.random() > plain:
            if r.random() < 0.6:
                r.shuffle(order)
            steps = [r.choice([1, 1, 1, 2, 3]) for _ in shape]
            padding = [r.choice([0, 0, 1, 3]) for _ in shape]
            expanded = [i for i in range(rank) if r.random() < 0.08]
        self.operands.append(
            Operand(shape, dtype, order, steps, padding, expanded, r.randrange(1 << 30))
        )
        return "abcdefgh"[len(self.operands) - 1]

    def function(self) -> Callable[..., Any]:
        parameters = ", ".join("abcdefgh"[: len(self.operands)])
        return eval(f"lambda {parameters}: {self.expression}", {"torch": torch, "F": F})

    def source(self) -> str:
        lines = [
            f"{name}: {tuple(o.shape)} {str(o.dtype).removeprefix('torch.')}, memory order "
            f"{o.order}, steps {o.steps}, padding {o.padding}, stride 0 along {o.expanded}"
            for name, o in zip("abcdefgh", self.operands, strict=False)
        ]
        return "\n".join([*lines, self.expression])


def contraction(draw: Draw) -> None:
    """A product of two operands, each with its dimensions in any order."""
    r = draw.random
    dtype = r.choice([*FLOATS, torch.int32, torch.int64])
    sizes = {d: draw.size() for d in "mnk"}
    sizes |= {d: r.choice([0, 1, 2, 3, 3]) for d in "bxy"}
    if r.random() < 0.3:
        sizes["k"] = r.choice([130, 257, 515])
    batch = "".join(d for d in "b" if r.random() < 0.5)
    rows = "m" * (r.random() < 0.9) + "x" * (r.random() < 0.2)
    columns = "n" * (r.random() < 0.9) + "y" * (r.random() < 0.1)
    maps = [list(batch + rows + "k"), list(batch + columns + "k"), list(batch + rows + columns)]
    for map_ in maps:
        if r.random() < 0.5:
            r.shuffle(map_)
    names = [draw.operand(tuple(sizes[d] for d in map_), dtype) for map_ in maps[:2]]
    a, b, c = ("".join(map_) for map_ in maps)
    product = f"torch.einsum('{a},{b}->{c}', {', '.join(names)})"
    if r.random() < 0.4 and dtype.is_floating_point:
        other = draw.operand(tuple(sizes[d] for d in c), dtype)
        product = r.choice(["F.silu({p}) * {o}", "{p} + {o}", "{o} - {p} * 2"]).format(
            p=product, o=other
        )
    draw.expression = product


def shape_of(draw: Draw, most: int = 4) -> tuple[int, ...]:
    shape = tuple(draw.size() for _ in range(draw.random.randrange(most + 1)))
    elements = 1
    for size in shape:
        elements *= max(size, 1)
    return shape if elements <= 60000 else tuple(min(n, 7) for n in shape)


def chain(draw: Draw) -> None:
    """Element-wise operations over operands that are broadcast to one shape."""
    r = draw.random
    shape = shape_of(draw)
    floats = r.random() < 0.75
    dtypes = [r.choice(FLOATS if floats else INTS)] * 3
    if r.random() < 0.25:
        dtypes = [r.choice(FLOATS if floats else INTS) for _ in dtypes]
    names = []
    for dtype in dtypes[: r.randrange(1, 4)]:
        own = list(shape[r.randrange(len(shape) + 1) if r.random() < 0.4 else 0 :])
        own = [1 if r.random() < 0.2 else n for n in own]
        names.append(draw.operand(tuple(own), dtype))
    float_forms = [
        "{x} + {y}", "{x} * {y}", "{x} - 2 * {y}", "torch.tanh({x})", "{x}.sigmoid()",
        "torch.exp(-{x}.abs())", "torch.maximum({x}, {y})", "{x} / ({y}.abs() + 1)",
        "torch.where({a} > {b}, {x}, {y})", "F.gelu({x})", "{x}.clamp(-1, 1)", "torch.erf({x})",
        "torch.log1p({x}.abs())", "{x}.sin()", "{x}.float()", "({x} * {x} + 1).rsqrt()",
        "({a} > {b}) * {x}", "{x}.neg().relu()", "torch.expm1({x}.clamp(-4, 4))",
    ]  # fmt: skip
    int_forms = [
        "{x} + {y}", "{x} * {y}", "{x} - 3", "torch.maximum({x}, {y})", "{x}.abs()",
        "torch.where({a} > {b}, {x}, {y})", "{x} & {y}", "{x} ^ 5", "{x} // 3", "{x} % 4",
        "{x}.clamp(-3, 5)", "{x}.long()", "{x}.long() << 1", "~{x}", "({a} == {b}) | ({x} > 0)",
    ]  # fmt: skip
    expression = r.choice(names)
    for _ in range(r.randrange(1, 5)):
        form = r.choice(float_forms if floats else int_forms)
        expression = "(" + form.format(
            x=expression, y=r.choice(names), a=r.choice(names), b=r.choice(names)
        ) + ")"  # fmt: skip
    draw.expression = expression


def reduction(draw: Draw) -> None:
    """One or all dimensions reduced, of sizes that may be 0 or 1."""
    r = draw.random
    shape = shape_of(draw)
    dtype = r.choice(FLOATS + INTS[:3])
    x = draw.operand(shape, dtype)
    dims = sorted(r.sample(range(len(shape)), r.randrange(len(shape) + 1)))
    nonempty = all(shape[i] > 0 for i in (dims or range(len(shape))))
    keep = r.random() < 0.5
    listed = f"dim={dims or None}, keepdim={keep}" if dims else ""
    one = f"dim={r.choice(dims)}, keepdim={keep}" if dims else ""
    forms = [f"{x}.sum({listed})", f"({x} > 0).sum({listed})"]
    forms += [f"({x} > 1).any({one})", f"({x} > -2).all({one})"]
    if dims:
        forms += [f"{x}.cumsum({dims[0]})"]
    if nonempty:
        forms += [f"{x}.amax({listed or 'dim=()'})", f"{x}.amin({listed or 'dim=()'})"]
        forms += [f"{x}.argmax({one})", f"{x}.argmin({one})"]
        if one:
            forms += [f"{x}.max({one})[1]", f"{x}.min({one})[0]"]
        if dtype.is_floating_point:
            forms += [f"{x}.mean({listed})", f"({x} * 0.1 + 1).prod({one})"]
            forms += [f"torch.logsumexp({x}, {listed})"] if dims else []
            forms += [
                f"{x}.norm({listed})",
                f"{x}.var({listed + ', ' if dims else ''}correction=0)",
            ]
    draw.expression = r.choice(forms)


def rows(draw: Draw) -> None:
    """Softmax along any dimension, norms over the last ones."""
    r = draw.random
    shape = (*shape_of(draw, 3), draw.size())
    dtype = r.choice(FLOATS)
    x = draw.operand(shape, dtype)
    if r.random() < 0.4:
        other = draw.operand(shape, dtype)
        x = f"({x} + {other})"
    dims = r.randrange(1, len(shape) + 1)
    norm = shape[-dims:]
    forms = [f"torch.softmax({x}, {r.randrange(-len(shape), len(shape))})"]
    forms += [f"torch.log_softmax({x}, {r.randrange(len(shape))})", *forms]
    if 0 not in norm:
        weight, bias = (draw.operand(norm, dtype) for _ in range(2))
        forms += [
            f"F.layer_norm({x}, {norm}, {weight}, {bias})",
            f"F.layer_norm({x}, {norm})",
            f"F.rms_norm({x}, {norm}, {weight}, 1e-5)",
            f"F.rms_norm({x}, {norm}, None, 1e-3) * {weight}",
        ]
    # An operand that the expression does not use is passed all the same.
    draw.expression = r.choice(forms)


def attention(draw: Draw) -> None:
    """Grouped heads, causal or masked, of layouts as models have them."""
    r = draw.random
    dtype = r.choice(FLOATS)
    batch, key_heads = r.choice([1, 1, 2, 3]), r.choice([1, 2, 3])
    group = r.choice([1, 1, 2, 4])
    t, s = r.choice([0, 1, 1, 2, 5, 17, 33, 70]), r.choice([1, 2, 7, 16, 33, 70, 131, 600])
    depth, width = r.choice([1, 3, 8, 16, 33, 64]), r.choice([1, 8, 16, 20, 64])
    q = draw.operand((batch, key_heads * group, t, depth), dtype)
    k = draw.operand((batch, key_heads, s, depth), dtype)
    v = draw.operand((batch, key_heads, s, width), dtype)
    options = [f"enable_gqa={group > 1}"]
    if r.random() < 0.3:
        options.append("scale=0.3")
    kind = r.choice(["none", "none", "causal", "float", "bool"])
    if kind == "causal":
        options.append("is_causal=True")
    elif kind != "none":
        shape = (r.choice([1, batch]), r.choice([1, key_heads * group]), t, s)
        mask = draw.operand(shape[r.randrange(3) :], dtype if kind == "float" else torch.bool)
        if kind == "bool":  # eager's rows that see nothing differ from kernel to kernel
            mask = f"({mask} | (torch.arange({s}) == 0))"
        options.append(f"attn_mask={mask}")
    draw.expression = f"F.scaled_dot_product_attention({q}, {k}, {v}, {', '.join(options)})"


KINDS = {f.__name__: f for f in (contraction, chain, reduction, rows, attention)}


def drawn(kind: str, seed: int) -> Draw | None:
    """The program of a seed, or none if eager refuses it."""
    draw = Draw(seed)
    KINDS[kind](draw)
    try:
        draw.function()(*(o.tensor() for o in draw.operands))
    except (RuntimeError, IndexError, NotImplementedError):
        return None
    return draw


def difference(draw: Draw, arguments: list[torch.Tensor], actual: Any) -> str:
    """What is wrong with a result, or nothing."""
    function = draw.function()
    eager = function(*arguments)
    if (actual.shape, actual.dtype) != (eager.shape, eager.dtype):
        return f"{tuple(actual.shape)} {actual.dtype}, not {tuple(eager.shape)} {eager.dtype}"
    if not eager.dtype.is_floating_point or not eager.numel():
        same = torch.equal(actual, eager)
        return "" if same else f"{int((actual != eager).sum())} of {eager.numel()} elements differ"
    exact = function(*(a.double() if a.is_floating_point() else a for a in arguments)).double()
    finite = eager.isfinite()
    if not torch.equal(finite, actual.isfinite()):
        return "other elements than eager's are not finite"
    if not torch.equal(eager.isnan(), actual.isnan()):
        return "other elements than eager's are NaN"
    if not finite.any():
        return ""
    ours, theirs = (float((x.double() - exact)[finite].abs().max()) for x in (actual, eager))
    rounding = torch.finfo(eager.dtype).eps * float(exact[finite].abs().max())
    tiny = torch.finfo(eager.dtype).smallest_normal
    roundings = DOUBLE_ROUNDINGS if eager.dtype is torch.float64 else ROUNDINGS
    allowed = max(FACTOR * theirs, roundings * rounding, tiny)
    return "" if ours <= allowed else f"errs by {ours:.3g}, eager by {theirs:.3g}"


def failures(kind: str, draws: list[Draw], dynamic: bool) -> list[str]:
    """What is wrong with the programs, each with how to run it alone."""
    arguments = [[o.tensor() for o in draw.operands] for draw in draws]
    programs = [Program(draw.function(), args) for draw, args in zip(draws, arguments, strict=True)]
    wrong = []
    with torch.no_grad():
        compiled = compile_programs(programs, dynamic)
        for draw, args, function in zip(draws, arguments, compiled, strict=True):
            try:
                # Dynamo guards what a view is a view of: a copy like the one that was traced.
                what = difference(draw, args, function(*_copy(args)))
            except Exception as error:
                what = f"{type(error).__name__}: {error}"
            if what:
                command = f"python {Path(__file__).name} {kind} {draw.seed}"
                command += " --dynamic" if dynamic else ""
                wrong.append(f"{what}\n{draw.source()}\n{command}")
    return wrong


COUNT = {"contraction": 40, "chain": 60, "reduction": 60, "rows": 40, "attention": 24}


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("part", range(2))
@pytest.mark.parametrize("kind", KINDS)
def test_random(kind: str, part: int, dynamic: bool) -> None:
    draws: list[Draw] = []
    seed = 100000 * part + (50000 if dynamic else 0)
    # Code for sizes that are not known is larger, and takes longer to compile.
    while len(draws) < COUNT[kind] // (2 if dynamic else 1):
        if (draw := drawn(kind, seed)) is not None:
            draws.append(draw)
        seed += 1
    wrong = failures(kind, draws, dynamic)
    assert not wrong, f"{len(wrong)} of {len(draws)}:\n\n" + "\n\n".join(wrong)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("seed", type=int)
    parser.add_argument("--count", type=int, default=1, help="so many seeds from this one on")
    parser.add_argument("--dynamic", action="store_true", help="sizes are symbols")
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.count)
    draws = [draw for seed in seeds if (draw := drawn(options.kind, seed)) is not None]
    wrong = failures(options.kind, draws, options.dynamic)
    print("\n\n".join(wrong) or f"{len(draws)} programs, nothing wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
