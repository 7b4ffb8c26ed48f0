#!/usr/bin/env python3
"""peers NAME BATCH STEPS: the FFN's training step by PyTorch, JAX or numpy; one line of JSON.  Started by run.py with
whatever Python has the library."""
import json
import resource
import statistics
import sys
import time

SIZES = (784, 512, 256, 128, 64, 10)
RATE, MOMENTUM = 0.05, 0.9


def torch_step(batch):
    import torch
    from torch import nn

    torch.manual_seed(0)
    layers = []
    for fan_in, fan_out in zip(SIZES, SIZES[1:]):
        layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM, foreach=True)
    x, y = torch.rand(batch, SIZES[0]), torch.randint(0, SIZES[-1], (batch,))

    def step():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return torch.__version__, step


def jax_step(batch):
    import os

    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    import jax.numpy as jnp
    import numpy

    random = numpy.random.default_rng(0)
    weights = [(jnp.asarray(random.normal(0, i**-0.5, (i, o)), jnp.float32), jnp.zeros(o))
               for i, o in zip(SIZES, SIZES[1:])]
    state = jax.tree.map(jnp.zeros_like, weights)
    x, y = jnp.asarray(random.random((batch, SIZES[0])), jnp.float32), jnp.asarray(random.integers(0, SIZES[-1], batch))

    def loss(w, x, y):
        for a, b in w[:-1]:
            x = jax.nn.relu(x @ a + b)
        return -jnp.take_along_axis(jax.nn.log_softmax(x @ w[-1][0] + w[-1][1]), y[:, None], -1).mean()

    def update(w, s, x, y):
        value, gradient = jax.value_and_grad(loss)(w, x, y)
        s = jax.tree.map(lambda m, g: MOMENTUM * m + g, s, gradient)
        return jax.tree.map(lambda p, m: p - RATE * m, w, s), s, value

    compiled = jax.jit(update, donate_argnums=(0, 1))

    def step():
        nonlocal weights, state
        weights, state, value = compiled(weights, state, x, y)
        return float(value)

    return jax.__version__, step


def numpy_step(batch):
    import numpy as np

    random = np.random.default_rng(0)
    weights = [(random.normal(0, i ** -0.5, (i, o)).astype("f4"), np.zeros(o, "f4")) for i, o in zip(SIZES, SIZES[1:])]
    state = [(np.zeros_like(w), np.zeros_like(b)) for w, b in weights]
    x, y = random.random((batch, SIZES[0]), "f4"), random.integers(0, SIZES[-1], batch)

    def step():
        values = [x]
        for w, b in weights[:-1]:
            values.append(np.maximum(values[-1] @ w + b, 0))
        logits = values[-1] @ weights[-1][0] + weights[-1][1]
        logits -= logits.max(1, keepdims=True)
        share = np.exp(logits)
        share /= share.sum(1, keepdims=True)
        loss = -np.log(share[np.arange(batch), y]).mean()
        share[np.arange(batch), y] -= 1
        gradient = share / np.float32(batch)
        for i in reversed(range(len(weights))):
            for part, g in zip((0, 1), (values[i].T @ gradient, gradient.sum(0))):
                if part == 0:
                    below = gradient @ weights[i][0].T
                state[i][part][...] = MOMENTUM * state[i][part] + g
                weights[i][part][...] -= np.float32(RATE) * state[i][part]
            gradient = below * (values[i] > 0)
        return float(loss)

    return np.__version__, step


def main():
    name, batch, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    try:
        version, step = {"torch": torch_step, "jax": jax_step, "numpy": numpy_step}[name](batch)
    except ImportError as error:
        print(json.dumps({"name": name, "missing": str(error)}))
        return
    begin = time.perf_counter()
    step()
    first = time.perf_counter() - begin
    for _ in range(5):
        step()
    times = []
    for _ in range(steps):
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    print(json.dumps({"name": name, "version": version, "first_ms": first * 1e3, "ms": statistics.median(times) * 1e3,
                      "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


main()
