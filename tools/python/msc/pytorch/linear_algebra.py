"""Factorizations of small matrices in calls that msc has: each row or column is a step of its own, so programs grow
with the size of the matrices; larger ones are refused."""

import torch

from msc.pytorch.decompositions import decomposition

LARGEST = 64  # rows that are written out


def _check(a):
    if a.is_complex():
        raise NotImplementedError("complex matrices")
    if a.shape[-1] > LARGEST:
        raise NotImplementedError(f"matrices of more than {LARGEST} rows, not {a.shape[-1]}")


def _no_faults(a):
    """PyTorch's info: 0 where a factorization succeeded."""
    return torch.zeros(a.shape[:-2], dtype=torch.int32, device=a.device)


def _join(parts, dim):
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim)


# ---- triangular ----


def _lower_solution(l, b, unit):
    """x of l x = b, by halves: those below take what those above have found."""
    n = l.shape[-1]
    if n == 1:
        return b if unit else b / l
    half = n // 2
    above = _lower_solution(l[..., :half, :half], b[..., :half, :], unit)
    rest = b[..., half:, :] - l[..., half:, :half] @ above
    return torch.cat([above, _lower_solution(l[..., half:, half:], rest, unit)], -2)


def solve_triangular(a, b, upper, left=True, unit=False):
    if not left:
        return solve_triangular(a.mT, b.mT, not upper, unit=unit).mT
    shape = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = a.expand(shape + a.shape[-2:]), b.expand(shape + b.shape[-2:])
    if upper:  # from the last row
        return _lower_solution(a.flip(-1, -2), b.flip(-2), unit).flip(-2)
    return _lower_solution(a, b, unit)


@decomposition("linalg_solve_triangular")
def linalg_solve_triangular(a, b, *, upper, left=True, unitriangular=False):
    _check(a)
    return solve_triangular(a, b, upper, left, unitriangular)


@decomposition("triangular_solve")
def triangular_solve(b, a, upper=True, transpose=False, unitriangular=False):
    _check(a)
    turned = a.mT if transpose else a
    return solve_triangular(turned, b, upper != transpose, unit=unitriangular), a.clone()


# ---- positive matrices ----


@decomposition("linalg_cholesky_ex")
def linalg_cholesky_ex(a, *, upper=False, check_errors=False):
    """Column by column; the square root of a pivot that is not positive is no number."""
    _check(a)
    n, rest, columns = a.shape[-1], a.mT if upper else a, []
    for i in range(n):
        column = rest[..., :, :1] / rest[..., :1, :1].sqrt()
        columns.append(torch.nn.functional.pad(column, (0, 0, i, 0)))
        below = column[..., 1:, :]
        rest = rest[..., 1:, 1:] - below @ below.mT if i < n - 1 else None
    l = _join(columns, -1)
    return l.mT if upper else l, _no_faults(a)


@decomposition("cholesky")
def cholesky(a, upper=False):
    return linalg_cholesky_ex(a, upper=upper)[0]


@decomposition("cholesky_solve")
def cholesky_solve(b, l, upper=False):
    _check(l)
    l = l.mT if upper else l
    return solve_triangular(l.mT, solve_triangular(l, b, False), True)


@decomposition("cholesky_inverse")
def cholesky_inverse(l, upper=False):
    return cholesky_solve(torch.eye(l.shape[-1], dtype=l.dtype).expand(l.shape), l, upper)


# ---- general matrices ----


def factors(a):
    """(lower and upper factors in one matrix, pivots counted from 1) by elimination with the largest pivot of each
    column, as LAPACK has them."""
    _check(a)
    n = a.shape[-1]
    if a.shape[-2] != n:
        raise NotImplementedError("factors of matrices that are not square")
    done, rest, pivots = [], a, []
    # `rest` are rows i to n - 1, whole: behind i they are what is left, before it their factors
    for i in range(n):
        size = n - i
        place = rest[..., :, i].detach().abs().argmax(-1, keepdim=True)
        pivots.append((place + i + 1).to(torch.int32))
        rows = torch.arange(size, device=a.device)
        order = torch.where(rows == 0, place, torch.where(rows == place, 0, rows))  # the two exchanged
        rest = rest.gather(-2, order.unsqueeze(-1).expand(rest.shape))
        done.append(rest[..., :1, :])
        if size == 1:
            break
        factor = rest[..., 1:, i : i + 1] / rest[..., :1, i : i + 1]
        left = rest[..., 1:, i + 1 :] - factor @ rest[..., :1, i + 1 :]
        rest = torch.cat(([rest[..., 1:, :i]] if i else []) + [factor, left], -1)
    return torch.cat(done, -2), torch.cat(pivots, -1)


def _exchanged(b, pivots, backwards=False):
    """The rows of b in the order that the exchanges give, or back."""
    n = b.shape[-2]
    rows = torch.arange(n, device=b.device)
    order = rows.expand(pivots.shape[:-1] + (n,))
    for i in range(n):
        place = pivots[..., i : i + 1].to(torch.int64) - 1
        other = order.gather(-1, place)
        order = torch.where(rows == i, other, torch.where(rows == place, order[..., i : i + 1], order))
    if backwards:
        order = order.argsort(-1)
    return b.gather(-2, order.unsqueeze(-1).expand(b.shape))


def solve_by_factors(lu, pivots, b, adjoint=False):
    shape = torch.broadcast_shapes(lu.shape[:-2], b.shape[:-2])
    b, lu = b.expand(shape + b.shape[-2:]), lu.expand(shape + lu.shape[-2:])
    pivots = pivots.expand(shape + pivots.shape[-1:])
    if adjoint:
        y = solve_triangular(lu.mT, b, False)
        return _exchanged(solve_triangular(lu.mT, y, True, unit=True), pivots, backwards=True)
    y = solve_triangular(lu, _exchanged(b, pivots), False, unit=True)
    return solve_triangular(lu, y, True)


@decomposition("linalg_lu_factor_ex")
def linalg_lu_factor_ex(a, *, pivot=True, check_errors=False):
    if not pivot:
        raise NotImplementedError("factors without pivots")
    return (*factors(a), _no_faults(a))


@decomposition("linalg_lu_solve")
def linalg_lu_solve(lu, pivots, b, *, left=True, adjoint=False):
    _check(lu)
    if left:
        return solve_by_factors(lu, pivots, b, adjoint)
    return solve_by_factors(lu, pivots, b.mT, not adjoint).mT


@decomposition("_linalg_solve_ex")
def linalg_solve_ex(a, b, *, left=True, check_errors=False):
    lu, pivots = factors(a if left else a.mT)
    is_vector = b.dim() == 1 or (a.dim() - 1 == b.dim() and b.shape == a.shape[:-1])
    right = b.unsqueeze(-1) if is_vector else b if left else b.mT
    x = solve_by_factors(lu, pivots, right)
    x = x.squeeze(-1) if is_vector else x if left else x.mT
    if not left:  # PyTorch keeps the factors of a itself
        lu, pivots = factors(a)
    return x, lu, pivots, _no_faults(a)


@decomposition("linalg_inv_ex")
def linalg_inv_ex(a, *, check_errors=False):
    lu, pivots = factors(a)
    return solve_by_factors(lu, pivots, torch.eye(a.shape[-1], dtype=a.dtype).expand(a.shape)), _no_faults(a)


def _sign_of_exchanges(pivots):
    moved = pivots != torch.arange(1, pivots.shape[-1] + 1, device=pivots.device)
    return 1 - 2 * moved.sum(-1).remainder(2)


def _factors_for_backward(a):
    """Of the transposed matrix where this one's rows lie in order, as the backwards of determinants expect."""
    return factors(a.mT if a.is_contiguous() else a)


@decomposition("_linalg_det")
def linalg_det(a):
    lu, pivots = _factors_for_backward(a)
    return lu.diagonal(0, -2, -1).prod(-1) * _sign_of_exchanges(pivots), lu, pivots


@decomposition("_linalg_slogdet")
def linalg_slogdet(a):
    lu, pivots = _factors_for_backward(a)
    diagonal = lu.diagonal(0, -2, -1)
    sign = diagonal.detach().sign().prod(-1) * _sign_of_exchanges(pivots)
    return sign, diagonal.abs().log().sum(-1), lu, pivots


@decomposition("lu_unpack")
def lu_unpack(lu, pivots, unpack_data=True, unpack_pivots=True):
    n = lu.shape[-1]
    eye = torch.eye(n, dtype=lu.dtype, device=lu.device)
    p = _exchanged(eye.expand(lu.shape), pivots).mT if unpack_pivots else lu.new_empty((0,))
    if not unpack_data:
        return p, lu.new_empty((0,)), lu.new_empty((0,))
    return p, lu.tril(-1) + eye, lu.triu()


@decomposition("linalg_lu")
def linalg_lu(a, *, pivot=True):
    if not pivot:
        raise NotImplementedError("factors without pivots")
    return lu_unpack(*factors(a))
