"""Elements at computed places and in another order, against PyTorch.

Sizes are such that there are whole vectors, narrower ones and single elements; what is adjacent,
what is not, and what lies outside are among the places.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from harness import CheckFailed, compare, compile_with

DTYPES = [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.int8, torch.bool]


def values(shape, dtype):
    if dtype.is_floating_point:
        return torch.randn(shape).to(dtype)
    return torch.randint(0, 2 if dtype is torch.bool else 100, shape).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_and_elements_by_number(dtype):
    def function(x, rows, columns):
        return (
            x[rows],
            x.index_select(1, columns),
            x.gather(1, columns.expand(x.shape[0], -1)),
            x.t()[rows],
            x[rows[:, None], columns],
        )

    x = values((37, 45), dtype)
    compare(function, x, torch.randint(0, 37, (5,)), torch.randint(0, 45, (71,)), rtol=0, atol=0)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_another_order(dtype, dynamic):
    def function(x, y):
        return (
            x.transpose(1, 2).contiguous(),
            x.permute(2, 0, 1).clone(memory_format=torch.contiguous_format),
            torch.stack([x, x.flip(2)], 0).permute(3, 1, 0, 2).contiguous(),
            x.roll(5, 2),
            x.roll((-3, 50), (1, 2)),
            x.flip(1, 2),
            y.t().contiguous(),
            torch.cat([y.t(), y.t()], 1),
        )

    x, y = values((3, 19, 53), dtype), values((67, 33), dtype).t()
    more = [[values((2, 40, 17), dtype), values((16, 70), dtype).t()]]
    compare(function, x, y, dynamic=dynamic, more=more * dynamic, rtol=0, atol=0)


def test_elementwise_on_another_order():
    def function(x, y, z):
        return x.t() + y, (x.t() * y + z.t()).exp(), x.t() > y, torch.where(x.t() > y, z.t(), y)

    compare(function, torch.randn(35, 50), torch.randn(50, 35), torch.randn(35, 50))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_padding_by_own_elements(dtype, dynamic):
    def function(x):
        return (
            F.pad(x, (4, 9), mode="reflect"),
            F.pad(x, (1, 2, 3, 0), mode="reflect"),
            F.pad(x, (17, 5, 2, 1), mode="replicate"),
            F.pad(x, (-2, 3, 1, -1), mode="replicate"),
            F.pad(x[None], (1, 1, 2, 2, 1, 2), mode="reflect"),
        )

    x = torch.randn(3, 7, 43, dtype=dtype)
    more = [[torch.randn(3, 5, 16, dtype=dtype)]]
    compare(function, x, dynamic=dynamic, more=more * dynamic, rtol=0, atol=0)


@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_2d(mode, padding_mode):
    def function(x, grid):
        return tuple(
            F.grid_sample(x, grid, mode=mode, padding_mode=padding_mode, align_corners=align)
            for align in (False, True)
        )

    grid = torch.rand(2, 9, 21, 2) * 2.6 - 1.3
    x = torch.randn(2, 3, 11, 13)
    if padding_mode == "zeros" and mode != "bicubic":
        grid[0, 0, 0] = 3.0
        x[0, 0, 0, 0] = float("nan")
    compare(function, x, grid)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sums_of_windows(dtype):
    def function(x, y):
        return (
            F.fold(x, (12, 17), (3, 2), dilation=(1, 2), padding=(1, 0), stride=(1, 2)),
            F.fold(y, (20, 21), 3),
            F.fold(x[0], (12, 17), (3, 2), dilation=(1, 2), padding=(1, 0), stride=(1, 2)),
        )

    x = torch.randn(2, 4 * 6, 12 * 8, dtype=dtype)
    compare(function, x, torch.randn(1, 5 * 9, 18 * 19, dtype=dtype))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags(mode):
    def function(index, weight):
        return F.embedding_bag(index, weight, mode=mode, padding_idx=3)

    compare(function, torch.randint(0, 20, (7, 5)), torch.randn(20, 37))


def test_updates_of_rows_and_reshaped_results():
    def function(x, rows, y):
        return (
            x.index_add(0, rows, y, alpha=2),
            x.index_put((rows,), y),
            x.index_put((rows,), y, accumulate=True),
            torch.select_scatter(x, y[0], 0, 2),
            torch.slice_scatter(x, y, 0, 1, 5),
            (x + 1).reshape(-1),
            x.repeat(2, 3),
            (x * 2).reshape(6, -1, 1),
            x,
        )

    compare(function, torch.randn(9, 38), torch.tensor([1, 7, 1, 0]), torch.randn(4, 38))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.complex64])
def test_an_update_is_not_repeated_by_what_repeats_its_result(dtype):
    def function(x, rows):
        updated = x.index_add(1, rows, x)
        return updated.repeat_interleave(3, 1), updated.expand(-1, 4) * 2

    def once(x, rows):
        return x.index_add(1, rows, x).expand(-1, 3) + 1

    x = (torch.randn(16, 1) * 5).to(dtype)
    compare(function, x, torch.tensor([0]), rtol=0, atol=0)
    compare(once, x, torch.tensor([0]), rtol=0, atol=0)


@pytest.mark.parametrize("stride", [1, 2])
def test_windows_of_chosen_rows_between_other_dimensions(stride):
    def function(x):
        return x.index_select(2, torch.tensor([12, 15, 6, 0])).unfold(2, 2, stride)

    compare(function, torch.randn(8, 2, 17, 1).expand(-1, -1, -1, 33), rtol=0, atol=0)
    compare(function, torch.randn(3, 2, 17, 33), rtol=0, atol=0)


def test_bits_in_memory():
    def function(x, y):
        mask = x > y
        rows, columns = mask.all(0), mask.any(1)
        return mask, rows, columns, mask.t().contiguous(), mask[:, torch.arange(60) % 7], ~rows

    compare(function, torch.randn(5, 70), torch.randn(5, 70), rtol=0, atol=0)


def test_numbers_outside():
    def function(x, rows):
        return x[rows]

    compiled, _ = compile_with(function)
    x = torch.randn(9, 20)
    torch.testing.assert_close(compiled(x, torch.tensor([8, -9])), x[[8, 0]])
    for wrong in (9, -10):
        with pytest.raises(CheckFailed, match="out of range"):
            compiled(x, torch.tensor([0, wrong]))
