"""`primary_dialect="tosa"`: TOSA where sizes are static, linalg elsewhere, same results."""

import pytest
import torch
import torch.nn.functional as F
from harness import compare
from torch import nn


def count(backend, operation):
    return sum(module.text().count(operation) for module in backend.modules)


def test_elementwise():
    def function(x, y):
        p = x.abs() + 0.5
        return (
            x + y,
            x - y,
            x * y,
            x * 2.5,
            torch.maximum(x, y),
            x.exp(),
            p.log(),
            p.rsqrt(),
            p.reciprocal(),
            x.tanh(),
            x.sigmoid(),
            x.floor(),
            -x,
            F.relu(x),
            torch.where(x > y, x, y),
            (x > y).logical_and(x <= y * 2).logical_not(),
            x == y,
            x.to(torch.int32) + 3,
        )

    backend = compare(function, torch.randn(2, 3, 5), torch.randn(3, 1), primary_dialect="tosa")
    assert count(backend, "tosa.") > 18


def test_reductions_and_shapes():
    def function(x):
        return (
            x.sum(1),
            x.sum(),
            x.mean((0, 2), keepdim=True),
            x.amax(-1),
            x.amin((0, 1)),
            (x > 0).any(1),
            (x > -1).all(2),
            torch.cat([x, x * 2], 1),
            x.reshape(6, 5).reshape(-1),
            x.transpose(0, 1).reshape(3, 10),
        )

    backend = compare(function, torch.randn(2, 3, 5), primary_dialect="tosa")
    for operation in ("reduce_sum", "reduce_max", "reduce_any", "concat", "reshape"):
        assert count(backend, f"tosa.{operation}")


def test_products():
    backend = compare(
        lambda x, y, b: (x @ y, torch.addmm(b, x, y), x.expand(2, 3, 4) @ y.expand(2, 4, 5)),
        torch.randn(3, 4),
        torch.randn(4, 5),
        torch.randn(5),
        primary_dialect="tosa",
    )
    assert count(backend, "tosa.matmul") >= 2


def test_a_weights_transpose_is_not_materialised():
    backend = compare(nn.Linear(4, 3).eval(), torch.randn(2, 4), primary_dialect="tosa")
    assert count(backend, "tosa.transpose") == 0 and count(backend, "linalg.contract") == 1


@pytest.mark.parametrize("shape", [(0, 3), ()])
def test_empty_and_rank_zero_tensors_fall_to_linalg(shape):
    compare(lambda x: (x + x, x.exp(), x.sum()), torch.ones(shape), primary_dialect="tosa")


def test_dynamic_sizes_and_other_dtypes_fall_to_linalg():
    backend = compare(
        lambda x: x + x.exp(), torch.randn(3, 4), dynamic=True, primary_dialect="tosa"
    )
    assert count(backend, "tosa.") == 0
    backend = compare(lambda x: x + x, torch.ones(3, dtype=torch.int64), primary_dialect="tosa")
    assert count(backend, "tosa.") == 0


def test_nan_is_kept():
    x = torch.tensor([float("nan"), 1.0, -1.0])
    compare(
        lambda x: (F.relu(x), torch.maximum(x, x.flip(0)), x.amax(0)), x, primary_dialect="tosa"
    )
