#!/usr/bin/env python3
"""msc doctor: what it finds on this host, in a job of three ranks, and where something is wrong: exit code 3 and the
mending."""
import json
import os
import socket

from expect import MSC, Expect

expect = Expect()
TOKEN = {"MSC_TOKEN": "0123456789abcdef0123456789abcdef"}


def findings(command, code=0, **more):
    return {f["topic"]: f for f in json.loads(expect(command, code, **more).stdout)["findings"]}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


got = findings("doctor --json")
expect.check(f"topics: {sorted(got)}", {"job", "version", "names", "limits", "cores", "network",
                                        "clock", "library", "token",
                                        "bandwidth", "clocks"} <= set(got))
expect.check(f"no errors: {got}", all(f["verdict"] != "error" for f in got.values()))
expect.check(f"every warning has a mending: {got}",
             all(f["mending"] for f in got.values() if f["verdict"] == "warning"))
expect.check(f"one pair: {got['bandwidth']}", "of 1 pairs" in got["bandwidth"]["text"])
got = findings("doctor --ranks 4 --json", env=TOKEN)
expect.check(f"six pairs: {got['bandwidth']}", "of 6 pairs" in got["bandwidth"]["text"])
expect.check(f"token: {got['token']}", got["token"]["text"] == "32 characters, and libsodium is there")
text = expect("doctor", 0, "").stdout.decode()
expect.check(f"text: {text}", text.startswith("ok       job        none: ranks are started here\nok       version "))

# A job of three: rank 0 tells of the pairs, the others of what is wrong with them.
run = expect(["launch", "-n", "3", "--master", f"127.0.0.1:{free_port()}", MSC, "doctor"], 0,
             "", env=TOKEN).stdout.decode()
expect.check(f"rank 0: {run}", "[0] rank 0: ok       job        rank 0 of 3 at 127.0.0.1:" in run
             and "of 3 pairs" in run)
expect.check(f"others: {run}", "[1] rank 1: ok" not in run)

# What is wrong.
JOB = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}


def wrong(topic, words, **env):
    found = findings("doctor --json", 3, env={**JOB, **env})[topic]
    expect.check(f"{topic}: {found}", found["verdict"] == "error" and words in found["text"] and found["mending"])


wrong("job", "RANK=2 contradicts WORLD_SIZE=2", RANK="2")
wrong("token", "the token has 3 characters; 22 are the least", MSC_TOKEN="abc")
wrong("token", "MSC_TOKEN_FILE: absent cannot be read", MSC_TOKEN_FILE="absent")
wrong("address", "is no address of this host", MASTER_ADDR="192.0.2.1", **TOKEN)
wrong("address", "can be reached from other hosts, and there is no token", MASTER_ADDR="0.0.0.0")
with socket.socket() as taken:
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    wrong("address", "Address already in use", MASTER_PORT=str(taken.getsockname()[1]))
wrong("address", "the name does not resolve", MASTER_ADDR="no-such-name.invalid")
expect("doctor --ranks 1", 2, "msc doctor: error: --ranks is from 2 to 64 (msc doctor --help)\n", "")
expect.done()
