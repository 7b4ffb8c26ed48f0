#!/usr/bin/env python3
"""unequal_servers: parameter servers whose workers do not wait for one another, and servers that have a copy.  Where
gradients do not depend on the parameters, any order of pushes ends in the weights of workers that wait; a bound on
staleness holds, and without one nobody waits for a worker that is stopped.  Workers pull rows that changed.  A server
that is killed, or its copy, changes no bit; that both are is told, also under msc launch, which starts the copies.
Workers meet for a checkpoint and at no other step, and stop together.  What workers cannot do without waiting is
refused."""
import array
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

import msc
from network import write_gpt, write_npy
from program import call, losses_and_weights, settings

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(("MSC_R", "MSC_S", "MSC_A", "MS_"))}
RANKS, BATCH, SAMPLES = 3, 12, 48
KEYS = {"parallel_mode": "data_parallel", "gradients_mean": True}
DATA = ["--threads", "1", "--seed", "5", "--json", "--trust-native", "--train", f"0:{SAMPLES}",
        "--data", "x=x.npy", "y=y.npy"]


def compiled(model, plan, keys=KEYS, **servers):
    call(MSC, "compile", model, "-o", plan, *settings({"device_num": RANKS, **keys, "parameter_server": servers}))
    return plan


# ---- workers that do not wait ----


def check_every_push_counts_once():
    """The loss is linear in w: gradients are the data, in eighths, whose sums are exact in any order."""
    g = msc.Graph("linear")
    x = g.input("x", "f32", [BATCH, 4])
    w = g.parameter("w", "f32", [4], init="zeros")
    g.loss(g.reduce_sum(g.mul(x, w), [0, 1]))
    g.optimizer("sgd", lr=1.0)
    g.save("linear.fbs")
    rng = random.Random(1)
    values = array.array("f", (rng.randrange(-64, 65) / 8 for _ in range(SAMPLES * 4)))
    write_npy("linear.npy", values, [SAMPLES, 4])
    words = ["--threads", "1", "--json", "--trust-native", "--in-order",
             "--train", f"0:{SAMPLES}", "--data", "x=linear.npy",
             "--steps", "8", "--eval", f"0:{SAMPLES}", "--save", "w.safetensors"]
    wanted = [-2 * sum(values[i::4]) for i in range(4)]
    ends = set()
    for keys in ({"mode": "sync"}, {"mode": "async"}, {"mode": "async", "staleness": 0},
                 {"mode": "async", "staleness": 2}):
        plan = compiled("linear.fbs", "linear.bin", {"parallel_mode": "semi_auto_parallel"}, **keys)
        for servers in ("0", "1"):
            out = call(MSC, "run", plan, "-n", str(RANKS), "--servers", servers, *words)
            told = [json.loads(line)["eval"]["loss"] for line in out.splitlines() if '"eval"' in line]
            weights = read_vector("w.safetensors", 4)
            assert weights == wanted, (keys, servers, weights, wanted)
            ends.add(told[0])
    assert len(ends) == 1, ends


def check_rows_of_every_push_count_once():
    """The same of the rows of a table that is updated lazily: a push has its own rows, and no others change."""
    rows, rng = 30, random.Random(2)
    for name, decay in (("rows", 0.0), ("decayed", 0.5)):
        g = msc.Graph(name)
        x, i = g.input("x", "f32", [BATCH, 4]), g.input("i", "i32", [BATCH])
        g.loss(g.reduce_sum(g.mul(g.gather(g.parameter("t", "f32", [rows, 4], init="ones"), i), x), [0, 1]))
        g.optimizer("sgd", lr=1.0, weight_decay=decay, lazy=True)
        g.save(f"{name}.fbs")
    values = array.array("f", (rng.randrange(-64, 65) / 8 for _ in range(SAMPLES * 4)))
    numbers = array.array("i", (min(int(rng.paretovariate(0.5)), rows - 3) for _ in range(SAMPLES)))
    write_npy("rows.npy", values, [SAMPLES, 4])
    write_npy("numbers.npy", numbers, [SAMPLES])
    words = ["--threads", "1", "--json", "--trust-native", "--in-order", "--train", f"0:{SAMPLES}", "--data",
             "x=rows.npy", "i=numbers.npy", "--steps", "8", "--save", "w.safetensors"]
    wanted = [1 - 2 * sum(values[4 * s + k] for s in range(SAMPLES) if numbers[s] == r)
              for r in range(rows) for k in range(4)]
    assert len(set(numbers)) > 10 and 0 not in numbers
    for keys in ({"mode": "sync"}, {"mode": "async"}, {"mode": "async", "staleness": 0},
                 {"mode": "sync", "replication": 2}):
        plan = compiled("rows.fbs", "rows.bin", {"parallel_mode": "semi_auto_parallel"}, **keys)
        assert json.loads(call(MSC, "explain", plan, "--json"))["servers"]["parameters"] == ["t"]
        call(MSC, "run", plan, "-n", str(RANKS), "--servers", "2", *words)
        assert read_vector("w.safetensors", rows * 4) == wanted, keys
    plan = compiled("decayed.fbs", "rows.bin", {"parallel_mode": "semi_auto_parallel"}, mode="async")
    call(MSC, "run", plan, "-n", str(RANKS), "--servers", "1", *words)
    weights = read_vector("w.safetensors", rows * 4)
    for r in range(rows):
        assert (weights[4 * r:4 * r + 4] == [1] * 4) == (r not in numbers), (r, weights)


def run_over_tcp(plan, words):
    """What rank 0 prints of a job with one server, all of whose connections are of TCP."""
    with open("token", "w") as file:
        file.write("a" * 32)
    os.chmod("token", 0o600)
    with socket.socket() as found, socket.socket() as behind:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
        behind.bind(("127.0.0.1", port + 1))
    env = {**CLEAN, "MSC_RANKS": str(RANKS), "MSC_SERVERS": "1", "MSC_ADDRESS": f"127.0.0.1:{port}",
           "MSC_TOKEN_FILE": "token"}
    roles = [{"MSC_RANK": str(r)} for r in range(RANKS)] + [{"MSC_SERVER": "1"}]
    all_of_them = [subprocess.Popen([MSC, "run", plan, *words], env={**env, **role}, stdout=subprocess.PIPE, text=True)
                   for role in roles]
    out = [p.communicate(timeout=120)[0] for p in all_of_them]
    assert [p.returncode for p in all_of_them] == [0] * len(all_of_them), out
    return out[0]


def check_pulls_of_changed_rows():
    """A worker pulls the whole table once, and then the rows that steps have updated."""
    rows, width, steps = 6000, 20, 12
    g = msc.Graph("pulled")
    i, y = g.input("i", "i32", [BATCH, 2]), g.input("y", "f32", [BATCH])
    picked = g.gather(g.parameter("t", "f32", [rows, width], init="normal:0.3"), i)
    d = g.sub(g.reduce_sum(picked, [1, 2]), y)
    g.loss(g.reduce_mean(g.mul(d, d), [0]))
    g.optimizer("adam", lr=0.01, lazy=True)
    g.save("pulled.fbs")
    rng = random.Random(3)
    write_npy("pulled.npy", array.array("i", (rng.randrange(rows) for _ in range(2 * SAMPLES))), [SAMPLES, 2])
    write_npy("wanted.npy", array.array("f", (rng.random() for _ in range(SAMPLES))), [SAMPLES])
    words = ["--threads", "1", "--json", "--trust-native", "--seed", "5", "--data", "i=pulled.npy", "y=wanted.npy",
             "--steps", str(steps), "--save", "w.safetensors", "--eval", f"0:{SAMPLES}"]
    plan = compiled("pulled.fbs", "pulled.bin", {"parallel_mode": "data_parallel"}, mode="sync")
    wanted = losses_and_weights(call(MSC, "run", plan, "-n", str(RANKS), *words), steps)
    block = 256 // (4 * width) * 4 * width
    most = 4 * rows * width + (steps - 1) * 2 * BATCH * RANKS * block + 100 * steps
    for over_tcp in (False, True):
        out = run_over_tcp(plan, words) if over_tcp else call(MSC, "run", plan, "--servers", "1", *words)
        assert losses_and_weights(out, steps) == wanted
        pulled = steps * json.loads(out.splitlines()[-1])["comm_bytes_per_step"]
        assert 4 * rows * width - steps <= pulled <= most < 4 * rows * width * steps / 4, (pulled, most)


def read_vector(path, size):
    """The floats of a safetensors file that holds nothing else."""
    with open(path, "rb") as file:
        return [*struct.unpack(f"<{size}f", file.read()[-4 * size:])]


def count_lines(path):
    with open(path, "rb") as file:
        return file.read().count(b"\n")


def steps_while_stopped(plan, enough, *more):
    """How many steps rank 0 ends after another worker was stopped, until they are enough or none has ended for 2 s."""
    with open("steps", "wb") as out:
        p = subprocess.Popen([MSC, "run", plan, "-n", str(RANKS), *DATA, "--steps", "1000000", *more], env=CLEAN,
                             stdout=out, stderr=subprocess.DEVNULL)
    while count_lines("steps") < 5 and p.poll() is None:
        time.sleep(0.01)
    children = [int(w) for w in open(f"/proc/{p.pid}/task/{p.pid}/children").read().split()]
    os.kill(children[1], signal.SIGSTOP)
    before, after, quiet = count_lines("steps"), 0, time.monotonic()
    while after < enough and time.monotonic() < quiet + 2:
        time.sleep(0.01)
        if (lines := count_lines("steps") - before) != after:
            after, quiet = lines, time.monotonic()
    os.kill(children[1], signal.SIGCONT)
    p.terminate()
    p.communicate(timeout=120)
    return after


def check_staleness():
    free, bounded = compiled("gpt.fbs", "free.bin", mode="async"), compiled("gpt.fbs",
        "bounded.bin", mode="async", staleness=3)
    told = json.loads(call(MSC, "explain", bounded, "--json"))["servers"]
    assert told["mode"] == "async" and told["staleness"] == 3 and told["copies"] == 1, told
    assert "staleness" not in json.loads(call(MSC, "explain", free, "--json"))["servers"]
    assert steps_while_stopped(free, 200) >= 200
    assert steps_while_stopped(bounded, 200) <= 10  # three ahead of the stopped one, which was at most as far ahead


def check_training_without_waiting():
    """Losses fall, and all workers end with the same weights, which a checkpoint holds too."""
    plan = compiled("gpt.fbs", "free.bin", mode="async")
    run = ["run", plan, "-n", str(RANKS), "--servers", "2", *DATA]
    out = call(MSC, *run, "--steps", "40", "--eval", f"0:{SAMPLES}", "--ckpt-dir", "c", "--save", "w.safetensors")
    losses = [json.loads(line)["loss"] for line in out.splitlines() if '"loss"' in line and "eval" not in line]
    ended = [json.loads(line)["eval"]["loss"] for line in out.splitlines() if '"eval"' in line]
    assert len(losses) == 40 and ended[0] < 0.5 * losses[0], (losses, ended)
    again = call(MSC, *run, "--steps", "40", "--eval", f"0:{SAMPLES}", "--ckpt-dir", "c", "--resume")
    assert [json.loads(line)["eval"]["loss"] for line in again.splitlines() if '"eval"' in line] == ended, again


def listens(pid, number):
    with open(f"/proc/{pid}/status") as file:
        caught = next(line.split()[1] for line in file if line.startswith("SigCgt:"))
    return int(caught, 16) >> (number - 1) & 1


def check_checkpoints_of_workers_apart():
    """Workers meet when a checkpoint is due, and at no other step: one that is stopped keeps nobody waiting before.
    Asked to stop, all stop after the same step, with a checkpoint."""
    plan = compiled("gpt.fbs", "free.bin", mode="async")
    assert steps_while_stopped(plan, 21, "--ckpt-dir", "apart", "--ckpt-every", "900000") >= 21
    for launched in (False, True):
        folder = f"stopped{launched}"
        run = [MSC, "run", plan, "--servers", "2", *DATA, "--steps", "1000000", "--ckpt-dir", folder]
        words = [MSC, "launch", "-n", str(RANKS), "--servers", "2", "--", *run[:3], *run[5:]] if launched else run
        p = subprocess.Popen(words, env=CLEAN, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(9):
            p.stdout.readline()
        children = [int(w) for w in open(f"/proc/{p.pid}/task/{p.pid}/children").read().split()]
        # one worker knows, and tells all; where nothing is launched not that which printed, once it listens
        while not launched and not listens(children[2], signal.SIGTERM):
            time.sleep(0.01)
        os.kill(children[0 if launched else 2], signal.SIGTERM)
        out, err = p.communicate(timeout=120)
        saved = os.listdir(folder)
        assert len(saved) == 1 and "error" not in err.replace("exit code", ""), (launched, saved, err)
        steps = [json.loads(line[line.index("{"):])["step"] for line in out.splitlines() if '"loss"' in line]
        again = call(MSC, *run[1:-4], "--steps", str(steps[-1] + 3), "--ckpt-dir", folder, "--resume")
        told = [json.loads(line)["step"] for line in again.splitlines() if '"loss"' in line]
        assert told == [steps[-1] + i for i in (1, 2, 3)], (told, steps[-3:])


def check_bias_of_one_element():
    """The gradient of the recommender's last bias is a sum over the workers like others, which servers can have."""
    call(sys.executable, "-m", "msc.models", "dlrm", "--batch", "12", "--fields", "3", "--vocab", "10", "-o", "one.fbs")
    told = json.loads(call(MSC, "explain", compiled("one.fbs", "one.bin", mode="async"), "--json"))["servers"]
    assert "top3.bias" in json.dumps(told["parameters"]), told


# ---- copies ----


def run_and_kill(plan, wanted, victims, after):
    """Kills these processes behind the ranks after so many steps; the run ends as one that nobody disturbed."""
    steps = len(wanted[0]) - 1
    with open("said", "w") as said:
        p = subprocess.Popen([MSC, "run", plan, "-n", str(RANKS), "--servers", "2", *DATA,
                              "--steps", str(steps), "--eval",
                              f"0:{BATCH}", "--save", "w.safetensors"], env=CLEAN, stdout=subprocess.PIPE, stderr=said,
                             text=True)
    out = [p.stdout.readline() for _ in range(after)]
    children = [int(w) for w in open(f"/proc/{p.pid}/task/{p.pid}/children").read().split()]
    assert len(children) == RANKS + 4, children
    begin = time.monotonic()
    for v in victims:
        os.kill(children[RANKS + v], signal.SIGKILL)
    out.append(p.stdout.read())
    code = p.wait(timeout=120)
    with open("said") as said:
        return code, time.monotonic() - begin, "".join(out), said.read()


def check_copies():
    steps = 500
    plan = compiled("gpt.fbs", "copies.bin", mode="sync", replication=2)
    call(MSC, "compile", "gpt.fbs", "-o", "plain.bin", *settings({"device_num": RANKS, **KEYS}))
    words = ["-n", str(RANKS), *DATA, "--steps", str(steps), "--eval", f"0:{BATCH}", "--save", "w.safetensors"]
    wanted = losses_and_weights(call(MSC, "run", "plain.bin", *words), steps)
    for servers in ("0", "1", "2"):
        have = losses_and_weights(call(MSC, "run", plan, *words, "--servers", servers), steps)
        assert have == wanted, (servers, have[0][:3], wanted[0][:3])
    for victims in ([1], [0, 1], [2, 1]):  # 0 and 1 have their copies in 2 and 3
        code, _, out, err = run_and_kill(plan, wanted, victims, 5 + 9 * victims[0])
        assert code == 0 and "its copy goes on" in err, (victims, code, err)
        assert losses_and_weights(out, steps) == wanted, victims
    code, seconds, _, err = run_and_kill(plan, wanted, [0, 2], 5)
    assert code == 3 and seconds < 60 and "was ended by signal 9" in err and "server 0" in err, (code, seconds, err)
    odd = {**CLEAN, "MSC_RANKS": str(RANKS), "MSC_RANK": "0", "MSC_SERVERS": "3", "MSC_ADDRESS": "@nobody"}
    p = subprocess.run([MSC, "run", plan, *DATA, "--steps", "1"], env=odd, capture_output=True, text=True, timeout=120)
    assert (p.returncode == 1
            and "the job has 3 servers: of a plan whose servers have a copy, an even number" in p.stderr), p
    check_launched_copies(plan, wanted, words[2:])


def check_launched_copies(plan, wanted, words):
    """msc launch starts the copies of the servers of the plan that its program is given; a server that is killed there
    is not missed."""
    launched = [MSC, "launch", "-n", str(RANKS), "--servers", "2", "--", MSC, "run", plan, *words]
    for victim in (None, 0, 3):
        with open("said", "w") as said:
            p = subprocess.Popen(launched, env=CLEAN, stdout=subprocess.PIPE, stderr=said, text=True)
        out = [p.stdout.readline() for _ in range(20)]
        children = [int(w) for w in open(f"/proc/{p.pid}/task/{p.pid}/children").read().split()]
        assert len(children) == RANKS + 4, children
        if victim is not None:
            os.kill(children[RANKS + victim], signal.SIGKILL)
        out.append(p.stdout.read())
        with open("said") as said:
            err = said.read()
        assert p.wait(timeout=120) == 0, (victim, err)
        assert losses_and_weights("".join(out), len(wanted[0]) - 1) == wanted, victim
        if victim is not None:
            assert f"server {victim % 2} was ended by signal 9" in err and "goes on\n" in err, err


# ---- refusals ----


def refused(what, model, **keys):
    p = subprocess.run([MSC, "compile", model, "-o", "none.bin", *settings({"device_num": 2, **keys})], env=CLEAN,
                       capture_output=True, text=True)
    assert p.returncode == 1 and what in p.stderr and "internal" not in p.stderr, (what, p)


def check_refusals():
    free = {"parameter_server": {"mode": "async"}}
    refused("workers are not behind in mode sync", "gpt.fbs", **KEYS, parameter_server={"staleness": 1})
    refused("replication: must be a whole number from 1 to 2", "gpt.fbs", **KEYS, parameter_server={"replication": 3})
    call(sys.executable, "-m", "msc.models", "ffn", "--batch", "12", "--strategy", "dense1=((1,1),(1,2))",
         "-o", "cut.fbs")
    refused("workers that do not wait for one another cannot update it", "cut.fbs",
            parallel_mode="semi_auto_parallel", **free)
    assert not os.path.exists("none.bin")


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_gpt(random.Random(4), 1, SAMPLES, 8, BATCH, 32)
        check_every_push_counts_once()
        check_rows_of_every_push_count_once()
        check_pulls_of_changed_rows()
        check_training_without_waiting()
        check_staleness()
        check_bias_of_one_element()
        check_checkpoints_of_workers_apart()
        check_copies()
        check_refusals()
    print("workers that do not wait, and servers that are killed, as they should be")


main()
