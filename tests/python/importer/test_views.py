"""Views and moves of elements, at run time."""

import torch
from harness import compare

A = torch.arange(60, dtype=torch.float32).reshape(3, 4, 5)


def test_permutations_and_reshapes():
    def function(x):
        return (
            x.permute(2, 0, 1),
            x.transpose(0, 2).reshape(5, 12),
            x.reshape(-1),
            x.view(3, 2, 2, 5),
            x.reshape(12, 5).reshape(2, 30),
            x.reshape(1, 3, 1, 20),
            x[:, :1].squeeze(1).unsqueeze(0),
            x.permute(1, 0, 2).unsqueeze(2).expand(4, 3, 6, 5),
        )

    compare(function, A)


def test_reshapes_of_dynamic_sizes():
    def function(x):
        b, t, d = x.shape
        return (
            x.reshape(b * t, d),
            x.reshape(t, b * d) + 1,
            x.view(b, t, d // 2, 2).transpose(1, 2).reshape(b, d // 2, t * 2),
            x.reshape(b, t * d).reshape(t, b, d),
            x.flatten(),
        )

    compare(function, A[:, :, :4], dynamic=True, more=[[torch.randn(2, 7, 6)]])


def test_slices_with_negative_and_clamped_bounds():
    def function(x):
        return x[1:], x[:, -2:], x[..., ::2], x[5:], x[:, 1:100], x[-1], x[:, :, 1], x[0:0]

    compare(function, A)


def test_slices_of_dynamic_sizes():
    def function(x):
        n = x.shape[0]
        return x[1 : n - 1], x[n // 2 :], x[: n // 2] + 1, x[-2:]

    compare(function, torch.randn(6, 3), dynamic=True, more=[[torch.randn(9, 4)]])


def test_joins():
    def function(x, y):
        return (
            torch.cat([x, y], 1),
            torch.cat([x, x[:0], y[:, :4]], 0),
            torch.stack([x, x * 2], -1),
            torch.cat([x.t(), x.t()]),
            torch.cat([x, y.double()[:, :4]], 0),
        )

    compare(function, torch.randn(3, 4), torch.randn(3, 5))


def test_dynamic_joins():
    compare(
        lambda x, y: torch.cat([x, y, x], 0).reshape(-1),
        torch.randn(3, 4),
        torch.randn(5, 4),
        dynamic=True,
        more=[[torch.randn(6, 2), torch.randn(2, 2)]],
    )


def test_splits():
    def function(x):
        return (*x.split(2, 1), *x.chunk(2, 0), *x.unbind(2), *x.split([1, 3], 1))

    compare(function, A)


def test_repeats_flips_and_diagonals():
    def function(x):
        return (
            x.repeat(2, 1, 3),
            x.flip(0, 2),
            x.roll(2, 1),
            x.roll((1, -2), (0, 2)),
            x.roll(7),
            x.diagonal(1, 1, 2),
            x.tril(-1),
            x.triu(2),
            x.repeat_interleave(2, dim=1),
        )

    compare(function, A)


def test_padding_and_cropping():
    def function(x):
        pad = torch.nn.functional.pad
        return pad(x, (1, 2)), pad(x, (0, -1, 2, 0), value=-3.5), pad(x, (-1, 1, 1, -2))

    compare(function, A)


def test_empty_and_rank_zero_tensors():
    def function(x, e):
        s = x.sum()
        return s, s.reshape(1, 1), s.expand(2, 3), e + 1, e.reshape(0, 7), e.sum(0), e.t()

    compare(function, A, torch.empty(0, 3))


def test_strided_inputs():
    base = torch.randn(8, 10)
    compare(
        lambda x, y, z: (x + y, x @ y.t(), z.sum(0), z.reshape(-1)),
        base[::2, 1:9:2],
        base.t()[1:9:2, ::2],
        base[:1].expand(4, 10),
    )


def test_results_may_be_views_and_repeated():
    compare(lambda x: (x.t(), x[1:], x, x.t()), torch.randn(3, 4))
