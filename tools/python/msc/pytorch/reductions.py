"""ATen calls that reduce, order or accumulate along dimensions."""

import math

import torch

from msc.pytorch.aten import FLOATS, positive, row, shape_of
from msc.pytorch.elementwise import truth


def _dims(x, dims):
    return positive(dims, len(shape_of(x)))


def _reduction(op, *names):
    def reduce(c, x, dims=None, keepdim=False, **_):
        x = c.t(x)
        return getattr(c.g, op)(x, _dims(x, dims), keep_dims=keepdim) if shape_of(x) else x

    row(*names)(reduce)


_reduction("reduce_sum", "sum.dim_IntList", "sum")
_reduction("reduce_mean", "mean.dim", "mean")
_reduction("reduce_prod", "prod.dim_int", "prod")


def _extreme(op, *names):
    def reduce(c, x, dims=None, keepdim=False):
        x = c.own(x)
        if not shape_of(x):
            return x
        if x.dtype == "i1":
            return getattr(c.g, {"reduce_max": "reduce_any", "reduce_min": "reduce_all"}[op])(
                x, _dims(x, dims), keep_dims=keepdim
            )
        return getattr(c.g, op)(x, _dims(x, dims), keep_dims=keepdim)

    row(*names)(reduce)


_extreme("reduce_max", "amax", "max")
_extreme("reduce_min", "amin", "min")


@row("aminmax")
def aminmax(c, x, dim=None, keepdim=False):
    x = c.own(x)
    return [op(x, _dims(x, dim), keep_dims=keepdim) if shape_of(x) else x for op in (c.g.reduce_min, c.g.reduce_max)]


def _logical(op, *names):
    def reduce(c, x, dims=None, keepdim=False):
        x = truth(c, x)
        y = getattr(c.g, op)(x, _dims(x, dims), keep_dims=keepdim) if shape_of(x) else x
        return c.t(y)

    row(*names)(reduce)


_logical("reduce_any", "any", "any.dim", "any.dims")
_logical("reduce_all", "all", "all.dim", "all.dims")


def _place(op, *names):
    def place(c, x, dim=None, keepdim=False):
        x = c.own(x)
        if not shape_of(x):
            return c.t(0)
        if dim is None:
            y = getattr(c.g, op)(c.reshape(x, (math.prod(x.shape),)), axis=0, dtype=c.dtype)
            return c.reshape(y, c.shape)
        return getattr(c.g, op)(x, axis=dim % len(x.shape), keep_dims=keepdim, dtype=c.dtype)

    row(*names)(place)


_place("argmax", "argmax")
_place("argmin", "argmin")


def _with_place(op, *names):
    """A row for max or min along a dimension, with the place: the value is read at the place, so that its gradient
    goes there alone."""

    def both(c, x, dim, keepdim=False):
        x = c.own(x)
        if not shape_of(x):
            return [x, lambda: c.t(0, "i64")]
        dim %= len(x.shape)
        x = c.t(x, "i32") if x.dtype == "i1" else x
        index = getattr(c.g, op)(x, axis=dim, keep_dims=True, dtype="i64")
        value = c.t(c.g.take_along(x, index, axis=dim))
        return [c.reshape(value, c.shape), lambda: c.reshape(index, c.shape)]

    row(*names)(both)


_with_place("argmax", "max.dim")
_with_place("argmin", "min.dim")


def moments(c, x, dims, correction, keep=True):
    """Mean and variance over dims, both with sizes 1 there."""
    n = math.prod(x.shape[d] for d in dims)
    mean = c.g.reduce_mean(x, dims, keep_dims=True)
    off = c.g.sub(x, mean)
    total = c.g.reduce_sum(c.g.mul(off, off), dims, keep_dims=True)
    return mean, c.g.div(total, c.t(float(max(n - correction, 0)), x.dtype))


def _variance(c, x, dims, correction, keepdim):
    x = c.own(x)
    if not shape_of(x):
        return x, c.t(math.nan if correction else 0.0)
    mean, variance = moments(c, x, _dims(x, dims), 1 if correction is None else correction)
    if not keepdim:
        mean, variance = c.reshape(mean, c.shape), c.reshape(variance, c.shape)
    return mean, variance


def _overloads(name):
    """The forms of var, std, var_mean, std_mean: (x, unbiased), (x, dim, unbiased), (x, dim, correction=)."""

    def spread(c, x, dim=None, unbiased=True, keepdim=False, correction=None):
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        if not c.name.endswith(".correction"):
            correction = 1 if unbiased else 0
        mean, variance = _variance(c, x, dim, correction, keepdim)
        variance = c.g.sqrt(variance) if name.startswith("std") else variance
        return [variance, mean] if name.endswith("_mean") else variance

    row(name, f"{name}.dim", f"{name}.correction")(spread)


for _name in ("var", "std", "var_mean", "std_mean"):
    _overloads(_name)


@row("linalg_vector_norm")
def vector_norm(c, x, ord=2, dim=None, keepdim=False, dtype=None):
    x = c.t(x)
    if ord != 2 or not shape_of(x):
        c.decompose()
    return root(c, c.g.reduce_sum(c.g.mul(x, x), _dims(x, dim), keep_dims=keepdim))


def root(c, x):
    """The square root of a sum of squares; where that is 0 its gradient is 0, as PyTorch's norms have it."""
    above = c.compare(x, 0, "ne")
    return c.where(above, c.g.sqrt(c.where(above, x, 1.0, x.dtype)), 0.0, x.dtype)


def _distances(c, off, p):
    """Norms of differences along their last dimension."""
    last = [len(off.shape) - 1]
    if p == 2:
        return root(c, c.g.reduce_sum(c.g.mul(off, off), last))
    if p == 0:
        return c.g.reduce_sum(c.t(c.compare(off, 0, "ne"), off.dtype), last)
    size = c.g.abs(off)
    if p == 1 or p == math.inf:
        return (c.g.reduce_sum if p == 1 else c.g.reduce_max)(size, last)
    moved = c.compare(size, 0, "ne")
    powers = c.where(moved, c.g.pow(c.where(moved, size, 1.0, off.dtype), c.t(float(p), off.dtype)), 0.0, off.dtype)
    total = c.g.reduce_sum(powers, last)
    above = c.compare(total, 0, "ne")
    rooted = c.g.pow(c.where(above, total, 1.0, off.dtype), c.t(1 / p, off.dtype))
    return c.where(above, rooted, 0.0, off.dtype)


@row("_cdist_forward")
def cdist(c, a, b, p, _=None):
    a, b = c.own(a), c.own(b)
    return _distances(
        c,
        c.g.sub(c.reshape(a, a.shape[:-1] + (1,) + a.shape[-1:]), c.reshape(b, b.shape[:-2] + (1,) + b.shape[-2:])),
        p,
    )


@row("_pdist_forward")
def pdist(c, x, p=2.0):
    first, second = torch.triu_indices(shape_of(x)[0], shape_of(x)[0], 1)
    return _distances(c, c.g.sub(c.pick(x, 0, first), c.pick(x, 0, second)), p)


def _along(op, *names):
    def along(c, x, dim, dtype=None):
        x = c.t(x)
        return getattr(c.g, op)(x, axis=dim % len(x.shape)) if shape_of(x) else x

    row(*names)(along)


def _running(predicate, name):
    """A row for the largest or smallest element so far and its place, the last of equal ones; no number wins.  Spans
    that end at each element are joined with those before them, and are twice as long after each step."""

    def running(c, x, dim):
        x = c.own(x)
        if not shape_of(x):
            return [x, lambda: c.t(0, "i64")]
        dim %= len(x.shape)
        n, step, value, place = x.shape[dim], 1, x, c.positions(x.shape, dim)
        while step < n:
            spans = (0, step), (0, n - step), (step, n)
            first, before, own = (c.cut(value, dim, *span) for span in spans)
            first_place, before_place, own_place = (c.cut(place, dim, *span) for span in spans)
            wins = c.compare(own, before, predicate)
            if x.dtype in FLOATS:
                wins = c.g.logical_or(wins, c.compare(own, own, "ne"))
            value = c.join([first, c.where(wins, own, before, x.dtype)], dim)
            place = c.join([first_place, c.where(wins, own_place, before_place, "i64")], dim)
            step *= 2
        return [value, place]

    row(name)(running)


_running("ge", "cummax")
_running("le", "cummin")
_along("cumsum", "cumsum")
_along("cumprod", "cumprod")
_along("logcumsumexp", "logcumsumexp")


@row("softmax.int", "_softmax", "_safe_softmax")
def softmax(c, x, dim, *_, **__):
    x = c.t(x)
    return c.g.softmax(x, axis=dim % len(x.shape)) if shape_of(x) else c.t(1.0)


@row("log_softmax.int", "_log_softmax")
def log_softmax(c, x, dim, *_, **__):
    x = c.t(x)
    return c.g.log_softmax(x, axis=dim % len(x.shape)) if shape_of(x) else c.t(0.0)


@row("sort", "sort.stable")
def sort(c, x, *args, **words):
    if c.name.endswith("stable"):
        dim, descending = words.get("dim", (args + (None, -1))[1] if len(args) > 1 else -1), words.get(
            "descending", False
        )
        descending = args[2] if len(args) > 2 else descending
    else:
        dim = args[0] if args else words.get("dim", -1)
        descending = args[1] if len(args) > 1 else words.get("descending", False)
    x = c.own(x)
    if not shape_of(x):
        return [x, lambda: c.t(0, "i64")]
    if x.dtype == "i1":
        values, places = c.g.sort(c.g.cast(x, "i32"), axis=dim % len(x.shape), descending=descending, dtype="i64")
        return [c.g.cast(values, "i1"), places]
    return c.g.sort(x, axis=dim % len(x.shape), descending=descending, dtype="i64")


@row("argsort", "argsort.stable")
def argsort(c, x, *args, **words):
    c.decompose()


@row("topk")
def topk(c, x, k, dim=-1, largest=True, sorted=True):
    x = c.own(x)
    if not shape_of(x):
        return [x, lambda: c.t(0, "i64")]
    return c.g.topk(x, k, axis=dim % len(x.shape), largest=largest, dtype="i64")


@row("histc")
def histc(c, x, bins=100, min=0, max=0):
    if min == max:
        c.refuse("bins between the smallest and the largest element")
    n = math.prod(shape_of(x))
    x = c.reshape(c.t(x, "f32"), (n,))
    place = c.g.floor(c.mul(c.add(x, -float(min)), bins / (max - min)))
    place = c.where(c.compare(x, max, "eq"), float(bins - 1), place, "f32")  # the last bin has its end
    place = c.where(
        c.g.logical_or(c.compare(place, 0, "lt"), c.compare(place, bins, "ge")), float(bins), place, "f32"
    )
    return c.t(c.g.reduce_sum(c.g.one_hot(c.g.cast(place, "i32"), bins), [0]))


def _of_rank(c, x, rank, dim):
    """The values at this rank along a dimension, counted from the smallest, and where they are."""
    values, places = c.g.sort(x, axis=dim, dtype="i64")
    return [c.reshape(c.cut(v, dim, rank, rank + 1), c.shape) for v in (values, places)]


@row("median.dim")
def median_dim(c, x, dim, keepdim=False):
    x = c.own(x)
    if not x.shape:
        return [x, lambda: c.t(0, "i64")]
    return _of_rank(c, x, (x.shape[dim] - 1) // 2, dim % len(x.shape))


@row("median")
def median(c, x):
    n = math.prod(shape_of(x))
    return _of_rank(c, c.reshape(x, (n,)), (n - 1) // 2, 0)[0]


@row("kthvalue")
def kthvalue(c, x, k, dim=-1, keepdim=False):
    x = c.own(x)
    if not x.shape:
        return [x, lambda: c.t(0, "i64")]
    return _of_rank(c, x, k - 1, dim % len(x.shape))
