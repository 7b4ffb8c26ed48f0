"""Parameters that a plan trains in; out come .grad of theirs that tell, when used, that a plan keeps no gradients."""

import torch

from msc.ops import Error

_WHY = (
    "{}: the plan of msc.train_step keeps no gradients, and has made the update already; clip_norm= clips them, "
    "micro_size= adds up those of parts of a batch; before a backward of your own call optimizer.zero_grad()"
)
# What zero_grad() does with a gradient, and what is asked of a tensor without looking at its elements.
_NOTHING = {"zero_", "detach_", "requires_grad_", "_foreach_zero_", "__set__"}
_SAME = {"to", "double", "float", "half", "bfloat16", "cpu", "type", "share_memory_", "contiguous"}
_ASKED = {
    "grad_fn", "grad", "device", "dtype", "shape", "layout", "requires_grad", "names", "ndim", "size", "stride", "dim",
    "storage_offset", "untyped_storage", "numel", "nelement", "data_ptr", "output_nr", "dense_dim", "sparse_dim",
    "_base", "_version", "_grad_fn", "_backward_hooks", "__hash__", "__len__", "element_size",
    "_has_compatible_shallow_copy_type",
}


class NoGradient(torch.Tensor):
    """Stands where a gradient would; it takes no memory."""

    @classmethod
    def __torch_function__(cls, function, _, args=(), words=None):
        name = function.__self__.__name__ if function.__name__ == "__get__" else function.__name__
        if name in _NOTHING:
            return None if name == "__set__" else args[0]
        if name in _SAME:
            return args[0]
        if name in _ASKED or name.startswith(("is_", "_is")):
            with torch._C.DisableTorchFunctionSubclass():
                return function(*args, **(words or {}))
        raise Error(_WHY.format(f".grad was given to {name}"))

    @classmethod
    def __torch_dispatch__(cls, function, _, args=(), __=None):
        if function._schema.name in ("aten::detach", "aten::alias"):
            return args[0]
        raise Error(_WHY.format(f"backward() adds to .grad by {function._schema.name.rpartition(':')[2]}"))

    def __repr__(self):
        return "NoGradient()"


class NoGradients:
    """The gradients that an optimizer's parameters have not."""

    def __init__(self, optimizer):
        self._all = [(p, _for(p)) for g in optimizer.param_groups for p in g["params"] if p.requires_grad]
        self._first = self._all[0][0] if self._all else None

    def put(self):
        """Puts them where zero_grad() has left nothing."""
        if self._first is not None and self._first.grad is None:
            for p, missing in self._all:
                if p.grad is None:
                    p.grad = missing

    def take(self):
        """Takes them away."""
        for p, missing in self._all:
            if p.grad is missing:
                p.grad = None


def _for(p):
    return torch.zeros((), dtype=p.dtype).expand(p.shape).as_subclass(NoGradient)


def refuse(optimizer):
    """Raises Error if an optimizer is to make a step with gradients that no plan keeps."""
    if any(isinstance(p.grad, NoGradient) for g in optimizer.param_groups for p in g["params"]):
        raise Error("msc.train_step has made the update already: the loop has only to call it, not optimizer.step()")
