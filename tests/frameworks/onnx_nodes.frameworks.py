#!/usr/bin/env python3
"""The node cases and model folders of the package onnx: each is imported, compiled and run; outputs are held against
the case's own.

    onnx_nodes.frameworks.py [--only REGEX] [--write]

Cases count whose tensors all have core element types and whose opset is at most 26.  Those that do not pass stand with
their reason in onnx_nodes.txt, which may only shrink: a case that fails and is not listed, or passes and is, is an
error.  --write lists anew.  An input that decides shapes is given when the model is read (msc import --fix).
"""
import argparse
import concurrent.futures
import glob
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import warnings

from framework import MSC, need

need("numpy", "onnx")
import numpy as np  # noqa: E402
import onnx  # noqa: E402
from onnx import numpy_helper  # noqa: E402

warnings.simplefilter("ignore")
HERE = os.path.dirname(os.path.abspath(__file__))
# the module alone: the package is not on the path
_spec = importlib.util.spec_from_file_location("runtime", os.path.join(HERE, "../../tools/python/msc/runtime.py"))
runtime = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(runtime)

LIBRARY = os.path.join(os.path.dirname(MSC), "libmscrt.so")
LIST = os.path.join(HERE, "onnx_nodes.txt")
LAST_OPSET = 26
T = onnx.TensorProto
CORE = {T.FLOAT, T.FLOAT16, T.BFLOAT16, T.DOUBLE, T.INT32, T.INT64, T.BOOL}
NUMPY = {"f32": np.float32, "f16": np.float16, "f64": np.float64, "i1": np.bool_, "i32": np.int32, "i64": np.int64}


class Failed(Exception):
    """Why a case did not pass."""


def is_core(model):
    values = list(model.graph.input) + list(model.graph.output)
    opset = max((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), default=0)
    return opset <= LAST_OPSET and all(
        v.type.WhichOneof("value") == "tensor_type" and v.type.tensor_type.elem_type in CORE for v in values) and all(
            t.data_type in CORE for t in model.graph.initializer)


def fixed_text(array):
    """The elements as `--fix` takes them."""
    return ",".join(repr(v) if not isinstance(v, bool) else str(int(v)) for v in np.asarray(array).ravel().tolist())


def call(*arguments):
    done = subprocess.run([MSC, *arguments], capture_output=True, text=True, timeout=300)
    if done.returncode in (0, 1):
        return done
    raise Failed(f"{arguments[0]} ended with {done.returncode}: {(done.stderr.strip().splitlines() or [''])[-1][:200]}")


def import_model(path, fbs, inputs):
    """Imports, and gives the inputs that shapes depend on; returns their names."""
    fixed, sizes = {}, {}
    while True:
        arguments = [t for name in fixed for t in ("--fix", f"{name}={fixed_text(inputs[name])}")]
        arguments += [t for name in sizes for t in ("--dim", f"{name}={sizes[name]}")]
        done = call("import", path, "-o", fbs, *arguments)
        if done.returncode == 0:
            return fixed
        wanted = set(re.findall(r"--fix (\S+)=\.\.\. gives", done.stderr)) - set(fixed)
        before = len(sizes)
        for name, axis, size in re.findall(r"input '(.*?)': dimension (\d+) has no size; give one with --dim (.*?)=",
                                           done.stderr):
            sizes[size] = np.shape(inputs[name])[int(axis)]
        if not wanted and len(sizes) == before:
            raise Failed("import: " + first_error(done.stderr))
        for name in wanted:
            fixed[name] = True


def first_error(text):
    for line in text.splitlines():
        if "error:" in line:
            return re.sub(r"^.*?error: ", "", line)[:200]
    return (text.strip().splitlines() or ["?"])[-1][:200]


def as_array(value):
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def as_buffer(array):
    array = np.ascontiguousarray(array)
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else array


def array_of(raw, dtype, shape):
    name = runtime.DTYPES[dtype][0]
    raw = bytes(raw) if isinstance(raw, (bytes, bytearray)) else raw.tobytes()
    if name == "bf16":
        return (np.frombuffer(raw, np.uint16).astype(np.uint32) << 16).view(np.float32).reshape(shape)
    return np.frombuffer(raw, NUMPY[name]).reshape(shape)


def compare(name, got, want, rtol, atol):
    want = np.asarray(want)
    if want.dtype.name == "bfloat16":
        want = want.astype(np.float32)
        rtol = max(rtol, 2**-7)
    if got.shape != want.shape:
        raise Failed(f"output {name} has the shape {list(got.shape)}, not {list(want.shape)}")
    if want.dtype.name == "float16":
        rtol = max(rtol, 2**-9)
    if want.dtype.kind in "biu":
        wrong = got != want
    else:
        with np.errstate(all="ignore"):
            wrong = ~np.isclose(got.astype(np.float64), want.astype(np.float64), rtol, atol, equal_nan=True)
    if np.any(wrong):
        at = np.unravel_index(np.argmax(wrong), wrong.shape) if wrong.ndim else ()
        raise Failed(f"output {name}{list(map(int, at))} is {got[at]}, not {want[at]} "
                     f"({int(np.sum(wrong))} of {wrong.size} differ)")


def run_case(case):
    """None, or why it fails."""
    name, model, data_sets, rtol, atol = case
    with tempfile.TemporaryDirectory() as folder:
        path, fbs, plan_path = (os.path.join(folder, f) for f in ("m.onnx", "m.fbs", "m.bin"))
        with open(path, "wb") as out:
            out.write(model)
        proto = onnx.load_from_string(model)
        given = {t.name for t in proto.graph.initializer}
        names = [i.name for i in proto.graph.input if i.name not in given]
        try:
            inputs, outputs = data_sets[0]
            by_name = dict(zip(names, inputs))
            fixed = import_model(path, fbs, by_name)
            done = call("compile", fbs, "-o", plan_path)
            if done.returncode:
                raise Failed("compile: " + first_error(done.stderr))
            with runtime.Plan(plan_path, library=LIBRARY, threads=1) as plan:
                weights = os.path.join(folder, "m.safetensors")
                if os.path.exists(weights):
                    plan.load(weights)
                for inputs, outputs in data_sets:
                    by_name = dict(zip(names, inputs))
                    plan.run("forward", **{n: as_buffer(by_name[n]) for n in plan.inputs if n not in fixed})
                    for o, want in zip(proto.graph.output, outputs):
                        dtype, shape = plan.outputs["forward", o.name]
                        compare(o.name, array_of(plan._read(o.name, dtype, shape), dtype, shape), want, rtol, atol)
        except Failed as e:
            return str(e)
        except runtime.Error as e:
            return f"run: {str(e)[:200]}"
        except subprocess.TimeoutExpired:
            return "takes more than 300 s"
        except Exception as e:  # noqa: BLE001 - a case is judged, whatever happens
            return f"{type(e).__name__}: {str(e)[:200]}"
    return None


def run_guarded(case):
    """In a process of its own: a plan that crashes is a case that fails."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        with os.fdopen(write, "w") as out:
            out.write(run_case(case) or "")
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as told:
        text = told.read()
    _, status = os.waitpid(pid, 0)
    return case[0], text if status == 0 else f"the process ended with {status}"


def node_cases():
    from onnx.backend.test.case.node import collect_testcases
    for c in collect_testcases(None):
        if is_core(c.model):
            sets = [[[as_array(v) for v in values] for values in s] for s in c.data_sets]
            yield c.name, c.model.SerializeToString(), sets, c.rtol, c.atol


def folder_cases():
    """The model folders of the package."""
    data = os.path.join(os.path.dirname(onnx.__file__), "backend/test/data")
    for path in sorted(glob.glob(os.path.join(data, "*", "*", "model.onnx"))):
        kind, folder = path.split(os.sep)[-3:-1]
        if kind in ("node", "light"):
            continue
        model = onnx.load(path)
        sets = []
        for d in sorted(glob.glob(os.path.join(os.path.dirname(path), "test_data_set_*"))):
            read = [[
                load_tensor(p) for p in sorted(glob.glob(os.path.join(d, f"{w}_*.pb")),
                                               key=lambda p: int(re.findall(r"_(\d+)\.pb", p)[0]))
            ] for w in ("input", "output")]
            sets.append(read)
        if is_core(model) and all(t is not None for s in sets for w in s for t in w):
            yield f"{kind}/{folder}", model.SerializeToString(), sets, 1e-3, 1e-5


def load_tensor(path):
    t = onnx.TensorProto()
    try:
        with open(path, "rb") as f:
            t.ParseFromString(f.read())
        return numpy_helper.to_array(t) if t.data_type in CORE else None
    except Exception:  # noqa: BLE001 - no tensor
        return None


def read_list():
    listed = {}
    if os.path.exists(LIST):
        with open(LIST) as f:
            for line in f:
                if line.strip() and not line.startswith("#"):
                    name, _, reason = line.rstrip("\n").partition(": ")
                    listed[name] = reason
    return listed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    listed, failed, tried = read_list(), {}, set()
    for what, cases in (("node cases", node_cases()), ("model folders", folder_cases())):
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            results = dict(pool.map(run_guarded, [c for c in cases if re.search(options.only, c[0])]))
        bad = {n: r for n, r in results.items() if r}
        print(f"{len(results) - len(bad)} of {len(results)} {what} of onnx {onnx.__version__} pass", flush=True)
        failed.update(bad)
        tried.update(results)
    if options.write:
        kept = {n: r for n, r in listed.items() if n not in tried}
        with open(LIST, "w") as out:
            out.write("# Cases of the package onnx that do not pass, with the reason each.  This list only shrinks.\n")
            out.writelines(f"{n}: {r}\n" for n, r in sorted({**kept, **failed}.items()))
        return 0
    new = {n: r for n, r in failed.items() if n not in listed}
    mended = [n for n in listed if n in tried and n not in failed]
    for n, r in sorted(new.items()):
        print(f"FAILED {n}: {r}")
    for n in sorted(mended):
        print(f"passes, and is listed in onnx_nodes.txt: {n}")
    return 1 if new or mended else 0


if __name__ == "__main__":
    sys.exit(main())
