"""A module whose parameters are elsewhere in; out comes one that has them brought whenever somebody looks at it."""

import copy


class _Live(dict):
    """A module's dictionary of parameters or buffers that calls `look` before it is read; copied or saved it is a
    plain one."""

    def __init__(self, own, look):
        super().__init__(own)
        self._look = look

    def __getitem__(self, name):
        self._look()
        return super().__getitem__(name)

    def __iter__(self):
        self._look()
        return super().__iter__()

    def get(self, *words):
        self._look()
        return super().get(*words)

    def items(self):
        self._look()
        return super().items()

    def values(self):
        self._look()
        return super().values()

    def copy(self):
        self._look()
        return dict(dict.items(self))

    def __deepcopy__(self, memo):
        return copy.deepcopy(self.copy(), memo)

    def __reduce_ex__(self, _):
        return dict, (self.copy(),)


def watch(module, look):
    """Lets `look` be called before a parameter or buffer of the module or its parts is read there."""
    for m in module.modules():
        for name in ("_parameters", "_buffers"):
            if not isinstance(m.__dict__[name], _Live):
                m.__dict__[name] = _Live(m.__dict__[name], look)


def unwatch(module):
    for m in module.modules():
        for name in ("_parameters", "_buffers"):
            if isinstance(m.__dict__[name], _Live):
                m.__dict__[name] = dict(dict.items(m.__dict__[name]))
