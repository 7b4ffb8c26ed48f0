#!/usr/bin/env python3
"""Checkpoints of msc run: a run that was stopped goes on to the same bits, with dropout, learning rates by the step, a
state of the optimizer that is cut over ranks, and samples in the order of the seed, and with other ranks and layouts;
what is damaged is told and set aside; SIGTERM writes one; --eval-every."""
import json
import os
import re
import shutil
import signal
import subprocess

from expect import MSC, SANITIZED, Expect, write
from small_models import two_products, write_idx, write_samples

os.environ["XDG_CACHE_HOME"] = "/dev/null"
expect = Expect()
MODEL = two_products()
write("net.mlir", MODEL)
write_samples(44)
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
    expect(f"compile net.mlir -o {plan} --set variable_lr=true --set gradients_mean=true {keys}", 0, None)
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
    shutil.rmtree(f"c/step-{13:012}")
    again = losses(lines(plan, "--steps 13 --ckpt-dir c --resume --seed 6"))
    expect.check(f"{name}: the seed is the checkpoint's", again == whole[7:])
    shutil.rmtree("c")

# Another layout and another number of ranks go on, from slices and from whole tensors: sums have another order.
expect(
    'compile net.mlir -o whole.bin --set variable_lr=true --set gradients_mean=true --set device_num=4 '
    '--set parallel_mode=data_parallel --set integrated_save=true', 0, None)
for first in ("one", "two", "four", "whole"):
    for then in ("one", "two", "four"):
        straight = losses(lines(f"{then}.bin", "--steps 9"))
        lines(f"{first}.bin", "--steps 5 --lr-schedule cosine:warmup=3,steps=9 --ckpt-dir other")
        on = losses(lines(f"{then}.bin", "--steps 9 --ckpt-dir other --resume"))
        expect.check(f"{first}, then {then}: {on} {straight}",
                     all(abs(a - b) < 2e-6 for a, b in zip(on, straight[5:])) and len(on) == 4)
        shutil.rmtree("other")

# Of a plan with batches of another size the position in the data is another, which is told.
write("half.mlir", MODEL.replace("tensor<8x", "tensor<4x"))
expect("compile half.mlir -o half.bin --set variable_lr=true", 0, None)
lines("one.bin", "--steps 5 --ckpt-dir half")
expect(f"run half.bin {RUN} --steps 6 --ckpt-dir half --resume", 0, lambda text: "" if "warning: the checkpoint of "
       "step 5 had read 40 samples; with 4 a step this goes on at sample 20" in text else text)

# Ranks that were started one by one: the first looks into the folder, for all.
for launch in range(3):
    steps = str(3 + 2 * launch)
    run = expect(["launch", "-n", "2", "--", MSC, "run", "two.bin", *RUN.split(), "--steps", steps, "--ckpt-dir", "lc",
                  "--resume", "--lr-schedule", "cosine:warmup=3,steps=9"], 0, None)
    said = run.stdout.decode().splitlines()
    on = losses(json.loads(line.removeprefix("[0] ")) for line in said if line.startswith("[0] {"))
    straight = losses(lines("two.bin", "--steps 9"))[1 + 2 * launch if launch else 0:int(steps)]
    expect.check(f"launched: {on} {straight}", on == straight)
expect.check(f"launched: {os.listdir('lc')}", sorted(os.listdir("lc")) == [f"step-{n:012}" for n in (5, 7)])
expect(f"run two.bin {RUN} --steps 9 --ckpt-dir lc --resume", 0, "")

# Every damage is told by the name of the file, and the checkpoint before it is taken.
whole = losses(lines("two.bin", "--steps 9"))
lines("two.bin", "--steps 7 --lr-schedule cosine:warmup=3,steps=9 --ckpt-dir good --ckpt-every 4")
NEWEST = "d/step-000000000007"


def edit(name, at, text):
    with open(f"{NEWEST}/{name}", "r+b") as file:
        file.seek(at, os.SEEK_SET if at >= 0 else os.SEEK_END)
        file.write(text)


RANK1 = "rank-00001.safetensors"
MANIFEST = os.path.getsize("good/step-000000000007/manifest.json")
damages = [
    ("no manifest", lambda: os.unlink(f"{NEWEST}/manifest.json"), "neither a checkpoint"),
    ("an empty manifest", lambda: os.truncate(f"{NEWEST}/manifest.json", 0), "manifest.json"),
    ("not JSON", lambda: write(f"{NEWEST}/manifest.json", "hello"), "manifest: this is no checkpoint of msc at byte 0"),
    ("another's", lambda: write(f"{NEWEST}/manifest.json", '{"format":"other"}'), "this is no checkpoint of msc"),
    ("a missing shard", lambda: os.unlink(f"{NEWEST}/{RANK1}"), f"{RANK1}: cannot open"),
    ("a short shard", lambda: os.truncate(f"{NEWEST}/{RANK1}", 500), f"{RANK1}: is damaged: it has 500 bytes"),
    ("an empty shard", lambda: os.truncate(f"{NEWEST}/{RANK1}", 0), f"{RANK1}: is damaged: it has 0 bytes"),
    ("a bit of data", lambda: edit(RANK1, -2, b"\x5a"), f"{RANK1}: is damaged: the checksum of tensor"),
    ("a header", lambda: edit(RANK1, 8, b"["), f"{RANK1}: safetensors: "),
    ("another's shard", lambda: shutil.copy("good/step-000000000004/" + RANK1, f"{NEWEST}/{RANK1}"),
     f"{RANK1}: is damaged: the checksum of tensor"),
] + [(f"a manifest cut at {n}", lambda n=n: os.truncate(f"{NEWEST}/manifest.json", n), "manifest.json: ")
     for n in range(1, MANIFEST, MANIFEST // 6)
     ] + [(f"a manifest that differs at {n}", lambda n=n: edit("manifest.json", n, b"\x01"), "manifest.json: ")
          for n in range(1, MANIFEST, MANIFEST // 6)]
for name, damage, said in damages:
    shutil.copytree("good", "d")
    damage()
    run = expect(f"run two.bin {RUN} --steps 9 --ckpt-dir d --resume", 0, lambda text: "" if NEWEST in text and
                 said in text and "warning" in text and text.count("\n") == 1 else f"{name}: {said}: {text}")
    got = losses(map(json.loads, run.stdout.decode().splitlines()))
    expect.check(f"{name}: from the one before, {got}", got == whole[4:])
    expect.check(f"{name}: set aside, {os.listdir('d')}",
                 sorted(os.listdir("d")) == ["step-000000000004", "step-000000000007.damaged", "step-000000000009"])
    shutil.rmtree("d")
shutil.copytree("good", "d")
os.unlink(f"{NEWEST}/{RANK1}")
expect(f"run two.bin {RUN} --steps 6 --ckpt-dir d --ckpt-keep 1 --resume", 0, lambda text: "" if "warning" in text else
       text)
expect.check(f"what is damaged is not kept in place of the new one: {os.listdir('d')}",
             sorted(os.listdir("d")) == ["step-000000000006", "step-000000000007.damaged"])
shutil.rmtree("d")
shutil.copytree("good", "d")
for step in (4, 7):
    os.unlink(f"d/step-{step:012}/{RANK1}")
expect(f"run two.bin {RUN} --steps 9 --ckpt-dir d --resume", 1, lambda text: "" if text.count(RANK1) == 2 and
       "warning" in text and "error" in text else text)
shutil.rmtree("d")
lines("one.bin", "--steps 1 --save w.st")
momentum = 'optimizer = {kind = "momentum", lr = 0.1 : f64, momentum = 0.9 : f64}'
write("other.mlir", re.sub(r"optimizer = {[^}]*}", momentum, MODEL))
expect("compile other.mlir -o other.bin --set variable_lr=true", 0, None)
lines("other.bin", "--steps 2 --ckpt-dir d")
expect(f"run one.bin {RUN} --steps 9 --ckpt-dir d --resume", 1, lambda text: ""
       if "step-000000000002: lacks parameters of the model: w.v, v.v [" in text else text)
shutil.rmtree("d")

# A plan that has numbers of its own, the scale of the loss, goes on from a checkpoint without them.
SCALED = "--set variable_lr=true --set loss_scale=dynamic"
expect(f"compile net.mlir -o scaled.bin {SCALED}", 0, None)
cut = MODEL.replace("(%x, %w) :", "(%x, %w) {pipeline_stage = 0} :")
write("stages.mlir", cut.replace("(%1, %v) :", "(%1, %v) {pipeline_stage = 1} :"))
expect(f"compile stages.mlir -o stages.bin {SCALED} --set device_num=2 --set pipeline_stages=2 "
       "--set parallel_mode=semi_auto_parallel", 0, None)
for plan in ("one.bin", "scaled.bin", "stages.bin"):
    shutil.copytree("good", "d")
    run = expect(f"run {plan} {RUN} --steps 9 --ckpt-dir d --resume", 0, None)
    got = losses(map(json.loads, run.stdout.decode().splitlines()))
    lacks = re.findall(r"warning: d/step-000000000007 lacks (\S+): it begins as the plan says", run.stderr.decode())
    if plan == "one.bin":
        want = got
    expect.check(f"{plan}: lacks {lacks}", lacks == ([] if plan == "one.bin" else ["loss_scale", "loss_scale.good"]))
    expect.check(f"{plan}: {got}", len(got) == 2 and all(abs(a - b) < 1e-5 * abs(b) for a, b in zip(got, want)))
    shutil.rmtree("d")

# What a run that was killed left is removed, what others left is not.
os.makedirs("d/step-000000000003.tmp")
write("d/step-000000000003.tmp/rank-00000.safetensors", "half")
os.makedirs("d/step-3.tmp")
lines("one.bin", "--steps 2 --ckpt-dir d")
expect.check("swept", sorted(os.listdir("d")) == ["step-000000000002", "step-3.tmp"])
shutil.rmtree("d")

# How many are kept, and what is not taken.
lines("one.bin", "--steps 10 --ckpt-dir d --ckpt-every 3 --ckpt-keep 3")
expect.check("kept", sorted(os.listdir("d")) == [f"step-{n:012}" for n in (6, 9, 10)])
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
shutil.rmtree("d")

# A checkpoint has the parameters, too.
lines("one.bin", "--steps 4 --ckpt-dir c --save w.st")
lines("one.bin", f"--steps 0 --init c/step-{4:012} --save again.st")
expect.check("a start from a checkpoint", open("w.st", "rb").read() == open("again.st", "rb").read())
lines("one.bin", "--steps 6 --ckpt-dir c --resume --save w.st")
lines("one.bin", "--steps 0 --init c --save again.st")
expect.check("a start from the newest of a folder", open("w.st", "rb").read() == open("again.st", "rb").read())
expect("ckpt diff c again.st --parameters", 0, None)

# Evaluations between.
told = lines("two.bin", "--steps 6 --eval 0:16 --eval-every 2")
expect.check(f"evaluations {told}",
             ["eval" if "eval" in line else "step" for line in told[:-1]] == ["step", "step", "eval"] * 3)
expect.check("they change nothing", losses(told) == losses(lines("two.bin", "--steps 6")))

# How often: as often as the cost of one and the time between failures say.
said = expect(f"run two.bin {RUN} --steps 40 --ckpt-dir often --ckpt-every 10 --mtbf 12", 0, None).stderr.decode()
found = re.fullmatch(
    r"msc run: a checkpoint cost (\S+) s and a step (\S+) s; with a failure every 12 h, --ckpt-every (\d+) loses "
                     r"least\n", said)
cost, step, every = map(float, found.groups()) if found else (1, 1, 0)
expect.check(f"how often: {said}", abs(every / ((2 * cost * 12 * 3600)**0.5 / step) - 1) < 0.01)
expect(f"run two.bin {RUN} --steps 4 --mtbf 12", 2,
       "msc run: error: --mtbf is a number of hours above 0, and needs --ckpt-dir (msc run --help)\n", "")
shutil.rmtree("often")

# A checkpoint of 128 ranks, read by two: each opens the files that have parts of its own, once, and no other.
WIDE = """module attributes {msc.name = "net"} {
  "msc.func"() ({
  ^bb0(%x: tensor<128x64xf32>, %y: tensor<128xi32>, %w: tensor<64x256xf32>, %v: tensor<256x64xf32>):
    %0 = "msc.matmul"(%x, %w) {in_strategy = [[ROWS, 1], [1, COLUMNS]]} : (tensor<128x64xf32>, tensor<64x256xf32>) -> tensor<128x256xf32>
    %1 = "msc.matmul"(%0, %v) : (tensor<128x256xf32>, tensor<256x64xf32>) -> tensor<128x64xf32>
    %2 = "msc.softmax_cross_entropy"(%1, %y) : (tensor<128x64xf32>, tensor<128xi32>) -> tensor<f32>
    "msc.return"(%2) : (tensor<f32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, results = ["loss"],
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter", msc.init = "normal:0.03"},
                   {msc.name = "v", msc.role = "parameter", msc.init = "normal:0.03"}],
      optimizer = {kind = "adam", lr = 1.0e-03 : f64}} : () -> ()
}
"""
for ranks, rows, columns in ((128, 2, 64), (2, 1, 2), (1, 1, 1)):
    write("wide.mlir", WIDE.replace("ROWS", str(rows)).replace("COLUMNS", str(columns)))
    mode = "semi_auto_parallel" if ranks > 1 else "stand_alone"
    expect(f"compile wide.mlir -o wide{ranks}.bin --set device_num={ranks} --set parallel_mode={mode}", 0, None)
write_idx("wx.idx", [128, 64], (i * 37 % 251 for i in range(128 * 64)))
write_idx("wy.idx", [128], (i * 7 % 64 for i in range(128)))
WIDE_RUN = "--trust-native --data x=wx.idx y=wy.idx --steps 1"
expect(f"run wide1.bin {WIDE_RUN} --save wide.safetensors", 0, "")
expect("ckpt slice wide.safetensors --plan wide128.bin -o wide", 0, None)
with open("wide/manifest.json") as file:
    manifest = json.load(file)
need = [{shard["file"] for t in manifest["tensors"].values() for shard in t["shards"]
         if t["shape"] != [64, 256] or shard["begin"][1] // 128 == r} for r in range(2)]
expect.check(f"a checkpoint of {len(manifest['files'])} files", len(manifest["files"]) == 128
             and all(len(n) < 80 for n in need))
write("opens.c", r"""
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int open(const char *path, int flags, ...) {
  va_list ap;
  va_start(ap, flags);
  mode_t mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;
  va_end(ap);
  int (*next)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
  const char *at = strstr(path, "wide/rank-");
  char line[64];
  int fd = at ? next("opens", O_WRONLY | O_APPEND | O_CREAT, 0600) : -1;
  int n = snprintf(line, sizeof line, "%d %d\n", (int)getpid(), at ? atoi(at + 10) : 0);
  if (at && write(fd, line, (size_t)n) != n) return -1;
  if (at) close(fd);
  return next(path, flags, mode);
}
""")
if SANITIZED or subprocess.run(["cc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", "opens.so",
                                "opens.c", "-ldl"]).returncode:
    print("skipped: the files that are opened: a sanitizer wants to be the first library, or there is no C compiler")
else:
    expect(f"run wide2.bin {WIDE_RUN} --init wide", 0, "", env={"LD_PRELOAD": os.path.abspath("opens.so")})
    opened = {}
    with open("opens") as file:
        for line in file:
            opened.setdefault(line.split()[0], []).append(int(line.split()[1]))
    expect.check(
        f"files opened by {len(opened)} processes: {[len(o) for o in opened.values()]}, "
          f"needed {[len(n) for n in need]}",
                 sorted(map(sorted, opened.values())) == sorted(map(sorted, need)))

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
                 and saved == [f"step-{len(got):012}"])
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
        job.checkpoint("job")
        after = [job.step(**batch) for _ in range(3)]
    with plan.run(seed=9) as job:
        job.resume("job")
        expect.check("a job goes on", [job.step(**batch) for _ in range(3)] == after != before)
expect.done()
