"""A module, its loss and its optimizer in; what a plan depends on beside its inputs out."""

import contextlib

import torch

from msc.ops import Error
from msc.pytorch.optimizer import NUMBERS, numbers
from msc.pytorch.settings import Names, Settings

_APART = ("params", "lr", "initial_lr")  # of a group of parameters: no plan depends on them
_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")


def _ids(objects):
    return tuple(map(id, objects))


@contextlib.contextmanager
def attributes_read(found):
    """Puts into `found` (id of a module, name) of every attribute of a module that is read meanwhile."""

    def read(self, name):
        found.add((id(self), name))
        return object.__getattribute__(self, name)

    torch.nn.Module.__getattribute__ = read
    try:
        yield
    finally:
        del torch.nn.Module.__getattribute__


def _ambient():
    """What PyTorch is set to, which changes what a module computes."""
    return torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"), torch.get_default_dtype()


class Modes:
    """The settings of a module, its parts and its loss, hooks, which parameters are trained by which group, and
    hyper-parameters, as they were when this was made.  It keeps what it has seen, so that nothing else gets its place
    in memory.  `varies`: the plan reads the numbers of the optimizer in every step.

    are_same() is asked before every step, when the caches hold the step's tensors and little else: so it looks only
    where something was found at first, and after restrict() only where the module looked while it was traced."""

    def __init__(self, module, optimizer, loss=None, varies=False):
        modules = list(dict.fromkeys([*module.modules(), *(loss.modules() if _is_module(loss) else ())]))
        self._optimizer, self._ambient, self.varies = optimizer, _ambient(), varies
        self._settings = Settings(modules, loss)
        self._watched = self._settings.watched()
        self._children = [c for m in modules for c in (m._modules, m._parameters, m._buffers)]
        self._children += [getattr(m, name) for m in modules for name in _HOOKS] + _hooks_of_steps(optimizer)
        self._num_children = list(map(len, self._children))
        self._some = [c for c in self._children if c]
        self._held = [tuple(dict.values(c)) for c in self._some]
        self._some_ids = list(map(_ids, self._held))
        self._parameters = [p for m in modules for p in dict.values(m._parameters) if p is not None]
        self._trained, self._types = self._are_trained(), self._types_now()
        self._groups = list(optimizer.param_groups)
        self._members = self._members_now()
        apart = (*_APART, *(NUMBERS if varies else ()))
        self._words = [Names(g, [n for n in g if n not in apart]) for g in self._groups]
        self._kinds = self._kinds_now() if varies else None

    def restrict(self, reads):
        """After the module was traced: leaves out its attributes that are not among `reads`, as attributes_read finds
        them, and gives the tensors that are reached from the others, which a plan may have taken in as they are."""
        self._settings.restore()
        self._watched = self._settings.watched(reads)
        return self._settings.tensors(reads)

    def _are_trained(self):
        return [
            (p.requires_grad, p._backward_hooks is None, p._post_accumulate_grad_hooks is None)
            for p in self._parameters
        ]

    def _types_now(self):
        return [(p.dtype, p.shape) for p in self._parameters]

    def _members_now(self):
        return [_ids(g["params"]) for g in self._groups]

    def _kinds_now(self):
        return [kind for kind, _ in numbers(self._optimizer)]

    def are_same(self):
        """True if they are the same now."""
        return (
            _ids(self._optimizer.param_groups) == _ids(self._groups)
            and all([w.are_same() for w in self._words])
            and (self._kinds is None or self._kinds_now() == self._kinds)
            and list(map(len, self._children)) == self._num_children
            and [_ids(dict.values(c)) for c in self._some] == self._some_ids
            and self._are_trained() == self._trained
            and self._members_now() == self._members
            and all([w.are_same() for w in self._watched])
            and _ambient() == self._ambient
        )

    def changed(self):
        """Names of what is another now, where it has a name."""
        watched = [w for w in (*self._words, *self._watched) if isinstance(w, Names)]
        return list(dict.fromkeys(str(n) for w in watched for n in w.changed()))

    def numbers_changed(self):
        """True if a number of the optimizer is another now that the plan does not read in every step."""
        return any(n in NUMBERS for w in self._words for n in w.changed())

    def are_same_types(self):
        """True if the parameters have the element types and shapes that they had, which differ only where somebody
        gave them other memory."""
        return self._types_now() == self._types


def _is_module(value):
    return isinstance(value, torch.nn.Module)


def _hooks_of_steps(optimizer):
    """The dictionaries of hooks that optimizer.step() calls; raises Error for hooks that a plan would not call."""
    found = [optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks]
    for hook in (h for hooks in found for h in hooks.values()):
        if not getattr(hook, "is_of_a_plan", False):
            raise Error("hooks of optimizer.step() are not called by msc.train_step: remove them")
    return found
