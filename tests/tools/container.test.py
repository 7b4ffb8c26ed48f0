#!/usr/bin/env python3
"""tools/Containerfile: the image has every library that the installed program is linked with, by the packages of Debian
that own them, and every one that msc opens by name; what is copied and run exists."""
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MSC = os.path.abspath(os.environ.get("MSC", os.path.join(ROOT, "build/msc")))
BASE = {"libc6", "libgcc-s1"}  # of every Debian
OPENED = {"libdnnl2", "libsodium23", "libpng16-16", "libturbojpeg0", "libsnappy1v5"}

with open(os.path.join(ROOT, "tools/Containerfile"), encoding="utf-8") as file:
    parts = file.read().split("\nFROM ")[1:]
stages = {part.split("\n", 1)[0].rsplit(" AS ", 1)[1]: part for part in parts}


def packages(stage):
    """What a stage installs by apt-get."""
    text = stages[stage].replace("\\\n", " ")
    found = re.search(r"apt-get install -qy --no-install-recommends ([^&\n]*)", text)
    return set(found[1].split())


assert set(stages) == {"build", "cpu", "wheels", "cuda"}, stages.keys()
assert OPENED <= packages("cpu"), OPENED - packages("cpu")
assert "tools/setup && ninja" in stages["build"] and os.access(os.path.join(ROOT, "tools/setup"), os.X_OK)
assert re.search(r"^USER (?!0)\d+", stages["cpu"], re.M), "the user is root"
if not shutil.which("dpkg-query"):
    print("skipped: whether the image has all libraries: there is no dpkg-query")
    sys.exit()
for line in subprocess.run(["ldd", MSC], check=True, capture_output=True, text=True).stdout.splitlines():
    path = re.search(r"=> (/\S+)", line)
    if not path:
        continue
    names = {path[1], os.path.realpath(path[1]), os.path.realpath(path[1]).replace("/usr/lib/", "/lib/", 1)}
    owners = set()
    for name in names:
        out = subprocess.run(["dpkg-query", "-S", name], capture_output=True, text=True).stdout
        owners |= {re.split("[:,]", owner)[0] for owner in out.split("\n") if owner}
    assert owners & (packages("cpu") | BASE), f"{path[1]} is of {owners}, which the image has not"
print("the image has every library")
