"""Shapes, names and cores on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import pytest
from buddy.bench import defaults, shapes


def test_shapes() -> None:
    assert shapes.gemm("33x577x1000") == (0, 33, 577, 1000)
    assert shapes.gemm("12X128x64x1") == (12, 128, 64, 1)
    assert shapes.gemv("1536x576") == (1536, 576)
    assert shapes.rows("1x2") == (1, 2)
    assert shapes.attention("9/3x64x1x1024") == (9, 3, 64, 1, 1024)
    assert shapes.conv("2x64x56:32x3") == (2, 64, 56, 32, 3, 1, 1)
    assert shapes.conv("1X32x9:64x5/2g32") == (1, 32, 9, 64, 5, 2, 32)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (shapes.gemm, "3x4"), (shapes.gemm, "3x4x5x6x7"), (shapes.gemm, "3x0x5"),
        (shapes.gemm, "ax4x5"), (shapes.gemm, "3x-4x5"), (shapes.gemm, ""), (shapes.gemm, "3x4x5x"),
        (shapes.gemv, "3"), (shapes.rows, "3x4x5"), (shapes.attention, "9x64x1x1024"),
        (shapes.attention, "9/2x64x1x1024"), (shapes.attention, "9/3x64x5x4"),
        (shapes.attention, "9/3x64"), (shapes.attention, "/3x64x1x2"),
        (shapes.attention, "3/0x64x1x2"), (shapes.conv, "1x64x56"), (shapes.conv, "1x64x56:64x3/0"),
        (shapes.conv, "1x6x9:4x3g4"), (shapes.conv, "1x6x9:4x3g3"), (shapes.conv, "0x6x9:6x3"),
    ],
)  # fmt: skip
def test_what_is_no_shape_is_named(kind: Callable[[str], object], text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=f"'{text}' is no shape; expected"):
        kind(text)


def test_every_default_is_a_shape() -> None:
    for kind, texts in (
        (shapes.gemm, defaults.GEMM),
        (shapes.gemv, defaults.GEMV),
        (shapes.attention, defaults.ATTENTION),
        (shapes.conv, defaults.CONV),
        (shapes.rows, defaults.ROWS),
    ):
        assert len({kind(text) for text in texts}) == len(texts) > 0


def test_every_default_operation_is_known() -> None:
    from buddy.bench.operations import ELEMENTWISE

    assert set(defaults.ELEMENTWISE) == set(ELEMENTWISE)


def test_lists() -> None:
    parse = shapes.names("nn", "nt")
    assert parse("nt,nn,nt") == ["nt", "nn"]
    for text in ("", "nn,xx", ","):
        with pytest.raises(argparse.ArgumentTypeError, match="any of nn, nt"):
            parse(text)
    assert shapes.cpus("3,0-1,1") == [0, 1, 3]
    for text in ("", "a", "2-1", "1-", "1,,2"):
        with pytest.raises(argparse.ArgumentTypeError, match="names no cores"):
            shapes.cpus(text)


def test_numbers_of_layers_and_positions() -> None:
    assert shapes.layers("2,32") == (2, 32)
    for text in ("", "2", "2,2", "3,2", "0,2", "2,3,4", "a,b", "-1,2"):
        with pytest.raises(argparse.ArgumentTypeError, match="is not FEW,MANY"):
            shapes.layers(text)
    assert shapes.context("4") == 4
    with pytest.raises(argparse.ArgumentTypeError, match="3 is not at least 4"):
        shapes.context("3")
