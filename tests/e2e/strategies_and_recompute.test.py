#!/usr/bin/env python3
"""strategies_and_recompute: within a memory_limit, strategies and recompute=auto chosen by the compiler are no
slower than the strategies that take least without a limit, given as a file, with recompute=auto."""
import json
import os
import subprocess
import sys
import tempfile



MSC = os.path.abspath(os.environ.get("MSC", "build/msc"))
MESH = 'mesh={"dp":2,"tp":2}'


def compiled(*keys):
    words = [word for key in ("parallel_mode=auto_parallel", MESH, "recompute=auto", *keys) for word in ("--set", key)]
    run = subprocess.run([MSC, "compile", "gpt.fbs", "-o", "plan.bin", "--json", *words], capture_output=True,
                         text=True)
    return json.loads(run.stdout) if run.returncode == 0 else None


def main():
    os.environ["PYTHONPATH"] = os.path.abspath("tools/python")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        sizes = "--layers 4 --hidden 64 --heads 4 --seq 32 --batch 16 --vocab 128"
        subprocess.run([sys.executable, "-m", "msc.models", "gpt", *sizes.split(), "-o", "gpt.fbs"], check=True)
        free = compiled("strategy_ckpt_save_file=free.json")
        compared = 0
        for share in (0.9, 0.8, 0.6):
            limit = f"memory_limit={int(share * free['memory_bytes_per_rank'])}"
            given, chosen = compiled("strategy_ckpt_load_file=free.json", limit), compiled(limit)
            if not given:
                continue
            compared += 1
            assert chosen, f"{limit}: refused, although strategies are known that meet it"
            print(
                f"{limit}: {chosen['predicted_step_ms']} ms, with the strategies that take least without a limit "
                f"{given['predicted_step_ms']} ms"
            )
            assert chosen["predicted_step_ms"] <= 1.001 * given["predicted_step_ms"]
        assert compared >= 2


main()
