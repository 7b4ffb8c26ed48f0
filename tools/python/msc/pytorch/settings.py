"""Modules and a loss in; out come the numbers, names, lists, objects and tensors that Python code reads there, and
whether they are the same still."""

import functools
import sys
import types
from operator import itemgetter

import torch

_PLAIN = frozenset((bool, int, float, str, bytes, complex, type(None), torch.dtype, torch.device, torch.Size))
_OF_EVERY_MODULE = frozenset(torch.nn.Module().__dict__) - {"training"}
_MOST = 256  # entries of a list or dictionary that is a setting: larger ones are data
_DEPTH = 4


class Names:
    """What stands under some names of a dictionary; `absent`: names under which nothing stands."""

    def __init__(self, dictionary, names, absent=frozenset(), values=None):
        values = dictionary if values is None else values
        self._all, self._absent = dictionary, absent
        plain = [n for n in names if _is_plain(values[n])]
        self._read = itemgetter(*plain, *plain[:1]) if plain else None  # two names at least: a tuple
        self._plain, self._values = plain, self._read(values) if plain else ()
        self._objects = [(n, values[n]) for n in names if n not in set(plain)]

    def are_same(self):
        try:
            return (
                (not self._read or self._read(self._all) == self._values)
                and all([_is_same(self._all[n], v) for n, v in self._objects])
                and self._absent.isdisjoint(self._all)
            )
        except KeyError:
            return False

    def changed(self):
        """The names under which something else stands."""
        before = dict(zip(self._plain, self._values), **dict(self._objects))
        return [n for n, v in before.items() if n not in self._all or not _is_equal(self._all[n], v)]


def _is_equal(now, before):
    return now == before if _is_plain(now) and _is_plain(before) else _is_same(now, before)


def _is_plain(value):
    return type(value) in _PLAIN or (type(value) is tuple and all(type(v) in _PLAIN for v in value))


def _is_same(now, before):
    """Tensors are, if they hold the same: a module may make what it keeps anew."""
    if now is before:
        return True
    both = isinstance(now, torch.Tensor) and isinstance(before, torch.Tensor)
    return both and now.dtype == before.dtype and torch.equal(now, before)


class _Items:
    """What a list, a set or a variable of an enclosing function holds."""

    def __init__(self, holder):
        self._holder, self._held = holder, list(_items(holder))

    def are_same(self):
        now = list(_items(self._holder))
        return len(now) == len(self._held) and all([
            a is b or (type(a) in _PLAIN and type(a) is type(b) and a == b) for a, b in zip(now, self._held)
        ])


def _items(holder):
    if not isinstance(holder, types.CellType):
        return holder
    try:
        return (holder.cell_contents,)
    except ValueError:  # nothing is there yet
        return ()


def _is_own(name):
    """True for a Python module of the user's, or of a package of networks: neither PyTorch's nor Python's, but for the
    classes of plain namespaces."""
    root = (name or "").partition(".")[0]
    is_known = root == "torch" or root in sys.stdlib_module_names
    return not is_known or name in ("__main__", "types", "argparse")


class Settings:
    """All that can be reached from attributes of modules and from a loss, but for parameters, buffers and parts."""

    def __init__(self, modules, loss):
        self._modules = [(m, dict(m.__dict__)) for m in modules]
        self._watches, self._tensors = {}, {}  # by id
        self._reached = {}  # (id of a module, name) or id of what holds something -> ids of what is reached from there
        for m, values in self._modules:
            for name, value in values.items():
                if name not in _OF_EVERY_MODULE:
                    self._visit(value, (id(m), name), _DEPTH)
            for tensor in dict.values(m._buffers):
                self._visit(tensor, "buffers", 1)
        for forward in dict.fromkeys(type(m).forward for m in modules):
            self._visit(forward, "functions", _DEPTH)
        self._visit(loss, "functions", _DEPTH)

    def _visit(self, value, source, depth):
        if type(value) in _PLAIN or not depth:
            return
        self._reached.setdefault(source, []).append(id(value))
        if id(value) in self._watches or id(value) in self._tensors:
            return
        if isinstance(value, torch.Tensor):
            if not isinstance(value, torch.nn.Parameter):
                self._tensors[id(value)] = value
        elif isinstance(value, dict):
            self._in_dictionary(value, value, depth)
        elif isinstance(value, (list, tuple, set, frozenset, types.CellType)):
            self._in_sequence(value, depth)
        elif isinstance(value, types.FunctionType):
            self._in_function(value, depth)
        elif isinstance(value, types.MethodType):
            self._parts(value, (value.__self__, value.__func__), depth)
        elif isinstance(value, functools.partial):
            self._parts(value, (value.func, value.args, value.keywords), depth)
        elif not isinstance(value, (type, torch.nn.Module)) and _is_own(type(value).__module__):
            self._in_dictionary(value, getattr(value, "__dict__", {}), depth)

    def _parts(self, value, parts, depth):
        self._watches[id(value)] = None
        for part in parts:
            self._visit(part, id(value), depth - 1)

    def _in_dictionary(self, value, entries, depth):
        if len(entries) <= _MOST:
            names = list(entries)
            self._watches[id(value)] = Names(entries, names) if names else None
            for v in entries.values():
                self._visit(v, id(value), depth - 1)

    def _in_sequence(self, value, depth):
        items = _items(value)
        if len(items) <= _MOST:
            self._watches[id(value)] = _Items(value)
            for v in items:
                self._visit(v, id(value), depth - 1)

    def _in_function(self, value, depth):
        if not _is_own(value.__module__):
            return
        known = value.__globals__
        names = [n for n in value.__code__.co_names if type(known.get(n)) in _PLAIN and n in known]
        self._watches[id(value)] = Names(known, names) if names else None
        for cell in value.__closure__ or ():
            self._visit(cell, id(value), depth)

    def _found(self, reads):
        """Ids of all that is reached from attributes that are among `reads`, or from all where that is None."""
        found, new = set(), [s for s in self._reached if not isinstance(s, int) and _is_read(s, reads)]
        while new:
            for i in self._reached.get(new.pop(), ()):
                if i not in found:
                    found.add(i)
                    new.append(i)
        return found

    def restore(self):
        """Puts lists and dictionaries back for which torch.export has put copies in their places."""
        for m, values in self._modules:
            for name, value in values.items():
                if isinstance(value, (dict, list, tuple, set)) and name not in _OF_EVERY_MODULE:
                    if name in m.__dict__ and m.__dict__[name] is not value:
                        m.__dict__[name] = value

    def watched(self, reads=None):
        """What is to be asked: are_same()?"""
        out, read = [], {}
        for module, name in reads or ():
            read.setdefault(module, set()).add(name)
        for m, values in self._modules:
            names = [n for n in values if n not in _OF_EVERY_MODULE and (reads is None or n in read.get(id(m), ()))]
            absent = frozenset(n for n in read.get(id(m), ()) if n not in values)
            if names or absent:
                out.append(Names(m.__dict__, names, absent, values))
        found = self._found(reads)
        return out + [w for i, w in self._watches.items() if i in found and w is not None]

    def tensors(self, reads=None):
        """Buffers, and tensors that are no part of a module."""
        found = self._found(reads)
        return [t for i, t in self._tensors.items() if i in found]


def _is_read(source, reads):
    return reads is None or not isinstance(source, tuple) or source in reads
