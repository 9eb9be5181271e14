"""Discrete Fourier transforms, by the run-time library."""

import pytest
import torch
from harness import compare, compile_with

# Powers, products of small primes, primes below and above the limit of the mixed radix, 1.
LENGTHS = (1, 2, 3, 4, 5, 6, 7, 8, 12, 15, 16, 29, 30, 31, 37, 49, 64, 74, 97, 100, 210, 263, 1024)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


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
    tolerance = 1e-4 if dtype is torch.float32 else 1e-10  # of sums of up to a thousand
    backend = compare(function, *arguments(2), dynamic=True, more=more, atol=tolerance, rtol=1e-5)
    compare(function, *arguments(1))
    assert len(backend.modules) <= 2  # one, but for what Dynamo makes of 1 + n // 2 == 2


def test_errors_are_those_of_f64():
    """A transform of f32 is as good as its rounding, also for a length that is a large prime."""
    for length in (1009, 4096):
        x = torch.randn(2, length)
        wide = torch.fft.fft(x.double())
        compiled, _ = compile_with(torch.fft.fft)
        error = (compiled(x).to(torch.complex128) - wide).abs().max() / wide.abs().max()
        assert error < 1e-7
        compiled, _ = compile_with(torch.fft.fft)
        error = (compiled(x.double()) - wide).abs().max() / wide.abs().max()
        assert error < 1e-14


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_several_dimensions_and_norms(norm):
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

    compare(function, torch.randn(3, 5, 8).double(), torch.randn(3, 5, 8).double() + 1j)
    compare(function, torch.randn(1, 5, 4).double(), torch.randn(1, 5, 4).double() + 1j)


def test_other_memory():
    def function(x, z):
        return (
            torch.fft.rfft(x, dim=0),
            torch.fft.fft(z),
            torch.fft.fft(z.mT),
            torch.fft.ifft(z, dim=0),
        )

    x, z = torch.randn(6, 10)[:, ::2], torch.randn(4, 6, 5).mT.to(torch.complex64)
    compare(function, x.t(), z)


def test_a_line_with_a_number_that_is_not_finite_spoils_no_other_one():
    x = torch.randn(4, 16)
    x[1, 3] = float("nan")
    compare(lambda x: torch.fft.rfft(x)[::2], x)


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
