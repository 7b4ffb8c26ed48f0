#!/usr/bin/env python3
"""merged_dimensions: of [b,s,h] -> [bs,h] -> products, worked on apart or as they are, the compiler takes what the
search finds faster: never slower than the program as it is, nor here than one without the reshape."""
import json
import os
import subprocess
import sys
import tempfile

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
NETWORK = """module%s {{
  "msc.func"() ({{
  ^bb0(%%x: tensor<{b}x{s}x{h}xf32>, %%w: tensor<{h}x{k}xf32>, %%v: tensor<{k}x{h}xf32>):
    %%0 = "msc.reshape"(%%x) {{shape = [{n}, {h}]}} : (tensor<{b}x{s}x{h}xf32>) -> tensor<{n}x{h}xf32> loc("flat")
    %%1 = "msc.matmul"(%%0, %%w) : (tensor<{n}x{h}xf32>, tensor<{h}x{k}xf32>) -> tensor<{n}x{k}xf32> loc("up")
    %%2 = "msc.relu"(%%1) : (tensor<{n}x{k}xf32>) -> tensor<{n}x{k}xf32> loc("relu")
    %%3 = "msc.matmul"(%%2, %%v) : (tensor<{n}x{k}xf32>, tensor<{k}x{h}xf32>) -> tensor<{n}x{h}xf32> loc("down")
    %%4 = "msc.reduce_sum"(%%3) {{dims = [0, 1]}} : (tensor<{n}x{h}xf32>) -> tensor<f32> loc("loss")
    "msc.return"(%%4) : (tensor<f32>) -> ()
  }}) {{arg_attrs = [{{msc.name = "x", msc.role = "data"}}, {{msc.name = "w", msc.role = "parameter", msc.init = "normal:1"}}, {{msc.name = "v", msc.role = "parameter", msc.init = "normal:1"}}],
      loss = 0 : i64, optimizer = {{kind = "sgd", lr = 0.1 : f32}}, results = ["loss"], sym_name = "forward"}} : () -> ()
}}
"""


def step_ms(text, devices):
    with open("model.mlir", "w") as file:
        file.write(text)
    run = subprocess.run([
        MSC, "compile", "model.mlir", "-o", "plan.bin", "--json", "--cluster", "a100", "--set",
        "parallel_mode=auto_parallel", "--set", f"device_num={devices}"
    ], capture_output=True, text=True)
    if run.returncode:
        sys.exit(run.stderr)
    return json.loads(run.stdout)["search"]["step_ms"]


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for b, s, h, k, devices in ((32, 256, 1024, 128, 6), (8, 16, 256, 512, 8), (4, 2, 1024, 4096, 2), (32, 256, 256,
                                                                                                           4096, 6)):
            text = NETWORK.format(b=b, s=s, n=b * s, h=h, k=k)
            chosen, merged = step_ms(text % "", devices), step_ms(text % " attributes {msc.merged = true}", devices)
            print(f"{b}x{s}x{h}x{k} on {devices}: {chosen} ms, as it is {merged} ms")
            if chosen > merged:
                sys.exit("slower than the program as it is")
            flat = text.replace(f"tensor<{b}x{s}x{h}xf32>", f"tensor<{b * s}x{h}xf32>") % ""
            flat = "\n".join(line.replace("%0", "%x") for line in flat.splitlines() if "msc.reshape" not in line)
            given = step_ms(flat, devices)
            print(f"  from [{b * s},{h}] on: {given} ms")
            if chosen > 1.02 * given:
                sys.exit("slower than what has no reshape")


main()
