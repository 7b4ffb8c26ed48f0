"""Calls of a torch.autograd.Function of the user's: its forward is traced, and a mark behind it lets the converter give
it the gradient that its backward says.

Where backward gives g(dy), linear in dy, the result is f(x) + T(x - x), in which f(x), and the second x, count as
constants, and T is the transpose of g: the same number, and its gradient is g(dy).

Hooks on gradients, which could do anything with them, are refused."""

import contextlib
import inspect
import itertools
import traceback

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from msc.ops import Error
from msc.pytorch.aten import FLOATS, TORCH, dtype_of, is_known, row, shape_of

_library = torch.library.Library("msc", "DEF")
_library.define("own_gradient(Tensor y, Tensor[] x, int call, int result) -> Tensor")
_library.impl("own_gradient", lambda y, x, call, result: y.clone(), "CompositeExplicitAutograd")


class _Context:
    """What forward and backward get as ctx."""

    def __init__(self, args):
        self.needs_input_grad = tuple(isinstance(a, torch.Tensor) and a.is_floating_point() for a in args)
        self.saved_tensors, self.constant_results = (), ()

    def save_for_backward(self, *tensors):
        self.saved_tensors = tensors

    save_for_forward = save_for_backward

    def mark_non_differentiable(self, *tensors):
        self.constant_results = tensors

    def mark_dirty(self, *_):
        raise NotImplementedError("mark_dirty: a result is an argument that was written to")

    def set_materialize_grads(self, _):
        pass


class OwnCall:
    """A call that was traced: the class, its arguments, in which tensors are left out, and the place."""

    def __init__(self, cls, forward, args):
        self.cls, self.own_forward = cls, forward
        self.args = [None if isinstance(a, torch.Tensor) else a for a in args]
        self.is_tensor = [isinstance(a, torch.Tensor) for a in args]
        frames = [f for f in traceback.extract_stack() if not f.filename.startswith((torch.__path__[0], __file__))]
        self.place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "an unknown place"

    def forward(self, tensors):
        """ctx and the results, a tuple."""
        rest = iter(tensors)
        args = [next(rest) if t else a for t, a in zip(self.is_tensor, self.args)]
        ctx = _Context(args)
        if _has_setup(self.cls):
            results = self.own_forward(*args)
            self.cls.setup_context(ctx, args, results)
        else:
            results = self.own_forward(ctx, *args)
        return ctx, results

    def transposed(self, tensors, dy, changes, result):
        """T of one result: the gradient for dy of g(dy) times the changes of the tensors."""
        with torch.no_grad():
            ctx, results = self.forward(tensors)
        results = results if isinstance(results, tuple) else (results,)
        dys = [dy if i == result else torch.zeros_like(r) for i, r in enumerate(results)]
        with torch.enable_grad():
            given = inspect.unwrap(self.cls.backward)(ctx, *dys)
            given = given if isinstance(given, tuple) else (given,)
            given = [g for g, t in zip(given, self.is_tensor) if t]
            pairs = [(g, v) for g, v in zip(given, changes) if g is not None and v is not None and g.requires_grad]
            if not pairs:
                return torch.zeros(dy.shape, dtype=dy.dtype)
            gradients, given_changes = zip(*pairs)
            return torch.autograd.grad(gradients, dy, given_changes)[0]


@contextlib.contextmanager
def marked(calls):
    """Lets the user's Functions, while a module is traced, be their forward and a mark; notes each call in `calls`."""

    def noting(cls, own):
        def forward(*args):
            call = OwnCall(cls, own, args if _has_setup(cls) else args[1:])
            tensors = [a for a in args if isinstance(a, torch.Tensor)]
            ctx, results = call.forward(tensors)
            calls.append(call)
            number = len(calls) - 1

            def mark(i, y):
                is_constant = any(y is c for c in ctx.constant_results) or not y.is_floating_point()
                return y if is_constant else torch.ops.msc.own_gradient(y, tensors, number, i)

            if isinstance(results, tuple):
                return tuple(mark(i, y) if isinstance(y, torch.Tensor) else y for i, y in enumerate(results))
            return mark(0, results)

        return staticmethod(forward)

    watched = {c: c.forward for c in _subclasses(torch.autograd.Function) if not c.__module__.startswith("torch.")}
    before = {c: c.__dict__.get("forward") for c in watched}
    for cls, own in watched.items():
        cls.forward = noting(cls, own)
    try:
        yield
    finally:
        for cls, own in before.items():
            if own is None:
                del cls.forward  # that of its base class is seen again
            else:
                cls.forward = own


def _has_setup(cls):
    """True if what the backward needs is kept by a function of its own."""
    return cls.setup_context is not torch.autograd.Function.setup_context


def _subclasses(cls):
    return itertools.chain.from_iterable([own, *_subclasses(own)] for own in cls.__subclasses__())


def _trace(call, given, types, dtype, shape, result):
    """The graph of T, whose inputs are dy, the tensors and the changes of those that are `given`."""

    def transposed(dy, *values):
        changes = iter(values[len(types) :])
        return call.transposed(values[: len(types)], dy, [next(changes) if g else None for g in given], result)

    with torch._subclasses.FakeTensorMode():
        dy = torch.empty(shape, dtype=dtype, requires_grad=True)
        tensors = [torch.empty(s, dtype=t) for t, s in types]
        changes = [torch.empty_like(t) for t, g in zip(tensors, given) if g]
        inner = make_fx(transposed, tracing_mode="real")(dy, *tensors, *changes)
        if any(getattr(getattr(n.target, "_schema", None), "is_mutable", False) for n in inner.graph.nodes):
            inner = make_fx(torch.func.functionalize(inner), tracing_mode="real")(dy, *tensors, *changes)
    inner.graph.eliminate_dead_code()
    return inner


@row("msc.own_gradient.default")
def own_gradient(c, y, x, number, result):
    call = c.converter.own_calls[number]
    given = [dtype_of(t) in FLOATS and not is_known(t) for t in x]
    if not any(given):
        return y
    types = [(TORCH[dtype_of(c.own(t))], shape_of(t)) for t in x]
    what = f"the backward of {call.cls.__name__}, called at {call.place}"
    try:
        inner = _trace(call, given, types, TORCH[c.dtype], c.shape, result)
    except Exception as e:  # whatever the user's code raises
        c.refuse(f"{what}: {type(e).__name__}: {(str(e).splitlines() or [''])[0]}")
    dy = next(n for n in inner.graph.nodes if n.op == "placeholder")
    if dy.users:
        c.refuse(f"{what}, is not linear in the gradient that it gets")
    fixed = [t if is_known(t) else c.g.stop_gradient(t) for t in x]
    changes = [c.g.sub(t, f) for t, f, g in zip(x, fixed, given) if g]
    change = c.converter.walk_inner(inner, [None, *fixed, *changes])
    return c.g.add(c.g.stop_gradient(c.own(y)), c.t(change))


# ---- hooks on gradients ----

_HOOKS = "hooks on gradients are not called by a plan"


def refuse_hooks(module):
    """Raises Error if hooks wait for gradients of the module or of its parameters."""
    places = [n or type(m).__name__ for n, m in module.named_modules() if m._backward_hooks or m._backward_pre_hooks]
    places += [n for n, p in module.named_parameters() if p._backward_hooks or p._post_accumulate_grad_hooks]
    if places:
        raise Error(f"{_HOOKS}; remove those of {', '.join(places)}")


@contextlib.contextmanager
def hooks_refused():
    """Lets hooks that a forward registers, while it is traced, be an Error."""
    before = torch.Tensor.register_hook

    def refused(*_):
        raise RuntimeError(f"{_HOOKS}, but register_hook is")

    torch.Tensor.register_hook = refused
    try:
        yield
    finally:
        torch.Tensor.register_hook = before
