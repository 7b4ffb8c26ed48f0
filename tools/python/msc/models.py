"""python3 -m msc.models NAME -o model.fbs: the built-in networks.  The data input is called x, the labels y."""
import argparse
import ast
import sys

from msc.graph import OPTIMIZERS, Graph
from msc.ops import Error


def _input(g, options):
    """Images of 28 by 28 flattened by the network, or rows of 784 numbers."""
    if options.flat:
        return g.input("x", "f32", [options.batch, 784])
    return g.flatten(g.input("x", "f32", [options.batch, 28, 28]), name="flatten")


def ffn(options):
    """784-512-256-128-64-10, ReLU, softmax cross entropy against class numbers."""
    g = Graph("ffn")
    h = _input(g, options)
    sizes = [512, 256, 128, 64, 10]
    transposed = set(options.transposed)
    for i, size in enumerate(sizes, 1):
        h = g.dense(h, size, name=f"dense{i}", transposed=f"dense{i}" in transposed)
        if i < len(sizes):
            h = g.relu(h, name=f"relu{i}")
    y = g.input("y", "i32", [options.batch], role="label")
    g.output("logits", h)
    g.loss(g.softmax_cross_entropy(h, y, name="loss"))
    return g


def mlp(options):
    """784-512-512-1, ReLU, mean absolute error against numbers."""
    g = Graph("mlp")
    h = _input(g, options)
    sizes = [512, 512, 1]
    transposed = set(options.transposed)
    for i, size in enumerate(sizes, 1):
        h = g.dense(h, size, name=f"layer{i}", transposed=f"layer{i}" in transposed)
        if i < len(sizes):
            h = g.relu(h, name=f"relu{i}")
    y = g.input("y", "f32", [options.batch, 1], role="label")
    g.output("logits", h)
    g.loss(g.mean_absolute_error(h, y, name="loss"))
    return g


MODELS = {"ffn": ffn, "mlp": mlp}


def strategy(text):
    """dense1=((2,4),(4,1))"""
    name, equals, value = text.partition("=")
    try:
        parts = ast.literal_eval(value)
        if not name or not equals or not all(isinstance(p, int) for entry in parts for p in entry):
            raise ValueError
    except (ValueError, SyntaxError, TypeError):
        raise argparse.ArgumentTypeError(f"'{text}' is not of the form OP=((2,4),(4,1))") from None
    return name, parts


def positive(text):
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of at least 1")
    return int(text)


def batch(text):
    return -1 if text == "-1" else positive(text)


def parse(argv):
    p = argparse.ArgumentParser(prog="python3 -m msc.models", description="Writes one of the built-in networks as model.fbs.")
    p.add_argument("model", choices=sorted(MODELS), help="; ".join(f"{n}: {f.__doc__}" for n, f in sorted(MODELS.items())))
    p.add_argument("-o", dest="out", required=True, metavar="FILE", help="the file to write")
    p.add_argument("--batch", type=batch, default=32, metavar="N", help="samples per step (32); -1: given later by msc compile --dim batch=N")
    p.add_argument("--flat", action="store_true", help="x is [N, 784] instead of [N, 28, 28] with a flatten")
    p.add_argument("--optimizer", choices=OPTIMIZERS, default="momentum")
    p.add_argument("--lr", type=float, default=1e-3, help="learning rate (0.001)")
    p.add_argument("--momentum", type=float, default=0.1, help="of optimizer momentum (0.1)")
    p.add_argument("--weight-decay", type=float, default=None)
    p.add_argument("--strategy", type=strategy, action="append", default=[], metavar="OP=((..),(..))", help="in_strategy of an op; may be repeated")
    p.add_argument("--transposed", action="append", default=[], metavar="LAYER", help="store this layer's weight as [out, in]; may be repeated")
    return p.parse_args(argv)


def build(options):
    g = MODELS[options.model](options)
    unknown = [t for t in options.transposed if not any(p["name"] == f"{t}.weight" for p in g._parameters)]
    if unknown:
        raise Error(f"--transposed: there is no layer {unknown[0]}")
    attrs = {"lr": options.lr}
    if options.optimizer == "momentum":
        attrs["momentum"] = options.momentum
    if options.weight_decay is not None:
        attrs["weight_decay"] = options.weight_decay
    g.optimizer(options.optimizer, **attrs)
    for name, parts in options.strategy:
        g.annotate(name, in_strategy=parts)
    return g


def main(argv):
    options = parse(argv)
    try:
        build(options).save(options.out)
    except (Error, OSError) as e:
        sys.exit(f"msc.models: error: {e}")


if __name__ == "__main__":
    main(sys.argv[1:])
