"""resized: runs whose number of ranks changes as a test kills and adds some: each piece is that of a fresh run."""
import json
import os
import re
import signal
import time

from expect import MSC
from paced import Paced

RUN = "--trust-native --data x=x.idx y=y.idx --seed 5 --json --threads 1 --timeout 30"


def losses(text):
    return {line["step"]: line["loss"] for line in map(json.loads, text.splitlines()) if "step" in line}


made = {}


def fresh(expect, plan, ranks, begin, end, before):
    """The losses of steps begin + 1 to end on so many ranks, from the checkpoint of step `begin` of a run on `before`:
    a list of (ranks, until which step)."""
    key = (plan, ranks, begin, end, tuple(before))
    if key not in made:
        folder = f"fresh-{len(made)}"
        for i, (num, until) in enumerate([*before, (ranks, end)]):
            run = expect(f"run {plan}.bin -n {num} {RUN} --steps {until} --ckpt-dir {folder} --ckpt-keep 1"
                         f"{' --resume' if i else ''}", 0, None)
        made[key] = losses(run.stdout.decode())
    return made[key]


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return list(map(int, file.read().split()))


class Run(Paced):
    def __init__(self, plan, steps, more="", alike=None):
        """Begins a run of plan.bin; alike: another plan, of which fresh runs have the same losses."""
        self.plan, self.steps, self.servers = alike or plan, steps, []
        super().__init__([MSC, "run", f"{plan}.bin", *RUN.split(), "--steps", str(steps), *more.split()])

    def note_servers(self, first, num):
        """Notes which processes are servers, once all have begun: those behind the first `first`."""
        self.read_lines(1)
        self.servers = children(self.process.pid)[first:first + num]

    def ranks(self):
        return [pid for pid in children(self.process.pid) if pid not in self.servers]

    def kill(self, *numbers, by=signal.SIGKILL):
        """Kills processes by their place among those that live, and waits until the others go on. The seconds."""
        pids, begun = self.ranks(), time.monotonic()
        for number in numbers:
            os.kill(pids[number], by)
        self.go_on()
        return time.monotonic() - begun

    def more(self):
        self.process.send_signal(signal.SIGUSR2)
        self.go_on()

    def go_on(self):
        before = self.said.count(" on at step ")
        self.read_until(lambda: self.said.count(" on at step ") > before and self.said.endswith("\n"))

    def end(self):
        code = super().end()
        self.changes = [(int(a), int(b)) for a, b in re.findall(r"(\d+) ranks? goe?s? on at step (\d+)", self.said)]
        return code, self.out


def check(expect, name, run, ranks, wanted):
    """Every piece of the run is that of fresh ranks from its beginning."""
    code, out = run.end()
    expect.check(f"{name}: exit code {code}: {run.said}", code == 0)
    # ranks meet again, as many as before, where a server is lost while they meet
    numbers = [num for num, _ in run.changes]
    fewer = [num for i, num in enumerate(numbers) if not i or num != numbers[i - 1]]
    expect.check(f"{name}: {run.changes} ranks, not {wanted}: {run.said}", wanted in (numbers, fewer))
    got, before, now, begin = losses(out), [], ranks, 0
    for num, step in [*run.changes, (0, run.steps)]:
        piece = fresh(expect, run.plan, now, begin, step, before) if step > begin else {}
        wrong = [s for s in range(begin + 1, step + 1) if got.get(s) != piece.get(s)]
        expect.check(f"{name}: on {now} ranks from step {begin} on, step {wrong[:1]}: {got.get((wrong or [0])[0])}",
                     not wrong)
        if step > begin:
            before.append((now, step))
        now, begin = num, step
