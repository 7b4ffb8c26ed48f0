"""msc: trains and runs neural networks on one or many ranks, from compiled plans.

A model, built here (every op of msc is a method of Graph; help(msc.Graph)), exported from PyTorch (msc.export), or
read from an ONNX file (msc.import_onnx); functions of JAX are msc.jax's:

    import msc
    g = msc.Graph("classifier")
    x = g.input("x", "f32", [32, 784])
    y = g.input("y", "i32", [32], role="label")
    logits = g.dense(x, 10, name="dense1")
    g.output("logits", logits)
    g.loss(g.softmax_cross_entropy(logits, y))
    g.optimizer("momentum", lr=0.05, momentum=0.9)

Compiled, with the keys of `msc config`, and executed in this process, with your own data and your own loop:

    plan = msc.compile(g, device_num=2, parallel_mode="data_parallel")   # or a path of a model.fbs
    print(plan.memory, plan.explain())
    with plan.run(seed=1) as job:                                        # two ranks, threads of this process
        for images, labels in batches:                                   # numpy, torch, lists, bytes
            loss = job.step(x=images, y=labels)
        scores = job.predict("logits", x=new_images).numpy()             # any number of samples, no labels
        job.save("trained.safetensors")

For the command line instead: g.save("model.fbs"), then msc compile and msc run; plan.save("plan.bin") likewise.

Without a plan, processes of a job exchange arrays: msc.init(), msc.get_rank(), msc.get_group_size(), and
help(msc.Team).

What is wrong with a model or its configuration is a CompileError with your own file and line, what goes wrong in a
run a RunError; both are Errors.  More: help(msc.compile), help(msc.Plan), help(msc.Job), help(msc.Array).
"""
from msc.array import Array
from msc.graph import Graph, Tensor
from msc.job import Job
from msc.moe import moe_layer
from msc.native import CompileError, CompileWarning, RunError
from msc.ops import Error, Type
from msc.plan import Plan, compile
from msc.processes import spawn
from msc.read_onnx import export_onnx, import_onnx
from msc.team import Team, finalize, get_group_size, get_rank, init

Graph.moe_layer = moe_layer


def __getattr__(name):
    """What needs PyTorch is imported when it is used."""
    if name in ("export", "annotate", "shard", "train_step"):
        from msc import pytorch
        return getattr(pytorch, name)
    raise AttributeError(f"module msc has no attribute {name}")


__version__ = "0.1.0"
__all__ = [
    "Array", "CompileError", "CompileWarning", "Error", "Graph", "Job", "Plan", "RunError", "Team", "Tensor", "Type",
    "compile", "export_onnx", "finalize", "get_group_size", "get_rank", "import_onnx", "init", "spawn"
]  # and export, train_step, annotate, shard, which import torch
