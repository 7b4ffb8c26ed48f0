#!/usr/bin/env python3
"""between_hosts: time of an all_reduce of f32 between namespaces as hosts, a rank on each, in msc and in Open MPI over
TCP by turns, as fast as the machine goes and behind a limit of 1 Gbit/s; beside iperf3.  Says what is missing.

    python3 tests/bench/between_hosts.py [HOSTS]     2 without a number"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

from all_reduce import MSC, PROGRAM

HOSTS = int(sys.argv[1]) if len(sys.argv) > 1 else 2
ROUNDS = int(os.environ.get("ROUNDS", "3"))
TAG = f"b{os.getpid() % 100000}"
SIZES = (1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24)
BURST = 256 << 10  # bytes that the limit lets pass at once after a pause
FACTOR, SHARE = 1.5, 0.95  # goals: times Open MPI's speed; part of iperf3's under the limit
NEEDED = ("mpicc", "mpirun", "iperf3", "ip", "tc", "sysctl")


def ip(*words):
    done = subprocess.run(["ip", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return f"ip {' '.join(words)}: {done.stderr.strip()}" if done.returncode else None


def make_hosts():
    """None, or why there can be none."""
    commands = [["netns", "add", f"{TAG}b"], ["-n", f"{TAG}b", "link", "add", "br0", "type", "bridge"],
                ["-n", f"{TAG}b", "link", "set", "br0", "up"]]
    for i in range(HOSTS):
        ns = f"{TAG}h{i}"
        commands += [["netns", "add", ns],
                     ["link", "add", "v0", "netns", ns, "type", "veth", "peer", "name", f"p{i}", "netns", f"{TAG}b"],
                     ["-n", f"{TAG}b", "link", "set", f"p{i}", "master", "br0", "up"],
                     ["-n", ns, "addr", "add", f"10.77.8.{i + 1}/24", "dev", "v0"],
                     ["-n", ns, "link", "set", "v0", "up"], ["-n", ns, "link", "set", "lo", "up"],
                     # bbr without its queue paces badly on veth: figures would be about that
                     ["netns", "exec", ns, "sysctl", "-qw", "net.ipv4.tcp_congestion_control=reno"]]
    return next(filter(None, (ip(*words) for words in commands)), None)


def limit_rate():
    limit = "tc qdisc add dev v0 root tbf rate 1000mbit latency 50ms burst".split() + [str(BURST)]
    return next(filter(None, (ip("netns", "exec", f"{TAG}h{i}", *limit) for i in range(HOSTS))), None)


def on_host(i, *words):
    return ["ip", "netns", "exec", f"{TAG}h{i}", *words]


def by_msc(port):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MSC_R", "MSC_A", "MSC_T"))}
    job = {**clean, "MSC_TOKEN": os.urandom(16).hex(), "MASTER_ADDR": "10.77.8.1", "MASTER_PORT": str(port),
           "WORLD_SIZE": str(HOSTS)}
    ranks = [subprocess.Popen(on_host(i, MSC, "bench", "comm", "--comm", "tcp", "--sizes", "64k..16M", "--json"),
                              stdout=subprocess.PIPE, text=True, env={**job, "RANK": str(i)}) for i in range(HOSTS)]
    texts = [p.communicate(timeout=300)[0] for p in ranks]
    assert not any(p.returncode for p in ranks), texts
    rows = json.loads(texts[0])
    rows = rows if isinstance(rows, list) else next(v for v in rows.values() if isinstance(v, list))
    return {r["bytes"]: r["ns"] for r in rows if r["op"] == "all_reduce" and r["bytes"] in SIZES}


def by_mpi(program, agent):
    one = ["--mca", "plm_rsh_no_tree_spawn", "1", "--mca", "routed", "direct", "--mca", "pml", "ob1", "--mca", "btl",
           "tcp,self", "--mca", "mpi_yield_when_idle", "1"]
    near = [word for kind in ("oob", "btl") for word in ("--mca", f"{kind}_tcp_if_include", "10.77.8.0/24")]
    hosts = ",".join(f"10.77.8.{i + 1}:1" for i in range(HOSTS))
    text = subprocess.run(on_host(0, "mpirun", "--allow-run-as-root", "--mca", "plm_rsh_agent", agent, *one, *near,
                                  "--host", hosts, "-n", str(HOSTS), program, *map(str, SIZES)),
                          check=True, stdout=subprocess.PIPE, text=True, timeout=300).stdout
    return {int(size): int(ns) for size, ns in (line.split() for line in text.splitlines())}


def by_iperf3():
    """Bytes per second from one host to another."""
    server = subprocess.Popen(on_host(0, "iperf3", "-s", "-1"), stdout=subprocess.DEVNULL)
    time.sleep(0.5)
    text = subprocess.run(on_host(1, "iperf3", "-c", "10.77.8.1", "-t", "3", "-J"), check=True, stdout=subprocess.PIPE,
                          text=True).stdout
    server.wait(timeout=10)
    return json.loads(text)["end"]["sum_received"]["bits_per_second"] / 8


def compare(title, program, agent, port, is_limited):
    own, other, speed = {}, {}, 0
    for r in range(ROUNDS):
        speed = max(speed, by_iperf3())
        for least, found in ((own, by_msc(port + r)), (other, by_mpi(program, agent))):
            for size, ns in found.items():
                least[size] = min(ns, least.get(size, ns))
    for size in SIZES:
        moved = 2 * (HOSTS - 1) / HOSTS * size  # bytes that each rank must receive
        least_speed = (moved - BURST) / own[size] * 1e9
        share = ", mostly within the burst of the limit" if is_limited and moved < 8 * BURST else ""
        if is_limited and not share:
            share = f", at least {least_speed / speed:.1%} of iperf3 (goal {SHARE:.0%})"
        print(f"{HOSTS} hosts, {title}, {size:>8} bytes: msc {own[size] / 1e3:9.1f} us, Open MPI "
              f"{other[size] / 1e3:9.1f} us: {other[size] / own[size]:5.2f} times as fast (goal {FACTOR}), "
              f"{moved / own[size]:.3f} GB/s{share}", flush=True)
    print(f"  iperf3: {speed / 1e9:.3f} GB/s", flush=True)


def run(folder):
    program, agent = os.path.join(folder, "reduce"), os.path.join(folder, "enter")
    with open(program + ".c", "w") as out:
        out.write(PROGRAM)
    subprocess.run(["mpicc", "-O2", "-o", program, program + ".c"], check=True)
    with open(agent, "w") as out:  # a remote shell: HOST COMMAND ...
        out.write(f'#!/bin/bash\nwhile [[ $1 == -* ]]; do shift; done\nh=$1; shift\n'
                  f'exec ip netns exec {TAG}h$((${{h##*.}} - 1)) sh -c "$*"\n')
    os.chmod(agent, 0o755)
    compare("no limit", program, agent, 29600, False)
    why = limit_rate()
    if why:
        print(f"between_hosts: not behind 1 Gbit/s: {why}")
        return
    compare("1 Gbit/s", program, agent, 29700, True)


def main():
    missing = [name for name in NEEDED if not shutil.which(name)]
    if missing:
        print(f"between_hosts: skipped: not here: {', '.join(missing)}")
        return
    try:
        why = make_hosts()
        if why:
            print(f"between_hosts: skipped: {why}")
            return
        with tempfile.TemporaryDirectory() as folder:
            run(folder)
    finally:
        for name in [f"{TAG}h{i}" for i in range(HOSTS)] + [f"{TAG}b"]:
            ip("netns", "del", name)


main()
