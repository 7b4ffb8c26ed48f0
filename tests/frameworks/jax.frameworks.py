#!/usr/bin/env python3
"""msc.jax beside JAX: functions of many kinds as plans give what jax.jit gives; a GPT trained on 1, 2 and 4 ranks has
the losses and parameters of jax.value_and_grad with the update written out; what cannot be read is told with its
place."""
import sys

from framework import need

need("jax", "numpy")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import msc.jax  # noqa: E402

rng = np.random.default_rng(0)
CASES = []
NHWC = ("NHWC", "HWIO", "NHWC")
pool = jax.lax.reduce_window


def f(*shape):
    return rng.normal(size=shape).astype(np.float32)


def i(below, *shape):
    return rng.integers(0, below, size=shape).astype(np.int32)


def case(function, *args, tolerance=1e-5):
    CASES.append((function, args, tolerance))


# ---- one element at a time ----

for name in "abs ceil exp exp2 expm1 floor log1p sign sin cos tan tanh sinh cosh arctan square cbrt rint".split():
    case(getattr(jnp, name), f(3, 4), tolerance=2e-5)
for name in ("relu gelu silu softplus sigmoid elu leaky_relu relu6 hard_tanh log_sigmoid selu softmax log_softmax "
             "standardize mish celu").split():
    case(getattr(jax.nn, name), f(3, 4), tolerance=2e-5)
for name in "add subtract multiply divide maximum minimum arctan2 equal greater less_equal not_equal".split():
    case(getattr(jnp, name), f(3, 4), f(4), tolerance=2e-5)
case(lambda a, b: jnp.power(jnp.abs(a), b), f(3, 4), f(3, 4), tolerance=1e-4)
case(lambda a, b: jnp.mod(a, b), f(3, 4), f(3, 4), tolerance=1e-4)
case(lambda a, b: a // b, f(3, 4), f(3, 4), tolerance=1e-4)
case(lambda a: jnp.where(a > 0, a, -2 * a), f(3, 4))
case(lambda a: jnp.clip(a, -.5, .5), f(3, 4))
case(lambda a: jnp.sqrt(jnp.abs(a) + 1), f(3, 4))
case(lambda a: jax.lax.rsqrt(jnp.abs(a) + 1), f(3, 4))
case(jnp.round, f(5) * 10, tolerance=0)
case(lambda a: jax.lax.round(a), np.array([0.5, 1.5, -0.5, -2.5, 2.4], np.float32), tolerance=0)
case(jax.scipy.special.erf, f(3, 4))
case(jax.scipy.special.erfc, f(3, 4))
case(lambda a: jax.lax.erf_inv(jnp.tanh(a)), f(3, 4), tolerance=1e-4)
for name in ("lgamma", "digamma", "bessel_i1e", "bessel_i0e"):
    case(getattr(jax.lax, name), f(3, 4), tolerance=1e-4)
case(lambda a, b: (a & b) | (a ^ b), i(100, 5), i(100, 5), tolerance=0)
case(lambda a: (a << 2) + (a >> 1), i(100, 5), tolerance=0)
case(lambda a: a.astype(jnp.int32).astype(jnp.float32), f(5), tolerance=0)
case(lambda a: a.astype(jnp.bfloat16).astype(jnp.float32) * 2, f(5), tolerance=0)
case(lambda a: jnp.isnan(a) | jnp.isinf(a) | jnp.isfinite(a), f(5), tolerance=0)

# ---- reductions ----

for name in "sum mean max min prod var std any all argmax argmin".split():
    for axis in (None, 0, -1, (0, 2)):
        if name.startswith("arg") and isinstance(axis, tuple):
            continue
        of = (lambda a: a > 0.1) if name in ("any", "all") else (lambda a: a)
        case(lambda a, name=name, axis=axis, of=of: getattr(jnp, name)(of(a), axis=axis), f(3, 4, 5), tolerance=1e-4)
case(lambda a: jax.nn.logsumexp(a, axis=1, keepdims=True), f(3, 4))
case(lambda a: jnp.cumsum(a, 1), f(3, 6))
case(lambda a: jax.lax.cumsum(a, 0, reverse=True), f(5, 6))
case(lambda a: jnp.linalg.norm(a, axis=1), f(3, 6))
case(lambda a: (a > 0).sum(0), f(5, 6), tolerance=0)
case(lambda a: a.max(0), i(9, 5, 6), tolerance=0)

# ---- moves ----

case(lambda a: a.reshape(4, 3).T, f(3, 4), tolerance=0)
case(lambda a: jnp.transpose(a, (2, 0, 1)), f(2, 3, 4), tolerance=0)
case(lambda a: a[1:, ::2], f(3, 7), tolerance=0)
case(lambda a: a[-1], f(3, 7), tolerance=0)
case(lambda a: a[:, None, :] + a[None], f(3, 7))
case(lambda a: jnp.concatenate([a, a * 2], 1), f(3, 7))
case(lambda a: jnp.stack([a, a * 2], 1), f(3, 7))
case(lambda a: jnp.split(a, [2, 5], 1)[1], f(3, 7), tolerance=0)
case(lambda a: jnp.pad(a, ((1, 2), (0, 3)), constant_values=1.5), f(3, 7), tolerance=0)
case(lambda a: jax.lax.pad(a, np.float32(0), ((-1, 2, 1), (0, -3, 0))), f(3, 7), tolerance=0)
case(lambda a: jnp.flip(a, 1), f(3, 7), tolerance=0)
case(lambda a: jnp.roll(a, 2, 1), f(3, 7), tolerance=0)
case(lambda a: jnp.tile(a, (2, 3)), f(3, 2), tolerance=0)
case(lambda a: jnp.repeat(a, 3, axis=1), f(3, 2), tolerance=0)
case(lambda a: jnp.broadcast_to(a[:, None], (3, 5, 2)), f(3, 2), tolerance=0)
case(lambda a: jnp.tril(a) + jnp.triu(a, 1), f(4, 4), tolerance=0)
case(lambda a: jnp.arange(6.) * a, f(6))
case(lambda a: jnp.eye(4) @ a, f(4, 4))
case(lambda a: jnp.linspace(0, 1, 5) + a, f(5))
case(lambda a: jnp.meshgrid(a, a)[0], f(5))
case(jnp.diag, f(5, 5))
case(lambda a: jnp.squeeze(a[:1], 0), f(5, 5))
case(lambda a: jnp.moveaxis(a, 0, -1), f(2, 3, 4), tolerance=0)
case(lambda a: jax.image.resize(a, (2, 8, 8, 3), "nearest"), f(2, 4, 4, 3))
case(lambda a: jax.image.resize(a, (2, 8, 8, 3), "bilinear"), f(2, 4, 4, 3))

# ---- by numbers ----

case(lambda t, k: t[k], f(10, 4), i(10, 3, 2), tolerance=0)
case(lambda t, k: jnp.take(t, k, axis=1), f(4, 10), i(10, 3), tolerance=0)
case(lambda t, k: jnp.take_along_axis(t, k, 1), f(4, 10), i(10, 4, 3), tolerance=0)
case(lambda t, k: t[jnp.arange(4), k], f(4, 10), i(10, 4), tolerance=0)
case(lambda t, k: t.at[k].add(1.), f(10, 4), np.array([1, 3, 3, 0], np.int32))
case(lambda t, k: t.at[k].set(1.), f(10, 4), np.array([1, 3, 0], np.int32))
case(lambda k: jax.nn.one_hot(k, 7), i(7, 5), tolerance=0)
case(lambda t, k: jax.lax.dynamic_slice(t, (k, 0), (2, 3)), f(10, 4), np.int32(3), tolerance=0)
case(lambda t, k: jax.lax.dynamic_slice_in_dim(t, k, 4, 1), f(3, 10), np.int32(9), tolerance=0)
case(lambda t, u, k: jax.lax.dynamic_update_slice(t, u, (k, 0)), f(10, 4), f(2, 4), np.int32(3), tolerance=0)
case(lambda a: jnp.sort(a, 1), f(3, 7), tolerance=0)
case(lambda a: jnp.argsort(a, 1), f(3, 7), tolerance=0)
case(lambda a: jax.lax.top_k(a, 3), f(3, 7), tolerance=0)
case(lambda a: -jnp.sort(-a, 0), f(3, 7), tolerance=0)
case(lambda t, k: jax.ops.segment_sum(t, k, num_segments=5), f(8, 3), i(5, 8))
case(lambda k, a: jax.lax.switch(k, [jnp.sin, jnp.cos, jnp.negative], a), np.int32(1), f(5))
case(lambda a: jax.lax.cond(a[0] > 0, jnp.sin, jnp.cos, a), f(5))

case(lambda t, k: jax.lax.gather(
    t, k, jax.lax.GatherDimensionNumbers(offset_dims=(1, 2), collapsed_slice_dims=(), start_index_map=(0, 1)), (2, 3)),
     f(6, 7), i(9, 4, 2), tolerance=0)
case(lambda t, k, u: jax.lax.scatter_add(
    t, k, u, jax.lax.ScatterDimensionNumbers((1, 2), (), (0, 1))), f(6, 7), i(9, 4, 2), f(4, 2, 3))
case(lambda t, u: jax.lax.scatter(t, jnp.array([[4, 1]]), u, jax.lax.ScatterDimensionNumbers((1, 2), (), (0, 1))),
     f(6, 7), f(1, 2, 3), tolerance=0)
case(lambda t: t.at[1:3, ::2].set(0.), f(5, 6), tolerance=0)
case(lambda t, k, u: t.at[k].max(u), f(5, 3), i(5, 7), f(7, 3), tolerance=0)
case(lambda t, k, u: t.at[k].multiply(u), f(5), i(5, 7), f(7))
case(lambda x: pool(x, 7, jax.lax.max, (2, 2), (1, 1), "SAME"), i(20, 4, 6), tolerance=0)
case(lambda t: t.at[2, 3].add(1.), f(5, 6))

# ---- products and windows ----

case(lambda a, b: a @ b, f(3, 4), f(4, 5))
case(lambda a, b: a @ b, f(2, 3, 4), f(2, 4, 5))
case(lambda a, b: a @ b, f(2, 3, 4), f(4))
case(jnp.dot, f(4), f(4))
case(jnp.outer, f(4), f(3))
case(lambda a, b: jnp.einsum("bhqd,bkhd->bhqk", a, b), f(2, 3, 4, 5), f(2, 6, 3, 5))
case(lambda a, b: jnp.einsum("bqhd,bkhd->bhqk", a, b), f(2, 4, 3, 5), f(2, 6, 3, 5))
case(lambda a, b: jnp.tensordot(a, b, 2), f(2, 3, 4), f(3, 4, 5))
case(lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True), *(f(2, 6, 3, 8) for _ in range(3)))
conv = jax.lax.conv_general_dilated
case(lambda x, w: conv(x, w, (1, 1), "SAME", dimension_numbers=NHWC), f(2, 8, 8, 3), f(3, 3, 3, 4), tolerance=1e-4)
case(lambda x, w: conv(x, w, (2, 2), "VALID"), f(2, 3, 9, 8), f(4, 3, 3, 2), tolerance=1e-4)
case(lambda x, w: conv(x, w, (1, 2), [(1, 0), (2, 1)], rhs_dilation=(2, 1)),
     f(2, 3, 9, 8), f(4, 3, 3, 2), tolerance=1e-4)
case(lambda x, w: conv(x, w, (1, 1), "SAME", feature_group_count=4, dimension_numbers=NHWC),
     f(2, 8, 8, 4), f(3, 3, 1, 8), tolerance=1e-4)
case(lambda x, w: jax.lax.conv_transpose(x, w, (2, 2), "SAME", dimension_numbers=NHWC),
     f(2, 4, 4, 3), f(3, 3, 3, 4), tolerance=1e-4)
case(lambda x, w: conv(x, w, (2, ), "SAME", dimension_numbers=("NWC", "WIO", "NWC")),
     f(2, 9, 3), f(3, 3, 4), tolerance=1e-4)
case(lambda x, w: conv(x, w, (1, ), [(3, 0)], feature_group_count=4), f(2, 4, 9), f(4, 1, 4), tolerance=1e-4)
case(lambda x: pool(x, jnp.inf, jax.lax.min, (1, 3, 1), (1, 2, 1), "VALID"), f(2, 9, 3), tolerance=0)
case(lambda a: ~(a > 0), f(5), tolerance=0)
case(lambda a, b: jax.lax.shift_right_logical(a, b), i(100, 5) - 50, i(4, 5), tolerance=0)
case(lambda x: pool(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME"), f(2, 7, 7, 3), tolerance=0)
case(lambda x: pool(x, 0., jax.lax.add, (1, 1, 3, 3), (1, 1, 2, 2), "VALID") / 9, f(2, 3, 7, 7))

# ---- loops whose number of turns is known ----

case(lambda x, w: jax.lax.scan(lambda c, wi: (jnp.tanh(c @ wi), c.sum()), x, w), f(2, 3), f(4, 3, 3))
case(lambda x, w: jax.grad(lambda w: jax.lax.scan(lambda c, wi: (jnp.tanh(c @ wi), None), x, w)[0].sum())(w),
     f(2, 3), f(4, 3, 3))
case(lambda x: jax.lax.scan(lambda c, i: (c + x[i], c), jnp.zeros(4), jnp.arange(3), reverse=True), f(3, 4))
case(lambda x: jax.lax.fori_loop(0, 5, lambda i, v: v * 2 + i, x), f(3))
case(lambda x: jax.lax.associative_scan(jnp.add, x), f(7, 2))
case(lambda x: jax.lax.map(lambda v: v @ v, x), f(5, 3))

# ---- what JAX makes of functions is a function, too ----


def classifier(p, x, y):
    return -jnp.mean(jax.nn.log_softmax(jnp.tanh(x @ p[0] + p[1]) @ p[2])[jnp.arange(x.shape[0]), y])


def image(w, x):
    h = jax.nn.relu(conv(x, w, (1, 1), "SAME", dimension_numbers=NHWC))
    return (pool(h, 0., jax.lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")**2).mean()


case(lambda a, b, c, x, y: jax.grad(classifier)((a, b, c), x, y),
     f(5, 6), f(6), f(6, 3), f(4, 5), i(3, 4), tolerance=1e-4)
case(lambda w, x: jax.grad(image)(w, x), f(3, 3, 3, 4), f(2, 8, 8, 3), tolerance=1e-4)
case(lambda x: jax.vmap(lambda v: v @ v)(x), f(3, 4))
case(lambda x: jax.jvp(jnp.sin, (x, ), (x, ))[1], f(3, 4))

wrong = 0
for number, (function, args, tolerance) in enumerate(CASES):
    try:
        compiled = msc.jax.compile(function, *args)
        got, want = compiled(*args), jax.jit(function)(*args)
        compiled.close()
        assert jax.tree.structure(got) == jax.tree.structure(want)
        for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want)):
            assert a.dtype == b.dtype, (a.dtype, b.dtype)
            np.testing.assert_allclose(np.asarray(a, np.float64), np.asarray(b, np.float64), tolerance, tolerance)
    except Exception as error:  # all that are wrong are told
        wrong += 1
        print(f"FAILED: case {number}, {getattr(function, '__name__', function)}: {str(error)[:400]}")
print(f"{len(CASES) - wrong} of {len(CASES)} functions")

# ---- a GPT ----


def layer_norm(x, gamma, beta):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(((x - mean)**2).mean(-1, keepdims=True) + 1e-5) * gamma + beta


def gpt(p, tokens, labels):
    x = p["table"][tokens] + p["position"]
    batch, length, width = x.shape
    heads = 2
    for layer in p["layers"]:
        h = layer_norm(x, *layer["norm1"])
        q, k, v = jnp.split((h @ layer["qkv"]).reshape(batch, length, 3 * heads, width // heads), 3, 2)
        scores = jnp.einsum("bthe,bshe->bhts", q, k) / np.sqrt(width // heads)
        weights = jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9), -1)
        x = x + jnp.einsum("bhts,bshe->bthe", weights, v).reshape(batch, length, width) @ layer["out"]
        x = x + jax.nn.gelu(layer_norm(x, *layer["norm2"]) @ layer["up"]) @ layer["down"]
    log_p = jax.nn.log_softmax(x @ p["table"].T)
    return -jnp.mean(jnp.sum(jax.nn.one_hot(labels, log_p.shape[-1]) * log_p, -1))


WIDTH, RATE, STEPS = 32, 0.5, 10
params = {
    "table": jnp.asarray(f(64, WIDTH) * .1),
    "position": jnp.asarray(f(16, WIDTH) * .1),
    "layers": [{
        "norm1": (jnp.ones(WIDTH), jnp.zeros(WIDTH)),
        "norm2": (jnp.ones(WIDTH), jnp.zeros(WIDTH)),
        **{name: jnp.asarray(f(a * WIDTH, b * WIDTH) * .1)
           for name, a, b in (("qkv", 1, 3), ("out", 1, 1), ("up", 1, 4), ("down", 4, 1))}
    } for _ in range(2)]
}
batches = [(i(64, 8, 16), i(64, 8, 16)) for _ in range(STEPS)]
now, losses = params, []
for batch in batches:
    loss, gradient = jax.jit(jax.value_and_grad(gpt))(now, *batch)
    losses.append(float(loss))
    now = jax.tree.map(lambda a, g: a - RATE * g, now, gradient)
for ranks in (1, 2, 4):
    with msc.jax.train_step(gpt, params, *batches[0], optimizer=("sgd", {"lr": RATE}), ranks=ranks) as step:
        assert abs(step.evaluate(*batches[0]) - losses[0]) < 1e-5
        got = [step(*batch) for batch in batches]
        np.testing.assert_allclose(got, losses, 1e-5, 1e-5, err_msg=f"{ranks} ranks")
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 1e-4, 1e-5), step.params(), now)
        step.set_params(params)
        step.lr = 0.0
        np.testing.assert_allclose([step(*batches[0]) for _ in range(2)], losses[:1] * 2, 1e-5, 1e-5)
    worst = max(abs(a - b) for a, b in zip(got, losses))
    print(f"GPT on {ranks} ranks: {STEPS} losses are those of JAX to {worst:.1e}")

# ---- what cannot be read ----


def loop(x):
    return jax.lax.while_loop(lambda v: v[0] < 3, lambda v: v + 1, x)


try:
    msc.jax.compile(loop, f(3))
    wrong += 1
    print("FAILED: a loop was compiled")
except msc.CompileError as error:
    if "such loops are not read" not in str(error):
        wrong += 1
        print(f"FAILED: {error}")
sys.exit(wrong != 0)
