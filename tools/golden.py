#!/usr/bin/env python3
"""golden: runs the golden cases of folders: *.mlir whose first line is how to run them, with the exact output behind
`// EXPECT`.

    // RUN: msc opt --passes=dce %s        (`not msc ...`: exits with 1)
    module {                               the input, written as msc prints it
    }
    // EXPECT
    module {                               the output, to the end of the file
    }

Two guards keep a wrong output from being frozen: the input must come back unchanged from `msc opt` without passes, and
after every pass the IR is printed, read and compared (--verify=2, unless the case says otherwise).  Cases with
--verify-diagnostics need neither canonical input nor output."""
import argparse
import difflib
import os
import shlex
import subprocess
import sys

MARK = "// EXPECT\n"


class Case:
    def __init__(self, path):
        self.path = path
        with open(path, encoding="utf-8", newline="") as file:
            text = file.read()
        self.input, mark, expected = ("\n" + text).partition("\n" + MARK)
        self.input = self.input[1:] + "\n" if mark else self.input[1:]
        self.expected = expected if mark else None
        first = text.split("\n", 1)[0]
        self.words = shlex.split(first[len("// RUN: "):]) if first.startswith("// RUN: ") else []
        self.fails = self.words[:1] == ["not"]
        self.words = self.words[self.fails:]
        self.diagnostics = "--verify-diagnostics" in self.words

    def command(self, msc, words):
        return [msc] + [self.path if w == "%s" else w for w in words[1:]]

    def canonical(self):
        """The input without comment lines; those between parts stay."""
        lines = self.input.splitlines(keepends=True)
        return "".join(l for l in lines if not l.lstrip().startswith("//") or l.startswith("// -----"))


def run(command):
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", errors="backslashreplace")


def difference(case, what, wanted, printed):
    lines = difflib.unified_diff(wanted.splitlines(), printed.splitlines(),
                                 f"{case.path}: {what}", "printed", lineterm="")
    return "\n".join(lines) or f"{case.path}: {what}: they differ in line ends"


def check_input(case, msc):
    """None, or how the input differs from what is printed for it."""
    if case.diagnostics or case.fails:
        return None
    keep = [w for w in case.words if w == "--split-input-file" or w.startswith("--verify=")]
    done = run([msc, "opt", *keep, case.path])
    if done.returncode:
        return f"{case.path}: the input alone fails with {done.returncode}\n{done.stderr}"
    return None if done.stdout == case.canonical() else difference(case, "input as written",
                                                                   case.canonical(), done.stdout)


def check(case, msc, update):
    """None, or why the case fails."""
    if case.words[:1] != ["msc"] or "%s" not in case.words:
        return f"{case.path}: the first line is not `// RUN: msc COMMAND ... %s`"
    if case.expected is None and not case.diagnostics and not update:
        return f"{case.path}: there is no line {MARK}"
    fault = check_input(case, msc)
    if fault:
        return fault
    words = list(case.words)
    if words[1] == "opt" and not any(w.startswith(("--verify=", "--check-numerics")) for w in words):
        words.append("--verify=2")
    done = run(case.command(msc, words))
    if done.returncode != int(case.fails):
        return f"{case.path}: {shlex.join(words)}: exit code {done.returncode}\n{done.stderr}"
    if case.expected is None and case.diagnostics or done.stdout == case.expected:
        return None
    if update:
        with open(case.path, "w", encoding="utf-8", newline="") as file:
            file.write(case.input + MARK + done.stdout)
        print(f"updated {case.path}")
        return None
    return difference(case, "EXPECT", case.expected, done.stdout)


def cases_of(folder, recursive):
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(folders) if recursive else []
        if ".nogolden" in names or where.startswith("tests/fuzz"):
            continue
        yield from (os.path.join(where, n) for n in sorted(names) if n.endswith(".mlir"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--msc", required=True, help="the program")
    parser.add_argument("--stamp", help="made when all cases pass, with a .d file beside it")
    parser.add_argument("--update", action="store_true",
                        help="rewrite expectations, in subfolders too; read the difference before committing it")
    parser.add_argument("folders", nargs="+")
    options = parser.parse_args()
    faults, paths = 0, []
    for folder in options.folders:
        paths += cases_of(folder, options.update)
    for path in paths:
        fault = check(Case(path), options.msc, options.update)
        if fault:
            print(fault, end="\n\n")
            faults += 1
    if faults:
        sys.exit(f"golden: {faults} of {len(paths)} cases fail")
    if options.stamp:
        os.makedirs(os.path.dirname(options.stamp) or ".", exist_ok=True)
        with open(options.stamp + ".d", "w") as file:
            file.write(f"{options.stamp}: {' '.join(options.folders + paths)}\n")
        with open(options.stamp, "w"):
            pass


main()
