"""A functional FX graph and a msc.Graph in; ops of the latter out.  What depends on no input is computed by PyTorch;
calls without a row are translated by PyTorch's own decomposition of them; what cannot be translated is all reported.
"""

import contextlib
import functools
import operator
import os
import re

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils import _pytree as pytree

from msc.ops import Error
from msc.pytorch.aten import DTYPES, RANDOM, ROWS, TORCH, Call, Decompose, Refused, dtype_of, is_known
from msc.pytorch import chosen, complex_parts
from msc.pytorch import fourier  # noqa: F401: registers rows
from msc.pytorch import linear_algebra  # noqa: F401: registers decompositions
from msc.pytorch.decompositions import DECOMPOSITIONS, OF_OTHERS, of_each

INLINE_BYTES = 1 << 20  # larger constants go to the file of the weights
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in ')
NOT_THE_USERS = (torch.__path__[0], os.path.dirname(os.path.abspath(__file__)))


class Unsupported(Error):
    """The network does what msc cannot; the text lists everything, with the user's lines."""


def place_of(node):
    """(file, line) of the innermost frame outside PyTorch that made this node; (None, 0): unknown."""
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    own = [f for f in frames if not f[0].startswith(NOT_THE_USERS)]
    return (own[-1][0], int(own[-1][1])) if own else (None, 0)


def name_of(target):
    """ "add.Tensor" of torch.ops.aten.add.Tensor; of other namespaces with these in front."""
    if not isinstance(target, torch._ops.OpOverload):
        return getattr(target, "__name__", str(target))
    text = str(target)
    return text[len("aten.") :] if text.startswith("aten.") else text


class _Made:
    """A known tensor that depends on sizes that are left open, and the call that gives its like for all of them."""

    def __init__(self, tensor, call, number):
        self._tensor, self._call, self._number = tensor, call, number  # whose id stays its own as long as it lives

    def value(self):
        result = self._call()
        return result if self._number is None else result[self._number]


class Converter:
    """Translates nodes.  `blocks_of` says of a node in which blocks it is, `hints_of` which hints its ops get."""

    def __init__(self, graph, blocks_of=lambda node: (), keep_large=None, hints_of=lambda node: {}):
        self.g, self.blocks_of, self.keep_large, self.hints_of = graph, blocks_of, keep_large, hints_of
        self.values = {}  # of a node: a tensor of the graph, a torch.Tensor that is known, or a list of such
        self.faults = {}  # name of an op -> list of (why, place, blocks)
        self.numbers = {}  # of a value of the graph that is one number everywhere: the number
        self.chances = {}  # of a value of the graph that is drawn as 0 or 1: how probable 1 is
        self.known = {}  # of a value of the graph that is a constant: the torch.Tensor
        self.choices = {}  # of PyTorch's symbol for a number of rows that a mask chooses: which rows
        self.flat_masks = {}  # of the number of a mask: the mask in one dimension
        self.groups = {}  # of a product of groups whose rows have any order: the node with each row's group
        self.own_calls = []  # of functions with gradients of their own
        self.sized = frozenset()  # nodes that differ with sizes that are left open
        self.is_blind = False  # to what their results are
        self._constants = {}
        self._made = {}  # id of a tensor that depends on these sizes -> how to compute it in the graph
        self._is_sized = False
        self._place, self._node = (None, 0, ()), None

    # ---- values ----

    def constant(self, tensor, dtype=None):
        """A known tensor as a value of the graph, of this element type if one is given.  What depends on sizes that are
        left open is computed there."""
        if id(tensor) in self._made and not _is_one_number(tensor):
            value = self._made[id(tensor)].value()
            self.known[value.number] = tensor
            return value if dtype in (None, value.dtype) else self.g.cast(value, dtype)
        tensor = tensor.detach().cpu().contiguous()
        tensor = tensor.to(_torch(dtype)) if dtype else tensor
        flat = tensor.flatten()
        data = flat.view(torch.uint8).numpy().tobytes() if tensor.dtype != torch.bool else flat.numpy().tobytes()
        key = (tensor.dtype, tuple(tensor.shape), data)
        if key not in self._constants:
            self._constants[key] = self._new_constant(tensor, flat, data)
            self.known[self._constants[key].number] = tensor
        return self._constants[key]

    def _new_constant(self, tensor, flat, data):
        size = tensor.element_size()
        if not tensor.numel():
            raise Refused("an operand without elements")
        if data == data[:size] * tensor.numel():
            scalar = self.g.constant(data[:size], DTYPES[tensor.dtype], [])
            value = scalar if not tensor.shape else self.g.broadcast_to(scalar, list(tensor.shape))
            number = flat[0].item()
            self.numbers[scalar.number] = self.numbers[value.number] = number
            return value
        if len(data) > INLINE_BYTES and self.keep_large:
            return self.keep_large(tensor)
        return self.g.constant(data, DTYPES[tensor.dtype], list(tensor.shape))

    def maker(self, tensor):
        """(op, its operands) of the op that made a value; None: it is no result of one."""
        op = self.g._by_name.get(getattr(tensor, "op", None))
        return op and (op, [self.g._tensors[n] for n in op["operands"]])

    def is_sized(self):
        """True if the node being translated differs with sizes that are left open."""
        return self._is_sized or self._node in self.sized

    def group_of_each_row(self):
        """For the product of groups being translated, the number of each row's group where rows have any order."""
        node = self.groups.get(self._node)
        return None if node is None else self._value(node)

    def memory_of(self, position):
        """PyTorch's memory of this operand of the node being translated: the number of the element at each place, -1
        where none lies, and the place of the first."""
        val = self._node.args[position].meta["val"]
        first = val.storage_offset()
        span = first + sum((n - 1) * s for n, s in zip(val.shape, val.stride())) + 1
        places = torch.full((span,), -1)
        places[torch.arange(span).as_strided(val.shape, val.stride(), first).flatten()] = torch.arange(val.numel())
        return places, first

    def of(self, argument):
        """The graph's values for an argument of a node: nodes in it, also inside of lists, are replaced by them."""
        return torch.fx.map_arg(argument, lambda n: self._value(n))

    def _value(self, node):
        value = self.values[node]
        if callable(value):
            value = self.values[node] = value()
        return value

    # ---- nodes ----

    def walk(self, graph, attributes, wanted=None, is_inner=False):
        """Translates the nodes of an FX graph whose placeholders have values; the values of the nodes `wanted`, absent:
        of its outputs."""
        wanted = next(n for n in reversed(graph.nodes) if n.op == "output").args[0] if wanted is None else wanted
        live = _live(graph, wanted)
        for node in graph.nodes:
            if node.op == "output":
                return self._unused_yet(wanted) if is_inner else self._outputs(wanted)
            if node.op == "get_attr":
                self.values[node] = operator.attrgetter(node.target)(attributes)
                if isinstance(self.values[node], torch._subclasses.FakeTensor):
                    raise Refused("its decomposition makes a tensor whose values are not known")
            if node.op == "call_function" and node in live and all(n in self.values for n in node.all_input_nodes):
                self._translate(node)
        return []

    def _outputs(self, outputs):
        """The values of the outputs; None for one that could not be translated."""

        def one(n):
            if not isinstance(n, torch.fx.Node):
                return n
            if n not in self.values:
                return None
            self._place = place_of(n) + (tuple(self.blocks_of(n)),)
            try:
                value = self._value(n)
                if _is_complex(value) or isinstance(value, complex_parts.Complex):
                    return self._report(n, f"{_unknown_type(n.meta['val'])} elements")
                return value if not isinstance(value, chosen.Chosen) else self._report(n, chosen.DEPENDS)
            except Refused as e:
                self._report(n, str(e))

        return [one(n) for n in outputs] if isinstance(outputs, (list, tuple)) else one(outputs)

    def _unused_yet(self, results):
        """The results of a decomposition; None for those that no user of the call needs, which were not
        translated."""

        def one(n):
            return self.values.get(n) if isinstance(n, torch.fx.Node) else n

        return [one(n) for n in results] if isinstance(results, (list, tuple)) else one(results)

    def _translate(self, node):
        before, outer, self._node = self._place, self._node, node
        if not outer:  # what a decomposition consists of is where the call is
            self._place = place_of(node) + (tuple(self.blocks_of(node)),)
        try:
            with self.g.at(*self._place, **({} if outer else self.hints_of(node))):
                self.values[node] = self._result(node)
        except (Refused, Error) as e:
            self._report(node, str(e))
        finally:
            self._place, self._node = before, outer

    def _report(self, node, why):
        self.faults.setdefault(name_of(node.target), []).append((why, self._place))

    def _result(self, node):
        if node.target is operator.getitem:
            return self._item(node)
        if isinstance(node.target, type) and issubclass(node.target, tuple):
            return list(self.of(node.args))  # a decomposition gives its results names
        val = node.meta.get("val")
        if isinstance(val, (int, float)):  # a size
            return val
        if chosen.is_concerned(self, node):
            return chosen.translate(self, node, name_of(node.target))
        types = [_type(v) for v in (val if isinstance(val, (list, tuple)) else [val])]
        name = name_of(node.target)
        if is_complex := [v for v in (node, *node.all_input_nodes) if _is_complex(v.meta.get("val"))]:
            return self._of_complex(node, name, types, is_complex)
        if any(t and t[0] is None for t in types):
            raise Refused(f"{_unknown_type(val)} elements")
        folded = self._fold(node, name, types)
        if folded is not None and not (self.is_blind and any(id(t) in self._made for t in _tensors(folded))):
            return folded
        return self._computed(node, types)

    def _of_complex(self, node, name, types, is_complex):
        """The result of a call that takes or gives complex numbers: real and imaginary parts, or what is known."""
        known = self._fold(node, name, types)
        if known is not None:
            return known
        translate = complex_parts.ROWS.get(name)
        if not translate:
            raise Refused(f"{_unknown_type(is_complex[0].meta['val'])} elements")
        of_parts = [t and (complex_parts.dtype_of_parts(t[0], is_complex), t[1]) for t in types]
        return translate(Call(self, name, of_parts), *self.of(node.args), **self.of(node.kwargs))

    def _computed(self, node, types):
        """The result of a call as ops of the graph."""
        return self.call_with(node, types, self.of(node.args), self.of(node.kwargs))

    def call_with(self, node, types, arguments, words, has_rows=False):
        """The result of a node's call for these arguments as ops of the graph; with `has_rows` they are others than its
        own, with all rows in place of those that a mask chooses."""
        name = name_of(node.target)
        rule = ROWS.get(name)
        if rule:
            try:
                return rule(Call(self, name, types), *arguments, **words)
            except Decompose:
                pass
        return self._decomposed(node, name, (arguments, words) if has_rows else None)

    def _item(self, node):
        value = self.values[node.args[0]]
        value = value[node.args[1]] if isinstance(value, (list, tuple)) else value
        if callable(value):
            place = self._place

            def later():
                with self.g.at(*place):
                    return value()

            return later
        return value

    def _fold(self, node, name, types):
        """The value of a call that depends on no input, or that has no elements."""
        if all(t and 0 in t[1] for t in types) and types:
            empty = [torch.empty(shape, dtype=_torch(dtype)) for dtype, shape in types]
            return empty if isinstance(node.meta["val"], (list, tuple)) else empty[0]
        if name in RANDOM or torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            return None
        inputs = [self._value(n) for n in node.all_input_nodes]
        if not all(_all_known(v) for v in inputs):
            return None
        with torch.no_grad():
            arguments, words = self.of(node.args), self.of(node.kwargs)
            result = node.target(*arguments, **words)
        if self.is_sized() or any(id(t) in self._made for t in _tensors(inputs)):
            call = functools.cache(lambda: self._computed_later(node, types))
            for i, t in enumerate(_tensors(result)):
                self._made[id(t)] = _Made(t, call, i if isinstance(result, (list, tuple)) else None)
        return result

    def _computed_later(self, node, types):
        before, self._node = (self._node, self._is_sized), node
        self._is_sized = True
        try:
            return self._computed(node, types)
        finally:
            self._node, self._is_sized = before

    # ---- decompositions ----

    def _decomposed(self, node, name, given=None):
        """Translates PyTorch's decomposition of a call, in place of the call; `given`: arguments and keywords other
        than its own."""
        function = _decomposition(node.target)
        if not function:
            raise Refused("msc has no row for it, and PyTorch no decomposition")
        mode = next((f.fake_mode for n in [node, *node.all_input_nodes] for f in _tensors(n.meta.get("val"))
                     if hasattr(f, "fake_mode")), None)
        inputs = list(node.all_input_nodes)
        if given:
            inputs = [v for v in pytree.tree_leaves(given) if hasattr(v, "shape")]
            with mode:
                fakes = [torch.empty(v.shape, dtype=TORCH[dtype_of(v)]) for v in inputs]
        else:
            fakes = [n.meta["val"] for n in inputs]

        def call(*tensors):
            stand_in = dict(zip(map(id, inputs), tensors))
            arguments, words = pytree.tree_map(lambda v: stand_in.get(id(v), v), given or (node.args, node.kwargs))
            return function(*arguments, **words)

        try:
            # with oneDNN a layer of an LSTM would become one op of that library's, not its steps
            with mode or torch._subclasses.fake_tensor.FakeTensorMode(), _without_onednn():
                inner = make_fx(call, tracing_mode="real")(*fakes)
                if any(getattr(getattr(n.target, "_schema", None), "is_mutable", False) for n in inner.graph.nodes):
                    inner = make_fx(torch.func.functionalize(inner), tracing_mode="real")(*fakes)
        except Exception as e:  # whatever PyTorch's Python code raises for these arguments
            raise Refused(
                f"PyTorch does not decompose it: {type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"
            ) from None
        if any(n.op == "call_function" and n.target is node.target for n in inner.graph.nodes):
            raise Refused("msc has no row for it, and PyTorch no decomposition")
        return self.walk_inner(inner, inputs if given else [self.values[n] for n in inputs])

    def walk_inner(self, inner, values):
        """The results of a graph that stands for the node being translated; `values` are those of its inputs."""
        for placeholder, value in zip((n for n in inner.graph.nodes if n.op == "placeholder"), values):
            self.values[placeholder] = value
        faults, self.faults, was_sized = self.faults, {}, self._is_sized
        self._is_sized = was_sized or self._node in self.sized
        result = self.walk(inner.graph, inner, is_inner=True)
        faults, self.faults, self._is_sized = self.faults, faults, was_sized
        if faults:
            raise Refused("; ".join(f"{inner_name}: {cases[0][0]}" for inner_name, cases in faults.items()))
        return result

    def complain(self):
        """Raises Unsupported if anything could not be translated: everything at once."""
        if not self.faults:
            return
        lines = []
        for name, cases in sorted(self.faults.items(), key=lambda item: -len(item[1])):
            why, (file, line, blocks) = cases[0]
            where = f" at {file}:{line}" if file else ""
            inside = f" in {'.'.join(blocks)}" if blocks else ""
            lines.append(f"  {len(cases)} x {name}{where}{inside}: {why}")
        raise Unsupported(
            f"msc cannot translate {len(self.faults)} kind{'s' * (len(self.faults) > 1)} of operations:\n"
            + "\n".join(lines)
        )


def _live(graph, wanted):
    """The wanted nodes, and all that they depend on."""
    live = set()
    torch.fx.map_arg(wanted, live.add)
    for node in reversed(graph.nodes):
        if node in live:
            live.update(node.all_input_nodes)
    return live


def _type(val):
    if not isinstance(val, torch.Tensor):
        return None
    try:
        return DTYPES.get(val.dtype), tuple(int(s) for s in val.shape)
    except GuardOnDataDependentSymNode:
        raise Refused("the size of its result depends on data") from None


def _torch(dtype):
    return next(t for t, name in DTYPES.items() if name == dtype)


def _unknown_type(val):
    return next(
        str(v.dtype)[len("torch.") :]
        for v in (val if isinstance(val, (list, tuple)) else [val])
        if isinstance(v, torch.Tensor) and v.dtype not in DTYPES
    )


def _is_complex(val):
    return isinstance(val, torch.Tensor) and val.is_complex()


def _tensors(value):
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in _tensors(v)]
    return [value] if isinstance(value, torch.Tensor) else []


def _is_one_number(tensor):
    return not tensor.numel() or bool((tensor == tensor.flatten()[0]).all())


def _all_known(value):
    return (
        all(map(_all_known, value)) if isinstance(value, (list, tuple)) else not callable(value) and is_known(value)
    )


@contextlib.contextmanager
def _without_onednn():
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


@functools.cache
def _core_decompositions():
    """PyTorch's way to its core operations.  The public table looks at all of PyTorch's operators; those that it adds
    can be asked how they decompose."""
    own = getattr(torch._decomp, "_core_aten_decompositions_post_autograd", torch._decomp.core_aten_decompositions)
    return own()


def _decomposition(target):
    """A Python function that computes what the op does with other ones."""
    if not isinstance(target, torch._ops.OpOverload):
        return None
    if target in DECOMPOSITIONS:
        return DECOMPOSITIONS[target]
    if name_of(target) in OF_OTHERS:
        return OF_OTHERS[name_of(target)]
    table = _core_decompositions()
    if target in table:
        return table[target]
    if target._can_decompose():
        return target.decompose
    return torch._decomp.decomposition_table.get(target) or of_each(target)
