#!/usr/bin/env python3
"""host: tables whose look-ups are marked primitive_target, in plans for GPUs, which the stand-in plays: look-up,
gradient and optimizer run on the host, dense or lazily, with one rank and with several, whose tables are whole or
cut, with micro-batches and 16-bit arithmetic. Losses and weights are those of a plan for a CPU; a table needs no
memory of the GPU; a run goes on from a checkpoint; a number out of range is reported; an op that the host has no
kernel for is refused."""
import array
import json
import os
import random
import shutil
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from network import write_npy  # noqa: E402
from program import attempt, call, finish, run_on_standin, settings  # noqa: E402

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
STANDIN = os.path.join(os.path.dirname(MSC), "tests/cuda/standin")
SAMPLES, BATCH, BAG, ROWS, WIDTH, STEPS = 32, 16, 3, 1024, 16, 4
WORKSPACE = 32 << 20  # of cuBLASLt
ADAM, LAZY = 'kind = "adam", lr = 0.05 : f32', "lazy = true"
DATA = {"parallel_mode": "data_parallel", "gradients_mean": True}
SEMI = {"parallel_mode": "semi_auto_parallel"}
# ranks, GPUs, optimizer, keys, strategy of look-ups
JOBS = [
    (1, 1, 'kind = "sgd", lr = 0.5 : f32', {}, ""),
    (1, 1, ADAM, {}, ""),
    (1, 1, f"{ADAM}, {LAZY}", {}, ""),
    (1, 1, ADAM, {"micro_size": 2}, ""),
    (1, 1, ADAM, {"compute_type": "bf16"}, ""),
    (1, 1, f"{ADAM}, clip_norm = 0.01 : f32", {}, ""),
    (2, 2, f"{ADAM}, {LAZY}", DATA, ""),
    (2, 1, ADAM, DATA, ""),  # ranks that share a GPU: no graph
    (4, 4, f"{ADAM}, {LAZY}", SEMI, "in_strategy = [[4, 1], %s]"),
    (4, 4, ADAM, SEMI, "in_strategy = [[1, 4], %s]"),
]


def model(optimizer, cut=""):
    def marks(indices):
        words = ['primitive_target = "CPU"'] + ([cut % indices] if cut else [])
        return "{" + ", ".join(words) + "}"

    wide, narrow, width = f"{BATCH}x{BAG}", f"{BATCH}", f"{WIDTH}xf32"
    return f"""module {{
  "msc.func"() ({{
  ^bb0(%a: tensor<{wide}xi32>, %b: tensor<{narrow}xi64>, %t: tensor<{ROWS}x{width}>, %w: tensor<{WIDTH}x{width}>):
    %0 = "msc.gather"(%t, %a) {marks("[1, 1]")} : (tensor<{ROWS}x{width}>, tensor<{wide}xi32>) -> tensor<{wide}x{width}>
    %1 = "msc.reduce_sum"(%0) {{dims = [1]}} : (tensor<{wide}x{width}>) -> tensor<{narrow}x{width}>
    %2 = "msc.gather"(%t, %b) {marks("[1]")} : (tensor<{ROWS}x{width}>, tensor<{narrow}xi64>) -> tensor<{narrow}x{width}>
    %3 = "msc.add"(%1, %2) : (tensor<{narrow}x{width}>, tensor<{narrow}x{width}>) -> tensor<{narrow}x{width}>
    %4 = "msc.matmul"(%3, %w) : (tensor<{narrow}x{width}>, tensor<{WIDTH}x{width}>) -> tensor<{narrow}x{width}>
    %5 = "msc.mul"(%4, %4) : (tensor<{narrow}x{width}>, tensor<{narrow}x{width}>) -> tensor<{narrow}x{width}>
    %6 = "msc.reduce_mean"(%5) {{dims = [0, 1]}} : (tensor<{narrow}x{width}>) -> tensor<f32>
    "msc.return"(%6) : (tensor<f32>) -> ()
  }}) {{arg_attrs = [{{msc.name = "a", msc.role = "data"}}, {{msc.name = "b", msc.role = "data"}},
      {{msc.init = "normal:0.3", msc.name = "t", msc.role = "parameter"}}, {{msc.init = "normal:0.3", msc.name = "w", msc.role = "parameter"}}],
      loss = 0 : i64, optimizer = {{{optimizer}}}, results = ["loss"], sym_name = "forward"}} : () -> ()
}}
"""


def write_data():
    rng = random.Random(3)
    draw = lambda num: [min(int(rng.paretovariate(0.6)), ROWS) - 1 for _ in range(num)]  # noqa: E731
    write_npy("a.npy", array.array("i", draw(SAMPLES * BAG)), [SAMPLES, BAG])
    write_npy("b.npy", array.array("q", draw(SAMPLES)), [SAMPLES])


def read_weights(path):
    with open(path, "rb") as file:
        raw = file.read()
    (size,) = struct.unpack("<Q", raw[:8])
    out = {}
    for name, entry in json.loads(raw[8:8 + size]).items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            begin, end = entry["data_offsets"]
            out[name] = array.array("f", raw[8 + size + begin:8 + size + end])
    return out


def compiled(target, ranks, keys):
    return json.loads(call(MSC, "compile", "m.mlir", "-o", "plan.bin", "--json", "--target", target, "--dump-dir",
                           "dump", *settings({"device_num": ranks, **keys})))


def run(ranks, gpus, *words, steps=STEPS):
    machine = {"LD_LIBRARY_PATH": STANDIN, "MSC_STANDIN_KERNELS": os.path.abspath("dump/kernels.ll"),
               "MSC_STANDIN_GPUS": str(gpus), "MSC_STANDIN_SEED": str(ranks)}
    command = [MSC, "run", "plan.bin", "-n", str(ranks), "--threads", "2", "--steps", str(steps), "--seed", "5",
               "--json", "--data", "a=a.npy", "b=b.npy", "--ckpt-dir", "c", "--train", f"0:{SAMPLES}", "--eval",
               f"0:{BATCH}", *words]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **machine})


def train(target, ranks, gpus, keys):
    for folder in "dump", "c":
        shutil.rmtree(folder, ignore_errors=True)
    report = compiled(target, ranks, keys)
    done = run(ranks, gpus)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    losses = [line["loss"] for line in lines if "loss" in line] + [line["eval"]["loss"] for line in lines
                                                                  if "eval" in line]
    call(MSC, "ckpt", "merge", "c", "-o", "w.safetensors")
    return report, losses, read_weights("w.safetensors")


def apart(a, b):
    return max(abs(x - y) / (abs(x) + abs(y) + 1e-3) for x, y in zip(a, b))


def check_job(ranks, gpus, optimizer, keys, cut):
    what, table = f"{ranks} ranks, {optimizer}, {keys}, {cut}", ROWS * WIDTH * 4
    with open("m.mlir", "w") as file:
        file.write(model(optimizer, cut))
    _, want, weights = train("cpu", ranks, gpus, keys)
    report, have, trained = train("cuda", ranks, gpus, keys)
    least = 2e-2 if "compute_type" in keys else 1e-4
    assert len(have) == STEPS + 1 and have[0] != have[-1], have
    assert apart(want, have) < least, f"{what}: losses {have}, not {want}"
    for name in weights:
        assert apart(weights[name], trained[name]) < 10 * least, f"{what}: {name} differs"
    parts = ranks if cut else 1
    tables = {"sgd": 1}.get(optimizer.split('"')[1], 3) if "clip" not in optimizer else 3
    assert report["offload"]["host"] >= tables * table // parts, (what, report["offload"])
    # neither table, state nor a dense gradient of it are on the GPU, but where ranks add that up, or it is clipped
    if LAZY in optimizer or not (keys.get("gradients_mean") or "clip" in optimizer):
        assert report["memory_bytes_per_rank"] - WORKSPACE < table // parts, (what, report["memory_bytes_per_rank"])


def check_faults():
    with open("m.mlir", "w") as file:
        file.write(model(ADAM))
    compiled("cuda", 1, {})
    write_npy("a.npy", array.array("i", [0] * (SAMPLES * BAG - 1) + [ROWS]), [SAMPLES, BAG])
    shutil.rmtree("c", ignore_errors=True)
    done = run(1, 1)
    write_data()
    assert done.returncode == 1 and "out of range" in done.stderr, done


def check_resumed():
    """A checkpoint has what lives on the host: a run that goes on from it has the bits of one that was never
    interrupted."""
    with open("m.mlir", "w") as file:
        file.write(model(f"{ADAM}, {LAZY}"))
    _, losses, weights = train("cuda", 1, 1, {})
    shutil.rmtree("c")
    assert run(1, 1, steps=STEPS // 2).returncode == 0
    done = run(1, 1, "--resume")
    assert done.returncode == 0, done.stderr
    rest = [json.loads(line)["loss"] for line in done.stdout.splitlines() if '"loss"' in line and "eval" not in line]
    call(MSC, "ckpt", "merge", "c", "-o", "w.safetensors")
    assert rest == losses[STEPS // 2:STEPS] and read_weights("w.safetensors") == weights, (rest, losses)


def check_refused():
    text = model(ADAM).replace('"msc.matmul"(%3, %w)', '"msc.matmul"(%3, %w) {primitive_target = "GPU"}')
    with open("m.mlir", "w") as file:
        file.write(text)
    done = subprocess.run([MSC, "compile", "m.mlir", "-o", "no.bin", "--target", "cuda"], capture_output=True,
                          text=True)
    assert done.returncode == 1 and 'primitive_target = "GPU" is not supported yet' in done.stderr, done


def main():
    write_data()
    for job in JOBS:
        attempt(check_job, *job)
    attempt(check_resumed)
    attempt(check_faults)
    attempt(check_refused)
    finish()
    print(f"{len(JOBS)} jobs with tables on the host beside GPUs")


run_on_standin(main)
