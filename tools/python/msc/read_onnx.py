"""ONNX files as models: a path in, a model.fbs with its weights beside it out.  The program msc reads the file; neither
the package onnx nor any other is needed."""
import json
import os
import subprocess
from typing import Mapping, Optional, Sequence, Union

from msc import native

Elements = Union[int, float, bool, Sequence]


def _elements(v: Elements) -> str:
    """Row by row, with commas between; bool as 0 and 1."""
    v = v.ravel().tolist() if hasattr(v, "ravel") else v
    v = v if isinstance(v, (list, tuple)) else [v]
    return ",".join(repr(int(e) if isinstance(e, bool) else e) for e in v)


def import_onnx(path: Union[str, os.PathLike],
                out: Union[str, os.PathLike] = "model.fbs",
                *,
                dims: Mapping[str, int] = {},
                fixed: Mapping[str, Elements] = {},
                loss: Optional[str] = None,
                optimizer: Optional[str] = None,
                libraries: Optional[str] = None) -> str:
    """Reads an ONNX file of opset 26 or less, and returns `out`; weights go into out's name with .safetensors.

    dims: sizes that the file leaves open, by their names ({"batch": 8}) or places ({"x.0": 8}); others stay open, for
    msc.compile(out, sizes={"batch": 8}), as far as all numbers follow from them by sums and products.  fixed: elements
    of inputs that shapes depend on ({"shape": [8, -1]}).  loss, optimizer: what it is to be trained for, and how, as
    "softmax_cross_entropy:logits" (the loss of an output; its labels are a new input y) and "adamw:lr=0.001".
    libraries: the folder that msc is in.

    CompileError, with all that cannot be read, if it cannot; then nothing is written."""
    words = [w for n, size in dims.items() for w in ("--dim", f"{n}={size}")]
    words += [w for n, v in fixed.items() for w in ("--fix", f"{n}={_elements(v)}")]
    words += [w for n, v in (("--loss", loss), ("--optimizer", optimizer)) if v for w in (n, v)]
    return _run("import", path, out, words, libraries)


def export_onnx(weights: Union[str, os.PathLike],
                path: Union[str, os.PathLike],
                out: Union[str, os.PathLike],
                *,
                libraries: Optional[str] = None) -> str:
    """Writes the ONNX file at `path`, which import_onnx read, with the trained weights of a safetensors file or a
    checkpoint, and returns `out`.  Nothing else in it changes.

    CompileError if a tensor of the weights is not in the file, or of another type or shape; then nothing is written."""
    return _run("export", weights, out, ["--onnx", os.fspath(path)], libraries)


def _run(command: str, path, out, words: Sequence[str], libraries: Optional[str]) -> str:
    done = subprocess.run([
        native.find_program(libraries), command,
        os.fspath(path), "-o",
        os.fspath(out), "--diagnostic-format=json", *words
    ],
                          capture_output=True,
                          text=True)
    if done.returncode:
        raise native.CompileError(_messages(done.stderr))
    return os.fspath(out)


def _messages(text: str) -> list:
    try:
        told = json.loads(text)["diagnostics"]
    except (ValueError, KeyError):
        return [native.Message("error", "", text.strip() or "msc import failed", None, 0, 0, None)]
    return [
        native.Message(m["severity"], m.get("code", ""), m["message"], m.get("file"), m.get("line", 0),
                       m.get("column", 0), m.get("op")) for m in told
    ]
