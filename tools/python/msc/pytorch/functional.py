"""An exported program in; the same program without writes out, made from its graph alone: a second trace, as PyTorch's
run_decompositions makes, takes longer than the first.  A program that writes to what is read by another name, too, but
for a tensor that is read whole after a write to a part of it, and what only a trace takes apart, are left to that."""

import operator

import torch
from torch.export import graph_signature as signatures

from msc.pytorch.aten import ROWS
from msc.pytorch.convert import name_of

_REGION = torch.ops.higher_order.wrap_with_set_grad_enabled
_MOVES = ("set_", "resize_", "resize_as_")  # give a tensor other memory
_BATCH_NORM = torch.ops.aten.batch_norm.default  # writes, though its schema does not say so, to running statistics
_OF_BATCH_NORM = torch.ops.aten._native_batch_norm_legit_functional.default
_PUT_BACK = {  # a view that is a part of a tensor -> what gives the tensor with other values in that part
    torch.ops.aten.select.int: torch.ops.aten.select_scatter.default,
    torch.ops.aten.slice.Tensor: torch.ops.aten.slice_scatter.default,
}
_OTHER_NORMS = ("native_batch_norm", "instance_norm", "cudnn_batch_norm", "miopen_batch_norm", "_batch_norm_impl_index")


class _Needs(Exception):
    """A program needs a second trace."""


class Functional:
    """What an export reads of a program."""

    def __init__(self, program, graph, output_specs):
        self.graph, self.graph_module, self.call_spec = graph, program.graph_module, program.call_spec
        self.state_dict, self.constants = program.state_dict, program.constants
        self.range_constraints = program.range_constraints
        self.graph_signature = signatures.ExportGraphSignature(program.graph_signature.input_specs, output_specs)


def functional(program):
    """The program without writes; None if it needs a second trace.  What regions without gradients hand on is marked
    by detach before."""
    try:
        flat = torch.fx.Graph()
        stopped = set()
        flat.output(_inlined(program.graph_module, flat, {}, stopped))
        return _Writes(program, flat, stopped).replaced()
    except _Needs:
        return None


def _inlined(module, graph, copies, stopped, is_stopped=False):
    """Copies the nodes of a module and, in their place, of its regions without gradients; those are noted in `stopped`.
    Gives its results."""
    results = {}  # of a region
    for node in module.graph.nodes:
        if node.op == "output":
            return torch.fx.map_arg(node.args[0], lambda n: copies[n])
        if node.op == "get_attr" and isinstance(getattr(module, node.target, None), torch.fx.GraphModule):
            continue
        if node.op == "get_attr" and is_stopped:
            raise _Needs
        if node.target is operator.getitem and node.args[0] in results:
            copies[node] = results[node.args[0]][node.args[1]]
        elif node.target is _REGION and not node.args[0]:
            inner = getattr(module, node.args[1].target)
            places = [n for n in inner.graph.nodes if n.op == "placeholder"]
            given = {n: copies[v] for n, v in zip(places, node.args[2:], strict=True)}
            results[node] = _inlined(inner, graph, given, stopped, True)
        elif isinstance(node.target, torch._ops.HigherOrderOperator):
            raise _Needs
        elif node not in copies:
            copies[node] = graph.node_copy(node, lambda n: copies[n])
            if is_stopped:
                stopped.add(copies[node])
    raise _Needs


class _Memory:
    """Which nodes of a graph may lie in the same memory: those whose tensors do, and those of which PyTorch says so."""

    def __init__(self, graph):
        self._parent, self._nodes = {}, {}
        for node in graph.nodes:
            val = node.meta.get("val")
            own = val.untyped_storage()._cdata if isinstance(val, torch.Tensor) else node
            self._parent[node] = self._find(own)
            schema = getattr(node.target, "_schema", None)
            if node.target is operator.getitem:
                if _gives_views(node.args[0]):
                    self._join(node, node.args[0])
            elif schema and _gives_views(node):
                for argument, value in zip(schema.arguments, node.args):
                    if argument.alias_info:
                        torch.fx.map_arg(value, lambda n, node=node: self._join(node, n))
        for node in graph.nodes:
            self._nodes.setdefault(self._find(node), []).append(node)

    def _find(self, own):
        while (parent := self._parent.setdefault(own, own)) is not own:
            own = parent
        return own

    def _join(self, a, b):
        self._parent[self._find(a)] = self._find(b)

    def of(self, node):
        return self._nodes[self._find(node)]


def _gives_views(node):
    """True if results of a node may lie in the memory of its arguments; each of other results has memory of its own."""
    schema = getattr(node.target, "_schema", None)
    return schema is None or any(r.alias_info for r in schema.returns)


class _Writes:
    """A graph whose writes are replaced by new values."""

    def __init__(self, program, graph, stopped):
        self._program, self._stopped = program, stopped
        self._old, self._new = graph, torch.fx.Graph()
        self._memory = _Memory(graph)
        self._place = {n: i for i, n in enumerate(graph.nodes)}
        self._last = {n: max((self._place[u] for u in n.users), default=-1) for n in graph.nodes}
        self._now = {}  # of an old node: the new node of what it holds now
        self._names = {n: [n] for n in graph.nodes}  # of an old node: all that are the same tensor
        signature = program.graph_signature
        self._buffer_of = {n: signature.inputs_to_buffers.get(n.name) for n in graph.nodes if n.op == "placeholder"}
        self._written = {}  # buffer -> its placeholder
        self._keeps = {}  # a call, but for values -> does it give the type that its first argument has?

    def replaced(self):
        for node in self._old.nodes:
            if node.op == "output":
                return self._output(node)
            if _is_traced(node.meta.get("val")):
                raise _Needs
            schema = getattr(node.target, "_schema", None)
            if node.target is _BATCH_NORM and node.args[5] and node.args[3] is not None:
                self._batch_norm(node)
            elif getattr(schema, "name", "").removeprefix("aten::") in _OTHER_NORMS and node.args[3] is not None:
                raise _Needs
            elif schema and schema.is_mutable:
                self._in_place(node, schema)
            elif schema and any(r.alias_info for r in schema.returns) and name_of(node.target) not in ROWS:
                raise _Needs  # PyTorch takes views apart where they are traced, and not where one call is decomposed
            else:
                self._now[node] = self._new.node_copy(node, self._now.__getitem__)

    def _output(self, node):
        written = [(b, self._now[place]) for b, place in self._written.items()]
        specs = [
            signatures.OutputSpec(signatures.OutputKind.BUFFER_MUTATION, signatures.TensorArgument(name=n.name), b)
            for b, n in written
        ]
        user = torch.fx.map_arg(node.args[0], self._now.__getitem__)
        for spec, value in zip(self._program.graph_signature.output_specs, user, strict=True):
            if spec.kind is not signatures.OutputKind.USER_OUTPUT:
                raise _Needs
            arg = signatures.TensorArgument(name=value.name) if isinstance(value, torch.fx.Node) else spec.arg
            specs.append(signatures.OutputSpec(spec.kind, arg, spec.target))
        self._new.output(tuple(n for _, n in written) + tuple(user))
        return Functional(self._program, self._new, specs)

    def _write(self, x, node, value):
        """Lets what an old node holds, from this node on, be a new value; so do the tensors of which it is a part."""
        names = list(self._names[x])
        self._let(names, value)
        first = names[0]
        while first.target in _PUT_BACK and not first.kwargs and self._others_read(x, names, node):
            whole, *part = first.args
            value = self._call(node, _PUT_BACK[first.target], (self._now[whole], value, *part), {}, whole.meta["val"])
            self._let(self._names[whole], value)
            names += self._names[whole]
            first = self._names[whole][0]
            if node in self._stopped:
                raise _Needs  # whether the other elements have gradients is said by no mark
        if self._others_read(x, names, node):
            raise _Needs
        if first.op in ("placeholder", "get_attr"):
            if not self._buffer_of.get(first):
                raise _Needs
            self._written[self._buffer_of[first]] = first
        elif node in self._stopped and first not in self._stopped:
            raise _Needs  # a write without gradient to a value with one

    def _let(self, names, value):
        for name in names:
            self._now[name] = value

    def _others_read(self, x, names, node):
        """True if a node beside those named, made before this node in x's memory, is read after it or outlives it."""
        here = self._place[node]
        return any(
            other.op == "placeholder" or self._last[other] > here
            for other in self._memory.of(x)
            if other not in names and self._place[other] < here and not _is_only_copied(other)
        )

    def _call(self, node, target, args, words, val):
        made = self._new.call_function(target, args, words)
        made.meta = {**node.meta, "val": val}
        return made

    def _in_place(self, node, schema):
        """x.f_(...): x is f(x, ...) from here on."""
        name, target = schema.name.removeprefix("aten::"), _out_of_place(node.target)
        x = node.args[0] if node.args else None
        if not target or name in _MOVES or not isinstance(x, torch.fx.Node) or node.op != "call_function":
            raise _Needs
        args, words = torch.fx.map_arg((node.args, node.kwargs), self._now.__getitem__)
        made = self._call(node, target, args, words, node.meta["val"])
        alike = target, *(_kind(v) for v in (*args, *words.items()))
        if alike not in self._keeps:
            self._keeps[alike] = _has_type(made, x.meta["val"])
        if not self._keeps[alike]:
            raise _Needs
        if node in self._stopped:
            made = self._call(node, torch.ops.aten.detach.default, (made,), {}, made.meta["val"])
        self._names[node] = self._names[x]
        self._names[x].append(node)
        self._write(x, node, made)

    def _batch_norm(self, node):
        x, gamma, beta, mean, variance, _, momentum, eps = node.args[:8]
        val, of_old = node.meta["val"], mean.meta["val"]
        if node.kwargs or val.dtype != of_old.dtype:
            raise _Needs
        now = torch.fx.map_arg((x, gamma, beta, mean, variance), self._now.__getitem__)
        vals = (val, of_old, of_old, of_old, variance.meta["val"])
        made = self._call(node, _OF_BATCH_NORM, (*now, True, momentum, eps), {}, vals)
        result, _, _, new_mean, new_variance = (
            self._call(node, operator.getitem, (made, i), {}, v) for i, v in enumerate(vals)
        )
        self._now[node] = result
        self._write(mean, node, new_mean)
        self._write(variance, node, new_variance)


def _is_traced(val):
    """True for a size that is known when a step runs, for tensors that have one, and for complex tensors: of their
    views a trace leaves few kinds."""
    if isinstance(val, (list, tuple)):
        return any(map(_is_traced, val))
    if isinstance(val, torch.Tensor) and val.is_complex():
        return True
    sizes = val.shape if isinstance(val, torch.Tensor) else (val,)
    return any(isinstance(s, (torch.SymInt, torch.SymFloat, torch.SymBool)) for s in sizes)


def _is_only_copied(node):
    """True for a constant that is read by copies of it alone: to PyTorch's types they lie where it does."""
    return node.op == "placeholder" and all(u.target is torch.ops.aten.lift_fresh_copy.default for u in node.users)


def _out_of_place(target):
    """The overload that computes what one that writes to its first argument leaves there; None: there is none."""
    schema = target._schema
    first, *others = schema.arguments
    name = schema.name.removeprefix("aten::")
    writes = first.alias_info is not None and first.alias_info.is_write
    if not writes or any(a.alias_info for a in others) or not name.endswith("_") or len(schema.returns) != 1:
        return None
    found = getattr(getattr(torch.ops.aten, name[:-1], None), target._overloadname, None)
    if found is None or found._schema.is_mutable or len(found._schema.returns) != 1:
        return None
    takes = [(a.name, str(a.type)) for a in found._schema.arguments[1:]]
    return found if takes == [(a.name, str(a.type)) for a in others] else None


def _kind(argument):
    """What the type of a call's result may depend on: of a tensor its type and shape."""
    val = argument.meta["val"] if isinstance(argument, torch.fx.Node) else None
    return (val.dtype, tuple(val.shape)) if isinstance(val, torch.Tensor) else repr(argument)


def _has_type(node, val):
    """True if what a new node gives has the type and the shape of a value, as a write keeps them."""
    args, words = torch.fx.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
    mode = val.fake_mode
    with mode, torch.no_grad():
        found = node.target(*args, **words)
    return found.dtype == val.dtype and found.shape == val.shape
