#!/usr/bin/env python3
"""buckets: how gradients are fused changes neither losses nor bytes, only how often ranks meet; and further layers
of a network cut the same way bring no new collectives into the plan."""
import array
import json
import os
import random
import subprocess
import sys
import tempfile

from network import write_npy

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
KEYS = {
    "semi": ["device_num=4", "parallel_mode=data_parallel"],
    "tp": ['mesh={"tp":8}', "parallel_mode=auto_parallel", "search_mode=sharding_propagation", "full_batch=true"]
}


def call(*words, **more):
    done = subprocess.run(words, capture_output=True, text=True, **more)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stderr}")
    return done


def model(*words):
    call(sys.executable, "-m", "msc.models", *words,
         env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "tools", "python")})


def compile(name, keys):
    done = call(MSC, "compile", f"{name}.fbs", "-o", f"{name}.bin", "--json", *(w for k in keys for w in ("--set", k)))
    return json.loads(done.stdout), done.stderr


def expect(what, got, wanted):
    if got != wanted:
        sys.exit(f"{what}: expected {wanted}, got {got}")


def sums(told):
    return [b["members"] for b in told["buckets"] if b["op"] == "all_reduce"]


def ways_to_fuse():
    model("mlp", "--batch", "8", "-o", "mlp.fbs")  # 784-512-512-1: three weights and three biases
    rng = random.Random(3)
    write_npy("x.npy", array.array("f", [rng.gauss(0, 1) for _ in range(16 * 784)]), [16, 28, 28])
    write_npy("y.npy", array.array("f", [rng.gauss(0, 1) for _ in range(16)]), [16, 1])
    ways = {
        "alone": ['comm_fusion={"openstate":false}'], "automatic": ["comm_fusion={}"],
        "one": ["all_reduce_fusion_config=[]"], "cut": ["all_reduce_fusion_config=[2,4]"], "optimal": [],
        "sizes": ['comm_fusion={"allreduce":{"mode":"size","config":[1,2]}}'], "sharded": ["zero=1", "comm_fusion={}"]
    }
    told = {way: compile("mlp", KEYS["semi"] + keys)[0] for way, keys in ways.items()}
    members = {way: sums(t) for way, t in told.items()}
    expect("alone", members["alone"], [])
    expect("automatic, in one", members["automatic"], members["one"])
    expect("all gradients", members["one"], [6])
    expect("cut after two and four", members["cut"], [2, 2, 2])
    expect("every gradient once", sum(members["optimal"]), 6)
    expect("bytes", {t["comm_bytes_per_rank"] for t in told.values()}, {told["one"]["comm_bytes_per_rank"]})
    expect("uses", told["alone"]["comm_subgraphs"]["uses"] - told["one"]["comm_subgraphs"]["uses"], 5)
    warned = compile("mlp", KEYS["semi"] + ["all_reduce_fusion_config=[4,6]"])[1]
    expect("a warning", "index 6 is ignored: there are 6 all_reduces of gradients" in warned, True)
    for way, keys in ways.items():
        compile("mlp", KEYS["semi"] + keys)
        lines = [
            json.loads(line) for line in call(MSC, "run", "mlp.bin", "-n", "4", "--steps", "4", "--seed", "1", "--json",
                                              "--data", "x=x.npy", "y=y.npy").stdout.splitlines()
        ]
        told[way]["losses"], told[way]["received"] = [s["loss"] for s in lines
                                                      if "loss" in s], lines[-1]["comm_bytes_per_step"]
        expect(f"{way}: losses", told[way]["losses"], told["alone"]["losses"])
        expect(f"{way}: bytes received", told[way]["received"], told["one"]["comm_bytes_per_rank"])


def further_layers():
    found = {}
    for layers in (2, 4, 6):
        cuts = [
            ("--strategy", f"layer{k}.{name}=((1,1,{rows}),({rows},{columns}))") for k in range(layers)
            for name, rows, columns in [(n, 1, 8)
                                        for n in ("attention.query", "attention.key", "attention.value", "mlp.up")] +
            [("attention.out", 8, 1), ("mlp.down", 8, 1)]
        ]
        model("gpt", "--layers", str(layers), "--hidden", "64", "--heads", "8", "--seq", "16", "--vocab", "64",
              "--batch", "2", *(w for c in cuts for w in c), "-o", "gpt.fbs")
        found[layers] = compile("gpt", KEYS["tp"])[0]["comm_subgraphs"]
    expect("distinct collectives", {n["distinct"] for n in found.values()}, {found[2]["distinct"]})
    expect("a small number", found[2]["distinct"] <= 16, True)
    expect("uses", found[6]["uses"] - found[4]["uses"], found[4]["uses"] - found[2]["uses"])


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        ways_to_fuse()
        further_layers()


main()
