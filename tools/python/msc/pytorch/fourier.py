"""Fourier transforms in; out come products with matrices of cosines and sines, of real and imaginary parts."""

import math

import torch

from msc.pytorch.aten import positive, shape_of
from msc.pytorch.complex_parts import Complex, complex_row


def _waves(n):
    """Cosines and sines [n, n] of the angles of a transform, each angle from an exact whole number."""
    turns = torch.arange(n).outer(torch.arange(n)) % n
    angles = turns.double() * (2 * math.pi / n)
    return angles.cos(), angles.sin()


def _transformed(c, x, dims, norm):
    real, imag = (x.real, x.imag) if isinstance(x, Complex) else (c.own(x), None)
    real = c.t(real, "f64" if real.dtype == "f64" else "f32")
    size = 1
    for dim in reversed(dims):
        n = shape_of(real)[dim]
        size *= n
        cosines, sines = _waves(n)
        turned = c.apply_along(real, dim, -sines)
        real = c.apply_along(real, dim, cosines)
        if imag is not None:
            real = c.g.add(real, c.apply_along(imag, dim, sines))
            turned = c.g.add(turned, c.apply_along(imag, dim, cosines))
        imag = turned
    scale = {None: 1, "backward": 1, "ortho": 1 / math.sqrt(size), "forward": 1 / size}[norm]
    return Complex(c.mul(real, scale), c.mul(imag, scale))


def _shape(x):
    return shape_of(x.real if isinstance(x, Complex) else x)


def _of_dims(c, x, sizes, dims, norm):
    shape = _shape(x)
    dims = positive(dims if dims is not None else list(range(len(shape)))[-len(sizes) :] if sizes else None, len(shape))
    if sizes and any(s not in (-1, shape[d]) for s, d in zip(sizes, dims)):
        c.refuse("a transform of another length than the tensor has")
    return _transformed(c, x, dims, norm)


@complex_row("fft_fft")
def fft(c, x, n=None, dim=-1, norm=None):
    return _of_dims(c, x, None if n is None else [n], [dim], norm)


@complex_row("fft_fft2")
def fft2(c, x, s=None, dim=(-2, -1), norm=None):
    return _of_dims(c, x, s, list(dim), norm)


@complex_row("fft_fftn")
def fftn(c, x, s=None, dim=None, norm=None):
    return _of_dims(c, x, s, dim, norm)
