"""Reading and writing by index tensors, with errors for those out of range."""

import pytest
import torch
import torch.nn.functional as F
from harness import CheckFailed, compare, compile_with


def test_embedding():
    w = torch.randn(7, 5)
    compare(lambda i, w: F.embedding(i, w), torch.tensor([[0, 6, 3], [2, 2, 1]]), w)
    compare(lambda i, w: F.embedding(i, w), torch.tensor(4, dtype=torch.int32), w)
    compare(lambda i, w: F.embedding(i, w), torch.empty(0, dtype=torch.int64), w)


@pytest.mark.parametrize("bad", [7, -1, 2**62])
def test_an_index_out_of_range_is_an_error(bad):
    compiled, _ = compile_with(lambda i, w: F.embedding(i, w))
    w = torch.randn(7, 5)
    with torch.no_grad(), pytest.raises(CheckFailed, match="index out of range"):
        compiled(torch.tensor([1, bad, 2]), w)


def test_advanced_indexing():
    x = torch.randn(4, 5, 6)
    i, j = torch.tensor([[0, -1], [2, 3]]), torch.tensor([1, -2])

    def function(x, i, j):
        return (
            x[i],
            x[:, j],
            x[i, j],
            x[:, :, i],
            x[i, :, j],
            x[:, i, j],
            x[1:, j],
            x.index_select(1, j % 5),
            x.gather(2, (i % 3).unsqueeze(1).expand(2, 2, 2)),
            torch.take_along_dim(x, (i.reshape(4, 1, 1) % 2), 1),
        )

    compare(function, x, i, j)


def test_writes():
    x = torch.zeros(4, 5, 3)
    i, j = torch.tensor([3, 0, -2]), torch.tensor([1, 4, 0])

    def function(x, i, j, v):
        return (
            x.index_put((i,), v[0]),
            x.index_put((i, j), v[0, :3]),
            x.index_put((i, j), v[0, :3], accumulate=True).index_put((i,), v[0], True),
            x.index_copy(1, j, v[:, :3]),
            x.index_add(0, i % 4, v[:3], alpha=2),
            x.index_fill(1, j, 7),
            x.scatter(1, j.reshape(1, 3, 1).expand(4, 3, 3), v[:, :3]),
            x.scatter_add(1, (j * 0).reshape(1, 3, 1).expand(4, 3, 3), v[:, :3]),
            x.scatter_reduce(1, (j // 2).reshape(1, 3, 1).expand(4, 3, 3), v[:, :3], "amax"),
            x.slice_scatter(v[:, :2], 1, 1, 5, 2),
            x.select_scatter(v[:, 0], 1, -1),
            torch.where(x > 0, x, v),
        )

    compare(function, x, i, j, torch.randn(4, 5, 3))


def test_writes_by_mask():
    def function(x, mask):
        y = x.clone()
        y[mask] = 3.5
        z = x.clone()
        z[mask[:, 0]] = -1
        return y, z

    compare(function, torch.randn(4, 3), torch.tensor([[True, False, True]] * 3 + [[False] * 3]))


def test_a_write_out_of_range_is_an_error():
    compiled, _ = compile_with(lambda x, i, v: x.index_copy(0, i, v))
    with torch.no_grad(), pytest.raises(CheckFailed, match="index_copy: index out of range"):
        compiled(torch.zeros(4, 2), torch.tensor([1, 4]), torch.ones(2, 2))


def test_caches_are_updated_in_place():
    def update(cache, position, new):
        cache.index_copy_(1, position, new)
        return cache.sum(1)

    def slice_update(cache, new):
        cache[:, 2:5] = new
        return cache * 2

    new = torch.randn(2, 3, 4)
    backend = compare(update, torch.zeros(2, 6, 4), torch.tensor([5, 0, 2]), new)
    assert backend.modules[0].args[0].kind == "state"
    compare(slice_update, torch.zeros(2, 6, 4), new)


def test_swapped_and_shared_states():
    """Each state gets the other's old value, whatever the order of the writes."""

    def swap(a, b):
        t = a.clone()
        a.copy_(b)
        b.copy_(t)

    def shift(a, b):
        b.copy_(a)
        a[1:].add_(1)
        return a * 1

    def through_views(a, b):
        old = a[:2].clone()
        a[2:].copy_(b)
        b.copy_(old)
        return b + 0

    compare(swap, torch.randn(3), torch.randn(3))
    compare(shift, torch.randn(3), torch.randn(3))
    compare(through_views, torch.randn(4, 2), torch.randn(2, 2))


def test_mutation_of_strided_and_bool_arguments():
    def function(x, flags):
        x.mul_(2)
        flags.logical_not_()
        return x.sum()

    compare(function, torch.randn(4, 6).t()[::2], torch.tensor([True, False]))


@pytest.mark.parametrize("dynamic", [False, True])
def test_writing_into_a_slice_of_any_layout(dynamic):
    def function(x):
        return (
            torch.select_scatter(x, x.select(1, 0) + 1, 1, 0),
            torch.select_scatter(x, x.select(0, 0) + 1, 0, 2),
            torch.slice_scatter(x, x[:, :2] * 2, 1, 1, 3),
        )

    for x in (torch.randn(5, 7), torch.randn(5, 7).t(), torch.randn(9, 14)[::2, ::3]):
        compare(function, x, dynamic=dynamic)
    compare(lambda x: torch.select_scatter(x, x[0] + 1, 0, 3), torch.randn(8), dynamic=dynamic)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "shape, dim, count",
    [
        ((1, 3, 13, 14), 2, 1),
        ((1, 1, 4), 1, 1),
        ((3, 4, 5), 1, 2),
        ((0, 3), 1, 1),
        ((3, 0), 0, 2),
        ((4, 3), 1, 0),
        ((0, 4), 0, 0),
    ],
)
def test_adding_and_writing_slabs(shape, dim, count, dynamic):
    size = shape[dim]
    index = torch.randint(0, max(size, 1), (count,))
    source = torch.randn(*shape[:dim], count, *shape[dim + 1 :])

    def function(x, index, source):
        at = (*[slice(None)] * dim, index)
        written = x.clone()
        written[at] = source[at[:-1]]
        return (
            x.index_add(dim, index, source),
            x.index_copy(dim, index, source) if len(index) == 1 else x * 1,
            x.index_fill(dim, index, 2),
            x[at],
            written if len(index) == 1 else x * 1,
        )

    compare(function, torch.randn(shape), index, source, dynamic=dynamic)


def test_filling_slabs():
    def function(x, index, value):
        return x.index_fill(0, index, 7), x.index_fill(-1, index - 1, value)

    compare(function, torch.randn(5, 5), torch.tensor([0, 2]), torch.tensor(2.5))
    compare(function, torch.arange(4), torch.tensor([1]), torch.tensor(3))
    compare(lambda x: x.index_fill(0, torch.tensor(0), 7), torch.randn(()))
