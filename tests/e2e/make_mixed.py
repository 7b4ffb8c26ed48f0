#!/usr/bin/env python3
"""make_mixed: writes tests/e2e/mixed/NAME.losses, what PyTorch's autocast makes in bf16, on the CPU, of networks of
make_fixtures and make_networks, and NAME.errors, how far its first gradients are from those in f64.  Needs torch and a
built msc; the files are committed, so that tests need no torch."""
import os

import torch

import make_fixtures
import make_networks

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mixed")
FIXTURES = ("mlp", "sgd", "adamw", "channels")
NETWORKS = ("gpt", "llama")
ERRORS = ("channels",)  # whose gradients are compared


def write(name, lines):
    with open(os.path.join(FOLDER, name), "w") as out:
        out.write("\n".join(lines) + "\n")
    print(f"{name}: {lines[1]} -> {lines[-1]}")


def fixture(name):
    net = getattr(make_fixtures, name)()
    head = (f"# batch {net.batch}, {net.samples} samples in order, {net.classes} classes; torch {torch.__version__}, "
            f"autocast bf16")
    return [head] + [f"{v:.9g}" for v in net.losses(torch.bfloat16)]


def errors(name):
    """A line for each parameter: the distance of its gradient from that in f64, relative to the latter."""
    net = getattr(make_fixtures, name)()
    exact, narrow = net.gradients(torch.float64), net.gradients(torch.bfloat16)
    return [f"{p} {float((narrow[p] - g).norm() / g.norm()):.3g}" for p, g in exact.items()]


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    os.makedirs(FOLDER, exist_ok=True)
    for name in FIXTURES:
        write(name + ".losses", fixture(name))
    for name in ERRORS:
        write(name + ".errors", errors(name))
    for name in NETWORKS:
        head, *losses = make_networks.losses(name, torch.bfloat16)
        write(name + ".losses", [head + ", autocast bf16"] + losses)


if __name__ == "__main__":
    main()
