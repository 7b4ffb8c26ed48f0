"""Sizes that torch.export leaves open: what users say of them in, dimensions for torch.export and numbers at given
sizes out."""

import contextlib
from math import prod

import sympy
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from msc.ops import Error


MOST_ELEMENTS = 1 << 25


class TooLarge(Exception):
    """A tensor of constants would have more than MOST_ELEMENTS."""


class Bounded(TorchDispatchMode):
    """While it lasts PyTorch makes no larger tensors from nothing, but raises TooLarge."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        first = args[0] if args else None
        is_list = isinstance(first, (list, tuple)) and all(isinstance(n, int) for n in first)
        count = prod(first) if is_list else max((n for n in args if isinstance(n, int)), default=0)
        if count > MOST_ELEMENTS:
            raise TooLarge
        return function(*args, **(kwargs or {}))


def dimensions(said, given):
    """For torch.export: what dynamic_shapes says of each input given, [(name, value, is_label)].

    said: a dictionary by the inputs' names, a list in their order, or one name, which is that of the first dimension of
    all inputs that are as long there as the first; names may stand where PyTorch has torch.export.Dim."""
    named = {}

    def one(what):
        if isinstance(what, str):
            return named.setdefault(what, torch.export.Dim(what))
        if isinstance(what, dict):
            return {d: one(v) for d, v in what.items()}
        return type(what)(one(v) for v in what) if isinstance(what, (list, tuple)) else what

    if isinstance(said, str):
        tensors = [v for _, v, _ in given if isinstance(v, torch.Tensor) and v.ndim]
        if not tensors:
            raise Error(f"dynamic_shapes {said!r}: no input has a dimension")
        length = tensors[0].shape[0]
        of = {n: {0: said} for n, v, _ in given if isinstance(v, torch.Tensor) and v.ndim and v.shape[0] == length}
    elif isinstance(said, dict):
        of = said
    else:
        of = dict(zip([n for n, _, _ in given], said))
    unknown = [n for n in of if n not in [name for name, _, _ in given]]
    if unknown:
        raise Error(
            f"dynamic_shapes: there is no input {unknown[0]}; the inputs are {', '.join(n for n, _, _ in given)}")
    return tuple(one(of.get(n)) for n, _, _ in given)


def of_program(program, names):
    """The same of an exported program: those dimensions of its inputs whose sizes are symbols."""
    nodes = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
    found = {}
    for name, user in zip(names, program.graph_signature.user_inputs):
        val = nodes[user].meta["val"] if user in nodes else None
        for d, size in enumerate(val.shape if isinstance(val, torch.Tensor) else ()):
            if isinstance(size, torch.SymInt):
                found.setdefault(name, {})[d] = torch.export.Dim.AUTO
    return found


def _is_number(node):
    return not isinstance(node.meta.get("val"), (torch.Tensor, list, tuple))


def _is_open(node):
    """Is what a node gives a size, or a tensor with an open one?"""
    vals = node.meta.get("val")
    for val in vals if isinstance(vals, (list, tuple)) else [vals]:
        sizes = val.shape if isinstance(val, torch.Tensor) else [val]
        if any(isinstance(s, (torch.SymInt, torch.SymFloat, torch.SymBool)) for s in sizes):
            return True
    return False


class OpenSizes:
    """The sizes that a program leaves open.  example: {name: its value for the example inputs}; bounds: {name: (lowest,
    highest or None)}; nodes: those whose results or numbers differ with them."""

    def __init__(self, program):
        self._program, self._symbols, self.example, self.bounds = program, {}, {}, {}
        for node in program.graph.nodes:
            val = node.meta.get("val")
            if node.op == "placeholder" and isinstance(val, torch.Tensor):
                for size in val.shape:
                    self._add(size)
        self.nodes = {n for n in self._all_nodes() if _is_open(n) or any(map(_is_open, n.all_input_nodes))}
        signature, given = program.graph_signature, set()
        names = {*signature.user_inputs, *signature.inputs_to_parameters}
        for node in program.graph.nodes:
            if node.name in names or any(n in given for n in node.all_input_nodes if not _is_number(n)):
                given.add(node)
        self._constants = [n for n in program.graph.nodes if n in self.nodes and n not in given]

    def _all_nodes(self):
        modules = [m for m in self._program.graph_module.modules() if isinstance(m, torch.fx.GraphModule)]
        return [n for m in modules for n in m.graph.nodes]

    def _add(self, size):
        if not isinstance(size, torch.SymInt):
            return
        env = size.node.shape_env
        for symbol in sorted(size.node.expr.free_symbols, key=str):
            if symbol in self._symbols.values():
                continue
            value = env.backed_var_to_val[symbol] if hasattr(env, "backed_var_to_val") else env.var_to_val[symbol]
            allowed = self._program.range_constraints.get(symbol) or env.var_to_range[symbol]
            name = str(symbol)
            self._symbols[name], self.example[name] = symbol, int(value)
            low = int(allowed.lower) if allowed.lower.is_finite else 1
            high = int(allowed.upper) if allowed.upper.is_finite and allowed.upper < 1 << 40 else None
            self.bounds[name] = (1 if low <= 2 else low, high)  # PyTorch's 2 is that of its tracing

    def is_too_large(self, point):
        """Would what depends on these sizes alone have a tensor of more than MOST_ELEMENTS?"""
        numbers = {self._symbols[name]: sympy.Integer(v) for name, v in point.items()}
        return any(
            prod(int(s.node.expr.xreplace(numbers)) if isinstance(s, torch.SymInt) else s for s in val.shape)
            > MOST_ELEMENTS
            for n in self._constants
            if isinstance(val := n.meta.get("val"), torch.Tensor)
        )

    def rename(self, names):
        """Gives sizes other names: {name of now: name}."""
        for kind in (self._symbols, self.example, self.bounds):
            for old, new in names.items():
                kind[new] = kind.pop(old)

    def name_of(self, size):
        """The name of the size that a dimension is; None: it is a number, or made of sizes."""
        if isinstance(size, torch.SymInt):
            return next((n for n, s in self._symbols.items() if s == size.node.expr), None)
        return None

    @contextlib.contextmanager
    def at(self, point):
        """While it lasts the program's nodes have the types that they have for these sizes."""
        numbers = {self._symbols[name]: sympy.Integer(v) for name, v in point.items()}
        mode, before = FakeTensorMode(), []

        def number(size):
            if not isinstance(size, torch.SymInt):
                return size
            value = size.node.expr.xreplace(numbers)
            return int(value) if value.is_number else size

        def fixed(val):
            if isinstance(val, (list, tuple)):
                return type(val)(fixed(v) for v in val)
            if not isinstance(val, torch.Tensor):
                return number(val)
            shape, stride = [number(s) for s in val.shape], [number(s) for s in val.stride()]
            first = number(val.storage_offset())
            if not first:
                return torch.empty_strided(shape, stride, dtype=val.dtype, device=val.device)
            span = first + sum((n - 1) * s for n, s in zip(shape, stride)) + 1
            return torch.empty(span, dtype=val.dtype, device=val.device).as_strided(shape, stride, first)

        with mode:
            for node in self._all_nodes():
                if "val" in node.meta:
                    before.append((node, node.meta["val"]))
                    node.meta["val"] = fixed(node.meta["val"])
        try:
            yield
        finally:
            for node, val in before:
                node.meta["val"] = val
