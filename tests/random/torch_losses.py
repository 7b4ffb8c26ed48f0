#!/usr/bin/env python3
"""torch_losses.py: random programs executed by PyTorch in f64, its gradients and optimizers included; writes the losses
that tests/random/programs compares the interpreter's with.

    python3 tests/random/torch_losses.py build/tests/random/programs 300 > tests/random/programs/torch.losses

Needs torch; nothing else does."""
import json
import math
import subprocess
import sys

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
TYPES = {
    "f32": torch.float64, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16, "i1": torch.bool,
    "i32": torch.int32, "i64": torch.int64
}


class Unknown(Exception):
    pass


def tensor(t):
    values = torch.tensor(t["values"], dtype=torch.float64).to(TYPES[t["dtype"]])
    size = math.prod(t["shape"])
    return values.reshape(t["shape"]) if values.numel() == size else values.expand(size).reshape(t["shape"])


# ---- ops: functions of (attributes, result types, operands) ----

def unary(f):
    return lambda a, out, x: f(x)


def binary(f):
    return lambda a, out, x, y: f(x, y)


def gelu(a, out, x):
    return F.gelu(x, approximate="tanh" if a["form"] == "tanh" else "none")


def compare(a, out, x, y):
    return {"lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge, "ne": torch.ne,
            "eq": torch.eq}[a["predicate"]](x, y)


def cast(a, out, x):
    return x.trunc().to(TYPES[a["dtype"]]) if a["dtype"][0] == "i" and a["dtype"] != "i1" else x.to(TYPES[a["dtype"]])


def iota(a, out):
    shape = out[0]["shape"]
    ramp = torch.arange(shape[a["dim"]], dtype=torch.float64)
    return ramp.reshape([-1 if d == a["dim"] else 1 for d in range(len(shape))]).expand(shape)


def slices(a, out, x):
    strides = a.get("stride", [1] * x.dim())
    return x[tuple(slice(*three) for three in zip(a["start"], a["limit"], strides))]


def pad(a, out, x):
    if "stride" in a:
        raise Unknown("pad with stride")
    both = [n for pair in reversed(list(zip(a["low"], a["high"]))) for n in pair]
    return F.pad(x, both, value=a.get("value", 0))


def gather(a, out, table, indices):
    axis = a.get("axis", 0) % table.dim()
    rows = table.index_select(axis, indices.reshape(-1).long())
    return rows.reshape(list(table.shape[:axis]) + list(indices.shape) + list(table.shape[axis + 1:]))


def take_along(a, out, x, indices):
    return torch.take_along_dim(x, indices.long(), a.get("axis", -1))


def gather_nd(a, out, x, indices):
    return x[tuple(indices.long().unbind(-1))]


def scatter_update(a, out, x, indices, updates):
    axis = a.get("axis", 0)
    if indices.dim() != 1:
        raise Unknown("scatter_update of blocks")
    for k, row in enumerate(indices.tolist()):
        x = x.index_copy(axis, torch.tensor([row]), updates.narrow(axis, k, 1))
    return x


def one_hot(a, out, indices):
    hot = indices.unsqueeze(-1) == torch.arange(a["depth"])
    return torch.where(hot, float(a.get("on", 1)), float(a.get("off", 0)))


def product(a, out, x, y):
    if a.get("transpose_a"):
        x = x.transpose(-1, -2)
    if a.get("transpose_b"):
        y = y.transpose(-1, -2)
    return torch.matmul(x, y)


def window(a):
    return a.get("stride", [1, 1]), a.get("dilation", [1, 1]), a.get("padding", [0, 0, 0, 0])


def padded(x, p, value=0.0):
    return F.pad(x, [p[2], p[3], p[0], p[1]], value=value)


def conv2d(a, out, x, w):
    stride, dilation, padding = window(a)
    return F.conv2d(padded(x, padding), w, stride=stride, dilation=dilation, groups=a.get("groups", 1))


def conv2d_transpose(a, out, y, w):
    stride, dilation, p = window(a)
    full = F.conv_transpose2d(y, w, stride=stride, dilation=dilation, groups=a.get("groups", 1))
    h, wide = a["size"]
    full = F.pad(full, [0, max(0, p[2] + wide - full.shape[3]), 0, max(0, p[0] + h - full.shape[2])])
    return full[:, :, p[0]:p[0] + h, p[2]:p[2] + wide]


def windows(x, a, value):
    """[n, c, windows, elements]"""
    stride, dilation, p = window(a)
    stride = a.get("stride", [1, 1])
    x = padded(x, p, value)
    n, c, k = x.shape[0], x.shape[1], a["kernel"]
    cols = F.unfold(x.reshape(n * c, 1, *x.shape[2:]), k, dilation=dilation, stride=stride)
    return cols.reshape(n, c, k[0] * k[1], -1).transpose(2, 3)


def max_pool(a, out, x):
    return windows(x, a, -math.inf).max(-1).values.reshape(out[0]["shape"])


def avg_pool(a, out, x):
    inside = windows(torch.ones_like(x), a, 0.0).sum(-1)
    count = float(a["kernel"][0] * a["kernel"][1]) if a.get("count_include_pad", True) else inside
    return (windows(x, a, 0.0).sum(-1) / count).reshape(out[0]["shape"])


def reduction(f):
    def reduce(a, out, x):
        dims = [d % x.dim() for d in a["dims"]] if x.dim() else []
        return f(x, dims, a.get("keep_dims", False)) if dims else x
    return reduce


def prod(x, dims, keep):
    for d in sorted(dims, reverse=True):
        x = x.prod(d, keepdim=keep)
    return x


def sort(a, out, x):
    values, indices = torch.sort(x, dim=a.get("axis", -1), descending=a.get("descending", False), stable=True)
    return values, indices.int()


def topk(a, out, x):
    values, indices = torch.topk(x, a["k"], dim=a.get("axis", -1), largest=a.get("largest", True))
    return values, indices.int()


def cumulated(f, first):
    def cumulate(a, out, x):
        axis = a.get("axis", -1)
        if a.get("reverse"):
            x = x.flip(axis)
        y = f(x, axis)
        if a.get("exclusive"):
            y = torch.cat([torch.full_like(y.narrow(axis, 0, 1), first), y.narrow(axis, 0, y.shape[axis] - 1)], axis)
        return y.flip(axis) if a.get("reverse") else y
    return cumulate


def reduced(loss, a):
    how = a.get("reduction", "mean")
    return loss if how == "none" else loss.sum() if how == "sum" else loss.mean()


def cross_entropy(a, out, x, labels):
    log, keep = F.log_softmax(x, -1), torch.tensor(1.0)
    if labels.is_floating_point():
        loss = -(labels * log).sum(-1)
    else:
        keep = (labels != a.get("ignore_index", -1)).to(x.dtype)
        loss = -torch.take_along_dim(log, labels.long().unsqueeze(-1), -1).squeeze(-1)
    smoothing = a.get("label_smoothing", 0)
    return reduced(keep * ((1 - smoothing) * loss - smoothing * log.mean(-1)), a)


def layer_norm(a, out, x, *scale):
    axis = a.get("axis", -1) % x.dim()
    y = F.layer_norm(x, x.shape[axis:], eps=a.get("eps", 1e-5))
    y = y * scale[0] if scale else y
    return y + scale[1] if len(scale) > 1 else y


def rms_norm(a, out, x, *scale):
    dims = list(range(a.get("axis", -1) % x.dim(), x.dim()))
    y = x * torch.rsqrt((x * x).mean(dims, keepdim=True) + a.get("eps", 1e-6))
    return y * scale[0] if scale else y


def group_norm(a, out, x, *scale):
    return F.group_norm(x, a["groups"], *scale, eps=a.get("eps", 1e-5))


def batch_norm(a, out, x, gamma, beta, mean, variance):
    mean, variance = mean.detach().clone(), variance.detach().clone()
    y = F.batch_norm(x, mean, variance, gamma, beta, a.get("training", True), a.get("momentum", 0.1),
                     a.get("eps", 1e-5))
    return y, mean, variance


def attention(a, out, q, k, v):
    scale = a.get("scale", 0) or 1 / math.sqrt(q.shape[-1])
    return F.scaled_dot_product_attention(q, k, v, is_causal=a.get("causal", False), scale=scale)


def shift(f):
    """By fewer than 0 places, or by as many as there are: by all."""
    def shifted(a, out, x, by):
        places = torch.iinfo(x.dtype).bits
        whole = (by < 0) | (by >= places)
        left = torch.where(whole, torch.zeros_like(x), f(x, torch.where(whole, 0, by)))
        return left if f is torch.bitwise_left_shift else torch.where(whole, f(x, places - 1), left)
    return shifted


OPS = {
    "shift_left": shift(torch.bitwise_left_shift),
    "shift_right": shift(torch.bitwise_right_shift),
    "constant": lambda a, out: tensor(a["value"]),
    "iota": iota,
    "compare": compare,
    "cast": cast,
    "gelu": gelu,
    "select": lambda a, out, c, x, y: torch.where(c, x, y),
    "broadcast_to": lambda a, out, x: x.expand(out[0]["shape"]) if x.dim() else x.expand(out[0]["shape"]),
    "reshape": lambda a, out, x: x.reshape(out[0]["shape"]),
    "flatten": lambda a, out, x: x.reshape(out[0]["shape"]),
    "transpose": lambda a, out, x: x.permute(a["perm"]),
    "concat": lambda a, out, *x: torch.cat(x, a["dim"]),
    "split": lambda a, out, x: torch.split(x, a["sizes"], a["dim"]),
    "slice": slices,
    "pad": pad,
    "gather": gather,
    "take_along": take_along,
    "gather_nd": gather_nd,
    "scatter_update": scatter_update,
    "one_hot": one_hot,
    "matmul": product,
    "batch_matmul": product,
    "einsum": lambda a, out, *x: torch.einsum(a["equation"], *x),
    "conv2d": conv2d,
    "conv2d_transpose": conv2d_transpose,
    "max_pool": max_pool,
    "avg_pool": avg_pool,
    "reduce_sum": reduction(lambda x, d, k: x.sum(d, keepdim=k)),
    "reduce_mean": reduction(lambda x, d, k: x.mean(d, keepdim=k)),
    "reduce_max": reduction(lambda x, d, k: torch.amax(x, d, keepdim=k)),
    "reduce_min": reduction(lambda x, d, k: torch.amin(x, d, keepdim=k)),
    "reduce_prod": reduction(prod),
    "sort": sort,
    "topk": topk,
    "cumsum": cumulated(torch.cumsum, 0.0),
    "cumprod": cumulated(torch.cumprod, 1.0),
    "softmax": lambda a, out, x: torch.softmax(x, a.get("axis", -1)),
    "log_softmax": lambda a, out, x: torch.log_softmax(x, a.get("axis", -1)),
    "softmax_cross_entropy": cross_entropy,
    "mean_absolute_error": lambda a, out, x, y: reduced((x - y).abs(), a),
    "mean_squared_error": lambda a, out, x, y: reduced((x - y)**2, a),
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "group_norm": group_norm,
    "batch_norm": batch_norm,
    "attention": attention,
}
for name, f in (("add", torch.add), ("sub", torch.sub), ("mul", torch.mul), ("div", torch.div), ("max", torch.maximum),
                ("min", torch.minimum), ("pow", torch.pow), ("bitwise_and", torch.bitwise_and),
                ("bitwise_or", torch.bitwise_or), ("bitwise_xor", torch.bitwise_xor)):
    OPS[name] = binary(f)
for name in ("neg", "exp", "log", "sqrt", "rsqrt", "tanh", "erf", "sin", "cos", "floor", "ceil", "round", "sigmoid",
             "relu", "abs", "sign", "atan", "asin", "acos", "sinh", "cosh", "expm1", "asinh", "atanh", "tan", "log1p",
             "exp2", "log2", "log10", "trunc", "bitwise_not", "erfc", "lgamma", "digamma", "i0"):
    OPS[name] = unary(getattr(torch, name))
for name in ("erfcx", "i0e", "i1", "i1e"):
    OPS[name] = unary(getattr(torch.special, name))
OPS["stop_gradient"] = unary(torch.detach)
for name, f in (("silu", F.silu), ("softplus", F.softplus), ("mish", F.mish), ("hard_swish", F.hardswish),
                ("hard_sigmoid", F.hardsigmoid)):
    OPS[name] = unary(f)


# ---- one program ----

def needed(p):
    """Ops that the results depend on; integers that are only shown are left out."""
    ties = p["attrs"].get("ties", [-1] * 99)
    *ops, last = p["ops"]
    want = {last["in"][0]} | {v for v, tie in zip(last["in"], ties) if tie >= 0}
    used = []
    for op in reversed(ops):
        if any(o["id"] in want for o in op["out"]):
            want |= set(op["in"])
            used.append(op)
    return used[::-1], last


def forward(p, ops, values):
    for op in ops:
        if op["op"] not in OPS:
            raise Unknown(op["op"])
        y = OPS[op["op"]](op["attrs"], op["out"], *(values[i] for i in op["in"]))
        for o, v in zip(op["out"], y if isinstance(y, (tuple, list)) else [y]):
            if list(v.shape) != o["shape"]:
                raise AssertionError(f"{op['op']}: {list(v.shape)}, not {o['shape']}")
            values[o["id"]] = v
    return values


class Lamb(torch.optim.Optimizer):
    """You et al. 2020, as in most libraries: bias-corrected moments, decay inside the step, trust ratio per tensor."""

    def __init__(self, params, lr, eps, weight_decay):
        super().__init__(params, {"lr": lr, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for w in group["params"]:
                if w.grad is None:
                    continue
                s = self.state[w]
                if not s:
                    s.update(t=0, m=torch.zeros_like(w), v=torch.zeros_like(w))
                s["t"] += 1
                s["m"].mul_(0.9).add_(w.grad, alpha=0.1)
                s["v"].mul_(0.999).addcmul_(w.grad, w.grad, value=0.001)
                r = s["m"] / (1 - 0.9**s["t"]) / (
                    (s["v"] / (1 - 0.999**s["t"])).sqrt() + group["eps"]) + group["weight_decay"] * w
                a, b = w.norm(), r.norm()
                trust = a / b if a > 0 and b > 0 else 1.0
                w.sub_(group["lr"] * trust * r)


def optimizer_of(o, params):
    decay, kind = o.get("weight_decay"), o["kind"]
    if kind in ("sgd", "momentum"):
        return torch.optim.SGD(params, o["lr"], momentum=o.get("momentum", 0), nesterov=o.get("nesterov", False),
                               weight_decay=decay or 0)
    if kind == "adam":
        return torch.optim.Adam(params, o["lr"], eps=o.get("eps", 1e-8), weight_decay=decay or 0)
    if kind == "adamw":
        return torch.optim.AdamW(params, o["lr"], eps=o.get("eps", 1e-8), weight_decay=0.01 if decay is None else decay)
    return Lamb(params, o["lr"], o.get("eps", 1e-6), 0.01 if decay is None else decay)


def losses_of(p):
    args = {a["id"]: tensor(a) for a in p["args"]}
    learned = [args[a["id"]].requires_grad_() for a in p["args"] if a["role"] == "parameter" and a["trainable"]]
    ops, last = needed(p)
    ties = p["attrs"].get("ties", [])
    o = p["attrs"].get("optimizer")
    optimizer = optimizer_of(o, learned) if o and learned else None
    losses = []
    for _ in range(p["steps"]):
        values = forward(p, ops, dict(args))
        loss = values[last["in"][0]]
        losses.append(loss.item())
        if optimizer and loss.requires_grad:
            optimizer.zero_grad()
            loss.backward()
            if o.get("clip_norm"):
                torch.nn.utils.clip_grad_norm_([w for w in learned if w.grad is not None], o["clip_norm"])
            optimizer.step()
        for v, tie in zip(last["in"], ties):
            if tie >= 0:
                args[p["args"][tie]["id"]] = values[v].detach()
    return losses


def main():
    program, count = sys.argv[1], int(sys.argv[2])
    recorded, seed, left_out = 0, 0, {}
    print(
        "# Losses of three steps by PyTorch, f64; written by tests/random/torch_losses.py: seed, hash of the program, "
        "losses"
    )
    while recorded < count:
        seed += 1
        p = json.loads(subprocess.run([program, "describe", str(seed)], capture_output=True, check=True).stdout)
        if any(s.startswith("compute_type=") for s in p["settings"]):
            continue
        try:
            losses = losses_of(p)
        except Unknown as e:
            left_out[str(e)] = left_out.get(str(e), 0) + 1
            continue
        except Exception as e:
            print(f"seed {seed}: {type(e).__name__}: {e}", file=sys.stderr)
            continue
        if all(math.isfinite(v) and abs(v) < 1e9 for v in losses):
            print(seed, p["hash"], *(f"{v:.12g}" for v in losses))
            recorded += 1
    print(f"{recorded} of {seed} programs; left out for want of an op: {left_out}", file=sys.stderr)


if __name__ == "__main__":
    main()
