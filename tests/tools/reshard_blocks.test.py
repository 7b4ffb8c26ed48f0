#!/usr/bin/env python3
"""Plans of msc reshard executed on simulated devices, by code that shares nothing with the planner: layouts are read from
their text, a device's block is a dictionary element -> value, every verb moves values inside its group only, and the bytes
are those that the worst device receives."""
import itertools
import json
import random
import re
import subprocess

from expect import MSC, Expect

expect = Expect()
random.seed(5)


class Layout:
    """Digits of mesh axes, as (axis, stride of the digit in the axis, parts), per dimension, and the partial ones."""

    def __init__(self, text, mesh):
        dims, partial = re.fullmatch(r"\[(.*)\](?: partial=\{(.*)\})?", text).groups()

        def digits(axes):
            for axis in filter(None, axes.split(",")):
                name, pre, size = re.fullmatch(r"(\w+)(?::\((\d+)\)(\d+))?", axis).groups()
                pre, size = int(pre or 1), int(size or mesh[name])
                yield name, mesh[name] // (pre * size), size

        self.dims = [list(digits(d)) for d in re.findall(r"\{(.*?)\}", dims)]
        self.partial = list(digits(partial or ""))

    def box(self, device, shape):
        for digits, n in zip(self.dims, shape):
            begin = 0
            for axis, stride, size in digits:
                n //= size
                begin += n * (device[axis] // stride % size)
            yield range(begin, begin + n)

    def block(self, device, shape):
        return list(itertools.product(*self.box(device, shape)))

    def term(self, device):
        return tuple(device[axis] // stride % size for axis, stride, size in self.partial)


def primes(mesh):
    for name, size in mesh.items():
        stride = size
        for p in (2, 3, 5, 7):
            while stride % p == 0:
                stride //= p
                yield name, stride, p


def places(layout, mesh):
    """Where each prime digit is: a dimension and the parts before it there, or partial; absent: nowhere."""
    found = {}
    for axis, stride, p in primes(mesh):
        def inside(d):
            return d[0] == axis and d[1] <= stride and stride * p <= d[1] * d[2]
        for n, digits in enumerate(layout.dims):
            before = 1
            for d in digits:
                if inside(d):
                    found[axis, stride, p] = (n, before * d[1] * d[2] // (stride * p))
                before *= d[2]
        if any(map(inside, layout.partial)):
            found[axis, stride, p] = "partial"
    return found


def start(layout, devices, shape):
    """Term t of element e is a number of its own; the value is the sum of all terms."""
    terms = list(itertools.product(*(range(s) for _, _, s in layout.partial)))
    total = {e: sum(hash((e, t)) % 1000 for t in terms) for e in itertools.product(*map(range, shape))}
    return [{e: hash((e, layout.term(d))) % 1000 for e in layout.block(d, shape)} for d in devices], total


def permuted(a, b, devices, shape, held):
    """Every block goes to one device."""
    blocks = {}
    for d, own in zip(devices, held):
        blocks.setdefault((str(a.block(d, shape)), a.term(d)), []).append(own)
    terms = dict(zip(sorted({b.term(d) for d in devices}), sorted({a.term(d) for d in devices})))
    return [blocks[str(b.block(d, shape)), terms[b.term(d)]].pop() for d in devices]


def run_step(step, mesh, devices, shape, elem, held):
    """The blocks after one step, and its bytes; an exception where the verb is misused."""
    a, b, op = Layout(step["from"], mesh), Layout(step["to"], mesh), step["op"]
    before, after = places(a, mesh), places(b, mesh)
    moved = [d for d in primes(mesh) if before.get(d) != after.get(d)]
    lost = [d for d in moved if before.get(d) == "partial"]
    k, local = 1, len(held[0]) * elem
    for _, _, p in moved:
        k *= p
    if op == "permute":
        return permuted(a, b, devices, shape, held), local
    assert not any(after.get(d) == "partial" for d in moved)

    def outside(device):
        return [device[axis] // stride % p for axis, stride, p in primes(mesh) if (axis, stride, p) not in moved]

    result, received = [], 0
    for d, own in zip(devices, held):
        members = [(m, h) for m, h in zip(devices, held) if outside(m) == outside(d)]
        block, got = {}, 0
        for e in b.block(d, shape):
            terms = {tuple(m[axis] // stride % p for axis, stride, p in lost): h[e] for m, h in members if e in h}
            block[e] = sum(terms.values())
            got += len(terms) - (e in own)
        result.append(block)
        received = max(received, got * elem)
    was, now = [before.get(d) for d in moved], [after.get(d) for d in moved]
    cut = [w for w in was if w not in (None, "partial")]
    fits, counted = {
        "slice": (was == [None] * len(was) and received == 0, 0),
        "all_gather": (len(cut) == len(was) and now == [None] * len(now), (k - 1) * local),
        "all_to_all": (len(cut) == len(was) and None not in now, local - local // k),
        "reduce_scatter": (lost == moved and None not in now, local - local // k),
        "all_reduce": (lost == moved and now == [None] * len(now), -(-2 * (k - 1) * local // k)),
        "exchange": (True, received),
    }[op]
    assert fits
    return result, counted


def random_layout(mesh, rank, partial):
    digits = [(a, mesh[a] // (s * p), p) for a, s, p in primes(mesh)]
    random.shuffle(digits)
    dims, pending = [[] for _ in range(rank)], []
    for axis, pre, p in digits:
        where = random.randrange(rank + 2)
        if where < rank:
            dims[where].append(f"{axis}:({pre}){p}")
        elif where == rank and partial:
            pending.append(f"{axis}:({pre}){p}")
    text = "[" + ",".join("{" + ",".join(d) + "}" for d in dims) + "]"
    return text + (" partial={" + ",".join(pending) + "}" if pending else "")


def run_case(mesh, shape, elem, source, target):
    axes = ",".join(f"{n}={s}" for n, s in mesh.items())
    command = ["reshard", "--mesh", axes, "--shape", ",".join(map(str, shape)), "--bytes", str(elem), "--from", source, "--to", target, "--json"]
    name = " ".join(command)
    plan = json.loads(subprocess.run([MSC, *command], capture_output=True, text=True, check=True).stdout)
    devices = [dict(zip(mesh, c)) for c in itertools.product(*map(range, mesh.values()))]
    held, total = start(Layout(source, mesh), devices, shape)
    for step in plan["steps"]:
        held, counted = run_step(step, mesh, devices, shape, elem, held)
        expect.check(f"{name}: bytes of {step['op']}: {counted}", counted == step["bytes"])
    goal = Layout(target, mesh)
    expect.check(name, all(h == {e: total[e] for e in goal.block(d, shape)} for d, h in zip(devices, held)))
    if "partial" not in source:
        origin = Layout(source, mesh)
        bound = max(len(set(goal.block(d, shape)) - set(origin.block(d, shape))) for d in devices) * elem
        expect.check(name + ": lower bound", plan["lower_bound"] == bound == plan["bytes"])


for n in range(60):
    mesh = random.choice([{"x": 4, "y": 2}, {"x": 2, "y": 3}, {"x": 2, "y": 2, "z": 2}, {"x": 8}])
    shape = [6 if 3 in mesh.values() else 8] * random.choice([1, 2, 3])
    run_case(mesh, shape, random.choice([1, 2, 4, 8]), random_layout(mesh, len(shape), n % 2), random_layout(mesh, len(shape), False))
expect.done()
