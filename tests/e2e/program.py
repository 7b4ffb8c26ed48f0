"""program: a command line in; what it prints out, or the end of the test with what went wrong."""
import json
import os
import subprocess
import sys


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
