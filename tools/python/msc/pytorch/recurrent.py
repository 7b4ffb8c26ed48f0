"""ATen calls of recurrent layers: the products of the inputs of all steps at once, then step after step.

While a module is traced such a call is one op, whose results have types alone: PyTorch would compute all steps."""

import contextlib

import torch
from torch._C import DispatchKey

from msc.pytorch.aten import row
from msc.pytorch.movement import split_sizes


class _Layer:
    """One direction of one layer: its weights, and of each step the product of its inputs, [batch, gates size]."""

    def __init__(self, c, x, weights, gates, is_reversed):
        w, self.r, bias, self.own_bias, self.projection = weights
        self.c, self.is_reversed, self.gates = c, is_reversed, gates
        self.steps, self.batch = x.shape[:2]
        if bias is not None and gates != 3:  # what a GRU adds to its last gate belongs to that product alone
            bias, self.own_bias = c.g.add(bias, self.own_bias), None
        products = c.g.batch_matmul(x, w, transpose_b=True)
        if bias is not None:
            products = c.g.add(products, c.stretch(bias, products.shape))
        self.products = [c.reshape(p, p.shape[1:]) for p in split_sizes(c, products, [1] * self.steps)]

    def run(self, state, step):
        """All results [steps, batch, size], and the state after the last step."""
        g, c, results = self.c.g, self.c, [None] * self.steps
        order = range(self.steps)
        for t in reversed(order) if self.is_reversed else order:
            product = g.matmul(state[0], self.r, transpose_b=True)
            if self.own_bias is not None:
                product = g.add(product, c.stretch(self.own_bias, product.shape))
            state = step(self, self.products[t], product, state)
            results[t] = c.reshape(state[0], (1, *state[0].shape))
        return c.join(results, 0), state

    def gates_of(self, x):
        return split_sizes(self.c, x, [self.r.shape[0] // self.gates] * self.gates, 1)


def _plain_step(function):
    def step(layer, x, product, _):
        return (function(layer.c.g, layer.c.g.add(x, product)),)

    return step


def _gru_step(layer, x, product, state):
    g, (xr, xz, xn), (r, z, n) = layer.c.g, layer.gates_of(x), layer.gates_of(product)
    reset, kept = g.sigmoid(g.add(xr, r)), g.sigmoid(g.add(xz, z))
    new = g.tanh(g.add(xn, g.mul(reset, n)))
    return (g.add(g.mul(g.sub(state[0], new), kept), new),)


def _lstm_step(layer, x, product, state):
    g = layer.c.g
    put, kept, new, out = layer.gates_of(g.add(x, product))
    cell = g.add(g.mul(g.sigmoid(kept), state[1]), g.mul(g.sigmoid(put), g.tanh(new)))
    h = g.mul(g.sigmoid(out), g.tanh(cell))
    return h if layer.projection is None else g.matmul(h, layer.projection, transpose_b=True), cell


def _layers(c, x, states, weights, has_biases, num, dropout, train, both, batch_first, gates, step):
    """The results of the last layer, and the states after the last step, one tensor of all layers for each kind."""
    x = c.transpose(x, [1, 0, 2]) if batch_first else c.own(x)
    if 0 in x.shape:
        c.refuse("a recurrent layer without elements")
    states, weights, dirs = [c.own(s) for s in states], [c.own(w) for w in weights], 2 if both else 1
    is_projected = len(states) == 2 and states[0].shape[2] != states[1].shape[2]
    each = 2 + 2 * bool(has_biases) + is_projected
    last = [[] for _ in states]
    for i in range(num):
        results = []
        for d in range(dirs):
            own = weights[each * (dirs * i + d) : each * (dirs * i + d + 1)]
            parts = own[:2] + (own[2:4] if has_biases else [None, None]) + (own[-1:] if is_projected else [None])
            start = tuple(c.reshape(c.cut(s, 0, dirs * i + d, dirs * i + d + 1), s.shape[1:]) for s in states)
            y, state = _Layer(c, x, parts, gates, d == 1).run(start, step)
            results.append(y)
            for kind, s in zip(last, state, strict=True):
                kind.append(c.reshape(s, (1, *s.shape)))
        x = c.join(results, 2)
        if dropout and train and i < num - 1:
            x = c.g.dropout(x, rate=float(dropout))
    x = c.transpose(x, [1, 0, 2]) if batch_first else x
    return [x, *(c.join(kind, 0) for kind in last)]


@row("lstm.input", random=True)
def lstm(c, x, states, weights, *words):
    return _layers(c, x, states, weights, *words, 4, _lstm_step)


@row("gru.input", random=True)
def gru(c, x, state, weights, *words):
    return _layers(c, x, [state], weights, *words, 3, _gru_step)


@row("rnn_tanh.input", random=True)
def rnn_tanh(c, x, state, weights, *words):
    return _layers(c, x, [state], weights, *words, 1, _plain_step(lambda g, x: g.tanh(x)))


@row("rnn_relu.input", random=True)
def rnn_relu(c, x, state, weights, *words):
    return _layers(c, x, [state], weights, *words, 1, _plain_step(lambda g, x: g.relu(x)))


# ---- tracing ----


def _types(x, states, weights, both, batch_first):
    """Results of these types that have a gradient if one of the arguments has."""
    depends = sum(w.flatten()[0] for w in [x, *weights]) * 0
    dirs, size = 2 if both else 1, states[0].shape[2]
    return (*[x.new_zeros((*x.shape[:2], dirs * size)) + depends], *[s * 1 + depends for s in states])


def _lstm_types(x, states, weights, biases, num, dropout, train, both, batch_first):
    return _types(x, states, weights, both, batch_first)


def _other_types(x, state, weights, biases, num, dropout, train, both, batch_first):
    return _types(x, [state], weights, both, batch_first)


@contextlib.contextmanager
def traced_whole():
    """Lets recurrent layers, while a module is traced, be one op each."""
    kinds = {"lstm": _lstm_types, "gru": _other_types, "rnn_tanh": _other_types, "rnn_relu": _other_types}
    keys, before = (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd), {}
    for name, function in kinds.items():
        op = getattr(torch.ops.aten, name).input
        before[op] = dict(op.py_kernels)
        op.py_kernels.update(dict.fromkeys(keys, function))
        op._dispatch_cache.clear()
    try:
        yield
    finally:
        for op, own in before.items():
            op.py_kernels.clear()
            op.py_kernels.update(own)
            op._dispatch_cache.clear()
