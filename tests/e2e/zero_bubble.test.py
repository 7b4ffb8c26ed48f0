#!/usr/bin/env python3
"""zero_bubble: zb-auto in a compiled plan knows what sections take: no kind with one chunk is predicted to be
faster, under any memory_limit the plan keeps to it, and more memory never means a slower plan."""
import json
import os
import subprocess
import sys
import tempfile

from program import settings

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
WIDTHS = [96, 320, 64, 64, 256, 256, 128, 192, 64, 320, 96, 96]  # layers that differ, so that sections do
STAGES, MICRO, BATCH = 4, 12, 12 * 32


def model():
    pairs = list(zip(WIDTHS, WIDTHS[1:]))
    types = [f"tensor<{a}x{b}xf32>" for a, b in pairs]
    args = [f"%x: tensor<{BATCH}x{WIDTHS[0]}xf32>", f"%y: tensor<{BATCH}xi32>"
            ] + [f"%w{i}: {t}" for i, t in enumerate(types)]
    attrs = ['{msc.name = "x", msc.role = "data"}', '{msc.name = "y", msc.role = "label"}'
             ] + [f'{{msc.init = "normal:0.1", msc.name = "w{i}", msc.role = "parameter"}}' for i in range(len(pairs))]
    lines, x = [], "%x"
    for i, (a, b) in enumerate(pairs):
        lines.append(
            f'%h{i} = "msc.matmul"({x}, %w{i}) : (tensor<{BATCH}x{a}xf32>, {types[i]}) -> tensor<{BATCH}x{b}xf32>')
        lines.append(f'%t{i} = "msc.tanh"(%h{i}) : (tensor<{BATCH}x{b}xf32>) -> tensor<{BATCH}x{b}xf32>')
        x = f"%t{i}"
    lines.append(
        f'%l = "msc.softmax_cross_entropy"({x}, %y) : (tensor<{BATCH}x{WIDTHS[-1]}xf32>, tensor<{BATCH}xi32>) -> '
        f'tensor<f32>'
    )
    lines.append('"msc.return"(%l) : (tensor<f32>) -> ()')
    body = "\n    ".join(lines)
    return f"""module {{
  "msc.func"() ({{
  ^bb0({', '.join(args)}):
    {body}
  }}) {{arg_attrs = [{', '.join(attrs)}], loss = 0 : i64, optimizer = {{kind = "momentum", lr = 0.1 : f64, momentum = 0.9 : f64}}, results = ["loss"], sym_name = "forward"}} : () -> ()
}}
"""


def compiled(**more):
    """(predicted ms, bytes per rank), or None where nothing fits."""
    keys = {
        "device_num": STAGES, "parallel_mode": "semi_auto_parallel", "pipeline_stages": STAGES, "micro_size": MICRO,
        **more
    }
    done = subprocess.run([MSC, "compile", "m.mlir", "-o", "plan.bin", "--json", *settings(keys)], capture_output=True,
                          text=True, timeout=120)
    if done.returncode == 1 and "memory_limit is" in done.stderr:
        return None
    if done.returncode:
        sys.exit(f"{more}: exit code {done.returncode}\n{done.stderr}")
    report = json.loads(done.stdout)
    return report["predicted_step_ms"], sum(report["memory"].values())


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open("m.mlir", "w") as out:
            out.write(model())
        auto = compiled(pipeline_scheduler="zb-auto")
        others = {kind: compiled(pipeline_scheduler=kind) for kind in ("gpipe", "1f1b", "zb-h1", "zb-h2")}
        for kind, other in others.items():
            if auto[0] > other[0] * 1.001:
                sys.exit(f"zb-auto takes {auto[0]} ms, {kind} {other[0]} ms")
        last, kept = None, 0
        least = min(other[1] for other in others.values())
        for i in range(10):
            limit = least // 2 + i * (auto[1] * 11 // 10 - least // 2) // 9
            plan = compiled(pipeline_scheduler="zb-auto", memory_limit=limit)
            if not plan:
                if last:
                    sys.exit(f"a limit of {limit} bytes is too little, and a lower one was not")
                continue
            if plan[1] > limit:
                sys.exit(f"{plan[1]} bytes, the limit is {limit}")
            if last and plan[0] > last * 1.001:
                sys.exit(f"{plan[0]} ms within {limit} bytes, {last} ms within less")
            last, kept = plan[0], kept + 1
    print(f"{auto[0]:.2f} ms, {', '.join(f'{k} {t:.2f}' for k, (t, _) in others.items())}; {kept} limits kept")


main()
