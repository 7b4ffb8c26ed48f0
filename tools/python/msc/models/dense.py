"""Networks of fully connected layers."""
from msc.models import network
from msc.ops import Error

FLAGS = {"flat": (False, "x is [N, 784] instead of [N, 28, 28] with a flatten"),
         "transposed": ([], "store this layer's weight as [out, in]; may be repeated")}


def layers(g, options, name, sizes):
    """A tower of dense layers NAME1 ... with a relu after each but the last."""
    unknown = [t for t in options.transposed if t not in [f"{name}{i + 1}" for i in range(len(sizes))]]
    if unknown:
        raise Error(f"--transposed: there is no layer {unknown[0]}")
    if options.flat:
        h = g.input("x", "f32", [options.batch, 784])
    else:
        h = g.flatten(g.input("x", "f32", [options.batch, 28, 28]), name="flatten")
    for i, size in enumerate(sizes, 1):
        h = g.dense(h, size, name=f"{name}{i}", transposed=f"{name}{i}" in options.transposed)
        if i < len(sizes):
            h = g.relu(h, name=f"relu{i}")
    g.output("logits", h)
    return h


@network(**FLAGS)
def ffn(g, options):
    """784-512-256-128-64-10, ReLU, softmax cross entropy against class numbers"""
    h = layers(g, options, "dense", [512, 256, 128, 64, 10])
    g.loss(g.softmax_cross_entropy(h, g.input("y", "i32", [options.batch], role="label"), name="loss"))


@network(**FLAGS)
def mlp(g, options):
    """784-512-512-1, ReLU, mean absolute error against numbers"""
    h = layers(g, options, "layer", [512, 512, 1])
    g.loss(g.mean_absolute_error(h, g.input("y", "f32", [options.batch, 1], role="label"), name="loss"))
