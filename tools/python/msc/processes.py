"""Ranks as processes: of their own (spawn), or those of an existing torchrun on this host (from_torchrun)."""
import itertools
import multiprocessing
import os
import secrets
from multiprocessing.connection import wait
from typing import Any, Callable, Tuple

from msc.ops import Error

_joined = itertools.count()  # jobs of this process, which all ranks open in the same order


def from_torchrun(ranks: int) -> Tuple[int, str]:
    """(rank, address) of this process in the job that torchrun started, for a plan of so many ranks."""
    words = {n: os.environ.get(n) for n in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_PORT")}
    missing = [n for n, v in words.items() if v is None]
    if missing:
        raise Error(f"this process was not started by torchrun: {', '.join(missing)} is not set")
    rank, world, local = (int(words[n]) for n in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"))
    if world != local:
        raise Error(f"torchrun has {world} processes on several hosts, {local} on this one: all must be on one")
    if world != ranks:
        raise Error(f"the plan is for {ranks} rank{'s' if ranks > 1 else ''}, torchrun has {world} processes")
    run = os.environ.get("TORCHELASTIC_RUN_ID", "none"), os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return rank, f"@msc-{os.getuid()}-{words['MASTER_PORT']}-{'-'.join(run)}-{next(_joined)}"


def _work(pipe, data, libraries, folder, options, function, args):
    """One rank: what the process does."""
    from msc.plan import Plan
    try:
        plan = Plan(data, libraries, folder)
        with plan.run(**options) as job:
            told = True, function(job, *args)
    except BaseException as e:
        told = False, e
    try:
        pipe.send(told)
    except Exception as e:  # what cannot be sent to another process
        pipe.send((False, Error(f"rank {options['rank']}: {told[1]!r} cannot be sent: {e}")))
    pipe.close()


def spawn(plan,
          function: Callable[..., Any],
          *args: Any,
          seed: int = 0,
          threads: int = 0,
          timeout: float = 300) -> list:
    """Executes a plan with a process for each rank: function(job, *args) in each of them, with the same arguments.
    Returns what it returned, by rank.

        def train(job, batches):
            return [job.step(x=x, y=y) for x, y in batches]

        losses = msc.spawn(msc.compile(graph, device_num=4), train, batches)[0]

    function and args are sent to the processes: function is one of a module, and a script that calls spawn does so
    under `if __name__ == "__main__":`.  What fails first is raised here, and all processes are ended."""
    context = multiprocessing.get_context("spawn")
    address = f"@msc-{os.getpid()}-{secrets.token_hex(8)}"
    workers, pipes = [], {}
    try:
        for rank in range(plan.ranks):
            mine, theirs = context.Pipe(duplex=False)
            options = dict(rank=rank, address=address, seed=seed, threads=threads, timeout=timeout)
            given = (theirs, plan.data, plan._libraries, plan._folder, options, function, args)
            workers.append(context.Process(target=_work, args=given, daemon=True))
            workers[-1].start()
            theirs.close()
            pipes[mine] = rank
        return _collect(dict(pipes))
    finally:
        for worker in workers:
            worker.join(1)
            worker.kill()
            worker.join()
        for pipe in pipes:
            pipe.close()


def _collect(pipes) -> list:
    """What all ranks return; of several failures the one that is not about other ranks."""
    found, failures, num = {}, [], len(pipes)
    while pipes and not failures:
        for pipe in wait(list(pipes)):
            rank = pipes.pop(pipe)
            failures += _receive(pipe, rank, found)
    while failures and pipes and (ready := wait(list(pipes), 1)):  # others that fail for the same reason
        for pipe in ready:
            failures += _receive(pipe, pipes.pop(pipe), found)
    if failures:
        raise next((f for f in failures if getattr(f, "code", "") != "PEER"), failures[0])
    return [found[rank] for rank in range(num)]


def _receive(pipe, rank, found) -> list:
    try:
        fine, told = pipe.recv()
    except EOFError:
        return [Error(f"the process of rank {rank} ended without a word")]
    if fine:
        found[rank] = told
    return [] if fine else [told]
