#!/usr/bin/env python3
"""In a program whose locale writes a comma where a number has its point, plans, losses and results are the same: here
msc itself with such a locale, which it never sets on its own."""
import json
import os
import subprocess

from expect import SANITIZED, Expect, write

expect = Expect()
if SANITIZED:
    print("skipped: another locale: a sanitizer wants to be the first library")
    expect.done()
write("locale.c", '#include <locale.h>\n#include <stdio.h>\n'
                  '__attribute__((constructor)) static void choose(void) {\n'
                  '  if (!setlocale(LC_ALL, "de_DE.UTF-8")) fprintf(stderr, "no locale\\n");\n}\n')
os.mkdir("locales")
try:
    subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", "locales/de_DE.UTF-8"], check=True, capture_output=True)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "locale.so", "locale.c"], check=True)
except (OSError, subprocess.CalledProcessError) as error:
    print(f"skipped: another locale: {error} (packages locales, gcc)")
    expect.done()
COMMA = {"LD_PRELOAD": os.path.abspath("locale.so"), "LOCPATH": os.path.abspath("locales"), "LC_ALL": "de_DE.UTF-8"}
said = subprocess.run(["printf", "%.1f", "1"], capture_output=True, text=True, env={**os.environ, **COMMA})
expect.check(f"the locale has a comma: {said.stdout}{said.stderr}", (said.stdout, said.stderr) == ("1,0", ""))

write("m.mlir", """module attributes {msc.name = "net"} {
  "msc.func"() ({
  ^bb0(%x: tensor<8x4096xf32>, %y: tensor<8x2xf32>, %w: tensor<4096x2xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<8x4096xf32>, tensor<4096x2xf32>) -> tensor<8x2xf32>
    %1 = "msc.gelu"(%0) {form = "tanh"} : (tensor<8x2xf32>) -> tensor<8x2xf32>
    %2 = "msc.mean_squared_error"(%1, %y) : (tensor<8x2xf32>, tensor<8x2xf32>) -> tensor<f32>
    "msc.return"(%2, %1) : (tensor<f32>, tensor<8x2xf32>) -> ()
  }) {sym_name = "forward", loss = 0 : i64, results = ["loss", "shown"],
      arg_attrs = [{msc.name = "x", msc.role = "data"}, {msc.name = "y", msc.role = "label"},
                   {msc.name = "w", msc.role = "parameter", msc.init = "normal:0.0625"}],
      optimizer = {kind = "adam", lr = 1.5e-03 : f32}} : () -> ()
}
""")
# Batches of 128 KiB: a thread reads them, whose locale is the program's.
write("x.csv", "".join(",".join(f"{(i * 37 + k) % 101 / 64 - 0.75}" for k in range(4096)) + "\n" for i in range(16)))
write("y.csv", "".join(f"{i / 16},{-0.75}\n" for i in range(16)))
done = {}
for name, env in (("a_point", {}), ("a_comma", COMMA)):
    words = "--set loss_scale=1.5 --set variable_lr=true --set device_num=2 --set parallel_mode=auto_parallel"
    told = {}
    for command in (f"compile m.mlir -o {name}.bin {words}", f"dump {name}.bin", "dump m.mlir", "config",
                    f"explain {name}.bin", f"simulate {name}.bin --json", f"report {name}.bin -o {name}.html",
                    f"run {name}.bin --data x=x.csv y=y.csv --steps 6 --lr-schedule cosine:min=0.1 --threads 1 --json"
                    f" --seed 3 --save {name}.safetensors --ckpt-dir {name}.ckpt", f"ckpt verify {name}.ckpt",
                    f"run {name}.bin --init {name}.safetensors --data x=x.csv --output shown={name}.npy"):
        out = expect(command, 0, None if command.startswith("compile") else "", None, env=env).stdout.decode()
        told[command.replace(name, "NAME")] = out.replace(name, "NAME")
    done[name] = told
for command in done["a_point"]:
    both = [done[name][command] for name in ("a_point", "a_comma")]
    if command.startswith("run") and "--json" in command:
        both = [[json.loads(line).get("loss") for line in text.splitlines()] for text in both]
        expect.check(f"losses: {both[0]}", len(set(both[0][:6])) == 6)
    elif command.startswith(("compile", "run", "report")):
        continue  # they tell times
    expect.check(f"{command}: the same\n{both[0]}\n{both[1]}", both[0] == both[1])
for end in ("safetensors", "npy"):
    expect.check(f"the same .{end}", open(f"a_point.{end}", "rb").read() == open(f"a_comma.{end}", "rb").read())
expect.done()
