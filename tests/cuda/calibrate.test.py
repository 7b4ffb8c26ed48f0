#!/usr/bin/env python3
"""calibrate: msc calibrate --target cuda on the stand-in: a description with the GPU's properties, its bandwidth, the
time of a launch, measured products, and links where there are several GPUs, that the compiler takes; a measured product
decides what a plan predicts."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from program import run_on_standin  # noqa: E402

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
STANDIN = os.path.join(os.path.dirname(MSC), "tests", "cuda", "standin")
TYPES = ("f32", "f64", "f16", "bf16")
MODEL = """"builtin.module"() ({
  "msc.func"() ({
  ^bb0(%a: tensor<512x512xbf16>, %b: tensor<8xf32>, %c: tensor<8xf32>, %d: tensor<4096xf32>, %e: tensor<8192xf32>):
    %w = "msc.matmul"(%a, %a) : (tensor<512x512xbf16>, tensor<512x512xbf16>) -> tensor<512x512xbf16>
    %x = "msc.add"(%b, %c) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %y = "msc.mul"(%d, %d) : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
    %z = "msc.relu"(%e) : (tensor<8192xf32>) -> tensor<8192xf32>
    "msc.return"(%w, %x, %y, %z) : (tensor<512x512xbf16>, tensor<8xf32>, tensor<4096xf32>, tensor<8192xf32>) -> ()
  }) {sym_name = "forward", results = ["w", "x", "y", "z"], arg_attrs = [""" + ", ".join(
    f'{{msc.name = "{name}", msc.role = "parameter", msc.init = "zeros"}}' for name in "abcde") + """]} : () -> ()
}) : () -> ()
"""


def run(*words, code=0, **env):
    done = subprocess.run([MSC, *words], capture_output=True, text=True, env={**os.environ, **env})
    assert done.returncode == code, (words, done)
    return done


def write(name, text):
    with open(name, "w") as file:
        file.write(text)


def main():
    write("net.mlir", MODEL)
    run("compile", "net.mlir", "--target", "cuda", "--dump-dir", "ir", "-o", "net.bin")
    # add, mul and relu are the kernels that calibrate runs: the stand-in takes them from here, of any size
    gpu = {"LD_LIBRARY_PATH": STANDIN, "MSC_STANDIN_KERNELS": os.path.abspath("ir/kernels.ll")}

    done = run("calibrate", "--target", "cuda", "--quick", "-o", "one.json", **gpu)
    assert "one GPU has no links to others: they are described as those of h100" in done.stderr, done.stderr
    one = json.load(open("one.json"))
    device = one["device"]
    assert device["name"] == "stand-in 0" and device["memory_bytes"] == 1 << 30, device
    assert device["gpu"] == {"arch": 90, "multiprocessors": 4, "clock_hz": 10**9, "memory_clock_hz": 2 * 10**9,
                             "cache_bytes": 1 << 20, "shared_bytes": 128 << 10, "threads": 2048, "blocks": 32}, device
    assert {p["type"] for p in one["products"]} == set(TYPES) == set(device["flops_per_s"]), one
    for p in one["products"]:
        rate = 2 * p["rows"] * p["inner"] * p["columns"] / p["ns"] * 1e9
        assert p["ns"] >= 1 and rate <= 1.01 * device["flops_per_s"][p["type"]], p
    assert one["levels"][0]["bytes_per_s"] == 450e9 and one["collectives"] == [], one

    done = run("calibrate", "--target", "cuda", "--quick", "-o", "two.json", "--json", MSC_STANDIN_GPUS="2", **gpu)
    two = json.load(open("two.json"))
    assert not done.stderr and json.loads(done.stdout) == two, done.stderr
    assert 1e5 < two["levels"][0]["bytes_per_s"] < 1e13 and two["levels"][0]["latency_ns"] >= 1, two["levels"]

    # what the stand-in is told to take longer is what is measured: launches of small products, then the copying kernel
    assert 0 < device["launch_ns"] and 1e6 < device["bytes_per_s"] < 1e12, device
    slow = ["calibrate", "--target", "cuda", "--quick", "-o", "slow.json"]
    run(*slow, **gpu, MSC_STANDIN_SLOW="product:3000")
    launch_ns = json.load(open("slow.json"))["device"]["launch_ns"]
    assert 3e6 <= launch_ns <= 12e6, launch_ns  # where others work too, a pause of 3 ms may become longer
    run(*slow, **gpu, MSC_STANDIN_SLOW="kernel:300000")
    rate, moved = json.load(open("slow.json"))["device"]["bytes_per_s"], 12 * (device["memory_bytes"] // 32 // 4)
    assert moved / 1.2 <= rate <= moved / 0.3, rate  # 300 ms for three tensors of as many elements of f32

    steps = []
    device["flops_per_s"] = dict.fromkeys(TYPES, 1e15)  # nothing is slower for the peak
    for ns in (2000000, 4000000):
        one["products"] = [{"type": "bf16", "rows": 512, "inner": 512, "columns": 512, "ns": ns}]
        write("set.json", json.dumps(one))
        done = run("compile", "net.mlir", "--target", "cuda", "--cluster", "set.json", "-o", "net.bin")
        steps.append(json.loads(run("explain", "net.bin", "--json").stdout)["predicted_step_ms"])
    assert 1.99 <= steps[1] - steps[0] <= 2.01, steps

    done = run("calibrate", "--target", "cuda", code=3, **{**gpu, "MSC_STANDIN_GPUS": "0"})
    assert "the driver finds 0 GPUs" in done.stderr and not done.stdout, done


run_on_standin(main)
