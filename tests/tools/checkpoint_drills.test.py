#!/usr/bin/env python3
"""Checkpoints when things go wrong: processes killed at random times (25; with MSC_TEST_SLOW 500), all of them, one
rank or the launcher: what is left is the checkpoint before or the new one, and training goes on to the same bits; every
call that writes fails once; files that may not grow; a full disk; a slow disk does not hold up steps."""
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import time

from expect import MSC, SANITIZED, Expect, write
from small_models import two_products, write_samples

os.environ["XDG_CACHE_HOME"] = "/dev/null"
expect = Expect()
MODEL = two_products(hidden=600, init=0.03, lr=1e-3)
write("net.mlir", MODEL)
write_samples(44)
RUN = "--trust-native --data x=x.idx y=y.idx --seed 5 --json"
ZERO = "--set zero=1 --set parallel_optimizer_config={\"parallel_optimizer_threshold\":0}"
expect("compile net.mlir -o one.bin", 0, None)
expect(f"compile net.mlir -o two.bin --set device_num=2 --set parallel_mode=data_parallel {ZERO}", 0, None)
DP = "--set device_num=2 --set parallel_mode=data_parallel"
expect(f"compile net.mlir -o whole.bin {DP} --set integrated_save=true", 0, None)


def losses(text):
    found = [json.loads(line) for line in text.splitlines() if '"step"' in line and line.endswith("}")]
    return {line["step"]: line["loss"] for line in found}


def checkpoints(folder):
    return sorted(n for n in os.listdir(folder) if re.fullmatch(r"step-\d{12}", n))


# ---- killed ----
KILLS = 500 if os.environ.get("MSC_TEST_SLOW") else 25
rng = random.Random(int(os.environ.get("MSC_TEST_SEED", "1")))


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return list(map(int, file.read().split()))


def kill_some(run, who):
    """SIGKILL to all processes, to one rank, or to the launcher, whose ranks then end by themselves."""
    ranks = children(run.pid)
    if who == "rank" and ranks:
        os.kill(rng.choice(ranks), signal.SIGKILL)
    elif who == "launcher":
        run.kill()
    else:
        os.killpg(run.pid, signal.SIGKILL)


def drill(plan, kills):
    folder, seen, newest, in_save, ends = f"k-{plan}", {}, 0, 0, 0
    straight = losses(expect(f"run {plan} {RUN} --steps 60", 0, "").stdout.decode())
    for i in range(kills):
        run = subprocess.Popen([
            MSC, "run", plan, *RUN.split(), "--steps", "1000000", "--ckpt-dir", folder, "--ckpt-every", "1", "--resume"
        ], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        first = run.stdout.readline()
        time.sleep(rng.uniform(0, 0.05))
        kill_some(run, rng.choice(("all", "all", "rank", "launcher")))
        out, err = run.communicate(timeout=60)
        got = losses(first + out)
        if not got:
            expect.check(f"{plan}, kill {i}: a step before the kill: {err}", False)
            return
        for step, loss in got.items():
            if seen.setdefault(step, loss) != loss or straight.get(step, loss) != loss:
                expect.check(f"{plan}, kill {i}: step {step} has loss {loss}, it had {seen[step]}", False)
        expect.check(f"{plan}, kill {i}: it went on at {min(got)}, behind {newest}", min(got) == newest + 1)
        left = checkpoints(folder)
        in_save += any(name.endswith(".tmp") for name in os.listdir(folder))
        if left:
            expect(f"ckpt verify {folder}/{left[-1]}", 0, "")
            expect.check(f"{plan}, kill {i}: {left} after {newest}", int(left[-1][5:]) >= newest)
            newest = int(left[-1][5:])
        else:
            expect.check(f"{plan}, kill {i}: nothing is left after {newest}", newest == 0)
        ends = max(ends, *got)
    print(f"{plan}: {kills} kills, {in_save} of them while files were written; {newest} steps are kept, of {ends}")
    expect.check(f"{plan}: some kills hit a save", in_save > 0)


drill("two.bin", KILLS * 3 // 5)
drill("one.bin", KILLS // 5)
drill("whole.bin", KILLS - KILLS * 3 // 5 - KILLS // 5)

# ---- files that may not grow: what a full disk says, but for the number ----
expect(f"run one.bin {RUN} --steps 2 --ckpt-dir kept", 0, "")
size = max(os.path.getsize(f"kept/step-000000000002/{n}") for n in os.listdir("kept/step-000000000002"))
for limit in (0, 1, 1000, size // 2, size - 1):
    run = subprocess.run([MSC, "run", "one.bin", *RUN.split(), "--steps", "4", "--ckpt-dir", "kept", "--resume"],
                         capture_output=True, text=True, restore_signals=False,
                         preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    ok = run.returncode == 3 and re.search(r"kept/step-000000000004\.tmp/\S+: cannot write: File too large", run.stderr)
    expect.check(f"files of {limit} bytes: {run.returncode} {run.stderr} {os.listdir('kept')}", ok and
                 os.listdir("kept") == ["step-000000000002"])
expect("ckpt verify kept", 0, "")

# ---- a disk that becomes full ----
os.mkdir("disk")
mounted = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=1m none disk && exec "$0" "$@"']
if shutil.which("unshare") and not subprocess.run([*mounted, "true"], capture_output=True).returncode:
    script = ('"$0" "$@"; echo "exit $?"; ls disk; "$0" ckpt verify disk; echo "verified $?"; df disk | tail -1')
    run = subprocess.run([*mounted, "sh", "-c", script, MSC, "run", "two.bin", *RUN.split(), "--steps", "90",
                          "--ckpt-dir", "disk", "--ckpt-every", "1", "--ckpt-keep", "99"], capture_output=True,
                         text=True)
    whole = [line for line in run.stdout.splitlines() if line.startswith("step-")]
    expect.check(f"a full disk: {run.stderr} {run.stdout[-900:]}", "exit 3" in run.stdout and
                 "verified 0" in run.stdout and "No space left on device" in run.stderr and len(whole) >= 3
                 and "tmp" not in "".join(whole))
    print(f"a full disk: {len(whole)} checkpoints before it are sound")
else:
    print("skipped: a full disk: no name space with a tmpfs can be made")

# ---- every call fails once, and a slow disk ----
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
static int calls;
static int fails(const char *path) {
  const char *at = getenv("FAULT_AT"), *number = getenv("FAULT_ERRNO");
  if (!path || !strstr(path, "step-000000000004") || !at || ++calls != atoi(at)) return 0;
  errno = atoi(number);
  return 1;
}
static int fd_fails(int fd) {
  char link[64], path[4096];
  struct stat st;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  if (n < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode)) return 0;
  path[n] = 0;
  return fails(path);
}
#define NEXT(type, name, ...) ((type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name))
ssize_t write(int fd, const void *data, size_t bytes) {
  return fd_fails(fd) ? -1 : NEXT(ssize_t, write, int, const void *, size_t)(fd, data, bytes);
}
int fsync(int fd) {
  if (getenv("SLOW_MS")) usleep(1000 * (useconds_t)atoi(getenv("SLOW_MS")));
  return fd_fails(fd) ? -1 : NEXT(int, fsync, int)(fd);
}
int mkdir(const char *path, mode_t mode) {
  return fails(path) ? -1 : NEXT(int, mkdir, const char *, mode_t)(path, mode);
}
int rename(const char *a, const char *b) {
  return fails(a) ? -1 : NEXT(int, rename, const char *, const char *)(a, b);
}
int open(const char *path, int flags, ...) {
  va_list ap;
  va_start(ap, flags);
  mode_t mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;
  va_end(ap);
  if ((flags & O_CREAT) && fails(path)) return -1;
  return NEXT(int, open, const char *, int, ...)(path, flags, mode);
}
"""
if SANITIZED:
    print("skipped: failing calls and a slow disk: a sanitizer wants to be the first library")
    expect.done()
write("shim.c", SHIM)
if subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", "shim.so", "shim.c", "-ldl"]).returncode:
    print("skipped: failing calls and a slow disk: no C compiler")
    expect.done()
PRELOAD = {"LD_PRELOAD": os.path.abspath("shim.so")}
for plan, number, why in (("one.bin", 28, "No space left on device"), ("whole.bin", 28, "No space left on device"),
                          ("two.bin", 5, "Input/output error"), ("one.bin", 30, "Read-only file system")):
    failed = 0
    for at in range(1, 60):
        shutil.rmtree("f", ignore_errors=True)
        expect(f"run {plan} {RUN} --steps 2 --ckpt-dir f", 0, "")
        run = subprocess.run([MSC, "run", plan, *RUN.split(), "--steps", "6", "--ckpt-dir", "f", "--resume",
                              "--ckpt-every", "2"], capture_output=True, text=True,
                             env={**os.environ, **PRELOAD, "FAULT_AT": str(at), "FAULT_ERRNO": str(number)})
        if run.returncode == 0:
            break
        failed += 1
        expect.check(f"{plan}, call {at} fails: {run.returncode} {run.stderr}", run.returncode == 3 and
                     why in run.stderr and "step-000000000004" in run.stderr)
        expect.check(f"{plan}, call {at}: {os.listdir('f')}", os.listdir("f") == ["step-000000000002"])
        expect("ckpt verify f", 0, "")
    print(f"{plan}: each of {failed} calls failed once: {why}")
    expect.check(f"{plan}: {failed} calls were made to fail", failed >= 8)


def train_on_slow_disk(ms):
    """(seconds that steps 21 to 23 took, beside the save of step 20; seconds from step 24 to the end)."""
    shutil.rmtree("slow", ignore_errors=True)
    run = subprocess.Popen([MSC, "run", "one.bin", *RUN.split(), "--steps", "24", "--ckpt-dir", "slow", "--ckpt-every",
                            "20"], stdout=subprocess.PIPE, text=True, env={**os.environ, **PRELOAD, "SLOW_MS": str(ms)})
    when = {}
    for line in run.stdout:
        if '"step"' in line:
            when[json.loads(line)["step"]] = time.monotonic()
    run.wait()
    expect.check("checkpoints on a slow disk", checkpoints("slow") == ["step-000000000020", "step-000000000024"])
    return when[23] - when[20], time.monotonic() - when[24]


# Steps go on while a disk takes seconds for the checkpoint of step 20; the last checkpoint is waited for. Others may
# have the cores: then the disk is still slower.
for ms in (700, 2100, 6300):
    beside, behind = train_on_slow_disk(ms)
    if beside < 0.85e-3 * ms:
        break
expect.check(f"steps beside a save: {beside:.3f} s, then {behind:.3f} s", beside < 0.85e-3 * ms and behind > 2e-3 * ms)
expect.done()
