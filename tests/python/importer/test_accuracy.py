"""Errors against double precision beside those of eager PyTorch in the same dtype.

f32 may err four times as much as eager, bf16 and f16 one and a half times, by the root mean
square and by the largest error. What eager computes exactly, or nearly, is held to a fraction of
one rounding of the largest results instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from program_batch import Program, compile_programs

FACTOR = {torch.float32: 4.0, torch.bfloat16: 1.5, torch.float16: 1.5}
DTYPES = list(FACTOR)


@dataclass
class Measured:
    """A function of tensors, and normally distributed arguments by shape and scale."""

    name: str
    function: Callable[..., torch.Tensor]
    shapes: Sequence[tuple[int, ...]]
    scale: float = 1.0
    shift: float = 0.0
    positive: bool = False

    def arguments(self, dtype: torch.dtype) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(len(self.name))
        found = []
        for shape in self.shapes:
            x = torch.randn(shape, generator=generator, dtype=torch.float64) * self.scale
            found.append(((x.abs() if self.positive else x) + self.shift).to(dtype))
        return found


def attention(q, k, v, **options):
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=q.shape[1] != k.shape[1], **options)


def masked(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


CONTRACTIONS = [
    Measured(f"{form} m={m} k={k}", function, shapes(m, 70, k), 1.0)
    for m, k in ((1, 4099), (5, 4099), (64, 1031), (3, 17), (33, 64), (2, 30011))
    for form, function, shapes in (
        ("nn", lambda a, b: a @ b, lambda m, n, k: [(m, k), (k, n)]),
        ("nt", lambda a, b: a @ b.mT, lambda m, n, k: [(m, k), (n, k)]),
        ("tn", lambda a, b: a.mT @ b, lambda m, n, k: [(k, m), (k, n)]),
        ("tt", lambda a, b: a.mT @ b.mT, lambda m, n, k: [(k, m), (n, k)]),
    )
] + [
    Measured("batch", torch.bmm, [(3, 20, 700), (3, 700, 33)]),
    Measured("vector", torch.mv, [(50, 5000), (5000,)]),
    Measured("linear", F.linear, [(20, 999), (40, 999), (40,)]),
    Measured("dots", lambda a, b: torch.einsum("bk,bk->b", a, b), [(40, 7001), (40, 7001)]),
    Measured(
        "gated", lambda x, a, b: F.silu(x @ a.mT) * (x @ b.mT), [(9, 576), (70, 576), (70, 576)]
    ),
    Measured(
        "convolution", lambda x, w: F.conv2d(x, w, padding=1), [(2, 30, 9, 11), (20, 30, 3, 3)]
    ),
]
ATTENTIONS = [
    Measured("one query", attention, [(1, 9, 1, 64), (1, 3, 700, 64), (1, 3, 700, 64)]),
    Measured("split keys", attention, [(1, 2, 1, 64), (1, 2, 3000, 64), (1, 2, 3000, 64)]),
    Measured("queries", attention, [(2, 4, 70, 33), (2, 2, 300, 33), (2, 2, 300, 20)]),
    Measured("causal", lambda q, k, v: attention(q, k, v, is_causal=True),
             [(1, 3, 130, 64), (1, 3, 130, 64), (1, 3, 130, 64)]),
    Measured("mask", masked, [(1, 2, 40, 16), (1, 2, 90, 16), (1, 2, 90, 16), (40, 90)]),
    Measured("large scores", attention, [(1, 2, 20, 64), (1, 2, 99, 64), (1, 2, 99, 64)], 3.0),
]  # fmt: skip
ROWS = [
    Measured("softmax", lambda x: torch.softmax(x, -1), [(33, 1001)]),
    Measured("softmax wide", lambda x: torch.softmax(x, -1), [(5, 1001)], 20.0),
    Measured("softmax columns", lambda x: torch.softmax(x, 0), [(301, 33)]),
    Measured("log_softmax", lambda x: torch.log_softmax(x, -1), [(33, 1001)]),
    Measured("logsumexp", lambda x: torch.logsumexp(x, -1), [(33, 1001)]),
    Measured("layer_norm", lambda x, w, b: F.layer_norm(x, w.shape, w, b),
             [(33, 577), (577,), (577,)]),
    Measured("layer_norm shifted", lambda x: F.layer_norm(x, x.shape[1:]), [(33, 577)], 1.0, 9.0),
    Measured("rms_norm", lambda x, w: F.rms_norm(x, w.shape, w, 1e-5), [(33, 577), (577,)]),
    Measured("group_norm", lambda x: F.group_norm(x, 3), [(2, 6, 9, 7)]),
    Measured("sum", lambda x: x.sum(-1), [(33, 5003)]),
    Measured("sum columns", lambda x: x.sum(0), [(5003, 33)]),
    Measured("sum all", lambda x: x.sum(), [(501, 333)], 1.0, 1.0),
    Measured("mean", lambda x: x.mean(-1), [(33, 5003)], 1.0, 1.0),
    Measured("var", lambda x: x.var(-1), [(33, 1003)], 1.0, 3.0),
    Measured("norm", lambda x: x.norm(dim=-1), [(33, 5003)]),
]  # fmt: skip
X = [(3, 4001)]
FUNCTIONS = [
    *(Measured(f"gelu {a} {s}", lambda x, a=a: F.gelu(x, approximate=a), X, s)
      for a in ("none", "tanh") for s in (1.0, 4.0)),
    *(Measured(f"{f.__name__} {s}", f, X, s)
      for f in (torch.tanh, torch.sigmoid, torch.erf, torch.exp, torch.expm1, F.silu, F.softplus,
                F.mish, torch.sin, torch.cos, torch.tan, F.elu, torch.exp2, torch.atan, torch.sinh,
                torch.cosh)
      for s in (0.01, 1.0, 4.0)),
    *(Measured(f"{f.__name__} {s}", f, X, s, 1e-3, True)
      for f in (torch.log, torch.log1p, torch.log2, torch.log10, torch.sqrt, torch.rsqrt,
                torch.reciprocal)
      for s in (0.01, 1.0, 50.0)),
    *(Measured(f"{f.__name__} of sines", lambda x, f=f: f(torch.sin(x)), X)
      for f in (torch.asin, torch.acos)),
    # Angles as rotary embeddings have.
    *(Measured(f"{f.__name__} {s}", f, X, s)
      for f in (torch.sin, torch.cos) for s in (1e4,)),
    Measured("atan2", torch.atan2, X + X),
    Measured("log near 1", torch.log, X, 0.01, 1.0),
    Measured("pow", lambda x, y: x.pow(y), X + X, 1.0, 0.1, True),
    Measured("quotient", lambda x, y: x / (y + 3), X + X, 0.5),
    Measured("chain", lambda x, y: torch.tanh(x * 0.5) * y + torch.exp(-x * x), X + X),
]  # fmt: skip
GROUPS = {
    "contractions": CONTRACTIONS,
    "attention": ATTENTIONS,
    "rows": ROWS,
    "functions": FUNCTIONS,
}


def errors(actual: torch.Tensor, exact: torch.Tensor) -> tuple[float, float]:
    """The root mean square and the largest error."""
    difference = (actual.double() - exact).flatten()
    return float(difference.square().mean().sqrt()), float(difference.abs().max())


def exceeding(case: Measured, arguments: list[torch.Tensor], actual: Any) -> str:
    """What is wrong with a result, or nothing."""
    dtype = arguments[0].dtype
    exact = case.function(*(x.double() for x in arguments))
    if actual.dtype != dtype or actual.shape != exact.shape:
        return f"{case.name}: {actual.dtype} {tuple(actual.shape)}"
    # Finite in this dtype, or else the same infinity.
    eager = case.function(*arguments)
    finite = eager.isfinite()
    if not torch.equal(actual[~finite], eager[~finite]) or not actual[finite].isfinite().all():
        return f"{case.name}: other infinities than eager's"
    if not finite.any():
        return ""
    ours, theirs = (errors(x[finite], exact[finite]) for x in (actual, eager))
    # A quarter of the distance between neighbours of the largest result.
    floor = torch.finfo(dtype).eps * float(exact[finite].abs().max()) / 4
    root = math.sqrt(float(exact[finite].square().mean())) * torch.finfo(dtype).eps / 8
    for name, our, their, least in zip(
        ("root mean square", "largest"), ours, theirs, (root, floor), strict=True
    ):
        if not our <= FACTOR[dtype] * max(their, least):
            return f"{case.name}, {name} error: {our:.3g}, eager {their:.3g} ({our / their:.1f}x)"
    return ""


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
@pytest.mark.parametrize("group", GROUPS)
def test_errors_are_no_larger_than_eagers(group: str, dtype: torch.dtype) -> None:
    cases = GROUPS[group]
    arguments = [case.arguments(dtype) for case in cases]
    programs = [Program(case.function, args) for case, args in zip(cases, arguments, strict=True)]
    compiled = compile_programs(programs)
    with torch.no_grad():
        found = [
            exceeding(case, args, function(*args))
            for case, args, function in zip(cases, arguments, compiled, strict=True)
        ]
    wrong = [line for line in found if line]
    assert not wrong, f"{len(wrong)} of {len(cases)}:\n" + "\n".join(wrong)
