"""A module, its loss and its optimizer in; a function out that makes a whole training step by a compiled plan."""

import os
import shutil
import tempfile
import weakref

import torch

from msc.ops import Error
from msc.plan import compile as compile_plan
from msc.pytorch import weights
from msc.pytorch.capture import flat_inputs
from msc.pytorch.export import _split_inputs, _split_labels, build


class TrainStep:
    """A training step of one module: step(*inputs, label) gives the loss.  Made by train_step.

    plan is the plan of the last step.  sync() brings parameters and buffers back into the module; close() does so too,
    as the end of a `with` block does."""

    def __init__(self, module, loss, optimizer, ranks, seed, threads, words, keys):
        self.module, self.loss, self.optimizer = module, loss, optimizer
        self._words, self._keys = words, {**keys, "device_num": ranks}
        if ranks > 1:
            self._keys.setdefault("parallel_mode", "auto_parallel")
        self._run_options = {"seed": seed, "threads": threads}
        self._plans = {}  # sizes of inputs -> plan
        self._job, self._sizes, self._rates = None, None, None
        self._folder = tempfile.mkdtemp(prefix="msc-")  # weights, on their way
        self._clean = weakref.finalize(self, shutil.rmtree, self._folder, True)

    def __call__(self, *inputs, **named):
        """The loss of one step, a Python number."""
        if not self._clean.alive:
            raise Error("this step is closed")
        given = self._named(inputs, named)
        sizes = tuple((n, tuple(t.shape), t.dtype) for n, t in given.items())
        if sizes != self._sizes:
            self._open(sizes, inputs, named)
        self._set_rates()
        plan_inputs = self._job.plan.inputs
        return self._job.step(**{n: t.detach().contiguous() for n, t in given.items() if n in plan_inputs})

    def _set_rates(self):
        """The learning rates that the optimizer has now, as a scheduler may have changed them."""
        rates = [float(g["lr"]) for g in self.optimizer.param_groups]
        if rates == self._rates:
            return
        for i, group in enumerate(self._groups):
            self._job.set(f"optimizer.lr.{i}" if i else "optimizer.lr", rates[group])
        self._rates = rates

    def _split(self, inputs, named):
        args, words = _split_inputs(dict(named) if named and not inputs else tuple(inputs))
        return _split_labels(self._words.get("labels"), args, words, self.loss)

    def _named(self, inputs, named):
        if inputs and named:
            raise Error("inputs are given in order or by name, not both")
        labels, args = self._split(inputs, named)
        words = {} if inputs else {n: v for n, v in named.items()}
        return {n: v for n, v, _ in flat_inputs(args, words, labels, self.module) if isinstance(v, torch.Tensor)}

    def _open(self, sizes, inputs, named):
        """A job for inputs of these sizes, which goes on with the parameters and the state of the one before."""
        state = None
        if self._job:
            state = os.path.join(self._folder, "state.safetensors")
            weights.write(state, {n: torch.from_dlpack(self._job.read(n)) for n in self._job.plan.parameters})
            self._job.close()
            self._job = None
        if sizes not in self._plans:
            self._plans[sizes] = self._compile(inputs, named)
        plan = self._plans[sizes]
        self._job, self._sizes, self._rates = plan.run(**self._run_options), sizes, None
        if state:
            self._job.load(state)

    def _compile(self, inputs, named):
        graph, tensors, self._groups = build(
            self.module, dict(named) if named else tuple(inputs), self.loss, self.optimizer, **self._words
        )
        path = os.path.join(self._folder, "model.fbs")
        weights.write(os.path.join(self._folder, "model.safetensors"), tensors)
        graph.save(path)
        return compile_plan(path, **self._keys)

    @property
    def plan(self):
        """Of the last step; None before the first."""
        return self._job.plan if self._job else None

    def sync(self):
        """Writes what was trained into the module's parameters and buffers."""
        if not self._job:
            return
        known = self._job.plan.parameters
        own = {**dict(self.module.named_parameters()), **dict(self.module.named_buffers())}
        with torch.no_grad():
            for name in own.keys() & known.keys():
                own[name].copy_(torch.from_dlpack(self._job.read(name)))

    def close(self):
        """Brings everything back into the module and gives back memory and threads; may be called again."""
        if self._job:
            self.sync()
            self._job.close()
            self._job = None
        self._clean()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


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
    **keys,
):
    """A function that makes one training step of `module`: forward, loss, backward and update in one compiled plan.

        step = msc.train_step(net, torch.nn.functional.cross_entropy, torch.optim.AdamW(net.parameters(), 1e-3))
        for x, y in loader:
            loss = step(x, y)
        step.close()                                   # the module has what was trained

    ranks: so many threads of this process share the step, cut by auto_parallel unless keys say otherwise. keys: those
    of `msc config`; the others are those of msc.export.  The first call for inputs of new sizes compiles.

    Raises msc.Error with everything that msc cannot translate, at the first call."""
    if optimizer is None:
        raise Error("msc.train_step needs an optimizer")
    words = {"labels": labels, "clip_norm": clip_norm, "batch_dims": batch_dims, "plan": plan, "mesh": mesh}
    return TrainStep(module, loss, optimizer, ranks, seed, threads, words, keys)
