"""Nodes that a graph of PyTorch returns in; tensors of the sizes and strides that PyTorch gives them out: those that
share memory with an input or with each other there do so here."""

import torch


def _is_tensor(node):
    return isinstance(node, torch.fx.Node) and isinstance(node.meta.get("val"), torch.Tensor)


def _storage(node):
    return node.meta["val"].untyped_storage()._cdata


def _order(val):
    """The dimensions of a dense tensor from the outermost in memory to the innermost; None: it is not dense."""
    order = sorted(range(val.dim()), key=lambda d: (-val.stride(d), -val.shape[d]))
    expected = 1
    for d in reversed(order):
        if val.shape[d] != 1 and val.stride(d) != expected:
            return None
        expected *= val.shape[d]
    return order


def _is_whole(val):
    """Does it cover the memory in which it lies?"""
    return val.numel() * val.element_size() == val.untyped_storage().nbytes() and _order(val) is not None


def _flat(tensor):
    return tensor.as_strided((tensor.numel(),), (1,))


class Results:
    """How the results of a graph are made.  computed: for each tensor that is to be computed the node, and in which
    order its dimensions lie in memory, row by row; layouts: the sizes and strides of the tensor that is made for it:
    what is a result itself is no view, which autograd would let nobody write to.  makers: for each result a function of
    the graph's inputs and of these tensors; none of them knows the graph."""

    def __init__(self, graph):
        output = next(n for n in reversed(graph.nodes) if n.op == "output").args[0]
        self.nodes = list(output) if isinstance(output, (list, tuple)) else [output]
        self.computed, self.layouts = [], []
        placeholders = [n for n in graph.nodes if n.op == "placeholder"]
        self._inputs = {n: i for i, n in enumerate(placeholders)}
        self._input_at = {_storage(n): i for i, n in enumerate(placeholders) if _is_tensor(n)}
        self._whole = {}  # memory -> the first node that covers it
        for node in graph.nodes:
            if node.op == "call_function" and _is_tensor(node) and _is_whole(node.meta["val"]):
                self._whole.setdefault(_storage(node), node)
        self._offsets = {n: n.meta["val"].storage_offset() for n in placeholders if _is_tensor(n)}
        self._placeholders = placeholders
        self.makers = [self._maker(n) for n in self.nodes]
        for i, (node, order) in enumerate(self.computed):
            size = [node.meta["val"].shape[d] for d in order]
            self.layouts[i] = self.layouts[i] or (size, torch.empty(size, device="meta").stride())

    def _maker(self, node):
        """A function (inputs, computed tensors) -> the result."""
        if node in self._inputs:
            number = self._inputs[node]
            return lambda inputs, computed: inputs[number]
        if not _is_tensor(node):
            return lambda inputs, computed: node
        val = node.meta["val"]
        size, stride, offset, dtype = tuple(val.shape), val.stride(), val.storage_offset(), val.dtype
        if not val.numel():
            return lambda inputs, computed: torch.empty_strided(size, stride, dtype=dtype)
        if _storage(node) in self._input_at:
            number = self._input_at[_storage(node)]
            before = self._offsets[self._placeholders[number]]
            return lambda inputs, computed: inputs[number].as_strided(
                size, stride, offset - before + inputs[number].storage_offset()
            )
        base = self._whole.get(_storage(node))
        if base is None:  # memory of which no more than parts is seen
            number = self._compute(node, range(val.dim()))
            return lambda inputs, computed: torch.empty_strided(size, stride, dtype=dtype).copy_(computed[number])
        number = self._compute(base, _order(base.meta["val"]))
        if not self.layouts[number] and dtype == base.meta["val"].dtype and _is_whole(val):
            self.layouts[number] = size, stride
            return lambda inputs, computed: computed[number]
        if base.meta["val"].dtype != dtype:  # a view as another type
            return lambda inputs, computed: _flat(computed[number]).view(dtype).as_strided(size, stride, offset)
        return lambda inputs, computed: computed[number].as_strided(size, stride, offset)

    def _compute(self, node, order):
        wanted = (node, tuple(order))
        if wanted not in self.computed:
            self.computed.append(wanted)
            self.layouts.append(None)
        return self.computed.index(wanted)
