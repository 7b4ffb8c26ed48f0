#!/usr/bin/env python3
"""completion and manual: what bash offers for words typed so far; scripts and pages that shells and man can read, with
every command and option that `--help` tells of."""
import re
import shutil
import subprocess

from expect import MSC, Expect, write

expect = Expect()


def printed(*command):
    return subprocess.run([MSC, *command], check=True, capture_output=True, text=True).stdout


def accept(name, command, text):
    """A program that reads `text` and finds nothing wrong with it."""
    if not shutil.which(command[0]):
        return print(f"skipped: {name}: there is no {command[0]}")
    expect.cases += 1
    run = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)
    if run.returncode or run.stderr:
        expect.fail(name, f"{command[0]} says", "nothing", run.stderr)


write("bash", printed("completion", "bash"))
# words as bash splits them: `=` is one of its own
OFFERED = (
    (["conf"], {"config"}), ([""], {"compile", "run", "help"}), (["compile", "--mc"], {"--mcpu"}),
    (["compile", "--color", ""], {"auto", "always", "never"}), (["run", "--overlap", "a"], {"always"}),
    (["compile", "--set", "parallel_m"], {"parallel_mode="}),
    (["compile", "--set", "parallel_mode", "=", "auto"], {"auto_parallel"}),
    (["compile", "--set", "full_batch", "="], {"true", "false"}), (["compile", "model"], set()),
    (["dump", "-"], {"--help", "--json"}),
)
for words, wanted in OFFERED:
    expect.cases += 1
    typed = " ".join(f"'{w}'" for w in ["msc", *words])
    script = f"source ./bash; COMP_WORDS=({typed}); COMP_CWORD={len(words)}; _msc 2>/dev/null; echo ${{COMPREPLY[@]}}"
    offered = set(subprocess.run(["bash", "-c", script], capture_output=True, text=True).stdout.split())
    if not (wanted <= offered and (wanted or not offered) and all(o.startswith(words[-1].strip("=")) for o in offered)):
        expect.fail(f"after {words}", "bash offers", wanted, offered)

commands = re.findall(r"^  (\w+) +(?!.*not supported yet)", printed("--help"), re.M)
scripts = {shell: printed("completion", shell) for shell in ("bash", "zsh", "fish")}
for command in commands:
    options = set(re.findall(r"^  --?([\w-]+)", printed(command, "--help"), re.M))
    page = printed("manual", command).replace("\\-", "-")
    for where, text in {**scripts, "manual": page}.items():
        expect.cases += 1
        missing = {o for o in options if not re.search(rf"(-|-l |-s ){o}\b", text)}
        if missing:
            expect.fail(f"{where} of {command}", "missing", "no option", missing)
    accept(f"manual {command}", ["groff", "-man", "-ww", "-Tutf8", "-z"], printed("manual", command))
accept("manual", ["groff", "-man", "-ww", "-Tutf8", "-z"], printed("manual"))
for shell, text in scripts.items():
    accept(f"completion {shell}", [shell, "-n"], text)

expect("completion csh", 2, "msc completion: error: 'csh' is none of bash|zsh|fish (msc completion --help)\n")
expect("completion", 2, "msc completion: error: needs bash|zsh|fish (msc completion --help)\n")
expect("manual confg", 2,
       "msc manual: error: there is no page of 'confg'; did you mean config? (msc manual --help)\n")
expect.done()
