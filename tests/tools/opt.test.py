#!/usr/bin/env python3
"""msc opt: its options, and what it says when a case's expectations are not met."""
import json
import os
import re
import resource
import subprocess

from expect import MSC, Expect, write

expect = Expect()


def module(body, name="f"):
    return (f'module {{\n  "msc.func"() ({{\n  ^bb0(%x: tensor<4xf32>):\n{body}    "msc.return"(%x) : (tensor<4xf32>) '
            f'-> ()\n  }}) {{sym_name = "{name}"}} : () -> ()\n}}\n')


NEG = '    %0 = "msc.neg"(%x) : (tensor<4xf32>) -> tensor<4xf32>\n'
write("dead.mlir", module(NEG))
write("bad.mlir", module('    %0 = "msc.neg"(%y) : (tensor<4xf32>) -> tensor<4xf32>\n'))

# Text in, text out; nothing is written when something is wrong.
expect("opt dead.mlir", 0, "", module(NEG))
expect("opt - --passes=dce", 0, "", module(""), stdin=module(NEG).encode())
expect("opt dead.mlir --passes dce -o out.mlir", 0, "", "")
expect.check("out.mlir", open("out.mlir").read() == module(""))
expect("opt bad.mlir -o bad.out", 1, "bad.mlir:4:20: error: value %y is not defined before this use [E0105]\n"
       '    4 |     %0 = "msc.neg"(%y) : (tensor<4xf32>) -> tensor<4xf32>\n      |                    ^\n', "")
expect("opt", 2, "msc opt: error: needs FILE.mlir (msc opt --help)\n", "")
expect("opt dead.mlir --verify=4", 2, "msc opt: error: --verify: levels are 0 to 3 (msc opt --help)\n", "")
expect("opt dead.mlir --passes=dce --from=cse", 2,
       "msc opt: error: --passes names all passes; --from and --until cannot be added (msc opt --help)\n", "")
expect("opt dead.mlir --passes=dec", 1, "msc: error: unknown pass 'dec'; did you mean 'dce'? [E0110]\n", "")
expect("opt absent.mlir", 1, "absent.mlir: error: cannot read: No such file or directory [E0112]\n", "")
expect("opt bad.mlir --max-memory 64k", 1,
       "msc: error: out of memory: the bound on the compiler's memory was reached [E0116]\n", "")

# What passes did.
expect("opt dead.mlir --passes=cse,dce --print-ir-after-change", 0, "// ---- after dce ----\n" + module(""), module(""))
expect("opt dead.mlir --passes=cse,dce --print-ir-after-all", 0,
       "// ---- after cse: unchanged ----\n// ---- after dce ----\n" + module(""), module(""))
expect(
    "opt dead.mlir --passes=dce --timing", 0, lambda text: ""
    if text.startswith("        ms  verify ms  pass\n") and "  dce: " in text and text.endswith("  all\n") else "table",
    module(""))
expect("opt dead.mlir --passes=dce --dump-dir=dump", 0, "", module(""))
expect.check(
    "dump",
    sorted(os.listdir("dump")) == ["000-input.mlir", "001-dce.mlir"] and open("dump/001-dce.mlir").read() == module(""))
before = open("dump/001-dce.mlir").read()
expect(
    "opt dump/001-dce.mlir --passes=dce --dump-dir=./dump", 1,
    "./dump: error: cannot dump here: 'dump/001-dce.mlir', the input of this command, is one of an earlier dump "
    "[E0112]\n",
    "")
expect.check("the dumped file is as it was", open("dump/001-dce.mlir").read() == before)
expect("opt dead.mlir --passes=dce --dump-dir=dead.mlir/x", 1,
       "dead.mlir/x: error: cannot make the folder: Not a directory [E0112]\n", "")
# A disk that takes no more is a fault of the machine; no part of a file stays.
for folder, limit in (("full", 0), ("cut", 64)):
    run = subprocess.run([MSC, "opt", "dead.mlir", "--passes=dce", f"--dump-dir={folder}"], capture_output=True,
                         preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)), text=True)
    expect.check(f"{folder}: {run.returncode} {run.stderr} {os.listdir(folder)}", run.returncode == 3 and
                 not os.listdir(folder) and
                 run.stderr == f"msc: error: {folder}/000-input.mlir: File too large [E0112]\n")
    os.rmdir(folder)
run = expect("opt dead.mlir --passes=dce --json")
printed = json.loads(run.stdout)
expect.check("json", printed["module"] == module("") and printed["passes"][0]["name"] == "dce")

# Execution before and after each pass.
write("random.mlir", module(NEG).replace('"msc.return"(%x)', '"msc.return"(%0)'))
expect("opt random.mlir --passes=cse,dce --check-numerics", 0, "", lambda text: ""
       if '"msc.return"(%0)' in text else "module")
write("large.mlir", open("random.mlir").read().replace("<4x", "<2000000000000000000x"))
expect("opt large.mlir --passes=dce --check-numerics", 0, "msc: warning: not executed: more than 50000000 operations\n")

# Tables.
expect("opt --list-passes", 0, "", lambda text: "" if " dce " in text else "dce")
# What is gone after a stage must not stand at its end; a list of passes may leave out the one that takes it away.
write("owned.mlir", module('    %0 = "msc.neg"(%x) {owner = "a"} : (tensor<4xf32>) -> tensor<4xf32>\n'))
expect("opt owned.mlir --from=budgets --until=budgets", 70,
       lambda text: "" if "owned.mlir:4:5: error: neg: owner still stands behind 3_shard" in text else "owner", "")
expect("opt owned.mlir --passes=budgets -o owned.out", 0, "", "")
for name in ("owned.mlir", "owned.out", "msc-repro.mlir"):
    os.unlink(name)
expect("opt --list-facts", 0, "", lambda text: ""
       if re.search(r"^max_bytes +op +user +- +a number of bytes: ", text, re.M) else "max_bytes")
expect(
    "opt --list-facts --json", 0, "", lambda text: "" if {"name": "stage", "on": "op func", "from": "4_partition"}.
    items() <= {r["name"]: r for r in json.loads(text)}["stage"].items() else "stage")
expect("opt --list-facts", 0, "", lambda text: "" if "; with forward, slots, train\n" in text and
       "bytes of the arena; on every function behind 8_memory\n" in text else "members and needs")
expect(
    "opt --list-facts --json", 0, "", lambda text: "" if {r["name"]: r for r in json.loads(text)}["place"]["needs"] ==
    [{"on": "comm", "behind": "8_memory"}, {"on": "gemm", "behind": "8_memory"}] else "needs of place")
expect(
    "opt --list-ops", 0, "", lambda text: "" if
    "\nmatmul (a b) -> (y) {transpose_a:bool=false transpose_b:bool=false} pure ; mk,kn->mn ; k:sum ; lin 0|1 ; "
    "grad_matmul\n"
    in text else "matmul")

tables = {key: json.loads(expect(f"opt --list-{key} --json", 0, "").stdout)[key] for key in ("passes", "ops")}
expect.check("passes as JSON", ("1_simplify", "dce", False)
             in [(row["stage"], row["name"], row["checkpoint"]) for row in tables["passes"]])
expect.check("ops as JSON",
             [op["rule"] for op in tables["ops"] if op["name"] == "matmul"] == ["mk,kn->mn ; k:sum ; lin 0|1"])

# Several modules in a file: each is read at its own lines, and what follows a faulty one is still done.
write("parts.mlir", module(NEG, "a") + "// -----\n" + module("", "b") + "// EXPECT\nanything")
expect(
    "opt parts.mlir", 1, lambda text: "" if text.startswith(
        "parts.mlir:9:1: error: expected the end of the text: it holds one module, not 'module' [E0101]\n") else
    "one module", "")
expect("opt parts.mlir --split-input-file --passes=dce", 0, "", module("", "a") + "// -----\n" + module("", "b"))
write("parts.mlir", module(NEG) + "// -----\n// expected-error @+4 {{value %y}}\n" + open("bad.mlir").read())
expect("opt parts.mlir --split-input-file --verify-diagnostics", 0, "", module(NEG))

# Expectations that are not met.
write(
    "more.mlir", "// expected-warning {{nothing}}\n" +
    module('    // expected-error @below {{other text}}\n    %0 = "msc.neg"(%y) : (tensor<4xf32>) -> tensor<4xf32>\n'))
expect(
    "opt more.mlir --verify-diagnostics --color=never", 1, lambda text: ""
    if [l for l in text.splitlines() if l.startswith("more")] == [
        "more.mlir:6:20: error: unexpected error: value %y is not defined before this use [E0105]",
        "more.mlir:1:4: error: this warning was not reported: nothing",
        "more.mlir:5:8: error: this error was not reported: other text"
    ] else "three differences", "")
write("form.mlir", "// expected-eror {{x}}\n// expected-error @+1 {x}\n" + module(NEG))
expect("opt form.mlir --verify-diagnostics", 1, lambda text: ""
       if text.count("not of the form expected-error @+1 {{text}}") == 2 else "form", "")
write("code.mlir", "// expected-error @+4 {{[E0105]}}\n" + open("bad.mlir").read())
expect("opt code.mlir --verify-diagnostics", 0, "", "")

expect.no_files("dead.mlir", "bad.mlir", "random.mlir", "large.mlir", "out.mlir", "dump", "parts.mlir", "more.mlir",
                "form.mlir", "code.mlir")
expect.done()
