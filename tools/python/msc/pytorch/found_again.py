"""Layers that users write out in arithmetic, found again while it is translated: norms by the root of the mean square,
gelu, attention.  Each function takes the operands of a product and gives the one op that stands for all, or None."""

import math
import struct


def _as_written(number):
    """The shortest decimal number that is this one in f32: what the user wrote."""
    short = float(f"{number:.7g}")
    return short if struct.pack("f", short) == struct.pack("f", number) else number


def _other(c, x, kind, number):
    """The operand beside a number in an op of this kind."""
    operands = c.made_by(x, kind)
    for one, two in [operands, operands[::-1]] if operands and len(operands) == 2 else ():
        value = c.number(two)
        if value is not None and math.isclose(value, number, rel_tol=1e-5):
            return one
    return None


def _last(c, x, kind):
    """The operand of a reduction of the last dimension that keeps it with size 1."""
    operands = c.made_by(x, kind)
    if operands and c.attribute(x, "dims") == [len(operands[0].shape) - 1] and c.attribute(x, "keep_dims"):
        return operands[0]
    return None


def _is_square(c, y, x):
    factors = c.made_by(y, "mul")
    return bool(factors) and factors[0] is factors[1] is x


def rms_norm(c, a, b):
    """x * rsqrt(mean(x^2) + eps), and gamma times that."""
    for x, scale in ((a, b), (b, a)):
        under = c.made_by(scale, "rsqrt")
        terms = under and c.made_by(under[0], "add")
        for mean, eps in [terms, terms[::-1]] if terms else ():
            eps, squares = c.number(eps), _last(c, mean, "reduce_mean")
            if eps is not None and squares is not None and _is_square(c, squares, x):
                return c.g.rms_norm(x, axis=-1, eps=_as_written(eps))
        plain = c.made_by(scale, "rms_norm")
        if plain and len(plain) == 1 and x.shape == scale.shape[-1:] and c.attribute(scale, "axis") is None:
            eps = c.attribute(scale, "eps")
            return c.g.rms_norm(plain[0], gamma=x, **({} if eps is None else {"eps": eps}))
    return None


def gelu(c, a, b):
    """x / 2 times 1 + tanh(0.79788 (x + 0.044715 x^3)), or 1 + erf(x / 1.41421)."""
    for half, rest in ((a, b), (b, a)):
        x, curve = _other(c, half, "mul", 0.5), _other(c, rest, "add", 1.0)
        if x is None or curve is None:
            continue
        bent, inner = c.made_by(curve, "tanh"), c.made_by(curve, "erf")
        if inner and (_other(c, inner[0], "mul", math.sqrt(0.5)) is x or _over(c, inner[0], math.sqrt(2)) is x):
            return c.g.gelu(x, "erf")
        terms = bent and c.made_by(_other(c, bent[0], "mul", math.sqrt(2 / math.pi)), "add")
        for one, cube in [terms, terms[::-1]] if terms else ():
            factors = c.made_by(_other(c, cube, "mul", 0.044715), "mul")
            if one is x and factors and any(_is_square(c, p, x) and q is x for p, q in (factors, factors[::-1])):
                return c.g.gelu(x, "tanh")
    return None


def _over(c, x, number):
    """y, if x is y / number; else None."""
    operands = c.made_by(x, "div")
    value = operands and c.number(operands[1])
    return operands[0] if value is not None and math.isclose(value, number, rel_tol=1e-5) else None


def _scale_of(c, scores):
    """(x, factor) if the scores are x times or divided by a number; else (scores, 1)."""
    for kind, invert in (("mul", False), ("div", True)):
        operands = c.made_by(scores, kind)
        for one, two in ([operands] if invert else [operands, operands[::-1]]) if operands else ():
            value = c.number(two)
            if value:
                return one, 1 / value if invert else value
    return scores, 1.0


def attention_parts(c, weights):
    """(q, k, masks, dropout rate, scale) of weights that are softmax(scale q k^T + the sum of masks), with dropout or
    not; None if they are something else."""
    dropped = c.made_by(weights, "dropout")
    rate = c.attribute(weights, "rate") if dropped else 0.0
    weights = dropped[0] if dropped else weights
    scores = c.made_by(weights, "softmax")
    if not scores or c.attribute(weights, "axis") not in (None, -1, 3) or len(weights.shape) != 4:
        return None
    scores, masks = scores[0], []
    while c.made_by(scores, "add"):
        one, two = c.made_by(scores, "add")
        scores, mask = (one, two) if one.shape == weights.shape else (two, one)
        masks.append(mask)
    product, scale = _scale_of(c, scores)
    operands = c.made_by(product, "batch_matmul")
    if not operands or product.shape != weights.shape or c.attribute(product, "transpose_a"):
        return None
    q, k = operands
    if not c.attribute(product, "transpose_b"):
        turned = c.made_by(k, "transpose")
        if not turned or c.attribute(k, "perm") != [0, 1, 3, 2]:
            return None
        k = turned[0]
    if len(q.shape) != 4 or len(k.shape) != 4:
        return None
    return q, k, masks, rate, _as_written(scale)
