#!/usr/bin/env python3
"""msc run: losses on one rank and several, evaluation, weights in and out, bad input, ranks that are killed,
signals."""
import json
import os
import resource
import signal
import struct
import subprocess
import sys
import time

from expect import MSC, SANITIZED, Expect, write

MODEL = """module attributes {msc.name = "net"} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x12xf32>, %y: tensor<8xi32>, %w: tensor<12x4xf32>, %b: tensor<4xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<8x12xf32>, tensor<12x4xf32>) -> tensor<8x4xf32> loc("dense"("net.py":3:5))
    %1 = "msc.add"(%0, %b) : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32> loc("dense.bias"("net.py":4:5))
    %2 = "msc.softmax_cross_entropy"(%1, %y) : (tensor<8x4xf32>, tensor<8xi32>) -> tensor<f32> loc("loss"("net.py":5:5))
    "msc.return"(%2, %1) : (tensor<f32>, tensor<8x4xf32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, results = ["loss", "logits"],
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter", msc.init = "normal:0.1"}, {msc.name = "b", msc.role = "parameter", msc.init = "zeros"}],
      optimizer = {kind = "momentum", lr = 1.0e-01 : f32, momentum = 9.0e-01 : f32}} : () -> ()
}
"""
SAMPLES = 100
os.environ["XDG_CACHE_HOME"] = "/dev/null"  # no plan is known: the user's own folder must not matter


def idx(name, data, *shape):
    with open(name, "wb") as f:
        f.write(struct.pack(f">BBBB{len(shape)}I", 0, 0, 8, len(shape), *shape) + bytes(data))


def setup():
    write("net.mlir", MODEL)
    labels = [i * 7 % 4 for i in range(SAMPLES)]
    idx("x.idx", [200 if j % 4 == labels[i] else (i * 31 + j * 17) % 90 for i in range(SAMPLES) for j in range(12)],
        SAMPLES, 12)
    idx("y.idx", labels, SAMPLES)
    idx("bad.idx", [4 if i == 50 else c for i, c in enumerate(labels)], SAMPLES)
    idx("few.idx", labels[:90], 90)
    idx("wide.idx", [0] * SAMPLES * 13, SAMPLES, 13)
    for ranks in (1, 2, 4):
        expect(
            f"compile net.mlir -o net{ranks}.bin --set device_num={ranks} --set gradients_mean=true --set "
            f"parallel_mode={'data_parallel' if ranks > 1 else 'stand_alone'}",
            0, None)


DATA = "--data x=x.idx y=y.idx --trust-native"
expect = Expect()
setup()


def lines(command, **more):
    return [
        json.loads(line) for line in expect(f"run {command} {DATA} --json", 0, "", **more).stdout.decode().splitlines()
    ]


def losses(result):
    return [line["loss"] for line in result if "step" in line]


def check(ok, what):
    expect.cases += 1
    if not ok:
        expect.fail("run", what, "", "")


# Losses: the same for any number of threads, and (but for rounding) of ranks; evaluation; totals.
one = lines("net1.bin --train 0:80 --eval 80:100 --epochs 3 --seed 5 --threads 1")
check(len(losses(one)) == 30 and [line["step"] for line in one if "step" in line] == list(range(1, 31)), "thirty steps")
check(losses(one)[-1] < losses(one)[0] / 2, "losses fall")
check(one[-2]["eval"]["samples"] == 20 and one[-2]["eval"]["accuracy"] > 0.9 and one[-2]["eval"]["loss"] < 1,
      f"evaluation {one[-2]}")
check(
    one[-1]["steps"] == 30 and one[-1]["ranks"] == 1 and one[-1]["rss_bytes"] > 1 << 20 and one[-1]["arena_bytes"] > 0,
    f"totals {one[-1]}")
check(losses(lines("net1.bin --train 0:80 --epochs 3 --seed 5 --threads 3")) == losses(one), "threads change nothing")
check(losses(lines("net1.bin --train 0:80 --steps 3 --seed 6")) != losses(one)[:3], "the seed changes something")
largest = losses(lines(f"net1.bin --train 0:80 --steps 3 --seed {2**64 - 1}"))
check(largest != losses(lines(f"net1.bin --train 0:80 --steps 3 --seed {2**63 - 1}")), "a seed has 64 bits")
for seed in (2**64, -1, "5x", ""):
    expect(f"run net1.bin {DATA} --seed".split() + [str(seed)], 2,
           f"msc run: error: --seed: '{seed}' is not a whole number from 0 to 2^64 - 1 (msc run --help)\n", "")
for ranks in (2, 4):
    many = lines(f"net{ranks}.bin -n {ranks} --train 0:80 --eval 80: --epochs 3 --seed 5")
    check(
        len(losses(many)) == 30 and max(abs(a - b) / b for a, b in zip(losses(many), losses(one))) < 1e-4,
        f"{ranks} ranks lose as one: {losses(many)} {losses(one)}")
    check(many[-2]["eval"]["accuracy"] == one[-2]["eval"]["accuracy"] and many[-1]["ranks"] == ranks,
          "evaluation on ranks")
expect(
    f"run net1.bin {DATA} --steps 2", 0, "", lambda text: ""
    if text.startswith("step 1        loss ") and "2 steps in " in text and "1 rank of" in text else "text")

# A loss that is no finite number is null in JSON, and told of once, at its first step.
write("large.mlir", MODEL.replace("lr = 1.0e-01", "lr = 3.0e+38"))
expect("compile large.mlir -o large.bin --set device_num=1", 0, None)
for form in ("", " --json"):
    done = expect(f"run large.bin {DATA} --steps 6 --eval 0:8{form}", 0, None)
    warned = [line for line in done.stderr.decode().splitlines() if "warning" in line]
    said = done.stdout.decode()
    first = [line["step"] for line in map(json.loads, said.splitlines()) if "step" in line and line["loss"] is None
             ][0] if form else int([line for line in said.splitlines() if "inf" in line or "nan" in line][0].split()[1])
    check(
        len(warned) == 1 and warned[0].startswith(f"msc run: warning: the loss of step {first} is ") and
        warned[0].endswith("; later ones are not told of") and (", which JSON has as null" in warned[0]) == bool(form),
        f"a warning at step {first}: {done.stderr}")

# Collectives beside calls, in a thread of their own: the same bits; what ran when.
four = losses(lines("net4.bin --train 0:80 --epochs 1 --seed 5 --overlap never"))
check(
    losses(lines("net4.bin --train 0:80 --epochs 1 --seed 5 --overlap always --trace t.json")) == four,
    "overlap changes nothing")
events = json.load(open("t.json"))["traceEvents"]
check({e["pid"] for e in events} == {0, 1, 2, 3} and
      {e["cat"] for e in events if e["ph"] == "X"} == {"section", "call", "wait", "collective"} and
      not os.path.exists("t.json.0.part"), "a trace of four ranks")
check(
    sorted({e["args"]["step"] for e in events if e["ph"] == "X"}) == list(range(1, len(four) + 1)),
    "steps of a trace are those of the losses")
check(
    all(e["tid"] == (e["cat"] == "collective") and e["dur"] >= 0 for e in events if e["ph"] == "X") and
    {"name": "dense", "loc": "net.py:3"} in ({"name": e["name"], "loc": e["args"].get("loc")} for e in events),
    "what the trace says")

# The timed device: predicted times without data, and about them in reality.
timed = [
    json.loads(line) for line in expect("run net4.bin --device timed --steps 4 --json --trust-native", 0, "",
                                        env={"MSC_TIME_SCALE": "400"}).stdout.decode().splitlines()
]
total = timed[-1]
check(
    total["steps"] == 4 and total["time_scale"] == 400 and len(total["exposed_comm_ms"]) == 4 and
    timed[0]["loss"] is None, f"timed {total}")
check(
    min(line["ms"] for line in timed[:-1]) > 0.99 * 400 * total["predicted_step_ms"] and
    0 < total["predicted_exposed_comm_ms"] <= total["predicted_step_ms"], f"timed takes its time {timed}")
expect(f"run net4.bin {DATA} --device timed", 1, "msc: error: --data: the device timed has no values [E0114]\n", "")
expect("run net4.bin --device timed --trust-native", 1,
       "msc: error: MSC_TIME_SCALE: '0' is no positive number [E0114]\n", "", env={"MSC_TIME_SCALE": "0"})

# What is predicted to be hidden is hidden: gradients travel beside the backward.  Others may have the cores: the best
# step counts, and what they disturb is less of longer steps.
subprocess.run([sys.executable, "-m", "msc.models", "ffn", "-o", "ffn.fbs"], check=True)
ffn = {}
for overlap in ("true", "false"):
    compiled = expect(
        f"compile ffn.fbs --dim batch=32 -o ffn-{overlap}.bin --set device_num=4 --set parallel_mode=data_parallel "
        f"--set "
        f"overlap={overlap} --json",
        0, "")
    ffn[overlap] = json.loads(compiled.stdout)
predicted = ffn["false"]["predicted_step_ms"] - ffn["true"]["predicted_step_ms"]
check(predicted > 0.2 * ffn["false"]["predicted_step_ms"] and
      ffn["true"]["exposed_comm_ms"] < ffn["false"]["exposed_comm_ms"], f"predicted overlap {ffn}")


def best_step_ms(overlap, scale):
    """The shortest step when all times are `scale` times those predicted, divided by that."""
    steps = [
        json.loads(line) for line in expect(f"run ffn-{overlap}.bin --device timed --steps 8 --json --trust-native", 0,
                                            "",
                                            env={"MSC_TIME_SCALE": str(scale)}).stdout.decode().splitlines()
    ]
    check(abs(steps[-1]["predicted_step_ms"] - ffn[overlap]["predicted_step_ms"]) < 1e-6,
          "the plan tells what was predicted")
    return min(line["ms"] for line in steps[:-1]) / scale


for scale in (25, 100, 400):
    measured = {overlap: best_step_ms(overlap, scale) for overlap in ffn}
    if measured["false"] - measured["true"] > 0.8 * predicted:
        break
else:
    check(False, f"measured overlap {measured}, predicted {ffn}")

# Weights: saved by four ranks, taken up by one.
lines("net4.bin --steps 12 --save w.safetensors --in-order")
expect(f"run net1.bin {DATA} --steps 0 --eval 0:96 --init w.safetensors --json", 0, "", lambda text: ""
       if json.loads(text.splitlines()[0])["eval"]["accuracy"] > 0.5 else text)
expect(
    f"run net1.bin {DATA} --init x.idx", 1,
    "msc: error: x.idx: is no safetensors file: its first 8 bytes would be a header of "
    "7205759403826872320 bytes, at most 100000000 are allowed [E0114]\n",
    "")

# Bad input.
expect(
    f"run net1.bin --data x=x.idx y=y.idx", 1,
    "net1.bin: error: this plan holds native code and was not compiled by you on this host; "
    "if you know where it comes from, add --trust-native [E0122]\n", "")
expect(f"run net4.bin -n 3 {DATA}", 1,
       "net4.bin: error: the plan is for 4 ranks, not for 3: compile with --set device_num=3 [E0122]\n", "")
expect("compile net.mlir -o micro.bin --set micro_size=4", 0, None)
for command, text in (
    ("net1.bin --data x=x.idx --trust-native",
     "input 'y' has no data: give a file for it"), ("net1.bin --data x=x.idx z=y.idx --trust-native",
                                                    "the model has no input 'z'; its inputs are: x, y"),
    ("net1.bin --data x=x.idx y=absent.idx --trust-native",
     "absent.idx: cannot open: No such file or directory"), ("net1.bin --data x=x.idx y=few.idx --trust-native",
                                                             "input 'x' has 100 samples, but 'y' has 90"),
    ("net1.bin --data x=wide.idx y=y.idx --trust-native",
     "wide.idx: shape [100,13] does not fit input 'x' of shape [8,12] (the first dimension counts samples)"),
    (f"net1.bin {DATA} --train 0:101", "the training range 0:101 does not lie inside the 100 samples"),
    (f"micro.bin {DATA} --train 0:7 --steps 1",
     "the training range 0:7 has 7 samples, fewer than one step of 4 micro-batches of 2"),
    (f"net1.bin {DATA} --train 5", "--train: '5' is no range of samples such as 0:9000")):
    expect(f"run {command}", 1, f"msc: error: {text} [E0114]\n", "")
expect(f"run net1.bin -n 2 {DATA} --comm mpi", 1,
       "msc: error: --comm mpi connects ranks that mpirun started: mpirun -n 2 msc run ... --comm mpi [E0114]\n", "")
said = expect("run --help", 0, "", None).stdout.decode()
check("(not supported yet)" not in said and "not supported" not in said, said)

# One of several processes that something else started must know where the others are; a job of one is none.
for family, rank, ranks in (("mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
                            ("mpirun", "PMI_RANK", "PMI_SIZE"),
                            ("torch-style", "RANK", "WORLD_SIZE"), ("mpirun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS")):
    expect(
        f"run net2.bin {DATA}", 1,
        f"msc: error: {family} says rank 1 of 2, but nothing says where ranks meet; set MASTER_ADDR, or "
        "MSC_ADDRESS=HOST:PORT with a host of rank 0 [E0114]\n", "", env={rank: "1", ranks: "2"})
    expect(f"run net1.bin {DATA}", 0, "", None, env={rank: "0", ranks: "1"})
JOB = {"MSC_RANK": "1", "MSC_RANKS": "2", "MSC_ADDRESS": "@msc-nobody"}
expect(f"run net2.bin {DATA} -n 4", 1,
       "msc: error: -n 4 contradicts the environment: MSC_* says rank 1 of 2 [E0114]\n", "", env=JOB)
expect(f"run net2.bin {DATA} --trace t.json", 1,
       "msc: error: --trace: ranks that were started one by one write a file each: a name with %r for the rank, such "
       "as "
       "t.%r.json [E0114]\n", "", env=JOB)
expect(f"run net2.bin {DATA}", 1,
       "msc: error: MSC_* does not say which of the 2 ranks this is; set MSC_RANK [E0114]\n", "",
       env={**JOB, "MSC_RANK": ""})
expect(f"run net4.bin {DATA}", 1,
       "net4.bin: error: the plan is for 4 ranks, not for 2: compile with --set device_num=2 [E0122]\n", "", env=JOB)
expect(f"run net1.bin {DATA} --steps 1 --epochs 1", 2,
       "msc run: error: --steps and --epochs exclude each other (msc run --help)\n", "")
expect(f"run net1.bin {DATA} --threads 0", 2, "msc run: error: -n and --threads are at least 1 (msc run --help)\n", "")
expect(f"run net1.bin {DATA} --threads 1025", 2,
       "msc: error: 1025 threads: from 1 to 1024, or 0 for as many as there are cores [E0114]\n", "")
plan = open("net1.bin", "rb").read()
for name, data, text in (("cut.bin", plan[:-40],
                          "a damaged one"), ("flipped.bin", plan[:-9] + bytes([plan[-9] ^ 4]) + plan[-8:], "damaged"),
                         ("empty.bin", b"", "not a plan"),
                         ("net.mlir", MODEL.encode(), "; msc compile makes plans of models")):
    open(name, "wb").write(data)
    expect(
        f"run {name} {DATA}", 1, lambda got, text=text, name=name: ""
        if got.startswith(f"{name}: error: ") and text in got and got.endswith(" [E0122]\n") else text, "")

# A label that is out of range: found by a rank in a step, told by all.
expect(
    "run net1.bin --data x=x.idx y=bad.idx --trust-native --in-order --train 48:", 1, lambda text: ""
    if text.startswith("msc: error: rank 0: step 1: ") and "net.py" in text and "an index is out of range" in text else
    "op and place", "")
expect(
    "run net2.bin --data x=x.idx y=bad.idx --trust-native --in-order --train 48: --json", 1, lambda text: ""
    if "rank 0: step 1: " in text and "rank 1: step 1: " in text and "rank 0 failed" in text else "both ranks", "")


# Processes: one that is killed, and the launcher told to end.
def start(ranks):
    command = f"run net{ranks}.bin {DATA} --steps 10000000000 --json"  # more than there is memory to note times of
    process = subprocess.Popen([MSC, *command.split()], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for _ in range(200):
        line = process.stdout.readline()
    with open(f"/proc/{process.pid}/task/{process.pid}/children") as f:
        return process, [int(pid) for pid in f.read().split()]


def alive(pids):
    """Those that run; in a container without an init the dead may stay as zombies."""
    def runs(pid):
        try:
            return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] != "Z"
        except FileNotFoundError:
            return False
    return [pid for pid in pids if runs(pid)]


def end(process):
    """What it said; it ends long before its ranks would give up to wait for each other."""
    begin = time.monotonic()
    _, err = process.communicate(timeout=60)
    check(SANITIZED or time.monotonic() - begin < 20, "it ends soon")
    return err.decode()


def check_none_is_left(pids, what):
    """Processes without their parent end by themselves, as soon as they get a core."""
    limit = time.monotonic() + 20
    while alive(pids) and time.monotonic() < limit:
        time.sleep(0.01)
    check(not alive(pids), what)


for victim in (3, 0):
    process, ranks = start(4)
    check(len(ranks) == 4, "the launcher is no rank")
    os.kill(ranks[victim], signal.SIGKILL)
    text = end(process)
    check(process.returncode == 3, f"exit code 3, not {process.returncode}")
    check(f"rank {victim} (process {ranks[victim]}) was ended by signal 9 (Killed)" in text, text)
    check(
        all(f"rank {r}: step " in text for r in range(4) if r != victim) and f"rank {victim} is gone" in text and
        "all_reduce" in text and "(ranks 0,1,2,3)" in text, text)
    check(text.count("[E0125]") == text.count("\n"), f"each message is about a rank that is lost: {text}")
    check(not alive(ranks), "no process is left")
expect("explain E0125", 0, "", lambda text: ""
       if "a rank was lost" in text and "signal 9" in text else "the story of a lost rank")
process, ranks = start(2)
process.send_signal(signal.SIGUSR1)  # asks for a flight record, of which nobody spoke
time.sleep(0.2)
check(process.poll() is None and len(alive(ranks)) == 2, "SIGUSR1 without --flight ends no rank")
process.send_signal(signal.SIGTERM)
text = end(process)
check(process.returncode == 143 and not alive(ranks), f"ended by SIGTERM: {process.returncode} {text}")
process, ranks = start(2)
process.kill()
end(process)
check_none_is_left(ranks, "ranks end with their launcher")

# Output that does not arrive is a failure, with one rank and with several.
for plan in ("net1.bin", "net4.bin"):
    with open("/dev/full", "w") as full:
        for options in ([], ["--json"]):
            run = subprocess.run([MSC, "run", plan, *DATA.split(), *options], stdout=full, stderr=subprocess.PIPE,
                                 text=True, timeout=60)
            check(run.returncode == 3 and "cannot write to stdout" in run.stderr,
                  f"{plan} to a full device: {run.returncode} {run.stderr}")


# Few file descriptors: told at once, by all ranks alike; where more may be had they are taken.
def with_files(soft, hard):
    limit = (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)))
    return subprocess.run([MSC, "run", "net4.bin", *DATA.split()], capture_output=True, text=True, timeout=60,
                          preexec_fn=limit)


for files in (16, 14, 12, 10, 8):
    begin, run = time.monotonic(), with_files(files, files)
    check(
        run.returncode == 3 and "E0117" in run.stderr and
        ("file descriptors" in run.stderr or "open files" in run.stderr), f"{files} files: {run.stderr}")
    check("no such rank" not in run.stderr and run.stderr.count("\n") == 1 and time.monotonic() - begin < 20,
          f"{files} files: {run.stderr}")
check(with_files(12, 1024).returncode == 0, "the soft limit of files is raised")
expect.done()
