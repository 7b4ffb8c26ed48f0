#!/usr/bin/env python3
"""Output files: complete or not there; the old one stays when writing fails; links, permissions and pipes as users expect."""
import os
import resource
import stat
import subprocess

from expect import MSC, Expect, write

ROOT = os.getcwd()
expect = Expect()
TEXT = open(os.path.join(ROOT, "tests/tools/import/ffn1.mlir.txt")).read()
write("m.mlir", TEXT)


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


os.umask(0o027)
expect("dump m.mlir -o out", 0, "", "")
expect.check("content", open("out").read() == TEXT)
expect.check("new file: permissions by umask", mode("out") == 0o640)
os.chmod("out", 0o604)
expect("dump m.mlir -o out", 0, "", "")
expect.check("old file: permissions kept", mode("out") == 0o604)
expect("dump m.mlir -o -", 0, "", TEXT)
expect("dump - -o -", 0, "", TEXT, TEXT.encode())

os.mkdir("folder")
os.symlink("../out", "folder/link")
write("out", "old")
expect("dump m.mlir -o folder/link", 0, "", "")
expect.check("a link stays one, its target is written", os.path.islink("folder/link") and open("out").read() == TEXT)
expect.check("nothing else in the folder", os.listdir("folder") == ["link"])

# Failures name the file and the reason; what was there stays.
write("out", "old")
write("bad.mlir", "no")
expect("dump bad.mlir -o out", 1, lambda text: "" if text.startswith("bad.mlir:1:1: error: ") else "syntax error")
expect("dump m.mlir -o absent/out", 1, "absent/out: error: cannot write: No such file or directory [E0112]\n")
expect("dump m.mlir -o folder", 1, "folder: error: cannot write: Is a directory [E0112]\n")
expect("dump m.mlir -o /dev/full", 3, "/dev/full: error: cannot write: No space left on device [E0112]\n")
limited = subprocess.run([MSC, "dump", "m.mlir", "-o", "out"], capture_output=True,
                         preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)))
expect.check("a write that fails half way: exit 3", limited.returncode == 3 and limited.stderr == b"out: error: cannot write: File too large [E0112]\n")
expect.check("the old file is untouched", open("out").read() == "old")

# A device or a pipe is written in place.
expect("dump m.mlir -o /dev/null", 0, "", "")
expect.check("/dev/null is still a device", stat.S_ISCHR(os.stat("/dev/null").st_mode))
os.mkfifo("pipe")
reader = subprocess.Popen(["cat", "pipe"], stdout=subprocess.PIPE)
expect("dump m.mlir -o pipe", 0, "", "")
expect.check("through a pipe", reader.communicate()[0].decode() == TEXT)
closed = subprocess.Popen([MSC, "config"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
closed.stdout.close()
expect.check("a reader that has gone: silence", closed.stderr.read() == b"" and closed.wait() != 0)

expect.no_files("m.mlir", "bad.mlir", "out", "folder", "pipe")
expect.done()
