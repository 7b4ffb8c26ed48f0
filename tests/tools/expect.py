"""expect: runs $MSC in an empty folder and compares exit code, stdout and stderr, exactly.  A script makes one
Expect, calls it once per case and ends with done(), which prints the count and fails if any case did."""
import os
import signal
import subprocess
import sys
import tempfile

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has it ignored by what it starts in the background

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from program import need_library  # noqa: E402, F401

MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
SANITIZED = "/asan/" in MSC


class Expect:
    def __init__(self):
        self.cases = self.failures = 0
        self.folder = tempfile.TemporaryDirectory()
        os.chdir(self.folder.name)

    def fail(self, name, what, wanted, got):
        self.failures += 1
        print(f"FAILED: {name}: {what}\n--- wanted\n{wanted}\n--- got\n{got}\n---")

    def __call__(self, command, code=0, err="", out=None, stdin=b"", env=None):
        """`command` is a string without quoting or a list; err and out are whole texts, or functions of the text
        that say what is wrong."""
        args = command.split() if isinstance(command, str) else command
        self.cases += 1
        run = subprocess.run([MSC, *args], input=stdin, capture_output=True, timeout=300,
                             env={**os.environ, **(env or {})})
        name = "msc " + " ".join(args)
        if run.returncode != code:
            self.fail(name, "exit code", code, f"{run.returncode}\n{run.stderr.decode(errors='replace')}")
        for what, wanted, got in (("stderr", err, run.stderr), ("stdout", out, run.stdout)):
            got = got.decode(errors="replace")
            if callable(wanted):
                wrong = wanted(got)
                if wrong:
                    self.fail(name, what, wrong, got)
            elif wanted is not None and got != wanted:
                self.fail(name, what, wanted, got)
        return run

    def check(self, name, ok):
        self.cases += 1
        if not ok:
            self.fail(name, "check", "true", "false")

    def no_files(self, *allowed):
        """Nothing half-written is left."""
        self.cases += 1
        left = sorted(set(os.listdir(".")) - set(allowed))
        if left:
            self.fail("files left behind", "folder", "", left)

    def done(self):
        print(f"{self.cases - self.failures} cases")
        os.chdir("/")
        sys.exit(self.failures != 0)


def write(path, text):
    with open(path, "wb") as f:
        f.write(text if isinstance(text, bytes) else text.encode())
