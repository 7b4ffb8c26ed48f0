#!/usr/bin/env python3
"""The public headers and the shared libraries in; passes if programs built against the last release go on working with
them.  tests/tools/abi/LIBRARY.txt describes that release: its soname, functions with their types, where members of
structs lie, what constants are.  Functions, constants and, in structs that begin with struct_size, members at the end
may be added; all else needs another soname.  After a release `tests/tools/abi.test.py --update` describes it."""

import json
import os
import re
import subprocess
import sys
import tempfile

BUILD = os.path.dirname(os.path.abspath(os.environ.get("MSC", "build/msc")))
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "abi")
LIBRARIES = {"libmsc": "ir/msc.h", "libmscrt": "runtime/mscrt.h"}


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def own_nodes(tree, prefix):
    """Functions, enumerations, structs and names of types that the header declares."""
    return [n for n in tree["inner"] if re.match(prefix, n.get("name", "")) or n["kind"] in ("EnumDecl", "RecordDecl")]


def constants_of(node, prefix):
    return [c["name"] for c in node.get("inner", []) if c["kind"] == "EnumConstantDecl" and re.match(prefix, c["name"])]


def numbers_of(header, asked):
    """The values of C expressions."""
    with tempfile.TemporaryDirectory() as folder:
        source, program = os.path.join(folder, "numbers.c"), os.path.join(folder, "numbers")
        with open(source, "w") as f:
            lines = "".join(f'  printf("%lld\\n", (long long)({e}));\n' for e in asked)
            f.write(f'#include <stdio.h>\n#include "{header}"\nint main(void) {{\n{lines}  return 0;\n}}\n')
        subprocess.run(["cc", "-I.", source, "-o", program], check=True)
        return dict(zip(asked, output_of(program).split()))


def describe(library, header):
    """Lines of text: {what it is about: what it says}."""
    prefix = f"(?i:{library[3:]}_)"
    command = ["clang-19", "-x", "c", "-std=c11", "-I.", "-fsyntax-only", "-Xclang", "-ast-dump=json", header]
    nodes = own_nodes(json.loads(output_of(*command)), prefix)
    shared = os.path.join(BUILD, f"{library}.so")
    found = {"soname": re.search(r"SONAME.*\[(.*)\]", output_of("readelf", "-d", shared))[1]}
    exported = {line.split()[-1] for line in output_of("nm", "-D", "--defined-only", shared).splitlines()}
    for n in nodes:
        if n["kind"] == "FunctionDecl" and n.get("storageClass") != "static" and n["name"] in exported:
            found[f"function {n['name']}"] = n["type"]["qualType"]
    records = {n["id"]: n for n in nodes if n["kind"] == "RecordDecl" and n.get("completeDefinition")}
    wanted = {}  # what a line is about -> the C expression of its number, the text behind it
    for n in nodes:
        if n["kind"] == "TypedefDecl":
            own = [i.get("ownedTagDecl", i.get("decl", {})).get("id") for i in n.get("inner", [])]
            own += [j.get("decl", {}).get("id") for i in n.get("inner", []) for j in i.get("inner", [])]
            for record in (records[i] for i in own if i in records):
                name = n["name"]
                wanted[f"struct {name}"] = (f"sizeof({name})", "bytes")
                for field in (f for f in record["inner"] if f["kind"] == "FieldDecl"):
                    text = field["type"]["qualType"]
                    wanted[f"member {name}.{field['name']}"] = (f"offsetof({name}, {field['name']})", text)
        elif n["kind"] == "EnumDecl":
            wanted.update((f"constant {c}", (c, "")) for c in constants_of(n, prefix))
    numbers = numbers_of(header, [e for e, _ in wanted.values()])
    found.update((k, f"{numbers[e]} {text}".strip()) for k, (e, text) in wanted.items())
    return found


def may_change(name, before, now, described):
    """May this line of the last release be another one now, which is None if it is gone?"""
    if now is None:
        return False
    if re.match(r"constant \w*_NUM_", name):  # how many there are
        return int(now) >= int(before)
    if name.startswith("struct ") and described.get(f"member {name[7:]}.struct_size", "").startswith("0 "):
        return int(now.split()[0]) >= int(before.split()[0])
    return False


def faults(described, now):
    return [
        f"{name}: {before} -> {now.get(name, 'gone')}"
        for name, before in described.items()
        if now.get(name) != before and not may_change(name, before, now.get(name), described)
    ]


def read(path):
    with open(path) as f:
        return dict(line.rstrip("\n").split(": ", 1) for line in f)


def check_faults():
    """The comparison itself."""
    old = {"soname": "a.so.0", "function f": "int (int)", "struct s": "16 bytes", "member s.struct_size": "0 size_t",
           "member s.a": "8 int", "struct t": "8 bytes", "constant A_NUM_KINDS": "3", "constant A_B": "1"}
    assert not faults(old, {**old, "function g": "int (int)", "struct s": "24 bytes", "constant A_NUM_KINDS": "4"})
    for name, value in (("function f", "int (long)"), ("struct t", "16 bytes"), ("member s.a", "12 int"),
                        ("constant A_B", "2"), ("soname", "a.so.1"), ("struct s", "8 bytes")):
        assert len(faults(old, {**old, name: value})) == 1, name
        assert len(faults(old, {k: v for k, v in old.items() if k != name})) == 1, name


def main():
    if os.path.basename(BUILD) in ("asan", "tsan", "fuzz"):
        print("skipped: libraries with sanitizers are not for other programs")
        return 0
    check_faults()
    wrong = []
    for library, header in LIBRARIES.items():
        path, now = os.path.join(FOLDER, f"{library}.txt"), describe(library, header)
        assert sum(k.startswith("function ") for k in now) > 5 and sum(k.startswith("member ") for k in now) > 5, now
        if "--update" in sys.argv:
            with open(path, "w") as f:
                f.writelines(f"{k}: {v}\n" for k, v in now.items())
        wrong += [f"{library}: {fault}" for fault in faults(read(path), now)]
    print("\n".join(wrong) or "programs built against the last release go on working")
    if wrong:
        print("add instead of changing; or give the library a new soname, then tests/tools/abi.test.py --update")
    return 1 if wrong else 0


sys.exit(main())
