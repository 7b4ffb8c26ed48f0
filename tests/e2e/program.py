"""program: a command line in; what it prints out, or the end of the test with what went wrong."""
import json
import os
import shutil
import subprocess
import sys
import tempfile


def call(*words, env=None, timeout=300, cwd=None):
    """env: what the environment has in addition; timeout: seconds; cwd: where, if not here."""
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **(env or {})}, timeout=timeout,
                          cwd=cwd)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def check_memory(report, totals):
    """Of `msc compile --json` and the last line of `msc run --json`: a rank has what the plan says, no byte more."""
    said, has = report["memory_bytes_per_rank"], totals["arena_bytes"] + totals["constant_bytes"]
    assert totals["planned_bytes"] == said == sum(report["memory"].values(
    )) and has <= said, f"a rank has {has} bytes, the plan says {said}: {report['memory']}, {totals}"


def need_library():
    """Ends the test, with the reason, where Python cannot load the library of msc."""
    if "/asan/" in os.path.abspath(os.environ.get("MSC", "build/msc")):
        print("skipped: a library with sanitizers cannot be loaded into Python")
        sys.exit(0)


def run_on_standin(main, real=False):
    """Runs main in a folder of its own, or says why GPU kernels cannot run on this machine.  real: there is a GPU."""
    if not real and not shutil.which("llc-19"):
        print("skipped: llc-19 is missing, which makes GPU kernels run here (package llvm-19)")
        return
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        main()


def losses_and_weights(out, steps, weights="w.safetensors"):
    """What `msc run --json --eval --save` printed, and the file that it saved, which is removed: losses of the steps
    and of the evaluation, the file's bytes."""
    lines = [json.loads(line[line.index("{"):]) for line in out.splitlines() if "{" in line]
    with open(weights, "rb") as file:
        saved = file.read()
    os.remove(weights)
    losses = [line["loss"] for line in lines if "loss" in line]
    losses += [line["eval"]["loss"] for line in lines if "eval" in line]
    assert len(losses) == steps + 1, out
    return losses, saved


failures = []


def attempt(check, *words, **keys):
    """One check of several: what goes wrong is printed, and the others go on until `finish`."""
    try:
        check(*words, **keys)
    except (SystemExit, AssertionError, subprocess.TimeoutExpired) as e:
        failures.append(e)
        print(f"FAILED: {check.__name__}: {e!r}" if isinstance(e, AssertionError) else f"FAILED: {e}", flush=True)


def finish():
    if failures:
        sys.exit(f"{len(failures)} checks failed")


def settings(keys):
    """Configuration keys as words of a command line."""
    return [
        word for key, v in keys.items() for word in ("--set", f"{key}={v if isinstance(v, str) else json.dumps(v)}")
    ]
