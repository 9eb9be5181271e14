"""QR, singular values and eigenvalues by MKL's LAPACK, in the run-time library.

Vectors are unique up to signs or phases only, and are LAPACK's: eager's, which is the same one.
"""

from __future__ import annotations

import torch

from ..builder import Builder
from ..registry import lowers
from ..values import Tensor
from .library import library_call, like_result
from .linear_algebra import check_info

aten = torch.ops.aten

_I32 = torch.int32


@lowers(aten.geqrf.default)
def _geqrf(b: Builder, a: Tensor) -> list[Tensor]:
    return library_call(b, "linalg_geqrf", [a], [like_result(b, 0), like_result(b, 1)])


@lowers(aten.linalg_qr.default)
def _linalg_qr(b: Builder, a: Tensor, mode: str = "reduced") -> list[Tensor]:
    return library_call(b, "linalg_qr", [a], [like_result(b, 0), like_result(b, 1)])


@lowers(aten.linalg_householder_product.default)
def _linalg_householder_product(b: Builder, packed: Tensor, tau: Tensor) -> Tensor:
    return library_call(b, "linalg_householder_product", [packed, tau], [like_result(b)])[0]


@lowers(aten.ormqr.default)
def _ormqr(
    b: Builder,
    packed: Tensor,
    tau: Tensor,
    other: Tensor,
    left: bool = True,
    transpose: bool = False,
) -> Tensor:
    arguments = [packed, tau, other, left, transpose]
    return library_call(b, "linalg_ormqr", arguments, [like_result(b)])[0]


@lowers(aten._linalg_svd.default)
def _linalg_svd(
    b: Builder,
    a: Tensor,
    full_matrices: bool = False,
    compute_uv: bool = True,
    driver: str | None = None,
) -> list[Tensor]:
    results = [*(like_result(b, i) for i in range(3)), (_I32, a.shape[:-2])]
    *usv, info = library_call(b, "linalg_svd", [a, compute_uv], results)
    check_info(b, info, "linalg.svd")
    return usv


@lowers(aten._linalg_eigh.default)
def _linalg_eigh(b: Builder, a: Tensor, uplo: str = "L", compute_v: bool = True) -> list[Tensor]:
    results = [like_result(b, 0), like_result(b, 1), (_I32, a.shape[:-2])]
    arguments = [a, uplo.upper() == "U", compute_v]
    *pair, info = library_call(b, "linalg_eigh", arguments, results)
    check_info(b, info, "linalg.eigh")
    return pair


@lowers(aten.linalg_eig.default)
def _linalg_eig(b: Builder, a: Tensor) -> list[Tensor]:
    results = [like_result(b, 0), like_result(b, 1), (_I32, a.shape[:-2])]
    *pair, info = library_call(b, "linalg_eig", [a, True], results)
    check_info(b, info, "linalg.eig")
    return pair


@lowers(aten.linalg_eigvals.default, aten._linalg_eigvals.default)
def _linalg_eigvals(b: Builder, a: Tensor) -> Tensor:
    dtype = b.result_dtype()
    results = [like_result(b), (dtype, (0, 0)), (_I32, a.shape[:-2])]
    values, _, info = library_call(b, "linalg_eig", [a, False], results)
    check_info(b, info, "linalg.eigvals")
    return values
