"""Graph: one call per input, parameter and op in; a Model dictionary, and model.fbs, out."""
import difflib
import inspect
import os
import struct
import sys
import warnings
from contextlib import contextmanager
from math import prod, sqrt

from msc import file
from msc.ops import ROWS, Error, Type, counted, dimension_of, made_by_build, respelled

BLOCK_HINTS = tuple(name for _, name, _, _ in file.SCHEMA["Hints"])
HINTS = tuple(name for name in BLOCK_HINTS if name not in ("shard", "memory_limit"))
HINT_KINDS = {name: kind for table in ("Parameter", "Hints") for _, name, kind, _ in file.SCHEMA[table]}
OPTIMIZERS = tuple(made_by_build("ops.json")["optimizers"])  # the rows of passes/2_train/optimizer_kinds.def
_HERE = os.path.dirname(os.path.abspath(__file__))


class Tensor:
    """A value of a graph."""

    def __init__(self, graph, number, dtype, shape, op=None):
        self.graph, self.number, self.dtype, self.shape, self.op = graph, number, dtype, tuple(shape), op

    def __repr__(self):
        return f"Tensor({self.dtype}, {list(self.shape)})"

    # ---- operators: the other side is a tensor, or a number, which becomes a constant of the same type ----

    def _with(self, other, op, turned=False):
        if isinstance(other, (bool, int, float)):
            other = self.graph.constant(other, self.dtype)
        if not isinstance(other, Tensor):
            return NotImplemented
        return op(other, self) if turned else op(self, other)

    def __add__(self, other):
        return self._with(other, self.graph.add)

    def __radd__(self, other):
        return self._with(other, self.graph.add, True)

    def __sub__(self, other):
        return self._with(other, self.graph.sub)

    def __rsub__(self, other):
        return self._with(other, self.graph.sub, True)

    def __mul__(self, other):
        return self._with(other, self.graph.mul)

    def __rmul__(self, other):
        return self._with(other, self.graph.mul, True)

    def __truediv__(self, other):
        return self._with(other, self.graph.div)

    def __rtruediv__(self, other):
        return self._with(other, self.graph.div, True)

    def __pow__(self, other):
        return self._with(other, self.graph.pow)

    def __matmul__(self, other):
        return self.graph.matmul(self, other)

    def __neg__(self):
        return self.graph.neg(self)

    def __abs__(self):
        return self.graph.abs(self)

    def _compared(self, other, predicate):
        return self._with(other, lambda a, b: self.graph.compare(a, b, predicate))

    def __lt__(self, other):
        return self._compared(other, "lt")

    def __le__(self, other):
        return self._compared(other, "le")

    def __gt__(self, other):
        return self._compared(other, "gt")

    def __ge__(self, other):
        return self._compared(other, "ge")

    def eq(self, other):
        """True for each pair of elements that are equal; == asks whether two names are one tensor."""
        return self._compared(other, "eq")

    def ne(self, other):
        """True for each pair of elements that differ."""
        return self._compared(other, "ne")

    def __getitem__(self, index):
        """x[1], x[-1], x[2:5], x[..., ::2], x[None]: numbers, slices with positive steps, one ... and None, which adds
        a dimension of 1.  Raises Error for what lies outside."""
        index = index if isinstance(index, tuple) else (index, )
        given = sum(i is not None and i is not Ellipsis for i in index)
        if given > len(self.shape) or sum(i is Ellipsis for i in index) > 1:
            raise Error(f"{list(self.shape)} is indexed with {given} numbers and slices")
        every = [slice(None)] * (len(self.shape) - given)
        if not any(i is Ellipsis for i in index):
            index = (*index, Ellipsis)
        at = next(k for k, i in enumerate(index) if i is Ellipsis)
        index = (*index[:at], *every, *index[at + 1:])
        bounds, gone, new = [], [], []
        for i in index:
            if i is None:
                new.append(len(bounds) - len(gone) + len(new))
                continue
            size = self.shape[len(bounds)]
            whole = isinstance(i, slice) and i == slice(None)
            if size < 0 and not whole:
                raise Error(f"dimension {len(bounds)} is open: it has no parts")
            if isinstance(i, slice):
                bounds.append((0, size, 1) if whole else i.indices(size))
            elif isinstance(i, int) and -size <= i < size:
                gone.append(len(bounds))
                bounds.append((i % size, i % size + 1, 1))
            else:
                raise Error(f"{i!r} is no index of dimension {len(bounds)}, which has {size} elements")
            start, limit, step = bounds[-1]
            if step < 1 or (not whole and start >= limit):
                raise Error(f"{i!r} takes nothing of the {size} elements of dimension {len(bounds) - 1}, or backwards")
        y = self
        if any(b != (0, s, 1) for b, s in zip(bounds, self.shape)):
            y = self.graph.slice(y, *([b[k] for b in bounds] for k in range(3)))
        if gone:
            y = self.graph.squeeze(y, gone)
        for axis in new:
            y = self.graph.expand_dims(y, axis)
        return y

    def __iter__(self):
        raise TypeError("a tensor of a graph has no elements to go through")

    # ---- reductions and shapes; axis: a number, several, or None for all; negative ones count from the end ----

    def _reduced(self, op, axis, keep_dims):
        axes = range(len(self.shape)) if axis is None else [axis] if isinstance(axis, int) else axis
        return op(self, list(axes), keep_dims=keep_dims)

    def sum(self, axis=None, keep_dims=False):
        """The sum along an axis or several; of all elements where none is given."""
        return self._reduced(self.graph.reduce_sum, axis, keep_dims)

    def mean(self, axis=None, keep_dims=False):
        """The mean along an axis or several; of all elements where none is given."""
        return self._reduced(self.graph.reduce_mean, axis, keep_dims)

    def max(self, axis=None, keep_dims=False):
        """The largest along an axis or several; of all elements where none is given."""
        return self._reduced(self.graph.reduce_max, axis, keep_dims)

    def reshape(self, *shape):
        """To these sizes, one of which may be -1."""
        return self.graph.reshape(self, list(shape[0]) if len(shape) == 1
                                  and not isinstance(shape[0], int) else list(shape))

    def transpose(self, *axes):
        """The dimensions in this order; backwards if none is given."""
        return self.graph.transpose(self, list(axes) or list(range(len(self.shape)))[::-1])

    @property
    def T(self):
        """With its dimensions backwards."""
        return self.transpose()

    def astype(self, dtype):
        """The same elements in another type."""
        return self.graph.cast(self, dtype)


def _shown(path):
    """Paths in the file are the same on every machine: relative to the package, or to the working folder."""
    path = os.path.abspath(path)
    for folder in (os.path.dirname(_HERE), os.getcwd()):
        if path.startswith(folder + os.sep):
            return os.path.relpath(path, folder).replace(os.sep, "/")
    return path


def _is_internal(path):
    """True for a file of this package, except for the networks: they are models like a user's."""
    folder, name = os.path.split(os.path.abspath(path))
    return folder == _HERE or (folder == os.path.join(_HERE, "models") and name.startswith("__"))


def _places():
    """(file, line) outside this package that is being executed, and of the nearest caller in another file, if there is
    one: the layer library's line, then the line of the model that uses it."""
    frame, places = sys._getframe(1), []
    while frame and len(places) < 2:
        path = frame.f_code.co_filename
        if path.startswith("<frozen"):
            break
        if not _is_internal(path) and (not places or _shown(path) != places[0][0]):
            places.append((_shown(path), frame.f_lineno))
        frame = frame.f_back
    return places


def _nearest(word, words):
    near = difflib.get_close_matches(word, words, 1)
    return f"; did you mean {near[0]}?" if near else ""


def _plain(value):
    """Tuples to lists, numpy numbers to Python's."""
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value.item() if hasattr(value, "item") and not isinstance(value, (int, float, str, bool)) else value


def _is_whole(value):
    return isinstance(value, int)


def _is_number(value):
    return isinstance(value, (int, float))


def _are_all(of_kind):
    return lambda values: isinstance(values, list) and all(map(of_kind, values))


# By the kind of an attribute: what is one, and how it is called.
SAID = {
    "int": (_is_whole, "a whole number"), "float": (_is_number, "a number"), "bool": (_is_whole, "True or False"),
    "str": (lambda value: isinstance(value, str), "a text"), "ints": (_are_all(_is_whole), "a list of whole numbers"),
    "floats": (_are_all(_is_number), "a list of numbers")
}


def _hint_fields(hints, known=HINTS):
    fields = {}
    for name, value in hints.items():
        if name not in known:
            raise Error(f"there is no hint {name}{_nearest(name, known)}")
        value = _plain(value)
        if value is None:
            continue
        _check_hint(name, value)
        fields[name] = [{"parts": parts} for parts in value] if HINT_KINDS[name] == "[Split]" else value
    return fields


# By the kind that a hint, or a mark of a parameter, has in a file: what is one, and how it is called.  -1 stands there
# for what is not given; whoever says it means something else.
_COUNT = (lambda value: _is_whole(value) and not isinstance(value, bool) and value >= 0, "a whole number from 0 on")
_FLAG = (lambda value: _is_whole(value) and value in (0, 1), "True or False")
SAID_OF_HINTS = {
    "i32": _COUNT, "i64": _COUNT, "u8": _COUNT, "bool": _FLAG, "i8": _FLAG, "str": SAID["str"],
    "[str]": (_are_all(SAID["str"][0]), "a list of texts"), "[i64]": SAID["ints"],
    "[Split]": (_are_all(SAID["ints"][0]), "a list of lists of whole numbers")
}


def _check_hint(name, value):
    is_one, called = SAID_OF_HINTS[HINT_KINDS[name]]
    if not is_one(value):
        raise Error(f"{name}={value!r} must be {called}")


def _init_fields(init):
    """"zeros", "ones", "constant:3", "normal:0.02", "uniform:0.1" """
    kind, colon, number = init.partition(":")
    attr = {"zeros": None, "ones": None, "constant": "value", "normal": "std", "uniform": "bound"}.get(kind, "")
    if attr == "" or bool(attr) != bool(colon):
        raise Error(f"init '{init}' is not one of zeros, ones, constant:VALUE, normal:STD, uniform:BOUND")
    return {"kind": kind, "attrs": [{"name": attr, "value": ("Float", {"v": float(number)})}] if attr else None}


def _flat(values):
    return [x for v in values for x in _flat(v)] if isinstance(values, (list, tuple)) else [values]


def _shape_of(values):
    return (len(values),) + _shape_of(values[0]) if isinstance(values,
                                                               (list, tuple)) and values else (0,) if isinstance(
        values, (list, tuple)) else ()


def _element_bytes(dtype, values):
    codes = {"f32": "f", "f16": "e", "f64": "d", "i1": "?", "i8": "b", "i16": "h", "i32": "i", "i64": "q", "u8": "B",
             "u16": "H", "u32": "I", "u64": "Q"}
    if dtype != "bf16":
        return struct.pack(f"<{len(values)}{codes[dtype]}", *values)
    out = bytearray()
    for v in values:  # upper half of f32, rounded to nearest even
        bits = struct.unpack("<I", struct.pack("<f", v))[0]
        out += struct.pack("<H", (bits >> 16) | 0x40 if v != v else (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)
    return bytes(out)


def _size(folder, path):
    """Bytes of a file in a folder; None: it is not there."""
    whole = folder and os.path.join(folder, path)
    return os.path.getsize(whole) if whole and os.path.isfile(whole) else None


class Graph:
    """Builds a forward graph with its loss and optimizer.  Every op of msc is a method: operands, then attributes, then
    `name` and hints (in_strategy=((2, 4), (4, 1)), pipeline_stage=1, recompute=True, ...)."""

    def __init__(self, name=""):
        self.name = name
        self._types, self._locs, self._value_types, self._tensors = {}, {}, [], []
        self._ops, self._by_name, self._counts = [], {}, {}
        (self._inputs, self._parameters, self._constants, self._outputs, self._weight_files,
         self._state) = [], [], [], [], [], []
        self._blocks, self._open_blocks = [{"name": ""}], [0]
        self._loss, self._optimizers, self._micro_size = None, [], 1
        self._mesh, self._sizes = {}, []  # sizes: those that --dim changes
        self._place, self._hints, self._named_blocks = None, {}, {}  # what `at` says

    # ---- numbers ----

    def _type(self, dtype, shape):
        if dtype not in file.DTYPES:
            raise Error(f"there is no element type {dtype}{_nearest(dtype, file.DTYPES)}")
        return self._types.setdefault((dtype, tuple(shape)), len(self._types))

    def _value(self, dtype, shape, op=None):
        self._value_types.append(self._type(dtype, shape))
        self._tensors.append(Tensor(self, len(self._tensors), dtype, shape, op))
        return self._tensors[-1]

    def _loc(self):
        """Index + 1 of the place in the user's program that is being executed, or that `at` says; 0: unknown."""
        number = 0
        if self._place:
            return self._locs.setdefault(self._place, len(self._locs)) + 1 if any(self._place) else 0
        for path, line in reversed(_places()):
            number = self._locs.setdefault((path, line, number, None), len(self._locs)) + 1
        return number

    def _scope(self):
        return self._open_blocks[-1]

    # ---- arguments ----

    def input(self, name, dtype, shape, role="data", batch_dim=0):
        """A data input; role "label" or "mask" for others.  A size of -1 is given later by msc compile --dim.
        batch_dim is the dimension that is the batch, as large in all inputs; -1: this one has none."""
        if role not in file.ROLES:
            raise Error(f"there is no role {role}{_nearest(role, file.ROLES)}")
        t = self._value(dtype, shape)
        self._inputs.append({"name": name, "value": t.number, "role": file.ROLES.index(role), "batch_dim": batch_dim})
        return t

    def parameter(self, name, dtype, shape, init=None, weights=None, **marks):
        """init: zeros, ones, constant:V, normal:STD, uniform:BOUND; absent, and no weights: zeros, with a warning where
        the parameter has two dimensions or more.  weights=(path, tensor) takes it from a safetensors file. Marks:
        trainable, layerwise_parallel, parallel_optimizer, comm_fusion, layout, parameter_server, cache_rows."""
        known = ("trainable", "layerwise_parallel", "parallel_optimizer", "comm_fusion", "layout",
                 "parameter_server", "cache_rows")
        for mark in marks:
            if mark not in known:
                raise Error(f"a parameter has no mark {mark}{_nearest(mark, known)}")
            if marks[mark] is not None:
                _check_hint(mark, _plain(marks[mark]))
        t = self._value(dtype, shape)
        fields = dict(marks, name=name, value=t.number, loc=self._loc(), block=self._scope())
        if init is None and not weights:
            init = "zeros"
            if len(shape) > 1:
                warnings.warn(f"parameter {name} has no init and no weights: zeros, unless `msc run --init` gives them",
                              stacklevel=2)
        if init is not None:
            fields["init"] = _init_fields(init)
        if weights:
            path, tensor = weights
            if path not in self._weight_files:
                self._weight_files.append(path)
            fields["weights"] = {"file": self._weight_files.index(path), "tensor": tensor}
        self._parameters.append(fields)
        return t

    def constant(self, values, dtype="f32", shape=None):
        """A number, nested lists or a numpy array; a single number with a shape is repeated.  Of bytes, which need a
        shape, the elements are taken as they are, row by row."""
        if isinstance(values, (bytes, bytearray)):
            t = self._value(dtype, shape)
            self._constants.append({"value": t.number, "data": bytes(values)})
            return t
        values = values.tolist() if hasattr(values, "tolist") else values
        own = _shape_of(values)
        flat = _flat(values)
        shape = own if shape is None else tuple(shape)
        if len(flat) != 1 and len(flat) != prod(shape):
            raise Error(f"{len(flat)} values do not fill {list(shape)}")
        t = self._value(dtype, shape)
        self._constants.append({"value": t.number, "data": _element_bytes(dtype, flat)})
        return t

    # ---- ops ----

    def _attr(self, spec, value):
        value = _plain(value) if spec.kind != "type" else value
        if spec.kind in SAID and not SAID[spec.kind][0](value):
            raise Error(f"{spec.name} must be {SAID[spec.kind][1]}, not {value!r}")
        if spec.kind == "type":
            return "TypeRef", {"v": self._type(*value)}
        if spec.kind in ("ints", "floats"):
            return spec.kind.capitalize(), {"v": value}
        return {"int": "Int", "float": "Float", "bool": "Bool", "str": "Str"}[spec.kind], {"v": float(value)
            if spec.kind == "float" else value}

    def _unique(self, kind, name):
        if name is None:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            prefix = self._blocks[self._scope()]["path"] + "." if self._scope() else ""
            own = f"{prefix}{kind}{self._counts[kind]}"
            return self._unique(kind, own if own not in self._by_name else None)
        if name in self._by_name:
            raise Error(f"two ops are called {name}")
        return name

    def _op(self, row, operands, attrs, name, hints):
        for t in operands:
            if not isinstance(t, Tensor) or t.graph is not self:
                raise Error(f"{row.name}: operands must be tensors of this graph, not {t!r}")
        operand_types = [Type(t.dtype, t.shape) for t in operands]
        try:
            attrs = counted(row, attrs, operand_types)
        except Error as e:
            raise Error(f"{row.name}: {e}") from None
        op = {"kind": row.name, "name": self._unique(row.name, name), "operands": [t.number for t in operands],
              "loc": self._loc(), "block": self._scope()}
        try:
            op["attrs"] = [{"name": s.name, "value": self._attr(s, attrs[s.name])} for s in row.attrs
                           if attrs.get(s.name) is not None and attrs[s.name] != s.default] or None
        except Error as e:
            raise Error(f"{row.name}: {e}") from None
        op["hints"] = {**self._hints, **_hint_fields(hints)}
        given = {k: v for k, v in attrs.items() if v is not None}
        try:
            types = row.infer(operand_types, given, self._mesh)
        except Error as e:
            raise Error(f"{row.name} '{op['name']}': {e}") from None
        if not row.results[0].endswith("*"):
            types = types[:len(row.results)]
        results = [self._value(t.dtype, t.dims, op["name"]) for t in types]
        op["results"] = [t.number for t in results]
        self._by_name[op["name"]] = op
        self._ops.append(op)
        return results if len(types) > 1 or row.results[0].endswith("*") else results[0]

    def dense(self, x, features, name, bias=True, transposed=False, **hints):
        """A fully connected layer of the last dimension: parameters NAME.weight, stored [in, out] (transposed: [out,
        in]), and NAME.bias; ops NAME (the matmul, which gets the hints) and NAME.bias_add.  Initial values as PyTorch's
        Linear."""
        fan_in, bound = x.shape[-1], repr(1 / sqrt(x.shape[-1]))
        shape = [features, fan_in] if transposed else [fan_in, features]
        w = self.parameter(f"{name}.weight", x.dtype, shape, init=f"uniform:{bound}")
        product = self.matmul if len(x.shape) == 2 else self.batch_matmul
        y = product(x, w, transpose_b=transposed, name=name, **hints)
        if not bias:
            return y
        b = self.parameter(f"{name}.bias", x.dtype, [features], init=f"uniform:{bound}")
        return self.add(y, b, name=f"{name}.bias_add")

    def conv(self, x, channels, kernel, name, stride=1, padding=None, dilation=1, groups=1,
             bias=False, init=None, **hints):
        """A convolution of square windows over [n, c, h, w]: parameter NAME.weight [channels, c/groups, kernel,
        kernel], and NAME.bias; op NAME, which gets the hints.  padding None: as many as keep the size where stride is
        1.  Initial values as PyTorch's Conv2d, unless given."""
        fan_in = x.shape[1] // groups * kernel * kernel
        bound = f"uniform:{1 / sqrt(fan_in)!r}"
        w = self.parameter(f"{name}.weight", x.dtype, [channels, x.shape[1] // groups, kernel, kernel],
                           init=init or bound)
        around = dilation * (kernel - 1) // 2 if padding is None else padding
        y = self.conv2d(x, w, stride=[stride] * 2, dilation=[dilation] * 2, padding=[around] * 4,
                        groups=groups, name=name, **hints)
        if not bias:
            return y
        b = self.parameter(f"{name}.bias", x.dtype, [channels, 1, 1], init=bound)
        return self.add(y, b, name=f"{name}.bias_add")

    def norm(self, x, name, **hints):
        """Batch normalization over the channels, dimension 1: parameters NAME.weight, NAME.bias and the running
        statistics NAME.mean, NAME.variance, by which evaluation normalizes; op NAME, which gets the hints."""
        def each(suffix, init, trainable):
            return self.parameter(f"{name}.{suffix}", x.dtype, [x.shape[1]], init=init, trainable=trainable)
        mean, variance = each("mean", "zeros", False), each("variance", "ones", False)
        y, new_mean, new_variance = self.batch_norm(x, each("weight", "ones", True), each("bias", "zeros", True), mean,
                                                    variance, name=name, **hints)
        self.new_value(mean, new_mean)
        self.new_value(variance, new_variance)
        return y

    # ---- annotations ----

    @contextmanager
    def at(self, file, line, blocks=(), **hints):
        """For front ends: what is made inside comes from this line of the user's, in the block that is reached from the
        root by these names, and has these hints unless it says otherwise.  Blocks that are entered again stay the same
        ones. file None: the line is not known."""
        before, open_blocks, outer = self._place, self._open_blocks, self._hints
        self._hints = {**outer, **_hint_fields(hints)}
        self._place = (file and _shown(file), line, 0, ".".join(blocks) or None)
        self._open_blocks = list(open_blocks)
        try:
            for name in blocks:
                self._open_blocks.append(self._child_block(name))
            yield
        finally:
            self._place, self._open_blocks, self._hints = before, open_blocks, outer

    def _child_block(self, name):
        """The number of the block with this name in the open one."""
        parent = self._scope()
        path = f"{self._blocks[parent]['path']}.{name}" if parent else name
        if path not in self._named_blocks:
            self._named_blocks[path] = len(self._blocks)
            self._blocks.append({"name": name, "parent": parent, "hints": None, "path": path})
        return self._named_blocks[path]

    @contextmanager
    def block(self, name, **hints):
        """Ops and parameters made inside belong to block `name` and inherit its hints.  With shard=True only this block
        is sharded, as its in_strategy and out_strategy say: an entry for each value that comes in, in the order of use,
        or goes out; () is whole.  memory_limit=N: for the backward no more than N bytes of it are kept per rank and
        micro-batch, the rest is computed again."""
        fields = _hint_fields(hints, BLOCK_HINTS)
        parent = self._scope()
        path = f"{self._blocks[parent]['path']}.{name}" if parent else name
        self._blocks.append({"name": name, "parent": parent, "hints": fields or None, "path": path})
        self._open_blocks.append(len(self._blocks) - 1)
        try:
            yield
        finally:
            self._open_blocks.pop()

    def annotate(self, op, **hints):
        """Adds hints to an op, given by name or by one of its results."""
        name = op.op if isinstance(op, Tensor) else op
        if name not in self._by_name:
            raise Error(f"there is no op {name}{_nearest(str(name), list(self._by_name))}")
        self._by_name[name]["hints"].update(_hint_fields(hints))

    def mesh(self, **axes):
        """Names and sizes of the axes in which the devices are arranged: mesh(dp=2, tp=4)."""
        self._mesh = dict(axes)

    # ---- outputs and training ----

    def _number(self, what, tensor):
        """The number of a tensor of this graph."""
        if not isinstance(tensor, Tensor) or tensor.graph is not self:
            raise Error(f"{what} must be a tensor of this graph, not {tensor!r}")
        return tensor.number

    def output(self, name, tensor):
        """The tensor can be read by this name after a step, and be predicted."""
        self._outputs.append({"name": name, "value": self._number(f"output '{name}'", tensor)})

    def new_value(self, parameter, tensor):
        """Every training step the parameter, which is not trainable, takes the value of the tensor, as running
        statistics do."""
        number = self._number("new_value: the first argument", parameter)
        for p in self._parameters:
            if p["value"] == number:
                if p.get("trainable", True):
                    raise Error(f"parameter {p['name']} is trained; make it with trainable=False")
                self._state.append({"name": p["name"], "value": self._number("new_value: the second argument", tensor)})
                return
        raise Error("new_value: the first argument is no parameter")

    def loss(self, tensor, micro_size=1):
        """What training makes small: a tensor of one number; a step cuts its batch into micro_size micro-batches."""
        self._loss, self._micro_size = self._number("the loss", tensor), micro_size

    def optimizer(self, kind, parameters=None, **attrs):
        """kind: sgd, momentum, adagrad, rmsprop, rmsprop_momentum, adam, adamw, lamb; parameters: names, for one group
        of several.  clip_norm bounds the norm of all gradients together.  lazy=True: of tables that are only looked up,
        the rows that a step looks up are updated."""
        if kind not in OPTIMIZERS:
            raise Error(f"there is no optimizer {kind}{_nearest(kind, OPTIMIZERS)}")
        fields = {"kind": kind, "attrs": [{"name": n, "value": ("Bool", {"v": v}) if isinstance(v, bool)
                                           else ("Float", {"v": float(v)})} for n, v in attrs.items()]}
        if parameters is not None:
            names = [p["name"] for p in self._parameters]
            for p in parameters:
                if p not in names:
                    raise Error(f"there is no parameter {p}{_nearest(p, names)}")
            fields["parameters"] = [names.index(p) for p in parameters]
        self._optimizers.append(fields)

    # ---- the file ----

    def model(self, folder=None):
        """The Model dictionary that file.encode takes, with the sizes of weight files that lie in `folder`."""
        train = None
        if self._loss is not None:
            train = {"loss": self._loss, "micro_size": self._micro_size, "optimizers": self._optimizers or None}
        elif self._optimizers:
            raise Error("an optimizer needs a loss: call Graph.loss")
        args = [i["value"] for i in self._inputs] + [p["value"] for p in self._parameters]
        return {
            "version": file.VERSION, "producer": "msc python", "name": self.name or None,
            "types": [{"dtype": file.DTYPES.index(d), "dims": dims, "sizes": sizes[0] if sizes and any(sizes[0])
                       else None} for d, dims, *sizes in self._types],
            "locs": [{"file": path, "line": line, "caller": caller, "scope": scope} for path, line,
                     caller, scope in self._locs],
            "value_types": self._value_types,
            "body": {"args": args, "ops": [dict(op, hints=op["hints"] or None) for op in self._ops],
                     "results": [o["value"] for o in self._outputs]},
            "inputs": self._inputs, "outputs": self._outputs, "parameters": self._parameters,
            "constants": self._constants or None,
            "weight_files": [{"path": p, "bytes": _size(folder, p)} for p in self._weight_files] or None,
            "blocks": [{k: v for k, v in b.items() if k != "path"} for b in self._blocks],
            "train": train, "mesh": [{"name": n, "size": s} for n, s in self._mesh.items()] or None,
            "state": self._state or None, "sizes": self._sizes or None,
        }

    def encode(self, folder=None):
        """The bytes of model.fbs; folder: where the weight files lie, whose sizes go into the model."""
        return file.encode(self.model(folder))

    def save(self, path):
        """Writes the file; what stood there before stays until the new one is complete."""
        data = self.encode(os.path.dirname(os.path.abspath(path)))
        temporary = f"{path}.{os.getpid()}.tmp"
        try:
            with open(temporary, "wb") as out:
                out.write(data)
            os.replace(temporary, path)
        except BaseException:
            if os.path.exists(temporary):
                os.unlink(temporary)
            raise


def _binder(signature):
    """What binds arguments as the signature does, which takes longer: it binds those that do not fit, and says why."""
    params = [p for p in signature.parameters.values() if p.kind != p.VAR_KEYWORD]
    order = [p.name for p in params if p.kind == p.POSITIONAL_OR_KEYWORD]
    known, defaults = {p.name for p in params}, {p.name: p.default for p in params if p.default is not p.empty}
    required = known - defaults.keys()

    def bind(args, kwargs):
        given = dict(zip(order, args))
        own = {n: v for n, v in kwargs.items() if n in known}
        hints = {n: v for n, v in kwargs.items() if n not in known}
        if len(args) <= len(order) and given.keys().isdisjoint(own) and required <= given.keys() | own.keys():
            return {**defaults, **given, **own, "hints": hints}
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.arguments

    return bind


def _method(row):
    """The method of one op, with the row's operands and attributes as its signature."""
    P = inspect.Parameter
    variadic = row.operands[:1] == ("x*",)
    named = [n for n in row.operands if not n.endswith("*")]  # "x more*": the compiler puts several together
    params = [P("self", P.POSITIONAL_OR_KEYWORD)]
    optional = [n.rstrip("?") for n in row.operands if n.endswith("?")]
    params += [P(n, P.POSITIONAL_OR_KEYWORD) for n in (["xs"] if variadic else named) if not n.endswith("?")]
    # `from` is a word of Python: send and recv take it as from_
    names = {a.name + "_" if a.name == "from" else a.name: a for a in row.attrs}
    ordered = sorted(names, key=lambda n: not names[n].required)
    params += [P(n, P.POSITIONAL_OR_KEYWORD, default=P.empty if names[n].required else names[n].default)
               for n in ordered]
    params += [P(n, P.KEYWORD_ONLY, default=None) for n in optional]
    params += [P("name", P.KEYWORD_ONLY, default=None), P("hints", P.VAR_KEYWORD)]
    signature = inspect.Signature(params)
    bind = _binder(signature)

    def method(*args, **kwargs):
        values = bind(args, respelled(row, kwargs))
        self = values["self"]
        operands = list(values["xs"]) if variadic else [values[n.rstrip("?")] for n in named]
        while operands and operands[-1] is None and len(operands) > len(named) - len(optional):
            operands.pop()
        return self._op(row, operands, {a.name: values[n] for n, a in names.items()}, values["name"], values["hints"])

    method.__name__ = method.__qualname__ = row.name
    method.__signature__ = signature
    method.__doc__ = f"Op {row.name}: {' '.join(row.operands)} -> {' '.join(row.results)}"
    if dimension_of(row):
        method.__doc__ += (f"\n\n{dimension_of(row)} may be called axis, dim, axes or dims; "
                       "negative ones count from the end.")
    return method


for _row in ROWS.values():
    setattr(Graph, _row.name, _method(_row))
