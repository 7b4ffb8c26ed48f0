#!/usr/bin/env python3
"""Output files: complete or not there; the old one stays when writing fails; links, permissions and pipes as users
expect."""
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

os.symlink("later", "folder/dangling")
expect("dump m.mlir -o folder/dangling", 0, "", "")
expect.check("a link to what is not there yet stays one too",
             os.readlink("folder/dangling") == "later" and open("folder/later").read() == TEXT)
os.symlink("loop", "loop")
expect("dump m.mlir -o loop", 1, "loop: error: cannot write: Too many levels of symbolic links [E0112]\n")
for name in ("folder/dangling", "folder/later", "loop"):
    os.unlink(name)

# An input is never written, by whatever name; nor is one output written over another.
os.symlink("m.mlir", "m.link")
os.link("m.mlir", "m.same")
for name in ("m.mlir", "./m.mlir", "m.link", "m.same"):
    for command in ("dump", "opt", "import", "compile"):
        expect(f"{command} m.mlir -o {name}", 1,
               f"{name}: error: cannot write: it is the input 'm.mlir' of this command [E0112]\n")
write("c.json", '{"device_num": 1}')
expect("compile m.mlir --config c.json -o c.json", 1,
       "c.json: error: cannot write: it is the input 'c.json' of this command [E0112]\n")
write("there", "old")
os.symlink("plan", "plan.link")
for name, output in (("plan", "plan"), ("./plan", "plan"), ("plan.link", "plan"), ("there", "there")):
    for option in ("--depfile ", "--set strategy_ckpt_save_file="):
        expect(f"compile m.mlir -o {output} {option}{name}", 1,
               f"{name}: error: cannot write: it is the output '{output}' of this command [E0112]\n")
    expect(f"opt m.mlir --passes=fold -o {output} --set strategy_ckpt_save_file={name}", 1,
           f"{name}: error: cannot write: it is the output '{output}' of this command [E0112]\n")
expect("compile m.mlir -o plan --depfile m.mlir", 1,
       "m.mlir: error: cannot write: it is the input 'm.mlir' of this command [E0112]\n")
expect.check("nothing was written", not os.path.exists("plan") and open("there").read() == "old")
expect.check("the inputs are as they were",
             open("m.mlir").read() == TEXT and open("c.json").read() == '{"device_num": 1}')
for name in ("m.link", "m.same", "c.json", "plan.link", "there"):
    os.unlink(name)

# Failures name the file and the reason; what was there stays.
write("out", "old")
write("bad.mlir", "no")
expect("dump bad.mlir -o out", 1, lambda text: "" if text.startswith("bad.mlir:1:1: error: ") else "syntax error")
expect("dump m.mlir -o absent/out", 1, "absent/out: error: cannot write: No such file or directory [E0112]\n")
expect("dump m.mlir -o folder", 1, "folder: error: cannot write: Is a directory [E0112]\n")
expect("dump m.mlir -o /dev/full", 3, "/dev/full: error: cannot write: No space left on device [E0112]\n")
limited = subprocess.run([MSC, "dump", "m.mlir", "-o", "out"], capture_output=True,
                         preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)))
expect.check("a write that fails half way: exit 3", limited.returncode == 3 and
             limited.stderr == b"out: error: cannot write: File too large [E0112]\n")
expect.check("the old file is untouched", open("out").read() == "old")

# A device or a pipe is written in place.
expect("dump m.mlir -o /dev/null", 0, "", "")
expect.check("/dev/null is still a device", stat.S_ISCHR(os.stat("/dev/null").st_mode))
os.mkfifo("pipe")
reader = subprocess.Popen(["cat", "pipe"], stdout=subprocess.PIPE)
expect("dump m.mlir -o pipe", 0, "", "")
expect.check("through a pipe", reader.communicate()[0].decode() == TEXT)
for command in ("dump m.mlir", "compile m.mlir --set device_num=8 --set parallel_mode=semi_auto_parallel"):
    expect(f"{command} -o pipe", 1, "pipe: error: cannot write: nobody reads from this pipe [E0112]\n")
closed = subprocess.Popen([MSC, "config"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
closed.stdout.close()
expect.check("a reader that has gone: silence", closed.stderr.read() == b"" and closed.wait() != 0)

expect.no_files("m.mlir", "bad.mlir", "out", "folder", "pipe")
expect.done()
