#!/usr/bin/env python3
"""What `msc calibrate` measured decides what a search chooses: a matrix product is shared by all ranks where its
result is gathered as fast as the links say, and computed whole by each where collectives were measured to take a
second."""
import json
import os
import subprocess

from expect import MSC, Expect, write

expect = Expect()
CPU = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/clusters/cpu.json")
MODEL = """"builtin.module"() ({
  "msc.func"() ({
  ^bb0(%x: tensor<4096x1024xf32>, %w: tensor<1024x1024xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<4096x1024xf32>, tensor<1024x1024xf32>) -> tensor<4096x1024xf32> loc("product")
    "msc.return"(%0) : (tensor<4096x1024xf32>) -> ()
  }) {arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "w", msc.role = "parameter"}],
      results = ["y"],
      sym_name = "forward"} : () -> ()
}) : () -> ()
"""
write("net.mlir", MODEL)
OPS = ("all_gather", "all_reduce", "reduce_scatter", "permute")
RANKS = (2, 3, 4, 6, 8, 12, 16)


def chosen(mesh, mode, ns):
    """(parts of the product, the search's ms) where every collective was measured to take so long; 0: none was."""
    with open(CPU, encoding="utf-8") as file:
        cluster = json.load(file)
    if ns:
        cluster["collectives"] = [{"op": op, "ranks": ranks, "bytes": size, "ns": ns}
                                  for op in OPS for ranks in RANKS for size in (1 << 16, 1 << 26)]
    write("cluster.json", json.dumps(cluster))
    devices = MESHES[json.dumps(mesh)]
    settings = (f"mesh={json.dumps(mesh)}", "parallel_mode=auto_parallel", f"search_mode={mode}",
                "enable_alltoall=false", f"device_num={devices}")
    run = subprocess.run([MSC, "compile", "net.mlir", "-o", "net.plan", "--json", "--cluster", "cluster.json",
                          *(x for s in settings for x in ("--set", s))], capture_output=True, text=True)
    if run.returncode:
        expect.check(run.stderr, False)
        return '', 0
    told = subprocess.run([MSC, "explain", "net.plan", "--json"], capture_output=True, text=True, check=True)
    layouts = next(o["chosen"]["layouts"] for o in json.loads(told.stdout)["ops"] if o["op"] == "product")
    return layouts, json.loads(run.stdout)["search"]["step_ms"]


MESHES = {json.dumps(m): n for m, n in (({"d": 8}, 8), ({"a": 3, "b": 4}, 12), ({"d": 16}, 16), ({"d": 2}, 2))}
for text, devices in MESHES.items():
    for mode in "dynamic_programming", "recursive_programming":
        shape = json.loads(text)
        described, fast, slow = (chosen(shape, mode, ns) for ns in (0, 1_000, 1_000_000_000))
        shown = f"{mode} on {text}: described {described}, fast {fast}, slow {slow}"
        whole = "[{},{}] [{},{}] -> [{},{}]"
        expect.check(f"{shown}: shared, as links are described", described[0] != whole)
        expect.check(f"{shown}: shared, for the time that was measured", fast[0] != whole and fast[1] < described[1])
        expect.check(f"{shown}: computed by each, where to gather takes a second",
                     slow[0] == whole and slow[1] > described[1])
expect.done()
