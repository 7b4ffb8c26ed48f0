#!/usr/bin/env python3
"""far_update: in a deep network thousands of ops lie between a gradient and its update: fuse makes one kernel of both,
as where they stand side by side."""
import os
import subprocess
import sys

MSC = os.environ.get("MSC", "build/msc")
GPU = ' attributes {msc.target = "cuda"}'


def fused(num_between, target):
    """How many kernels have several ops, and whether one is of the slice and the update."""
    matrix, part = "tensor<64x96xf32>", "tensor<64x80xf32>"
    lines = [f'    %s = "msc.slice"(%g) {{limit = [64, 80], start = [0, 0]}} : ({matrix}) -> {part}']
    last = "%x"
    for i in range(num_between):  # products, which no kernel joins
        lines.append(f'    %p{i} = "msc.gemm"({last}, %x) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>')
        last = f"%p{i}"
    lines.append(f'    %u = "msc.sgd"(%w, %s) {{lr = 5.0e-02 : f64}} : ({part}, {part}) -> {part}')
    text = f"""module{target} {{
  "msc.func"() ({{
  ^bb0(%g: {matrix}, %w: {part}, %x: tensor<8x8xf32>):
""" + "\n".join(lines) + f"""
    "msc.return"(%u, {last}) : ({part}, tensor<8x8xf32>) -> ()
  }}) {{sym_name = "main"}} : () -> ()
}}
"""
    done = subprocess.run([MSC, "opt", "--passes=fuse", "/dev/stdin"], input=text, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    kernels = done.stdout.split('"msc.fused"')[1:]
    return len(kernels), any("msc.slice" in k.split("msc.yield")[0] and "msc.sgd" in k.split("msc.yield")[0]
                             for k in kernels)


for target in "", GPU:
    for num in 2, 6000:
        assert fused(num, target) == (1, True), f"{num} products between a gradient and its update, {target or 'CPU'}"
print("updates are fused with gradients 2 and 6000 ops before them")
