"""The same model made for several sizes in; one graph out, in which what differs follows from the sizes by formulas, as
"2*batch+1": what a field `sizes` of ir/fbs/model.fbs holds."""

import itertools
import struct
from fractions import Fraction
from math import lcm, prod

from msc.ops import Error

MOST_SIZES = 4
FARTHEST = (1 << 16, 1 << 12, 1 << 9)
# of each size three values, whose distances have no common divisor: what rounds is no formula for all three
_VALUES = ((23, 30, 41), (26, 35, 46), (19, 32, 37), (17, 28, 43))


def sample_points(bounds):
    """{name: (lowest, highest or None)} -> [{name: value}] for which models are made: all combinations of two values,
    for which a formula is found, and one more, by which it is checked."""
    if len(bounds) > MOST_SIZES:
        raise Error(f"{len(bounds)} sizes are left open, at most {MOST_SIZES} can be: {', '.join(bounds)}")
    values = {}
    for (name, (low, high)), usual in zip(bounds.items(), _VALUES):
        low = max(low, 2)
        found = [v + low if low > usual[0] else v for v in usual]
        if high is not None and found[-1] > high:
            found = [high - 3, high - 1, high]
        if found[0] < low:
            raise Error(f"size {name} is {low} to {high}: these are too few to find out what follows from it")
        values[name] = found
    corners = itertools.product(*([v[0], v[1]] for v in values.values()))
    return [dict(zip(values, c)) for c in corners] + [{n: v[2] for n, v in values.items()}]


def far_points(points, bounds):
    """For each size (name, points): where it is large and all others are small, the largest first.  A formula found
    between smaller values is checked at one of them: numbers and masks may change only above some size."""
    for name, (_, high) in bounds.items():
        usual = max(p[name] for p in points)
        near = {n: max(low, 2) for n, (low, _) in bounds.items()}
        values = [v for v in FARTHEST if high is None or v < high]
        if high is not None and high <= FARTHEST[0]:
            values.insert(0, high)
        yield name, [{**near, name: v} for v in values if v >= usual]


class _Formulas:
    """Formulas of numbers that are known at the sample points."""

    def __init__(self, points):
        self._points, names = points, list(points[0])
        self._products = [c for k in range(len(names) + 1) for c in itertools.combinations(names, k)]
        self._num = len(self._products)  # of points that say what a formula is; the others check it
        self._inverse = _inverted([[self._product(c, p) for c in self._products] for p in points[:self._num]])

    @staticmethod
    def _product(names, point):
        return Fraction(prod(point[n] for n in names))

    def text(self, numbers):
        """ "": it is the same everywhere; None: there is no formula."""
        if len(set(numbers)) == 1:
            return ""
        factors = [sum(i * n for i, n in zip(row, numbers)) for row in self._inverse]
        for point, number in zip(self._points[self._num:], numbers[self._num:]):
            if sum(f * self._product(c, point) for f, c in zip(factors, self._products)) != number:
                return None
        whole = lcm(*(f.denominator for f in factors))
        terms = [(int(f * whole), c) for f, c in zip(factors, self._products) if f]
        terms.sort(key=lambda t: (t[0] < 0, -len(t[1])))
        text = "".join(
            ("-" if f < 0 else "+") + "*".join(([str(abs(f))] if abs(f) != 1 or not c else []) + list(c))
            for f, c in terms
        ).removeprefix("+")
        return text if whole == 1 else f"({text})/{whole}"


def _inverted(rows):
    """The inverse of a square matrix of fractions, by rows."""
    n = len(rows)
    m = [list(row) + [Fraction(i == k) for k in range(n)] for i, row in enumerate(rows)]
    for i in range(n):
        pivot = next(k for k in range(i, n) if m[k][i])
        m[i], m[pivot] = m[pivot], m[i]
        m[i] = [v / m[i][i] for v in m[i]]
        for k in range(n):
            if k != i and m[k][i]:
                m[k] = [a - m[k][i] * b for a, b in zip(m[k], m[i])]
    return [row[n:] for row in m]


def value_of(text, point):
    """What a formula is for given sizes."""
    upper, divided, by = text.partition("/")
    total = 0
    for term in upper.strip("()").replace("-", "+-").split("+"):
        if term:
            sign, term = (-1, term[1:]) if term[0] == "-" else (1, term)
            total += sign * prod(int(f) if f.isdigit() else point[f] for f in term.split("*"))
    return total // int(by) if divided else total


class _Join:
    def __init__(self, graphs, points, example, bounds):
        self.graphs, self.example, self.formulas = graphs, example, _Formulas(points)
        self.bounds = bounds

    def refuse(self, what, numbers=None):
        sizes = ", ".join(self.example)
        seen = f": {', '.join(map(str, numbers))} for {len(numbers)} sizes" if numbers else ""
        raise Error(f"{what} does not follow from {sizes} by sums and products{seen}; without dynamic_shapes the model "
                    "is made for the sizes of its examples")

    def fit(self, numbers, what):
        """(the number for the example's sizes, its formula)."""
        text = self.formulas.text(numbers)
        if text is None:
            self.refuse(what, numbers)
        return (value_of(text, self.example) if text else numbers[0]), text

    def fit_all(self, lists, what):
        if len({len(n) for n in lists}) != 1:
            self.refuse(what)
        fitted = [self.fit(numbers, what) for numbers in zip(*lists)]
        return [n for n, _ in fitted], tuple(t for _, t in fitted)

    def same(self, what, *parts):
        if any(p != parts[0] for p in parts):
            self.refuse(what)

    def place(self, op):
        g = self.graphs[0]
        path, line, _, scope = next((k for k, n in g._locs.items() if n == op["loc"] - 1), (None, 0, 0, None))
        return f"{op['kind']} '{op['name']}'" + (f" of {path}:{line}" if path else "")

    # ---- parts of a graph ----

    def join_types(self):
        """Types of all values and of attributes, with formulas, numbered anew in the first graph."""
        first = self.graphs[0]
        by_number = [{n: t for t, n in g._types.items()} for g in self.graphs]
        self.types = {}

        def joined(numbers, what):
            dtypes, shapes = zip(*(own[n][:2] for own, n in zip(by_number, numbers)))
            self.same(what, *dtypes)
            dims, sizes = self.fit_all(shapes, f"the shape of {what}")
            return self.types.setdefault((dtypes[0], tuple(dims), sizes), len(self.types))

        self.same("the number of values", *(len(g._value_types) for g in self.graphs))
        values = [joined(numbers, f"value {i}") for i,
                  numbers in enumerate(zip(*(g._value_types for g in self.graphs)))]
        for ops in zip(*(g._ops for g in self.graphs)):
            for attrs in zip(*(op["attrs"] or () for op in ops)):
                if attrs[0]["value"][0] == "TypeRef":
                    number = joined([a["value"][1]["v"] for a in attrs], self.place(ops[0]))
                    attrs[0]["value"] = ("TypeRef", {"v": number})
        first._types, first._value_types = self.types, values

    def join_ops(self):
        self.same("the number of operations", *(len(g._ops) for g in self.graphs))
        for ops in zip(*(g._ops for g in self.graphs)):
            place = self.place(ops[0])
            for field in ("kind", "operands", "results"):
                self.same(f"what is computed at {place}", *(op[field] for op in ops))
            self.same(f"what is computed at {place}", *([a["name"] for a in op["attrs"] or ()] for op in ops))
            for attrs in zip(*(op["attrs"] or () for op in ops)):
                self.join_attr(attrs, f"{attrs[0]['name']} of {place}")

    def join_attr(self, attrs, what):
        kind, value = attrs[0]["value"]
        if kind == "TypeRef":
            return
        found = [a["value"][1]["v"] for a in attrs]
        if all(f == found[0] for f in found):
            return
        if kind not in ("Int", "Ints"):
            self.refuse(what, found)
        dims, sizes = self.fit_all([[f] if kind == "Int" else list(f) for f in found], what)
        attrs[0]["value"] = (kind, {"v": dims[0] if kind == "Int" else dims})
        attrs[0]["sizes"] = list(sizes)

    def join_constants(self):
        for constants in list(zip(*(g._constants for g in self.graphs))):
            data = [c["data"] for c in constants]
            self.same("the order of constants", *(c["value"] for c in constants))
            if any(d != data[0] for d in data):
                self.join_constant(constants, data)

    def join_constant(self, constants, data):
        """A constant that differs: one number, or numbers that count along a dimension, which an iota then makes."""
        g, number = self.graphs[0], constants[0]["value"]
        tensors = [own._tensors[number] for own in self.graphs]
        dtype, what = tensors[0].dtype, f"a constant {tensors[0].dtype}{list(tensors[0].shape)}"
        found = [_elements(dtype, d) for d in data]
        if None in found or not all(v == int(v) for values in found for v in values):
            self.refuse(what)
        if all(len(values) == 1 for values in found):
            one, text = self.fit([int(v[0]) for v in found], what)
            constants[0].update(data=struct.pack("<" + _FORMATS[dtype], one), size=text)
            return
        counted = [_counting(t.shape, values) for t, values in zip(tensors, found)]
        if None in counted or any(c != counted[0] for c in counted):
            self.refuse(what)
        self.replace_constant(g, constants[0], counted[0])

    def replace_constant(self, g, constant, counted):
        dim, first, step = counted
        kind = next(t for t, n in self.types.items() if n == g._value_types[constant["value"]])
        whole = self.types.setdefault(("i64", *kind[1:]), len(self.types))
        one = {dtype: self.types.setdefault((dtype, (), ()), len(self.types)) for dtype in ("i64",)}["i64"]
        ops, value = [], self.new_value(whole)
        ops.append(("iota", [], value, [("type", "TypeRef", whole), ("dim", "Int", dim)]))
        for name, by in (("mul", step), ("add", first)):
            factor = self.new_value(one)
            g._constants.append({"value": factor, "data": struct.pack("<q", by)})
            value, before = self.new_value(whole), value
            ops.append((name, [before, factor], value, []))
        ops.append(("cast", [value], constant["value"], [("dtype", "Str", kind[0])]))
        g._constants.remove(constant)
        g._ops[:0] = [
            {"kind": k, "name": None, "operands": ins, "results": [out], "loc": 0, "block": 0, "hints": None,
             "attrs": [{"name": n, "value": (t, {"v": v})} for n, t, v in attrs] or None}
            for k, ins, out, attrs in ops
        ]

    def new_value(self, type_number):
        self.graphs[0]._value_types.append(type_number)
        return len(self.graphs[0]._value_types) - 1


_FORMATS = {"f32": "f", "f64": "d", "i64": "q", "i32": "i", "i16": "h", "i8": "b", "u8": "B", "u16": "H", "u32": "I",
            "u64": "Q"}


def _elements(dtype, data):
    return [v for v, in struct.iter_unpack("<" + _FORMATS[dtype], data)] if dtype in _FORMATS else None


def _counting(shape, values):
    """(dimension, first number, step) of numbers that grow evenly along one dimension and are the same along all
    others; None: they do not."""
    for dim in range(len(shape)):
        behind = prod(shape[dim + 1:])
        if shape[dim] < 2:
            continue
        first, step = int(values[0]), int(values[behind] - values[0])
        if step and all(v == first + step * (i // behind % shape[dim]) for i, v in enumerate(values)):
            return dim, first, step
    return None


def join(graphs, points, example, bounds):
    """Turns the first of the graphs, one for each sample point, into one for all sizes.  Its numbers are those for the
    sizes {name: value} of `example`; bounds: {name: (lowest, highest or None)}."""
    j = _Join(graphs, points, example, bounds)
    j.join_ops()
    j.join_types()
    j.join_constants()
    for what in ("_inputs", "_outputs", "_parameters", "_state", "_loss", "_optimizers"):
        j.same(f"what a model has as its {what[1:]}", *(getattr(g, what) for g in graphs))
    graphs[0]._sizes = [
        {"name": name, "value": value, "low": bounds[name][0], "high": bounds[name][1] or 0}
        for name, value in example.items()
    ]
    return graphs[0]
