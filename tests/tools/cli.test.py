#!/usr/bin/env python3
"""The command line itself: usage errors, help, formats of diagnostics, exit codes."""
import json
import os
import signal
import subprocess

from expect import MSC, SANITIZED, Expect, write

expect = Expect()

# Usage: exit 2, one line, what was meant.
expect("", 2, lambda text: "" if text.startswith("usage: msc COMMAND [OPTION ...] [FILE ...]\n") else "usage on stderr")
expect("--help", 0, "", lambda text: "" if "\n  config     the effective configuration" in text else "list of commands")
expect("confgi", 2, "msc: error: unknown command 'confgi'; did you mean config? (msc --help)\n")
expect("42", 2, "msc: error: unknown command '42' (msc --help)\n")
expect("config --help", 0, "", lambda text: ""
       if text.startswith("usage: msc config [OPTION ...] [KEY ...]\n") else "usage")
expect("help config", 0, "", lambda text: "" if "--diagnostic-format text|json|sarif" in text else "common options")
expect("config --jsn", 2, "msc config: error: unknown option --jsn; did you mean --json? (msc config --help)\n")
expect("config -q", 2, "msc config: error: unknown option -q (msc config --help)\n")
expect("config --json=1", 2, "msc config: error: --json=1: takes no value (msc config --help)\n")
expect("config --set", 2, "msc config: error: --set: needs KEY=VALUE (msc config --help)\n")
expect("config --color=blue --max-memory 1x", 2,
       "msc config: error: --color: 'blue' is none of auto|always|never (msc config --help)\n"
       "msc config: error: --max-memory: '1x' is not a size such as 4096, 64k or 2G (msc config --help)\n")
expect("explain", 2, "msc explain: error: needs PLAN|MODEL|CODE [OP] (msc explain --help)\n")
expect("explain a b c", 2, "msc explain: error: one operand too many: 'c' (msc explain --help)\n")
expect("--version", 0, "", lambda text: "" if text.startswith("msc ") else "version")

# Codes.
expect(
    "explain E0110", 0, "",
    "E0110: bad configuration\n\nA configuration key is unknown, has the wrong type, or a value outside its range.\n")
expect("explain 110 --json", 0, "", lambda text: "" if json.loads(text)["code"] == "E0110" else "code")
expect(
    "explain E0999", 1, lambda text: ""
    if text.startswith("msc: error: there is no diagnostic code 'E0999'; the codes are:\n"
                       "msc: note: E0101 syntax error\n") else "list of codes")

# Configuration: place, source line, caret; all errors at once; the effective value and its origin.
write("c.json", '{\n  "device_nmu": 8,\n\t"full_batch": "J\u00fcrgen", "zero": -1\n}\n')
expect("config --config c.json", 1,
       "c.json:2:3: error: unknown key 'device_nmu'; did you mean 'device_num'? [E0110]\n"
       '    2 |   "device_nmu": 8,\n      |   ^\n'
       'c.json:3:2: error: full_batch: must be true or false, not "J\u00fcrgen" [E0110]\n'
       '    3 |  "full_batch": "J\u00fcrgen", "zero": -1\n      |  ^\n'
       "c.json:3:27: error: zero: must be a whole number from 0 to 3, not -1 [E0110]\n"
       '    3 |  "full_batch": "J\u00fcrgen", "zero": -1\n      |                          ^\n')
expect("config --config absent.json", 1, "absent.json: error: cannot read: No such file or directory [E0112]\n")
expect("config --config .", 1, ".: error: cannot read: it is a folder [E0112]\n")
# Every command checks the keys that it is given, also one that reads none.
for command in ("doctor", "schedule --kind gpipe --stages 2 --micro-batches 2 --tf 1 --tb 1", "completion bash",
                "layout --shape 4 --unify-with 4", "launch -n 1 true", "manual run"):
    expect([*command.split()[:1], "--set", "device_nmu=3", *command.split()[1:]], 1,
           "--set device_nmu: error: unknown key 'device_nmu'; did you mean 'device_num'? [E0110]\n", "")
    expect([*command.split()[:1], "--config", "nowhere.json", *command.split()[1:]], 1,
           "nowhere.json: error: cannot read: No such file or directory [E0112]\n", "")
expect(["config", "--set", "full_batch=\x1b[2J"], 1,
       '--set full_batch: error: full_batch: must be true or false, not "\\u001B[2J" [E0110]\n')
expect(["config", "--config", "a\x1b\nb"], 1, "a\\x1b\nb: error: cannot read: No such file or directory [E0112]\n")
expect(["config", "--set", "device_num=8", "--set", "parallel_mode=data_parallel", "device_num", "parallel_mode"], 0,
       "", '8\n"data_parallel"\n')
LEGAL = {
    "zero": "[a whole number from 0 to 3]", "overlap": "[true or false]", "recompute": "[manual or auto]",
    "prefetch_depth": "[a whole number, at least 0]", "post_validation": "[true or false; so far only true]",
    "parallel_optimizer_config": "[an object with gradient_accumulation_shard (true or false), "
                                 "parallel_optimizer_threshold (a whole number, at least 0), or null]"
}
listed = {line.split()[0]: line for line in expect("config", 0, "", None).stdout.decode().splitlines()}
expect.check("every key's legal values", all(listed[key].endswith(" " + legal) for key, legal in LEGAL.items()))
expect("config devicenum", 1, "msc: error: unknown key 'devicenum'; did you mean 'device_num'? [E0110]\n")
expect("config --config - device_num", 0, "", "2\n", b'{"device_num": 2, "parallel_mode": "data_parallel",} // two')
expect("config --config - --max-memory 1M", 1,
       "msc: error: out of memory: the bound on the compiler's memory was reached [E0116]\n", None, b" " * (4 << 20))
expect("config device_num", 1, "msc: error: environment variable MSC_DEBUG must be 0 to 5, not 'x' [E0110]\n", "",
       env={"MSC_DEBUG": "x"})

# Colours only when asked for or on a terminal.
red = "c.json:2:3: \x1b[1;31merror:\x1b[0m"
expect("config --config c.json --color=always", 1, lambda text: "" if text.startswith(red) else "colours")
expect("config --config c.json --color=always", 1, lambda text: ""
       if text.startswith(red) else "an option beats NO_COLOR", env={"NO_COLOR": "1"})


def on_terminal(env):
    parent, child = os.openpty()
    subprocess.run([MSC, "config", "--config", "c.json"], stderr=child, stdout=subprocess.DEVNULL,
                   env={**os.environ, "TERM": "xterm", **env})
    os.close(child)
    text = b""
    try:
        while more := os.read(parent, 4096):
            text += more
    except OSError:  # the other end is closed
        pass
    os.close(parent)
    return text.decode()


try:
    expect.check("colours on a terminal", on_terminal({"NO_COLOR": ""}).startswith(red))
    expect.check("no colours with NO_COLOR", "\x1b" not in on_terminal({"NO_COLOR": "1"}))
except OSError as error:
    print(f"skipped: no terminal to be had here: {error}")


# Formats for programs.
def as_json(text):
    found = json.loads(text)
    first = found["diagnostics"][0]
    good = found["errors"] == 3 and first["file"] == "c.json" and (first["line"],
                                                                   first["column"]) == (2,
                                                                                        3) and first["code"] == "E0110"
    return "" if good and first["severity"] == "error" and first["message"].startswith("unknown key") else "fields"


def as_sarif(text):
    found = json.loads(text)
    run = found["runs"][0]
    result = run["results"][2]
    place = result["locations"][0]["physicalLocation"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    good = found["version"] == "2.1.0" and run["tool"]["driver"]["name"] == "msc" and result[
        "ruleId"] in rules and result["level"] == "error"
    return "" if good and place == {
        "artifactLocation": {"uri": "c.json"}, "region": {"startLine": 3, "startColumn": 27}
    } else "fields"


expect("config --config c.json --diagnostic-format=json", 1, as_json)
expect("config --config c.json --diagnostic-format=sarif", 1, as_sarif)
expect("config --diagnostic-format=json device_num", 0, '{"diagnostics":[],"errors":0}\n', "1\n")
expect("config --diagnostic-format=sarif device_num", 0, lambda text: ""
       if json.loads(text)["runs"][0]["results"] == [] else "results")

# A full disk under stdout, and a crash of msc itself.
with open("/dev/full", "w") as full:
    run = subprocess.run([MSC, "config"], stdout=full, stderr=subprocess.PIPE)
expect.check("full disk: exit 3 and a reason", run.returncode == 3 and
             run.stderr == b"msc: error: cannot write to stdout: No space left on device\n")
if not SANITIZED:
    waiting = subprocess.Popen([MSC, "config", "--config", "-"], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    waiting.stdin.write(b" " * 300000)  # more than a pipe holds: returns when msc is reading
    waiting.stdin.flush()
    waiting.send_signal(signal.SIGSEGV)
    text = waiting.communicate()[1].decode()
    expect.check("crash: exit 70", waiting.returncode == 70)
    expect.check("crash: message",
                 text == "msc: internal error: signal 11; this is a bug in msc [E0170]\nreproducer: msc-repro.sh\n")
    expect.check("crash: the command is kept", open("msc-repro.sh").read() == "msc 'config' '--config' '-'\n")
    os.unlink("msc-repro.sh")

    # In a pass: the IR that went into it is saved as a test case.  What msc prints fills the pipe, so it is still
    # printing.
    ops = "".join(f'    %{i + 1} = "msc.exp"(%{i}) : (tensor<4xf32>) -> tensor<4xf32>\n'
                  for i in range(4000)) + '    %4001 = "msc.exp"(%0) : (tensor<4xf32>) -> tensor<4xf32>\n'
    with open("many.mlir", "w") as out:
        out.write('module {\n  "msc.func"() ({\n  ^bb0(%0: tensor<4xf32>):\n' + ops +
                  '    "msc.return"(%4000) : (tensor<4xf32>) -> ()\n  }) {sym_name = "f"} : () -> ()\n}\n')
    printing = subprocess.Popen(
        [MSC, "opt", "many.mlir", "--passes=dce", "--set", "gradients_mean=true", "--print-ir-after-change"],
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    printing.stderr.read(1)
    printing.send_signal(signal.SIGSEGV)
    text = printing.communicate()[1].decode()
    expect.check("crash in a pass: exit 70", printing.returncode == 70)
    expect.check("crash in a pass: message", text.endswith("reproducer: msc-repro.mlir\n"))
    with open("msc-repro.mlir") as saved:
        line, ir = saved.readline(), saved.read()
    expect.check("crash in a pass: the case runs that pass",
                 line == "// RUN: msc opt --passes=dce --set 'gradients_mean=true' %s\n")
    expect.check("crash in a pass: the case is its input", ir == open("many.mlir").read())
    os.unlink("msc-repro.mlir"), os.unlink("many.mlir")

expect.no_files("c.json")
expect.done()
