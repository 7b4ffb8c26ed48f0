#!/usr/bin/env python3
"""torch_values: what PyTorch computes for composites -> tests/ir/torch_values.h, cases of tests/ir/interp.c.  Needs
PyTorch 2.4 or later.

    python3 tests/ir/torch_values.py > tests/ir/torch_values.h"""
import math

import torch
import torch.nn.functional as F

torch.manual_seed(5)
T = torch.float64


def x(*shape):
    return (torch.randint(-16, 17, shape).to(T) / 8)


def text(t):
    return ",".join(repr(v) if isinstance(v, float) else str(int(v)) for v in t.detach().reshape(-1).tolist())


def kind(t):
    name = {torch.float64: "f64", torch.int64: "i64", torch.bool: "i1"}[t.dtype]
    return "x".join([str(n) for n in t.shape] + [name])


def row(op, attrs, operands, *results):
    print(
        f'    {{"{op}", "{" ".join(kind(t) for t in operands)}", "{attrs}", "{";".join(text(t) for t in operands)}",'
        f'\n     "{";".join(text(t) for t in results)}"}},'
    )


print("/* Made by torch_values.py with PyTorch " + torch.__version__.split("+")[0] + ". */")
a, g, b = x(2, 3, 4), x(4), x(4)
row("layer_norm", "eps=1e-3", (a, g, b), F.layer_norm(a, (4,), g, b, 1e-3))
g, b = x(3, 4), x(3, 4)
row("layer_norm", "axis=1", (a, g, b), F.layer_norm(a, (3, 4), g, b, 1e-5))
row("layer_norm", "axis=1", (a,), F.layer_norm(a, (3, 4)))
row("rms_norm", "eps=1e-3", (a, g[0]), F.rms_norm(a, (4,), g[0], 1e-3))
a, g, b = x(2, 4, 3), x(4), x(4)
row("group_norm", "groups=2", (a, g, b), F.group_norm(a, 2, g, b))
row("l2_normalize", "eps=0", (a,), F.normalize(a, dim=-1))
mean, variance = x(4), x(4) ** 2 + 0.5
new_mean, new_variance = mean.clone(), variance.clone()
y = F.batch_norm(a, new_mean, new_variance, g, b, training=True, momentum=0.25, eps=1e-3)
row("batch_norm", "momentum=0.25 eps=1e-3", (a, g, b, mean, variance), y, new_mean, new_variance)
row("batch_norm", "training=false", (a, g, b, mean, variance), F.batch_norm(a, mean, variance, g, b), mean, variance)
p, t = x(3, 4), x(3, 4)
row("mean_squared_error", "", (p, t), F.mse_loss(p, t))
row("mean_squared_error", "reduction=sum", (p, t), F.mse_loss(p, t, reduction="sum"))
t = torch.rand(3, 4, dtype=T)
row("sigmoid_cross_entropy", "", (p, t), F.binary_cross_entropy_with_logits(p, t))
row("sigmoid_cross_entropy", "reduction=none", (p * 40, t),
    F.binary_cross_entropy_with_logits(p * 40, t, reduction="none"))
labels = torch.tensor([2, 0, 3])
row("nll_loss", "", (p, labels), F.nll_loss(p, labels))
row("nll_loss", "reduction=none", (p, labels), F.nll_loss(p, labels, reduction="none"))
logits = x(3, 4)
for how in ("mean", "sum", "none"):
    row("nll_loss", f"reduction={how} ignore_index=0", (p, labels),
        F.nll_loss(p, labels, ignore_index=0, reduction=how))
    row("softmax_cross_entropy", f"reduction={how} ignore_index=0", (logits, labels),
        F.cross_entropy(logits, labels, ignore_index=0, reduction=how))
    row("softmax_cross_entropy", f"reduction={how} ignore_index=0 label_smoothing=0.25", (logits, labels),
        F.cross_entropy(logits, labels, ignore_index=0, label_smoothing=0.25, reduction=how))
    row("softmax_cross_entropy", f"reduction={how} label_smoothing=0.25", (logits, t),
        F.cross_entropy(logits, t, label_smoothing=0.25, reduction=how))
row("softmax_cross_entropy", "ignore_index=-100", (logits, labels * 0 - 100), F.cross_entropy(logits, labels * 0 - 100))
row("softmax_cross_entropy", "reduction=sum ignore_index=-100", (logits, labels * 0 - 100),
    F.cross_entropy(logits, labels * 0 - 100, reduction="sum"))
v = torch.tensor([-1.0, -0.999, -0.5, -1e-9, 0.0, 1e-9, 0.4, 0.5, 0.9, 1.0], dtype=T)
for name in ("tan", "atan", "asin", "acos", "sinh", "cosh", "expm1", "log1p", "exp2", "asinh", "atanh"):
    row(name, "", (v,), getattr(torch, name)(v))
v = torch.tensor([1e-300, 0.5, 1.0, 1 + 1e-9, 2.0, 8.0, 1e3, 1e12, 1e300, math.inf, math.nan], dtype=T)
for name in ("log2", "log10", "log1p", "acosh", "asinh", "atan"):
    row(name, "", (v,), getattr(torch, name)(v))
v = torch.tensor([-1e300, -800.0, -1e12, -3.0, math.nan, -math.inf], dtype=T)
for name in ("expm1", "log1p", "asinh", "acosh", "asin", "acos", "atanh", "sinh", "cosh", "atan"):
    row(name, "", (v,), getattr(torch, name)(v))
u = torch.tensor([1.0, -1.0, 1.0, -1.0, 0.0, 0.0, 3.0, -3.0, 0.5, math.inf, -math.inf, math.nan], dtype=T)
v = torch.tensor([2.0, 2.0, -2.0, -2.0, 1.0, -1.0, 0.0, 0.0, 0.5, math.inf, -math.inf, 1.0], dtype=T)
row("atan2", "", (u, v), torch.atan2(u, v))
row("fmod", "", (u, v), torch.fmod(u, v).masked_fill(v.isinf(), math.nan))
v = torch.tensor([-30.0, -3.5, -0.7, -1e-9, 0.0, 0.3, 0.5, 1.0, 2.0, 2.5, 7.9, 8.1, 20.0, 26.5], dtype=T)
row("erfc", "", (v,), torch.erfc(v))
row("erfcx", "", (v.clamp(min=-9),), torch.special.erfcx(v.clamp(min=-9)))
for name in ("i0", "i0e", "i1", "i1e"):
    row(name, "", (v,), getattr(torch.special, name)(v))
for name in ("lgamma", "digamma"):
    row(name, "", (v + 0.25,), getattr(torch, name)(v + 0.25))
row("lgamma", "", (v.round(),), torch.lgamma(v.round()))
w = v.abs() + 0.1  # PyTorch's own polygamma(1, x) has eleven digits
row("polygamma", "", (w,), torch.special.zeta(torch.full_like(w, 2), w))
row("polygamma", "n=4", (w,), torch.polygamma(4, w))
v = torch.tensor([-1.0, -0.999999, -0.6, -1e-12, 0.0, 1e-30, 0.3, 0.5, 0.9, 1 - 1e-12, 1.0, 1.5], dtype=T)
row("erfinv", "", (v,), torch.erfinv(v))
row("hypot", "", (u, v), torch.hypot(u, v).masked_fill(u.isnan(), math.nan))
row("logaddexp", "", (u * 400, v), torch.logaddexp(u * 400, v))
v = torch.tensor([[1.0, -800.0, 800.0, 0.5, -math.inf], [-math.inf, -math.inf, 3.0, 3.0, math.inf]], dtype=T)
row("logcumsumexp", "", (v,), torch.logcumsumexp(v, 1))
row("logcumsumexp", "axis=0 reverse=true", (v,), torch.logcumsumexp(v.flip(0), 0).flip(0))
row("glu", "activation=sigmoid gate_first=false", (p,), F.glu(p))
row("glu", "", (p,), F.silu(p[:, :2]) * p[:, 2:])
row("glu", "activation=gelu_tanh", (p,), F.gelu(p[:, :2], approximate="tanh") * p[:, 2:])

a = x(9)
row("leaky_relu", "slope=0.25", (a,), F.leaky_relu(a, 0.25))
row("elu", "alpha=0.5", (a,), F.elu(a, 0.5))
row("softplus", "", (a * 8,), torch.logaddexp(a * 8, torch.zeros((), dtype=T)))
row("hard_sigmoid", "", (a * 4,), F.hardsigmoid(a * 4))
row("hard_swish", "", (a * 4,), F.hardswish(a * 4))
row("mish", "", (a,), F.mish(a))
a, s = x(2, 3, 2), x(3)
row("prelu", "", (a, s), F.prelu(a, s))

# rotary: the formulas of the papers, written out
a = x(1, 3, 4)
angle = torch.arange(3, dtype=T)[:, None] * 100.0 ** (-torch.arange(2, dtype=T) * 2 / 4)
cos, sin = angle.cos(), angle.sin()
u, v = a[..., :2], a[..., 2:]
row("rotary", "base=100", (a,), torch.cat([u * cos - v * sin, v * cos + u * sin], -1))
u, v = a[..., 0::2], a[..., 1::2]
row("rotary", "base=100 interleaved=true", (a,), torch.stack([u * cos - v * sin, v * cos + u * sin], -1).flatten(-2))

q, k, v = x(1, 2, 3, 2), x(1, 2, 4, 2), x(1, 2, 4, 3)
row("attention", "", (q, k, v), F.scaled_dot_product_attention(q, k, v))
row("attention", "causal=true scale=0.5", (q, k, v), F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.5))
mask = torch.rand(1, 1, 3, 4) < 0.7
mask[..., 0] = True
row("attention", "", (q, k, v, mask), F.scaled_dot_product_attention(q, k, v, mask))
bias = x(3, 4)
row("attention", "", (q, k, v, bias), F.scaled_dot_product_attention(q, k, v, bias))
q = x(1, 4, 2, 2)
row("attention", "", (q, k, v), F.scaled_dot_product_attention(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)))
