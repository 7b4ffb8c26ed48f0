"""Names of a plan's parameters and state in; where the module and the optimizer keep these tensors out."""

import warnings

import torch

from msc.pytorch.optimizer import STATE


class Value:
    """A tensor of the module: a parameter or a buffer."""

    is_of_module = True

    def __init__(self, name, tensor):
        self.name, self._tensor = name, tensor

    def get(self):
        """The tensor; None: there is none yet."""
        return self._tensor.data

    def address(self):
        """Where its memory begins."""
        return self._tensor.data_ptr()

    def version(self):
        """A number that changes when somebody writes to the tensor."""
        return self._tensor._version

    def put(self, tensor):
        """Puts another tensor in its place."""
        self._tensor.data = tensor

    def fill(self, tensor):
        """Copies these elements into its memory."""
        with torch.no_grad():
            self._tensor.copy_(tensor)

    def move_to(self, tensor):
        """Moves it, with its elements, into the memory of `tensor`."""
        own = self.get()
        if own is not None:
            tensor.copy_(own)
        self.put(tensor)

    def refresh(self):
        """Makes visible what the last step left."""

    def forget(self):
        """Drops what the last step left."""


class _State(Value):
    """A tensor of the optimizer's state for some parameters, which have the same."""

    is_of_module = False

    def __init__(self, name, optimizer, parameters, key):
        self.name, self._optimizer, self._parameters, self._key = name, optimizer, parameters, key

    def get(self):
        return self._optimizer.state[self._parameters[0]].get(self._key)

    def place(self):
        """The dictionary that has it, under what, and what is there."""
        own = self._optimizer.state[self._parameters[0]]
        return own, self._key, own.get(self._key)

    def put(self, tensor):
        for p in self._parameters:
            self._optimizer.state[p][self._key] = tensor

    def fill(self, tensor):
        self.put(tensor.clone())


class _Steps(_State):
    """The number of steps, of which PyTorch keeps one for each parameter: on one rank it is copied when asked for."""

    _plan_has = None

    def get(self):
        found = {float(self._optimizer.state[p].get("step", 0)) for p in self._parameters}
        if len(found) > 1:
            warnings.warn(
                f"the optimizer has made {int(min(found))} steps with some parameters and {int(max(found))} with "
                f"others;"
                f" msc counts them together, and corrects the moments of all as after {int(max(found))}",
                stacklevel=6,
            )
        return torch.tensor(max(found)) if max(found) else None

    def put(self, tensor):
        for p in self._parameters:
            self._optimizer.state[p]["step"] = tensor.clone()

    def move_to(self, tensor):
        own = self.get()
        if own is not None:
            tensor.copy_(own)
        self._plan_has = tensor

    def refresh(self):
        if self._plan_has is not None:
            self.put(self._plan_has)

    def forget(self):
        self._plan_has = None


def values_of(module, optimizer, names):
    """[Value] of those names that the module or its optimizer has."""
    tensors = {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }
    found = [Value(n, tensors[n]) for n in names if n in tensors]
    keys = STATE[type(optimizer)]
    trained = []
    for name in names:
        owner, _, suffix = name.rpartition(".")
        if owner in tensors and name not in tensors and suffix in keys:
            found.append(_State(name, optimizer, [tensors[owner]], keys[suffix]))
            trained.append(tensors[owner])
    if "optimizer.step" in names and trained:
        found.append(_Steps("optimizer.step", optimizer, list(dict.fromkeys(trained)), "step"))
    return found
