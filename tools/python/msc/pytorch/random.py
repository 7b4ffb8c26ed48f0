"""ATen calls that draw random numbers.  msc draws other numbers than PyTorch, by the same distributions."""

import math

from msc.pytorch.aten import is_known, row


@row("dropout", "native_dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout", random=True)
def dropout(c, x, p=0.5, train=True):
    if c.name.partition(".")[0] not in ("dropout", "native_dropout"):
        if p and train:
            c.decompose()
        return c.own(x)
    y = c.g.dropout(c.t(x), rate=float(p)) if p and train is not False else c.t(x)
    return [y, lambda: c.refuse("its mask")] if c.name.startswith("native") else y


def _keep(c, p, shape):
    """i1: true with the probability p."""
    return c.compare(c.g.dropout(c.stretch(c.t(1.0, "f32"), shape), rate=1 - p), 0, "gt")


@row("bernoulli.p", random=True)
def bernoulli_p(c, x, p, **_):
    y = c.t(c.stretch(c.t(1), c.shape) if p == 1 else c.stretch(c.t(0), c.shape) if p == 0 else _keep(c, p, c.shape))
    c.converter.chances[y.number] = p
    return y


def _uniform(c, shape, dtype="f32"):
    """Numbers from 0 to 1, without 1."""
    return c.t(c.g.uniform(c.stretch(c.t(0.0, "f32"), shape)), dtype)


@row("bernoulli", "bernoulli.Tensor", random=True)
def bernoulli(c, x, *p, **_):
    p = p[0] if p else x
    if is_known(p) and c.number(p) is not None:
        return c.t(_keep(c, c.number(p), c.shape)) if 0 < c.number(p) < 1 else c.stretch(c.t(c.number(p)), c.shape)
    return c.t(c.g.compare(_uniform(c, c.shape), c.t(p, "f32"), "lt"))


@row("rand", "rand_like", random=True)
def rand(c, *_, **__):
    return _uniform(c, c.shape, c.dtype)


@row("uniform", random=True)
def uniform(c, x, low=0.0, high=1.0, **_):
    return c.add(c.mul(_uniform(c, c.shape, c.dtype), high - low), low)


def _normal(c):
    """Box and Muller: the radius of one uniform number, the angle of another."""
    radius = c.g.sqrt(c.mul(c.g.log(c.g.sub(c.t(1.0, "f32"), _uniform(c, c.shape))), -2.0))
    return c.t(c.g.mul(radius, c.g.cos(c.mul(_uniform(c, c.shape), math.tau))))


@row("randn", "randn_like", random=True)
def randn(c, *_, **__):
    return _normal(c)


@row("normal_functional", random=True)
def normal(c, x, mean=0.0, std=1.0, **_):
    return c.add(c.mul(_normal(c), std), mean)


def _whole(c, low, high):
    x = c.g.floor(c.mul(_uniform(c, c.shape, "f64" if high - low > 1 << 20 else "f32"), float(high - low)))
    return c.add(c.t(c.g.min(x, c.t(float(high - low - 1), x.dtype))), low)


@row("randint", "randint_like", random=True)
def randint(c, *args, **__):
    return _whole(c, 0, args[0] if c.name == "randint.default" else args[1])


@row("randint.low", "randint_like.low_dtype", random=True)
def randint_low(c, *args, **__):
    low, high = args[:2] if c.name.startswith("randint.") else args[1:3]
    return _whole(c, low, high)


@row("randperm", random=True)
def randperm(c, n, **_):
    return c.t(c.g.sort(_uniform(c, (n,)), axis=0, dtype="i64")[1])


def _log_of_uniform(c):
    """The logarithm of numbers from 0 to 1, without 0."""
    return c.g.log1p(c.g.neg(_uniform(c, c.shape)))


@row("exponential", random=True)
def exponential(c, x, lambd=1.0, **_):
    return c.t(c.mul(_log_of_uniform(c), -1.0 / lambd))


@row("geometric", random=True)
def geometric(c, x, p, **_):
    return c.t(c.g.max(c.g.ceil(c.mul(_log_of_uniform(c), 1.0 / math.log1p(-p))), c.t(1.0, "f32")))


@row("cauchy", random=True)
def cauchy(c, x, median=0.0, sigma=1.0, **_):
    return c.t(c.add(c.mul(c.g.tan(c.mul(c.add(_uniform(c, c.shape), -0.5), math.pi)), sigma), median))


@row("log_normal", random=True)
def log_normal(c, x, mean=1.0, std=2.0, **_):
    return c.g.exp(c.add(c.mul(_normal(c), std), mean))


@row(
    "multinomial",
    "poisson",
    "binomial",
    "_sample_dirichlet",
    "_standard_gamma",
    random=True,
)
def other(c, *_, **__):
    c.refuse("msc draws no numbers of this distribution")
