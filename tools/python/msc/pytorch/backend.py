"""Graphs that PyTorch captured in; functions that execute compiled plans out: torch.compile(model, backend="msc").

PyTorch's autograd splits a training step into a forward and a backward; each becomes a plan of its own, with parameters
among its inputs.  What msc cannot translate runs as PyTorch would run it, after one warning that lists all of it.
msc.train_step compiles whole steps, optimizer included, and is faster."""

import warnings

import torch
from torch._dynamo import register_backend
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention import SDPBackend, sdpa_kernel

from msc.graph import Graph
from msc.native import CompileError
from msc.ops import Error
from msc.plan import compile as compile_plan
from msc.pytorch.aten import DTYPES, RANDOM
from msc.pytorch.convert import Converter, Unsupported, name_of


class Fallback(UserWarning):
    """A graph is executed by PyTorch, not by msc; the text says why."""


class _Program:
    """One graph for inputs of fixed sizes: called with them it gives the graph's outputs."""

    def __init__(self, module, inputs, keys):
        self.keys, self.job = keys, None
        g, self.given, self.results = Graph("graph"), {}, []
        converter = Converter(g)
        placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
        _refuse_random(module, converter)
        for i, (node, value) in enumerate(zip(placeholders, inputs)):
            if isinstance(value, torch.Tensor) and node.users and value.numel():
                if value.dtype not in DTYPES or value.device.type != "cpu":
                    raise Unsupported(f"an input of {value.dtype} on {value.device}")
                self.given[i] = f"x{i}"
                converter.values[node] = g.input(f"x{i}", DTYPES[value.dtype], list(value.shape), batch_dim=-1)
            else:
                converter.values[node] = value
        values = converter.walk(module.graph, module)
        converter.complain()
        for i, value in enumerate(values):
            name = None
            if hasattr(value, "graph"):
                name = f"y{i}"
                g.output(name, value)
            self.results.append((name, value if name is None else None))
        self.plan = compile_plan(g, **keys) if self.given and any(n for n, _ in self.results) else None
        if self.plan is None and any(n for n, _ in self.results):
            raise Unsupported("a graph without inputs")

    def __call__(self, *inputs):
        if self.plan is None:
            return [value for _, value in self.results]
        if self.job is None:
            self.job = self.plan.run()
        tensors = {name: inputs[i].detach().contiguous() for i, name in self.given.items()}
        known = {n: t for n, t in tensors.items() if n in self.plan.inputs}
        self.job.evaluate(**known)
        return [value if name is None else torch.from_dlpack(self.job.read(name)) for name, value in self.results]


def _refuse_random(module, converter):
    """An evaluation draws no random numbers, so graphs that do are PyTorch's."""
    for node in module.graph.nodes:
        drawn = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
        if node.op == "call_function" and (drawn or name_of(node.target) in RANDOM):
            converter._report(node, "random numbers in a graph of torch.compile; msc.train_step has them")


def _sizes(inputs):
    return tuple((tuple(v.shape), v.dtype) if isinstance(v, torch.Tensor) else v for v in inputs)


def _is_symbolic(module):
    """Does a size stand for several?"""

    def symbolic(val):
        if isinstance(val, torch.Tensor):
            return any(isinstance(s, torch.SymInt) for s in val.shape)
        return isinstance(val, (torch.SymInt, torch.SymFloat))

    return any(n.op == "placeholder" and symbolic(n.meta.get("val")) for n in module.graph.nodes)


def _compiler(keys):
    def compiled(module, example_inputs):
        programs, symbolic = {}, _is_symbolic(module)

        def run(*inputs):
            sizes = _sizes(inputs) if symbolic else None
            if sizes not in programs:
                programs[sizes] = _program(module, inputs, symbolic, keys)
            return programs[sizes](*inputs)

        if not symbolic:
            programs[None] = _program(module, example_inputs, False, keys)
        return make_boxed_func(run)

    return compiled


def _program(module, inputs, symbolic, keys):
    """A plan; or the module itself, after a warning."""
    try:
        fixed = make_fx(module, tracing_mode="fake")(*inputs) if symbolic else module
        with unset_fake_temporarily():  # constants have values
            return _Program(fixed, inputs, keys)
    except (Error, CompileError) as e:
        warnings.warn(f"PyTorch executes a graph of {len(module.graph.nodes)} nodes: {e}", Fallback, stacklevel=2)
        return module


@register_backend(name="msc")
def backend(module, example_inputs, *, options=None):
    """For torch.compile(..., backend="msc", options={KEY: VALUE}): keys are those of `msc config`."""
    compiler = _compiler(dict(options or {}))
    with sdpa_kernel(SDPBackend.MATH):  # whose steps are ops of their own, in the backward too
        return aot_autograd(fw_compiler=compiler, bw_compiler=compiler, inference_compiler=compiler)(
            module, example_inputs
        )
