#!/usr/bin/env python3
"""What is no ordinary file as an input, names of absurd length, and a machine that gives little: an end soon, and a
reason."""
import hashlib
import os
import resource
import stat
import subprocess
import time

from expect import MSC, SANITIZED, Expect, write

ROOT = os.getcwd()
expect = Expect()
TEXT = open(os.path.join(ROOT, "tests/tools/import/ffn1.mlir.txt")).read()
TEXT = TEXT.replace(' attributes {msc.mesh = #msc.mesh<"dp=2,tp=4">}', "").replace(" {in_strategy = [[2, 4], [4, 1]]}",
                                                                                   "")
os.environ["XDG_CACHE_HOME"] = os.path.abspath("cache")
write("m.mlir", TEXT)

# Folders, devices without an end, pipes that nobody writes into, files larger than any model.
os.mkfifo("pipe")
os.mkdir("folder")
with open("sparse", "wb") as out:
    out.truncate(1 << 40)
for path, why in (("folder", "it is a folder"), ("/dev/zero", "more than 16777216 bytes"),
                  ("sparse", "it has more than 2147483647 bytes")):
    for command in (f"compile {path} -o out", f"config --config {path}", f"run {path}", f"opt {path}", f"dump {path}",
                    f"memplan {path}",
                    f"compile m.mlir -o out --cluster ./{path}" if path != "/dev/zero" else "opt /dev/zero"):
        shown = f"./{path}" if "--cluster" in command else path
        expect(command, 1, f"{shown}: error: cannot read: {why} [E0112]\n")
expect("opt -", 1, "<stdin>:1:1: error: expected a module, not the end of the text [E0101]\n")
with open("/dev/zero") as zeros:
    run = subprocess.run([MSC, "opt", "-"], stdin=zeros, capture_output=True, timeout=60)
    expect.check("zeros on stdin",
                 (run.returncode, run.stderr) == (1,
                                                  b"<stdin>: error: cannot read: more than 16777216 bytes [E0112]\n"))
begin = time.monotonic()
expect("opt pipe", 1, "pipe: error: cannot read: nobody writes into this pipe [E0112]\n")
expect.check("not held up by a pipe", time.monotonic() - begin < 30)
late = subprocess.Popen(["sh", "-c", "exec >pipe; sleep 1; cat m.mlir"])
expect("opt pipe", 0, "", lambda text: "" if "msc.func" in text else "the module")
late.wait()
expect(
    "compile m.mlir -o out --set device_num=2 --set parallel_mode=semi_auto_parallel --set "
    "strategy_ckpt_load_file=pipe",
    1, "pipe: error: cannot read the strategy file: it is not a regular file [E0112]\n")

# Names as long as files: what they cost is in proportion to what is read. The time of the kernel, which is that of
# clearing pages and depends on its other guests, does not count.
def seconds_of(text):
    write("long.mlir", text)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    expect("compile long.mlir -o out", 0, None)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before.ru_utime


LONG = "w" * 4000000
short, longer = seconds_of(TEXT), seconds_of(TEXT.replace("%w", "%" + LONG).replace('"w"', f'"{LONG}"'))
expect.check(f"a name of 4 MB: {longer:.2f} s beside {short:.2f} s", longer < short + (20 if SANITIZED else 5))

# Data and weights.
expect("compile m.mlir -o plan.bin", 0, None)
write("x.idx", b"\0\0\x08\x02" + (32).to_bytes(4, "big") + (784).to_bytes(4, "big") + bytes(32 * 784))
write("y.idx", b"\0\0\x08\x01" + (32).to_bytes(4, "big") + bytes(32))
DATA = "--data x=x.idx y=y.idx"
for path in ("pipe", "folder", "/dev/zero"):
    said = f"msc: error: {path}: not a regular file [E0114]\n"
    expect(f"run plan.bin --data x={path} y=y.idx", 1,
           said if path != "folder" else "msc: error: folder: has no images [E0114]\n")
    of_folder = "msc: error: folder: neither a checkpoint (manifest.json), nor a folder of safetensors"
    expect(f"run plan.bin {DATA} --init {path}", 1, said if path != "folder" else lambda text: ""
           if text.startswith(of_folder) else of_folder)
    expect(f"run plan.bin {DATA} --save {path}", 1, said, None)
for option in ("--save", "--trace"):
    for path in ("x.idx", "plan.bin"):
        expect(f"run plan.bin {DATA} {option} {path}", 1,
               f"{path}: error: cannot write: it is the input '{path}' of this command [E0112]\n")
expect.check("zero is still a device", stat.S_ISCHR(os.stat("/dev/zero").st_mode))
os.symlink("w.safetensors", "link")
# What could not be written in the end is told before anything is trained.
expect(f"run plan.bin {DATA} --save link", 1, "msc: error: link: a link to nothing; give the file [E0114]\n", "")
expect(f"run plan.bin {DATA} --save nodir/w.st", 1,
       "msc: error: nodir/w.st: cannot create: No such file or directory [E0114]\n", "")
for option in ("--ckpt-dir", "--flight"):
    expect(f"run plan.bin {DATA} {option} nodir/kept", 1,
           "nodir/kept: error: cannot make the folder: No such file or directory [E0112]\n", "")
    expect(f"run plan.bin {DATA} {option} x.idx", 1,  # before anything is trained
           "x.idx: error: cannot write into it: Not a directory [E0112]\n", "")
expect(f"run plan.bin {DATA} --alive nodir/alive", 1,
       "msc: error: nodir/alive: cannot be touched: No such file or directory [E0114]\n", "")
for path, why in (("nodir/t.json", "No such file or directory"), ("folder", "Is a directory")):
    expect(f"run plan.bin {DATA} --trace {path}", 1, f"{path}: error: cannot write: {why} [E0112]\n", "")
for name in ("tt", "./tt", os.path.abspath("tt")):
    expect(f"run plan.bin {DATA} --save tt --trace {name}", 1,
           f"{name}: error: cannot write: it is the output 'tt' of this command [E0112]\n", "")
write("w.safetensors", "")
expect(f"run plan.bin {DATA} --save link", 0, "", None)
expect.check("weights go where a link leads", os.path.islink("link") and os.path.getsize("w.safetensors") > 784 * 40)

# A key has an effect or is refused, also where a plan runs.
expect(f"run plan.bin {DATA} --set device_nmu=2", 1,
       "--set device_nmu: error: unknown key 'device_nmu'; did you mean 'device_num'? [E0110]\n", "")
expect(f"run plan.bin {DATA} --config nofile", 1, "nofile: error: cannot read: No such file or directory [E0112]\n", "")
write("keys.json", '{"device_num": 1,\n "micro_size": 2, "strategy_ckpt_save_file": "s.json"}')
expect(f"run plan.bin {DATA} --config keys.json", 1,
       "keys.json:2:2: error: micro_size is 2, but the plan was compiled with 1; keys are for msc compile [E0110]\n"
       '    2 |  "micro_size": 2, "strategy_ckpt_save_file": "s.json"}\n      |  ^\n', "")
expect(f"run plan.bin {DATA} --config keys.json --set micro_size=1 --set global_rank=0", 0, "", None)
os.remove("keys.json")

# What is noted of plans stays bounded: the oldest notes go.
notes = os.path.join("cache", "msc", "plans")
for i in range(4100):
    path = os.path.join(notes, f"{i:064x}")
    write(path, "")
    os.utime(path, (i, i))
write(os.path.join(notes, "not-a-note"), "")
expect("compile m.mlir -o plan.bin", 0, None)
left = os.listdir(notes)
with open("plan.bin", "rb") as file:
    expect.check("a note is named by the SHA-256 of its plan", hashlib.sha256(file.read()).hexdigest() in left)
expect.check(f"{len(left)} notes",
             len(left) == 3072 + 1 and "not-a-note" in left and f"{4099:064x}" in left and f"{1000:064x}" not in left)

# A small stack.
if not SANITIZED:
    def with_stack(soft, hard):
        return subprocess.run([MSC, "compile", "m.mlir", "-o", "out"], capture_output=True, text=True, timeout=60,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (soft, hard)))
    small = with_stack(64 << 10, 64 << 10)
    said = "msc: error: the stack may have only 64 KiB, msc needs 1024 KiB: ulimit -s 8192\n"
    expect.check(f"a small stack: {small.stderr}", (small.returncode, small.stderr) == (3, said))
    expect.check("one that may grow", with_stack(64 << 10, resource.RLIM_INFINITY).returncode == 0)
expect.no_files("m.mlir", "pipe", "folder", "sparse", "long.mlir", "out", "plan.bin", "cache", "x.idx", "y.idx", "link",
                "w.safetensors")
expect.done()
