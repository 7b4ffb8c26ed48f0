"""Calls on complex tensors in; out come calls on their real and imaginary parts: no tensor of a graph is complex.

ROWS has the calls that this can say, by name, as the table in aten.py has those on real tensors.  An operand may be a
Complex, a complex torch.Tensor, which is known, or real."""

import torch

from msc.pytorch import aten
from msc.pytorch.aten import is_known, shape_of

ROWS = {}


class Complex:
    """A complex tensor while a program is translated: its parts, tensors of the graph."""

    def __init__(self, real, imag):
        self.real, self.imag, self.graph = real, imag, real.graph


def complex_row(*names):
    """Registers a function for overloads; a name without a dot is its overload "default"."""

    def register(function):
        for name in names:
            ROWS[name if "." in name else name + ".default"] = function
        return function

    return register


def dtype_of_parts(dtype, nodes):
    """msc's name of the type of a result, or, if it is complex (None), of its parts."""
    if dtype:
        return dtype
    vals = [v.meta["val"] for v in nodes if isinstance(v.meta["val"], torch.Tensor)]
    return "f64" if any(v.dtype == torch.complex128 for v in vals) else "f32"


def parts_of(c, x):
    """Real and imaginary part; of a real operand None."""
    if isinstance(x, Complex):
        return x.real, x.imag
    if isinstance(x, torch.Tensor) and x.is_complex():
        return c.t(x.real, c.dtype), c.t(x.imag, c.dtype)
    if isinstance(x, complex):
        return c.t(x.real, c.dtype), c.t(x.imag, c.dtype)
    return c.t(x, c.dtype), None


# ---- from real to complex, and back ----


def _half(c, x, i):
    last = len(x.shape) - 1
    return c.reshape(c.cut(x, last, i, i + 1), x.shape[:-1])


@complex_row("view_as_complex")
def view_as_complex(c, x):
    x = c.t(x)
    return Complex(_half(c, x, 0), _half(c, x, 1))


@complex_row("complex")
def of_parts(c, real, imag):
    return Complex(c.stretch(c.t(real), c.shape), c.stretch(c.t(imag), c.shape))


@complex_row("polar")
def polar(c, length, angle):
    length, angle = c.t(length), c.t(angle)
    return Complex(c.g.mul(length, c.g.cos(angle)), c.g.mul(length, c.g.sin(angle)))


@complex_row("view_as_real")
def view_as_real(c, x):
    parts = [c.reshape(part, (*shape_of(part), 1)) for part in parts_of(c, x)]
    return c.join(parts, len(parts[0].shape) - 1)


@complex_row("real")
def real(c, x):
    return parts_of(c, x)[0]


@complex_row("imag")
def imag(c, x):
    return parts_of(c, x)[1]


# ---- arithmetic ----


@complex_row("mul.Tensor", "mul.Scalar")
def mul(c, x, y):
    (a, b), (p, q) = parts_of(c, x), parts_of(c, y)
    if b is None or q is None:
        other, (re, im) = (a, (p, q)) if b is None else (p, (a, b))
        return Complex(c.g.mul(re, other), c.g.mul(im, other))
    return Complex(c.g.sub(c.g.mul(a, p), c.g.mul(b, q)), c.g.add(c.g.mul(a, q), c.g.mul(b, p)))


def _sum(combine, turn):
    def row(c, x, y, alpha=1):
        if alpha != 1:
            c.refuse("complex elements with alpha")
        (a, b), (p, q) = parts_of(c, x), parts_of(c, y)
        zero = c.t(0.0, c.dtype)
        re, im = combine(c)(a, p), combine(c)(zero if b is None else b, zero if q is None else q)
        return Complex(re, c.stretch(im, re.shape))

    return complex_row(*turn)(row)


_sum(lambda c: c.g.add, ("add.Tensor",))
_sum(lambda c: c.g.sub, ("sub.Tensor",))


@complex_row("neg")
def neg(c, x):
    a, b = parts_of(c, x)
    return Complex(c.g.neg(a), c.g.neg(b))


@complex_row("_conj", "conj_physical")
def conj(c, x):
    a, b = parts_of(c, x)
    return Complex(a, c.g.neg(b))


# ---- what moves elements moves both parts ----


def _of_both(name):
    def row(c, x, *args, **words):
        return Complex(*(aten.ROWS[name](c, part, *args, **words) for part in parts_of(c, x)))

    return row


for _name in ("view", "_unsafe_view", "reshape", "unsqueeze", "squeeze.dim", "squeeze.dims", "expand", "permute",
              "transpose.int", "slice.Tensor", "select.int", "clone", "alias", "detach"):  # fmt: skip
    complex_row(_name)(_of_both(_name if "." in _name else _name + ".default"))


@complex_row("resolve_conj", "resolve_neg", "lift_fresh_copy")
def same(c, x):
    return x if is_known(x) else Complex(*parts_of(c, x))
