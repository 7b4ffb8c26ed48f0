#!/usr/bin/env python3
"""An ONNX file: predictions, training, and the trained weights written back into it.

python3 onnx_file.py: makes a small file by the package onnx in an empty folder, and checks by onnxruntime, or where
that is missing by the package's own reference, what msc computes."""

import os
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import msc


def make(path):
    """A network of two layers, for a batch of any size."""
    random = np.random.default_rng(0)
    weights = {
        "hidden.w": random.standard_normal((20, 32)) / 4,
        "hidden.b": np.zeros(32),
        "out.w": random.standard_normal((32, 5)) / 4,
        "out.b": np.zeros(5),
    }
    nodes = [
        helper.make_node("Gemm", ["x", "hidden.w", "hidden.b"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Gemm", ["r", "out.w", "out.b"], ["logits"]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 20])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 5])],
        [numpy_helper.from_array(v.astype("f4"), n) for n, v in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)


def by_others(path, x):
    try:
        import onnxruntime
    except ImportError:
        from onnx.reference import ReferenceEvaluator

        return ReferenceEvaluator(path).run(None, {"x": x})[0]
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


def near(a, b):
    off = np.abs(np.asarray(a) - np.asarray(b)).max()
    assert off < 1e-4, f"off by {off}"


def main():
    make("net.onnx")
    random = np.random.default_rng(1)
    x = random.standard_normal((64, 20)).astype("f4")
    labels = x[:, :5].argmax(1)

    msc.import_onnx("net.onnx", "net.fbs", dims={"batch": 16})
    with msc.compile("net.fbs").run() as job:
        near(job.predict("logits", x=x), by_others("net.onnx", x))

    msc.import_onnx(
        "net.onnx",
        "train.fbs",
        dims={"batch": 16},
        loss="softmax_cross_entropy:logits",
        optimizer="adamw:lr=0.01,weight_decay=0.01",
    )
    with msc.compile("train.fbs").run() as job:
        losses = [job.step(x=x[i : i + 16], y=labels[i : i + 16]) for _ in range(20) for i in range(0, 64, 16)]
        logits = job.predict("logits", x=x).numpy()
        job.save("trained.safetensors")
    msc.export_onnx("trained.safetensors", "net.onnx", "trained.onnx")
    onnx.checker.check_model("trained.onnx")
    near(by_others("trained.onnx", x), logits)
    assert (logits.argmax(1) == labels).mean() > 0.95
    print(f"loss {losses[0]:.4f} at first, {losses[-1]:.4f} at last")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        main()
        os.chdir("/")
