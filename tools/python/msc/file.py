"""Nested dictionaries in, the bytes of a model.fbs out: FlatBuffers, written from start to end.

SCHEMA is ir/fbs/model.fbs, from a file that the build makes: per table its fields as (id, name, kind, default).  A kind
is a scalar (u8 i8 i32 u32 i64 u64 f64 bool), "str", a table's name, one of these in a list, or "AttrValue", the union,
whose value is a pair (table's name, dictionary).  A field that is absent from a dictionary, or None, is not written."""
import functools
import struct

from msc.ops import Error, made_by_build

_SCHEMA = made_by_build("schema.json")
VERSION = 1
IDENTIFIER = _SCHEMA["identifier"].encode()
DTYPES, ROLES = tuple(_SCHEMA["enums"]["DType"]), tuple(_SCHEMA["enums"]["Role"])
UNION = (None, *_SCHEMA["enums"]["AttrValue"][1:])
SCHEMA = {name: [tuple(field) for field in fields] for name, fields in _SCHEMA["tables"].items()}
ALIGN = {(table, field): align for table, field, align in _SCHEMA["align"]}
SIZES = {"bool": 1, "u8": 1, "i8": 1, "i32": 4, "u32": 4, "i64": 8, "u64": 8, "f64": 8}
_CODES = {"bool": "?", "u8": "B", "i8": "b", "i32": "i", "u32": "I", "i64": "q", "u64": "Q", "f64": "d"}
_LIMIT = (1 << 31) - 1  # of what offsets reach
_U32 = struct.Struct("<I")


def _check(kind, value):
    """Raises Error if a field of this kind cannot hold the value."""
    if kind[0] in "iu":
        bits = 8 * SIZES[kind] - (kind[0] == "i")
        if not isinstance(value, int) or not (-(1 << bits) if kind[0] == "i" else 0) <= value < 1 << bits:
            raise Error(
                f"{value!r} is not a whole number {'of' if kind[0] == 'i' else 'from 0 with'} {8 * SIZES[kind]} bits")


def _packed(code, kinds, values):
    """The bytes of scalars; Error for the first that does not fit."""
    try:
        return struct.pack(code, *values)
    except (struct.error, OverflowError):
        for kind, value in zip(kinds, values):
            _check(kind, value)
        raise


@functools.lru_cache(maxsize=None)
def _fields(table):
    """(name, kind, default, is it a scalar, id) of a table's fields, in the order in which they are laid out: offsets
    and scalars of 4 bytes behind the table's own offset, those of 8 bytes, single bytes."""
    order = {4: 0, 8: 1, 1: 2}
    found = [(name, kind, default, kind in SIZES, number) for number, name, kind, default in SCHEMA[table]]
    return sorted(found, key=lambda f: order[SIZES.get(f[1], 4)])


@functools.lru_cache(maxsize=None)
def _layout(table, present):
    """Of a table that has these fields (name, is it a union): the vtable, the format of the table, and the places in it
    of the offsets to what lies elsewhere."""
    slots, code, at, places = {}, "<i", 4, []
    by_name = {name: (kind, number) for name, kind, _, _, number in _fields(table)}
    units = [(*by_name[name], name) for name in present]
    units += [("u8", number - 1, None) for kind, number, _ in units if kind == "AttrValue"]  # which member it is
    for kind, number, name in units:
        size = SIZES.get(kind, 4)
        code += "x" * (-at % size) + _CODES.get(kind, "I")
        at += -at % size
        slots[number] = at
        if kind not in SIZES:
            places.append((at, name, kind))
        at += size
    num = max(slots, default=-1) + 1
    head = struct.pack("<HH", 4 + 2 * num, at) + b"".join(struct.pack("<H", slots.get(i, 0)) for i in range(num))
    return head, code, tuple(places)


class _Writer:
    """Everything lies behind what refers to it, but for vtables, which lie before."""

    def __init__(self):
        self.out = bytearray(4) + IDENTIFIER  # the offset of the root
        self._vtables = {}  # vtable -> where it lies
        self._strings = {}  # text -> places of offsets to it

    def pad(self, align, before=0):
        """Fills up so that what lies `before` bytes further on is aligned."""
        self.out += bytes(-(len(self.out) + before) % align)

    def refer(self, at):
        """Lets the offset at this place lead to the end of what is written."""
        _U32.pack_into(self.out, at, len(self.out) - at)

    def child(self, at, table, name, kind, value):
        """Writes what the offset at this place leads to."""
        if kind == "str":
            self._strings.setdefault(value, []).append(at)
        elif kind == "AttrValue":
            self.table(at, value[0], value[1])
        elif kind[0] == "[":
            self.vector(at, kind[1:-1], value, ALIGN.get((table, name), 1))
        else:
            self.table(at, kind, value)

    def vector(self, at, kind, items, align):
        items = items if isinstance(items, (bytes, list, tuple)) else list(items)
        self.pad(max(SIZES.get(kind, 4), align, 4), 4)
        self.refer(at)
        self.out += _U32.pack(len(items))
        if kind == "u8":
            self.out += bytes(items)
        elif kind in SIZES:
            self.out += _packed(f"<{len(items)}{_CODES[kind]}", [kind] * len(items), items)
        else:
            first = len(self.out)
            self.out += bytes(4 * len(items))
            for i, item in enumerate(items):
                self.child(first + 4 * i, None, None, kind, item)

    def table(self, at, table, values):
        present, scalars, kinds, members, known = [], [0], [None], [], 0
        for name, kind, default, is_scalar, _ in _fields(table):
            value = values.get(name)
            known += name in values
            # a float is always written: -0.0 equals 0.0
            if value is None or is_scalar and value == default and kind != "f64":
                continue
            present.append(name)
            scalars.append(value if is_scalar else 0)
            kinds.append(kind if is_scalar else None)
            if kind == "AttrValue":
                members.append(UNION.index(value[0]))
        if known < len(values):
            unknown = set(values) - {f[1] for f in SCHEMA[table]}
            raise KeyError(f"{table} has no field {', '.join(sorted(unknown))}")
        head, code, places = _layout(table, tuple(present))
        if head not in self._vtables:
            self.pad(2)
            self._vtables[head] = len(self.out)
            self.out += head
        self.pad(8)
        self.refer(at)
        start = len(self.out)
        scalars[0] = start - self._vtables[head]
        self.out += _packed(code, [k or "u32" for k in kinds] + ["u8"] * len(members), scalars + members)
        for place, name, kind in places:
            self.child(start + place, table, name, kind, values[name])

    def finish(self):
        for text, places in self._strings.items():
            self.pad(4)
            for at in places:
                self.refer(at)
            data = text.encode()
            self.out += _U32.pack(len(data)) + data + b"\0"
        if len(self.out) > _LIMIT:
            raise Error(f"the model has {len(self.out)} bytes; a file of at most 2 GiB is possible")
        return bytes(self.out)


def encode(model):
    """The bytes of a Model dictionary."""
    w = _Writer()
    w.table(0, "Model", model)
    return w.finish()
