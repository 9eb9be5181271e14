"""Factorizations and solving, by the run-time library."""

import pytest
import torch
from harness import CheckFailed, compare, compile_with

DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]


def matrices(*shape, dtype=torch.float64):
    """Matrices far from singular ones."""
    x = torch.randn(shape, dtype=dtype)
    return x + 3 * torch.eye(shape[-2], shape[-1], dtype=dtype)


def definite(*shape, dtype=torch.float64):
    x = torch.randn(shape, dtype=dtype)
    return x @ x.mH + torch.eye(shape[-1], dtype=dtype)


def size(x):
    """The absolute value, also of a complex number."""
    return torch.view_as_real(x).square().sum(-1).sqrt() if x.is_complex() else x.abs()


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_triangular_factorizations_and_solving(dtype):
    def function(a, s, b):
        lower = torch.linalg.cholesky(s)
        factors, pivots, info = torch.linalg.lu_factor_ex(a)
        packed, blocks, _ = torch.linalg.ldl_factor_ex(s)
        hermitian = torch.linalg.ldl_factor_ex(s, hermitian=True)
        return (
            lower,
            torch.linalg.cholesky_ex(s, upper=True),
            torch.cholesky_solve(b, lower),
            torch.cholesky_inverse(lower),
            (factors, pivots, info),
            torch.linalg.lu(a),
            torch.linalg.lu_solve(factors, pivots, b),
            torch.linalg.lu_solve(factors, pivots, b, adjoint=True),
            torch.linalg.lu_solve(factors, pivots, b.mT, left=False),
            torch.linalg.inv(a),
            torch.linalg.solve(a, b),
            torch.linalg.solve(a, b.mT, left=False),
            torch.linalg.det(a),
            torch.linalg.slogdet(a),
            torch.linalg.solve_triangular(a, b, upper=True),
            torch.linalg.solve_triangular(a, b.mT, upper=False, left=False, unitriangular=True),
            torch.triangular_solve(b, a, transpose=True),
            (packed, blocks),
            torch.linalg.ldl_solve(packed, blocks, b),
            hermitian.LD,
            torch.linalg.ldl_solve(hermitian.LD, hermitian.pivots, b, hermitian=True),
            torch.linalg.matrix_exp(a),
        )

    tolerance = 1e-3 if dtype in (torch.float32, torch.complex64) else 1e-9
    for batch, n, k in (((), 5, 3), ((2, 3), 4, 1), ((2,), 1, 2), ((0,), 3, 2), ((2,), 0, 3)):
        arguments = [f(*batch, n, n, dtype=dtype) for f in (matrices, definite)]
        right = torch.randn(*batch, n, k, dtype=dtype)
        compare(function, *arguments, right, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_does_not_depend_on_signs_of_vectors(dtype):
    def rebuilt(a):
        q, r = torch.linalg.qr(a)
        u, s, v = torch.linalg.svd(a, full_matrices=False)
        whole, _, adjoint = torch.linalg.svd(a)
        return (
            q @ r,
            size(r),
            size(torch.linalg.qr(a, mode="r").R),
            torch.linalg.qr(a, mode="complete").Q.shape,
            torch.linalg.svdvals(a),
            s,
            (u * s.unsqueeze(-2).to(u.dtype)) @ v,
            whole @ whole.mH,
            adjoint @ adjoint.mH,
            torch.linalg.pinv(a),
            torch.linalg.matrix_norm(a, "nuc"),
        )

    tolerance = 1e-4 if dtype in (torch.float32, torch.complex64) else 1e-10
    for shape in ((5, 3), (3, 5), (2, 4, 4), (2, 1, 1), (0, 3, 2)):
        a = matrices(*shape, dtype=dtype)
        compare(rebuilt, a, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
def test_signs_and_phases_are_eagers(dtype):
    """Which no definition fixes; the library is the same and called in the same way."""

    def function(a, square):
        symmetric = square + square.mH
        return (
            *torch.linalg.svd(a, full_matrices=False),
            *torch.linalg.qr(a),
            *torch.linalg.eigh(symmetric),
            *torch.linalg.eig(square),
            *torch.linalg.lu(a),
        )

    tolerance = 1e-4 if dtype in (torch.float32, torch.complex64) else 1e-10
    for rows, columns in ((5, 3), (2, 7), (6, 6), (1, 4)):
        a = torch.randn(2, rows, columns, dtype=dtype)
        square = torch.randn(2, rows, rows, dtype=dtype)
        compare(function, a, square, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
def test_reflectors(dtype):
    def function(a, c):
        packed, tau = torch.geqrf(a)
        return (
            size(torch.linalg.householder_product(packed, tau)),
            size(torch.ormqr(packed, tau, c)),
            size(torch.ormqr(packed, tau, c, transpose=True)),
            size(torch.ormqr(packed, tau, c.mT, left=False)),
        )

    tolerance = 1e-4 if dtype in (torch.float32, torch.complex64) else 1e-10
    a, c = matrices(2, 5, 3, dtype=dtype), torch.randn(2, 5, 4, dtype=dtype)
    compare(function, a, c, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
def test_eigenvalues(dtype):
    def hermitian(s):
        w, v = torch.linalg.eigh(s)
        return w, (v * w.unsqueeze(-2).to(v.dtype)) @ v.mH, torch.linalg.eigvalsh(s, UPLO="U")

    def general(a):
        w, v = torch.linalg.eig(a)
        residual = a.to(v.dtype) @ v - v * w.unsqueeze(-2)
        return torch.linalg.eigvals(a), size(residual)

    tolerance = 1e-4 if dtype in (torch.float32, torch.complex64) else 1e-10
    for shape in ((4, 4), (2, 3, 3), (2, 1, 1), (0, 3, 3)):
        compare(hermitian, definite(*shape, dtype=dtype), rtol=tolerance, atol=tolerance)
        compare(general, matrices(*shape, dtype=dtype), rtol=tolerance, atol=tolerance)


def test_other_memory_and_shorter_batches():
    def function(a, b):
        return torch.linalg.solve(a, b), torch.linalg.inv(a[:, ::2, ::2]), torch.linalg.det(a.mT)

    a = matrices(3, 10, 5).mT[:, :, ::2]
    compare(function, a, torch.randn(5, 2, dtype=torch.float64).t().contiguous().t())
    compare(
        lambda a, b: torch.linalg.solve(a, b), matrices(2, 1, 4, 4), torch.randn(3, 4, 2).double()
    )
    compare(lambda a, b: torch.linalg.solve(a, b), matrices(4, 4), torch.randn(4).double())


def test_symbolic_sizes_need_one_compilation():
    def function(a, b):
        return torch.linalg.solve(a, b), torch.linalg.det(a), torch.linalg.svdvals(b)

    sizes = ((4, 3), (7, 2), (2, 5))
    arguments = [(matrices(n, n), torch.randn(n, k).double()) for n, k in sizes]
    backend = compare(function, *arguments[0], dynamic=True, more=arguments[1:])
    assert len(backend.modules) == 1


@pytest.mark.parametrize(
    ("function", "argument", "message"),
    [
        (torch.linalg.inv, torch.zeros(3, 3), "linalg.inv: .*singular"),
        (torch.linalg.cholesky, -torch.eye(3), "linalg.cholesky: .*positive-definite"),
        (torch.linalg.svdvals, torch.full((3, 3), float("nan")), "linalg.svd: .*converge"),
        (lambda a: torch.linalg.solve(a, a), torch.zeros(2, 3, 3), "linalg.solve: .*singular"),
        (lambda a: torch.linalg.inv_ex(a, check_errors=True)[0], torch.zeros(2, 2), "singular"),
    ],
)
def test_what_eager_refuses_is_an_error(function, argument, message):
    with pytest.raises(RuntimeError):
        function(argument)
    compiled, _ = compile_with(function)
    with pytest.raises(CheckFailed, match=message):
        compiled(argument)
    good = torch.eye(3).expand(argument.shape[:-2] + (3, 3)).contiguous()
    if argument.shape == good.shape:
        torch.testing.assert_close(compiled(good), function(good))


def test_gradients_use_the_factors_that_the_forward_graph_saved():
    from buddy.backend import buddy_backend

    def function(a, b):
        return torch.linalg.solve(a, b).sum() + torch.linalg.det(a) + torch.logdet(a @ a.mT)

    torch._dynamo.reset()
    compiled = torch.compile(function, backend=buddy_backend, options={"fallback": "error"})
    for view in (lambda x: x, lambda x: x.mT):
        leaves = [[matrices(4, 4), torch.randn(4, 2).double()] for _ in range(2)]
        leaves[1] = [x.clone() for x in leaves[0]]
        for arguments, call in zip(leaves, (function, compiled), strict=True):
            for x in arguments:
                x.requires_grad_(True)
            call(view(arguments[0]), arguments[1]).backward()
        for expected, actual in zip(*leaves, strict=True):
            torch.testing.assert_close(actual.grad, expected.grad)
