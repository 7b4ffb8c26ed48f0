#!/usr/bin/env python3
"""make_networks: writes tests/e2e/networks/NAME.losses, what PyTorch makes of the built-in networks step by step,
from the same weights and samples.  Needs torch and a built msc; the files are committed, so that tests need no
torch."""
import math
import os
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F

import formula
from network import Network
from networks import BATCH, NETWORKS, SAMPLES, STEPS, words

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "networks")


class Run:
    """Parameters by name, and the layers that use them by the layer's name."""

    def __init__(self, parameters, options):
        self.p = parameters
        self.more = 0.0  # to be added to the loss
        self.o = {options[i].lstrip("-"): int(options[i + 1]) for i in range(0, len(options), 2)}

    def linear(self, x, name):
        y = x @ self.p[f"{name}.weight"]
        return y + self.p[f"{name}.bias"] if f"{name}.bias" in self.p else y

    def layer_norm(self, x, name):
        return F.layer_norm(x, x.shape[-1:], self.p[f"{name}.gamma"], self.p[f"{name}.beta"], 1e-5)

    def rms_norm(self, x, name):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.p[f"{name}.gamma"]

    def attention(self, x, name, causal=False, turned=False):
        b, s, d = x.shape
        width = d // self.o["heads"]
        q, k, v = (self.linear(x, f"{name}.{part}").view(b, s, -1, width).transpose(1, 2)
                   for part in ("query", "key", "value"))
        if turned:
            q, k = rotated(q), rotated(k)
        groups = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return self.linear(y.transpose(1, 2).reshape(b, s, d), f"{name}.out")

    def feed_forward(self, x, name):
        return self.linear(F.gelu(self.linear(x, f"{name}.up"), approximate="tanh"), f"{name}.down")

    def gated(self, x, name):
        return self.linear(F.silu(self.linear(x, f"{name}.gate")) * self.linear(x, f"{name}.up"), f"{name}.down")


def rotated(x):
    """Pairs (i, i + n/2) turned by position * 10000^(-2i/n)."""
    s, n = x.shape[-2:]
    angle = torch.arange(s).unsqueeze(1) * 10000 ** (-torch.arange(0, n, 2) / n)
    a, b = x.chunk(2, -1)
    return torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), -1)


def gpt(r, ids):
    x = r.p["embedding.table"][ids] + r.p["position.table"]
    for i in range(r.o["layers"]):
        x = x + r.attention(r.layer_norm(x, f"layer{i}.norm1"), f"layer{i}.attention", causal=True)
        x = x + r.feed_forward(r.layer_norm(x, f"layer{i}.norm2"), f"layer{i}.mlp")
    return r.linear(r.layer_norm(x, "norm"), "head")


def bert(r, ids):
    x = r.layer_norm(r.p["embedding.table"][ids] + r.p["position.table"], "embedding.norm")
    for i in range(r.o["layers"]):
        x = r.layer_norm(x + r.attention(x, f"layer{i}.attention"), f"layer{i}.norm1")
        x = r.layer_norm(x + r.feed_forward(x, f"layer{i}.mlp"), f"layer{i}.norm2")
    h = r.layer_norm(F.gelu(r.linear(x, "head.dense"), approximate="tanh"), "head.norm")
    return r.linear(h, "head")


def llama(r, ids):
    x = r.p["embedding.table"][ids]
    for i in range(r.o["layers"]):
        x = x + r.attention(r.rms_norm(x, f"layer{i}.norm1"), f"layer{i}.attention", causal=True, turned=True)
        x = x + r.gated(r.rms_norm(x, f"layer{i}.norm2"), f"layer{i}.mlp")
    return r.linear(r.rms_norm(x, "norm"), "head")


def wide_deep(r, x):
    ids = x + r.o["vocab"] * torch.arange(x.shape[1])
    h = r.p["embedding.table"][ids].flatten(1)
    for i in range(r.o["layers"]):
        h = F.relu(r.linear(h, f"deep{i + 1}"))
    return r.linear(h, "out") + r.p["wide.table"][ids].sum(1)


def experts(r, x, name, top_k=2):
    """A loop over tokens in place of the products by masks: who comes when no place is left gets zeros."""
    gates = (x @ r.p[f"{name}.router.weight"]).softmax(-1)
    values, chosen = gates.topk(top_k, -1)
    shares = values / values.sum(-1, keepdim=True)
    groups, tokens, count = gates.shape
    capacity = max(1, math.ceil(tokens * top_k * 1.25 / count))
    out = []
    for g in range(groups):
        taken, rows = [0] * count, [0.0] * tokens
        for k in range(top_k):
            for s in range(tokens):
                e = int(chosen[g, s, k])
                taken[e] += 1
                if taken[e] <= capacity:
                    h = F.gelu(x[g, s] @ r.p[f"{name}.up.weight"][e],
                               approximate="tanh") @ r.p[f"{name}.down.weight"][e]
                    rows[s] = rows[s] + shares[g, s, k] * h
        out.append(torch.stack([row if torch.is_tensor(row) else torch.zeros_like(x[g, 0]) for row in rows]))
    load = F.one_hot(chosen[..., 0], count).float().mean(1)
    r.more = r.more + 0.01 * count * (load * gates.mean(1)).sum(-1).mean()
    return torch.stack(out)


def moe(r, ids):
    x = r.p["embedding.table"][ids] + r.p["position.table"]
    for i in range(r.o["layers"]):
        x = x + r.attention(r.layer_norm(x, f"layer{i}.norm1"), f"layer{i}.attention", causal=True)
        x = x + experts(r, r.layer_norm(x, f"layer{i}.norm2"), f"layer{i}.moe")
    return r.linear(r.layer_norm(x, "norm"), "head")


def described(name, head):
    """The network as msc sees it."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.fbs")
        subprocess.run([sys.executable, *words(name), "-o", path], check=True)
        return Network(name,
                       subprocess.run([MSC, "dump", path], check=True, capture_output=True, text=True).stdout, head)


def sample_tensors(network):
    """The inputs' samples, by name."""
    found = {}
    for name, role, shape, dtype, _ in network.args:
        if role != "parameter":
            kind = torch.long if dtype == "i32" else torch.float32
            found[name] = torch.tensor(list(network.samples_of(role, shape, dtype)),
                                       dtype=kind).view([network.samples] + shape[1:])
    return found


def losses(name, compute_type=torch.float32):
    """With a narrow compute_type under autocast."""
    options, classes = NETWORKS[name]
    head = f"# batch {BATCH}, {SAMPLES} samples in order, {classes} classes; torch {torch.__version__}"
    network = described(name, head)
    parameters = {n: torch.tensor(formula.weights(i, init, math.prod(shape))).view(shape).requires_grad_()
                  for i, (n, role, shape, _, init) in enumerate(network.args) if role == "parameter"}
    data = sample_tensors(network)
    optimizer = torch.optim.Adam(parameters.values(), lr=0.003)
    yield head
    for step in range(STEPS):
        rows = [(step * BATCH + i) % SAMPLES for i in range(BATCH)]
        run = Run(parameters, options)
        with torch.autocast("cpu", compute_type, enabled=compute_type != torch.float32):
            logits, y = globals()[name](run, data["x"][rows]), data["y"][rows]
            if y.is_floating_point():
                loss = F.binary_cross_entropy_with_logits(logits, y)
            else:
                loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1)) + run.more
        yield repr(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main():
    torch.set_num_threads(1)
    os.makedirs(FOLDER, exist_ok=True)
    for name in sys.argv[1:] or NETWORKS:
        with open(os.path.join(FOLDER, name + ".losses"), "w") as out:
            out.write("\n".join(losses(name)) + "\n")


if __name__ == "__main__":
    main()
