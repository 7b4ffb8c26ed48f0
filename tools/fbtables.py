#!/usr/bin/env python3
"""fbtables.py IN.bfbs OUT.h|OUT.json: a compiled FlatBuffers schema in (flatc --schema --binary), C tables and
accessors out, or its tables, enumerations and identifier as JSON, for the Python package.

The .bfbs is itself a FlatBuffer; the few fields needed are read by hand, so nothing has to be installed."""
import json
import os
import re
import struct
import sys

# reflection.fbs, BaseType
(NONE, UTYPE, BOOL, BYTE, UBYTE, SHORT, USHORT, INT, UINT, LONG, ULONG, FLOAT, DOUBLE, STRING, VECTOR, OBJ,
 UNION) = range(
    17)
SCALARS = {  # base type: C type, loader, bytes
    BOOL: ("bool", "u8", 1), BYTE: ("int8_t", "i8", 1), UBYTE: ("uint8_t", "u8", 1), SHORT: ("int16_t", "i16", 2),
    USHORT: ("uint16_t", "u16", 2), INT: ("int32_t", "i32", 4), UINT: ("uint32_t", "u32", 4),
    LONG: ("int64_t", "i64", 8),
    ULONG: ("uint64_t", "u64", 8), FLOAT: ("float", "f32", 4), DOUBLE: ("double", "f64", 8)}


class Table:
    """One table of the .bfbs; the slot numbers used below are the ids in reflection.fbs."""

    def __init__(self, data, at):
        self.data, self.at = data, at

    def _load(self, form, at):
        return struct.unpack_from("<" + form, self.data, at)[0]

    def _slot(self, slot):
        vtable = self.at - self._load("i", self.at)
        place = 4 + 2 * slot
        offset = self._load("H", vtable + place) if place + 2 <= self._load("H", vtable) else 0
        return self.at + offset if offset else None

    def scalar(self, slot, form, default=0):
        at = self._slot(slot)
        return default if at is None else self._load(form, at)

    def _target(self, at):
        return at + self._load("I", at)

    def table(self, slot):
        at = self._slot(slot)
        return None if at is None else Table(self.data, self._target(at))

    def _text(self, at):
        return self.data[at + 4:at + 4 + self._load("I", at)].decode()

    def string(self, slot):
        at = self._slot(slot)
        return None if at is None else self._text(self._target(at))

    def tables(self, slot):
        at = self._slot(slot)
        if at is None:
            return []
        vector = self._target(at)
        return [Table(self.data, self._target(vector + 4 + 4 * i)) for i in range(self._load("I", vector))]


def snake(name):
    """CamelCase -> camel_case; DType -> dtype."""
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()


class Type:
    def __init__(self, t):
        self.base = t.scalar(0, "b")
        self.element = t.scalar(1, "b")
        self.index = t.scalar(2, "i", -1)


class Field:
    def __init__(self, f):
        self.name = f.string(0)
        self.type = Type(f.table(1))
        self.id = f.scalar(2, "H")
        self.offset = f.scalar(3, "H")
        self.default_integer = f.scalar(4, "q")
        self.default_real = f.scalar(5, "d")
        self.required = bool(f.scalar(7, "B"))
        attributes = {a.string(0): a.string(1) for a in f.tables(9)}
        self.force_align = int(attributes.get("force_align", "1"))


class Object:
    def __init__(self, o, prefix):
        self.name = o.string(0).split(".")[-1]
        self.c = f"{prefix}_{snake(self.name)}"
        self.fields = sorted((Field(f) for f in o.tables(1)), key=lambda f: f.id)
        self.is_struct = bool(o.scalar(2, "B"))
        self.align = o.scalar(3, "i")
        self.bytes = o.scalar(4, "i")


class Enum:
    def __init__(self, e, prefix):
        self.name = e.string(0).split(".")[-1]
        self.c = f"{prefix}_{snake(self.name)}"
        self.values = [(v.string(0), v.scalar(1, "q"), v.table(3)) for v in e.tables(1)]
        self.is_union = bool(e.scalar(2, "B"))


class Writer:
    def __init__(self, path):
        with open(path, "rb") as f:
            data = f.read()
        root = Table(data, struct.unpack_from("<I", data)[0])
        self.prefix = os.path.splitext(os.path.basename(path))[0]
        self.objects = [Object(o, self.prefix) for o in root.tables(0)]
        self.tables = [o for o in self.objects if not o.is_struct]
        self.enums = [Enum(e, self.prefix) for e in root.tables(1)]
        self.unions = [e for e in self.enums if e.is_union]
        self.identifier = root.string(2) or ""
        root_name = root.table(4).string(0).split(".")[-1]
        self.root = next(i for i, t in enumerate(self.tables) if t.name == root_name)
        self.lines, self.writers = [], []
        self.names = set()
        if len(self.identifier) != 4:
            sys.exit(f"{path}: schema has no file_identifier")

    def emit(self, text=""):
        self.lines.append(text)

    def function(self, result, name, arguments, body):
        if name in self.names:
            sys.exit(f"{self.prefix}.fbs: two accessors would be called {name}; rename a field")
        self.names.add(name)
        lines = self.writers if arguments.startswith("flatbuf_builder") else self.lines
        lines.append(f"static inline {result}{'' if result.endswith('*') else ' '}{name}({arguments}) {{ {body} }}")

    def number(self, object_index):
        return self.tables.index(self.objects[object_index])

    # ---- tables for the verifier ----

    def row(self, f):
        """(kind, align, bytes, target) of one field."""
        t = f.type
        if t.base == UTYPE:
            return "UNION_TYPE", 1, 1, 0
        if t.base in SCALARS:
            return "SCALAR", SCALARS[t.base][2], SCALARS[t.base][2], 0
        if t.base == STRING:
            return "STRING", 1, 1, 0
        if t.base == OBJ:
            o = self.objects[t.index]
            return ("STRUCT", o.align, o.bytes, 0) if o.is_struct else ("TABLE", 4, 4, self.number(t.index))
        if t.base == UNION:
            return "UNION", 4, 4, self.unions.index(self.enums[t.index])
        if t.base == VECTOR and t.element in SCALARS:
            size = SCALARS[t.element][2]
            return "SCALARS", max(size, f.force_align), size, 0
        if t.base == VECTOR and t.element == STRING:
            return "STRINGS", 4, 4, 0
        if t.base == VECTOR and t.element == OBJ:
            o = self.objects[t.index]
            return ("STRUCTS", max(o.align, f.force_align), o.bytes, 0) if o.is_struct else ("TABLES", 4, 4,
                self.number(t.index))
        sys.exit(f"{self.prefix}.fbs: field {f.name}: this kind of field is not supported")

    def write_schema(self):
        for t in self.tables:
            rows = {f.id: f for f in t.fields}
            self.emit(f"static const flatbuf_field {t.c}_fields[] = {{")
            for i in range(max(rows, default=-1) + 1):
                if i not in rows:
                    self.emit('  {"", FLATBUF_NONE, 0, 0, 0, false},')
                    continue
                kind, align, size, target = self.row(rows[i])
                self.emit(
                    f'  {{"{rows[i].name}", FLATBUF_{kind}, {align}, {size}, {target}, '
                    f'{str(rows[i].required).lower()}}},')
            if not rows:
                self.emit('  {"", FLATBUF_NONE, 0, 0, 0, false},')
            self.emit("};")
        for u in self.unions:
            members = [self.number(ty.scalar(2, "i", -1)) if value else 0 for _, value, ty in u.values]
            if [value for _, value, _ in u.values] != list(range(len(members))):
                sys.exit(f"{self.prefix}.fbs: union {u.name}: values must be 0, 1, 2, ...")
            self.emit(f"static const uint16_t {u.c}_members[] = {{{', '.join(map(str, members))}}};")
        self.emit(f"static const flatbuf_table {self.prefix}_tables[] = {{")
        for t in self.tables:
            self.emit(f'  {{"{t.name}", {max((f.id for f in t.fields), default=-1) + 1}, {t.c}_fields}},')
        self.emit("};")
        unions = [f"{{{len(u.values)}, {u.c}_members}}" for u in self.unions] or ["{0, NULL}"]
        self.emit(f"static const flatbuf_union {self.prefix}_unions[] = {{{', '.join(unions)}}};")
        self.emit(
            f'static const flatbuf_schema {self.prefix}_schema = {{"{self.identifier}", {self.root}, '
            f'{self.prefix}_tables, {self.prefix}_unions}};')
        self.emit()

    def write_enums(self):
        for e in self.enums:
            names = ", ".join(f"{e.c.upper()}_{snake(name).upper()} = {value}" for name, value, _ in e.values)
            self.emit(f"enum {{ {names} }};")
        self.emit()

    def write_structs(self):
        for o in self.objects:
            if not o.is_struct:
                self.emit(f"typedef struct {{ const uint8_t *at; }} {o.c};")
                continue
            members = []
            end = 0
            for f in o.fields:
                if f.type.base not in SCALARS:
                    sys.exit(f"{self.prefix}.fbs: struct {o.name}: only scalar members are supported")
                kind, _, size = SCALARS[f.type.base]
                if f.offset > end:
                    members.append(f"uint8_t pad{end}[{f.offset - end}];")
                members.append(f"{kind} {f.name};")
                end = f.offset + size
            if end < o.bytes:
                members.append(f"uint8_t pad{end}[{o.bytes - end}];")
            self.emit(f"typedef struct {{ {' '.join(members)} }} {o.c};")
            self.emit(f'_Static_assert(sizeof({o.c}) == {o.bytes}, "layout of struct {o.name}");')
        self.emit()

    # ---- accessors ----

    def default(self, f):
        kind = f.type.base
        if kind in (FLOAT, DOUBLE):
            return repr(f.default_real)
        if kind == BOOL:
            return "true" if f.default_integer else "false"
        return f"{f.default_integer}{'u' if kind in (UINT, ULONG) else ''}{'ll' if kind in (LONG, ULONG) else ''}"

    def write_table(self, index, t):
        where = str(index)
        self.emit(f"/* {t.name} */")
        if index == self.root:
            self.function(t.c, f"{t.c}_root", "const void *data", f"return ({t.c}){{flatbuf_root(data)}};")
        self.function("void", f"{t.c}_begin", "flatbuf_builder *b",
                      f"flatbuf_begin(b, &{self.prefix}_schema, {index});")
        for f in t.fields:
            kind = self.row(f)[0]
            getattr(self, "kind_" + kind.lower())(t, f, f"{t.c}_{snake(f.name)}", f"{t.c} t", where)
        self.emit()

    def has(self, f, name, arg):
        self.function("bool", f"has_{name}", arg, f"return flatbuf_inline(t.at, {f.id}) != NULL;")

    def put_name(self, t, f, verb="put"):
        return f"{t.c}_{verb}_{snake(f.name)}"

    def kind_scalar(self, t, f, name, arg, where):
        c, load, _ = SCALARS[f.type.base]
        default = self.default(f)
        truth = " != 0" if c == "bool" else ""
        self.function(c, name, arg,
                      f"const uint8_t *p = flatbuf_inline(t.at, {f.id}); return p ? flatbuf_load_{load}(p){truth} : "
                      f"{default};")
        # -0.0 equals its default and is not it
        unless = "" if f.type.base in (FLOAT, DOUBLE) else f"if (v != {default}) "
        self.function("void", self.put_name(t, f), f"flatbuf_builder *b, {c} v",
                      f"{unless}flatbuf_put(b, {where}, {f.id}, &v);")

    def kind_union_type(self, t, f, name, arg, where):
        self.function("uint8_t", name, arg, f"const uint8_t *p = flatbuf_inline(t.at, {f.id}); return p ? *p : 0;")

    def kind_struct(self, t, f, name, arg, where):
        c = self.objects[f.type.index].c
        self.has(f, name, arg)
        self.function(c, name, arg,
                      f"{c} v; memset(&v, 0, sizeof v); const uint8_t *p = flatbuf_inline(t.at, {f.id}); if (p) "
                      f"memcpy(&v, p, sizeof v); return v;")
        self.function("void", self.put_name(t, f), f"flatbuf_builder *b, {c} v",
                      f"flatbuf_put(b, {where}, {f.id}, &v);")

    def kind_string(self, t, f, name, arg, where):
        self.function("const char *", name, arg,
                      f"const uint8_t *p = flatbuf_follow(t.at, {f.id}); return p ? (const char *)p + 4 : NULL;")
        self.function("uint32_t", f"{name}_len", arg, f"return flatbuf_length(flatbuf_follow(t.at, {f.id}));")
        self.function("void", self.put_name(t, f), "flatbuf_builder *b, const char *text",
                      f"if (text) flatbuf_put_string(b, {where}, {f.id}, text, strlen(text));")

    def kind_table(self, t, f, name, arg, where):
        target = self.objects[f.type.index]
        self.has(f, name, arg)
        self.function(target.c, name, arg, f"return ({target.c}){{flatbuf_follow(t.at, {f.id})}};")
        self.function("void", self.put_name(t, f, "begin"), "flatbuf_builder *b",
                      f"flatbuf_begin_field(b, {where}, {f.id}, {self.number(f.type.index)});")

    def kind_union(self, t, f, name, arg, where):
        union = self.enums[f.type.index]
        self.function("flatbuf_any", name, arg, f"return (flatbuf_any){{flatbuf_follow(t.at, {f.id})}};")
        for member, value, ty in union.values[1:]:
            target = self.objects[ty.scalar(2, "i", -1)]
            self.function(target.c, f"{name}_{snake(member)}", arg,
                          f"return ({target.c}){{{name}_type(t) == {value} ? flatbuf_follow(t.at, {f.id}) : NULL}};")
            self.function("void", f"{self.put_name(t, f, 'begin')}_{snake(member)}", "flatbuf_builder *b",
                          f"uint8_t type = {value}; flatbuf_put(b, {where}, {f.id - 1}, &type); "
                          f"flatbuf_begin_field(b, {where}, {f.id}, {self.number(ty.scalar(2, 'i', -1))});")

    def num(self, f, name, arg):
        self.has(f, name, arg)
        self.function("uint32_t", f"{name}_num", arg, f"return flatbuf_length(flatbuf_follow(t.at, {f.id}));")

    def kind_scalars(self, t, f, name, arg, where):
        c, load, size = SCALARS[f.type.element]
        c = "uint8_t" if c == "bool" else c
        self.num(f, name, arg)
        self.function(c, name, f"{arg}, uint32_t i",
                      f"const uint8_t *p = flatbuf_follow(t.at, {f.id}); return i < flatbuf_length(p) ? "
                      f"flatbuf_load_{load}(p + 4 + {size} * (size_t)i) : 0;")
        self.function(f"const {c} *", f"{name}_data", arg,
                      f"const uint8_t *p = flatbuf_follow(t.at, {f.id}); return p ? (const {c} *)(const void *)(p + "
                      f"4) : NULL;")
        self.function("void", self.put_name(t, f), f"flatbuf_builder *b, size_t num, const {c} *v",
                      f"flatbuf_put_vector(b, {where}, {f.id}, num, v);")

    def kind_structs(self, t, f, name, arg, where):
        c = self.objects[f.type.index].c
        self.num(f, name, arg)
        self.function(c, name, f"{arg}, uint32_t i",
                      f"{c} v; memset(&v, 0, sizeof v); const uint8_t *p = flatbuf_follow(t.at, {f.id}); "
                      f"if (i < flatbuf_length(p)) memcpy(&v, p + 4 + sizeof v * (size_t)i, sizeof v); return v;")
        self.function(f"const {c} *", f"{name}_data", arg,
                      f"const uint8_t *p = flatbuf_follow(t.at, {f.id}); return p ? (const {c} *)(const void *)(p + "
                      f"4) : NULL;")
        self.function("void", self.put_name(t, f), f"flatbuf_builder *b, size_t num, const {c} *v",
                      f"flatbuf_put_vector(b, {where}, {f.id}, num, v);")

    def kind_strings(self, t, f, name, arg, where):
        self.num(f, name, arg)
        self.function("const char *", name, f"{arg}, uint32_t i",
                      f"const uint8_t *p = flatbuf_element(flatbuf_follow(t.at, {f.id}), i); return p ? (const char "
                      f"*)p + 4 : NULL;")
        self.function("uint32_t", f"{name}_len", f"{arg}, uint32_t i",
                      f"return flatbuf_length(flatbuf_element(flatbuf_follow(t.at, {f.id}), i));")
        self.function("void", self.put_name(t, f), "flatbuf_builder *b, size_t num, const char *const *text",
                      f"flatbuf_put_strings(b, {where}, {f.id}, num, text);")

    def kind_tables(self, t, f, name, arg, where):
        c = self.objects[f.type.index].c
        self.num(f, name, arg)
        self.function(c, name, f"{arg}, uint32_t i",
                      f"return ({c}){{flatbuf_element(flatbuf_follow(t.at, {f.id}), i)}};")
        self.function("void", self.put_name(t, f, "begin"), "flatbuf_builder *b",
                      f"flatbuf_begin_list(b, {where}, {f.id});")

    def write(self):
        guard = f"MSC_{self.prefix.upper()}_FBS_H"
        self.emit(f"/* made from {self.prefix}.fbs by tools/fbtables.py */")
        self.emit(f"#ifndef {guard}\n#define {guard}\n\n#include \"ir/fbs/flatbuf.h\"\n")
        self.write_schema()
        self.write_enums()
        self.write_structs()
        for i, t in enumerate(self.tables):
            self.write_table(i, t)
        self.emit("/* ---- writing: for files that include ir/fbs/flatbuf_build.h before this one ---- */")
        self.emit("#ifdef MSC_IR_FLATBUF_BUILD_H\n")
        self.lines += self.writers
        self.emit("\n#endif\n#endif")
        return "\n".join(self.lines) + "\n"


KINDS = {
    BOOL: "bool", BYTE: "i8", UBYTE: "u8", UTYPE: "u8", INT: "i32", UINT: "u32", LONG: "i64",
    ULONG: "u64", DOUBLE: "f64",
    STRING: "str"}


def kind_of(schema, t):
    """A field's kind as tools/python/msc/file.py names it."""
    if t.base == VECTOR:
        return f"[{schema.objects[t.index].name if t.element == OBJ else KINDS[t.element]}]"
    if t.base == OBJ:
        return schema.objects[t.index].name
    return schema.enums[t.index].name if t.base == UNION else KINDS[t.base]


def json_of(schema):
    """A line per table and enumeration: fields as [id, name, kind, default], and those whose elements are aligned."""
    tables = {t.name: [[f.id, f.name, kind_of(schema, f.type), f.default_integer] for f in t.fields]
              for t in schema.tables}
    align = [[t.name, f.name, f.force_align] for t in schema.tables for f in t.fields if f.force_align > 1]
    enums = {e.name: [name for name, _, _ in e.values] for e in schema.enums}
    lines = [f'"identifier": {json.dumps(schema.identifier)}', f'"align": {json.dumps(align)}']
    for what, rows in (("tables", tables), ("enums", enums)):
        body = ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
        lines.append(f'"{what}": {{\n{body}\n}}')
    return "{" + ",\n".join(lines) + "}\n"


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: fbtables.py IN.bfbs OUT.h|OUT.json")
    schema = Writer(sys.argv[1])
    text = json_of(schema) if sys.argv[2].endswith(".json") else schema.write()
    with open(sys.argv[2], "w") as out:
        out.write(text)


if __name__ == "__main__":
    main()
