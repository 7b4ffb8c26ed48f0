"""Transformers: gpt and bert with learned positions and layer_norm, llama with rotary positions, rms_norm and gated
layers."""
from math import sqrt

from msc.models import network
from msc.ops import Error

STD = 0.02  # of initial weights, as GPT-2's


class Builder:
    """A graph with the sizes of one transformer; every layer's parameters are called like the layer."""

    def __init__(self, g, options):
        self.g, self.o = g, options
        if options.hidden % options.heads:
            raise Error(f"--hidden {options.hidden} is not a multiple of --heads {options.heads}")
        self.rate = getattr(options, "dropout", 0.0)

    def linear(self, x, features, name, bias=True, std=STD):
        """x [.., in] -> [.., features]"""
        g, rank = self.g, len(x.shape)
        w = g.parameter(f"{name}.weight", "f32", [x.shape[-1], features], init=f"normal:{std!r}")
        y = (g.matmul if rank == 2 else g.batch_matmul)(x, w, name=name)
        return g.add(y, g.parameter(f"{name}.bias", "f32", [features]), name=f"{name}.bias_add") if bias else y

    def layer_norm(self, x, name):
        gamma, beta = (self.g.parameter(f"{name}.{n}", "f32", [x.shape[-1]], init=i) for n,
                       i in (("gamma", "ones"), ("beta", "zeros")))
        return self.g.layer_norm(x, gamma=gamma, beta=beta, name=name)

    def rms_norm(self, x, name):
        return self.g.rms_norm(x, gamma=self.g.parameter(f"{name}.gamma", "f32", [x.shape[-1]], init="ones"), name=name)

    def dropped(self, x, name):
        return self.g.dropout(x, self.rate, name=name) if self.rate else x

    def embedding(self, ids, rows, name):
        return self.g.gather(self.g.parameter(f"{name}.table", "f32", [rows, self.o.hidden], init=f"normal:{STD}"), ids,
                             name=name)

    def heads(self, x, count, name):
        """[b, s, count * e] -> [b, count, s, e]"""
        b, s, d = x.shape
        return self.g.transpose(self.g.reshape(x, [b, s, count, d // count], name=f"{name}.heads"),
                                [0, 2, 1, 3], name=f"{name}.transpose")

    def attention(self, x, name, causal=False, kv_heads=None, bias=True, turned=False):
        """Self attention with its four projections; kv_heads: fewer heads of keys and values; turned: rotary
        positions."""
        g, o = self.g, self.o
        width = o.hidden // o.heads
        parts = []
        for part, count in (("query", o.heads), ("key", kv_heads or o.heads), ("value", kv_heads or o.heads)):
            y = self.heads(self.linear(x, count * width, f"{name}.{part}", bias), count, f"{name}.{part}")
            parts.append(g.rotary(y, name=f"{name}.{part}.rotary") if turned and part != "value" else y)
        y = self.weighed(*parts, causal, name)
        y = g.reshape(g.transpose(y, [0, 2, 1, 3], name=f"{name}.transpose"), list(x.shape), name=f"{name}.merge")
        return self.linear(y, o.hidden, f"{name}.out", bias, self.deep_std())

    def weighed(self, q, k, v, causal, name):
        """Attention, with a share of its weights dropped."""
        g, rate = self.g, getattr(self.o, "attention_dropout", 0.0)
        if not rate:
            return g.attention(q, k, v, causal=causal, name=name)
        shape = [*q.shape[:3], k.shape[2]]
        if min(shape) < 0:
            raise Error("--attention-dropout needs a --batch that is known")
        keep = g.dropout(g.constant(1.0, shape=shape), rate, name=f"{name}.weights.dropout")
        return g.dropped_attention(q, k, v, keep, causal=causal, name=name)

    def deep_std(self):
        """Of weights whose result is added to the stream: smaller, the more are added (GPT-2)."""
        return STD / sqrt(2 * self.o.layers)

    def feed_forward(self, x, name):
        h = self.g.gelu(self.linear(x, 4 * self.o.hidden, f"{name}.up"), "tanh", name=f"{name}.gelu")
        return self.linear(h, self.o.hidden, f"{name}.down", std=self.deep_std())

    def gated(self, x, width, name):
        h = self.g.mul(self.g.silu(self.linear(x, width, f"{name}.gate", False), name=f"{name}.silu"),
                       self.linear(x, width, f"{name}.up", False), name=f"{name}.mul")
        return self.linear(h, self.o.hidden, f"{name}.down", False, self.deep_std())

    def added(self, x, y, name):
        return self.g.add(x, self.dropped(y, f"{name}.dropout"), name=f"{name}.add")

    def tokens(self):
        return self.g.input("x", "i32", [self.o.batch, self.o.seq])

    def with_positions(self, x):
        position = self.g.parameter("position.table", "f32", [self.o.seq, self.o.hidden], init=f"normal:{STD}")
        return self.dropped(self.g.add(x, position, name="position"), "embedding.dropout")

    def finish(self, logits):
        g = self.g
        g.output("logits", logits)
        g.loss(g.softmax_cross_entropy(logits, g.input("y", "i32", [self.o.batch, self.o.seq], role="label"),
                                       name="loss"))


SIZES = {"layers": (12, "transformer blocks"), "hidden": (768, "width of the stream"), "heads": (12, "attention heads"),
         "seq": (128, "tokens per sample"),
         "vocab": (8192, "tokens known")}
DROPOUT = {"dropout": (0.0, "share of elements dropped in training"),
           "attention_dropout": (0.0, "share of attention's weights dropped in training")}
RECOMPUTE = {"recompute": (0, "1: the backward computes the inside of every block again")}


@network(**SIZES, **DROPOUT, **RECOMPUTE, stages=(0, "stages of a pipeline, each with as many blocks, for the key "
                                                "pipeline_stages; 0: cut where msc finds best"))
def gpt(g, options):
    """decoder as GPT-2: predicts the next token; x and y are token numbers [batch, seq]"""
    b = Builder(g, options)
    x = b.with_positions(b.embedding(b.tokens(), options.vocab, "embedding"))
    for i in range(options.layers):
        stage = i * options.stages // options.layers if options.stages else None
        with g.block(f"layer{i}", recompute=True if options.recompute else None, pipeline_stage=stage):
            x = b.added(x, b.attention(b.layer_norm(x, f"layer{i}.norm1"), f"layer{i}.attention", causal=True),
                        f"layer{i}.attention")
            x = b.added(x, b.feed_forward(b.layer_norm(x, f"layer{i}.norm2"), f"layer{i}.mlp"), f"layer{i}.mlp")
    b.finish(b.linear(b.layer_norm(x, "norm"), options.vocab, "head", bias=False))


@network(**SIZES, **DROPOUT, **RECOMPUTE)
def bert(g, options):
    """encoder as BERT: a class for every token; x and y are token numbers [batch, seq]"""
    b = Builder(g, options)
    x = b.layer_norm(b.with_positions(b.embedding(b.tokens(), options.vocab, "embedding")), "embedding.norm")
    for i in range(options.layers):
        with g.block(f"layer{i}", recompute=True if options.recompute else None):
            x = b.layer_norm(b.added(x, b.attention(x, f"layer{i}.attention"), f"layer{i}.attention"),
                             f"layer{i}.norm1")
            x = b.layer_norm(b.added(x, b.feed_forward(x, f"layer{i}.mlp"), f"layer{i}.mlp"), f"layer{i}.norm2")
    h = b.layer_norm(g.gelu(b.linear(x, options.hidden, "head.dense"), "tanh", name="head.gelu"), "head.norm")
    b.finish(b.linear(h, options.vocab, "head"))


@network(**SIZES, **RECOMPUTE, kv_heads=(0, "heads of keys and values; 0: as many as --heads"),
         width=(0, "of the gated layers; 0: 8/3 of --hidden, a multiple of 32"))
def llama(g, options):
    """decoder as Llama: rotary positions, rms_norm, gated layers, grouped heads"""
    b = Builder(g, options)
    kv_heads, width = options.kv_heads or options.heads, options.width or (options.hidden * 8 // 3 + 31) // 32 * 32
    if options.heads % kv_heads:
        raise Error(f"--heads {options.heads} is not a multiple of --kv-heads {kv_heads}")
    x = b.embedding(b.tokens(), options.vocab, "embedding")
    for i in range(options.layers):
        with g.block(f"layer{i}", recompute=True if options.recompute else None):
            x = b.added(x, b.attention(b.rms_norm(x, f"layer{i}.norm1"), f"layer{i}.attention", True, kv_heads, False,
                                       True), f"layer{i}.attention")
            x = b.added(x, b.gated(b.rms_norm(x, f"layer{i}.norm2"), width, f"layer{i}.mlp"), f"layer{i}.mlp")
    b.finish(b.linear(b.rms_norm(x, "norm"), options.vocab, "head", bias=False))
