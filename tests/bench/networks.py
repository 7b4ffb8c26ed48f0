#!/usr/bin/env python3
"""networks [NAME ...]: PyTorch modules in; the time of a training step by msc.train_step beside eager PyTorch and, with
`--inductor`, torch.compile, on the same threads by turns; medians, ratios and the memory of msc's plan out.  A name
that ends in _bf16: products in bf16, compute_type of msc, autocast of PyTorch; in _fma: products of f32 by fma on a
CPU with AMX, too, key f32_products of msc.

    BENCH_THREADS=2 python3 tests/bench/networks.py gpt resnet18     with a Python that has torch (and torchvision)"""
import copy
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/python"))
THREADS = int(os.environ.get("BENCH_THREADS", "2"))
os.environ["OMP_NUM_THREADS"] = str(THREADS)
import torch
from torch import nn
from torch.nn import functional as F

import msc

ROUNDS, SECONDS = 5, 1.0  # of one measurement
NARROW, BY_FMA = "_bf16", "_fma"


class Block(nn.Module):
    """Of a decoder as GPT-2, or of an encoder."""

    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, s, d = x.shape
        y = self.norm1(x)
        q, k, v = (f(y).view(b, s, self.heads, d // self.heads).transpose(1, 2)
                   for f in (self.query, self.key, self.value))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal).transpose(1, 2).reshape(b, s, d)
        x = x + self.out(y)
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Transformer(nn.Module):
    def __init__(self, layers=4, width=256, heads=8, seq=128, vocab=4096, causal=True):
        super().__init__()
        self.table, self.position = nn.Embedding(vocab, width), nn.Parameter(0.02 * torch.randn(seq, width))
        self.blocks = nn.ModuleList(Block(width, heads, causal) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocab, bias=False)

    def forward(self, x):
        x = self.table(x) + self.position
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class LlamaBlock(nn.Module):
    def __init__(self, width=512, heads=8, groups=4, hidden=1376, seq=256):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.query, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.key, self.value = (nn.Linear(width, groups * self.size, bias=False) for _ in range(2))
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)
        angle = torch.outer(torch.arange(seq), 10000 ** (-torch.arange(0, self.size, 2) / self.size)).repeat(1, 2)
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def turned(self, x):
        half = x.shape[-1] // 2
        return x * self.cos + torch.cat((-x[..., half:], x[..., :half]), -1) * self.sin

    def forward(self, x):
        b, s, d = x.shape
        y = self.norm1(x)
        heads = lambda f, n: f(y).view(b, s, n, self.size).transpose(1, 2)
        q, k, v = heads(self.query, self.heads), heads(self.key, self.groups), heads(self.value, self.groups)
        y = F.scaled_dot_product_attention(self.turned(q), self.turned(k), v, is_causal=True, enable_gqa=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, s, d))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def perceptron():
    sizes = (784, 512, 256, 128, 64, 10)
    layers = [layer for i, o in zip(sizes, sizes[1:]) for layer in (nn.Linear(i, o), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def cross_entropy(output, label):
    return F.cross_entropy(output.reshape(-1, output.shape[-1]), label.reshape(-1))


def tokens(batch, seq, vocab):
    return torch.randint(0, vocab, (batch, seq)), torch.randint(0, vocab, (batch, seq))


def images(batch, size, classes):
    return torch.randn(batch, 3, size, size), torch.randint(0, classes, (batch,))


def vision(name, **words):
    import torchvision

    return getattr(torchvision.models, name)(weights=None, **words)


class Lstm(nn.Module):
    """Of 256 steps: a class after each."""

    def __init__(self, width=128):
        super().__init__()
        self.lstm, self.head = nn.LSTM(64, width, batch_first=True), nn.Linear(width, 10)

    def forward(self, x):
        return self.head(self.lstm(x)[0])


class WideDeep(nn.Module):
    """26 categories of 100,000: a table of numbers, and one of vectors before three layers."""

    def __init__(self, fields=26, rows=100_000, width=16):
        super().__init__()
        self.wide, self.deep = nn.Embedding(rows, 1), nn.Embedding(rows, width)
        self.layers = nn.Sequential(nn.Linear(fields * width, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU(),
                                    nn.Linear(64, 1))

    def forward(self, x):
        return self.wide(x).sum(1) + self.layers(self.deep(x).flatten(1))


NETWORKS = {  # module, batch, loss
    "ffn32": (perceptron, lambda: (torch.rand(32, 784), torch.randint(0, 10, (32,))), cross_entropy),
    "ffn512": (perceptron, lambda: (torch.rand(512, 784), torch.randint(0, 10, (512,))), cross_entropy),
    "gpt": (Transformer, lambda: tokens(8, 128, 4096), cross_entropy),
    "bert": (lambda: Transformer(causal=False), lambda: tokens(8, 128, 4096), cross_entropy),
    "llama_block": (LlamaBlock, lambda: (torch.randn(4, 256, 512), torch.randn(4, 256, 512)), F.mse_loss),
    "resnet18": (lambda: vision("resnet18", num_classes=10), lambda: images(64, 32, 10), cross_entropy),
    "resnet18_224": (lambda: vision("resnet18"), lambda: images(8, 224, 1000), cross_entropy),
    "resnet50_224": (lambda: vision("resnet50"), lambda: images(4, 224, 1000), cross_entropy),
    "convnext_tiny": (lambda: vision("convnext_tiny", stochastic_depth_prob=0.0), lambda: images(2, 224, 1000),
                      cross_entropy),
    "mobilenet_v3": (lambda: vision("mobilenet_v3_small", dropout=0.0), lambda: images(8, 224, 1000), cross_entropy),
    "efficientnet_b0": (lambda: vision("efficientnet_b0", dropout=0.0, stochastic_depth_prob=0.0),
                        lambda: images(4, 224, 1000), cross_entropy),
    "lstm": (Lstm, lambda: (torch.randn(16, 256, 64), torch.randint(0, 10, (16, 256))), cross_entropy),
    "wide_deep": (WideDeep, lambda: (torch.randint(0, 100_000, (512, 26)), torch.rand(512, 1).round()),
                  F.binary_cross_entropy_with_logits),
}


def optimizer_of(module):
    return torch.optim.SGD(module.parameters(), lr=1e-3, momentum=0.9, foreach=True)


def torch_step(module, call, loss, narrow):
    optimizer = optimizer_of(module)

    def step(x, y):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
            value = loss(call(x), y)
        value.backward()
        optimizer.step()
        return value.item()

    return step


def seconds_of(step, batch, times):
    """Of one thread its own time, which other work of the machine disturbs less."""
    clock = time.process_time if THREADS == 1 else time.perf_counter
    begin = clock()
    for _ in range(times):
        step(*batch)
    return (clock() - begin) / times


def network_of(name):
    return name.removesuffix(NARROW).removesuffix(BY_FMA)


def compare(name, inductor):
    narrow, keys = name.endswith(NARROW), {}
    make, batch_of, loss = NETWORKS[network_of(name)]
    if narrow:
        keys["compute_type"] = "bf16"
    if name.endswith(BY_FMA):
        keys["f32_products"] = "fma"
    torch.manual_seed(0)
    module, batch = make(), batch_of()
    eager, compiled, own = module, copy.deepcopy(module), copy.deepcopy(module)
    steps = {"msc": msc.train_step(own, loss, optimizer_of(own), threads=THREADS, **keys)}
    steps["eager"] = torch_step(eager, eager, loss, narrow)
    if inductor:
        steps["inductor"] = torch_step(compiled, torch.compile(compiled), loss, narrow)
    first, losses, taken, times = {}, {}, {s: [] for s in steps}, {}
    for contestant, step in steps.items():
        begin = time.perf_counter()
        losses[contestant] = step(*batch)
        first[contestant] = time.perf_counter() - begin
        times[contestant] = max(1, int(SECONDS / seconds_of(step, batch, 2)))
    for _ in range(ROUNDS):
        for contestant, step in steps.items():
            taken[contestant].append(seconds_of(step, batch, times[contestant]))
    median = {c: statistics.median(t) for c, t in taken.items()}
    best = min(t for c, t in median.items() if c != "msc")
    shown = "  ".join(f"{c} {t * 1e3:.2f} ms (first {first[c]:.2f} s)" for c, t in median.items())
    memory = steps["msc"].plan.memory["all"] / 1e6
    off = abs(losses["msc"] - losses["eager"])
    print(f"{name:<15} {shown}  msc is {best / median['msc']:.2f} times as fast, {memory:.0f} MB; losses differ by "
          f"{off:.1e}", flush=True)
    steps["msc"].close()


def main():
    torch.set_num_threads(THREADS)
    words = sys.argv[1:]
    names = [w for w in words if not w.startswith("-")] or [*NETWORKS, "gpt" + NARROW]
    for name in names:
        if network_of(name) not in NETWORKS:
            sys.exit(f"networks: no network is called {name}; there are {', '.join(NETWORKS)}")
    for name in names:
        compare(name, "--inductor" in words)


if __name__ == "__main__":
    main()
