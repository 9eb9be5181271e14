"""Discrete Fourier transforms: MKL called as eager calls it, so that no bit differs."""

import pytest
import torch
from harness import CheckFailed, compare, compile_with, have_buddy_tools

pytestmark = pytest.mark.skipif(not have_buddy_tools(), reason="calls libbuddy_linalg")

# Powers, products of small primes, small and large primes, 1.
LENGTHS = (1, 2, 3, 4, 5, 6, 7, 8, 12, 15, 16, 29, 30, 31, 37, 49, 64, 74, 97, 100, 210, 263, 1024)
EXACTLY = {"rtol": 0, "atol": 0}


@pytest.fixture(autouse=True)
def seed():
    """On one thread: eager's own results depend on their number."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_length_forth_and_back(dtype):
    """One symbolic compilation: the length is the library's business."""

    def function(x, z):
        half = torch.fft.rfft(x)
        return (
            half,
            torch.fft.irfft(half, n=x.shape[-1]),
            torch.fft.fft(z),
            torch.fft.ifft(z),
            torch.fft.fft(x),
            torch.fft.hfft(z, n=x.shape[-1]),
        )

    def arguments(length):
        return [torch.randn(3, length, dtype=dtype), torch.randn(3, length, dtype=dtype) + 0j]

    more = [arguments(length) for length in LENGTHS[2:]]
    backend = compare(function, *arguments(2), dynamic=True, more=more, **EXACTLY)
    compare(function, *arguments(1), **EXACTLY)
    assert len(backend.modules) <= 2  # one, but for what Dynamo makes of 1 + n // 2 == 2


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.uint8])
def test_whole_numbers(dtype):
    def function(x):
        return torch.fft.fft(x), torch.fft.rfft2(x), torch.fft.ifftn(x), torch.fft.hfft(x, n=9)

    compare(function, torch.randint(0, 5, (3, 4, 7)).to(dtype), **EXACTLY)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_several_dimensions_and_norms(norm, dtype):
    def function(x, z):
        return (
            torch.fft.fft2(x, norm=norm),
            torch.fft.ifft2(z, norm=norm),
            torch.fft.rfftn(x, norm=norm),
            torch.fft.rfftn(x, dim=(2, 0), norm=norm),
            torch.fft.fftn(z, dim=(1, 0), norm=norm),
            torch.fft.irfftn(z, norm=norm),
            torch.fft.irfft2(z, s=(4, 7), dim=(0, 1), norm=norm),
            torch.fft.hfftn(z, norm=norm),
            torch.fft.ihfft2(x, norm=norm),
            torch.fft.fft(z, n=9, dim=1, norm=norm),
        )

    for shape in ((3, 5, 8), (1, 5, 4)):
        x, z = torch.randn(shape, dtype=dtype), torch.randn(shape, dtype=dtype) + 1j
        compare(function, x, z, **EXACTLY)


def test_both_halves_of_several_dimensions():
    """What `onesided=False` fills in is mirrored along all of them."""

    def function(x):
        return torch.ops.aten._fft_r2c(x, [0, 2, 3], 1, False)

    for shape in ((3, 4, 5, 6), (2, 1, 3, 5)):
        compare(function, torch.randn(shape), **EXACTLY)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_other_memory(dtype):
    """Strides of arguments and of what is between two transforms order the sums."""

    def function(x, z):
        return (
            torch.fft.rfft(x, dim=0),
            torch.fft.rfftn(x, dim=(2, 0)),
            torch.fft.fftn(x, dim=(0, 1)),
            torch.fft.fft(z),
            torch.fft.fft2(z.mT),
            torch.fft.ifftn(z.permute(2, 0, 1), dim=(1, 2)),
            torch.fft.hfftn(z, dim=(0, 2)),
            torch.fft.ihfftn(x, dim=(1, 0)),
            torch.fft.irfftn(torch.fft.fftn(z, dim=(1, 0)), dim=(0, 1, 2)),
        )

    def views(x):
        yield x.permute(2, 0, 1)
        yield x.permute(1, 2, 0).contiguous().permute(2, 1, 0)
        yield x[:, ::2, 1:]
        yield x[:1].expand(3, 6, 5)

    x = torch.randn(4, 6, 5, dtype=dtype)
    for real, number in zip(views(x), views(x + 1j * torch.randn_like(x)), strict=True):
        compare(function, real, number, **EXACTLY)


def test_a_line_with_a_number_that_is_not_finite_spoils_no_other_one():
    x = torch.randn(4, 16)
    x[1, 3] = float("nan")
    compare(lambda x: torch.fft.rfft(x)[::2], x, **EXACTLY)


def test_no_lines_are_no_error():
    compiled, _ = compile_with(lambda x, z: (torch.fft.rfft(x), torch.fft.fftn(z, dim=(0, 2))))
    half, all_of_it = compiled(torch.randn(0, 6), torch.randn(3, 0, 4) + 0j)
    assert half.shape == (0, 4)
    assert all_of_it.shape == (3, 0, 4)


def test_what_the_library_refuses_is_an_error_of_the_call():
    z = torch.randn(3, 4) + 0j
    compiled, _ = compile_with(lambda z: torch.ops.aten._fft_c2r(z, [1], 0, 9))
    with pytest.raises(CheckFailed, match=r"fourier\.c2r: no memory .* or sizes .* refuses"):
        compiled(z)


def test_short_time_transforms():
    def forth(x, window):
        return torch.stft(x, 16, 5, window=window, return_complex=True)

    def back(z, window):
        return torch.istft(z, 16, 5, window=window)

    window = torch.hann_window(16)
    x = torch.randn(2, 83)
    compare(forth, x, window)
    compare(back, torch.stft(x, 16, 5, window=window, return_complex=True), window)


def test_conjugates():
    compare(lambda z: (z.conj() * z, z.conj().resolve_conj(), z.mH.clone()), torch.randn(3, 4) + 1j)
