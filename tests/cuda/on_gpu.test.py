#!/usr/bin/env python3
"""What on_gpu does that needs no GPU: its parts fit the time of a call, what is packed can be built, a driver that lies
apart is found, a part that one refused product fails does not fail the others; and torch_gpt, with a torch that only
writes down what it is asked."""
import glob
import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
loader = importlib.machinery.SourceFileLoader("on_gpu", os.path.join(HERE, "on_gpu"))
sys.dont_write_bytecode = True
on_gpu = importlib.util.module_from_spec(importlib.util.spec_from_loader("on_gpu", loader))
loader.exec_module(on_gpu)
os.environ.pop(on_gpu.KEYS, None)

# ---- calls ----

for number, parts in on_gpu.CALLS.items():
    assert sum(seconds
               for _, seconds in parts) <= on_gpu.CALL_SECONDS < 600, f"call {number} has no time for its last part"
names = [part.__name__ for parts in on_gpu.CALLS.values() for part, _ in parts]
assert len(names) == len(set(names)) == len(on_gpu.PARTS)

# ---- what is packed ----

if "/asan/" not in on_gpu.MSC:
    for program in on_gpu.PROGRAMS:
        done = subprocess.run(["ninja", "-t", "query", program], cwd=on_gpu.ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

# ---- a driver that the loader does not find ----

with tempfile.TemporaryDirectory() as folder:
    real, loaded = glob.glob, []
    os.mkdir(f"{folder}/lib64")
    open(f"{folder}/lib64/libcuda.so.1", "w").close()

    def load(name):
        loaded.append(name)
        if not os.path.isabs(name):
            raise OSError(f"{name}: no such file")
        return "the driver"
    with mock.patch.object(glob, "glob", lambda path: real(path.replace("/usr/local/nvidia", folder))), \
            mock.patch.object(on_gpu.ctypes, "CDLL", load):
        assert on_gpu.load_driver() == "the driver" and loaded == ["libcuda.so.1", f"{folder}/lib64/libcuda.so.1"]
        assert on_gpu.library_folders()[-1] == f"{folder}/lib64", "programs find it, too"
        os.remove(f"{folder}/lib64/libcuda.so.1")
        assert on_gpu.missing_gpu() == "no driver: libcuda.so.1: no such file"

# ---- a refused product ----


def refusing(refused):
    """Attempts of parts whose plans fail with epilogues of the library, or always; and the words of each."""
    tried = []

    def attempt(name, seconds, folder):
        keys = json.loads(os.environ.get(on_gpu.KEYS, "{}"))
        tried.append((name, keys))
        code = 1 if refused == "always" or (refused == "epilogues" and on_gpu.PARTS[name] in on_gpu.PLANS and
                                            keys != on_gpu.PLAIN) else 0
        return f"{name}: {'FAILED (1)' if code else 'ok'} after 0 s", code
    return attempt, tried


def all_of(number, refused):
    attempt, tried = refusing(refused)
    with mock.patch.object(on_gpu, "attempt", attempt), mock.patch.object(on_gpu, "say", lambda *words, sep=" ": None):
        good = on_gpu.attempt_all([number], ".")
    os.environ.pop(on_gpu.KEYS, None)
    return good, tried


good, tried = all_of("1", None)
assert good and [name for name, _ in tried] == [part.__name__
                                                for part, _ in on_gpu.CALLS["1"]] and not any(keys for _, keys in tried)
good, tried = all_of("1", "epilogues")
again = [name for name, keys in tried if keys]
assert not good and len(tried) == len(on_gpu.CALLS["1"]) + 1, f"one part fails, the others begin without: {tried}"
assert again[0] == "first" and all(keys == on_gpu.PLAIN for name, keys in tried[tried.index(("first", {})) + 1:])
good, tried = all_of("1", "always")
assert not good and not any(
    keys for name, keys in tried if on_gpu.PARTS[name] not in on_gpu.PLANS), "what does not help is not kept"

# ---- torch ----


def asked(**how):
    """What torch_step asks of torch, in order, and what it gives back."""
    torch, calls = mock.MagicMock(), []

    class Module:
        def cuda(self):
            return self

        def parameters(self):
            return []
    torch.nn.Module = Module

    def compiled(model, **words):
        calls.append(("compile", words.get("mode")))
        model.forward(mock.MagicMock(), mock.MagicMock())
        embedded = torch.nn.Embedding.return_value.return_value.__add__.return_value
        assert embedded.to.call_args_list == [mock.call(torch.bfloat16)] * how.get("narrow", False)
        return lambda x, y: calls.append("step") or mock.MagicMock()

    torch.compile.side_effect = compiled
    torch.cuda.reset_peak_memory_stats.side_effect = lambda: calls.append("reset")
    torch.cuda.max_memory_allocated.side_effect = lambda: calls.append("memory") or 7
    torch.cuda.Event.return_value.elapsed_time.side_effect = [100.0] * 3 + [2.0, 1.0, 3.0, 1.5, 2.5]
    torch.randint.side_effect = lambda *a, **k: mock.MagicMock()
    with mock.patch.dict(sys.modules, torch=torch):
        return calls, on_gpu.torch_step(layers=1, hidden=8, heads=2, seq=4, batch=2, vocab=16, steps=5, **how)


for how, mode in (({}, "default"), ({"mode": "max-autotune"}, "max-autotune"), ({"narrow": True}, "default")):
    calls, figures = asked(**how)
    assert calls == [("compile", mode), *["step"] * 3, "reset", *["step"] * 5, "memory"], calls
    assert figures == (2.0, 7), figures
print("on_gpu: calls, pack, drivers, refused products, torch")
