#!/usr/bin/env python3
"""Checkpoints of msc run: a run that was stopped goes on to the same bits, with dropout, learning rates by the step, a
state of the optimizer that is cut over ranks, and samples in the order of the seed; SIGTERM writes one; --eval-every."""
import json
import os
import shutil
import signal
import struct
import subprocess

from expect import MSC, SANITIZED, Expect, write

os.environ["XDG_CACHE_HOME"] = "/dev/null"
expect = Expect()
MODEL = """module attributes {msc.name = "net"} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x12xf32>, %y: tensor<8xi32>, %w: tensor<12x6xf32>, %v: tensor<6x4xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<8x12xf32>, tensor<12x6xf32>) -> tensor<8x6xf32>
    %1 = "msc.dropout"(%0) {rate = 2.5e-01 : f64} : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %2 = "msc.matmul"(%1, %v) : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
    %3 = "msc.softmax_cross_entropy"(%2, %y) : (tensor<8x4xf32>, tensor<8xi32>) -> tensor<f32>
    "msc.return"(%3) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, results = ["loss"],
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter", msc.init = "normal:0.3"},
                   {msc.name = "v", msc.role = "parameter", msc.init = "normal:0.3"}],
      optimizer = {kind = "adam", lr = 3.0e-02 : f64}} : () -> ()
}
"""
write("net.mlir", MODEL)
with open("x.idx", "wb") as out:
    out.write(struct.pack(">BBBBII", 0, 0, 8, 2, 44, 12) + bytes(i * 37 % 256 for i in range(528)))
with open("y.idx", "wb") as out:
    out.write(struct.pack(">BBBBI", 0, 0, 8, 1, 44) + bytes(i * 7 % 4 for i in range(44)))
RUN = "--trust-native --data x=x.idx y=y.idx --seed 5 --lr-schedule cosine:warmup=3 --json"


def lines(plan, options):
    out = expect(f"run {plan} {RUN} {options}", 0, "").stdout.decode().splitlines()
    return list(map(json.loads, out))


def losses(found):
    return [line["loss"] for line in found if "step" in line]


for name, keys in (("one", ""), ("two", "--set device_num=2 --set parallel_mode=data_parallel --set zero=1 "
                                 "--set parallel_optimizer_config={\"parallel_optimizer_threshold\":0}"),
                   ("four", "--set device_num=4 --set parallel_mode=auto_parallel")):
    plan = f"{name}.bin"
    expect(f"compile net.mlir -o {plan} --set variable_lr=true {keys}", 0, None)
    whole = losses(lines(plan, f"--steps 13 --save whole.st"))
    first = losses(lines(plan, "--steps 7 --lr-schedule cosine:warmup=3,steps=13 --ckpt-dir c"))
    expect.check(f"{name}: the first steps", first == whole[:7])
    rest = lines(plan, "--steps 13 --ckpt-dir c --resume --save rest.st")
    expect.check(
        f"{name}: the rest {losses(rest)} {whole[7:]}",
        losses(rest) == whole[7:] and [line["step"] for line in rest if "step" in line] == list(range(8, 14))
        and rest[-1]["steps"] == 6)
    expect.check(f"{name}: the same weights", open("whole.st", "rb").read() == open("rest.st", "rb").read())
    # another seed on the command line counts for nothing: the order of samples and dropout are the checkpoint's
    os.unlink(f"c/step-{13:012}.safetensors")
    again = losses(lines(plan, "--steps 13 --ckpt-dir c --resume --seed 6"))
    expect.check(f"{name}: the seed is the checkpoint's", again == whole[7:])
    shutil.rmtree("c")

# How many are kept, and what is not taken.
lines("one.bin", "--steps 10 --ckpt-dir d --ckpt-every 3 --ckpt-keep 3")
expect.check("kept", sorted(os.listdir("d")) == [f"step-{n:012}.safetensors" for n in (6, 9, 10)])
ended = lines("one.bin", "--steps 10 --ckpt-dir d --resume")
expect.check("nothing is left to do", losses(ended) == [])
expect(
    f"run one.bin {RUN} --steps 10 --ckpt-dir d", 1, lambda text: "" if "there are checkpoints already, of step 10 "
    "the newest; add --resume, or give another folder" in text else text)
expect(f"run one.bin {RUN} --steps 9 --ckpt-dir d --resume", 1, lambda text: ""
       if "the newest checkpoint is of step 10, the run ends at step 9" in text else text)
for wrong in ("--steps 3 --resume", "--steps 3 --ckpt-every 2", "--steps 3 --ckpt-dir e --ckpt-keep 0",
              "--steps 0 --ckpt-dir e", "--steps 3 --ckpt-dir e --grace 0", "--steps 3 --eval-every 2"):
    expect(f"run one.bin {RUN} {wrong}", 2, None)
write("d/step-000000000012.safetensors", "no checkpoint")
expect(f"run one.bin {RUN} --steps 13 --ckpt-dir d --resume", 1, lambda text: ""
       if "step-000000000012" in text else text)
os.unlink("d/step-000000000012.safetensors")
lines("one.bin", "--steps 1 --save d/step-000000000012.safetensors")  # without state
expect(f"run one.bin {RUN} --steps 13 --ckpt-dir d --resume", 1, lambda text: ""
       if "lacks parameters" in text else text)
shutil.rmtree("d")

# A checkpoint has the parameters, too.
lines("one.bin", "--steps 4 --ckpt-dir c --save w.st")
lines("one.bin", f"--steps 0 --init c/step-{4:012}.safetensors --save again.st")
expect.check("a start from a checkpoint", open("w.st", "rb").read() == open("again.st", "rb").read())

# Evaluations between.
told = lines("two.bin", "--steps 6 --eval 0:16 --eval-every 2")
expect.check(f"evaluations {told}",
             ["eval" if "eval" in line else "step" for line in told[:-1]] == ["step", "step", "eval"] * 3)
expect.check("they change nothing", losses(told) == losses(lines("two.bin", "--steps 6")))

# SIGTERM, to all ranks by the one that started them.
for plan in ("one.bin", "two.bin"):
    shutil.rmtree("t", ignore_errors=True)
    steps = 3000 if SANITIZED else 200000
    run = subprocess.Popen([MSC, "run", plan, *RUN.split(), "--steps",
                            str(steps), "--ckpt-dir", "t", "--grace", "60"],
                           stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE,
                           text=True)
    head = [run.stdout.readline() for _ in range(5)]
    run.send_signal(signal.SIGTERM)
    out, err = run.stdout.read(), run.stderr.read()
    run.wait(timeout=60)
    got = [json.loads(line)["loss"] for line in (*head, *out.splitlines()) if '"step"' in line]
    saved = os.listdir("t")
    expect.check(f"{plan}: stopped {run.returncode} {err} {saved}", run.returncode == 128 + signal.SIGTERM and not err
                 and saved == [f"step-{len(got):012}.safetensors"])
    more = len(got) + 3
    on = losses(lines(plan, f"--steps {more} --ckpt-dir t --resume --lr-schedule cosine:warmup=3,steps={steps}"))
    straight = losses(lines(plan, f"--steps {more} --lr-schedule cosine:warmup=3,steps={steps}"))
    expect.check(f"{plan}: goes on", got + on == straight and len(on) == 3)

try:
    import msc
except ImportError as e:
    print(f"skipped: jobs in Python: {e}; run tools/setup")
else:
    if SANITIZED:
        print("skipped: a library with sanitizers cannot be loaded into Python")
        expect.done()
    plan = msc.Plan.load("two.bin", libraries=os.path.dirname(MSC))
    batch = {"x": [[(i + j) % 5 / 5 for i in range(12)] for j in range(8)], "y": [j % 4 for j in range(8)]}
    with plan.run(seed=4) as job:
        before = [job.step(**batch) for _ in range(3)]
        job.checkpoint("job.st")
        after = [job.step(**batch) for _ in range(3)]
    with plan.run(seed=9) as job:
        job.resume("job.st")
        expect.check("a job goes on", [job.step(**batch) for _ in range(3)] == after != before)
expect.done()
