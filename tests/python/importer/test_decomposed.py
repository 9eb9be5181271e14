"""Operators written in terms of others: order statistics, pools, histograms, bags, resampling."""

import math

import pytest
import torch
import torch.nn.functional as F
from harness import CheckFailed, compare, compile_with

NAN, INF = float("nan"), float("inf")
FLOATS = [torch.float32, torch.bfloat16]


# ---- order statistics ------------------------------------------------------------------------


def _order_statistics(x):
    return (
        x.kthvalue(2, 0),
        x.kthvalue(x.shape[1], 1, keepdim=True),
        x.median(0),
        x.median(-1, keepdim=True),
        x.nanmedian(1),
        x.mode(0),
        x.mode(1, keepdim=True),
        x.median(),
        x.nanmedian(),
    )


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.uint8])
def test_order_statistics(dtype, dynamic):
    # No equal elements: their order is left open.
    x = torch.randperm(35).to(dtype)
    compare(_order_statistics, x.view(5, 7), dynamic=dynamic)
    compare(_order_statistics, x.view(7, 5).t(), dynamic=dynamic)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("size", [1, 2, 3, 9, 40])
def test_kth_value_among_equal_ones(size, dynamic):
    def function(x):
        return tuple(x.kthvalue(k, 0) for k in (1, (size + 1) // 2, size))

    compare(function, torch.randint(0, 6, (size, 3)), dynamic=dynamic)
    x = torch.randint(0, 4, (size, 2)) / torch.randint(0, 3, (size, 2))
    compare(function, x, dynamic=dynamic)


def test_order_statistics_of_numbers_that_are_none():
    x = torch.tensor([[1.0, NAN, 3.0, INF, -INF], [NAN] * 5, [2.0, 1.0, NAN, 0.0, NAN]])

    def function(x):
        return (
            x.median(1),
            x.nanmedian(1).values,
            x.median(),
            x.nanmedian(),
            x.kthvalue(4, 1).values,
        )

    compare(function, x)


def test_mode_counts_runs():
    x = torch.tensor([[3, 1, 1, 3, 2], [5, 5, 5, 5, 5], [4, 3, 2, 1, 0], [2, 2, 9, 9, 9]])
    compare(lambda x: (x.mode(1), x.mode(0).values), x)
    compare(lambda x: x.mode(1), torch.tensor([[NAN, NAN, 1.0, 1.0], [NAN] * 4]))


def test_order_statistics_of_a_number_and_of_nothing():
    compare(lambda x: (x.median(0), x.mode(0), x.nanmedian(0)), torch.tensor(3.0))
    compare(lambda x: (x.kthvalue(1, 0), x.median()), torch.tensor(3))
    compare(lambda x: (x.median(), x.nanmedian()), torch.empty(0, 3))
    compare(lambda x: (x.median(1), x.nanmedian(1)), torch.empty(0, 3))


@pytest.mark.parametrize("right", [False, True])
def test_search_through_a_sorter(right):
    sequence = torch.randn(3, 9)
    values = torch.randn(3, 4)

    def function(sequence, sorter, values):
        return (
            torch.searchsorted(sequence, values, right=right, sorter=sorter),
            torch.searchsorted(sequence[0], 0.25, right=right, sorter=sorter[0], out_int32=True),
        )

    compare(function, sequence, sequence.argsort(-1), values)


# ---- elements by parts -----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*FLOATS, torch.float64, torch.float16])
def test_frexp(dtype):
    tiny = torch.finfo(dtype).tiny
    x = torch.tensor(
        [0.0, -0.0, 1.0, -0.75, 3.5, NAN, INF, -INF, tiny, tiny / 4, 1e-3], dtype=dtype
    )
    compare(lambda x: tuple(torch.frexp(x)), x)


def test_angle():
    x = torch.tensor([0.0, -0.0, 1.0, -2.0, NAN, INF, -INF])
    compare(torch.angle, x)
    compare(torch.angle, x.double(), rtol=0, atol=0)
    compare(torch.angle, x.bfloat16())
    compare(torch.angle, torch.tensor([1, 0, -3]))
    compare(torch.angle, torch.tensor([True, False]))
    compare(lambda x: torch.view_as_complex(x).angle(), torch.randn(5, 2))


def test_complex_numbers_from_parts():
    def function(x, y):
        return torch.complex(x, y), torch.polar(x, y)

    compare(function, torch.randn(3, 1), torch.randn(4))
    compare(function, torch.randn(0, 4).double(), torch.randn(4).double())


def test_number_of_a_tensor():
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        compare(lambda x, y: y * x.item(), torch.tensor(2.5), torch.randn(3))
        compare(lambda x, y: y * x.item(), torch.tensor([3]), torch.randn(3))


# ---- reading and writing by index ------------------------------------------------------------


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["mean", "prod", "amax", "amin"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_index_reduce(dtype, reduce, include_self):
    x = torch.randint(-9, 9, (4, 5, 3)).to(dtype)
    source = torch.randint(-9, 9, (4, 7, 3)).to(dtype)

    def function(x, index, source):
        return x.index_reduce(1, index, source, reduce, include_self=include_self)

    compare(function, x, torch.tensor([0, 4, 4, 1, 0, 0, 3]), source)
    compare(function, x.transpose(0, 1).contiguous().transpose(0, 1), torch.arange(7) % 2, source)


def test_index_reduce_out_of_range_is_an_error():
    compiled, _ = compile_with(lambda x, i, y: x.index_reduce(0, i, y, "amax"))
    with torch.no_grad(), pytest.raises(CheckFailed, match="index out of range"):
        compiled(torch.randn(3), torch.tensor([0, 3]), torch.randn(2))


def test_put_and_take():
    x = torch.randn(4, 5).t()
    index = torch.tensor([[0, -1, 7], [3, 3, 19]])
    compare(
        lambda x, i, v: (x.put(i, v), x.put(i, v, accumulate=True), x.take(i), x.take(i[0, 1])),
        x,
        index,
        torch.randn(2, 3),
    )
    compiled, _ = compile_with(lambda x, i: x.take(i))
    with torch.no_grad(), pytest.raises(CheckFailed, match="index out of range"):
        compiled(x, torch.tensor([20]))


MASK = torch.tensor([[True, False, True], [False, True, True]])


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize(
    ("shape", "values"),
    [
        ((2, 3), (4,)),
        ((2, 3), (1,)),
        ((2, 3), ()),
        ((2, 3, 5), (4, 5)),
        ((2, 3, 5), (1, 5)),
        ((2, 3, 5), (4, 1)),
        ((2, 3, 5), (5,)),
    ],
)
def test_writes_by_a_mask(shape, values, accumulate):
    def function(x, mask, values):
        return x.index_put((mask,), values, accumulate)

    compare(function, torch.randn(shape), MASK, torch.randn(values))


@pytest.mark.parametrize("values", [(2, 4, 2), (4, 2), (2, 1, 1), (4, 1), ()])
def test_writes_by_a_mask_of_inner_dimensions(values):
    def function(x, mask, values):
        x = x.clone()
        x[:, mask] = values
        return x

    compare(function, torch.randn(2, 2, 3, 2), MASK, torch.randn(values))


def test_a_mask_that_selects_another_number_is_an_error():
    compiled, _ = compile_with(lambda x, mask, v: x.index_put((mask,), v))
    with torch.no_grad():
        compiled(torch.randn(2, 3), MASK, torch.randn(4))
        for mask in (~MASK, torch.ones_like(MASK), torch.zeros_like(MASK)):
            with pytest.raises(CheckFailed, match="mask selects another number"):
                compiled(torch.randn(2, 3), mask, torch.randn(4))


def test_strided_views():
    def function(x):
        return (
            x.as_strided((3, 2), (2, 1), 1),
            x.as_strided((4, 3), (1, 2)),
            x.as_strided((2, 0), (1, 1)),
            torch.as_strided_copy(x, (), (), 5),
            torch.as_strided_scatter(x, torch.ones(2, 2), (2, 2), (5, 2), 1),
            torch.as_strided_scatter(x, torch.arange(6.0).view(3, 2), (3, 2), (1, 1)),
        )

    compare(function, torch.randn(4, 5))
    compare(function, torch.randn(5, 4).t())
    compare(function, torch.randn(4, 5).t().unsqueeze(1))


def test_strided_views_of_symbolic_sizes():
    def function(x):
        return x.as_strided((x.shape[1], x.shape[0]), (1, x.shape[1]))

    compare(function, torch.randn(4, 5), dynamic=True, more=[[torch.randn(6, 3)]])


@pytest.mark.parametrize("size", [0, 2, 5, 9])
def test_nonzero_static(size):
    x = torch.tensor([[0, 2, 0], [1, 0, 3], [0, 0, 4]])
    compare(lambda x: torch.nonzero_static(x, size=size, fill_value=-7), x)
    compare(lambda x: torch.nonzero_static(x[0, 0], size=size), x)
    compare(lambda x: torch.nonzero_static(x[:0], size=size), x)


# ---- pools -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", FLOATS)
def test_adaptive_pools(dtype, dynamic):
    def function(x):
        return (
            # Eager's sums of bfloat16 are coarser.
            F.adaptive_avg_pool3d(x.float(), (3, 2, 5)),
            F.adaptive_max_pool3d(x, (3, 2, 5), return_indices=True),
            F.adaptive_max_pool2d(x[0], (4, 3), return_indices=True),
            F.adaptive_max_pool2d(x[0], (9, 1)),
            F.adaptive_max_pool1d(x[0, 0], 4, return_indices=True),
        )

    x = torch.randn(2, 3, 6, 7, 8, dtype=dtype)
    compare(function, x, dynamic=dynamic, more=[[torch.randn(3, 2, 5, 9, 11).to(dtype)]] * dynamic)


def test_adaptive_max_pool_of_equal_elements():
    x = torch.tensor([[[1.0, 1.0, NAN, -INF, NAN, 2.0, 2.0], [-INF] * 7]])
    compare(lambda x: F.adaptive_max_pool1d(x, 3, return_indices=True), x)
    y = torch.zeros(1, 5, 5)
    compare(lambda x: F.adaptive_max_pool2d(x, 2, return_indices=True), y)


def test_fractional_max_pools():
    def function(x, samples):
        return F.fractional_max_pool2d(
            x, (2, 3), (4, 3), return_indices=True, _random_samples=samples
        )

    compare(function, torch.randn(2, 3, 7, 9), torch.rand(2, 3, 2))
    compare(function, torch.randn(3, 7, 9), torch.rand(1, 3, 2))

    def cubes(x, samples):
        return F.fractional_max_pool3d(
            x, (2, 3, 1), (4, 3, 1), return_indices=True, _random_samples=samples
        )

    compare(cubes, torch.randn(2, 3, 7, 9, 5), torch.rand(2, 3, 3))


# ---- histograms ------------------------------------------------------------------------------


def _histc(x):
    return torch.histc(x, 7), torch.histc(x, 5, -1, 1), torch.histc(x, 1, 2, 2)


def test_histograms():
    def function(x, weight):
        return (
            *_histc(x),
            torch.histogram(x, 6),
            torch.histogram(x, 4, range=(-1, 0.5), weight=weight, density=True),
            torch.histogram(x, torch.tensor([-1.0, -0.5, 0.25, 1.0]), weight=weight),
        )

    x = torch.randn(5, 9)
    compare(function, x, x.abs())
    compare(_histc, x, dynamic=True, more=[[torch.randn(3, 4)]])
    compare(lambda x: (torch.histc(x, 3), torch.histogram(x, 3)), torch.full((4,), 2.5))
    compare(lambda x: (torch.histc(x, 3), torch.histogram(x, 3)), torch.empty(0))


def test_histogram_of_what_is_not_finite():
    x = torch.tensor([0.5, NAN, 1.0, INF, -INF, 0.25])
    compare(lambda x: torch.histc(x, 4, 0, 1), x)
    compiled, _ = compile_with(lambda x: torch.histc(x, 4))
    with torch.no_grad(), pytest.raises(CheckFailed, match="not finite"):
        compiled(x)


def test_histogram_of_rows():
    def function(x, weight):
        return (
            torch.histogramdd(x, [3, 4]),
            torch.histogramdd(x, [2, 5], range=[-1.0, 1.0, -0.5, 2.0], weight=weight, density=True),
            torch.histogramdd(x, [torch.tensor([-1.0, 0.0, 1.0]), torch.tensor([0.0, 2.0])]),
        )

    compare(function, torch.randn(20, 2), torch.rand(20))


# ---- bags ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bag(mode, dtype):
    weight = torch.randn(7, 5).to(dtype)
    index = torch.tensor([0, 6, 3, 3, 2, 1, 6, 0, 5])
    offsets = torch.tensor([0, 3, 3, 7, 9])

    def function(i, w, o):
        return (
            F.embedding_bag(i, w, o, mode=mode),
            F.embedding_bag(i, w, o, mode=mode, include_last_offset=True),
            F.embedding_bag(i, w, o, mode=mode, padding_idx=3),
            F.embedding_bag(i.view(3, 3), w, mode=mode),
        )

    compare(function, index, weight, offsets)
    compare(function, index.int(), weight, offsets.int())
    compare(lambda i, w, o: F.embedding_bag(i, w, o, mode=mode), index[:0], weight, offsets[:0])


@pytest.mark.parametrize("offsets", [[1, 2], [0, 5], [0, 3, 2], [0, -1]])
def test_offsets_that_are_no_bags(offsets):
    weight, index = torch.randn(7, 5), torch.tensor([0, 6, 3, 3])
    compiled, _ = compile_with(lambda i, w, o: F.embedding_bag(i, w, o, mode="sum"))
    with pytest.raises(CheckFailed, match="offset"):
        compiled(index, weight, torch.tensor(offsets))


def test_weighted_embedding_bag_and_renorm():
    weight, index = torch.randn(7, 5), torch.tensor([0, 6, 3, 3, 2])

    def function(i, w, o, s):
        return F.embedding_bag(i, w, o, mode="sum", per_sample_weights=s)

    compare(function, index, weight, torch.tensor([0, 2]), torch.randn(5))
    compare(lambda i, w: F.embedding(i, w, max_norm=1.0, norm_type=2.0), index, weight)
    compare(lambda i, w: F.embedding(i, w, max_norm=0.5, norm_type=INF), index.view(1, 5), weight)


@pytest.mark.parametrize("initial", [None, 2.0])
@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
def test_segments(reduce, initial):
    def function(x, lengths, offsets):
        return (
            torch.segment_reduce(x, reduce, lengths=lengths, initial=initial),
            torch.segment_reduce(x, reduce, offsets=offsets, initial=initial),
        )

    compare(function, torch.randn(7, 3), torch.tensor([3, 0, 4]), torch.tensor([0, 2, 2, 7]))
    compare(function, torch.randn(7, 3), torch.tensor([7]), torch.tensor([1, 2, 5]))


@pytest.mark.parametrize("lengths", [[3, 3], [8, -1]])
def test_segments_that_do_not_fit_are_an_error(lengths):
    compiled, _ = compile_with(lambda x, n: torch.segment_reduce(x, "sum", lengths=n))
    with torch.no_grad(), pytest.raises(CheckFailed, match="segment_reduce"):
        compiled(torch.randn(7), torch.tensor(lengths))


# ---- distances -------------------------------------------------------------------------------


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.5, math.inf])
def test_distances(p, dynamic):
    def function(x, y):
        return torch.cdist(x, y, p), F.pdist(y, p)

    more = [[torch.randn(2, 3, 4), torch.randn(8, 4)]]
    compare(function, torch.randn(3, 5, 6), torch.randn(7, 6), dynamic=dynamic, more=more * dynamic)


def test_distances_of_many_rows_and_of_none():
    compare(torch.cdist, torch.randn(30, 4), torch.randn(27, 4), atol=1e-4, rtol=1e-4)
    compare(torch.cdist, torch.randn(0, 4), torch.randn(3, 4))
    compare(torch.cdist, torch.randn(2, 0), torch.randn(3, 0))
    compare(F.pdist, torch.randn(1, 4))


@pytest.mark.parametrize("dtype", FLOATS)
def test_bilinear(dtype):
    # Small whole numbers, whose sums are exact: eager rounds narrow floats at each step.
    shapes = ((2, 3, 4), (2, 3, 5), (6, 4, 5), (6,))
    x, y, weight, bias = (torch.randint(-2, 3, shape).to(dtype) for shape in shapes)
    compare(lambda x, y, w, b: F.bilinear(x, y, w, b), x, y, weight, bias)


# ---- resampling ------------------------------------------------------------------------------


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_three_dimensional_grid(mode, padding, align_corners):
    grid = torch.rand(2, 3, 4, 2, 3) * 4 - 2
    grid[0, 0, 0, 0] = torch.tensor([NAN, INF, 0.5])
    compare(
        lambda x, grid: F.grid_sample(x, grid, mode, padding, align_corners),
        torch.randn(2, 3, 4, 5, 6),
        grid,
    )


@pytest.mark.parametrize("size", [(3, 4), (5, 11), (1, 1), (13, 7)])
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_smoothed_resizing(mode, align_corners, size):
    def function(x):
        return F.interpolate(x, size, mode=mode, align_corners=align_corners, antialias=True)

    compare(function, torch.randn(2, 3, 9, 8))


def test_smoothed_resizing_by_a_factor():
    def function(x):
        return F.interpolate(x, scale_factor=(0.37, 1.9), mode="bilinear", antialias=True)

    compare(function, torch.randn(1, 2, 9, 8), dynamic=True, more=[[torch.randn(2, 3, 11, 5)]])


# ---- matrices --------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (2, 6, 3), (1, 1), (0, 2)])
def test_lu_unpack(shape):
    packed, pivots = torch.linalg.lu_factor(torch.randn(shape))

    def function(packed, pivots):
        return (
            torch.lu_unpack(packed, pivots),
            torch.lu_unpack(packed, pivots, unpack_data=False)[0],
        )

    compare(function, packed, pivots)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int32, torch.uint8, torch.bool])
def test_hash(dtype):
    x = torch.randn(3, 4, 2).mul(50).to(dtype)
    # uint64 is not compared by torch.testing: its bits are.
    compare(
        lambda x: (
            torch.hash_tensor(x).view(torch.int64),
            torch.hash_tensor(x, 1).view(torch.int64),
            torch.hash_tensor(x, -1, keepdim=True).view(torch.int64),
        ),
        x,
    )
