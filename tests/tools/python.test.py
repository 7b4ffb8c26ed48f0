#!/usr/bin/env python3
"""The Python package: its op table has every op of models, every op of the builder is accepted by the reader
with the types it declares, places and hints arrive, mistakes are told."""
import json
import os
import re
import subprocess
import sys
import warnings

from expect import MSC, Expect

ROOT = os.getcwd()

import msc  # noqa: E402
from msc import file, ops  # noqa: E402
from msc.models import __main__ as models  # noqa: E402

expect = Expect()

# ---- the op table ----

listed = json.loads(subprocess.run([MSC, "opt", "--list-ops", "--json"], capture_output=True, check=True).stdout)["ops"]
internal = {row["name"] for row in listed if {"internal", "local", "terminator"} & set(row["flags"].split(" | "))}
expect.check("op table", set(ops.ROWS) == {row["name"] for row in listed} - internal)

# ---- every op ----

g = msc.Graph("everything")
g.mesh(a=2, b=4)
x = g.input("x", "f32", [8, 4, 6])
i = g.input("i", "i32", [8, 4], role="mask", batch_dim=-1)
m, n = g.parameter("m", "f32", [6, 5], init="normal:0.5"), g.parameter("n", "f32", [5, 6], init="zeros",
                                                                       trainable=False)
row, one = g.constant([1, 2, 3, 4, 5, 6.5]), g.constant(-0.0)
scalar = g.constant(1.0)
yes = g.compare(x, row, "lt")
images, kernels = g.reshape(x, [2, 4, 4, 6]), g.parameter("k", "f32", [6, 2, 3, 2], init="zeros")
y = g.conv2d(images, kernels, stride=[2, 1], padding=[1, 0, 0, 1], groups=2)
position = g.max_pool_index(images, [2, 2], stride=[2, 2])
one4 = g.constant([1, 2, 3, 4.5])
heads = g.reshape(x, [8, 2, 2, 6])
picked, rows = g.constant([4, 1, 4], "i32"), g.slice(m, [0, 0], [3, 5])
g.new_value(n, n * one)
outputs = [
    g.iota(msc.Type("i64", (3, 2)), dim=1), x + row, row - x, x * one, x / row,
    g.max(x, row),
    g.min(x, x),
    g.pow(x, one), yes,
    g.select(yes, x, row), -x,
    g.exp(x),
    g.log(x),
    g.sqrt(x),
    g.rsqrt(x),
    g.tanh(x),
    g.erf(x),
    g.sigmoid(x),
    g.relu(x),
    g.gelu(x, "tanh"),
    g.silu(x),
    g.abs(x),
    g.sign(x),
    g.cast(x, "bf16"),
    g.broadcast_to(row, [2, 3, 6]),
    g.reshape(x, [2, -1, 3]),
    g.flatten(x),
    g.flatten(x, axis=0),
    g.transpose(x, perm=[2, 0, 1]),
    g.concat([x, x, x], 1), *g.split(x, 2, [1, 2, 3]),
    g.slice(x, [0, 1, 1], [8, 4, 6], stride=[3, 1, 2]),
    g.slice(x, [0, 0, 0], [1, 1, 1]),
    g.pad(x, [0, 1, 2], [3, 0, 0], stride=[1, 2, 1], value=-1.5),
    g.dropout(x, 0.25),
    g.take_along(x, g.iota(msc.Type("i32", (8, 4, 2)), dim=2)),
    g.add_along(i, g.cast(i, "f32"), 8),
    g.gather_nd(x, g.constant([[1, 2], [3, 0]], "i32")),
    g.scatter_nd_add(g.constant([[1], [3]], "i32"), g.constant(1.0, shape=[2, 5]), [4, 5]),
    g.scatter_update(x, g.constant([0, 2], "i32"), g.slice(x, [0, 0, 0], [8, 2, 6]), axis=1), *g.sort(x, axis=0),
    *g.topk(x, 3, dtype="i64"),
    g.einsum([x, m], "abc,cd->adb"),
    g.argmax(x),
    g.argmin(x, axis=1, keep_dims=True), *g.unique(g.flatten(i, axis=0)),
    g.cumsum(x, reverse=True),
    g.cumprod(x, axis=1),
    g.cumprod_grad(x, x),
    g.gather(m, i),
    g.gather(x, i, axis=1),
    g.scatter_add(i, x, 10), y,
    g.conv2d_transpose(y, kernels, size=[4, 6], stride=[2, 1], padding=[1, 0, 0, 1], groups=2),
    g.conv2d_weight_grad(images, y, [3, 2], stride=[2, 1], padding=[1, 0, 0, 1], groups=2),
    g.max_pool(images, [2, 3], dilation=[2, 1]), position,
    g.resize(images, [8, 3], mode="bilinear"),
    g.max_pool_grad(position, g.max_pool(images, [2, 2], stride=[2, 2]), [2, 2], [4, 6], stride=[2, 2]),
    g.avg_pool_grad(g.avg_pool(images, [3, 1], padding=[1, 1, 0, 0], count_include_pad=False), [3, 1], [4, 6],
                    padding=[1, 1, 0, 0]),
    g.one_hot(i, 7),
    g.one_hot(i, 3, dtype="i8", on=2.0),
    g.flatten(g.reshape(x, [32, 6]), axis=1) @ m,
    g.batch_matmul(x, m),
    g.matmul_weight_grad(x, x),
    g.grouped_matmul(g.reshape(x, [32, 6]), g.flatten(i, axis=0), g.reshape(x, [4, 6, 8])),
    g.grouped_matmul(g.reshape(x, [32, 6]), g.flatten(i, axis=0), g.reshape(x, [4, 8, 6]), transpose_w=True),
    g.grouped_weight_grad(g.reshape(x, [32, 6]), g.flatten(i, axis=0), g.reshape(x, [32, 6]), groups=5),
    g.batch_matmul(x, x, transpose_b=True),
    g.matmul(m, n, transpose_a=True, transpose_b=True),
    g.reduce_sum(x, [0, 2]),
    g.reduce_mean(x, [1], keep_dims=True),
    g.reduce_max(x, []),
    g.reduce_min(x, [0, 1, 2]),
    g.softmax(x),
    g.log_softmax(x, axis=0),
    g.softmax_cross_entropy(x, i, reduction="none"),
    g.softmax_cross_entropy_grad(x, i, scalar),
    g.mean_absolute_error(x, x, reduction="none"),
    g.reduce_prod(x, [1]),
    g.reduce_any(yes, [0]),
    g.reduce_all(yes, [0, 1], keep_dims=True),
    g.stop_gradient(x),
    g.tan(x),
    g.atan(x),
    g.asin(x),
    g.acos(x),
    g.sinh(x),
    g.cosh(x),
    g.acosh(x),
    g.atanh(x),
    g.expm1(x),
    g.exp2(x),
    g.log2(x),
    g.log10(x),
    g.bitwise_or(i, i),
    g.bitwise_xor(i, i),
    g.shift_right(i, i),
    g.log1p(x),
    g.trunc(x),
    g.asinh(x),
    g.atan2(x, row),
    g.hypot(x, row),
    g.logaddexp(x, row),
    g.logcumsumexp(x, axis=1, reverse=True),
    g.erfc(x),
    g.erfcx(x),
    g.erfinv(x),
    g.lgamma(x),
    g.digamma(x),
    g.polygamma(x, n=2),
    g.i0(x),
    g.i0e(x),
    g.i1(x),
    g.i1e(x),
    g.floor_div(x, row),
    g.fmod(i, i),
    g.bitwise_and(i, i),
    g.bitwise_not(i),
    g.shift_left(i, i),
    g.is_nan(x),
    g.is_inf(x),
    g.uniform(x),
    g.leaky_relu(x),
    g.elu(x, alpha=0.5),
    g.prelu(x, one4),
    g.softplus(x),
    g.hard_sigmoid(x),
    g.hard_swish(x),
    g.mish(x),
    g.clamp(x, -1, 1),
    g.mod(x, row),
    g.logical_and(yes, yes),
    g.logical_or(yes, yes),
    g.logical_xor(yes, yes),
    g.logical_not(yes),
    g.is_finite(x),
    g.expand_dims(x, -1),
    g.squeeze(g.expand_dims(x, 0), [0]),
    g.tile(x, [1, 2, 3]),
    g.stack([x, x], axis=1),
    g.reverse(x, [0]),
    g.roll(x, -1, 2),
    g.mean_squared_error(x, -x),
    g.sigmoid_cross_entropy(x, x),
    g.nll_loss(x, i),
    g.softmax_cross_entropy(x, i, ignore_index=-100, label_smoothing=0.1),
    g.sin(x),
    g.cos(x),
    g.floor(x),
    g.ceil(x),
    g.round(x),
    g.layer_norm(x, gamma=row, beta=row),
    g.layer_norm(x, axis=1, eps=1e-3),
    g.rms_norm(x, gamma=row),
    g.l2_normalize(x),
    g.group_norm(x, groups=2), *g.batch_norm(x, row, row, row, row, axis=-1),
    g.glu(x, activation="gelu"),
    g.rotary(x, interleaved=True),
    g.attention(heads, heads, heads, causal=True),
    g.attention(heads, heads, heads, mask=g.constant(0.0)),
    g.dropped_attention(heads, heads, heads, g.constant(1.0, shape=[8, 2, 2, 2])),
    g.dropped_attention(heads, heads, heads, g.constant(1.0, shape=[8, 2, 2, 2]), mask=g.constant(0.0, shape=[2, 2])),
    *g.flash_attention_grad(heads, heads, heads, *g.flash_attention(heads, heads, heads), heads),
    g.sgd(-m, m, 0.5), *g.momentum(-m, -m, m, lr=0.1, momentum=0.9), *g.adam(-m, -m, -m, m, scalar, 0.1),
    *g.adagrad(-m, -m, m, 0.1), *g.rmsprop(-m, -m, m, 0.1), *g.rmsprop_momentum(-m, -m, -m, m, 0.1, momentum=0.9),
    g.lazy_sgd(-m, *g.sort(picked), rows, 0.5),
    *g.lazy_momentum(-m, -m, *g.sort(picked), rows, lr=0.1, momentum=0.9),
    *g.lazy_adagrad(-m, -m, *g.sort(picked), rows, 0.1), *g.lazy_adam(-m, -m, -m, *g.sort(picked), rows, scalar, 0.1),
    *g.adamw(-m, -m, -m, m, scalar, 0.1), *g.lamb_moments(m, -m, -m, m, scalar),
    g.lamb_apply(-m, m, scalar, 0.1),
    g.assign(-m, m),
    g.all_reduce(x, axes="{a}"),
    g.all_gather(x, axes="{b}", dim=1),
    g.reduce_scatter(x, axes="{a,b}"),
    g.all_to_all(x, axes="{b:(2)2}", split_dim=0, concat_dim=2),
    g.permute(x, axes="{b}", pairs=[0, 1, 1, 2]),
    g.broadcast(x, "{a}"),
    g.recv(g.send(x, "{b}", 0, 3), "{b}", 0, 3)
]
for number, t in enumerate(outputs):
    g.output(f"out{number}", t)
g.save("every.fbs")
text = expect("dump every.fbs").stdout.decode()
used = set(re.findall(r'"msc\.(\w+)"', text)) - {"func", "return", "constant"}
expect.check(f"ops not built: {set(ops.ROWS) - used}", used == set(ops.ROWS))
expect.check("minus zero", "dense<-0.0e+00> : tensor<f32>" in text)

# ---- unknown sizes stay unknown, and nothing declared contradicts what is computed ----

g = msc.Graph("open")
x = g.input("x", "f32", [-1, 6])
h = g.flatten(g.reshape(g.concat([x, x], 0), [-1, 2, 3]))
h = g.pad(g.transpose(g.batch_matmul(h, g.transpose(h, [1, 0])), [1, 0]), [1, 1], [0, 0])
g.output("h", g.reduce_sum(h, [0]))
g.save("open.fbs")
expect("dump open.fbs --dim batch=3", 0, "", lambda text: "" if "-> tensor<7xf32>" in text else "7")
expect("dump open.fbs", 1,
       "open.fbs: error: input x: dimension 0, the batch, has no size; give it with --dim batch=SIZE [E0102]\n")
expect("dump open.fbs --dim batch=2 seq=4", 1,
       "open.fbs: error: --dim seq: no input has a dimension of this name; they are batch, x.1 [E0102]\n")
expect("dump open.fbs --dim batch=0", 2,
       "msc dump: error: --dim batch=0: the size must be a whole number of at least 1 (msc dump --help)\n")

# ---- places, blocks, hints, parameters ----

with open("layers.py", "w") as f:
    f.write("def twice(g, x):\n  return g.add(x, x, comm_fusion=2)\n")
with open("net.py", "w") as f:
    f.write('import msc, layers\n'
            'g = msc.Graph()\n'
            'x = g.input("x", "f32", [4, 8])\n'
            'with g.block("decoder", pipeline_stage=1, memory_limit=1000):\n'
            '  with g.block("0", recompute=True, pipeline_stage=2):\n'
            '    x = layers.twice(g, x)\n'
            '  y = g.dense(x, 4, "fc", transposed=True)\n'
            'w = g.parameter("w", "f32", [2], init=None, weights=("a/w.safetensors", "t"), layerwise_parallel=True)\n'
            'g.annotate("fc", in_strategy=((2, 1), (1, 1)), in_layout=("", ""), priority=3)\n'
            'g.output("y", y)\ng.output("w", w)\n'
            'g.loss(g.reduce_mean(y, [0, 1]), micro_size=2)\n'
            'g.optimizer("adamw", parameters=["fc.weight"], lr=0.1)\n'
            'g.optimizer("sgd", parameters=["fc.bias", "w"], lr=0.2)\n'
            'g.save("net.fbs")\n')
run = subprocess.run([sys.executable, "net.py"], capture_output=True, text=True,
                     env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1"))
expect.check(run.stderr, run.returncode == 0)
expect(
    "dump net.fbs", out="""module {
  "msc.func"() ({
  ^bb0(%x: tensor<4x8xf32>, %fc.weight: tensor<4x8xf32>, %fc.bias: tensor<4xf32>, %w: tensor<2xf32>):
    %0 = "msc.add"(%x, %x) {comm_fusion = 2 : i64, memory_limit = {bytes = 1000 : i64, name = "decoder"}, pipeline_stage = 2 : i64, recompute = "decoder.0"} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("decoder.0"("decoder.0.add1"(callsite("layers.py":2:0 at "net.py":6:0))))
    %1 = "msc.matmul"(%0, %fc.weight) {in_layout = ["", ""], in_strategy = [[2, 1], [1, 1]], memory_limit = {bytes = 1000 : i64, name = "decoder"}, pipeline_stage = 1 : i64, priority = 3 : i64, transpose_b = true} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32> loc("decoder"("fc"("net.py":7:0)))
    %2 = "msc.add"(%1, %fc.bias) {memory_limit = {bytes = 1000 : i64, name = "decoder"}, pipeline_stage = 1 : i64} : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32> loc("decoder"("fc.bias_add"("net.py":7:0)))
    %3 = "msc.reduce_mean"(%2) {dims = [0, 1]} : (tensor<4x4xf32>) -> tensor<f32> loc("reduce_mean1"("net.py":12:0))
    "msc.return"(%3, %2, %w) : (tensor<f32>, tensor<4x4xf32>, tensor<2xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"},
                   {msc.init = "uniform:0.35355339059327373", msc.name = "fc.weight", msc.role = "parameter"},
                   {msc.init = "uniform:0.35355339059327373", msc.name = "fc.bias", msc.role = "parameter"},
                   {msc.layerwise_parallel = true, msc.name = "w", msc.role = "parameter", msc.weights = {file = "a/w.safetensors", tensor = "t"}}],
      loss = 0 : i64,
      micro_size = 2 : i64,
      optimizer = [{kind = "adamw", lr = 1.0e-01 : f64, parameters = ["fc.weight"]}, {kind = "sgd", lr = 2.0e-01 : f64, parameters = ["fc.bias", "w"]}],
      results = ["loss", "y", "w"],
      sym_name = "forward"} : () -> ()
}
""")

# A fully connected layer of more dimensions than two.
g = msc.Graph()
tokens = g.input("x", "f32", [2, 3, 4])
expect.check("dense of tokens",
             [g.dense(tokens, 5, name="a").shape, g.dense(tokens, 6, name="b", transposed=True).shape] ==
             [(2, 3, 5), (2, 3, 6)])
g.output("y", g.dense(tokens, 5, name="c"))
g.save("tokens.fbs")
expect("compile tokens.fbs -o tokens.bin", 0, None)

# ---- mistakes ----


def mistake(make, text):
    g = msc.Graph()
    x = g.input("x", "f32", [4, 8])
    try:
        make(g, x)
    except (msc.Error, TypeError) as e:
        expect.check(f"wanted: {text}\ngot: {e}", str(e) == text)
    else:
        expect.check(f"no error: {text}", False)


# Which dimension is said alike everywhere: axis, dim, axes or dims, from the end where it is negative.


def said(kind, word, value, shape, **more):
    """The op's attribute and the shapes of its results."""
    g = msc.Graph()
    x = g.input("x", "f32", shape)
    operands = {
        "concat": [[x, x]], "stack": [[x, x]], "gather": [x, g.input("i", "i32", [2])],
        "scatter_add": [g.input("i", "i32", [2]), x],
        "scatter_update": [x, g.input("i", "i32", [2]),
                           g.input("u", "f32", [*shape[:1], 2, *shape[2:]])]
    }.get(kind, [x])
    out = getattr(g, kind)(*operands, **{word: value}, **more)
    attrs = {a["name"]: list(a["value"][1].values())[0] for a in g._ops[-1]["attrs"] or []}
    return attrs, [t.shape for t in (out if isinstance(out, list) else [out])]


SAYS = {
    "concat": ("dim", {}), "split": ("dim", {"sizes": [1, 2]}), "roll": ("dim", {"shift": 1}), "stack": ("axis", {}),
    "expand_dims": ("axis", {}), "flatten": ("axis", {}), "gather": ("axis", {}), "scatter_add": ("axis", {"rows": 5}),
    "scatter_update": ("axis", {}), "softmax": ("axis", {}), "cumsum": ("axis", {}), "argmax": ("axis", {}),
    "sort": ("axis", {}), "reduce_sum": ("dims", {}), "reduce_mean": ("dims", {}), "reduce_any": ("dims", {}),
    "reverse": ("dims", {}), "layer_norm": ("axis", {})
}
for kind, (own, more) in SAYS.items():
    rank = 4 if kind in ("stack", "expand_dims") else 3
    plain = [1] if own == "dims" else 1
    wanted = said(kind, own, plain, [2, 3, 4], **more)
    for word in ("axis", "dim", "axes", "dims"):
        expect.check(f"{kind} {word}", said(kind, word, plain, [2, 3, 4], **more) == wanted)
        attrs, shapes = said(kind, word, 1 - rank, [2, 3, 4], **more)
        expect.check(f"{kind} {word} from the end: {attrs} {shapes}, {wanted}", shapes == wanted[1] and
                     attrs.get(own) in (wanted[0].get(own), 1 - rank))
    if own == "dims":
        expect.check(f"{kind} of one", said(kind, "axis", 1, [2, 3, 4]) == wanted)
expect.check("squeeze", said("squeeze", "axis", -2, [2, 1, 4])[1] == [(2, 4)])
g = msc.Graph()
expect.check("transpose", g.transpose(g.input("x", "f32", [2, 3, 4]), perm=[-1, 0, 1]).shape == (4, 2, 3))

# Matrices of zeros were forgotten, most likely; what says so is meant.
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    g = msc.Graph()
    g.parameter("b", "f32", [3])
    g.parameter("z", "f32", [3, 4], init="zeros")
    g.parameter("f", "f32", [3, 4], weights=("w.safetensors", "f"), init=None)
    g.parameter("w", "f32", [3, 4])
expect.check(
    f"warned of zeros: {[str(w.message) for w in told]}",
    [str(w.message)
     for w in told] == ["parameter w has no init and no weights: zeros, unless `msc run --init` gives them"] and
    told[0].filename == __file__)

mistake(lambda g, x: g.reduce_sum(x, dims=[0], axis=1),
        "reduce_sum: dims and axis both say which dimension; one of them is enough")
mistake(lambda g, x: g.concat([x, x], axis=-3), "concat: dim -3 is not one of 2 dimensions")
mistake(lambda g, x: g.matmul(x, x), "matmul 'matmul1': inner sizes differ: 8 and 4")
mistake(lambda g, x: g.add(x, g.constant([1, 2, 3])), "add 'add1': shapes [4, 8] and [3] do not broadcast")
mistake(lambda g, x: g.relu(x, name="a") + g.relu(x, name="a"), "two ops are called a")
mistake(lambda g, x: g.layer_norm(x, x), "layer_norm: axis must be a whole number, not Tensor(f32, [4, 8])")
mistake(lambda g, x: g.leaky_relu(x, slope="steep"), "leaky_relu: slope must be a number, not 'steep'")
mistake(lambda g, x: g.clamp(x, 0, x), "clamp: high must be a number, not Tensor(f32, [4, 8])")
mistake(lambda g, x: g.gelu(x, form=1), "gelu: form must be a text, not 1")
mistake(lambda g, x: g.reshape(x, "ab"), "reshape: shape must be a list of whole numbers, not 'ab'")
mistake(lambda g, x: g.relu(x, pipeline_stag=1), "there is no hint pipeline_stag; did you mean pipeline_stage?")
mistake(lambda g, x: g.relu(x, pipeline_stage=-1), "pipeline_stage=-1 must be a whole number from 0 on")
mistake(lambda g, x: g.relu(x, recompute=2), "recompute=2 must be True or False")
mistake(lambda g, x: g.relu(x, deny_replicate="false"), "deny_replicate='false' must be True or False")
mistake(lambda g, x: g.relu(x, in_strategy=(2, 2)), "in_strategy=[2, 2] must be a list of lists of whole numbers")
mistake(lambda g, x: g.relu(x, in_layout="[{a},{}]"), "in_layout='[{a},{}]' must be a list of texts")
mistake(lambda g, x: g.relu(x, manual_split=3), "manual_split=3 must be a list of whole numbers")
mistake(lambda g, x: g.relu(x, primitive_target=3), "primitive_target=3 must be a text")
mistake(lambda g, x: g.parameter("w", "f32", [2], trainable="no"), "trainable='no' must be True or False")
mistake(lambda g, x: g.parameter("w", "f32", [2], comm_fusion=-1), "comm_fusion=-1 must be a whole number from 0 on")
mistake(lambda g, x: g.relu(3), "relu: operands must be tensors of this graph, not 3")
mistake(lambda g, x: g.output("o", msc.Graph("other").input("z", "f32", [2, 3])),
        "output 'o' must be a tensor of this graph, not Tensor(f32, [2, 3])")
mistake(lambda g, x: g.loss(msc.Graph("other").input("z", "f32", [])),
        "the loss must be a tensor of this graph, not Tensor(f32, [])")
mistake(lambda g, x: g.new_value(g.parameter("w", "f32", [4, 8], init="zeros", trainable=False), 1),
        "new_value: the second argument must be a tensor of this graph, not 1")
mistake(lambda g, x: g.reshape(x), "missing a required argument: 'shape'")
mistake(lambda g, x: g.input("y", "float32", [1]), "there is no element type float32; did you mean f32?")
mistake(lambda g, x: g.input("y", "f32", [1], role="lable"), "there is no role lable; did you mean label?")
mistake(lambda g, x: g.parameter("w", "f32", [1], init="normal"),
        "init 'normal' is not one of zeros, ones, constant:VALUE, normal:STD, uniform:BOUND")
mistake(lambda g, x: g.parameter("w", "f32", [1], trainabel=False),
        "a parameter has no mark trainabel; did you mean trainable?")
mistake(lambda g, x: g.constant([1, 2], shape=[3]), "2 values do not fill [3]")
mistake(lambda g, x: g.annotate("dense1", recompute=True), "there is no op dense1")
mistake(lambda g, x: g.optimizer("momentm", lr=1), "there is no optimizer momentm; did you mean momentum?")
mistake(lambda g, x: g.optimizer("sgd", parameters=["w"], lr=1), "there is no parameter w")
mistake(lambda g, x: (g.optimizer("sgd", lr=1), g.encode()), "an optimizer needs a loss: call Graph.loss")
mistake(lambda g, x: g.all_gather(x, axes="{dp}"),
        "all_gather 'all_gather1': axes {dp}: the mesh has no axis dp; call Graph.mesh first")

# ---- the networks ----


def network(*args, code=0, err=""):
    run = subprocess.run([sys.executable, "-m", "msc.models", *args], capture_output=True, text=True)
    expect.check(f"msc.models {' '.join(args)}: {run.stderr}", run.returncode == code and run.stderr.endswith(err))


def lines(text, pattern):
    return re.findall(pattern, text)


network("ffn", "-o", "ffn.fbs", "--lr", "0.05", "--momentum", "0.9", "--strategy", "dense1=((2,4),(4,1))", "--strategy",
        "dense3=((1,8),(8,1))")
text = expect("dump ffn.fbs").stdout.decode()
expect.check(
    "names",
    lines(text, r'loc\("([\w.]+)"') == [
        "flatten", "dense1", "dense1.bias_add", "relu1", "dense2", "dense2.bias_add", "relu2", "dense3",
        "dense3.bias_add", "relu3", "dense4", "dense4.bias_add", "relu4", "dense5", "dense5.bias_add", "loss"
    ])
expect.check("strategies", lines(text, r"in_strategy = ([^}]*)}") == ["[[2, 4], [4, 1]]", "[[1, 8], [8, 1]]"])
expect.check(
    "weights",
    lines(text, r"%(dense\d.weight): tensor<(\w+)>") == [("dense1.weight", "784x512xf32"),
                                                         ("dense2.weight", "512x256xf32"),
                                                         ("dense3.weight", "256x128xf32"),
                                                         ("dense4.weight", "128x64xf32"),
                                                         ("dense5.weight", "64x10xf32")])
expect.check("optimizer", 'optimizer = {kind = "momentum", lr = 5.0e-02 : f64, momentum = 9.0e-01 : f64}' in text)
expect.check("inputs", "^bb0(%x: tensor<32x28x28xf32>, %y: tensor<32xi32>," in text)
expect.check(
    "same bytes",
    models.build(models.parse(["ffn", "-o", "-"])).encode() == models.build(models.parse(["ffn", "-o", "-"])).encode())
network("mlp", "-o", "mlp.fbs", "--optimizer", "adam", "--flat", "--batch", "-1", "--transposed", "layer2")
text = expect("dump mlp.fbs --dim batch=16").stdout.decode()
expect.check(
    "mlp", "%x: tensor<16x784xf32>, %y: tensor<16x1xf32>" in text and
    lines(text, r"transpose_b = (\w+)") == ["true"] and "msc.mean_absolute_error" in text)
expect.check("mlp optimizer", 'optimizer = {kind = "adam", lr = 1.0e-03 : f64}' in text)
for kind in msc.graph.OPTIMIZERS:
    network("mlp", "-o", "mlp.fbs", "--optimizer", kind)
    expect("compile mlp.fbs -o mlp.bin", 0, None)
os.remove("mlp.bin")
network("ffn", "-o", "x.fbs", "--strategy", "dense9=((1,1),(1,1))", code=1,
        err="msc.models: error: there is no op dense9; did you mean dense5?\n")
network("ffn", "-o", "x.fbs", "--strategy", "dense1=2,4", code=2,
        err="argument --strategy: 'dense1=2,4' is not of the form OP=((2,4),(4,1))\n")
network("ffn", "-o", "x.fbs", "--batch", "0", code=2, err="argument --batch: '0' is not a whole number of at least 1\n")
network("ffn", "-o", "x.fbs", "--strategy", "dense1=((-2,4),(4,1))", code=1,
        err="msc.models: error: -2 is not a whole number from 0 with 32 bits\n")
network("ffn", "-o", "x.fbs", "--batch", str(1 << 70), code=1,
        err=f"msc.models: error: {1 << 70} is not a whole number of 64 bits\n")
network("ffn", "-o", "no/x.fbs", code=1, err="'\n")
g = msc.Graph("front end")
x = g.input("x", "f32", [2])
with g.at("net.py", 7, ("encoder", "0")):
    y = g.neg(x)
with g.at(None, 0, ("encoder",)):
    y = g.add(y, g.constant(b"\0\0\x80?\0\0\0@", "f32", [2]))
with g.at("net.py", 9, ("encoder", "0")):
    g.output("y", g.exp(y))
g.save("front.fbs")
text = expect("dump front.fbs").stdout.decode()
expect.check("places that are told", all(part in text for part in (
    'loc("encoder.0"("encoder.0.neg1"("net.py":7:0)))', 'loc("encoder"("encoder.add1"))',
    'loc("encoder.0"("encoder.0.exp1"("net.py":9:0)))', "dense<[1.0e+00, 2.0e+00]>")))
expect.check("a block that is entered twice", [b["name"] for b in g.model()["blocks"]] == ["", "encoder", "0"])
os.remove("front.fbs")

# The reference has every public name, with what its docstring says, and every op.
from msc import reference  # noqa: E402

api, ops = "\n".join(reference.api()), "\n".join(reference.op_list())
for name in msc.__all__:
    value = getattr(msc, name)
    expect.check(f"the reference tells of {name}", f"## msc.{name}" in api and bool(value.__doc__))
    for member in vars(value) if isinstance(value, type) and value.__module__.startswith("msc.") else ():
        own = getattr(value, member)
        told = member.startswith("_") or not callable(own) or member in reference._rows() or own.__doc__
        expect.check(f"{name}.{member} says what it does", bool(told) or isinstance(own, type))
expect.check("every op", all(f"| `{name}` |" in ops for name in reference._rows()))
expect.no_files("every.fbs", "open.fbs", "tokens.fbs", "tokens.bin", "net.fbs", "net.py",
                "layers.py", "ffn.fbs", "mlp.fbs")
expect.done()
