"""Rows that are sorted by number, computed on and put back, as mixtures of experts do it: a functional FX graph in, and
the same graph without the sort out, where every row stays in its place.  What is between needs no order: functions of
single rows, products of each row with the matrix of its group, counts and sums over all rows.  Rows that stay where
they are can be cut by the batch."""

import operator

import torch

aten = torch.ops.aten
_SORTS = ("sort.default", "sort.stable")
_PRODUCTS = ("transformers::grouped_mm_fallback", "_grouped_mm")
_SAME = ("_to_copy", "clone", "alias", "detach", "to.dtype")
_POINTWISE = (*_SAME, "floor_divide")  # beside what PyTorch itself calls so
_OF_SHAPE = ("empty_like", "zeros_like", "ones_like", "full_like", "new_empty", "new_zeros", "new_ones", "new_full")
_NORMS = ("layer_norm", "native_layer_norm", "rms_norm", "_fused_rms_norm")
_PLACES = ("topk", "sort.default", "sort.stable", "max.dim", "min.dim")  # beside values these give places
_COUNTS = ("histc", "bincount")
_ALONG = ("sum.dim_IntList", "mean.dim", "amax", "amin", "_softmax", "softmax.int", "split.Tensor", "unbind.int",
          "split_with_sizes", "slice.Tensor", "select.int", "unsqueeze", "squeeze.dim", "chunk")  # fmt: skip


def remove(graph):
    """Takes out every sort that allows it; {product of groups: the node with the number of each row's group}."""
    groups = {}
    for node in list(graph.nodes):
        if node.op == "call_function" and _is(node, *_SORTS) and (found := _Sorted.of(node)):
            groups.update(found.apply(graph))
    return groups


def _is(node, *names):
    """True of a call of one of these operations: a name without a dot means all its overloads."""
    target = node.target
    if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload):
        return False
    full = target._schema.name
    own = full[len("aten::") :] if full.startswith("aten::") else full
    return own in names or f"{own}.{target._overloadname}" in names


def _shape(node):
    val = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
    return tuple(val.shape) if isinstance(val, torch.Tensor) else None


def _are_places(node):
    """True of whole numbers that are places along a dimension, so none is negative."""
    while _is(node, "view", "reshape", "_unsafe_view", *_SAME):
        node = node.args[0]
    if node.op == "call_function" and node.target is operator.getitem:
        return node.args[1] == 1 and _is(node.args[0], *_PLACES)
    return _is(node, "argmax", "argmin")


def _counts_up(node, count):
    """True of 0, 1 .. count - 1."""
    if not isinstance(node, torch.fx.Node) or not _is(node, "arange") or _shape(node) != (count,):
        return False
    return _is(node, "arange.default") or (node.args[0] == 0 and (len(node.args) < 3 or node.args[2] == 1))


class _Sorted:
    """What depends on one sort of n whole numbers: nodes whose dimension 0 are rows in the order of the numbers, nodes
    that undo it, and counts of the numbers."""

    def __init__(self, node):
        self.node, self.numbers, (self.count,) = node, node.args[0], _shape(node.args[0])
        self.rows, self.undo, self.counts, self.ends = set(), set(), set(), set()
        self.values = self.order = None
        self.products = []

    @classmethod
    def of(cls, node):
        """None where somebody sees the order."""
        val = node.args[0].meta["val"]
        if val.ndim != 1 or not isinstance(val.shape[0], int) or not _are_places(node.args[0]):
            return None
        descending = node.args[2] if _is(node, "sort.default") and len(node.args) > 2 else False
        if node.kwargs.get("descending", descending):
            return None
        found = cls(node)
        return found if found._follow() and found.products else None

    def _follow(self):
        for user in self.node.users:
            if user.target is not operator.getitem:
                return False
            self.values, self.order = (user, self.order) if user.args[1] == 0 else (self.values, user)
            self.rows.add(user)
        graph = self.node.graph
        return all(self._place(n) for n in graph.nodes if n not in self.rows and self._concerns(n))

    def _concerns(self, node):
        return any(n in self.rows or n in self.undo or n in self.counts or n in self.ends for n in node.all_input_nodes)

    def _place(self, node):
        """Finds out what a node is, whose inputs are known; False: something that needs the order."""
        if node.op != "call_function":
            return False
        inputs = set(node.all_input_nodes)
        if _is(node, *_OF_SHAPE) or not node.users:
            return True
        if not inputs & self.rows:
            return self._follow_others(node, inputs)
        if inputs & self.undo:
            return _is(node, "index.Tensor") and self._is_put_back(node)
        if node.target is operator.getitem or self._is_of_rows(node):
            self.rows.add(node)
            return True
        return self._is_exit(node)

    def _follow_others(self, node, inputs):
        """What depends on no row: counts and ends of groups, of which the order does not matter, and places of rows."""
        if inputs & self.undo:
            return False
        if _is(node, "cumsum") and node.args[0] in self.counts:
            self.ends.add(node)
        elif _is(node, *_SAME) and node.args[0] in self.counts:
            self.counts.add(node)
        elif _is(node, *_SAME) and node.args[0] in self.ends:
            self.ends.add(node)
        return True

    # ---- functions of single rows ----

    def _is_of_rows(self, node):
        shape = _shape(node)
        if _is(node, *_PRODUCTS):
            return self._is_product(node)
        if _is(node, "index.Tensor"):
            x, places = node.args[0], node.args[1]
            return x not in self.rows and len(places) == 1 and places[0] in self.rows and len(_shape(places[0])) == 1
        if _is(node, "index_select"):
            return node.args[0] not in self.rows and node.args[1] == 0 and node.args[2] in self.rows
        if _is(node, *_NORMS):
            return len(node.args[1]) < len(_shape(node.args[0])) and not self.rows & set(node.all_input_nodes[1:])
        if _is(node, *_POINTWISE) or torch.Tag.pointwise in getattr(node.target, "tags", ()):
            return all(self._goes_along(n, shape) for n in node.all_input_nodes)
        if _is(node, "mm", "linear"):
            return node.args[0] in self.rows and node.args[1] not in self.rows
        if _is(node, "view", "reshape", "_unsafe_view"):
            return node.args[0] in self.rows and bool(shape) and shape[0] == self.count
        if _is(node, *_ALONG):
            return self._is_along(node)
        if _is(node, "cat"):
            parts, dim = node.args[0], node.args[1] if len(node.args) > 1 else 0
            return all(n in self.rows for n in parts) and dim % len(shape) != 0
        return False

    def _goes_along(self, node, shape):
        """True if an operand has the rows of a result of this shape, or is the same for all of them."""
        own = _shape(node)
        if own is None or shape is None:
            return False
        if node in self.rows:
            return len(own) == len(shape) and own[0] == self.count == shape[0]
        return node not in self.undo and (len(own) < len(shape) or own[0] == 1)

    def _is_along(self, node):
        """True of an operation along dimensions other than the first."""
        rank, before = len(_shape(node.args[0])), _is(node, "unsqueeze")
        default = -1 if _is(node, "split_with_sizes", "split.Tensor", "chunk") else None
        dims = node.args[2] if default == -1 and len(node.args) > 2 else node.kwargs.get("dim", default)
        if default is None:
            dims = node.args[1] if len(node.args) > 1 else dims
        elif dims == -1 and len(node.args) <= 2 and "dim" not in node.kwargs:
            dims = 0
        if dims is None:
            return False
        dims = dims if isinstance(dims, (list, tuple)) else [dims]
        return bool(dims) and all(d % (rank + before) != 0 for d in dims)

    def _is_product(self, node):
        """True of a product of rows with the matrices of groups that end where the numbers do."""
        x, w, ends = (list(node.args) + [node.kwargs.get("offs")])[:3]
        if x not in self.rows or w in self.rows or ends not in self.ends or len(_shape(w)) != 3:
            return False
        if len(node.args) > 3 and node.args[3] is not None or node.kwargs.get("bias") is not None:
            return False
        self.products.append(node)
        return True

    # ---- where the order ends ----

    def _is_exit(self, node):
        if _is(node, *_COUNTS):
            return self._is_count(node)
        if _is(node, "index_put"):
            return self._is_put(node)
        if _is(node, "index_add"):
            x, dim, places, rows = node.args[:4]
            return x not in self.rows and dim == 0 and places in self.rows and rows in self.rows
        return False

    def _is_put_back(self, node):
        """True of rows taken from where the order has them."""
        x, places = node.args[0], node.args[1]
        return x in self.rows and len(places) == 1 and places[0] in self.undo

    def _is_count(self, node):
        """True of a count of all rows by a number: of the numbers that are sorted it gives the ends of groups."""
        x, groups = node.args[0], _shape(node)[0]
        words = dict(zip(("bins", "min", "max"), node.args[1:]), **node.kwargs)
        while x is not self.values and _is(x, *_SAME):
            x = x.args[0]
        if x is self.values and _is(node, "histc") and (words.get("min"), words.get("max")) == (0, groups - 1):
            self.counts.add(node)
        return True

    def _is_put(self, node):
        """True of rows put where they were before, and of places put so: the inverse of the order."""
        x, places, values = node.args[:3]
        adds = node.args[3] if len(node.args) > 3 else node.kwargs.get("accumulate", False)
        if x in self.rows or len(places) != 1 or places[0] not in self.rows:
            return False
        if values in self.rows:
            return adds or places[0] is self.order
        if adds or places[0] is not self.order or not _counts_up(values, self.count):
            return False
        self.undo.add(node)
        return _shape(x) == (self.count,)

    # ---- the graph without the sort ----

    def apply(self, graph):
        with graph.inserting_before(self.node):
            places = graph.call_function(aten.arange.default, (self.count,), {"dtype": torch.int64})
            places.meta = {**self.node.meta, "val": self.node.meta["val"][1]}
        if self.values:
            self.values.replace_all_uses_with(self.numbers)
        if self.order:
            self.order.replace_all_uses_with(places)
        return {product: self.numbers for product in self.products}
