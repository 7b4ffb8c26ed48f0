"""Plans of msc reshard executed on simulated devices, by code that shares nothing with the planner.

A layout is read from its text.  Shapes are reduced to the cells that no cut divides; a device's block is a
dictionary cell -> {term: value}, so that partial sums stay apart until a verb adds them.  Every verb moves values
inside its group only, and bytes are counted from the cells that the worst device receives."""
import itertools
import math
import random
import re


class Layout:
    """Digits (axis, stride in the axis, parts) by dimension, major first, and the partial ones."""

    def __init__(self, text, mesh):
        dims, partial = re.fullmatch(r"\[(.*)\](?: partial(?:_\w+)?=\{(.*)\})?", text).groups()

        def digits(axes):
            for name, pre, size in re.findall(r"([\w.-]+)(?::\((\d+)\)(\d+))?", axes):
                pre, size = int(pre or 1), int(size or mesh[name])
                yield name, mesh[name] // (pre * size), size

        self.mesh = mesh
        self.dims = [list(digits(d)) for d in re.findall(r"\{(.*?)\}", dims)]
        self.partial = list(digits(partial or ""))

    def parts(self):
        return [math.prod(s for _, _, s in d) for d in self.dims]

    def box(self, device, shape):
        for digits, n in zip(self.dims, shape):
            begin = 0
            for axis, stride, size in digits:
                n //= size
                begin += n * (device[axis] // stride % size)
            yield range(begin, begin + n)

    def cells(self, device, shape):
        return list(itertools.product(*self.box(device, shape)))

    def term(self, device):
        return tuple(device[axis] // stride % size for axis, stride, size in self.partial)

    def places(self, all_digits):
        """By digit: (dimension, parts before it) or "partial"; absent: replicated."""
        found = {}
        for digit in all_digits:
            axis, stride, p = digit

            def inside(d):
                return d[0] == axis and d[1] <= stride and stride * p <= d[1] * d[2]
            for n, digits in enumerate(self.dims):
                before = 1
                for d in digits:
                    if inside(d):
                        found[digit] = (n, before * d[1] * d[2] // (stride * p))
                    before *= d[2]
            if any(map(inside, self.partial)):
                found[digit] = "partial"
        return found


def primes(mesh, layouts):
    """The digits of the mesh, (axis, stride, parts), cut where a layout cuts an axis and into primes between."""
    for name, size in mesh.items():
        used = [d for l in layouts for d in [d for dim in l.dims for d in dim] + l.partial if d[0] == name]
        borders = sorted({1, size, *(stride for _, stride, _ in used), *(stride * parts for _, stride, parts in used)},
                         reverse=True)
        for left, end in zip(borders, borders[1:]):
            if left % end:
                raise ValueError(f"cuts of axis {name} have no common refinement")
            p = 2
            while left > end:
                while left // end % p == 0:
                    left //= p
                    yield name, left, p
                p += 1


def devices_of(mesh):
    return [dict(zip(mesh, c)) for c in itertools.product(*map(range, mesh.values()))]


def reduced(shape, layouts):
    """(cells per dimension, elements in a cell); None when some cut leaves a rest."""
    cells = [math.lcm(*(l.parts()[d] for l in layouts)) for d in range(len(shape))]
    if any(n % c for n, c in zip(shape, cells)):
        return None
    return cells, math.prod(n // c for n, c in zip(shape, cells))


class Simulation:
    def __init__(self, mesh, shape, elem_bytes, source, target, steps):
        self.mesh, self.devices = mesh, devices_of(mesh)
        self.source, self.target = Layout(source, mesh), Layout(target, mesh)
        self.layouts = [Layout(s["from"], mesh) for s in steps] + [Layout(s["to"], mesh) for s in steps]
        self.digits = list(primes(mesh, [self.source, self.target, *self.layouts]))
        fits = reduced(shape, [self.source, self.target, *self.layouts])
        if not fits:
            raise ValueError("a plan with cuts that leave a rest")
        self.shape, elems = fits
        self.cell = elems * elem_bytes
        random.seed(7)
        values, self.total = {}, {}
        for e in itertools.product(*map(range, self.shape)):
            for t in itertools.product(*(range(s) for _, _, s in self.source.partial)):
                values[e, t] = random.randrange(1 << 20)
                self.total[e] = self.total.get(e, 0) + values[e, t]
        self.held = [{e: values[e, self.source.term(d)] for e in self.source.cells(d, self.shape)}
                     for d in self.devices]

    def step(self, step):
        """Bytes received by the worst device; raises ValueError where the verb is misused."""
        a, b, op = Layout(step["from"], self.mesh), Layout(step["to"], self.mesh), step["op"]
        before, after = a.places(self.digits), b.places(self.digits)
        moved = [d for d in self.digits if before.get(d) != after.get(d)]
        if op == "permute":
            return self.permute(a, b)
        if any(after.get(d) == "partial" for d in moved):
            raise ValueError(f"{op} makes a partial value")
        lost = [d for d in moved if before.get(d) == "partial"]
        was, now = [before.get(d) for d in moved], [after.get(d) for d in moved]
        cut = [w for w in was if w not in (None, "partial")]
        local, k = len(self.held[0]) * self.cell, math.prod(p for _, _, p in moved)
        received = self.gather(b, moved, lost)
        legal, counted = {
            "slice": (was == [None] * len(was) and received == 0, 0),
            "all_gather": (len(cut) == len(was) and now == [None] * len(now), (k - 1) * local),
            "all_to_all": (len(cut) == len(was) and None not in now and
                           not {w[0] for w in cut} & {n[0] for n in now if n}, local - local // k),
            "reduce_scatter": (lost == moved and None not in now, local - local // k),
            "all_reduce": (lost == moved and now == [None] * len(now), -(-2 * (k - 1) * local // k)),
            "exchange": (True, received),
        }[op]
        if not legal:
            raise ValueError(f"{op} cannot do {step['from']} to {step['to']}")
        return counted

    def gather(self, b, moved, lost):
        """Every device takes its new cells from the members of its group."""
        def outside(device):
            return [device[axis] // stride % p for axis, stride, p in self.digits if (axis, stride, p) not in moved]
        groups = {}
        for d, own in zip(self.devices, self.held):
            groups.setdefault(tuple(outside(d)), []).append((d, own))
        result, worst = [], 0
        for d, own in zip(self.devices, self.held):
            members, block, got = groups[tuple(outside(d))], {}, 0
            for e in b.cells(d, self.shape):
                terms = {tuple(m[axis] // stride % p for axis, stride, p in lost): h[e] for m, h in members if e in h}
                if not terms or len(terms) != math.prod(p for _, _, p in lost):
                    raise ValueError("a group does not hold what its members shall hold")
                block[e] = sum(terms.values())
                got += len(terms) - (e in own)
            result.append(block)
            worst = max(worst, got * self.cell)
        self.held = result
        return worst

    def permute(self, a, b):
        """One block to one block."""
        blocks = {}
        for d, own in zip(self.devices, self.held):
            blocks.setdefault((tuple(a.cells(d, self.shape)), a.term(d)), []).append(own)
        terms = dict(zip(sorted({b.term(d) for d in self.devices}), sorted({a.term(d) for d in self.devices})))
        local = len(self.held[0]) * self.cell
        try:
            self.held = [blocks[tuple(b.cells(d, self.shape)), terms[b.term(d)]].pop() for d in self.devices]
        except (KeyError, IndexError):
            raise ValueError("permute moves parts of blocks") from None
        return local

    def arrived(self):
        return not self.target.partial and all(h == {e: self.total[e] for e in self.target.cells(d, self.shape)}
                                               for d, h in zip(self.devices, self.held))

    def bound(self):
        if self.source.partial or self.target.partial:
            return None
        return max(
            len(set(self.target.cells(d, self.shape)) - set(self.source.cells(d, self.shape)))
            for d in self.devices) * self.cell


def check(mesh, shape, elem_bytes, source, target, plan, peak=None):
    """What is wrong with a plan, or None."""
    try:
        s = Simulation(mesh, shape, elem_bytes, source, target, plan["steps"])
        highest = 0
        for i, step in enumerate(plan["steps"]):
            local = len(s.held[0]) * s.cell
            counted = s.step(step)
            if counted != step["bytes"]:
                return f"step {i}, {step['op']}, moves {counted} bytes, said {step['bytes']}"
            highest = max(highest, local + (0 if step["op"] == "slice" else len(s.held[0]) * s.cell))
    except ValueError as e:
        return str(e)
    if not s.target.partial and not s.arrived():
        return "the blocks that arrive are wrong"
    if plan["bytes"] != sum(x["bytes"] for x in plan["steps"]):
        return "bytes are not the sum of the steps'"
    if plan["lower_bound"] != s.bound():
        return f"lower bound {plan['lower_bound']}, counted {s.bound()}"
    highest = highest or len(s.held[0]) * s.cell
    if plan["peak_bytes"] != highest:
        return f"peak {plan['peak_bytes']}, counted {highest}"
    if peak and highest > peak:
        return f"peak {highest} above the limit {peak}"
    return None
