"""Tensors inside a function whose sizes are read from other tensors."""

import pytest
import torch
from buddy.importer import UnsupportedOpsError
from harness import compare, exported, imported_text

X = torch.tensor([[0.5, -1.0, 2.0], [-3.0, 4.0, -0.25]])


class Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


@pytest.mark.parametrize("x", [X, X.abs(), -X.abs(), X.T], ids=["some", "all", "none", "strided"])
def test_sums_of_what_a_mask_selects(x):
    def function(x):
        return (
            x[x > 0].sum(),
            torch.masked_select(x, x > 0).sum(),
            torch.nonzero(x > 0).sum(0),
            x[(x > 0)[:, 0]].sum(0),
        )

    compare(function, x)


def test_values_put_by_a_mask():
    compare(lambda x, v: x.index_put((x > 0,), v), X, torch.tensor([7.0, 8.0, 9.0]))
    compare(lambda x, v: x.index_put((x > 0,), v, accumulate=True), X, torch.tensor([1.0]))
    compare(lambda x, v: x.index_put(((x > 0)[:, 0],), v), X, torch.tensor([7.0, 8.0, 9.0]))


def test_scalars_of_every_kind():
    compare(lambda x, i: x[i.item()] + 1, X, torch.tensor(-1))
    compare(lambda x, s: x * s.item() + 1, X, torch.tensor(0.5, dtype=torch.bfloat16))
    compare(lambda x, s: x * s.item() + 1, X, torch.tensor(True))


def test_a_mask_of_one_value_needs_no_count():
    text = imported_text(lambda x: x.index_put((x > 0,), torch.tensor(1.0)), X)
    assert "scf.for" not in text and "tensor<?" not in text


def test_a_program_cannot_return_what_its_caller_cannot_allocate():
    with pytest.raises(UnsupportedOpsError, match="the result's shape depends on data"):
        exported(Function(lambda x: x[x > 0] + 1), (X,))
    with pytest.raises(UnsupportedOpsError, match="the result's shape depends on data"):
        exported(Function(lambda i: i.item()), (torch.tensor(1),))
