#!/usr/bin/env python3
"""windows: convolutions and pools of random sizes, windows, strides and paddings, whose images are cut along rows or
columns into parts that need not be equal, trained on one rank and on several: the same losses and parameters.  Cuts
are those that the rule allows: what the windows slide over has parts that begin at multiples of their stride."""
import array
import json
import math
import os
import random
import sys
import tempfile

from network import read_weights, write_npy
from program import call

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
IMAGES, STEPS, CHANNELS = 2, 2, 2
MESHES = [{"d": 2}, {"d": 3}, {"d": 4}, {"a": 2, "b": 2}, {"a": 2, "b": 3}]


class Windows:
    """One op: windows of `kernel` elements, in both dimensions, over images of `size`."""

    def __init__(self, r, size):
        self.kind = r.choice(["conv2d", "conv2d", "max_pool", "avg_pool", "conv2d_transpose"])
        self.groups, padded = r.choice([1, 1, 2]), r.random() < 0.7
        while True:
            self.kernel = [r.randint(1, 4) for _ in "hw"]
            self.stride = [r.choice([1, 1, 1, 2, 3]) for _ in "hw"]
            self.dilation = [r.choice([1, 1, 2]) for _ in "hw"]
            reach = [d * (k - 1) for d, k in zip(self.dilation, self.kernel)]
            self.padding = [r.randint(0, reach[i // 2]) if padded else 0 for i in range(4)]
            both = [self.padding[2 * i] + self.padding[2 * i + 1] for i in range(2)]
            if self.kind == "conv2d_transpose":
                self.made = [(n - 1) * s + e + 1 - p for n, s, e, p in zip(size, self.stride, reach, both)]
            else:
                self.made = [(n + p - e - 1) // s + 1 for n, p, e, s in zip(size, both, reach, self.stride)]
            if min(self.made) >= 1 and max(self.made) <= 20 and all(n + p > e for n, p, e in zip(size, both, reach)):
                break

    def text(self, name, x, size, layout):
        def image(s):
            return f"tensor<{IMAGES}x{CHANNELS}x{s[0]}x{s[1]}xf32>"

        attrs = {"stride": self.stride, "dilation": self.dilation}
        if any(self.padding):
            attrs["padding"] = self.padding
        operands, types = x, image(size)
        if "conv" in self.kind:
            attrs["groups"] = f"{self.groups} : i64"
            operands, types = f"{x}, %w{name[1:]}", f"{types}, {self.weights()}"
        else:
            attrs["kernel"] = self.kernel
        if self.kind == "conv2d_transpose":
            attrs["size"] = self.made
        if layout:
            attrs["in_layout"] = json.dumps([layout] + ["[{},{},{},{}]"] * ("conv" in self.kind))
        given = ", ".join(f"{k} = {v}" for k, v in attrs.items())
        return f'{name} = "msc.{self.kind}"({operands}) {{{given}}} : ({types}) -> {image(self.made)}'

    def weights(self):
        return f"tensor<{CHANNELS}x{CHANNELS // self.groups}x{self.kernel[0]}x{self.kernel[1]}xf32>"


def make_network(seed):
    r = random.Random(seed)
    first = size = [r.randint(7, 17), r.randint(7, 17)]
    ops = []
    for _ in range(3):
        ops.append((Windows(r, size), size))
        size = ops[-1][0].made
    return first, ops


def model(first, ops, layouts):
    lines, args, roles, x = [], [f"%x: tensor<{IMAGES}x{CHANNELS}x{first[0]}x{first[1]}xf32>",
                                 f"%y: tensor<{IMAGES}xi32>"], [("x", "data"), ("y", "label")], "%x"
    for i, (op, size) in enumerate(ops):
        lines.append(op.text(f"%{i}", x, size, layouts[i] if layouts else None))
        shape = f"tensor<{IMAGES}x{CHANNELS}x{op.made[0]}x{op.made[1]}xf32>"
        lines.append(f'%t{i} = "msc.tanh"(%{i}) : ({shape}) -> {shape}')
        x = f"%t{i}"
        if "conv" in op.kind:
            args.append(f"%w{i}: {op.weights()}")
            roles.append((f"w{i}", "parameter"))
    args.append(f"%v: {shape.replace(f'<{IMAGES}x', '<1x')}")
    roles.append(("v", "parameter"))
    lines.append(f'%m = "msc.mul"({x}, %v) : ({shape}, {args[-1][4:]}) -> {shape}')
    lines.append(f'%s = "msc.reduce_sum"(%m) {{dims = [2, 3]}} : ({shape}) -> tensor<{IMAGES}x{CHANNELS}xf32>')
    lines.append(f'%l = "msc.softmax_cross_entropy"(%s, %y) : (tensor<{IMAGES}x{CHANNELS}xf32>, tensor<{IMAGES}xi32>)'
                 " -> tensor<f32>")
    lines.append('"msc.return"(%l) : (tensor<f32>) -> ()')
    facts = ", ".join(f'{{{"msc.init = " + chr(34) + "normal:0.5" + chr(34) + ", " if role == "parameter" else ""}'
                      f'msc.name = "{name}", msc.role = "{role}"}}' for name, role in roles)
    body = "\n    ".join(lines)
    return f"""module {{
  "msc.func"() ({{
  ^bb0({", ".join(args)}):
    {body}
  }}) {{arg_attrs = [{facts}], loss = 0 : i64, optimizer = {{kind = "sgd", lr = 1.0e-01 : f64}}, results = ["loss"],
    sym_name = "forward"}} : () -> ()
}}
"""


def train(folder, data, text, mesh):
    path, plan, weights = (os.path.join(folder, name) for name in ("m.mlir", "p.bin", "w.safetensors"))
    with open(path, "w") as file:
        file.write(text)
    ranks = 1
    for n in mesh.values():
        ranks *= n
    keys = [f"device_num={ranks}", "parallel_mode=stand_alone"]
    if ranks > 1:
        keys[1:] = ["parallel_mode=auto_parallel", "search_mode=sharding_propagation", "mesh=" + json.dumps(mesh)]
    call(MSC, "compile", path, "-o", plan, *(w for k in keys for w in ("--set", k)))
    out = call(MSC, "run", plan, "-n", str(ranks), "--in-order", "--json", "--save", weights, "--data", *data)
    losses = [json.loads(line)["loss"] for line in out.splitlines() if '"loss"' in line]
    return losses, read_weights(weights)


def near(a, b):
    return len(a) == len(b) and all(abs(x - y) <= 1e-5 * max(1, abs(y)) for x, y in zip(a, b))


def may_cut(op, size, dim, mesh, axes):
    """Whether the axes may cut rows (0) or columns (1) of the op's images and windows."""
    parts = math.prod(mesh[a] for a in axes)
    over, windows = (op.made, size) if op.kind == "conv2d_transpose" else (size, op.made)
    if min(over[dim], windows[dim]) < parts or -(-over[dim] // parts) % op.stride[dim]:
        return False
    return len(axes) < 2 or not (over[dim] % parts or windows[dim] % parts)


def cut_of(r, mesh, op, size):
    """A layout that cuts rows, columns or both, if one may be cut."""
    axes = list(mesh)
    r.shuffle(axes)
    ways = [([], [])]
    for rows in [[], axes[:1], axes]:
        for columns in [[], axes[1:], axes]:
            if not set(rows) & set(columns) and all(
                    may_cut(op, size, d, mesh, a) for d, a in enumerate((rows, columns)) if a):
                ways.append((rows, columns))
    rows, columns = r.choice(ways[1:] or ways)
    return f"[{{}},{{}},{{{','.join(rows)}}},{{{','.join(columns)}}}]" if rows or columns else None


def check(folder, seed):
    """Trains one network; returns how many of its ops were cut."""
    first, ops = make_network(seed)
    r = random.Random(seed + 1000)
    data = []
    for name, num, of in (("x", CHANNELS * first[0] * first[1], "f"), ("y", 1, "i")):
        path = os.path.join(folder, name + ".npy")
        values = [r.gauss(0, 1) if of == "f" else r.randrange(CHANNELS) for _ in range(IMAGES * STEPS * num)]
        write_npy(path, array.array(of, values), [IMAGES * STEPS] + ([CHANNELS, *first] if of == "f" else []))
        data.append(f"{name}={path}")
    one = train(folder, data, model(first, ops, None), {"d": 1})
    num = 0
    for _ in range(3):
        mesh = r.choice(MESHES)
        layouts = [cut_of(r, mesh, op, size) for op, size in ops]
        num += sum(layout is not None for layout in layouts)
        losses, weights = train(folder, data, model(first, ops, layouts), mesh)
        if not near(losses, one[0]) or any(not near(weights[n], one[1][n]) for n in one[1]):
            sys.exit(f"seed {seed}, mesh {mesh}, {layouts}: {losses} {weights}, on one rank {one}\n"
                     f"{model(first, ops, layouts)}")
    return num


if __name__ == "__main__":
    begin, end = (int(x) for x in sys.argv[1:3]) if len(sys.argv) > 2 else (1, 9)
    with tempfile.TemporaryDirectory() as folder:
        num = sum(check(folder, seed) for seed in range(begin, end))
    if num < 4 * (end - begin):
        sys.exit(f"only {num} ops are cut")
    print(f"{num} ops of {end - begin} networks cut along their images: as on one rank")
