"""A module, its loss and its optimizer in; a function out that makes a whole training step by a compiled plan."""

import os
import shutil
import tempfile
import warnings
import weakref

import torch

from msc.ops import Error
from msc.plan import compile as compile_plan
from msc.pytorch import live, weights
from msc.pytorch.capture import flat_inputs, names_of_values
from msc.pytorch.export import _split_inputs, _split_labels, build
from msc.pytorch.garbage import uncollected
from msc.pytorch.modes import Modes, attributes_read
from msc.pytorch.no_gradients import NoGradients, refuse
from msc.pytorch.optimizer import count_steps, numbers
from msc.pytorch.values import values_of


_MANY = 4  # plans for inputs of the same sizes: more are made for something that changes all the time


class Loss(float):
    """A loss as a number, in loops that were written for a tensor.  Sums and multiples of it are losses, too."""

    def item(self):
        return float(self)

    def detach(self):
        return self

    def backward(self, *_, **__):
        raise Error("msc.train_step has made the backward and the update already: the loop has only to call it")

    def __add__(self, other):
        return _loss(float.__add__(self, other))

    def __mul__(self, other):
        return _loss(float.__mul__(self, other))

    def __truediv__(self, other):
        return _loss(float.__truediv__(self, other))

    __radd__, __rmul__ = __add__, __mul__


def _loss(value):
    return value if value is NotImplemented else Loss(value)


class _Made:
    """A plan and what it was made for: modes; where module and optimizer keep what it trains; numbers of the groups;
    [(tensor, what it held)] of what it took in as it was."""

    def __init__(self, plan, modes, values, groups, constants):
        self.plan, self.modes, self.values, self.groups, self.constants = plan, modes, values, groups, constants

    def is_right(self):
        """True if the plan is what would be compiled now, for inputs of the same types."""
        modes, constants = self.modes, self.constants
        return modes.are_same() and modes.are_same_types() and all(torch.equal(t, kept) for t, kept in constants)


class TrainStep:
    """A training step of one module: step(*inputs, label) gives the loss.  Made by train_step.

    plan is the plan of the last step.  On one rank the module's parameters and buffers and the optimizer's state are
    views of the plan's memory, at any time what the last step left.  On several ranks they are brought up to date
    whenever the module is asked for a parameter or buffer, called, copied or saved, before a state_dict() of the
    optimizer, by sync() and by close(): a parameter that was taken out of the module before is so from then on.

    What PyTorch would notice is noticed: other sizes and numbers among the inputs, train() and eval(), attributes that
    the forward reads and what they hold, variables of the loss, hooks, frozen parameters, hyper-parameters of the
    optimizer and what its groups train, parameters and constants that are written to, torch.autocast; what needs
    another plan compiles one, once.  Gradients are not kept: what uses them after a step, as clip_grad_norm_ or
    optimizer.step(), raises Error, and so do hooks that a plan would not call.  After an error in a step,
    as an index out of range, the next step goes on with the parameters as they were on one rank; on several ranks,
    where they are lost, it raises Error."""

    def __init__(self, module, loss, optimizer, ranks, seed, threads, words, keys, buckets=None):
        self._buckets = dict(buckets or {})
        self.module, self.loss, self.optimizer, self._taken = module, loss, optimizer, names_of_values(module)
        self._words, self._keys = words, {**keys, "device_num": ranks}
        if ranks > 1:
            self._keys.setdefault("parallel_mode", "auto_parallel")
        if self._keys.get("parallel_mode") == "data_parallel":
            self._keys.setdefault("gradients_mean", True)
        self._ranks, self._seed, self._threads = ranks, seed, threads
        self._opened, self._compiled = 0, 0
        self._varies = False  # plans read the numbers of the optimizer in every step
        self._plans = {}  # inputs that a plan is for -> [_Made]
        self._names = {}  # of inputs that are tensors, by how many are given in order
        self._job, self._key, self._rates, self._made, self._values = None, None, None, None, []
        self._is_behind, self._is_lost, self._written = False, False, None
        self._no_gradients, self._state = None, (None, 0, [])
        self._uncounted = 0  # steps that the optimizer's own counts lack
        self._folder = tempfile.mkdtemp(prefix="msc-")  # weights, on their way
        self._clean = weakref.finalize(self, shutil.rmtree, self._folder, True)
        sync, forget = _Weakly(self, TrainStep.sync), _Weakly(self, TrainStep._forget)
        self._hooks = [
            optimizer.register_state_dict_pre_hook(sync),
            optimizer.register_step_pre_hook(_Weakly(self, TrainStep._before_step)),
            optimizer.register_step_post_hook(forget),
            optimizer.register_load_state_dict_pre_hook(sync),
            optimizer.register_load_state_dict_post_hook(forget),
        ]
        self._look = _Weakly(self, TrainStep._bring)

    def __call__(self, *inputs, **named):
        """The loss of one step, a Python number; what loops do with a tensor, as item(), may be done with it."""
        if not self._clean.alive:
            raise Error("this step is closed")
        if self._is_lost:
            raise Error("the parameters of the steps before are lost; the module has what the last sync() brought")
        if self._buckets:
            inputs, named = self._padded(inputs, named)
        given, others = self._named(inputs, named)
        key = tuple([(n, t.shape, t.dtype) for n, t in given.items()]), others
        if key != self._key or not self._made.modes.are_same() or self._is_written():
            self._open(key, inputs, named)
        self._set_rates()
        plan_inputs = self._job.plan.inputs
        self._is_behind = self._ranks > 1
        try:
            told = self._job.step(**{n: t for n, t in given.items() if n in plan_inputs})
        except Error:
            self._is_lost, self._is_behind = self._ranks > 1, False
            self._close_job()
            raise
        self._uncounted += 1
        self.optimizer._opt_called = True  # schedulers warn where no step was made
        self._no_gradients.put()
        return Loss(told)

    def _set_rates(self):
        """The learning rates that the optimizer has now, as a scheduler may have changed them; its other numbers, too,
        once one of them was changed."""
        if self._varies:
            rates = [words for _, words in numbers(self.optimizer)]
        else:
            rates = [{"lr": float(g["lr"])} for g in self.optimizer.param_groups]
        if rates == self._rates:
            return
        for i, group in enumerate(self._made.groups):
            for name, value in rates[group].items():
                if not self._rates or self._rates[group].get(name) != value:
                    self._job.set(f"optimizer.{name}.{i}" if i else f"optimizer.{name}", value)
        self._rates = rates

    def _split(self, inputs, named):
        args, words = _split_inputs(dict(named) if named and not inputs else tuple(inputs))
        return _split_labels(self._words.get("labels"), args, words, self.loss)

    def _named(self, inputs, named):
        """({name: tensor} of the inputs; the others by name, as texts, since a plan takes them in)."""
        if inputs and named:
            raise Error("inputs are given in order or by name, not both")
        are_tensors = not named and all([isinstance(v, torch.Tensor) for v in inputs])
        names, others = self._names.get(len(inputs)) if are_tensors else None, ()
        if names:
            found = dict(zip(names, inputs))
        else:
            labels, args = self._split(inputs, named)
            words = {} if inputs else {n: v for n, v in named.items()}
            flat = flat_inputs(args, words, labels, self.module, self._taken)
            found = {n: v for n, v, _ in flat if isinstance(v, torch.Tensor)}
            others = tuple((n, repr(v)) for n, v, _ in flat if not isinstance(v, torch.Tensor))
            if are_tensors and [id(v) for v in found.values()] == [id(v) for v in inputs]:
                self._names[len(inputs)] = tuple(found)
        for name, t in found.items():
            if not t.is_cpu or t.layout is not torch.strided:
                kind = "" if t.layout is torch.strided else f" of layout {t.layout}"
                raise Error(f"input {name} is a tensor{kind} on {t.device}: a step reads dense ones of the host")
            if t.requires_grad:
                raise Error(f"input {name} wants a gradient, which a training step does not give: detach() it")
            if not t.numel():
                raise Error(f"input {name} has no elements, {list(t.shape)}: a step needs at least one sample")
        return found, others

    def _padded(self, inputs, named):
        """The inputs, each padded to the next size of its buckets."""
        (given, _), longer = self._named(inputs, named), {}
        for name, (dim, sizes, value) in self._buckets.items():
            t = given.get(name)
            if t is None:
                raise Error(f"buckets: there is no input {name}; the inputs are {', '.join(given)}")
            if not -t.dim() <= dim < t.dim():
                raise Error(f"buckets: input {name} has no dimension {dim}")
            room = min((s for s in sizes if s >= t.shape[dim]), default=None)
            if room is None:
                raise Error(
                    f"input {name} is {t.shape[dim]} long in dimension {dim}; its largest bucket is {max(sizes)}")
            behind = t.dim() - 1 - dim % t.dim()
            longer[id(t)] = torch.nn.functional.pad(t, [0, 0] * behind + [0, room - t.shape[dim]], value=value)
        return tuple(longer.get(id(v), v) for v in inputs), {n: longer.get(id(v), v) for n, v in named.items()}

    # ---- jobs ----

    def _open(self, key, inputs, named):
        """A job of the plan for these inputs and modes, which starts with what the module and the optimizer have."""
        if self._job and self._state_is_cleared():
            self._values = [v for v in self._values if v.is_of_module]
        self.sync()
        self._close_job()
        if self._ranks > 1:
            live.watch(self.module, self._look)
        made = next((m for m in self._plans.get(key, ()) if m.is_right() and m.modes.varies == self._varies), None)
        if not made:
            if self._made:
                self._varies |= self._made.modes.numbers_changed()
            self._warn_of_many(key)
            made = self._compile(inputs, named)
            self._plans.setdefault(key, []).append(made)
        self._made, self._values, plan = made, made.values, made.plan
        # every job draws numbers of its own for dropout
        self._job = plan.run(seed=self._seed + (self._opened << 32), threads=self._threads)
        self._opened += 1
        if self._ranks == 1:
            for value in self._values:
                value.move_to(torch.from_dlpack(self._job.view(value.name)))
        elif self._opened > 1:  # the first begins with the files of its model
            state = {n: torch.from_dlpack(self._job.read(n)) for n in plan.parameters}
            state.update((v.name, t) for v in self._values if (t := v.get()) is not None)
            path = os.path.join(self._folder, "state.safetensors")
            weights.write(path, state)
            self._job.load(path)
        self._no_gradients = NoGradients(self.optimizer)
        self._key, self._rates, self._written = key, None, self._versions()
        self._note_state()

    def _warn_of_many(self, key):
        if len(self._plans.get(key, ())) == _MANY:
            names = ", ".join(self._made.modes.changed()) or "parts, parameters, hooks or constants"
            warnings.warn(
                f"msc.train_step compiles plan {_MANY + 1} for inputs of the same sizes, as every value of what has "
                f"changed needs one: {names}",
                stacklevel=4,
            )

    @uncollected()
    def _compile(self, inputs, named):
        self._compiled += 1
        base = os.path.join(self._folder, f"model{self._compiled}")
        file = os.path.basename(base) + ".safetensors"
        given, reads = dict(named) if named else tuple(inputs), set()
        modes = Modes(self.module, self.optimizer, self.loss, self._varies)
        with attributes_read(reads):
            graph, tensors, groups = build(
                self.module, given, self.loss, self.optimizer, weights_file=file, **self._words
            )
        path = base + ".fbs"
        weights.write(base + ".safetensors", tensors)
        graph.save(path)
        plan = compile_plan(path, **{**self._keys, **({"variable_hypers": True} if self._varies else {})})
        values = values_of(self.module, self.optimizer, plan.parameters)
        trained = {id(v.get()) for v in values if v.is_of_module}
        constants = [(t, t.clone()) for t in modes.restrict(reads) if id(t) not in trained]
        return _Made(plan, modes, values, groups, constants)

    def _close_job(self):
        """Closes the job and gives the tensors of the module and the optimizer memory of their own again."""
        if not self._job:
            return
        self._no_gradients.take()
        if self._ranks == 1:
            for value in self._values:
                value.refresh()
                own = value.get()
                if own is not None:
                    value.put(own.clone())
                value.forget()
        self._job.close()
        self._job, self._key = None, None

    def _versions(self):
        """What changes when somebody else writes to parameters, or to buffers that are constants of the plan, or gives
        them other memory."""
        own = [v for v in self._values if v.is_of_module]
        return (
            [v.address() for v in own],
            [v.version() for v in own] if self._ranks > 1 else (),
            [(t.data_ptr(), t._version) for t, _ in self._made.constants],
        )

    def _note_state(self):
        """Remembers what the optimizer has now as what the steps left."""
        own = [v.place() for v in self._values if not v.is_of_module]
        held = [(d, k, t, t._version if t is not None and self._ranks > 1 else None) for d, k, t in own]
        self._state = self.optimizer.state, len(self.optimizer.state), held

    def _state_is_cleared(self):
        state, num, _ = self._state
        return self.optimizer.state is not state or len(self.optimizer.state) != num

    def _state_is_written(self):
        """True if somebody gave the optimizer other state than the steps left, or wrote to what sync() brought."""
        return not all([d.get(k) is t and (n is None or t._version == n) for d, k, t, n in self._state[2]])

    def _is_written(self):
        now, is_cleared = self._versions(), self._state_is_cleared()
        is_state = is_cleared or self._state_is_written()
        if self._is_behind and (now[:2] != self._written[:2] or (is_state and not is_cleared)):
            self._is_behind, self._is_lost = False, True
            raise Error("parameters or state were written to that had not come from the ranks: call sync() before")
        return now != self._written or is_state

    def _bring(self):
        """Before somebody looks at the module: nothing is to be done here while it is traced, which looks, too."""
        if self._is_behind:
            self.sync()

    def _before_step(self):
        """What an optimizer's own step begins with."""
        refuse(self.optimizer)
        self.sync()

    def _forget(self):
        """Forgets what the plan has of the state: the optimizer was given another one, with which the next step
        begins."""
        for value in self._values:
            value.forget()
        self._key = None

    @property
    def plan(self):
        """The plan of the last step; None before the first."""
        return self._job.plan if self._job else None

    def sync(self):
        """Brings what was trained into the module's parameters and buffers and the optimizer's state."""
        for value in self._values:
            value.refresh()
        if self._is_behind:
            self._is_written()
            self._is_behind = False
            for value in self._values:
                value.fill(torch.from_dlpack(self._job.read(value.name)))
            self._written = self._versions()
        count_steps(self.optimizer, self._uncounted)
        self._uncounted = 0
        if self._job:
            self._note_state()

    def close(self):
        """Brings everything back into the module and gives back memory and threads; may be called again."""
        for hook in self._hooks:
            hook.remove()
        try:
            self.sync()
        finally:
            live.unwatch(self.module)
            self._close_job()
            self._clean()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class _Weakly:
    """A hook that calls a method of `owner` without keeping it alive; saved with a module it does nothing."""

    is_of_a_plan = True

    def __init__(self, owner=None, method=None):
        self._owner, self._method = owner and weakref.ref(owner), method

    def __call__(self, *_):
        own = self._owner and self._owner()
        if own is not None:
            self._method(own)

    def __reduce__(self):
        return _Weakly, ()


def train_step(
    module,
    loss=None,
    optimizer=None,
    *,
    ranks=1,
    seed=0,
    threads=0,
    labels=None,
    clip_norm=None,
    batch_dims=None,
    plan=None,
    mesh=None,
    buckets=None,
    **keys,
):
    """A function that makes one training step of `module`: forward, loss, backward and update in one compiled plan.

        step = msc.train_step(net, torch.nn.functional.cross_entropy, torch.optim.AdamW(net.parameters(), 1e-3))
        for x, y in loader:
            loss = step(x, y)
        step.close()                                   # the module has what was trained

    ranks: so many threads of this process share the step, cut by auto_parallel unless keys say otherwise. keys: those
    of `msc config`; the others are those of msc.export.  In data_parallel gradients are the mean of the replicas', as
    of PyTorch's DDP, unless gradients_mean=False; there batch_dims={"words": -1, "offsets": 0, "y": 0} tells of bags of
    words, of which offsets say where each begins, that words are no samples.  The first call for inputs of new sizes
    compiles.

    buckets: {"x": (1, [64, 128, 256], 0), "y": (1, [64, 128, 256], -100)}: inputs are made so long in a dimension, by
    elements of this value behind them, that few sizes are left to compile for.  The loss must not see what is added, as
    cross entropy does not see labels that are its ignore_index; nor the rest of the network: it is causal, or a mask,
    made longer by zeros, is among the inputs.

    Raises msc.Error with everything that msc cannot translate, at the first call."""
    kinds = (module, torch.nn.Module, "a module"), (optimizer, torch.optim.Optimizer, "an optimizer")
    for given, kind, what in kinds:
        if not isinstance(given, kind):
            raise Error(f"msc.train_step needs {what} of PyTorch, not {given!r:.80}")
    if not isinstance(ranks, int):
        raise Error(f"ranks={ranks!r}: a whole number")
    if not any(p.requires_grad for group in optimizer.param_groups for p in group["params"]):
        raise Error("none of the optimizer's parameters requires a gradient: there is nothing to train")
    words = {"labels": labels, "clip_norm": clip_norm, "batch_dims": batch_dims, "plan": plan, "mesh": mesh}
    return TrainStep(module, loss, optimizer, ranks, seed, threads, words, keys, buckets)
