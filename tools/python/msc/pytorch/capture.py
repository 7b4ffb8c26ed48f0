"""A module, example inputs and a loss in; a functional torch.export program out, in which what PyTorch does not
differentiate is marked by detach, and what torch.utils.checkpoint is to compute again by its metadata."""

import contextlib
import functools
import inspect
import io
import itertools
import logging
import os
import traceback
import warnings

import torch
import torch.utils.checkpoint
from torch.fx import traceback as node_meta
from torch.utils import _pytree as pytree

from msc.ops import Error
from msc.pytorch import alignment, branches, chosen, own_gradients, recurrent
from msc.pytorch.convert import NOT_THE_USERS
from msc.pytorch.functional import functional

_OF_PYTHON = os.path.dirname(contextlib.__file__)


class Step(torch.nn.Module):
    """What is traced: the module, then the loss.  Gives (loss or None, {name: output})."""

    def __init__(self, module, loss, num_args, names, num_labels, wanted):
        super().__init__()
        self.module, self.loss = module, loss
        self._num_args, self._names, self._num_labels, self._wanted = num_args, names, num_labels, wanted

    def forward(self, *values):
        n = len(values) - self._num_labels
        result = self.module(*values[: self._num_args], **dict(zip(self._names, values[self._num_args : n])))
        if self.loss is not None:
            return self.loss(result, *values[n:]), _outputs(result, self._wanted)
        loss = _member(result, "loss")
        if loss is None and isinstance(result, torch.Tensor) and not result.shape and result.is_floating_point():
            return result, {}
        return loss, _outputs(result, self._wanted, skip="loss")


def _member(result, name):
    return result.get(name) if isinstance(result, dict) else getattr(result, name, None)


def _outputs(result, wanted, skip=None):
    """The named floating-point results: "output" if there is one only; of a dictionary or dataclass by their keys."""
    if isinstance(result, torch.Tensor):
        named = {"output": result}
    elif hasattr(result, "items"):
        named = dict(result.items())
    elif hasattr(result, "_asdict"):
        named = result._asdict()
    elif isinstance(result, (list, tuple)):
        named = {f"output{i}": v for i, v in enumerate(result)}
    else:
        named = {k: v for k, v in vars(result).items()}
    named = {k: v for k, v in named.items() if isinstance(v, torch.Tensor) and k != skip}
    if wanted is None:
        return named
    missing = [k for k in wanted if k not in named]
    if missing:
        raise Error(f"the module has no output {missing[0]}; it has {', '.join(named) or 'none'}")
    return {k: named[k] for k in wanted}


# ---- checkpoints ----

_RECOMPUTED = "msc_recomputed"  # among a node's "custom" metadata: the number of the call of checkpoint around it


@contextlib.contextmanager
def _mark_checkpoints():
    """Lets torch.utils.checkpoint, while a step is traced, call its function and nothing else, and marks the
    function's nodes; one of its own ways through autograd would stop gradients."""
    own, numbers = torch.utils.checkpoint, itertools.count(1)
    passes = [n for n in vars(own) if n.startswith("_checkpoint_without_reentrant_generator")]
    before = {n: getattr(own, n) for n in passes}

    def marked():
        # PyTorch before 2.9 has no such metadata: there everything is kept
        annotate = getattr(node_meta, "annotate", contextlib.nullcontext)
        return annotate({_RECOMPUTED: next(numbers)})

    def around_call(*_, **__):
        with marked():
            yield

    def apply(function, _, *args):
        with marked():
            return function(*args)

    for name in passes:
        setattr(own, name, around_call)
    own.CheckpointFunction.apply = staticmethod(apply)
    try:
        with node_meta.preserve_node_meta():
            yield
    finally:
        del own.CheckpointFunction.apply  # that of its base class is seen again
        for name, function in before.items():
            setattr(own, name, function)


def is_recomputed(node):
    """True for a node that a call of torch.utils.checkpoint computes again: what the call hands on is kept."""

    def call_of(n):
        return (n.meta.get("custom") or {}).get(_RECOMPUTED)

    return call_of(node) is not None and all(call_of(user) == call_of(node) for user in node.users)


# ---- functions that PyTorch cannot export ----


@contextlib.contextmanager
def _in_arithmetic():
    """Lets torch.ctc_loss, while a step is traced, be made of operations that can be exported."""
    own_loss, chosen = torch.ctc_loss, {}

    def masked_select(tensor, mask):
        result = torch._C.TensorBase.masked_select(tensor, mask)
        chosen[id(result)] = (result, (tensor, mask))
        return result

    def ctc_loss(log_probs, targets, *args, **words):
        found = chosen.get(id(targets))
        return alignment.ctc_loss(log_probs, targets, *args, **words, chosen=found and found[1])

    torch.ctc_loss, torch.Tensor.masked_select = ctc_loss, masked_select
    try:
        yield
    finally:
        torch.ctc_loss = own_loss
        del torch.Tensor.masked_select


# ---- no_grad ----


def _mark_stopped(module):
    """Puts detach behind the results of regions without gradients: what follows inlines them without a trace."""
    region = torch.ops.higher_order.wrap_with_set_grad_enabled
    for inner in module.children():
        if isinstance(inner, torch.fx.GraphModule):
            _mark_stopped(inner)
    for node in list(module.graph.nodes):
        if node.op != "call_function" or node.target is not region:
            continue
        if node.args[0]:
            if _is_inside_stopped(module):
                raise Error("torch.enable_grad inside of torch.no_grad is not supported")
            continue
        for item in list(node.users):
            if isinstance(item.meta.get("val"), torch.Tensor) and item.meta["val"].is_floating_point():
                with module.graph.inserting_after(item):
                    stop = module.graph.call_function(torch.ops.aten.detach.default, (item,))
                stop.meta = dict(item.meta)
                item.replace_all_uses_with(stop, delete_user_cb=lambda user, own=stop: user is not own)
    module.recompile()


def _is_inside_stopped(module):
    return getattr(module, "_msc_stopped", False)


def _find_stopped(module):
    """Marks the submodules that are regions without gradients, and all inside of them."""
    region = torch.ops.higher_order.wrap_with_set_grad_enabled
    for node in module.graph.nodes:
        if node.op != "call_function" or not isinstance(node.target, torch._ops.HigherOrderOperator):
            continue
        for argument in node.all_input_nodes:
            if argument.op != "get_attr":
                continue
            inner = getattr(module, argument.target, None)
            if isinstance(inner, torch.fx.GraphModule):
                inner._msc_stopped = _is_inside_stopped(module) or (node.target is region and not node.args[0])
                _find_stopped(inner)


# ---- the program ----


def _positional(forward, num):
    """Names of the positional parameters of a method, and whether each takes all arguments that are left; where Python
    cannot tell, `num` of them.  What was found of a function is remembered: asking takes as long as a small step."""
    function = getattr(forward, "__func__", forward)
    try:
        return _positional_of(function, function is not forward)
    except (TypeError, ValueError):
        return [(f"input{i}", False) for i in range(num)]


@functools.lru_cache(maxsize=256)
def _positional_of(function, is_bound):
    parameters = list(inspect.signature(function).parameters.values())
    if is_bound and parameters and parameters[0].kind != inspect.Parameter.VAR_POSITIONAL:
        parameters = parameters[1:]
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    found = [(p.name, p.kind == p.VAR_POSITIONAL) for p in parameters if p.kind in (*kinds, p.VAR_POSITIONAL)]
    return tuple(found)


def names_of_values(module):
    """Names that no input may have: those of the parameters and buffers."""
    return frozenset(n for n, _ in (*module.named_parameters(), *module.named_buffers()))


def flat_inputs(args, words, labels, module, taken):
    """Names of all tensors given, in the order in which the program takes them, and whether each is a label.  A name
    that is `taken`, or another tensor's, gets underscores behind it."""
    parameters = []
    for name, repeats in _positional(module.forward, len(args)):
        parameters += [f"{name}{i}" for i in range(len(args) - len(parameters))] if repeats else [name]
    if len(args) > len(parameters):
        raise Error(f"{type(module).__name__} takes {len(parameters)} inputs, not {len(args)}, labels not counted")
    named = list(zip(parameters, args)) + list(words.items())
    all_named = [(n, v, _is_label_name(n)) for n, v in named] + [(n, v, True) for n, v in labels.items()]
    out, taken = [], set(taken)
    for name, value, is_label in all_named:
        leaves = [((), value)] if isinstance(value, torch.Tensor) else pytree.tree_flatten_with_path(value)[0]
        for path, leaf in leaves:
            own = name + "".join("." + _plain(pytree.keystr((key,))) for key in path)
            while own in taken:
                own += "_"
            taken.add(own)
            out.append((own, leaf, is_label))
    return out


def _plain(key):
    return "".join(ch for ch in key if ch.isalnum() or ch == "_")


def _is_label_name(name):
    return name in ("y", "label", "labels", "target", "targets") or name.endswith("_labels")


def capture(module, args, words, loss, labels, outputs, dimensions=None, trains=False):
    """A functional ExportedProgram of one step, and its calls of functions with gradients of their own.  dimensions:
    what torch.export takes as dynamic_shapes, for each value given; trains: gradients are wanted.  Raises Error with
    PyTorch's reason where it cannot export."""
    step = Step(module, loss, len(args), list(words), len(labels), outputs)
    step.training = module.training  # its parts have modes of their own
    values = tuple(args) + tuple(words.values()) + tuple(labels.values())
    calls = []
    if trains:
        own_gradients.refuse_hooks(module)
    try:
        with (
            own_gradients.marked(calls),
            own_gradients.hooks_refused() if trains else contextlib.nullcontext(),
            _mark_checkpoints(),
            _in_arithmetic(),
            branches.decided(),
            chosen.exportable(),
            recurrent.traced_whole(),
            _quiet(),
            torch.enable_grad(),
        ):
            program = torch.export.export(step, values, dynamic_shapes=dimensions and (dimensions,), strict=False)
            _find_stopped(program.graph_module)
            _mark_stopped(program.graph_module)
            # sizes that are left open need the types that a trace gives
            without_writes = functional(program) if dimensions is None else None
            program = without_writes or program.run_decompositions({})
    except Error:
        raise
    except Exception as e:  # PyTorch's exporter has many kinds of its own
        raise Error(f"PyTorch cannot export {type(module).__name__}: {type(e).__name__}: {_first_lines(e)}") from e
    return program, calls


@contextlib.contextmanager
def _quiet():
    """PyTorch prints and logs whole graphs when an export fails."""
    before, said = logging.root.manager.disable, io.StringIO()
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _first_lines(e):
    """What an error says, and the user's line where it was raised, or from which this was called."""
    lines = [line for line in str(e).splitlines() if line.strip()]
    frames = [f for f in traceback.extract_tb(e.__traceback__) if _is_users(f)]
    frames = frames or [f for f in traceback.extract_stack() if _is_users(f)]
    return " ".join(lines[:2])[:600] + (f"; at {frames[-1].filename}:{frames[-1].lineno}" if frames else "")


def _is_users(frame):
    """False for lines of PyTorch, of this package, of Python's own modules, and of code that was made of text."""
    name = frame.filename
    return name != "<string>" and not name.startswith(NOT_THE_USERS) and os.path.dirname(name) != _OF_PYTHON
