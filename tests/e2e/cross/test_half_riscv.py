"""Conversions of f16 and bf16 by the run-time functions are correctly rounded."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import cross
import numpy as np
import pytest


def numbers() -> np.ndarray:
    """All f16 values and many bf16, what lies half-way between neighbours and beside that."""
    halves = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float64)
    with np.errstate(invalid="ignore"):  # of signaling NaNs
        brains = (np.arange(0, 65536, 7, dtype=np.uint32) << 16).view(np.float32).astype(np.float64)
    found = [halves]
    for values in (halves, brains):
        ordered = np.unique(values[np.isfinite(values)])
        middle = (ordered[1:] + ordered[:-1]) / 2
        found += [values, middle, np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf)]
        found += [np.nextafter(middle.astype(np.float32), np.float32(np.inf)).astype(np.float64)]
    extremes = [65504, 65519.999, 65520, 3.3895e38, 3.39e38, 3.403e38, 1e300, 5e-324, 1e-45, 2e-8]
    found.append(np.array([*extremes, *(-x for x in extremes), np.inf, -np.inf, np.nan, -0.0]))
    return np.concatenate(found)


def bf16_bits(x: float) -> int:
    """The nearest bf16, by exact arithmetic on candidates."""
    with np.errstate(over="ignore", invalid="ignore"):
        low = int(np.array(abs(x), np.float32).view(np.uint32)) >> 16

    def value(bits: int) -> Fraction:
        if bits >= 0x7F80:  # one step beyond the largest finite number
            return Fraction(2) ** 128
        return Fraction(float(np.array(bits << 16, np.uint32).view(np.float32)))

    candidates = [bits for bits in (low - 1, low, low + 1) if 0 <= bits <= 0x7F80]
    exact = Fraction(abs(x))
    best = min(candidates, key=lambda bits: (abs(value(bits) - exact), bits & 1))
    return best | (0x8000 if np.signbit(x) else 0)


@pytest.mark.parametrize("machine", [cross.RISCV], indirect=True)
def test_conversions_round_to_nearest_even(machine: cross.Machine, tmp_path: Path) -> None:
    runtime = tmp_path / "half.o"
    source = cross.ROOT / "backend" / "lib" / "Runtime" / "half.c"
    machine.compile_program([source], runtime, "-xc", "-c", language="c17")
    program = machine.compile_program(
        [Path(__file__).with_name("half.cpp"), runtime], tmp_path / "half"
    )
    x = numbers()
    done = machine.emulate(machine.cpus[0], program, stdin=x.tobytes())
    assert done.returncode == 0, done.stderr
    bits = np.frombuffer(done.stdout, np.uint32).reshape(len(x), 5)
    with np.errstate(over="ignore", invalid="ignore"):
        singles = x.astype(np.float32)
        nan = np.isnan(x)
        h64, h32 = (values.astype(np.float16).view(np.uint16) for values in (x, singles))
    for column, expected in ((0, h64), (1, h32)):
        np.testing.assert_array_equal(bits[~nan, column], expected[~nan])
        assert np.all(np.isnan(bits[nan, column].astype(np.uint16).view(np.float16)))
    extended = bits[:, 4].copy().view(np.float32)
    np.testing.assert_array_equal(extended, h64.view(np.float16).astype(np.float32))
    sample = np.flatnonzero(np.isfinite(x))[:: max(1, len(x) // 20000)]
    sample = np.union1d(sample, np.flatnonzero(np.isfinite(x))[-24:])
    for i in sample:
        assert bits[i, 2] == bf16_bits(float(x[i])), x[i]
        if np.isfinite(singles[i]):
            assert bits[i, 3] == bf16_bits(float(singles[i])), singles[i]
    for column in (2, 3):
        brains = (bits[:, column].astype(np.uint32) << 16).view(np.float32)
        assert np.all(np.isnan(brains[nan]))
        np.testing.assert_array_equal(brains[np.isinf(x)], x[np.isinf(x)])
