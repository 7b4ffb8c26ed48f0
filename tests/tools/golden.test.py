#!/usr/bin/env python3
"""tools/golden.py: which cases pass, which fail and what is then shown, and what --update may change."""
import os
import subprocess
import sys
import tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
INPUT = ('module {\n  "msc.func"() ({\n  ^bb0(%x: tensor<4xf32>):\n    %0 = "msc.neg"(%x) : (tensor<4xf32>) -> '
         'tensor<4xf32>\n    "msc.return"(%x) : (tensor<4xf32>) -> ()\n  }) {sym_name = "f"} : () -> ()\n}\n')
OUTPUT = INPUT.replace('    %0 = "msc.neg"(%x) : (tensor<4xf32>) -> tensor<4xf32>\n', "")
GOOD = "// RUN: msc opt --passes=dce %s\n// why\n" + INPUT + "// EXPECT\n" + OUTPUT

failures = 0


def golden(text, *options):
    """Exit code, stdout and the case's text afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "case.mlir")
        with open(path, "w") as file:
            file.write(text)
        stamp = os.path.join(folder, "sub/stamp")
        command = [
            sys.executable,
            os.path.join(ROOT, "tools/golden.py"), "--msc", MSC, "--stamp", stamp, *options, folder
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        made = os.path.exists(stamp) and open(stamp + ".d").read() == f"{stamp}: {folder} {path}\n"
        return done.returncode, made, done.stdout, open(path).read()


def want(name, text, ok, part, *options, after=None):
    global failures
    code, made, out, left = golden(text, *options)
    if (code == 0, made) != (ok, ok) or part not in out or left != (after or text):
        failures += 1
        print(f"FAILED: {name}: exit {code}, stamp {made}\n{out}\n--- the case afterwards\n{left}")


want("good", GOOD, True, "")
want("good, update", GOOD, True, "", "--update")
want("other output", GOOD.replace('EXPECT\nmodule {', 'EXPECT\nmodule attributes {msc.a = true} {'), False,
     "-module attributes {msc.a = true} {\n+module {")
want("line end", GOOD[:-1], False, "they differ in line ends")
want("no output", GOOD[:GOOD.index("// EXPECT")], False, "there is no line // EXPECT")
want("no run line", GOOD[GOOD.index("// why"):], False, "the first line is not")
want("fails", GOOD.replace("--passes=dce", "--passes=absent"), False, "unknown pass 'absent'")
want("fails as it should", "// RUN: not msc opt --passes=absent %s\n" + INPUT + "// EXPECT\n", True, "")
want("passes though it should not", GOOD.replace("RUN: msc", "RUN: not msc"), False, "exit code 0")
want("input not canonical", GOOD.replace("%0 =", "%1 =", 1), False, '-    %1 = "msc.neg"')
want("input with a wrong type", GOOD.replace("-> tensor<4xf32>", "-> tensor<8xf32>", 1), False,
     "result 0 of neg is tensor<4xf32>, not tensor<8xf32>")
want(
    "diagnostics",
    "// RUN: msc opt --verify-diagnostics %s\n" + INPUT.replace("(%x) :", "(%y) : // expected-error {{value %y}}\n", 1),
    True, "")
want("diagnostics missed", "// RUN: msc opt --verify-diagnostics %s\n// expected-error {{x}}\n" + INPUT, False,
     "exit code 1")
want("update", GOOD.replace(OUTPUT, "old\n"), True, "updated ", "--update", after=GOOD)
want("update of a new case", GOOD[:GOOD.index("// EXPECT")], True, "updated ", "--update", after=GOOD)
want("update does not touch input", GOOD.replace("%0 =", "%1 =", 1), False, '-    %1 = "msc.neg"', "--update")
sys.exit(failures != 0)
