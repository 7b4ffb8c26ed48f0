#!/usr/bin/env python3
"""retarget.py KERNELS.ll OUT.so STANDIN.so: kernels for a GPU, as LLVM IR, become a library for this machine.  The
GPU's intrinsics become calls of the stand-in; each kernel K gets K__run, which takes the addresses of its
parameters, K__meets, whether its threads meet, and K__parameters."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

MEETING = re.compile(r"@standin_(barrier|bar_|shfl|vote|match|redux)")
PARAMETER = re.compile(r"^(ptr|i64|double|float)\b")


def shim(name):
    return "@standin_" + re.sub(r"[^A-Za-z0-9]", "_", name)


def retargeted(text):
    text = re.sub(r"^target (datalayout|triple).*\n", "", text, flags=re.M)
    text = re.sub(r"\s+\"(target-cpu|target-features|tune-cpu)\"=\"[^\"]*\"", "", text)
    text = re.sub(r"\s*addrspace\(\d+\)", "", text)
    text = re.sub(r"addrspacecast \(ptr ([^()]*) to ptr\)", r"\1", text)
    text = text.replace("= addrspacecast ptr ", "= bitcast ptr ")
    text = re.sub(r"\bptx_(kernel|device) ", "", text)
    # two bf16 in one word: no vector of them crosses a call
    text = re.sub(r"(%[\w.]+) = ((?:tail )?call)(?: [a-z]+)* <2 x bfloat> @llvm\.nvvm\.(ff2bf16x2[\w.]*)\(",
                  lambda m: f"{m[1]} = bitcast i32 %word{m[1][1:]} to <2 x bfloat>\0"
                  f"%word{m[1][1:]} = {m[2]} i32 {shim(m[3])}(",
                  text)
    text = "\n".join("\n".join(reversed(line.split("\0"))) for line in text.split("\n"))
    text = re.sub(r"declare <2 x bfloat> @llvm\.nvvm\.(ff2bf16x2[\w.]*)", lambda m: f"declare i32 {shim(m[1])}", text)
    text = re.sub(r"@llvm\.nvvm\.([\w.]+)", lambda m: shim(m[1]), text)
    declared = {}

    def assembly(m):
        name = shim("asm." + m["code"].split()[0].strip(";"))
        types = [a.split()[0] for a in m["args"].split(", ") if a]
        declared[name] = f"declare {m['type']} {name}({', '.join(types)})"
        return f"call {m['type']} {name}({m['args']})"

    text = re.sub(r"call (?P<type>\w+) asm (?:sideeffect )?\"(?P<code>[^\"]*)\", \"[^\"]*\"\((?P<args>[^()]*)\)",
                  assembly, text)
    return text + "\n" + "\n".join(declared.values()) + "\n"


def split_parameters(text):
    depth, parts, part = 0, [], ""
    for c in text:
        depth += (c in "([{<") - (c in ")]}>")
        if c == "," and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            part += c
    return parts + ([part.strip()] if part.strip() else [])


def functions(text):
    """name, parameters, body of each definition"""
    for m in re.finditer(r"^define [^@\n]*@([\w.$]+)\(([^\n]*)\)[^\n)]*\{\n(.*?)^\}", text, flags=re.M | re.S):
        yield m[1], split_parameters(m[2]), m[3]


def kernels_of(original):
    names = set(re.findall(r"define [^@\n]*ptx_kernel [^@\n]*@([\w.$]+)", original))
    return names | set(re.findall(r"!\{ptr @([\w.$]+), !\"kernel\", i32 1", original))


def entry(name, parameters, meets):
    types = {"ptr": "void *", "i64": "long long ", "double": "double ", "float": "float "}
    kinds = []
    for p in parameters:
        m = PARAMETER.match(p)
        if not m:
            sys.exit(f"retarget: parameter '{p}' of {name} is none that the runtime gives")
        kinds.append(types[m[1]])
    arguments = ", ".join(f"*({k}*)p[{i}]" for i, k in enumerate(kinds))
    return (
        f"void {name}({', '.join(kinds) or 'void'});\nvoid {name}__run(void **p) {{ (void)p; {name}({arguments}); }}\n"
        f"const int {name}__meets = {int(bool(meets))}, {name}__parameters = {len(kinds)};\n")


def tool(*names):
    found = next((shutil.which(n) for n in names if shutil.which(n)), None)
    return found or sys.exit(f"retarget: {names[0]} is missing")


def main(source, out, standin):
    if os.path.exists(out) and os.path.getmtime(out) > max(os.path.getmtime(source), os.path.getmtime(__file__)):
        return
    original = open(source).read()
    text, wanted, code = retargeted(original), kernels_of(original), ""
    for name, parameters, body in functions(text):
        helpers = re.search(r"call [^@\n]*@(?!standin_|llvm\.)[\w.$]+\(", body)
        if name in wanted:
            code += entry(name, parameters, MEETING.search(body) or helpers)
    with tempfile.TemporaryDirectory() as folder:
        open(f"{folder}/k.ll", "w").write(text)
        open(f"{folder}/entries.c", "w").write(code)
        subprocess.run([
            tool("llc-19", "llc"), "-O1", "-filetype=obj", "-relocation-model=pic", "-mtriple=x86_64-pc-linux-gnu",
            "-mcpu=x86-64-v3", f"{folder}/k.ll", "-o", f"{folder}/k.o"
        ], check=True)
        # a kernel is called sin, as a function of the C library is: here it is the kernel that is meant
        subprocess.run([
            tool("cc", "gcc", "clang-19"), "-shared", "-fPIC", "-fno-builtin", "-Wl,-Bsymbolic", "-O1", "-w",
            f"{folder}/entries.c", f"{folder}/k.o", "-o", f"{folder}/k.so", standin, "-lm"
        ], check=True)
        own = f"{out}.{os.getpid()}"
        shutil.copyfile(f"{folder}/k.so", own)
        os.chmod(own, 0o755)
        os.rename(own, out)


main(*sys.argv[1:])
