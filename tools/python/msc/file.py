"""Nested dictionaries in, the bytes of a model.fbs out.

SCHEMA is ir/fbs/model.fbs, from a file that the build makes: per table its fields as (id, name, kind, default).  A kind
is a scalar (u8 i8 i32 u32 i64 u64 f64 bool), "str", a table's name, one of these in a list, or "AttrValue", the union,
whose value is a pair (table's name, dictionary).  A field that is absent from a dictionary, or None, is not written."""
import flatbuffers

from msc.ops import Error, made_by_build

_SCHEMA = made_by_build("schema.json")
VERSION = 1
IDENTIFIER = _SCHEMA["identifier"].encode()
DTYPES, ROLES = tuple(_SCHEMA["enums"]["DType"]), tuple(_SCHEMA["enums"]["Role"])
UNION = (None, *_SCHEMA["enums"]["AttrValue"][1:])
SCHEMA = {name: [tuple(field) for field in fields] for name, fields in _SCHEMA["tables"].items()}
ALIGN = {(table, field): align for table, field, align in _SCHEMA["align"]}
SIZES = {"bool": 1, "u8": 1, "i8": 1, "i32": 4, "u32": 4, "i64": 8, "u64": 8, "f64": 8}
_METHODS = {"bool": "Bool", "u8": "Uint8", "i8": "Int8", "i32": "Int32", "u32": "Uint32", "i64": "Int64",
            "u64": "Uint64", "f64": "Float64"}


def _fitting(kind, value):
    """The value, if a field of this kind can hold it."""
    if kind[0] in "iu" and kind in SIZES:
        bits = 8 * SIZES[kind] - (kind[0] == "i")
        if not isinstance(value, int) or not (-(1 << bits) if kind[0] == "i" else 0) <= value < 1 << bits:
            raise Error(
                f"{value!r} is not a whole number {'of' if kind[0] == 'i' else 'from 0 with'} {8 * SIZES[kind]} bits")
    return value


class _Writer:
    def __init__(self):
        self.builder = flatbuffers.Builder(4096)
        self.strings = {}

    def string(self, text):
        if text not in self.strings:
            self.strings[text] = self.builder.CreateString(text)
        return self.strings[text]

    def vector(self, kind, items, align):
        b = self.builder
        if kind == "u8":  # bytes
            b.StartVector(1, len(items), align)
            b.head -= len(items)
            b.Bytes[b.head:b.head + len(items)] = bytes(items)
            return b.EndVector()
        size = SIZES.get(kind, 4)
        if kind not in SIZES:
            items = [self.string(i) if kind == "str" else self.table(kind, i) for i in items]
        b.StartVector(size, len(items), max(size, align))
        push = getattr(b, "Prepend" + _METHODS[kind]) if kind in SIZES else b.PrependUOffsetTRelative
        for item in reversed(items):
            push(_fitting(kind, item))
        return b.EndVector()

    def child(self, table, name, kind, value):
        if kind == "AttrValue":
            return self.table(value[0], value[1])
        if kind == "str":
            return self.string(value)
        if kind[0] == "[":
            return self.vector(kind[1:-1], list(value), ALIGN.get((table, name), 1))
        return self.table(kind, value)

    def table(self, table, values):
        """Children first: the format is written from its end to its start."""
        b = self.builder
        fields = SCHEMA[table]
        unknown = set(values) - {f[1] for f in fields}
        if unknown:
            raise KeyError(f"{table} has no field {', '.join(sorted(unknown))}")
        ready = {}
        for number, name, kind, _ in fields:
            value = values.get(name)
            if value is not None and kind not in SIZES:
                ready[number] = self.child(table, name, kind, value)
                if kind == "AttrValue":
                    ready[number - 1] = UNION.index(value[0])
        b.StartObject(len(fields))
        for number, name, kind, default in sorted(fields, key=lambda f: -SIZES.get(f[2], 4)):
            value = ready.get(number, values.get(name))
            if value is None:
                continue
            if kind in SIZES:
                absent = float("nan") if kind == "f64" else default  # a float is always written: -0.0 equals 0.0
                getattr(b, f"Prepend{_METHODS[kind]}Slot")(number, _fitting(kind, value), absent)
            else:
                b.PrependUOffsetTRelativeSlot(number, value, 0)
        return b.EndObject()


def encode(model):
    """The bytes of a Model dictionary."""
    w = _Writer()
    w.builder.Finish(w.table("Model", model), file_identifier=IDENTIFIER)
    return bytes(w.builder.Output())
