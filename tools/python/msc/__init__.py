"""msc: builds model.fbs, the input of the msc compiler.

    import msc
    g = msc.Graph("classifier")
    x = g.input("x", "f32", [32, 784])
    y = g.input("y", "i32", [32], role="label")
    logits = g.dense(x, 10, name="dense1", in_strategy=((2, 4), (4, 1)))
    g.output("logits", logits)
    g.loss(g.softmax_cross_entropy(logits, y))
    g.optimizer("momentum", lr=0.05, momentum=0.9)
    g.save("model.fbs")
"""
from msc.graph import Graph, Tensor
from msc.moe import moe_layer
from msc.ops import Error, Type

Graph.moe_layer = moe_layer


def __getattr__(name):
    """What needs PyTorch is imported when it is used."""
    if name in ("export", "annotate", "shard"):
        from msc import pytorch
        return getattr(pytorch, name)
    raise AttributeError(f"module msc has no attribute {name}")


__version__ = "0.1.0"
__all__ = ["Error", "Graph", "Tensor", "Type"]  # and export, annotate, shard, which import torch
