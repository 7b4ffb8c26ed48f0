#!/usr/bin/env python3
"""Sources and READMEs of the tree: lines of C, Python, tables, schemas and prose within 120 columns; a line for every
source file in the README of its folder, or of the nearest one above; files that READMEs name and that exist; comments
in front of declarations that have a subject of their own; tests that can be executed. Prints what is not so."""
import ast
import os
import re
import sys

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
TOPS = ("codegen", "ir", "passes", "runtime", "tests", "tools")
COLUMNS = 120
GENERATED = ("msc/ops.json", "msc/schema.json")  # by the build, named in a README


def lines_of_data(text):
    """Numbers of the lines of Python that are inside of a text of several lines, such as a model, but no docstring."""
    tree = ast.parse(text)
    said = {id(node.body[0].value) for node in ast.walk(tree)
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and isinstance(node.body[0], ast.Expr)}
    return {number for node in ast.walk(tree)
            if isinstance(node, (ast.Constant, ast.JoinedStr)) and id(node) not in said
            and node.end_lineno > node.lineno and '"""' in text.split("\n")[node.lineno - 1]
            for number in range(node.lineno, node.end_lineno + 1)}


def long_lines(text, markdown, python):
    """Numbers of the lines over COLUMNS; in Markdown rows of tables and code may be, in Python lines of data."""
    code = False
    if python:
        data = lines_of_data(text)
        yield from (n for n, line in enumerate(text.split("\n"), 1) if len(line) > COLUMNS and n not in data)
        return
    for number, line in enumerate(text.split("\n"), 1):
        code ^= line.startswith("```")
        if len(line) > COLUMNS and not (markdown and (code or line.startswith("|"))):
            yield number


def fragments(text):
    """Lines of comments that are understood only with the one before: "Of its result", "The same for b"."""
    return [number for number, line in enumerate(text.split("\n"), 1) if re.match(r"/\* (Of|The same)\b", line)]


def readme_of(path, readmes):
    """The nearest README above a file, as text."""
    folder = os.path.dirname(path)
    while folder not in readmes:
        folder = os.path.dirname(folder)
    return readmes[folder]


def tails(path):
    """All ways to name a file, or a folder above it: with any number of folders, with and without what follows a
    dot."""
    parts = path.split("/")
    for end in range(1, len(parts) + 1):
        for begin in range(end):
            name = "/".join(parts[begin:end])
            yield name
            if end == len(parts):
                yield os.path.join(os.path.dirname(name), os.path.basename(name).split(".")[0])


def named_files(text):
    """The files that a README names: in the first column of a table of files, or by a name with a known ending."""
    in_table = False
    for line in text.split("\n"):
        in_table = line.startswith("| file |") or (in_table and line.startswith("|"))
        column = line.find("|", 1) if in_table else -1
        for quoted in re.finditer(r"`([^`]+)`", line):
            for name in quoted.group(1).split(", "):
                ends = re.fullmatch(r"[a-z0-9_./-]+\.(c|def|h|py)", name)
                if ends or (quoted.start() < column and re.fullmatch(r"[a-z0-9_./-]+", name)):
                    yield name.rstrip("/")


# headers of others that comments name
FOREIGN = ("png.h", "turbojpeg.h", "ucp/api/ucp.h")


def files_in_comments(text):
    """The files of C that comments name: (line, name)."""
    for comment in re.finditer(r"/\*.*?\*/", text, re.S):
        for name in re.finditer(r"(?<![\w/.])[a-z_0-9]+(?:/[a-z_0-9]+)*\.(?:c|h|def)(?![\w(])", comment.group()):
            yield text.count("\n", 0, comment.start() + name.start()) + 1, name.group()


paths = ["README.md"] + [
    os.path.join(folder, name) for top in TOPS for folder, _, names in os.walk(top) for name in names
    if name.endswith((".c", ".cc", ".cu", ".def", ".h", ".md", ".py")) and "__pycache__" not in folder
] + [
    os.path.join(folder, name) for top in TOPS if top != "tests" for folder, _, names in os.walk(top) for name in names
    if name.endswith(".fbs")
]
texts = {path: open(path).read() for path in paths}
readmes = {os.path.dirname(path): text for path, text in texts.items() if path.endswith("README.md")}
existing = set(GENERATED).union(*(tails(os.path.relpath(os.path.join(folder, name), ".")) for top in TOPS
                                  for folder, _, names in os.walk(top) for name in names))
faults = []
for path, text in sorted(texts.items()):
    markdown = path.endswith(".md")
    faults += [f"{path}:{number}: over {COLUMNS} columns"
               for number in long_lines(text, markdown, path.endswith(".py"))]
    if path.endswith((".c", ".h")) and not path.startswith("tests/"):
        faults += [f"{path}:{number}: a comment without a subject" for number in fragments(text)]
    if path.endswith((".c", ".h", ".def")):
        faults += [f"{path}:{number}: names {name}, which is not there" for number, name in files_in_comments(text)
                   if name not in existing and name not in FOREIGN]
    if markdown:
        faults += [f"{path}: names {name}, which is not there" for name in named_files(text) if name not in existing]
    if re.search(r"\.(test|slow|frameworks)\.py$", path) and not os.access(path, os.X_OK):
        faults.append(f"{path}: cannot be executed")
    stem = os.path.basename(path).split(".")[0]
    if not markdown and not path.startswith("tests/") and not re.search(rf"\b{stem}\b", readme_of(path, readmes)):
        faults.append(f"{path}: no line in its folder's README")
print(*faults, sep="\n")
sys.exit(bool(faults) or len(texts) < 500)
