"""python3 -m msc.reference [api|ops]: the package's public names, or the ops of models, from docstrings and the table
of ops, as Markdown."""
import inspect
import re
import sys

import msc
from msc.ops import listed

# Public names whose modules need PyTorch; they are described where it can be imported.
WITH_PYTORCH = ("export", "train_step", "annotate", "shard")


def _rows():
    """{name: row} of the table of ops."""
    return {row["name"]: row for row in listed()}


def _text(value) -> str:
    """A docstring: Markdown, whose examples are indented."""
    return (inspect.getdoc(value) or "").strip()


def _signature(value) -> str:
    try:
        text = re.sub(r"msc\.\w+\.", "", str(inspect.signature(value)))
        return re.sub(r"(: |-> )'(\w+)'", r"\1\2", text)
    except (TypeError, ValueError):
        return ""


def _members(cls):
    """What a class itself says of its public methods and properties."""
    for name, value in vars(cls).items():
        value = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
        value = value.fget if isinstance(value, property) else value
        if not name.startswith("_") and inspect.isfunction(value) and value.__doc__:
            yield name, value


def api():
    """Lines about every public name of the package."""
    yield "# Package msc\n"
    yield _text(msc) + "\n"
    names = list(msc.__all__)
    try:
        import torch  # noqa: F401
        names += WITH_PYTORCH
    except ImportError:
        yield f"{', '.join(WITH_PYTORCH)} need PyTorch, which cannot be imported here.\n"
    for name in sorted(names, key=str.lower):
        value = getattr(msc, name)
        shown = "" if inspect.isclass(value) else _signature(value)
        yield f"## msc.{name}{shown}\n"
        yield _text(value) + "\n"
        for member, function in _members(value) if inspect.isclass(value) and value is not msc.Graph else ():
            yield f"### {name}.{member}{_signature(function)}\n"
            yield _text(function) + "\n"
    yield "## Methods of msc.Graph\n"
    yield "Beside the ops, which `python3 -m msc.reference ops` lists:\n"
    rows = _rows()
    for member, function in _members(msc.Graph):
        if member not in rows:
            yield f"### Graph.{member}{_signature(function)}\n"
            yield _text(function) + "\n"


def op_list():
    """Lines about every op that a model may have."""
    yield "# Ops\n"
    yield "Each is a method of msc.Graph. Attributes with a value have it where they are not given, those with ? may be"
    yield "left out; `axis` and dimensions may be negative.\n"
    yield "| op | operands | results | attributes |"
    yield "|---|---|---|---|"
    for name, row in sorted(_rows().items()):
        cells = [row["operands"], row["results"], row["attributes"]]
        yield f"| `{name}` | " + " | ".join(f"`{c}`" if c else "" for c in cells) + " |"


def main(words):
    parts = {"api": api, "ops": op_list}
    unknown = [w for w in words if w not in parts]
    if unknown:
        sys.exit(f"msc.reference: there is no part '{unknown[0]}', only {' and '.join(parts)}")
    for word in words or parts:
        print("\n".join(parts[word]()))


if __name__ == "__main__":
    main(sys.argv[1:])
