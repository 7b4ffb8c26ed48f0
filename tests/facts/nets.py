"""Small networks written as text -> graphs of the msc package, compiled; strategies and layouts read back.

    "m=mul(x,w); y1=relu(y); r=reshape(y1,(96,32,4)); add(m,r)"      statements; the last value is the result
    "relu(matmul(x,w,transpose_b))"   "gather(x, idx, axis 0)"       flags and named numbers among the operands
    "matmul(x,w) -> transpose(1,0) -> softmax"                       a chain: the value before is the first operand, or
    "."
    "matmul2(matmul1(x,y),b) with explicit output gradient sens"     a digit ends an op's name; words after an
    expression are talk """
import json
import os
import re
from collections import ChainMap

from attributes import attributes
from facts import FOLDER, Given, Refused, Unsupported, msc
from msc import Graph
from msc.ops import ROWS, Error

TOKEN = re.compile(r"\s*(->|[A-Za-z_][\w]*|-?\d+(?:\.\d+)?(?![\w])|[()\[\],;=+.]|\S)")


# ---- text ----

class Reader:
    """Statements as nested tuples: ("call", name, args, options), ("ref", name, shape), numbers and tuples."""

    def __init__(self, text, known):
        self.tokens = TOKEN.findall(re.sub(r"[Ss]oftmax-CE", "softmax_ce", text))
        self.at, self.known = 0, known

    def peek(self, ahead=0):
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else None

    def take(self, wanted=None):
        token = self.peek()
        if wanted and token != wanted:
            raise Unsupported(f"net: expected {wanted}, not {token}")
        self.at += 1
        return token

    def statements(self):
        while self.peek():
            name = None
            if self.peek(1) == "=":
                name = self.take()
                self.take("=")
            value = self.chain()
            if name:
                self.known.add(name)
            yield name, value
            while self.peek() not in (None, ";"):  # talk
                self.take()
            if self.peek() == ";":
                self.take()

    def chain(self):
        value = self.step(None)
        while True:
            at = self.at
            while self.peek() not in (None, ";", "->"):
                self.take()
            if self.peek() != "->":
                self.at = at
                return value
            self.take()
            value = self.step(value)

    def step(self, before):
        """A call, a tensor, or one op of a chain.  Adjectives stand before the op's name."""
        while self.is_word() and self.is_word(1):
            self.take()
        name = self.take()
        if not re.match(r"[A-Za-z_]", name or "1"):
            raise Unsupported(f"net: cannot read '{name}'")
        if before is None and self.peek() != "(":
            return self.tensor(name)
        args, options = self.arguments() if self.peek() == "(" else ([], {})
        if before is not None and "." in args:
            args[args.index(".")] = before
        elif before is not None:
            args.insert(0, before)
        return ("call", name, args, options)

    def is_word(self, ahead=0):
        return bool(re.match(r"[A-Za-z_]", self.peek(ahead) or "1"))

    def tensor(self, name):
        return ("ref", name, self.numbers("[", "]") if self.peek() == "[" else None)

    def numbers(self, opening, closing):
        self.take(opening)
        out = []
        while self.peek() != closing:
            token = self.take()
            if token != ",":
                out.append(int(token))
        self.take(closing)
        return tuple(out)

    def value(self):
        """A number, a list of numbers, or a word."""
        if self.peek() in ("(", "["):
            return self.numbers(self.peek(), ")" if self.peek() == "(" else "]")
        token = self.take()
        return int(token) if re.fullmatch(r"-?\d+",
                                          token) else float(token) if re.fullmatch(r"-?\d+\.\d+", token) else token

    def arguments(self):
        args, options = [], {}
        self.take("(")
        while self.peek() != ")":
            if self.peek() is None:
                raise Unsupported("net: a ')' is missing")
            if self.peek() == ",":
                self.take()
                continue
            if self.peek() == ".":
                args.append(self.take())
            elif self.is_word() and self.peek(1) == "=":
                key = self.take()
                self.take("=")
                options[key] = self.value()
            elif self.is_word() and self.peek(1) == "(":
                args.append(self.step(None))
            elif self.is_word() and (self.peek(1) == "[" or self.peek() in self.known or self.is_lone()):
                args.append(self.tensor(self.take()))
            elif self.is_word():
                self.word(options)
            else:
                value = self.value()
                if self.peek() == "->":
                    self.take()
                    value = (value, self.value())
                args.append(value)
        self.take(")")
        return args, options

    def is_lone(self):
        """A word alone between commas is a tensor, unless it says how."""
        return self.peek(1) in (",", ")") and self.peek() not in FLAGS and not re.fullmatch(r"[ksp]\d+", self.peek())

    def word(self, options):
        """"axis 0", "k3", "transpose_b", "parallel_optimizer off", or talk."""
        key = self.take()
        short = re.fullmatch(r"([ksp])(\d+)", key)
        if short:
            options[short[1]] = int(short[2])
        elif re.fullmatch(r"-?\d+", self.peek() or ""):
            options[key] = int(self.take())
        else:
            options[key] = True
            while self.peek() not in (",", ")", None):
                self.take()


FLAGS = {"transpose_a", "transpose_b", "same", "valid", "fixed", "keep_dims"}

# ---- graphs ----

DATA = re.compile(r"(x|y|z|q|k|v|idx|ids|indices|index|labels?|inputs?|data)\d*$")
SAME = {
    "relu", "gelu", "tanh", "sigmoid", "silu", "exp", "log", "sqrt", "rsqrt", "neg", "abs", "erf", "sign", "softmax",
    "log_softmax"
}
PAIRS = {"add", "sub", "mul", "div", "max", "min", "pow", "bias_add", "maximum", "minimum"}
# words of other systems, without case and underscores -> ours
ALIASES = {
    "bias_add": "add", "maximum": "max", "minimum": "min", "realdiv": "div", "onehot": "one_hot", "tensoradd": "add",
    "sum": "reduce_sum", "mean": "reduce_mean", "matmulext": "matmul", "addext": "add", "batchmatmul": "batch_matmul",
    "reducesum": "reduce_sum", "reducemean": "reduce_mean", "reducemax": "reduce_max", "reducemin": "reduce_min",
    "rmsnorm": "rms_norm", "layernorm": "layer_norm", "lpnorm": "lp_norm", "conv2dtranspose": "conv2d_transpose",
    "convtranspose": "conv2d_transpose", "softmaxcrossentropy": "softmax_cross_entropy",
    "softmaxcrossentropywithlogits": "softmax_cross_entropy", "maxpool": "max_pool", "avgpool": "avg_pool",
    "batchnorm": "batch_norm", "logsoftmax": "log_softmax", "biasadd": "add", "l2normalize": "l2_normalize",
    "expanddims": "expand_dims", "broadcastto": "broadcast_to", "dense": "fc", "linear": "fc", "identity": "identity",
    "depend": "depend", "flashattentionscore": "attention", "flash_attention_score": "attention",
    "promptflashattention": "attention", "prompt_flash_attention": "attention", "activation": "relu",
    "gatherv2": "gather", "embeddinglookup": "gather", "sparsegatherv2": "gather", "greater": "compare",
    "less": "compare", "equal": "compare", "notequal": "compare", "greaterequal": "compare", "lessequal": "compare",
    "logicaland": "logical_and", "logicalor": "logical_or", "logicalnot": "logical_not", "swish": "silu",
    "hswish": "hard_swish", "hsigmoid": "hard_sigmoid", "stridedslice": "slice", "gathernd": "gather_nd",
    "cumulativesum": "cumsum", "argmaxwithvalue": "argmax", "argminwithvalue": "argmin", "where": "select",
    "reduceprod": "reduce_prod", "reduceany": "reduce_any", "reduceall": "reduce_all", "leakyrelu": "leaky_relu",
    "pack": "stack", "cropandresize": "resize"
}
# cut as this one is, whatever it computes
LIKE = {
    "dropout": "neg", "dropoutdomask": "neg", "dropoutgenmask": "neg", "tmpidentity": "neg", "identity": "neg",
    "virtualdataset": "neg", "getnext": "neg", "square": "abs", "reciprocal": "rsqrt", "inv": "rsqrt", "log1p": "log",
    "expm1": "exp", "relu6": "relu", "atan": "tanh", "cosh": "cos", "sinh": "sin", "softsign": "tanh", "selu": "elu"
}
KEPT = {"conv2d", "conv3d", "lse"}  # names that end with a digit of their own


def kind_of(name):
    """"MatMul" -> "matmul", "add1" -> "add" """
    low = name.lower()
    for word in (low, low.replace("_", ""), re.sub(r"_?\d+$", "", low), re.sub(r"_?\d+$", "", low).replace("_", "")):
        if word in ALIASES:
            return ALIASES[word]
        if word in KEPT or hasattr(Graph, word):
            return word
    return re.sub(r"_?\d+$", "", low)


def stretched(a, b):
    n = max(len(a), len(b))
    a, b = [1] * (n - len(a)) + list(a), [1] * (n - len(b)) + list(b)
    return all(x == y or 1 in (x, y) for x, y in zip(a, b))


class Net:
    """Operands are made when first named: `shapes` gives their sizes, `marks` what the builder shall say of them."""

    def __init__(self, shapes=None, marks=None, data=None):
        self.g, self.shapes, self.marks = Graph("net"), shapes if isinstance(shapes, Given) else dict(shapes or
                                                                                                      {}), marks or {}
        self.values, self.operands, self.hints, self.is_data = {}, {}, {}, data or (lambda name: bool(DATA.match(name)))
        self.default = None
        self.said = {}  # numbers that stand beside the net
        # axes that its layouts name; dimensions of the result in the order of the facts
        self.mesh, self.turned = {}, None

    # ---- operands ----

    def tensor(self, name, like=None, dtype="f32"):
        if name in self.values:
            return self.values[name]
        shape = self.shapes.get(name)
        if shape is None and dtype == "i32":
            shape = next((self.shapes[k] for k in ("indices", "idx", "ids", "index") if k in self.shapes), None)
        if shape is None or (like and not stretched(shape, like)):
            shape = like or self.default or shape
        if shape is None:
            raise Unsupported(f"net: the shape of {name} is not given")
        if self.is_data(name) and name not in self.marks:
            v = self.g.input(name, dtype, list(shape))
        else:
            v = self.g.parameter(name, dtype, list(shape), init="normal:0.1" if dtype == "f32" else "zeros",
                                 **self.marks.get(name, {}))
        self.values[name] = v
        return v

    def operand(self, a, like=None, dtype="f32"):
        if a[0] == "ref":
            if a[2]:
                self.shapes[a[1]] = a[2]
            return self.tensor(a[1], like, dtype)
        return self.build(a)

    # ---- ops ----

    def op(self, kind, *args, name, **attrs):
        if not hasattr(self.g, kind):
            raise Unsupported(f"there is no op {kind}")
        row = ROWS[kind].operands if kind in ROWS else ()
        needed = [o for o in row if not o.endswith("?")]
        if len(args) > len(needed) and not any("*" in o for o in row):  # operands that may be absent are named
            attrs = {**{o.rstrip("?"): a for o, a in zip(row[len(needed):], args[len(needed):])}, **attrs}
            args = args[:len(needed)]
        try:
            v = getattr(self.g, kind)(*args, name=name, **attrs, **self.hints.get(name, {}))
        except Error as e:
            raise Refused(str(e)) from None
        except TypeError as e:  # operands that the fact does not name
            raise Unsupported(f"{kind}: {e}") from None
        args = tuple(args[0]) if args and isinstance(args[0], list) else args
        self.operands[name] = (*args, *(v for v in attrs.values() if hasattr(v, "number")))
        return v

    def unique(self, name):
        base, n = name, 1
        while name in self.operands or name in self.values:
            n += 1
            name = f"{base}_{n}"
        return name

    def build(self, call):
        _, name, args, options = call
        kind = kind_of(name)
        name = self.unique(name)
        self.operands[name] = ()  # taken: operands are built before their op
        tensors = [a for a in args if isinstance(a, tuple) and a and a[0] in ("call", "ref")]
        plain = [a for a in args if not (isinstance(a, tuple) and a and a[0] in ("call", "ref"))]
        if not tensors and "x" in self.shapes:
            tensors = [("ref", "x", None)]  # a chain begins with the input
        maker = getattr(self, f"make_{kind}", None)
        if maker:
            return maker(name, tensors, plain, options)
        ins = []
        for t in tensors:
            ins.append(self.operand(t, like=ins[0].shape if ins and kind in PAIRS else None))
        if kind in PAIRS and len(ins) == 1:
            other = self.unique(f"{name}_other")
            self.values[other] = self.g.input(other, "f32", list(ins[0].shape))
            ins.append(self.values[other])
        return self.told(kind, ins, name, options, plain)

    def told(self, kind, ins, name, said, numbers=()):
        """An op with what is said of it in words and numbers; of several results the first."""
        if not ins:
            raise Unsupported(f"net: {name} has no operand")
        attrs = attributes(kind, ins[0].shape, ChainMap(said, self.said), numbers)
        out = self.op(kind, *([ins] if kind in ROWS and ROWS[kind].operands[:1] == ("x*", ) else ins), name=name,
                      **attrs)
        return out[0] if isinstance(out, (list, tuple)) else out

    def make_depend(self, name, tensors, plain, options):
        return self.operand(tensors[0])

    make_identity = make_depend

    def make_matmul(self, name, tensors, plain, options):
        a, b = self.operand(tensors[0]), self.operand(tensors[1])
        flags = {k: True for k in ("transpose_a", "transpose_b") if options.get(k) or self.shapes.get(k)}
        return self.op("batch_matmul" if max(len(a.shape), len(b.shape)) > 2 else "matmul", a, b, name=name, **flags)

    make_batch_matmul = make_matmul

    def make_fc(self, name, tensors, plain, options):
        return self.make_matmul(name, tensors, plain, {})

    def make_gather(self, name, tensors, plain, options):
        table, index = self.operand(tensors[0]), self.operand(tensors[1], dtype="i32")
        return self.op("gather", table, index, name=name,
                       axis=options.get("axis", plain[0] if plain else self.shapes.get("axis", 0)))

    def make_reshape(self, name, tensors, plain, options):
        return self.op("reshape", self.operand(tensors[0]), name=name,
                       shape=list(plain[0] if isinstance(plain[0], tuple) else plain))

    def make_transpose(self, name, tensors, plain, options):
        return self.op("transpose", self.operand(tensors[0]), name=name,
                       perm=list(plain[0] if isinstance(plain[0], tuple) else plain))

    def reduce(self, kind, name, tensors, plain, options):
        x = self.operand(tensors[0])
        axis = options.get("axis", options.get("dims", plain[0] if plain else None))
        dims = list(range(len(x.shape))) if axis in (None,
                                                     True) else list(axis) if isinstance(axis,
                                                                                         (tuple, list)) else [axis]
        return self.op(kind, x, name=name, dims=[d % len(x.shape) for d in dims],
                       keep_dims=bool(options.get("keep_dims", False)))

    def make_reduce_sum(self, *a):
        return self.reduce("reduce_sum", *a)

    def make_reduce_mean(self, *a):
        return self.reduce("reduce_mean", *a)

    def make_reduce_max(self, *a):
        return self.reduce("reduce_max", *a)

    def make_reduce_min(self, *a):
        return self.reduce("reduce_min", *a)

    # ---- images [n, c, h, w] ----

    def weight(self, shape):
        """The next of w1, w2 ... that the fact gives, or one of its own."""
        name = next((n for n in sorted(self.shapes) if re.fullmatch(r"w\d*", n) and n not in self.values), None)
        return self.tensor(name) if name else self.g.parameter(self.unique("w"), "f32", shape, init="normal:0.1")

    def window(self, x, plain, options):
        """Kernel, stride and padding; same: as many windows as strides."""
        kernel, stride = options.get("k", 1), options.get("s", 1)
        low, high = [], []
        for n in x.shape[2:]:
            pad = max((-(-n // stride) - 1) * stride + kernel - n, 0) if options.get("same") else 0
            low.append(pad // 2)
            high.append(pad - pad // 2)
        return kernel, {"stride": [stride] * 2, "padding": [low[0], high[0], low[1], high[1]]}

    def make_conv2d(self, name, tensors, plain, options):
        x = self.operand(tensors[0])
        kernel, attrs = self.window(x, plain, options)
        channels = plain[0][1] if plain and isinstance(plain[0], tuple) else x.shape[1]
        w = self.operand(tensors[1]) if len(tensors) > 1 else self.weight([channels, x.shape[1], kernel, kernel])
        return self.op("conv2d", x, w, name=name, **attrs)

    def make_conv_transpose(self, name, tensors, plain, options):
        y = self.operand(tensors[0])
        kernel, stride = options.get("k", 1), options.get("s", 1)
        size = [n * stride for n in y.shape[2:]]
        pad = max(kernel - stride, 0)
        w = self.operand(tensors[1]) if len(tensors) > 1 else self.weight([y.shape[1], y.shape[1], kernel, kernel])
        return self.op("conv2d_transpose", y, w, name=name, size=size, stride=[stride] * 2,
                       padding=[pad // 2, pad - pad // 2] * 2)

    make_conv2d_transpose = make_conv_transpose

    def pool(self, kind, name, tensors, plain, options):
        x = self.operand(tensors[0])
        kernel, attrs = self.window(x, plain, options)
        return self.op(kind, x, name=name, kernel=[kernel] * 2, **attrs)

    def make_max_pool(self, *a):
        return self.pool("max_pool", *a)

    def make_avg_pool(self, *a):
        return self.pool("avg_pool", *a)

    def make_batch_norm(self, name, tensors, plain, options):
        x = self.operand(tensors[0])
        more = [
            self.g.parameter(f"{name}.{n}", "f32", [x.shape[1]], init="ones")
            for n in ("scale", "shift", "mean", "variance")
        ]
        out = self.op("batch_norm", x, *more, name=name)
        return out[0] if isinstance(out, list) else out

    def make_attention(self, name, tensors, plain, options):
        """[batch, positions, heads * size], as three operands, with the number of heads beside them."""
        ins = [self.operand(t) for t in tensors[:3]]
        if len(ins[0].shape) != 3:
            return self.op("attention", *ins, name=name)
        heads, apart = self.shapes.get("num_head") or options.get("num_head", 1), []
        for i, t in enumerate(ins):
            b, s, h = t.shape
            v = self.op("reshape", t, name=f"{name}.split{i}", shape=[b, s, heads, h // heads])
            apart.append(self.op("transpose", v, name=f"{name}.heads{i}", perm=[0, 2, 1, 3]))
        y = self.op("transpose", self.op("attention", *apart, name=name), name=f"{name}.back", perm=[0, 2, 1, 3])
        return self.op("reshape", y, name=f"{name}.merge", shape=list(ins[0].shape))

    def make_lp_norm(self, name, tensors, plain, options):
        if hasattr(self.g, "lp_norm"):
            return self.op("lp_norm", self.operand(tensors[0]), name=name, **options)
        x = self.operand(tensors[0])
        square = self.op("mul", x, x, name=f"{name}.square")
        self.values[f"{name}.in"] = square
        total = self.reduce("reduce_sum", name, [("ref", f"{name}.in", None)], plain, options)
        return self.op("sqrt", total, name=f"{name}.root")

    def make_rms_norm(self, name, tensors, plain, options):
        x, gamma = self.operand(tensors[0]), self.operand(tensors[1])
        if hasattr(self.g, "rms_norm"):
            return self.op("rms_norm", x, gamma=gamma, name=name)
        raise Unsupported("there is no op rms_norm")

    def make_softmax_ce(self, name, tensors, plain, options):
        """Class numbers as labels, made one-hot outside the loss."""
        x = self.operand(tensors[0])
        labels = self.g.input("labels", "i32", list(x.shape[:-1]), role="label")
        hot = self.op("one_hot", labels, name=self.unique("one_hot"), depth=x.shape[-1])
        return self.op("softmax_cross_entropy", x, hot, name=self.unique("softmax_cross_entropy"), reduction="none")

    def make_softmax_cross_entropy(self, name, tensors, plain, options):
        x = self.operand(tensors[0])
        labels = self.operand(tensors[1], like=x.shape) if len(tensors) > 1 else self.g.input(
            "labels", "f32", list(x.shape), role="label")
        return self.op("softmax_cross_entropy", x, labels, name=name, reduction="none")

    # ---- a whole text ----

    def read(self, text, hints):
        """`hints` by op: in_strategy and the like."""
        self.hints = hints
        every = re.search(r"all (\d+)x(\d+)", text)
        if every:
            self.default = [int(every[1]), int(every[2])]
        known = set(self.shapes) | set(self.values) | {"x", "y", "z", "w", "b", "idx"}
        value = None
        for name, call in Reader(text, known).statements():
            value = self.operand(call)
            if name:
                self.values[name] = value
        self.g.output("out", value)
        return value

    def resnet50(self, batch, classes, hints, image=224):
        """The network of msc.models under a loss that is written out; its parts are called as facts call them."""
        try:
            from msc.models.residual import bottleneck, conv
        except ImportError:
            raise Unsupported("the network resnet50") from None
        g = self.g
        h = g.relu(conv(g, g.input("x", "f32", [batch, 3, image, image]), 64, 7, "Conv2D", 2), name="stem.relu")
        h = g.max_pool(h, [3, 3], stride=[2, 2], padding=[1] * 4, name="stem.pool")
        for stage, blocks in enumerate([3, 4, 6, 3]):
            for b in range(blocks):
                name, stride = f"stage{stage}.block{b}", 2 if stage and not b else 1
                y = bottleneck(g, h, 64 * 2 ** stage, name, stride)
                shortcut = conv(g, h, y.shape[1], 1, f"{name}.shortcut", stride) if y.shape[1:] != h.shape[1:] else h
                h = g.relu(g.add(y, shortcut, name=f"{name}.add"), name=f"{name}.relu")
        self.hints = hints
        h = self.op("reshape", g.reduce_mean(h, [2, 3], keep_dims=True, name="pool"), name="squeeze",
                    shape=[batch, h.shape[1]])
        w = g.parameter("dense.weight", "f32", [classes, h.shape[1]], init="normal:0.01")
        z = self.op("matmul", h, w, name="MatMul", transpose_b=True)
        low = self.op("sub", z, self.op("reduce_max", z, name="ReduceMax", dims=[1], keep_dims=True), name="sub")
        total = self.op("reduce_sum", self.op("exp", low, name="exp"), name="ReduceSum", dims=[1])
        g.output("loss", self.op("log", total, name="log"))

    # ---- msc ----

    def dump(self):
        path = os.path.join(FOLDER.name, "net.fbs")
        try:
            self.g.save(path)
        except Error as e:
            raise Refused(str(e)) from None
        return path

    def opt(self, *args):
        path = os.path.join(FOLDER.name, "net.mlir")
        with open(path, "w") as f:
            f.write(msc("dump", self.dump(), json_out=False))
        return msc("opt", path, *args, json_out=False)

    def strategies(self, *sets):
        """The strategy file, with the IR under "text"."""
        path = os.path.join(FOLDER.name, "strategies.json")
        text = self.opt("--until=layouts", *(x for s in sets for x in ("--set", s)), "--set",
                        f"strategy_ckpt_save_file={path}")
        with open(path) as f:
            return {**json.load(f), "text": text}

    def cost(self, *sets):
        """Bytes received per rank and step, and the predicted time."""
        out = msc("compile", self.dump(), "-o", os.path.join(FOLDER.name, "net.plan"),
                  *(x for s in sets for x in ("--set", s)))
        return out["comm_bytes_per_rank"], out["predicted_step_ms"]


def argument_layout(text, name):
    """The layout of an argument in IR text."""
    found = re.search(rf"%{re.escape(name)}: tensor<[^>]*?, #msc\.layout<\"(\[.*?)\">>", text)
    return found[1] if found else None
