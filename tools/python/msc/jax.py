"""JAX's functions as plans of msc: whole training steps on one or many ranks, and functions without gradients.

    import msc.jax

    def loss(params, x, y):                                  # any function of JAX that gives one number
        ...

    step = msc.jax.train_step(loss, params, x, y, optimizer=("adamw", {"lr": 1e-3}), ranks=4)
    for x, y in batches:
        print(step(x, y))
    params = step.params()                                   # a tree like the one that was given

    fast = msc.jax.compile(predict, params, x)               # fast(params, x) gives what predict does

JAX lowers the function to StableHLO; msc reads that text (msc import reads it too), makes the gradients itself,
searches strategies for all ranks, and executes the plan in this process.  Loops are written out where the number of
turns is known, as of lax.scan and lax.fori_loop; others are refused, with the place in your file.
"""
import inspect
import json
import os
import re
import tempfile
from typing import Any, Callable, Dict, Optional, Tuple

import jax
import numpy as np

from msc.ops import Error
from msc.plan import compile as compile_plan

_SAFETENSORS = {
    "float32": "F32",
    "float64": "F64",
    "float16": "F16",
    "bfloat16": "BF16",
    "bool": "BOOL",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "uint8": "U8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
}


def _named_leaves(prefix: str, tree: Any) -> Dict[str, Any]:
    """Leaves by name: {"w": [a, b]} of prefix "p" gives p.w.0 and p.w.1."""
    found = {}
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        words = re.findall(r"[A-Za-z0-9_-]+", jax.tree_util.keystr(path))
        name = ".".join(([prefix] if prefix or not words else []) + words) or "value"
        if name in found:
            raise Error(f"two leaves are called {name}")
        found[name] = leaf
    return found


def _words_of(function: Callable, count: int) -> list:
    """The names of the first `count` arguments in the function's signature; x0, x1 ... where it has no names for
    all."""
    try:
        parameters = inspect.signature(function).parameters.values()
        names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    except (TypeError, ValueError):
        names = []
    return names[:count] if len(names) >= count else [f"x{i}" for i in range(count)]


def _lowered(function, args) -> str:
    """The function's text; all arguments stay, also those that it does not use."""
    return jax.jit(function, keep_unused=True).lower(*args).as_text(debug_info=True)


def _annotated(text: str, arguments: Dict[str, Dict[str, str]], function: Dict[str, Any]) -> str:
    """The text with attributes at the arguments of @main, in their order, and at @main itself."""
    begin = text.index("@main(")
    end = text.index("\n", begin)
    header, own = text[begin:end], iter(arguments.items())

    def annotate(match):
        name, words = next(own)
        attributes = ", ".join(f'{key} = {json.dumps(value)}' for key, value in {"msc.name": name, **words}.items())
        return f"{match[1]} {{{attributes}{', ' if match[2] else '}'}"

    header = re.sub(r"(%arg\d+: tensor<[^>]*>)( \{)?", annotate, header)
    if function:
        attributes = ", ".join(f"{key} = {_attribute(value)}" for key, value in function.items())
        header = f"{header.rstrip()[:-1]}attributes {{{attributes}}} {{"
    return text[:begin] + header + text[end:]


def _attribute(value) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k} = {_attribute(v)}" for k, v in value.items()) + "}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value} : i64"
    return f"{value:.17e} : f64" if isinstance(value, float) else json.dumps(value)


def _write_safetensors(path: str, arrays: Dict[str, Any]) -> None:
    header, at, data = {}, 0, []
    for name, value in arrays.items():
        array = np.asarray(value, order="C")
        header[name] = {
            "dtype": _SAFETENSORS[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [at, at + array.nbytes]
        }
        data.append(array.tobytes())
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text + b"".join(data))


def _compiled(text: str, keys: Dict[str, Any]):
    with tempfile.TemporaryDirectory(prefix="msc-") as folder:
        path = os.path.join(folder, "function.mlir")
        with open(path, "w") as out:
            out.write(text)
        return compile_plan(path, **keys)


class Function:
    """A function of JAX, compiled: takes the function's arguments and returns its results, as JAX's arrays. Made
    by compile."""

    def __init__(self, function: Callable, args: Tuple, threads: int, keys: Dict[str, Any]):
        self._tree = jax.tree_util.tree_structure(args)
        self._results = jax.tree_util.tree_structure(jax.eval_shape(function, *args))
        self._names = list(_named_leaves("", dict(zip(_words_of(function, len(args)), args))))
        text = _annotated(_lowered(function, args), {name: {} for name in self._names}, {})
        self.plan = _compiled(text, keys)
        self._job = self.plan.run(threads=threads)

    def __call__(self, *args):
        leaves, tree = jax.tree_util.tree_flatten(args)
        if tree != self._tree:
            raise Error(f"arguments are {tree}, and the plan was made for {self._tree}")
        given = {n: v for n, v in zip(self._names, leaves) if n in self.plan.inputs}
        found = self._job.predict(*self.plan.outputs["forward"], **{n: np.asarray(v) for n, v in given.items()})
        found = list(found.values()) if isinstance(found, dict) else [found]
        return jax.tree_util.tree_unflatten(self._results, [jax.numpy.from_dlpack(a) for a in found])

    def close(self) -> None:
        """Gives back memory and threads."""
        self._job.close()


def compile(function: Callable, *args: Any, threads: int = 0, **keys: Any) -> Function:
    """Compiles a function for arguments like these.  keys are those of `msc config`: device_num=4 runs it on four
    ranks.

    Raises CompileError with the places in your file for what msc cannot do."""
    return Function(function, args, threads, keys)


class TrainStep:
    """A training step: step(*batch) gives the loss.  Made by train_step."""

    def __init__(self, loss, params, batch, optimizer, ranks, seed, threads, keys):
        kind, words = optimizer if isinstance(optimizer, tuple) else (optimizer, {})
        self._tree = jax.tree_util.tree_structure(params)
        self._parameters = list(_named_leaves("", params))
        names = _words_of(loss, 1 + len(batch))[1:]
        self._batch = [list(_named_leaves(name, part)) for name, part in zip(names, batch)]
        roles = {n: {"msc.role": "parameter", "msc.init": "zeros"} for n in self._parameters}
        roles.update((n, {"msc.role": "data"}) for part in self._batch for n in part)
        if len(roles) != len(self._parameters) + sum(map(len, self._batch)):
            raise Error("a parameter and an argument of the batch have one name")
        optimizer = {"kind": kind, **{k: v if isinstance(v, (bool, str)) else float(v) for k, v in words.items()}}
        text = _annotated(_lowered(loss, (params, *batch)), roles, {"msc.loss": 0, "msc.optimizer": optimizer})
        if ranks > 1:
            keys = {"parallel_mode": "auto_parallel", **keys, "device_num": ranks}
        self.plan = _compiled(text, keys)
        self._job = self.plan.run(seed=seed, threads=threads)
        self.set_params(params)

    def __call__(self, *batch: Any) -> float:
        """The loss of one step, a Python number."""
        return self._job.step(**self._given(batch))

    def evaluate(self, *batch: Any) -> float:
        """The loss of a batch; nothing is trained."""
        return self._job.evaluate(**self._given(batch))

    def _given(self, batch):
        if len(batch) != len(self._batch):
            raise Error(f"a step takes {len(self._batch)} arguments, not {len(batch)}")
        given = {}
        for names, part in zip(self._batch, batch):
            leaves = jax.tree_util.tree_leaves(part)
            if len(leaves) != len(names):
                raise Error(f"an argument has {len(leaves)} arrays, not {len(names)}: {', '.join(names)}")
            given.update((n, np.asarray(v)) for n, v in zip(names, leaves) if n in self.plan.inputs)
        return given

    def params(self) -> Any:
        """The parameters as they are now: a tree like the one that was given, of JAX's arrays."""
        leaves = [jax.numpy.from_dlpack(self._job.read(name)) for name in self._parameters]
        return jax.tree_util.tree_unflatten(self._tree, leaves)

    def set_params(self, params: Any) -> None:
        """Goes on with these parameters; the optimizer's state stays."""
        if jax.tree_util.tree_structure(params) != self._tree:
            raise Error("the tree is not the one that the step was made for")
        with tempfile.TemporaryDirectory(prefix="msc-") as folder:
            path = os.path.join(folder, "params.safetensors")
            state = {n: self._job.read(n).numpy() for n in self.plan.parameters}
            _write_safetensors(path, {**state, **_named_leaves("", params)})
            self._job.load(path)

    @property
    def lr(self) -> float:
        """The learning rate; may be set between steps."""
        return self._job.lr

    @lr.setter
    def lr(self, value: float) -> None:
        self._job.lr = value

    @property
    def job(self):
        """The Job that runs the steps: checkpoints, other scalars."""
        return self._job

    def close(self) -> None:
        """Gives back memory and threads."""
        self._job.close()

    def __enter__(self) -> "TrainStep":
        return self

    def __exit__(self, *_) -> None:
        self.close()


def train_step(loss: Callable,
               params: Any,
               *batch: Any,
               optimizer: Any = "sgd",
               ranks: int = 1,
               seed: int = 0,
               threads: int = 0,
               **keys: Any) -> TrainStep:
    """A step that makes loss(params, *batch) small, for batches of these sizes.

    params: a tree of arrays, the values to begin with; batch: arrays, or trees of them, whose first dimension is the
    samples'.  optimizer: a kind that msc has, with its hyper-parameters: ("adamw", {"lr": 1e-3, "weight_decay": 0.1}).
    ranks: threads of this process, with strategies by auto_parallel unless parallel_mode says otherwise.  keys are
    those of `msc config`."""
    return TrainStep(loss, params, batch, optimizer, ranks, seed, threads, keys)
