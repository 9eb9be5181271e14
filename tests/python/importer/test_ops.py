"""Operators of ours as PyTorch operators: values, fake kernels and gradients."""

import itertools

import buddy.ops  # noqa: F401
import pytest
import torch
import torch.nn.functional as F
from harness import compare


def reference(q, k, v, mask, causal, scale):
    groups = q.shape[-3] // k.shape[-3]
    k, v = (x.repeat_interleave(groups, -3) for x in (k, v))
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    t, s = scores.shape[-2:]
    if causal != "none":
        allowed = torch.ones(t, s, dtype=torch.bool).tril(s - t if causal == "bottom_right" else 0)
        scores = scores.masked_fill(~allowed, -torch.inf)
    if mask is not None:
        masked = mask.dtype is torch.bool
        scores = scores.masked_fill(~mask, -torch.inf) if masked else scores + mask
    return torch.softmax(scores, -1) @ v


def masks(kind, t, s):
    if kind == "bool":
        mask = torch.rand(t, s) > 0.3
        mask[:, 0] = True
        return mask
    return torch.randn(t, s, dtype=torch.float64) if kind == "float" else None


@pytest.mark.parametrize("heads, kv_heads", [(4, 4), (4, 2), (3, 1)])
def test_attention(heads, kv_heads):
    for causal, kind, scale in itertools.product(
        ("none", "top_left", "bottom_right"), (None, "bool", "float"), (None, 0.7)
    ):
        q = torch.randn(2, heads, 3, 5, dtype=torch.float64, requires_grad=True)
        k = torch.randn(2, kv_heads, 6, 5, dtype=torch.float64, requires_grad=True)
        v = torch.randn(2, kv_heads, 6, 4, dtype=torch.float64, requires_grad=True)
        mask = masks(kind, 3, 6)
        actual = torch.ops.buddy.attention(q, k, v, mask, causal, scale)
        expected = reference(q, k, v, mask, causal, scale)
        torch.testing.assert_close(actual, expected)
        grad = torch.randn_like(actual)
        for got, want in zip(
            torch.autograd.grad(actual, (q, k, v), grad),
            torch.autograd.grad(expected, (q, k, v), grad),
            strict=True,
        ):
            torch.testing.assert_close(got, want)


def test_attention_passes_opcheck():
    q = torch.randn(1, 4, 3, 8, requires_grad=True)
    k, v = (torch.randn(1, 2, 5, 8, requires_grad=True) for _ in range(2))
    mask = torch.randn(3, 5, requires_grad=True)
    torch.library.opcheck(torch.ops.buddy.attention.default, (q, k, v, mask))
    torch.library.opcheck(
        torch.ops.buddy.attention.default, (q, k, v), {"causal": "bottom_right", "scale": 0.5}
    )


@pytest.mark.parametrize(
    "shapes, message",
    [
        (((2, 3, 8), (2, 5, 7), (2, 5, 7)), "head sizes"),
        (((2, 3, 8), (2, 5, 8), (2, 4, 8)), "lengths"),
        (((3, 3, 8), (2, 5, 8), (2, 5, 8)), "multiple"),
    ],
)
def test_attention_refuses_shapes_that_do_not_fit(shapes, message):
    with pytest.raises(RuntimeError, match=message):
        torch.ops.buddy.attention(*[torch.randn(shape) for shape in shapes])


@pytest.mark.parametrize("eps", [None, 1e-3])
@pytest.mark.parametrize("dims", [1, 2])
def test_rms_norm(eps, dims):
    x = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    shape = list(x.shape[-dims:])
    weight = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    actual = torch.ops.buddy.rms_norm(x, shape, weight, eps)
    expected = F.rms_norm(x, shape, weight, eps)
    torch.testing.assert_close(actual, expected)
    grad = torch.randn_like(actual)
    for got, want in zip(
        torch.autograd.grad(actual, (x, weight), grad),
        torch.autograd.grad(expected, (x, weight), grad),
        strict=True,
    ):
        torch.testing.assert_close(got, want)
    torch.library.opcheck(torch.ops.buddy.rms_norm.default, (x, shape, weight, eps))
    torch.library.opcheck(torch.ops.buddy.rms_norm.default, (x.detach(), shape))


def test_rms_norm_over_a_shape_known_at_the_call():
    def arguments(rows, columns):
        return torch.randn(rows, columns), torch.randn(columns)

    compare(
        lambda x, w: F.rms_norm(x, w.shape, w, 1e-5),
        *arguments(3, 5),
        dynamic=True,
        more=[arguments(4, 33)],
    )
