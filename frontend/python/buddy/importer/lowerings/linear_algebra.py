"""Factorizations and solving by MKL's LAPACK, in the run-time library.

Signs and pivots are LAPACK's, eager's, which is the same one.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .. import scalars, types
from ..builder import Builder
from ..errors import Unsupported
from ..registry import lowers, node_arg
from ..symbols import Dim
from ..values import Tensor
from .common import check_all
from .library import library_call, like_result

aten = torch.ops.aten

_I32 = torch.int32
# What eager says when `info` of a function is not 0, by a part of the function's name.
_FAILURES = {
    "inv": "the inversion could not be completed because the input matrix is singular",
    "solve": "the solver failed because the input matrix is singular",
    "cholesky": "the factorization could not be completed because the input is not "
    "positive-definite",
    "svd": "the algorithm failed to converge because the input matrix contained non-finite values "
    "or is ill-conditioned or has too many repeated singular values",
    "eig": "the algorithm failed to converge because the input matrix is ill-conditioned or has "
    "too many repeated eigenvalues",
    "syevd": "the algorithm failed to converge because the input matrix is ill-conditioned or has "
    "too many repeated eigenvalues",
    "lu_factor": "a diagonal element of U is zero and using it on lu_solve would result in a "
    "division by zero",
    "ldl": "the factorization could not be completed because the input is singular",
}


def check_info(b: Builder, info: Tensor, name: str) -> None:
    """Make the call fail unless a function's `info` is 0 for each matrix."""
    reason = next((text for part, text in _FAILURES.items() if part in name), "it failed")
    check_all(
        b,
        [info],
        lambda value: scalars.compare("eq", value, scalars.constant(0, info.dtype), info.dtype),
        f"{name}: {reason}",
    )


@lowers(aten._linalg_check_errors.default)
def _linalg_check_errors(b: Builder, info: Tensor, api_name: str, is_matrix: bool) -> None:
    check_info(b, info, api_name)


def _batch(x: Tensor) -> tuple[Dim, ...]:
    return x.shape[:-2]


# ---- Cholesky --------------------------------------------------------------------------------


def _cholesky_ex(b: Builder, a: Tensor, upper: bool) -> list[Tensor]:
    return library_call(b, "linalg_cholesky", [a, upper], [(a.dtype, a.shape), (_I32, _batch(a))])


@lowers(aten.linalg_cholesky_ex.default)
def _linalg_cholesky_ex(
    b: Builder, a: Tensor, upper: bool = False, check_errors: bool = False
) -> list[Tensor]:
    factor, info = _cholesky_ex(b, a, upper)
    if check_errors:
        check_info(b, info, "linalg.cholesky_ex")
    return [factor, info]


@lowers(aten.cholesky.default)
def _cholesky(b: Builder, a: Tensor, upper: bool = False) -> Tensor:
    factor, info = _cholesky_ex(b, a, upper)
    check_info(b, info, "cholesky")
    return factor


@lowers(aten.cholesky_solve.default)
def _cholesky_solve(b: Builder, right: Tensor, factor: Tensor, upper: bool = False) -> Tensor:
    return library_call(b, "linalg_cholesky_solve", [right, factor, upper], [like_result(b)])[0]


@lowers(aten.cholesky_inverse.default)
def _cholesky_inverse(b: Builder, factor: Tensor, upper: bool = False) -> Tensor:
    inverse, info = library_call(
        b, "linalg_cholesky_inverse", [factor, upper], [like_result(b), (_I32, _batch(factor))]
    )
    check_info(b, info, "cholesky_inverse")
    return inverse


# ---- LU --------------------------------------------------------------------------------------


def _factor_lu(b: Builder, a: Tensor, transposed: bool = False) -> list[Tensor]:
    """Return packed triangles, pivots and info of square matrices or of their transposes."""
    return library_call(
        b,
        "linalg_lu_factor",
        [a, transposed],
        [(a.dtype, a.shape), (_I32, a.shape[:-1]), (_I32, _batch(a))],
    )


def _takes_transpose(b: Builder) -> bool:
    """Tell whether eager's determinants factorize the transpose of the node's first argument.

    They do where that saves a copy; the formulas of gradients, which get the factors, rely on it.
    """
    meta = node_arg(b.node, 0).meta["val"]
    return meta.is_contiguous() and not meta.is_complex()


def _pivoting(pivot: bool) -> None:
    if not pivot:
        raise Unsupported("LU without pivoting, which eager has not on the CPU either")


@lowers(aten.linalg_lu_factor_ex.default)
def _linalg_lu_factor_ex(
    b: Builder, a: Tensor, pivot: bool = True, check_errors: bool = False
) -> list[Tensor]:
    _pivoting(pivot)
    results = library_call(b, "linalg_lu_factor", [a, False], [like_result(b, i) for i in range(3)])
    if check_errors:
        check_info(b, results[2], "linalg.lu_factor_ex")
    return results


@lowers(aten.linalg_lu.default)
def _linalg_lu(b: Builder, a: Tensor, pivot: bool = True) -> list[Tensor]:
    _pivoting(pivot)
    return library_call(b, "linalg_lu", [a], [like_result(b, i) for i in range(3)])


@lowers(aten.linalg_lu_solve.default)
def _linalg_lu_solve(
    b: Builder,
    factors: Tensor,
    pivots: Tensor,
    right: Tensor,
    left: bool = True,
    adjoint: bool = False,
) -> Tensor:
    return _solve_lu(b, factors, pivots, right, left, adjoint, b.result_shape())


def _solve_lu(
    b: Builder,
    factors: Tensor,
    pivots: Tensor,
    right: Tensor,
    left: bool,
    adjoint: bool,
    shape: Sequence[Dim],
) -> Tensor:
    return library_call(
        b,
        "linalg_lu_solve",
        [factors, pivots, right, left, adjoint],
        [(right.dtype, shape)],
    )[0]


@lowers(aten.linalg_inv_ex.default)
def _linalg_inv_ex(b: Builder, a: Tensor, check_errors: bool = False) -> list[Tensor]:
    inverse, info = library_call(b, "linalg_inverse", [a], [(a.dtype, a.shape), (_I32, _batch(a))])
    if check_errors:
        check_info(b, info, "linalg.inv_ex")
    return [inverse, info]


@lowers(aten._linalg_solve_ex.default)
def _linalg_solve_ex(
    b: Builder, a: Tensor, right: Tensor, left: bool = True, check_errors: bool = False
) -> list[Tensor]:
    factors, pivots, info = _factor_lu(b, a)
    if check_errors:
        check_info(b, info, "torch.linalg.solve_ex")
    vector = right.rank == 1 or (right.rank == a.rank - 1 and right.shape == a.shape[:-1])
    shape = b.result_shape(0)
    if vector:
        right, shape = right.unsqueeze(right.rank), (*shape, 1)
    result = _solve_lu(b, factors, pivots, right, left, False, shape)
    if vector:
        from ..shapes import squeeze

        result = squeeze(b, result, [result.rank - 1])
    return [result, factors, pivots, info]


@lowers(aten._linalg_det.default)
def _linalg_det(b: Builder, a: Tensor) -> list[Tensor]:
    factors, pivots, _ = _factor_lu(b, a, _takes_transpose(b))
    (det,) = library_call(b, "linalg_det", [factors, pivots], [like_result(b, 0)])
    return [det, factors, pivots]


@lowers(aten._linalg_slogdet.default)
def _linalg_slogdet(b: Builder, a: Tensor) -> list[Tensor]:
    factors, pivots, _ = _factor_lu(b, a, _takes_transpose(b))
    results = [like_result(b, 0), like_result(b, 1)]
    return [*library_call(b, "linalg_slogdet", [factors, pivots], results), factors, pivots]


# ---- triangles, LDL --------------------------------------------------------------------------


@lowers(aten.linalg_solve_triangular.default)
def _linalg_solve_triangular(
    b: Builder,
    a: Tensor,
    right: Tensor,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
) -> Tensor:
    arguments = [a, right, upper, left, 0, unitriangular]
    return library_call(b, "linalg_solve_triangular", arguments, [like_result(b)])[0]


@lowers(aten.triangular_solve.default)
def _triangular_solve(
    b: Builder,
    right: Tensor,
    a: Tensor,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> list[Tensor]:
    arguments = [a, right, upper, True, int(transpose), unitriangular]
    (solution,) = library_call(b, "linalg_solve_triangular", arguments, [like_result(b, 0)])
    # The second result is the matrix itself, repeated where the other one has a longer batch.
    coefficients = b.pointwise([a], b.result_shape(1), a.dtype, lambda x: x)
    return [solution, coefficients]


@lowers(aten.linalg_ldl_factor_ex.default)
def _linalg_ldl_factor_ex(
    b: Builder, a: Tensor, hermitian: bool = False, check_errors: bool = False
) -> list[Tensor]:
    results = library_call(
        b, "linalg_ldl_factor", [a, hermitian], [like_result(b, i) for i in range(3)]
    )
    if check_errors:
        check_info(b, results[2], "torch.linalg.ldl_factor_ex")
    return results


@lowers(aten.linalg_ldl_solve.default)
def _linalg_ldl_solve(
    b: Builder, factors: Tensor, pivots: Tensor, right: Tensor, hermitian: bool = False
) -> Tensor:
    return library_call(
        b, "linalg_ldl_solve", [factors, pivots, right, hermitian], [like_result(b)]
    )[0]


@lowers(aten.linalg_matrix_exp.default)
def _linalg_matrix_exp(b: Builder, a: Tensor) -> Tensor:
    dtype = types.opmath(a.dtype)
    (result,) = library_call(b, "linalg_matrix_exp", [b.cast(a, dtype)], [(dtype, a.shape)])
    return b.cast(result, a.dtype)
