#!/usr/bin/env python3
"""make_fixtures: writes tests/e2e/fixtures/NAME.mlir, a small network with its optimizer, and NAME.losses, what
PyTorch makes of it step by step.  Needs torch; the files are committed, so that tests do not.  Numbers come from
formula.py."""
import os
import sys

import torch
import torch.nn.functional as F

import formula

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures")


class Net:
    """Builds the IR text and, beside it, the function that PyTorch runs."""

    def __init__(self, name, batch, classes, steps, samples):
        self.name, self.batch, self.classes, self.steps, self.samples = name, batch, classes, steps, samples
        self.args, self.lines, self.next = [], [], 0
        self.program = []  # (result, function, operands)

    # -- arguments --

    def arg(self, name, role, shape, dtype="f32", init=None, trainable=True):
        self.args.append((name, role, list(shape), dtype, init, trainable))
        return (f"%{name}", list(shape), dtype)

    def x(self, features):
        return self.arg("x", "data", [self.batch, features])

    def parameter(self, name, shape, init, trainable=True):
        return self.arg(name, "parameter", shape, "f32", init, trainable)

    # -- ops --

    def op(self, kind, operands, shape, run, attrs="", dtype="f32"):
        result = (f"%{self.next}", list(shape), dtype)
        self.next += 1
        types = ", ".join(tensor(o) for o in operands)
        attrs = f" {{{attrs}}}" if attrs else ""
        self.lines.append(
            f'{result[0]} = "msc.{kind}"({", ".join(o[0] for o in operands)}){attrs} : ({types}) -> {tensor(result)}')
        self.program.append((result[0], run, [o[0] for o in operands]))
        return result

    def matmul(self, a, b, transpose_b=False):
        shape = [a[1][0], b[1][0 if transpose_b else 1]]
        run = (lambda u, v: u @ v.T) if transpose_b else (lambda u, v: u @ v)
        return self.op("matmul", [a, b], shape, run, "transpose_b = true" if transpose_b else "")

    def unary(self, kind, a, run, attrs=""):
        return self.op(kind, [a], a[1], run, attrs)

    def binary(self, kind, a, b, run):
        return self.op(kind, [a, b], a[1] if len(a[1]) >= len(b[1]) else b[1], run)

    def add(self, a, b):
        return self.binary("add", a, b, torch.add)

    def constant(self, value):
        result = (f"%{self.next}", [], "f32")
        self.next += 1
        self.lines.append(
            f'{result[0]} = "msc.constant"() {{value = dense<{value:.8e}> : tensor<f32>}} : () -> tensor<f32>')
        self.program.append((result[0], lambda: torch.tensor(value), []))
        return result

    def indices(self, values):
        """A constant of integers."""
        result = (f"%{self.next}", [len(values)] + ([len(values[0])] if isinstance(values[0], list) else []), "i32")
        self.next += 1
        self.lines.append(
            f'{result[0]} = "msc.constant"() {{value = dense<{values}> : {tensor(result)}}} : () -> {tensor(result)}')
        self.program.append((result[0], lambda: torch.tensor(values), []))
        return result

    def ordered(self, kind, x, k, run, attrs):
        """sort or topk of the last dimension: values and indices."""
        shape = x[1][:-1] + [k]
        name = f"%{self.next}"
        self.next += 1
        values, indices = (f"{name}#0", shape, "f32"), (f"{name}#1", shape, "i32")
        self.lines.append(
            f'{name}:2 = "msc.{kind}"({x[0]}) {{{attrs}}} : ({tensor(x)}) -> ({tensor(values)}, {tensor(indices)})')
        self.program.append((name, run, [x[0]]))
        for i, v in enumerate((values, indices)):
            self.program.append((v[0], lambda both, i=i: both[i], [name]))
        return values, indices

    def dense(self, x, n, name, bound, activation=None):
        w = self.parameter(f"{name}.w", [x[1][1], n], f"uniform:{bound}")
        b = self.parameter(f"{name}.b", [n], "zeros")
        y = self.add(self.matmul(x, w), b)
        return ACTIVATIONS[activation](self, y) if activation else y

    def mean(self, x, dims, keep):
        shape = [1 if d in dims else n for d, n in enumerate(x[1]) if keep or d not in dims]
        attrs = f"dims = [{', '.join(map(str, dims))}]" + (", keep_dims = true" if keep else "")
        return self.op("reduce_mean", [x], shape, lambda v: v.mean(dims, keepdim=keep), attrs)

    def standardised(self, x):
        """(x - mean) / sqrt(variance + 1e-5) over the last dimension, in primitives."""
        last = [len(x[1]) - 1]
        centred = self.binary("sub", x, self.mean(x, last, True), torch.sub)
        variance = self.mean(self.binary("mul", centred, centred, torch.mul), last, True)
        scale = self.unary("rsqrt", self.binary("add", variance, self.constant(1e-5), torch.add), torch.rsqrt)
        return self.binary("mul", centred, scale, torch.mul)

    def conv(self, x, channels, name, kernel=3, stride=1, padding=1):
        n, c, *size = x[1]
        w = self.parameter(f"{name}.w", [channels, c, kernel, kernel],
                           f"uniform:{round((3 / (c * kernel * kernel)) ** 0.5, 4)}")
        shape = [n, channels] + [(v + 2 * padding - kernel) // stride + 1 for v in size]
        attrs = f"padding = {[padding] * 4}, stride = {[stride] * 2}"
        return self.op("conv2d", [x, w], shape, lambda u, v: F.conv2d(u, v, stride=stride, padding=padding), attrs)

    def max_pool(self, x, kernel, stride, padding):
        shape = x[1][:2] + [(v + 2 * padding - kernel) // stride + 1 for v in x[1][2:]]
        attrs = f"kernel = {[kernel] * 2}, padding = {[padding] * 4}, stride = {[stride] * 2}"
        return self.op("max_pool", [x], shape, lambda v: F.max_pool2d(v, kernel, stride, padding), attrs)

    def avg_pool(self, x, kernel):
        shape = x[1][:2] + [v // kernel for v in x[1][2:]]
        return self.op("avg_pool", [x], shape, lambda v: F.avg_pool2d(v, kernel),
                       f"kernel = {[kernel] * 2}, stride = {[kernel] * 2}")

    def batch_norm(self, x, name):
        """With the batch's own statistics, in primitives."""
        shape = [x[1][1], 1, 1]
        centred = self.binary("sub", x, self.mean(x, [0, 2, 3], True), torch.sub)
        variance = self.mean(self.binary("mul", centred, centred, torch.mul), [0, 2, 3], True)
        scale = self.unary("rsqrt", self.binary("add", variance, self.constant(1e-5), torch.add), torch.rsqrt)
        scaled = self.binary("mul", self.binary("mul", centred, scale, torch.mul),
                             self.parameter(f"{name}.g", shape, "ones"), torch.mul)
        return self.add(scaled, self.parameter(f"{name}.b", shape, "zeros"))

    def relu(self, x):
        return ACTIVATIONS["relu"](self, x)

    def residual(self, x, channels, name, stride):
        """Two convolutions beside the identity, or beside a convolution of 1 x 1 where the shape changes."""
        h = self.relu(self.batch_norm(self.conv(x, channels, f"{name}.1", stride=stride), f"{name}.n1"))
        h = self.batch_norm(self.conv(h, channels, f"{name}.2"), f"{name}.n2")
        if x[1] != h[1]:
            x = self.batch_norm(self.conv(x, channels, f"{name}.d", 1, stride, 0), f"{name}.nd")
        return self.relu(self.add(h, x))

    def cross_entropy(self, logits):
        y = self.arg("y", "label", [self.batch], "i32")
        return self.op("softmax_cross_entropy", [logits, y], [], lambda z, t: F.cross_entropy(z, t.long()))

    def soft_cross_entropy(self, logits):
        y = self.arg("y", "label", [self.batch, self.classes])
        return self.op("softmax_cross_entropy", [logits, y], [], F.cross_entropy)

    def absolute_error(self, p):
        y = self.arg("y", "label", p[1])
        return self.op("mean_absolute_error", [p, y], [], lambda u, v: (u - v).abs().mean())

    def squared_error(self, p):
        y = self.arg("y", "label", p[1])
        d = self.binary("sub", p, y, torch.sub)
        return self.mean(self.binary("mul", d, d, torch.mul), list(range(len(d[1]))), False)

    # -- out --

    def finish(self, loss, optimizer, make_optimizer):
        self.loss, self.optimizer, self.make_optimizer = loss, optimizer, make_optimizer
        return self

    def text(self):
        args = ", ".join(f"%{n}: {tensor((n, s, t))}" for n, _, s, t, _, _ in self.args)
        attrs = ",\n                   ".join(self.arg_attrs(a) for a in self.args)
        body = "\n".join(f"    {line}" for line in self.lines)
        return (
            f'module {{\n  "msc.func"() ({{\n  ^bb0({args}):\n{body}\n    "msc.return"({self.loss[0]}) : '
            f'(tensor<f32>) -> ()\n'
            f'  }}) {{sym_name = "forward", loss = 0 : i64, results = ["loss"],\n      optimizer = {self.optimizer},\n'
            f"      arg_attrs = [{attrs}]}} : () -> ()\n}}\n")

    @staticmethod
    def arg_attrs(a):
        name, role, _, _, init, trainable = a
        extra = f', msc.init = "{init}"' if init else ""
        extra += "" if trainable else ", msc.trainable = false"
        return f'{{msc.name = "{name}", msc.role = "{role}"{extra}}}'

    def batch_of(self, name, step):
        _, role, shape, dtype, _, _ = next(a for a in self.args if a[0] == name)
        rows = [(step * self.batch + i) % self.samples for i in range(self.batch)]
        if role == "data" and dtype == "i32":
            return torch.tensor([formula.tokens(s, shape[1]) for s in rows], dtype=torch.int32).long()
        if role == "data":
            return torch.tensor([formula.data(s, formula.count(shape[1:]), self.classes) for s in rows],
                                dtype=torch.float32).reshape(shape)
        if dtype == "i32":
            return torch.tensor([formula.label(s, self.classes) for s in rows], dtype=torch.int32)
        if shape[-1] == self.classes:
            return torch.tensor([formula.probabilities(s, self.classes) for s in rows], dtype=torch.float32)
        return torch.tensor([formula.target(s, shape[-1]) for s in rows], dtype=torch.float32)

    def initial_parameters(self, dtype=torch.float32):
        """All by their names in the program, and the trained ones by their names."""
        values, trained = {}, {}
        for i, (name, role, shape, _, init, trainable) in enumerate(self.args):
            if role != "parameter":
                continue
            numbers = formula.weights(i, init, formula.count(shape))
            t = torch.tensor(numbers, dtype=torch.float32).to(dtype).reshape(shape)
            values[f"%{name}"] = t.requires_grad_(trainable)
            if trainable:
                trained[name] = t
        return values, trained

    def gradients(self, compute_type):
        """Of the first step, in f64; in a narrow compute_type under autocast."""
        narrow = compute_type != torch.float64
        values, trained = self.initial_parameters(torch.float32 if narrow else torch.float64)
        for name, role, *_ in self.args:
            if role != "parameter":
                batch = self.batch_of(name, 0)
                values[f"%{name}"] = batch.double() if batch.is_floating_point() and not narrow else batch
        with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
            for target, run, operands in self.program:
                values[target] = run(*(values[o] for o in operands))
        values[self.loss[0]].backward()
        return {name: t.grad.double() for name, t in trained.items()}

    def losses(self, compute_type=torch.float32):
        """With a narrow compute_type under autocast."""
        values, trained = self.initial_parameters()
        optimizer, result = self.make_optimizer(trained), []
        cache = {}
        for step in range(self.steps):
            for name, role, *_ in self.args:
                if role != "parameter":
                    key = (name, step * self.batch % self.samples)
                    if key not in cache:
                        cache[key] = self.batch_of(name, step)
                    values[f"%{name}"] = cache[key]
            with torch.autocast("cpu", compute_type, enabled=compute_type != torch.float32):
                for target, run, operands in self.program:
                    values[target] = run(*(values[o] for o in operands))
            loss = values[self.loss[0]]
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            result.append(loss.item())
        if hasattr(optimizer, "shortened"):
            print(f"{self.name}: {optimizer.shortened} of {self.steps} steps shortened")
        return result

    def write(self):
        losses = self.losses()
        with open(os.path.join(FOLDER, self.name + ".mlir"), "w") as out:
            out.write(self.text())
        with open(os.path.join(FOLDER, self.name + ".losses"), "w") as out:
            out.write(
                f"# torch {torch.__version__.split('+')[0]}: batch {self.batch}, {self.samples} samples in order, "
                f"{self.classes} classes\n"
            )
            out.writelines(f"{v:.9g}\n" for v in losses)
        print(f"{self.name}: {losses[0]:.6f} -> {losses[-1]:.6f}")


def tensor(value):
    _, shape, dtype = value
    return "tensor<" + "".join(f"{n}x" for n in shape) + dtype + ">"


ACTIVATIONS = {
    "relu": lambda n, v: n.unary("relu", v, torch.relu),
    "tanh": lambda n, v: n.unary("tanh", v, torch.tanh),
    "sigmoid": lambda n, v: n.unary("sigmoid", v, torch.sigmoid),
    "silu": lambda n, v: n.unary("silu", v, F.silu),
    "gelu": lambda n, v: n.unary("gelu", v, F.gelu, 'form = "erf"'),
    "gelu_tanh": lambda n, v: n.unary("gelu", v, lambda t: F.gelu(t, approximate="tanh"), 'form = "tanh"'),
    "softmax": lambda n, v: n.unary("softmax", v, lambda t: F.softmax(t, -1)),
    "erf": lambda n, v: n.unary("erf", v, torch.erf),
}


class Lamb(torch.optim.Optimizer):
    """You et al. 2020, algorithm 2, with bias correction and no bound on the norms."""

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.01):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for w in group["params"]:
                s = self.state[w]
                if not s:
                    s.update(t=0, m=torch.zeros_like(w), v=torch.zeros_like(w))
                s["t"] += 1
                s["m"].mul_(b1).add_(w.grad, alpha=1 - b1)
                s["v"].mul_(b2).addcmul_(w.grad, w.grad, value=1 - b2)
                r = s["m"] / (1 - b1**s["t"]) / ((s["v"] /
                                                  (1 - b2**s["t"])).sqrt() + group["eps"]) + group["weight_decay"] * w
                norms = w.norm().item(), r.norm().item()
                trust = norms[0] / norms[1] if min(norms) > 0 else 1.0
                w.add_(r, alpha=-group["lr"] * trust)


class Both:
    """Two optimizers as one."""

    def __init__(self, *optimizers):
        self.optimizers = optimizers

    def zero_grad(self):
        for o in self.optimizers:
            o.zero_grad()

    def step(self):
        for o in self.optimizers:
            o.step()


class Clipped:
    """An optimizer whose gradients are shortened together before each step."""

    def __init__(self, optimizer, parameters, norm):
        self.optimizer, self.parameters, self.norm, self.shortened = optimizer, parameters, norm, 0
        self.zero_grad = optimizer.zero_grad

    def step(self):
        self.shortened += torch.nn.utils.clip_grad_norm_(self.parameters, self.norm).item() > self.norm
        self.optimizer.step()


def classifier(name, steps, activations, optimizer, make_optimizer, sizes=(12, 16, 16), classes=4, batch=8, samples=64,
               bound=0.4):
    net = Net(name, batch, classes, steps, samples)
    h = net.x(sizes[0])
    for i, (n, a) in enumerate(zip(sizes[1:], activations), 1):
        h = net.dense(h, n, f"dense{i}", bound, a)
    logits = net.dense(h, classes, f"dense{len(sizes)}", bound)
    return net.finish(net.cross_entropy(logits), optimizer, make_optimizer)


def ffn():
    """784-512-256-128-64-10 in batches of 32, Momentum, cross entropy.  With lr 0.05 this data is chaotic after some
    50 steps (f32 and f64 part for good); with 0.01 they agree to 4e-6 over all 200."""
    net = Net("ffn", 32, 10, 200, 1600)
    h, before = net.x(784), 784
    for i, n in enumerate((512, 256, 128, 64), 1):
        h = net.dense(h, n, f"dense{i}", round(1.7 * before ** -0.5, 4), "relu")
        before = n
    logits = net.dense(h, 10, "dense5", 0.2125)
    return net.finish(net.cross_entropy(logits), '{kind = "momentum", lr = 0.01 : f32, momentum = 0.9 : f32}',
                      lambda p: torch.optim.SGD(p.values(), lr=0.01, momentum=0.9))


def sgd():
    return classifier("sgd", 50, ("relu", "relu"), '{kind = "sgd", lr = 0.1 : f32, weight_decay = 0.01 : f32}',
                      lambda p: torch.optim.SGD(p.values(), lr=0.1, weight_decay=0.01))


def nesterov():
    return classifier(
        "nesterov", 50, ("tanh", "erf"),
        '{kind = "momentum", lr = 0.05 : f32, momentum = 0.8 : f32, nesterov = true, weight_decay = 0.001 : f32}',
        lambda p: torch.optim.SGD(p.values(), lr=0.05, momentum=0.8, nesterov=True, weight_decay=0.001))


def adam():
    return classifier("adam", 40, ("gelu", "sigmoid"),
                      '{kind = "adam", lr = 0.03 : f32, beta2 = 0.99 : f32, weight_decay = 0.01 : f32}',
                      lambda p: torch.optim.Adam(p.values(), lr=0.03, betas=(0.9, 0.99), weight_decay=0.01))


def lamb():
    return classifier("lamb", 40, ("gelu_tanh", "silu"), '{kind = "lamb", lr = 0.02 : f32}',
                      lambda p: Lamb(p.values(), lr=0.02))


def adamw():
    net = Net("adamw", 8, 4, 40, 64)
    h = net.dense(net.x(12), 16, "dense1", 0.4, "silu")
    h = net.dense(net.standardised(h), 16, "dense2", 0.4, "softmax")
    loss = net.squared_error(net.dense(h, 3, "dense3", 0.4))
    return net.finish(loss, '{kind = "adamw", lr = 0.01 : f32, weight_decay = 0.1 : f32, eps = 1.0e-6 : f32}',
                      lambda p: torch.optim.AdamW(p.values(), lr=0.01, weight_decay=0.1, eps=1e-6))


def clipped():
    """A norm that three of four steps exceed, of the gradients of two groups together."""
    groups = (
        '[{kind = "momentum", lr = 0.1 : f32, momentum = 0.9 : f32, clip_norm = 0.3 : f32, parameters = ["dense1.b", '
        '"dense2.b", "dense3.b"]}, '
        '{kind = "adam", lr = 0.02 : f32, clip_norm = 0.3 : f32, parameters = ["dense1.w", "dense2.w", "dense3.w"]}]')

    def make(p):
        both = Both(torch.optim.SGD([v for n, v in p.items() if n.endswith(".b")], lr=0.1, momentum=0.9),
                    torch.optim.Adam([v for n, v in p.items() if n.endswith(".w")], lr=0.02))
        return Clipped(both, list(p.values()), 0.3)

    return classifier("clipped", 40, ("tanh", "silu"), groups, make)


def mlp():
    """Three layers to one number, mean absolute error: the shape of the 784-512-512-1 network."""
    net = Net("mlp", 8, 4, 50, 64)
    h = net.dense(net.dense(net.x(20), 24, "dense1", 0.3, "relu"), 24, "dense2", 0.3, "relu")
    return net.finish(net.absolute_error(net.dense(h, 1, "dense3",
                                                   0.3)), '{kind = "momentum", lr = 0.02 : f32, momentum = 0.9 : f32}',
                      lambda p: torch.optim.SGD(p.values(), lr=0.02, momentum=0.9))


def tied():
    """Rows of a table, averaged, a dense layer, and the table again as the last layer: two uses of one parameter.
    One table stays frozen; labels are probabilities; two groups."""
    net = Net("tied", 8, 16, 40, 64)
    tokens = net.arg("x", "data", [8, 5], "i32")
    table = net.parameter("table", [16, 12], "uniform:0.5")
    place = net.parameter("place", [5, 12], "uniform:0.25", trainable=False)
    rows = net.op("gather", [table, tokens], [8, 5, 12], lambda t, i: t[i])
    h = net.mean(net.add(rows, place), [1], False)
    h = net.dense(h, 12, "dense", 0.4, "tanh")
    loss = net.soft_cross_entropy(net.matmul(h, table, transpose_b=True))
    return net.finish(
        loss,
        '[{kind = "sgd", lr = 0.2 : f32, parameters = ["dense.b"]}, {kind = "adam", lr = 0.02 : f32, parameters = '
        '["table", "dense.w"]}]',
        lambda p: Both(torch.optim.SGD([p["dense.b"]], lr=0.2), torch.optim.Adam([p["table"], p["dense.w"]], lr=0.02)))


def resnet():
    """Two blocks of a small residual network on pictures of 16 x 16, every height a multiple of 4."""
    net = Net("resnet", 8, 4, 20, 64)
    h = net.relu(net.batch_norm(net.conv(net.arg("x", "data", [8, 3, 16, 16]), 8, "conv"), "norm"))
    h = net.max_pool(h, 3, 2, 1)
    h = net.residual(net.residual(h, 8, "block1", 1), 12, "block2", 2)
    h = net.mean(h, [2, 3], False)
    return net.finish(net.cross_entropy(net.dense(h, 4, "dense",
                                                  0.3)), '{kind = "momentum", lr = 0.02 : f32, momentum = 0.9 : f32}',
                      lambda p: torch.optim.SGD(p.values(), lr=0.02, momentum=0.9))


def windows():
    """Groups, steps, holes, uneven sizes and a pool of means."""
    net = Net("windows", 4, 4, 20, 32)
    h = net.relu(net.conv(net.arg("x", "data", [4, 2, 13, 12]), 6, "first", 3, 2, 1))
    w = net.parameter("group.w", [6, 3, 3, 2], "uniform:0.3")
    h = net.op("conv2d", [h, w], [4, 6, 5, 6], lambda u, v: F.conv2d(F.pad(u,
                                                                           (2, 0, 1, 1)), v, dilation=(2, 2), groups=2),
               "dilation = [2, 2], groups = 2, padding = [1, 1, 2, 0]")
    w = net.parameter("depth.w", [6, 1, 2, 1], "uniform:0.5")
    h = net.op("conv2d", [h, w], [4, 6, 4, 6], lambda u, v: F.conv2d(u, v, groups=6), "groups = 6")
    h = net.avg_pool(net.unary("silu", h, F.silu), 2)
    h = net.mean(h, [2, 3], False)
    return net.finish(net.cross_entropy(net.dense(h, 4, "dense", 2)), '{kind = "sgd", lr = 0.5 : f32}',
                      lambda p: torch.optim.SGD(p.values(), lr=0.5))


def channels():
    """Convolutions of many channels: over large images in steps, over images so small that they lie side by side, and
    over single elements."""
    net = Net("channels", 8, 4, 20, 32)
    h = net.relu(net.conv(net.arg("x", "data", [8, 3, 23, 24]), 32, "large", 5, 1, 2))
    h = net.relu(net.conv(net.relu(net.conv(h, 32, "half", 3, 2, 1)), 32, "quarter", 3, 2, 1))
    h = net.add(h, net.relu(net.conv(h, 32, "small")))
    h = net.mean(net.relu(net.conv(h, 40, "single", 1, 1, 0)), [2, 3], False)
    return net.finish(net.cross_entropy(net.dense(h, 4, "dense", 2)), '{kind = "sgd", lr = 0.1 : f32}',
                      lambda p: torch.optim.SGD(p.values(), lr=0.1))


def replaced(x, indices, updates):
    """Columns of x replaced one after the other, so that the last one stays."""
    columns = list(x.unbind(1))
    for i, k in enumerate(indices.tolist()):
        columns[k] = updates[:, i]
    return torch.stack(columns, 1)


def order():
    """What goes by order or index: sorted, the largest, sums and products so far, elements and columns that are
    looked up or replaced, one column twice."""
    net = Net("order", 8, 4, 30, 64)
    h = net.dense(net.x(12), 16, "dense1", 0.4, "tanh")
    sums = net.op("cumsum", [h], h[1], lambda v: v.cumsum(1), "axis = -1")
    products = net.op(
        "cumprod", [net.unary("sigmoid", h, torch.sigmoid)], h[1],
        lambda v: torch.cat([v.flip(1).cumprod(1).flip(1)[:, 1:], torch.ones(8, 1)], 1),
        "axis = 1, exclusive = true, reverse = true")
    falling, _ = net.ordered("sort", h, 16, lambda v: v.sort(1, descending=True), "descending = true")
    most, places = net.ordered("topk", products, 4, lambda v: v.topk(4, 1), "k = 4")
    taken = net.op("take_along", [sums, places], [8, 4], lambda v, i: v.gather(1, i))
    written = net.op("scatter_update",
                     [falling, net.indices([3, 9, 3, 0]),
                      net.binary("mul", taken, most, torch.mul)], h[1], replaced, "axis = 1")
    table = net.parameter("table", [5, 3, 16], "uniform:0.5")
    rows = net.op("gather_nd", [table, net.indices([[4, 2], [0, 1], [4, 2]])], [3, 16],
                  lambda t, i: t[i[:, 0], i[:, 1]])
    logits = net.dense(net.matmul(net.add(written, net.add(h, products)), rows, transpose_b=True), 4, "dense2", 0.4)
    return net.finish(net.cross_entropy(logits), '{kind = "sgd", lr = 0.1 : f32}',
                      lambda p: torch.optim.SGD(p.values(), lr=0.1))


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    os.makedirs(FOLDER, exist_ok=True)
    makers = {
        f.__name__: f
        for f in (sgd, nesterov, adam, adamw, lamb, mlp, tied, ffn, resnet, windows, channels, order, clipped)
    }
    for name in sys.argv[1:] or makers:
        makers[name]().write()


if __name__ == "__main__":
    main()
