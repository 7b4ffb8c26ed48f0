#!/usr/bin/env python3
"""tcp: a small GPT, or one with experts, whose ranks are connected by TCP has the losses, the evaluation and the
weights of ranks that share memory, bit for bit: replicas, tensor parallelism, the parallel optimizer, pipelines. Ranks
that join one by one, as launchers start them, with and without a token, do the same; those that do not fit are refused
with the reason."""
import array
import json
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import time

from network import PLANS_OF_RANKS, write_gpt, write_npy
from program import call, losses_and_weights, settings

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
STEPS, BATCH, SEQ, VOCAB, SAMPLES = 4, 12, 8, 32, 48
PLANS = [("gpt", *job) for job in PLANS_OF_RANKS] + [
    ("gpt", 3, {"parallel_mode": "semi_auto_parallel", "pipeline_stages": 3, "micro_size": 6,
                "pipeline_scheduler": "zb-h1"}),
    ("moe", 2, {"parallel_mode": "semi_auto_parallel", "pipeline_stages": 2, "micro_size": 2,
                "pipeline_scheduler": "interleaved", "pipeline_chunks": 2}),  # ranks send messages to themselves
]
RUN = ["--threads", "1", "--steps", str(STEPS), "--seed", "5", "--json", "--save", "w.safetensors", "--train",
       f"0:{SAMPLES}", "--eval", f"0:{BATCH}", "--trust-native", "--data", "x=x.npy", "y=y.npy"]
TOKEN = "0123456789abcdef0123456789abcdef"


def result(out):
    return losses_and_weights(out, STEPS)


def start(plan, options=(), **env):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MSC_R", "MSC_T", "MSC_A"))}
    return subprocess.Popen([MSC, "run", plan, *RUN, *options], env={**clean, **env}, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def join(processes, timeout=60):
    """Of each process: exit code, stdout, stderr."""
    ends = [p.communicate(timeout=timeout) for p in processes]
    return [(p.returncode, *end) for p, end in zip(processes, ends)]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


def all_well(ends):
    for code, _, err in ends:
        assert code == 0, ends
    return ends


def check_plans():
    wanted = {}
    for i, (model, ranks, keys) in enumerate(PLANS):
        call(MSC, "compile", f"{model}.fbs", "-o", f"plan{i}.bin", "--set", f"device_num={ranks}", *settings(keys))
        local = result(call(MSC, "run", f"plan{i}.bin", "-n", str(ranks), *RUN))
        tcp = result(call(MSC, "run", f"plan{i}.bin", "-n", str(ranks), "--comm", "tcp", "--overlap", "always", *RUN))
        if local != tcp:
            sys.exit(f"{keys}: other bits over TCP: {local[0]} and {tcp[0]}")
        wanted[i] = local
    return wanted


def check_beside():
    """Exchanges of a rank with itself run on one thread while those with others run on another, in all turns of the two
    that ten runs bring."""
    call(sys.executable, "-m", "msc.models", "dlrm", "--batch", "16", "--vocab", "50", "--optimizer", "adam", "-o",
         "dlrm.fbs")
    call(MSC, "compile", "dlrm.fbs", "-o", "dlrm.bin", "--set", "device_num=3",
         *settings({"parallel_mode": "auto_parallel", "search_mode": "sharding_propagation",
                    "enable_parallel_optimizer": True}))
    rng = random.Random(7)
    write_npy("ids.npy", array.array("i", [rng.randrange(50) for _ in range(64 * 26)]), [64, 26])
    write_npy("numbers.npy", array.array("f", [rng.gauss(0, 1) for _ in range(64 * 13)]), [64, 13])
    write_npy("clicks.npy", array.array("f", [rng.randrange(2) for _ in range(64)]), [64, 1])
    run = [MSC, "run", "dlrm.bin", "-n", "3", "--threads", "1", "--steps", str(STEPS), "--json", "--save",
           "w.safetensors", "--overlap", "always", "--data", "x=ids.npy", "numbers=numbers.npy", "y=clicks.npy"]

    def training(*options):
        lines = [json.loads(line) for line in call(*run, *options).splitlines()]
        with open("w.safetensors", "rb") as file:
            return [line["loss"] for line in lines if "loss" in line], file.read()
    wanted = training()
    for turn in range(10):
        got = training("--comm", "tcp")
        if got != wanted:
            sys.exit(f"dlrm, run {turn}: other bits over TCP: {wanted[0]} and {got[0]}")


def check_families(wanted):
    """Ranks that something else started, in each way that does not need the thing itself."""
    port = free_port()
    torch = [{"RANK": str(r), "WORLD_SIZE": "3", "MASTER_ADDR": "localhost", "MASTER_PORT": port} for r in range(3)]
    for token in ({}, {"MSC_TOKEN": TOKEN}):
        ends = all_well(join([start("plan0.bin", ("--trace", "t.%r.json"), **env, **token) for env in torch]))
        for r in range(3):
            with open(f"t.{r}.json") as file:
                events = [e for e in json.load(file)["traceEvents"] if e["ph"] == "X"]
            assert {e["pid"] for e in events} == {r} and "collective" in {e["cat"] for e in events}, events[:3]
            assert abs(events[0]["ts"] / 1e6 - time.time()) < 60, events[0]  # one clock for the ranks of all hosts
        assert result(ends[0][1]) == wanted[0] and not ends[1][1], ends
        assert ends[0][2] == "msc run: rank 0 of 3, as torch-style says\n" and not ends[2][2], ends
    port = free_port()
    own = [{"MSC_RANK": str(r), "MSC_RANKS": "4", "MSC_ADDRESS": f"127.0.0.1:{port}"} for r in range(4)]
    ends = all_well(join([start("plan3.bin", **env) for env in own]))  # with messages between stages
    assert result(ends[0][1]) == wanted[3], ends
    ms = {"MS_SCHED_HOST": "127.0.0.1", "MS_SCHED_PORT": free_port(), "MS_WORKER_NUM": "4"}
    workers = [start("plan1.bin", MS_ROLE="MS_WORKER", MS_NODE_ID=str(r), **ms) for r in range(4)]
    ends = all_well(join([start("plan1.bin", MS_ROLE="MS_SCHED", **ms), *workers]))
    assert result(ends[1][1]) == wanted[1], ends
    for names in ((None,) * 4, ("2", None, "node-a", None)):  # the scheduler says which rank those without a number are
        ms["MS_SCHED_PORT"] = free_port()
        workers = [start("plan1.bin", MS_ROLE="MS_WORKER", **({"MS_NODE_ID": n} if n else {}), **ms) for n in names]
        ends = all_well(join([start("plan1.bin", MS_ROLE="MS_SCHED", **ms), *workers]))[1:]
        said = sorted(re.findall(r"rank (\d) of 4, as the scheduler says", "".join(end[2] for end in ends)))
        assert said == [r for r in "0123" if r not in names], ends
        assert result("".join(end[1] for end in ends)) == wanted[1], ends
    mpi = [{"PMI_RANK": str(r), "PMI_SIZE": "3", "MPI_LOCALRANKID": str(r), "MPI_LOCALNRANKS": "3"} for r in range(3)]
    for options in ((), ("--comm", "tcp")):  # ranks of one host share memory, unless told otherwise
        ends = all_well(join([start("plan0.bin", options, **env) for env in mpi]))
        assert result(ends[0][1]) == wanted[0], ends
    with open("table.json", "w") as out:
        json.dump({"server_count": "1", "status": "completed", "server_list": [{"server_id": "127.0.0.1", "device": [
            {"device_id": str(r), "rank_id": str(r)} for r in range(3)]}]}, out)
    table = {"RANK_TABLE_FILE": "table.json", "MSC_ADDRESS": f"127.0.0.1:{free_port()}"}
    ends = all_well(join([start("plan0.bin", **table, RANK_ID=str(r)) for r in range(3)]))
    assert result(ends[0][1]) == wanted[0], ends


def check_refusals():
    def both(first, second, plan=("plan0.bin", "plan0.bin"), options=("--timeout", "1")):
        port = free_port()
        env = {"WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        return join([start(plan[0], options, **{**env, "RANK": "0", **first}),
                     start(plan[1], options, **{**env, "RANK": "1", **second})])

    ends = both({}, {})
    for code, _, err in ends:
        assert code == 3 and "waited 1000 ms at 127.0.0.1:" in err and "for ranks 2 of 3" in err, ends
    ends = both({}, {}, options=("--timeout", "1", "--trace", "t.json"))
    assert all(e[0] == 1 and "a name with %r for the rank, such as t.%r.json" in e[2] for e in ends), ends
    ms = {"MS_SCHED_HOST": "127.0.0.1", "MS_SCHED_PORT": free_port(), "MS_ROLE": "MS_WORKER"}
    late = start("plan0.bin", ("--timeout", "1"), **{**ms, "MS_ROLE": "MS_SCHED"}, MS_WORKER_NUM="3")
    ends = join([late, *(start("plan0.bin", ("--timeout", "1"), **ms, MS_WORKER_NUM=n) for n in "34")])
    assert [e[0] for e in ends] == [3, 3, 3], ends
    assert all("for 2 of 3 ranks" in e[2] for e in ends[:2]), ends
    assert "this process believes in 4 ranks, the job has 3" in ends[2][2], ends
    ends = both({"MSC_TOKEN": TOKEN}, {"MSC_TOKEN": TOKEN + "0"})
    assert "for ranks 1, 2 of 3" in ends[0][2] and "the job has another token than this rank" in ends[1][2], ends
    ends = both({"MSC_TOKEN": TOKEN}, {})
    assert "the job has a token, this rank has none" in ends[1][2], ends
    ends = both({}, {"MSC_TOKEN": TOKEN})
    assert "the job has no token, this rank has one" in ends[1][2], ends
    ends = both({"MSC_TOKEN": "short"}, {})
    assert ends[0][0] == 2 and "the token has 5 characters; 22 are the least" in ends[0][2], ends
    ends = both({}, {"RANK": "0"})
    assert "cannot listen at" in ends[0][2] + ends[1][2], ends
    ends = both({}, {}, ("plan0.bin", "plan1.bin"))
    assert ends[1][0] == 1 and "the plan is for 4 ranks, not for 3" in ends[1][2], ends
    ends = both({"MASTER_ADDR": "no-such-name.invalid"}, {"MASTER_ADDR": "no-such-name.invalid"})
    assert ends[0][0] == 3 and "no-such-name.invalid:" in ends[0][2] and "the name does not resolve" in ends[0][2], ends
    ends = both({"MASTER_ADDR": "0.0.0.0"}, {})
    assert ends[0][0] == 3 and "can be reached from other hosts, and there is no token" in ends[0][2], ends
    with open("token", "w") as out:
        out.write(TOKEN + "\n")
    os.chmod("token", 0o644)
    ends = both({"MSC_TOKEN_FILE": "token"}, {"MSC_TOKEN_FILE": "token"})
    assert ends[0][0] == 1 and "others may read token: chmod 600 it" in ends[0][2], ends
    # two ranks of one number, and one that was compiled otherwise, with rank 2 there as well
    port = free_port()
    env = {"WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    call(MSC, "compile", "gpt.fbs", "-o", "other.bin", "--set", "device_num=3",
         *settings({**PLANS[0][2], "gradients_mean": False}))
    plans = ["plan0.bin", "plan0.bin", "other.bin"]
    ends = join([start(plan, ("--timeout", "20"), RANK=str(r), **env) for r, plan in enumerate(plans)])
    for code, _, err in ends:
        assert code == 3 or (code == 1 and "rank 0" not in err), ends
        assert "rank 2 has another plan than rank 0" in err, ends
    ends = join([start("plan0.bin", ("--timeout", "1"), RANK=r, **env) for r in "011"])
    said = "".join(err for _, _, err in ends)
    assert ("a rank of this number has joined already: rank 1 from 127.0.0.1:" in said
            and "for ranks 2 of 3" in said), ends


def check_strangers(wanted):
    """A thousand connections that say nothing, and some that say something else, while ranks join."""
    port = free_port()
    env = {"WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "MSC_TOKEN": TOKEN}
    first = start("plan0.bin", RANK="0", **env)
    strangers = []
    while len(strangers) < 1000:
        try:
            s = socket.create_connection(("127.0.0.1", int(port)))
        except ConnectionRefusedError:
            continue
        if len(strangers) % 10 == 0:
            s.sendall(random.Random(len(strangers)).randbytes(300))
        strangers.append(s)
    ends = all_well(join([first, *(start("plan0.bin", RANK=str(r), **env) for r in (1, 2))]))
    assert result(ends[0][1]) == wanted[0], ends


def main():
    rng = random.Random(3)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_gpt(rng, 3, SAMPLES, SEQ, BATCH, VOCAB)
        call(sys.executable, "-m", "msc.models", "moe", "--layers", "4", "--hidden", "16", "--heads", "2", "--seq",
             str(SEQ), "--batch", str(BATCH), "--vocab", str(VOCAB), "--optimizer", "adam", "--lr", "0.01", "-o",
             "moe.fbs")
        wanted = check_plans()
        check_beside()
        check_families(wanted)
        check_refusals()
        check_strangers(wanted)
    print(
        f"{len(PLANS)} plans with the same bits over TCP, 9 ways to join, 16 that are refused, 1,000 silent strangers")


main()
