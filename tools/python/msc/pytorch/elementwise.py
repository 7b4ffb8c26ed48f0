"""ATen calls that work element by element: arithmetic, comparisons, functions, casts."""

import math

import torch

from msc.pytorch import found_again
from msc.pytorch.aten import FLOATS, TORCH, dtype_of, is_known, row, shape_of


def _unary(name, op, **attrs):
    row(name)(lambda c, x, *_, **__: getattr(c.g, op)(c.t(x), **attrs))


_SAME = """exp expm1 log log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf sigmoid neg
abs silu mish erfc erfinv lgamma digamma i0"""
for _name in _SAME.split():
    _unary(_name, _name)
for _name in ("erfcx", "i0e", "i1", "i1e"):
    _unary("special_" + _name, _name)
_unary("hardsigmoid", "hard_sigmoid")
_unary("hardswish", "hard_swish")


def _on_floats(name, op):
    """A row for an op that leaves whole numbers as they are."""
    row(name)(lambda c, x: getattr(c.g, op)(c.t(x)) if c.dtype in FLOATS else c.t(x))


for _name in ("floor", "ceil", "round"):
    _on_floats(_name, _name)


@row("trunc", "fix")
def trunc(c, x):
    x = c.t(x)
    return x if c.dtype not in FLOATS else c.g.trunc(x)


@row("round.decimals")
def round_decimals(c, x, decimals=0):
    if decimals >= 0:
        return c.mul(c.g.round(c.mul(c.t(x), 10.0**decimals)), 10.0**-decimals)
    return c.mul(c.g.round(c.mul(c.t(x), 1 / 10.0**-decimals)), 10.0**-decimals)


@row("sign", "sgn")
def sign(c, x):
    return c.own(x) if c.dtype == "i1" else c.g.sign(c.t(x))


@row("relu")
def relu(c, x):
    return c.g.relu(c.t(x))


@row("gelu")
def gelu(c, x, approximate="none"):
    return c.g.gelu(c.t(x), "erf" if approximate == "none" else "tanh")


@row("reciprocal")
def reciprocal(c, x):
    return c.g.div(c.t(1.0), c.t(x))


@row("square")
def square(c, x):
    return c.g.mul(c.t(x), c.t(x))


@row("log2")
def log2(c, x):
    return c.g.log2(c.t(x))


@row("log10")
def log10(c, x):
    return c.g.log10(c.t(x))


@row("exp2")
def exp2(c, x):
    return c.g.exp2(c.t(x))


@row("isnan")
def isnan(c, x):
    return c.g.compare(c.own(x), c.own(x), "ne") if dtype_of(x) in FLOATS else c.stretch(c.t(False), c.shape)


@row("isinf")
def isinf(c, x):
    if dtype_of(x) not in FLOATS:
        return c.stretch(c.t(False), c.shape)
    return c.g.compare(c.g.abs(c.own(x)), c.t(math.inf, dtype_of(x)), "eq")


@row("isfinite")
def isfinite(c, x):
    return c.g.is_finite(c.own(x)) if dtype_of(x) in FLOATS else c.stretch(c.t(True), c.shape)


# ---- two operands ----


def _scaled(c, x, alpha):
    return c.t(x) if alpha == 1 else c.t(x * alpha) if is_known(x) else c.mul(c.t(x), alpha)


@row("add.Tensor", "add.Scalar")
def add(c, a, b, alpha=1):
    if c.dtype == "i1":
        return c.g.logical_or(c.t(a), c.t(b))
    if c.number(b) == 0 and not is_known(a) and shape_of(a) == c.shape:
        return c.t(a)
    return c.g.add(c.t(a), _scaled(c, b, alpha))


@row("sub.Tensor", "sub.Scalar")
def sub(c, a, b, alpha=1):
    return c.g.sub(c.t(a), _scaled(c, b, alpha))


@row("rsub.Tensor", "rsub.Scalar")
def rsub(c, a, b, alpha=1):
    return c.g.sub(c.t(b), _scaled(c, a, alpha))


@row("mul.Tensor", "mul.Scalar")
def mul(c, a, b):
    if c.dtype == "i1":
        return c.g.logical_and(c.t(a), c.t(b))
    a, b = c.t(a), c.t(b)
    for find in (found_again.rms_norm, found_again.gelu):
        found = find(c, a, b)
        if found is not None:
            return found
    return c.g.mul(a, b)


@row("prims.fma.default")
def fma(c, a, b, added):
    return c.g.add(c.g.mul(c.t(a), c.t(b)), c.t(added))


@row("div.Tensor", "div.Scalar", "true_divide.Tensor")
def div(c, a, b):
    chance = c.converter.chances.get(getattr(a, "number", None))
    if chance is not None and c.number(b) == chance:
        return c.g.dropout(c.stretch(c.t(1.0), c.shape), rate=1 - chance)  # stochastic depth: evaluation keeps all
    return c.g.div(c.t(a), c.t(b))


@row("div.Tensor_mode", "div.Scalar_mode")
def div_mode(c, a, b, rounding_mode=None):
    if rounding_mode is None:
        return c.g.div(c.t(a), c.t(b))
    if rounding_mode == "floor":
        return floor_divide(c, a, b)
    quotient = c.g.div(c.t(a), c.t(b))
    return quotient if c.dtype not in FLOATS else c.g.trunc(quotient)


@row("floor_divide", "floor_divide.Scalar")
def floor_divide(c, a, b):
    return c.g.floor_div(c.t(a), c.t(b))


@row("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")
def remainder(c, a, b):
    return c.g.mod(c.t(a), c.t(b))


@row("fmod.Tensor", "fmod.Scalar")
def fmod(c, a, b):
    return c.g.fmod(c.t(a), c.t(b))


@row("polygamma")
def polygamma(c, n, x):
    return c.g.polygamma(c.t(x), n=n) if n else c.g.digamma(c.t(x))


def _binary(name):
    row(name)(lambda c, a, b: getattr(c.g, name)(c.t(a), c.t(b)))


for _name in ("atan2", "hypot", "logaddexp"):
    _binary(_name)


@row("pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar")
def power(c, a, b):
    exponent = c.number(b)
    if exponent is not None and not is_known(a) and torch.broadcast_shapes(shape_of(a), shape_of(b)) == shape_of(a):
        x = c.t(a)
        if exponent == 0:
            return c.stretch(c.t(1), c.shape)
        if exponent in (1, 2, 3, 4):
            square_of = c.g.mul(x, x) if exponent > 1 else x
            return {
                1: lambda: x,
                2: lambda: square_of,
                3: lambda: c.g.mul(square_of, x),
                4: lambda: c.g.mul(square_of, square_of),
            }[exponent]()
        if c.dtype in FLOATS:
            if exponent == 0.5:
                return c.g.sqrt(x)
            if exponent == -0.5:
                return c.g.rsqrt(x)
            if exponent == -1:
                return c.g.div(c.t(1.0), x)
            if exponent == int(exponent) and exponent < 0:
                return c.g.div(c.t(1.0), c.g.pow(x, c.t(-exponent)))
    if c.dtype not in FLOATS and not (exponent is not None and 0 <= exponent <= 64):
        c.refuse("a power of whole numbers whose exponent is not known")
    if c.dtype not in FLOATS:
        x, y = c.t(a), c.t(a)
        for _ in range(int(exponent) - 1):
            y = c.g.mul(y, x)
        return y
    return c.g.pow(c.t(a), c.t(b))


@row("maximum", "max.other")
def maximum(c, a, b):
    return c.g.logical_or(c.t(a), c.t(b)) if c.dtype == "i1" else c.g.max(c.t(a), c.t(b))


@row("minimum", "min.other")
def minimum(c, a, b):
    return c.g.logical_and(c.t(a), c.t(b)) if c.dtype == "i1" else c.g.min(c.t(a), c.t(b))


def _comparison(predicate):
    for overload in ("Tensor", "Scalar"):
        row(f"{predicate}.{overload}")(lambda c, a, b: c.compare(a, b, predicate))


for _predicate in ("eq", "ne", "lt", "le", "gt", "ge"):
    _comparison(_predicate)


def truth(c, x):
    """x != 0"""
    return c.t(x, "i1") if dtype_of(x) == "i1" else c.compare(x, 0, "ne")


def _logical(kind):
    row(f"logical_{kind}")(lambda c, a, b: getattr(c.g, "logical_" + kind)(truth(c, a), truth(c, b)))
    names = [f"bitwise_{kind}.{o}" for o in ("Tensor", "Scalar", "Scalar_Tensor")]
    names += [f"__{kind}__.{o}" for o in ("Tensor", "Scalar")]

    row(*names)(lambda c, a, b: getattr(c.g, "bitwise_" + kind)(c.t(a), c.t(b)))


for _kind in ("and", "or", "xor"):
    _logical(_kind)


for _side in ("left", "right"):
    _names = [f"bitwise_{_side}_shift.{o}" for o in ("Tensor", "Tensor_Scalar", "Scalar_Tensor")]
    _names += [f"__{_side[0]}shift__.{o}" for o in ("Tensor", "Scalar")]
    row(*_names)(lambda c, a, b, op="shift_" + _side: getattr(c.g, op)(c.t(a), c.t(b)))


@row("logical_not")
def logical_not(c, x):
    return c.g.logical_not(truth(c, x))


@row("bitwise_not")
def bitwise_not(c, x):
    return c.g.logical_not(c.t(x)) if c.dtype == "i1" else c.g.sub(c.t(-1), c.t(x))


# ---- choices ----


@row("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where(c, condition, a, b):
    condition = truth(c, condition)
    chosen = c.where(condition, a, b)
    return c.stretch(chosen, c.shape)


@row("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(c, x, mask, value):
    return c.where(mask, value, x)


@row("clamp", "hardtanh", "clip")
def clamp(c, x, low=None, high=None):
    if c.name.startswith("hardtanh"):
        low, high = -1 if low is None else low, 1 if high is None else high
    x = c.t(x)
    if low is not None and high is not None and low > high:
        return c.stretch(c.t(high), c.shape)
    if c.dtype in FLOATS and c.has("clamp"):
        return c.g.clamp(x, -math.inf if low is None else float(low), math.inf if high is None else float(high))
    x = x if low is None else c.g.max(x, c.t(low))
    return x if high is None else c.g.min(x, c.t(high))


@row("clamp.Tensor")
def clamp_tensor(c, x, low=None, high=None):
    x = c.t(x)
    x = x if low is None else c.g.max(x, c.t(low))
    return x if high is None else c.g.min(x, c.t(high))


@row("clamp_min")
def clamp_min(c, x, low):
    return clamp(c, x, low, None)


@row("clamp_max")
def clamp_max(c, x, high):
    return clamp(c, x, None, high)


@row("leaky_relu")
def leaky_relu(c, x, negative_slope=0.01):
    return c.g.leaky_relu(c.t(x), slope=float(negative_slope))


@row("elu")
def elu(c, x, alpha=1.0, scale=1.0, input_scale=1.0):
    x = c.t(x)
    if (scale, input_scale) == (1, 1):
        return c.g.elu(x, alpha=float(alpha))
    above = c.compare(x, 0, "gt")
    below = c.mul(c.g.expm1(c.mul(c.where(above, 0.0, x), input_scale)), alpha)
    return c.mul(c.g.select(above, x, below), scale)


@row("softplus")
def softplus(c, x, beta=1, threshold=20):
    x = c.t(x)
    if (beta, threshold) == (1, 20):
        return c.g.softplus(x)
    scaled = c.mul(x, beta)
    soft = c.mul(c.g.softplus(scaled), 1 / beta)
    return c.g.select(c.compare(scaled, threshold, "gt"), x, soft)


@row("prelu", "_prelu_kernel")
def prelu(c, x, slope):
    x, slope = c.t(x), c.t(slope)
    if len(slope.shape) == 1 and len(x.shape) > 1:
        slope = c.reshape(slope, (1, slope.shape[0]) + (1,) * (len(x.shape) - 2))
    return c.g.add(c.g.relu(x), c.g.mul(slope, c.g.min(x, c.t(0.0))))


# ---- the same value ----


@row(
    "_to_copy", "to.dtype", "to.dtype_layout", "to.device", "to.other", "type_as", "prims.convert_element_type.default"
)
def to_copy(c, x, *_, **__):
    return c.t(x)


@row(
    "clone",
    "contiguous",
    "alias",
    "lift_fresh_copy",
    "lift_fresh",
    "positive",
    "view_as_real_copy",
    "expand_as_copy",
    "_assert_tensor_metadata",
    "resolve_conj",
    "resolve_neg",
    "lift",
    "_conj",
    "real",
    "conj",
    "conj_physical",
    "_lazy_clone",
)
def same(c, x, *_, **__):
    return c.own(x)


@row("detach", "detach_copy", "stop_gradient")
def detach(c, x):
    if not c.has("stop_gradient"):
        c.refuse("msc has no op that stops gradients")
    return c.g.stop_gradient(c.own(x))


@row("copy")
def copy(c, x, source, *_):
    return c.stretch(c.t(source), c.shape)


@row("fill.Scalar", "fill.Tensor")
def fill(c, x, value):
    return c.stretch(c.t(value), c.shape)


def _filled(c, value):
    """A tensor of one number everywhere: it is known, also where a tensor that is not gave its shape."""
    if hasattr(value, "shape") or c.has_open_sizes():
        return c.stretch(c.t(value), c.shape)
    return torch.full(c.shape, value, dtype=TORCH[c.dtype])


@row("full_like", "new_full", "full")
def full_like(c, x, *values, **__):
    return _filled(c, values[-1])


@row(
    "zeros_like",
    "new_zeros",
    "zeros",
    "empty_like",
    "new_empty",
    "empty.memory_format",
    "empty_strided",
    "empty_permuted",
    "new_empty_strided",
)
def zeros(c, *_, **__):
    return _filled(c, 0)


@row("arange", "arange.start", "arange.start_step")
def arange(c, *ends, **__):
    start, step = ends[0] if len(ends) > 1 else 0, ends[2] if len(ends) > 2 else 1
    places = c.positions(c.shape, 0)
    if not isinstance(start, int) or not isinstance(step, int):
        places = c.t(places, "f64")
    return c.t(c.add(c.mul(places, step), start))


@row("prims.iota")
def iota(c, length, *, start, step, **__):
    return c.t(c.add(c.mul(c.positions(c.shape, 0), step), start))


@row("ones_like", "new_ones", "ones")
def ones(c, *_, **__):
    return c.stretch(c.t(1), c.shape)
