#!/usr/bin/env python3
"""servers: a small GPT whose optimizer's state lives on parameter servers, one to four, started by msc run and by msc
launch, has the losses, the evaluation and the weights of ranks that sum gradients and update parameters themselves, bit
for bit: replicas, tensor parallelism beside them, micro-batches, pipeline stages, all parameters or those that are
marked, learning rates that change.  (Workers that do not wait, and servers with a copy: unequal_servers.)  A server
that dies is named, and so is what servers cannot do."""
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import msc
from network import write_gpt
from program import call, losses_and_weights, settings

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
STEPS, BATCH, SEQ, VOCAB, SAMPLES = 4, 12, 8, 32, 48
SYNC = {"parameter_server": {"mode": "sync"}}
PLANS = [
    (3, {"parallel_mode": "data_parallel", "gradients_mean": True}),
    (4, {"parallel_mode": "semi_auto_parallel", "mesh": {"dp": 4}}),
    (2, {"parallel_mode": "data_parallel", "micro_size": 2}),
    (5, {"parallel_mode": "data_parallel", "gradients_mean": True}),  # which do not divide the batch
    (7, {"parallel_mode": "data_parallel", "gradients_mean": True}),
    (4, {"parallel_mode": "semi_auto_parallel", "mesh": {"dp": 2}, "pipeline_stages": 2, "micro_size": 2}),
]
DATA = ["--threads", "1", "--seed", "5", "--json", "--trust-native", "--train", f"0:{SAMPLES}", "--data", "x=x.npy",
        "y=y.npy"]
RUN = [*DATA, "--steps", str(STEPS), "--save", "w.safetensors", "--eval", f"0:{BATCH}"]
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(("MSC_R", "MSC_S", "MSC_A", "MS_"))}


def result(out):
    return losses_and_weights(out, STEPS)


def check_plans():
    for i, (ranks, keys) in enumerate(PLANS):
        call(MSC, "compile", "gpt.fbs", "-o", "plain.bin", "--set", f"device_num={ranks}", *settings(keys))
        call(MSC, "compile", "gpt.fbs", "-o", f"plan{i}.bin", "--set", f"device_num={ranks}",
             *settings({**keys, **SYNC}))
        wanted = result(call(MSC, "run", "plain.bin", "-n", str(ranks), *RUN))
        told = json.loads(call(MSC, "explain", f"plan{i}.bin", "--json"))["servers"]
        assert told["parameter_bytes"] == told["pushed_bytes"] and told[
            "state_bytes"] == 2 * told["parameter_bytes"], told
        assert len(told["parameters"]) >= 20, told
        for servers in range(5) if "pipeline_stages" not in keys else (0, 2, 3, 5):
            have = result(call(MSC, "run", f"plan{i}.bin", "-n", str(ranks), "--servers", str(servers), *RUN))
            if have != wanted:
                sys.exit(f"{keys}, {servers} servers: other bits: {have[0]} and {wanted[0]}")
        launched = subprocess.run([MSC, "launch", "-n", str(ranks), "--servers", "2", "--", MSC,
                                   "run", f"plan{i}.bin", *RUN],
                                  env=CLEAN, capture_output=True, text=True, timeout=60)
        assert launched.returncode == 0 and result(launched.stdout) == wanted, (keys, launched)
        assert "[server" not in launched.stdout, launched


def check_nothing_to_serve():
    p = subprocess.run([MSC, "launch", "-n", "3", "--servers", "2", "--", MSC, "run", "unserved.bin", *RUN], env=CLEAN,
                       capture_output=True, text=True, timeout=60)
    assert p.returncode == 0, p
    for i in range(2):
        assert f"[server {i}] msc run: server {i + 1} of 2: no parameter of the plan lives on servers" in p.stderr, p
    result(p.stdout)


def check_checkpoints():
    """A checkpoint has the state of servers: a run that goes on from it, with other servers or none, has the bits of
    one that was never interrupted; also after SIGTERM."""
    run, half = ["run", "plan0.bin", "-n", "3"], [*DATA, "--steps", str(STEPS // 2)]
    wanted = result(call(MSC, *run, "--servers", "2", *RUN))
    call(MSC, *run, "--servers", "2", *half, "--ckpt-dir", "c")
    for servers in ("0", "1", "2"):
        out = call(MSC, *run, "--servers", servers, *RUN, "--ckpt-dir", "c", "--resume", "--ckpt-every", "100")
        losses = [json.loads(line).get("loss") for line in out.splitlines() if '"loss"' in line]
        assert [v for v in losses if v] == wanted[0][STEPS // 2:STEPS], (servers, losses, wanted[0])
        with open("w.safetensors", "rb") as file:
            assert file.read() == wanted[1], servers
        shutil.rmtree("c")
        call(MSC, *run, "--servers", "2", *half, "--ckpt-dir", "c")
    shutil.rmtree("c")
    long = [MSC, *run, "--servers", "2", *DATA, "--steps", "100000", "--ckpt-dir", "c"]
    p = subprocess.Popen(long, env=CLEAN, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for _ in range(3):
        p.stdout.readline()
    p.send_signal(signal.SIGTERM)
    out, err = p.communicate(timeout=120)
    assert p.returncode == 128 + signal.SIGTERM and os.listdir("c"), (p.returncode, err)
    done = int(os.listdir("c")[0].split("-")[-1]) + 2
    words = [*DATA, "--steps", str(done), "--save", "w.safetensors"]
    call(MSC, *run, "--servers", "1", *words, "--ckpt-dir", "c", "--resume", "--ckpt-every", "100000")
    with open("w.safetensors", "rb") as file:
        went_on = file.read()
    call(MSC, *run, "--servers", "0", *words)
    with open("w.safetensors", "rb") as file:
        assert file.read() == went_on, done


def check_lost_server():
    """A server that is killed is named long before waits end, which is after 300 s, and nothing hangs."""
    p = subprocess.Popen([MSC, "run", "plan0.bin", "-n", "3", "--servers", "2", *DATA, "--steps", "100000"], env=CLEAN,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for _ in range(3):
        p.stdout.readline()
    children = open(f"/proc/{p.pid}/task/{p.pid}/children").read().split()
    assert len(children) == 5, children
    os.kill(int(children[3]), signal.SIGKILL)  # behind the ranks
    begin = time.monotonic()
    _, err = p.communicate(timeout=120)
    assert p.returncode == 3 and time.monotonic() - begin < 60, (p.returncode, err)
    assert "server 0: the parameter server is lost" in err, err
    assert f"server 0 (process {children[3]}) was ended by signal 9" in err, err


def refused(what, *words):
    p = subprocess.run([MSC, *words], env=CLEAN, capture_output=True, text=True)
    assert p.returncode in (1, 2) and what in p.stderr, (what, p)


def check_refusals():
    def compiled(**keys):
        return ["compile", "gpt.fbs", "-o", "none.bin", "--set", "device_num=2",
                *settings({"parallel_mode": "semi_auto_parallel", **keys})]

    for keys in ({"zero": 1}, {"enable_parallel_optimizer": True}):
        refused(f"parameter_server contradicts {[*keys][0]} ", *compiled(**SYNC, mesh={"dp": 2}, **keys))
    refused("parameter_server: not supported yet for cuda", *compiled(**SYNC), "--target", "cuda:sm_90")
    refused("--servers: no parameter of the plan lives on servers", "run", "unserved.bin",
            "-n", "3", "--servers", "1", *RUN)
    refused("1 server for 2 stages: each stage needs one at least", "run", "plan5.bin", "-n", "4",
            "--servers", "1", *RUN)
    refused("--servers is 0 to 64", "run", "plan0.bin", "-n", "3", "--servers", "65", *RUN)
    assert not os.path.exists("none.bin")


def check_values_put_off():
    """Values of a step, also gradients until they are pushed, wait in host memory."""
    keys = {"device_num": 3, "offload": {"activation": "cpu"}, **PLANS[0][1]}
    call(MSC, "compile", "gpt.fbs", "-o", "plain.bin", "--set", "device_num=3", *settings(PLANS[0][1]))
    wanted = result(call(MSC, "run", "plain.bin", "-n", "3", *RUN))
    call(MSC, "compile", "gpt.fbs", "-o", "away.bin", *settings({**keys, **SYNC}))
    for servers in "012":
        out = call(MSC, "run", "away.bin", "-n", "3", "--servers", servers, *RUN)
        totals = json.loads(out.splitlines()[-1])
        assert totals["host_bytes"] > 0, totals
        assert result(out) == wanted, servers


def check_state_away():
    """What is chosen to leave the device so that a limit holds leaves it with servers, too; state may be on their
    disks, from where checkpoints have it."""
    ranks, keys = PLANS[0]
    report = json.loads(call(MSC, "compile", "large.fbs", "-o", "plain.bin", "--json", "--set", f"device_num={ranks}",
                             *settings(keys)))
    wanted = result(call(MSC, "run", "plain.bin", *RUN))
    limit = report["memory_bytes_per_rank"] * 6 // 10
    for away in ({"offload": {"param": "cpu", "optimizer": "disk", "activation": "cpu"}, "offload_path": "."},
                 {"auto_offload": True, "memory_limit": limit}):
        report = json.loads(call(MSC, "compile", "large.fbs", "-o", "away.bin", "--json",
                                 *settings({"device_num": ranks, **keys, **away, **SYNC})))
        assert report["memory_bytes_per_rank"] <= limit and report["offload"]["host"] > 1 << 17, report
        for servers in ("0", "1", "2"):
            assert result(call(MSC, "run", "away.bin", "--servers", servers, *RUN)) == wanted, (away, servers)
        call(MSC, "run", "away.bin", "--servers", "2", *DATA, "--steps", str(STEPS // 2), "--ckpt-dir", "away")
        out = call(MSC, "run", "away.bin", "--servers", "1", *RUN, "--ckpt-dir", "away", "--resume", "--ckpt-every",
                   "100")
        losses = [json.loads(line).get("loss") for line in out.splitlines() if '"loss"' in line]
        assert [v for v in losses if v] == wanted[0][STEPS // 2:STEPS], (away, losses, wanted[0])
        with open("w.safetensors", "rb") as file:
            assert file.read() == wanted[1], away
        shutil.rmtree("away")


def check_parameters_away():
    """Parameters live in host memory or on disk, of workers and of servers, and large ones are fetched there."""
    size = "--layers 2 --hidden 64 --heads 2 --optimizer adam --lr 0.01".split()
    call(sys.executable, "-m", "msc.models", "gpt", *size, "--seq", str(SEQ), "--batch", str(BATCH), "--vocab",
         str(VOCAB), "-o", "large.fbs")
    for ranks, keys in (PLANS[0], PLANS[2], PLANS[5]):
        call(MSC, "compile", "large.fbs", "-o", "plain.bin", "--set", f"device_num={ranks}", *settings(keys))
        wanted = result(call(MSC, "run", "plain.bin", "-n", str(ranks), *RUN))
        for home, pool in (("cpu", "host_bytes"), ("disk", "disk_bytes")):
            away = {"offload": {"param": home}, **({"offload_path": "."} if home == "disk" else {})}
            call(MSC, "compile", "large.fbs", "-o", "away.bin", "--set", f"device_num={ranks}",
                 *settings({**keys, **away, **SYNC}))
            for servers in (0, 2, 3):
                out = call(MSC, "run", "away.bin", "-n", str(ranks), "--servers", str(servers), *RUN)
                assert json.loads(out.splitlines()[-1])[pool] > 1 << 17, out
                assert result(out) == wanted, (keys, home, servers)


def check_changed_rates():
    """A learning rate that changes between steps is the servers' too."""
    call(MSC, "compile", "gpt.fbs", "-o", "rates.bin",
         *settings({"device_num": 3, "variable_lr": True, **PLANS[0][1], **SYNC}))
    words = ["run", "rates.bin", *RUN, "--lr-schedule", "cosine:warmup=2,min=0.1"]
    wanted, constant = (result(call(MSC, *w, "--servers", "0")) for w in (words, words[:-2]))
    assert wanted != constant
    for servers in ("1", "2"):
        assert result(call(MSC, *words, "--servers", servers)) == wanted, servers


def check_sums_of_two_types():
    """Sums of f32 stay with the workers where most are of bf16."""
    keys = {"device_num": 3, "compute_type": "bf16", "gradient_fp32_sync": False, **PLANS[0][1], **SYNC}
    call(MSC, "compile", "gpt.fbs", "-o", "types.bin", *settings(keys))
    told = json.loads(call(MSC, "explain", "types.bin", "--json"))["servers"]
    assert 2 * told["pushed_bytes"] == told["parameter_bytes"], told
    wanted, have = (result(call(MSC, "run", "types.bin", *RUN, "--servers", n)) for n in "02")
    assert have == wanted, (have[0], wanted[0])


def check_other_order():
    """Sums in another order than that of the ranks are the workers', and that nothing is left for servers is said."""
    g = msc.Graph("orders")
    g.mesh(a=2, b=3)
    x = g.input("x", "f32", [12, 5])
    h = g.dense(x, 3, name="dense", bias=False, in_layout=["[{b,a},{}]", "[{},{}]"])
    g.loss(g.reduce_mean(g.mul(h, h), [0, 1]))
    g.optimizer("sgd", lr=0.1)
    g.save("orders.fbs")
    words = [MSC, "compile", "orders.fbs", "-o", "orders.bin",
             *settings({"device_num": 6, "parallel_mode": "semi_auto_parallel", **SYNC})]
    p = subprocess.run(words, capture_output=True, text=True)
    assert p.returncode == 0 and "warning: parameter_server does nothing here" in p.stderr, p
    assert not json.loads(call(MSC, "explain", "orders.bin", "--json")).get("servers"), "served"


def check_cut_parameters():
    """LAMB sums the squares of a cut parameter over all ranks; the ranks have different parts of it all the same."""
    layers = [f"layer0.{name}=((1,1,1),(1,3))" for name in ("attention.query", "mlp.up")]
    call(sys.executable, "-m", "msc.models", "gpt", "--layers", "1", "--hidden", "12",
         "--heads", "3", "--seq", str(SEQ),
         "--batch", str(BATCH), "--vocab", str(VOCAB), "--optimizer", "lamb", "--lr", "0.01",
         *(word for layer in layers for word in ("--strategy", layer)), "-o", "cut.fbs")
    keys = {"device_num": 3, "parallel_mode": "semi_auto_parallel", "micro_size": 2}
    outs = []
    for more in ({}, SYNC):
        call(MSC, "compile", "cut.fbs", "-o", "cut.bin", *settings({**keys, **more}))
        outs.append(result(call(MSC, "run", "cut.bin", "-n", "3", *RUN)))
    assert outs[0] == outs[1], (outs[0][0], outs[1][0])


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_gpt(random.Random(4), 2, SAMPLES, SEQ, BATCH, VOCAB)
        check_plans()
        check_changed_rates()
        check_values_put_off()
        check_parameters_away()
        check_state_away()
        check_sums_of_two_types()
        check_other_order()
        check_cut_parameters()
        call(MSC, "compile", "gpt.fbs", "-o", "unserved.bin", "--set", "device_num=3",
             "--set", "parallel_mode=data_parallel")
        check_nothing_to_serve()
        check_checkpoints()
        check_lost_server()
        check_refusals()
    print(f"{len(PLANS)} plans with the same bits on 0 to 4 servers")


main()
