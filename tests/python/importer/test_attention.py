"""Attention with head counts and head sizes known at the call only."""

import pytest
import torch
import torch.nn.functional as F
from harness import compare


def operands(batch, heads, key_heads, length, keys, size):
    return [
        torch.randn(batch, n, t, size)
        for n, t in ((heads, length), (key_heads, keys), (key_heads, keys))
    ]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scale", [None, 0.3])
@pytest.mark.parametrize("groups", [1, 2])
def test_dynamic_heads(groups, scale, causal):
    grouped = groups != 1

    def function(q, k, v):
        return F.scaled_dot_product_attention(
            q, k, v, is_causal=causal, scale=scale, enable_gqa=grouped
        )

    first = operands(2, 4, 4 // groups, 16, 16, 8)
    more = [operands(3, 6, 6 // groups, 7, 9, 5), operands(2, 10, 10 // groups, 33, 70, 64)]
    compare(function, *first, dynamic=True, more=more, rtol=1e-4, atol=1e-5)


def test_one_key_head():
    def function(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    compare(function, *operands(2, 4, 1, 5, 6, 8), dynamic=True, more=[operands(3, 7, 1, 9, 4, 8)])


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("kind", ["full", "rows", "heads", "bool"])
def test_dynamic_heads_with_a_mask(kind, groups):
    grouped = groups != 1

    def function(q, k, v, mask):
        mask = mask > 0 if kind == "bool" else mask
        return F.scaled_dot_product_attention(q, k, v, mask, enable_gqa=grouped)

    def arguments(batch, heads, length, keys):
        shape = {"full": (batch, heads), "rows": (), "heads": (batch, 1), "bool": (1, heads)}[kind]
        mask = torch.randn(*shape, length, keys)
        mask[..., 0] = 1.0
        return [*operands(batch, heads, heads // groups, length, keys, 8), mask]

    compare(
        function,
        *arguments(2, 6, 5, 7),
        dynamic=True,
        more=[arguments(3, 9, 8, 4)],
        atol=1e-5,
        rtol=1e-4,
    )


def test_heads_of_bfloat16():
    q, k, v = (x.bfloat16() for x in operands(2, 4, 4, 9, 9, 24))
    exact = F.scaled_dot_product_attention(q.double(), k.double(), v.double())
    compare(
        lambda q, k, v: (F.scaled_dot_product_attention(q, k, v).double() - exact).abs() < 0.03,
        q,
        k,
        v,
        dynamic=True,
    )
