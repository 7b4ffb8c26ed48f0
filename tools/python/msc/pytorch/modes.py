"""A module and its optimizer in; what a plan depends on beside its inputs out."""

from operator import itemgetter

_PLAIN = frozenset((bool, int, float, str, type(None)))
_APART = ("params", "lr", "initial_lr")  # of a group of parameters: no plan depends on them


def _ids(objects):
    return tuple(map(id, objects))


class _Entries:
    """What stood under some names in dictionaries."""

    def __init__(self, dictionaries, is_wanted):
        names = [[n for n, v in d.items() if is_wanted(n, v)] for d in dictionaries]
        self._all, self._sizes = list(dictionaries), list(map(len, dictionaries))
        self._read = [(itemgetter(*n), d) for n, d in zip(names, dictionaries) if n]
        self.values = [read(d) for read, d in self._read]

    def are_same(self):
        """True if the same stands there now, and no name was added or removed."""
        try:
            return list(map(len, self._all)) == self._sizes and [read(d) for read, d in self._read] == self.values
        except KeyError:
            return False


class Modes:
    """The plain attributes of a module and its parts, which parameters are trained, and hyper-parameters, as they were
    when this was made.  A plan for a key is one for every equal key.

    are_same() is asked before every step, when the caches hold the step's tensors and little else: so it looks only
    where something was found at first."""

    def __init__(self, module, optimizer):
        self._optimizer, modules = optimizer, list(module.modules())
        self._attributes = _Entries([m.__dict__ for m in modules], lambda _, v: type(v) in _PLAIN)
        self._children = [c for m in modules for c in (m._modules, m._parameters)]
        self._num_children = list(map(len, self._children))
        self._some = [c for c in self._children if c]
        self._some_ids = [_ids(c.values()) for c in self._some]
        self._parameters = [p for m in modules for p in m._parameters.values() if p is not None]
        self._are_trained = [p.requires_grad for p in self._parameters]
        self._groups = list(optimizer.param_groups)
        self._words = _Entries(self._groups, lambda n, v: n not in _APART and (type(v) in _PLAIN or type(v) is tuple))
        said = tuple(str(v) for g in self._groups for n, v in g.items() if n not in _APART)
        self.key = tuple(self._attributes.values), tuple(zip(_ids(self._parameters), self._are_trained)), said

    def are_same(self):
        """True if they are the same now."""
        return (
            self._attributes.are_same()
            and list(map(len, self._children)) == self._num_children
            and [_ids(c.values()) for c in self._some] == self._some_ids
            and [p.requires_grad for p in self._parameters] == self._are_trained
            and _ids(self._optimizer.param_groups) == _ids(self._groups)
            and self._words.are_same()
        )
