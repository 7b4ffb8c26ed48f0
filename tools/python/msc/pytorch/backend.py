"""Graphs that PyTorch captured in; functions that execute compiled plans out: torch.compile(model, backend="msc").

PyTorch's autograd splits a training step into a forward and a backward; each becomes a plan of its own, with parameters
among its inputs.  What msc cannot translate runs as PyTorch would run it, after one warning that lists all of it.
msc.train_step compiles whole steps, optimizer included, and is faster."""

import contextlib
import dataclasses
import importlib
import logging
import warnings

import torch
from torch._dynamo import disable, register_backend
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.convert_frame import compile_lock
from torch._functorch import config as functorch_config
from torch._functorch import partitioners
from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention import SDPBackend, sdpa_kernel

from msc.graph import Graph
from msc.job import Job, Workspace
from msc.native import CompileError
from msc.ops import Error
from msc.plan import compile as compile_plan
from msc.pytorch.aten import DTYPES
from msc.pytorch.convert import Unsupported
from msc.pytorch.drawn import DrawnConverter
from msc.pytorch.garbage import uncollected
from msc.pytorch.reading import Reading
from msc.pytorch.results import Results


_WORKSPACE = Workspace()  # of all graphs: one after another
_OF_STEPS = ("micro_size", "micro_batch_interleaved", "pipeline_stages", "zero", "gradients_mean", "loss_scale")
_LOGGED = {"_log_joint_graph": None, "_log_fw_bw_graphs": (None, None)}  # what PyTorch logs by; results without logs
_CHEAP = {torch.ops.aten.native_layer_norm}  # to compute again, beside those that PyTorch knows


class Fallback(UserWarning):
    """A graph is executed by PyTorch, not by msc; the text says why."""


class _Program:
    """One graph for inputs of fixed sizes: called with them it gives the graph's results."""

    def __init__(self, module, inputs, keys, name):
        self._job = None
        g, given, self._known = Graph(name), [], {}
        converter = DrawnConverter(g, lambda name, value: self._input(g, name, value))
        placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
        for i, (node, value) in enumerate(zip(placeholders, inputs)):
            converter.values[node] = value
            if isinstance(value, torch.Tensor) and node.users:
                reading = Reading(value)
                converter.values[node] = x = self._input(g, f"x{i}", value, reading.shape)
                if value.numel():
                    converter.values[node] = reading.tensor(g, x)
                    given.append((f"x{i}", i, reading))
        results = Results(module.graph)
        values = converter.walk(module.graph, module, [n for n, _ in results.computed])
        converter.complain()
        self._types = []
        for i, (value, (node, order)) in enumerate(zip(values, results.computed)):
            self._types.append((*results.layouts[i], node.meta["val"].dtype))
            if isinstance(value, torch.Tensor):
                self._known[i] = value.permute(order).contiguous()
            else:
                in_order = list(order) == sorted(order)
                g.output(f"y{i}", value if in_order else g.transpose(value, list(order)))
        self._makers = results.makers
        self._written = [(b"y%d" % i, i) for i in range(len(values)) if i not in self._known]
        self._plan = compile_plan(g, **{"own_outputs": True, **keys}) if self._written else None
        read = self._plan.inputs if self._plan else ()
        self._given = [(name.encode(), i, reading) for name, i, reading in given if name in read]
        self._drawn = [(name.encode(), draw, name in read) for name, draw in converter.drawn.items()]

    @staticmethod
    def _input(g, name, value, shape=None):
        if value.dtype not in DTYPES or value.device.type != "cpu":
            raise Unsupported(f"an input of {value.dtype} on {value.device}")
        if not value.numel():
            return torch.empty(value.shape, dtype=value.dtype)
        return g.input(name, DTYPES[value.dtype], list(value.shape if shape is None else shape), batch_dim=-1)

    def __call__(self, *inputs):
        computed = self._memory()
        if self._plan:
            self._compute(inputs, computed)
        return [make(inputs, computed) for make in self._makers]

    def _memory(self):
        """Makes a new tensor for each result that is computed."""
        made = [torch.empty_strided(size, stride, dtype=dtype) for size, stride, dtype in self._types]
        for i, known in self._known.items():
            made[i].as_strided(known.shape, known.stride()).copy_(known)
        return made

    def _open(self):
        """A job with as many threads as PyTorch takes."""
        ranks = self._plan.ranks
        workspace = None if self._plan.parameters or ranks > 1 else _WORKSPACE
        return Job(self._plan, threads=max(torch.get_num_threads() // ranks, 1), workspace=workspace)

    def _compute(self, inputs, computed):
        """Runs the plan on PyTorch's own memory: reads inputs from it and writes results into it."""
        read = [(name, reading.memory(inputs[i]), reading.nbytes) for name, i, reading in self._given]
        drawn = [(name, draw(), is_read) for name, draw, is_read in self._drawn]
        read += [(name, (t, t.data_ptr()), t.nbytes) for name, t, is_read in drawn if is_read]
        with _WORKSPACE.lock:
            self._job = self._job or self._open()
            try:
                self._job._compute(
                    [(name, address, nbytes) for name, (_, address), nbytes in read],
                    [(n, computed[i].data_ptr(), computed[i].nbytes) for n, i in self._written],
                )
            except BaseException:  # after which a job cannot go on; the next call has one of its own
                self._job.close()
                self._job = None
                raise


def _sizes(inputs):
    return tuple((tuple(v.shape), v.dtype) if isinstance(v, torch.Tensor) else v for v in inputs)


def _is_symbolic(module):
    """Does a size stand for several?"""

    def symbolic(val):
        if isinstance(val, torch.Tensor):
            return any(isinstance(s, torch.SymInt) for s in val.shape)
        return isinstance(val, (torch.SymInt, torch.SymFloat))

    return any(n.op == "placeholder" and symbolic(n.meta.get("val")) for n in module.graph.nodes)


def _compiler(keys, name):
    def compiled(module, example_inputs):
        if not _is_symbolic(module):
            return make_boxed_func(_program(module, example_inputs, False, keys, name))
        programs = {}

        def run(*inputs):
            sizes = _sizes(inputs)
            if sizes not in programs:
                programs[sizes] = _program(module, inputs, True, keys, name)
            return programs[sizes](*inputs)

        return make_boxed_func(run)

    return compiled


@uncollected()
def _program(module, inputs, symbolic, keys, name):
    """A plan; or the module itself, after a warning.  Other threads trace nothing meanwhile: a trace changes PyTorch's
    modules for all of them, and graphs of new sizes, and backwards, are made when they are called."""
    try:
        with compile_lock:
            fixed = make_fx(module, tracing_mode="fake")(*inputs) if symbolic else module
            with unset_fake_temporarily():  # constants have values
                return _Program(fixed, inputs, keys, name)
    except (Error, CompileError) as e:
        if any(m.kind == "error" and m.file == "keys" for m in getattr(e, "messages", ())):
            raise  # what the user wrote, not what the graph has
        warnings.warn(f"PyTorch executes a graph of {len(module.graph.nodes)} nodes: {e}", Fallback, stacklevel=2)
        return module


@contextlib.contextmanager
def _more_is_cheap():
    """Lets PyTorch's partitioner take _CHEAP for what may be computed again."""
    own = getattr(partitioners, "get_default_op_list", None)
    if own is None:
        yield
        return

    def with_more():
        ops = own()
        more = {n: getattr(ops, n) | _CHEAP for n in ("fusible_ops", "recomputable_ops")}
        return dataclasses.replace(ops, **more)

    partitioners.get_default_op_list = with_more
    try:
        yield
    finally:
        partitioners.get_default_op_list = own


def _split(joint, inputs, **words):
    """The forward and the backward of a graph of both.  The backward computes again what is cheap, in kernels that it
    has anyway, rather than that it is kept; what its products read, too.  Equal calls are left to msc, which finds them
    in each graph: PyTorch would import all of its own compiler to find them here."""
    wanted = {"cse": False, "ban_recompute_materialized_backward": False}
    known = {k: v for k, v in wanted.items() if hasattr(functorch_config, k)}
    with functorch_config.patch(known), _more_is_cheap():
        return partitioners.min_cut_rematerialization_partition(joint, inputs, **words)


@contextlib.contextmanager
def _only_wanted_texts():
    """Lets PyTorch's autograd write no texts of its graphs where no log wants them: they take a twenty-fifth of the
    first step of a small transformer."""
    try:
        logs = importlib.import_module("torch._functorch._aot_autograd.graph_compile")
        own = {n: getattr(logs, n) for n in _LOGGED}
        wanted = any(log.isEnabledFor(logging.INFO) for log in (logs.aot_joint_log, logs.aot_graphs_log))
    except (ImportError, AttributeError):  # another PyTorch
        own, wanted = {}, True
    if wanted or logging.getLogger("torch.__trace").handlers:
        yield
        return
    for name, result in _LOGGED.items():
        setattr(logs, name, lambda *_, result=result, **__: result)
    try:
        yield
    finally:
        for name, function in own.items():
            setattr(logs, name, function)


def _through_autograd(module, example_inputs, compiler):
    """PyTorch's autograd, and what the compiler makes of the graphs that it gives.  aot_autograd, which does the same,
    would first import PyTorch's own compiler for its logs."""
    parts = {"fw_compiler": compiler, "inference_compiler": compiler, "partition_fn": _split}
    if any(isinstance(x, (list, tuple, dict)) for x in example_inputs):
        return aot_autograd(**parts, bw_compiler=compiler)(module, example_inputs)

    def backward(*inputs):
        return disable(disable(compiler)(*inputs))

    with _only_wanted_texts():
        return disable(aot_module_simplified(module, example_inputs, **parts, bw_compiler=backward))


@uncollected()
def backend(module, example_inputs, *, options=None, mode=None, name=None):
    """For torch.compile(..., backend="msc", options={KEY: VALUE}): keys are those of `msc config`, but for those of
    whole training steps.  With device_num so many threads of this process share each graph.  name: of the graphs, in
    messages."""
    keys = dict(options or {})
    if mode is not None:
        raise Error(f"mode={mode!r} is of PyTorch's own compiler; msc takes options={{KEY: VALUE}}, see `msc config`")
    of_steps = [k for k in _OF_STEPS if k in keys]
    if str(keys.get("parallel_mode", "")) in ("data_parallel", "hybrid_parallel"):
        of_steps.append(f"parallel_mode={keys['parallel_mode']}")
    if of_steps:
        raise Error(
            f"{', '.join(of_steps)}: of whole training steps, which msc.train_step compiles; torch.compile gives "
            "graphs of which msc does not know the batch"
        )
    compiler = _compiler(keys, name or "graph")
    if any(isinstance(x, torch.Tensor) and x.dtype == torch.float64 for x in example_inputs):
        with sdpa_kernel(SDPBackend.MATH):  # else its statistics are f32
            return _through_autograd(module, example_inputs, compiler)
    return _through_autograd(module, example_inputs, compiler)


try:
    register_backend(backend, name="msc")
except AssertionError:  # the name is known: it is torch_backend's, which has called this
    pass
