#!/usr/bin/env python3
"""gpt.py: sizes on the command line -> a GPT training graph written from primitives (model.fbs), for compile-time
figures."""
import argparse
import ast
import os
import sys

sys.path.insert(
    0, os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "tools/python"))
from msc.graph import Graph  # noqa: E402


def dense(g, x, features, name, bias=True):
    w = g.parameter(f"{name}.weight", "f32", [x.shape[-1], features], init="normal:0.02")
    y = g.batch_matmul(x, w, name=name)
    return g.add(y, g.parameter(f"{name}.bias", "f32", [features]), name=f"{name}.bias_add") if bias else y


def layer_norm(g, x, name):
    d = x.shape[-1]
    gamma = g.parameter(f"{name}.gamma", "f32", [d], init="ones")
    beta = g.parameter(f"{name}.beta", "f32", [d])
    centered = g.sub(x, g.reduce_mean(x, dims=[2], keep_dims=True))
    variance = g.reduce_mean(g.mul(centered, centered), dims=[2], keep_dims=True)
    scale = g.rsqrt(g.add(variance, g.constant(1e-5)))
    return g.add(g.mul(g.mul(centered, scale), gamma), beta, name=name)


def heads_of(g, x, heads):
    b, s, d = x.shape
    return g.transpose(g.reshape(x, [b, s, heads, d // heads]), [0, 2, 1, 3])


def attention(g, x, heads, name):
    b, s, d = x.shape
    q, k, v = (heads_of(g, dense(g, x, d, name=f"{name}.{p}"), heads) for p in "qkv")
    weights = g.softmax(g.mul(g.batch_matmul(q, k, transpose_b=True), g.constant((d // heads)**-0.5)),
                        name=f"{name}.softmax")
    mixed = g.reshape(g.transpose(g.batch_matmul(weights, v), [0, 2, 1, 3]), [b, s, d])
    return dense(g, mixed, d, name=f"{name}.proj")


def layer(g, x, heads, name):
    x = g.add(x, attention(g, layer_norm(g, x, f"{name}.ln1"), heads, f"{name}.attention"), name=f"{name}.add1")
    h = g.gelu(dense(g, layer_norm(g, x, f"{name}.ln2"), 4 * x.shape[-1], name=f"{name}.fc1"), form="tanh")
    return g.add(x, dense(g, h, x.shape[-1], name=f"{name}.fc2"), name=f"{name}.add2")


def gpt(o):
    g = Graph("gpt")
    ids = g.input("x", "i32", [o.batch, o.seq])
    labels = g.input("y", "i32", [o.batch, o.seq], role="label")
    x = g.gather(g.parameter("tokens", "f32", [o.vocab, o.hidden], init="normal:0.02"), ids, name="embed")
    x = g.add(x, g.parameter("positions", "f32", [o.seq, o.hidden], init="normal:0.02"), name="positions_add")
    for i in range(o.layers):
        x = layer(g, x, o.heads, f"layer{i}")
    logits = dense(g, layer_norm(g, x, "ln"), o.vocab, name="head", bias=False)
    g.loss(g.softmax_cross_entropy(logits, labels, name="loss"))
    g.optimizer("adam", lr=1e-3)
    return g


p = argparse.ArgumentParser()
p.add_argument("-o", dest="out", required=True)
for key, value in (("layers", 24), ("hidden", 1024), ("heads", 16), ("seq", 128), ("batch", 128), ("vocab", 8192)):
    p.add_argument(f"--{key}", type=int, default=value)
p.add_argument("--strategy", action="append", default=[], metavar="OP=((..),(..))")
o = p.parse_args()
graph = gpt(o)
for given in o.strategy:
    graph.annotate(given.partition("=")[0], in_strategy=ast.literal_eval(given.partition("=")[2]))
graph.save(o.out)
