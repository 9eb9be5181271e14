"""A bundle's library needs the C library, little of libm, and the OpenMP runtime it carries."""

from __future__ import annotations

from bundles import Built
from symbols import unexpected


def test_the_library_of_a_bundle_needs_little(tiny: Built) -> None:
    assert unexpected(tiny.bundle / "libmodel.so", "omp") == set()
    assert (tiny.bundle / "libomp.so.5").exists()
