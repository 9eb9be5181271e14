"""torch.compile and torch.export end in the same module; attention and norms stay whole."""

import re

import pytest
import torch
import torch.nn.functional as F
from buddy.importer import decompositions, prepare_fx
from harness import Backend, exported, imported_text
from torch import nn


class Block(nn.Module):
    """A transformer block with everything that must stay whole."""

    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(8, eps=1e-6)
        self.layer_norm = nn.LayerNorm(8)
        self.qkv = nn.Linear(8, 16)
        self.out = nn.Linear(8, 8, bias=False)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).split([8, 4, 4], -1)
        q = q.view(*x.shape[:2], 4, 2).transpose(1, 2)
        k, v = (t.view(*x.shape[:2], 2, 2).transpose(1, 2) for t in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.out(y.transpose(1, 2).reshape(x.shape))
        return F.softmax(self.layer_norm(x) * 2, -1)


def operations(text):
    """Return the operations of a module without names of values and arguments."""
    lines = [re.sub(r"%[\w#:]+", "%", line).strip() for line in text.splitlines()]
    kept = [line for line in lines if line.startswith("%") and "to_tensor" not in line]
    return [re.sub(r"\{buddy.module[^}]*\}|#map\d*", "", line) for line in kept]


@pytest.mark.parametrize("dynamic", [False, True])
def test_both_doors_give_the_same_operations(dynamic):
    model, x = Block().eval(), torch.randn(2, 5, 8)
    compiled = imported_text(model, x, dynamic=dynamic)
    dims = {0: torch.export.Dim("b"), 1: torch.export.Dim("t")} if dynamic else None
    program = exported(model, (x,), dynamic_shapes={"x": dims}).text()
    assert sorted(operations(compiled)) == sorted(operations(program))
    for name in ("attention", "rms_norm", "layer_norm", "softmax"):
        assert f'"buddy.{name}"' in compiled
    assert 'causal = "top_left"' in compiled
    assert "linalg.matmul" not in compiled and compiled.count("linalg.contract") == 2


@pytest.mark.parametrize(
    "keywords",
    [
        {},
        {"is_causal": True},
        {"scale": 0.3},
        {"attn_mask": "bool"},
        {"attn_mask": "float", "scale": 1.0},
        {"dropout_p": 0.0, "enable_gqa": False},
    ],
    ids=str,
)
def test_every_form_of_attention_is_one_operation(keywords):
    masks = {"bool": torch.ones(3, 5, dtype=torch.bool), "float": torch.randn(3, 5)}
    keywords = {k: masks.get(v, v) if k == "attn_mask" else v for k, v in keywords.items()}

    def function(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, **keywords)

    class Model(nn.Module):
        def forward(self, q, k, v):
            return function(q, k, v)

    arguments = torch.randn(2, 4, 3, 8), torch.randn(2, 4, 5, 8), torch.randn(2, 4, 5, 6)
    for text in (imported_text(function, *arguments), exported(Model(), arguments).text()):
        assert text.count('"buddy.attention"') == 1
        assert "linalg.contract" not in text
        scale = keywords.get("scale", 8**-0.5)
        assert float(re.search(r"scale = ([-+.\deE]+) : f64", text)[1]) == pytest.approx(scale)
        mask = keywords.get("attn_mask")
        operand = text.split('"buddy.attention"(')[1].split(")")[0]
        assert operand.count("%") == (3 if mask is None else 4)


def test_attention_of_three_dimensions_and_broadcast_batches():
    def function(q, k):
        return F.scaled_dot_product_attention(q, k, k)

    text = imported_text(function, torch.randn(4, 3, 8), torch.randn(4, 5, 8))
    assert text.count('"buddy.attention"') == 1
    text = imported_text(function, torch.randn(2, 4, 3, 8), torch.randn(1, 4, 5, 8))
    assert text.count('"buddy.attention"') == 1


def test_dropout_is_refused_not_ignored():
    gm = torch.fx.symbolic_trace(
        lambda q: F.scaled_dot_product_attention(q, q, q, dropout_p=0.5), {}
    )
    prepare_fx(gm)
    assert not any(n.target is torch.ops.buddy.attention.default for n in gm.graph.nodes)


def test_rms_norm_without_weight_and_over_several_dimensions():
    text = imported_text(
        lambda x, w: (F.rms_norm(x, (4, 6)), F.rms_norm(x, (6,), w, 1e-3)),
        torch.randn(2, 4, 6),
        torch.randn(6),
    )
    assert re.search(r'"buddy.rms_norm"\(%\w+\) \{dims = 2 : i64, eps = 1.192\d*E-7', text)
    assert re.search(r'"buddy.rms_norm"\(%\w+, %\w+\) \{dims = 1 : i64, eps = 1.000000e-03', text)


def test_the_table_keeps_whole_what_has_a_rule():
    table = decompositions()
    aten = torch.ops.aten
    for op in (aten.rms_norm.default, aten.scaled_dot_product_attention.default, aten.silu.default):
        assert op not in table


def test_masks_are_not_expanded():
    """A mask broadcast over heads goes in as it is: expanding it would copy it."""

    def function(q, mask):
        return F.scaled_dot_product_attention(q, q, q, attn_mask=mask.expand(2, 4, 3, 3))

    text = imported_text(function, torch.randn(2, 4, 3, 8), torch.ones(3, 3, dtype=torch.bool))
    assert "tensor<1x1x3x3xi1>" in text and "tensor<2x4x3x3xi1>" not in text


def test_whole_operations_agree_with_eager():
    """Needs buddy-opt and buddy-llc."""
    from harness import compare

    model, x = Block().eval(), torch.randn(2, 5, 8)
    compare(model, x, dynamic=True, rtol=1e-4, atol=1e-5, more=[[torch.randn(3, 9, 8)]])


def test_backend_sees_one_graph():
    backend = Backend(execute=False)
    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(Block().eval(), backend=backend, fullgraph=True)(torch.randn(1, 3, 8))
    assert len(backend.modules) == 1
