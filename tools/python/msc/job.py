"""Job: the ranks of a plan, each in a thread of its own; batches in, losses, outputs and parameters out."""
import ctypes
import functools
import math
import mmap
import os
import queue
import re
import secrets
import sys
import threading
import weakref
from ctypes import byref, c_double, c_void_p
from typing import Any, Callable, Dict, List, Optional, TypeVar, cast

from msc import native, runtime
from msc.array import KINDS, Array, Borrowed
from msc.native import RunError
from msc.ops import Error
from msc.runtime import c_text


class _Rank(threading.Thread):
    """Does what it is given, in order: the runtime wants one thread at a time for each rank."""

    def __init__(self, results):
        super().__init__(daemon=True)
        self.work: queue.SimpleQueue = queue.SimpleQueue()
        self.results = results
        self.start()

    def run(self):
        while True:
            ticket, function = self.work.get()
            if function is None:
                return
            value = failure = None
            try:
                value = function()
            except BaseException as e:  # goes to whoever waits
                failure = e.with_traceback(None)
            del function  # which knows the job, as frames do: its own thread must not be the last that has it
            self.results.put((ticket, value, failure))
            del value, failure


class _Lease:
    """Closes the only rank of a job when neither the job nor an array needs its memory any more."""

    def __init__(self, library, context):
        self._library, self._context = library, context

    def __del__(self):
        self._library.mscrt_close(self._context)


class Workspace:
    """Memory for the arenas of jobs that run one after another and keep nothing in them from one run to the next.  Only
    what is used of it takes memory."""

    _LEAST = 1 << 36

    def __init__(self):
        self.lock = threading.Lock()  # of who runs
        self._blocks: list = []  # (address, bytes, mapping), each larger than the ones before it
        self.allocate = ctypes.CFUNCTYPE(c_void_p, c_void_p, ctypes.c_size_t)(self._allocate)

    def _allocate(self, _, nbytes):
        if not self._blocks or self._blocks[-1][1] < nbytes:
            try:
                self._blocks.append(self._map(max(nbytes, self._LEAST)))
            except (OSError, ValueError):  # address space is limited
                try:
                    self._blocks.append(self._map(nbytes))
                except (OSError, ValueError):
                    return None
        return self._blocks[-1][0]

    @staticmethod
    def _map(nbytes):
        kind = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
        mapping = mmap.mmap(-1, nbytes, flags=kind)
        return ctypes.addressof(ctypes.c_char.from_buffer(mapping)), nbytes, mapping


_Call = TypeVar("_Call", bound=Callable[..., Any])


def _alone(call: _Call) -> _Call:
    """A call of an open job, for which calls of other threads wait, those of jobs with the same parameters too."""

    @functools.wraps(call)
    def wait_and_call(self, *arguments, **named):
        self._check_open()
        with self._turn:
            if self._closed:
                self._check_open()
            return call(self, *arguments, **named)

    return cast(_Call, wait_and_call)


class Job:
    """A running plan; made by Plan.run.  Calls from several threads wait for each other, but for cancel().  Ends with
    its `with` block or close().

        with plan.run(seed=1) as job:
            for x, y in batches:
                loss = job.step(x=x, y=y)          # numpy, torch, lists, bytes
            logits = job.predict("logits", x=new)  # an Array; any number of samples
            weight = job.read("dense.weight").numpy()
            job.save("trained.safetensors")

    After an error of a step the job cannot go on."""

    def __init__(self,
                 plan,
                 seed=0,
                 threads=0,
                 timeout=300.0,
                 rank=None,
                 address=None,
                 workspace=None,
                 parameters_of=None):
        if not 0 <= seed < 1 << 64:
            raise Error(f"seed={seed}: from 0 to 2^64 - 1")
        if not 0 < timeout < math.inf:
            raise Error(f"timeout={timeout}: a number of seconds above 0")
        if address and rank is None:
            raise Error(f"address={address!r}: where several processes meet; say which rank this one is")
        self._workspace = workspace  # a Workspace in which the arena of the only rank lies
        self._owner, self._sharers = parameters_of, weakref.WeakSet()  # of jobs whose parameters are those of this one
        self._turn = threading.RLock() if parameters_of is None else parameters_of._turn
        self.plan, self._library, self._process = plan, plan.library, os.getpid()
        self._results: queue.SimpleQueue = queue.SimpleQueue()
        self._ticket, self._closed, self._last, self._lease = 0, False, None, None
        self._held: Dict[str, Borrowed] = {}  # the batches in their own memory that the runtime looks at
        mine = range(plan.ranks) if rank is None else (rank, )
        self._contexts: Dict[int, c_void_p] = {r: c_void_p() for r in mine}
        # one rank needs no thread of its own
        self._ranks: List[_Rank] = [_Rank(self._results) for _ in mine] if len(mine) > 1 else []
        self._together = c_void_p()  # steps of several ranks, by one call
        meet = c_text(address or f"@msc-{os.getpid()}-{secrets.token_hex(8)}") if plan.ranks > 1 else None
        if rank is not None and plan.ranks > 1 and not address:
            raise Error("rank is one of several processes: they need an address to meet at, as '@my-job'")
        try:
            if self._owner is not None:
                self._owner._check_open()
                if self._owner.plan.ranks != plan.ranks or self._owner._contexts.keys() != self._contexts.keys():
                    raise Error(f"a job of {plan.ranks} ranks cannot have the parameters of one of "
                                f"{self._owner.plan.ranks}")
                self._owner._sharers.add(self)
            self._all(lambda r: self._open(r, seed, threads, timeout, meet))
            if self._owner is None and self._library.mscrt_plan_weights(plan.handle) is not None:
                folder = c_text(plan._folder)
                native.check(self._library, self._library.mscrt_plan_check_files(plan.handle, folder))
                self._all(lambda r: self._check("mscrt_load_weights", r, folder))
            if self._ranks:
                contexts = (c_void_p * len(mine))(*(c.value for c in self._contexts.values()))
                native.check(self._library,
                             self._library.mscrt_ranks_new(len(mine), contexts, byref(self._together)))
        except BaseException:
            self.close()
            raise

    # ---- all ranks ----

    def _open(self, rank, seed, threads, timeout, meet):
        options = runtime._Options(struct_size=ctypes.sizeof(runtime._Options),
                                   rank=rank,
                                   ranks=self.plan.ranks,
                                   address=meet,
                                   threads=threads,
                                   seed=seed,
                                   timeout_ms=int(timeout * 1000))
        if self._workspace:
            options.allocate = ctypes.cast(self._workspace.allocate, c_void_p)
        if self._owner is not None:
            options.parameters_of = self._owner._contexts[rank]
        native.check(self._library,
                     self._library.mscrt_open(self.plan.handle, byref(options), byref(self._contexts[rank])))

    def _check(self, function, rank, *arguments):
        native.check(self._library, getattr(self._library, function)(self._contexts[rank], *arguments))

    def _all(self, function: Callable[[int], Any]) -> list:
        """What every rank of this process returns; of several failures the one that is not about other ranks."""
        if not self._ranks:
            return [function(rank) for rank in self._contexts]
        self._ticket += 1
        places = list(self._contexts)
        for rank, thread in zip(places, self._ranks):
            thread.work.put(((self._ticket, rank), lambda rank=rank: function(rank)))
        values, failures = {}, []
        while len(values) < len(places):
            (ticket, rank), value, failure = self._results.get()
            if ticket == self._ticket:  # else of a call that was interrupted
                values[rank] = value
                failures += [failure] if failure else []
        if failures:
            try:
                raise next((f for f in failures if getattr(f, "code", "") != "PEER"), failures[0])
            finally:
                del failures, failure  # else they keep this frame, and so the job, until garbage is collected
        return [values[rank] for rank in places]

    def _check_open(self):
        if self._closed:
            raise Error("this job is closed")
        if self._process != os.getpid():
            raise Error(f"this job belongs to process {self._process}, which forked this one: open another here")

    # ---- steps ----

    def _borrow(self, name: str, value: Any) -> Borrowed:
        v = self.plan.inputs.get(name)
        if v is None:
            raise Error(f"the model has no input '{name}'; its inputs are: {', '.join(self.plan.inputs)}")
        return Borrowed(f"input '{name}'", value, v.dtype, v.shape)

    def _run(self, section: str, given: Dict[str, Borrowed]) -> float:
        inputs = [(c_text(name), memory.address, memory.nbytes) for name, memory in given.items()]
        self._held.update(given)
        name = c_text(section)
        if self._ranks:
            loss = self._run_ranks(name, inputs)
        else:
            (rank, ) = self._contexts
            loss = self._run_rank(rank, name, inputs)
        self._last = section
        return loss

    def _run_ranks(self, section: bytes, inputs) -> float:
        loss, num = c_double(), len(inputs)
        status = self._library.mscrt_ranks_run(self._together, section, 1, num, (native.Batch * num)(*inputs),
                                               byref(loss))
        if status:
            native.check(self._library, status)
        return loss.value

    def _run_rank(self, rank: int, section: bytes, inputs) -> float:
        context, borrow, loss = self._contexts[rank], self._library.mscrt_borrow_input, c_double()
        for name, address, nbytes in inputs:
            status = borrow(context, name, address, nbytes)
            if status:
                native.check(self._library, status)
        status = self._library.mscrt_run(context, section, 1, byref(loss))
        if status:
            native.check(self._library, status)
        return loss.value

    def _whole(self, inputs: Dict[str, Any], micro: int = 1) -> Dict[str, Borrowed]:
        """Checks whole batches, each of `micro` micro-batches: {name: Borrowed}."""
        given = {name: self._borrow(name, value) for name, value in inputs.items()}
        for name, memory in given.items():
            v = self.plan.inputs[name]
            if micro == 1 and memory.shape == v.shape:
                continue
            shape = tuple(s * micro if d == v.batch else s for d, s in enumerate(v.shape))
            if memory.shape not in (None, shape, (math.prod(shape), )):
                raise Error(f"input '{name}' has the shape {list(shape)}, not {list(memory.shape)}")
        return given

    @_alone
    def step(self, **inputs: Any) -> float:
        """One training step on whole batches, one for each input: arrays of the input's element type and shape, of
        plan.micro_batches times as many samples.  Returns the loss.  On one rank arrays are not copied, and an input
        that is not given has the array of the step before, with what is in it now.  Numbers of the optimizer, as in
        step(x=batch, lr=0.01, momentum=0.95), are those of all groups of parameters from this step on."""
        if not inputs.keys() <= self.plan.inputs.keys():
            numbers = [n for n in inputs if n not in self.plan.inputs and self._groups(n)]
            for name, value in {n: float(inputs.pop(n)) for n in numbers}.items():
                self._set_groups(name, value)
        return self._run("train", self._whole(inputs, self.plan.micro_batches))

    @_alone
    def evaluate(self, **inputs: Any) -> float:
        """The loss of any number of samples, the same in all inputs that have a batch; nothing is trained.  Of a loss
        that pairs samples (not plan.loss_adds_up) it is the mean over the batches, which must be whole."""
        samples, batch = self._count({name: self._borrow(name, value) for name, value in inputs.items()})
        if samples == batch:
            return self._run("forward", self._whole(inputs))
        given = {name: self._borrow(name, value) for name, value in inputs.items()}
        missing = [n for n, v in self.plan.inputs.items() if v.batch is not None and n not in given]
        if missing or not samples:
            raise Error(f"{samples} samples are given where a batch has {batch}: give as many of {', '.join(missing)}"
                        if samples else "the inputs have no samples")
        adds_up, divisor = self.plan._loss_of_many()
        rest = samples % batch
        if rest and not adds_up:
            raise Error(f"{samples} samples fill no batches of {batch}, and the loss is no mean of what each sample "
                        "has alone: give whole batches")

        def terms(first):
            """The loss of the batch that begins with this sample times its weight, and the weight."""
            loss = self._run("forward", {
                n: _part(n, self.plan.inputs[n], m, first, batch, samples)
                for n, m in given.items()
            })
            weight = self.read(divisor).item() if divisor else 1.0
            return loss * weight if weight else 0.0, weight  # the loss of nothing is 0 / 0

        all_terms = [terms(first) for first in range(0, samples, batch)]
        if rest:  # as runtime/execute/evaluate.c does it: takes out what fills the last batch up
            times, left = divmod(batch, rest)
            copies = terms(samples - 1) if left else (0.0, 0.0)
            all_terms[-1] = tuple(a + b if math.isinf(b) else (a - left / batch * b) / times
                                  for a, b in zip(all_terms[-1], copies))
        weight = sum(w for _, w in all_terms)
        return sum(a for a, _ in all_terms) / weight if weight else math.nan

    @_alone
    def predict(self, *outputs: str, **inputs: Any):
        """Outputs for any number of samples, the same in all inputs that have a batch: one name gives an Array,
        several, or none for all that can be told, a dictionary.  Labels may be left out.  Nothing is trained."""
        known = self.plan.outputs.get("forward", {})
        for name in outputs:
            if name not in known:
                raise Error(f"section forward has no output {name}; it has {', '.join(known) or 'none'}")
        given = {name: self._borrow(name, value) for name, value in inputs.items()}
        labels = [n for n, v in self.plan.inputs.items() if v.role == "label" and n not in given]
        samples, batch = self._count(given)
        if not samples:
            raise Error("the inputs have no samples")
        names = outputs or [
            n for n, v in known.items() if not (v.reads_labels and labels) and _has_rows(v, samples, batch)
        ]
        for name in names:
            if known[name].reads_labels and labels:
                raise Error(f"output {name} depends on labels: give {', '.join(labels)}")
        blank = {n: Borrowed(n, bytes(_bytes(self.plan.inputs[n])), self.plan.inputs[n].dtype, None) for n in labels}
        found: Dict[str, List[Array]] = {name: [] for name in names}
        for first in range(0, max(samples, 1), batch):
            self._run("forward", {
                **blank,
                **{
                    n: _part(n, self.plan.inputs[n], m, first, batch, samples)
                    for n, m in given.items()
                }
            })
            for name in names:
                found[name].append(self.read(name))
        done = {name: _join(name, known[name], parts, samples, batch) for name, parts in found.items()}
        return done[outputs[0]] if len(outputs) == 1 else done

    def _count(self, given):
        """The number of samples, and of those in a batch of the plan."""
        samples = batch = None
        for name, memory in given.items():
            v = self.plan.inputs[name]
            if v.batch is None:
                continue
            batch = v.shape[v.batch]
            num = memory.nbytes // (_bytes(v) // batch)
            if memory.nbytes % (_bytes(v) // batch) or (memory.shape and
                                                        (*memory.shape[:v.batch], *memory.shape[v.batch + 1:])
                                                        != (*v.shape[:v.batch], *v.shape[v.batch + 1:])
                                                        and len(memory.shape) > 1):
                raise Error(
                    f"input '{name}' has samples of the shape {list(v.shape)} without dimension {v.batch}, "
                    f"not {list(memory.shape or ())}"
                )
            if v.batch and num != batch:
                raise Error(
                    f"input '{name}': its samples lie along dimension {v.batch}, so exactly {batch} are given at a time"
                )
            if samples not in (None, num):
                raise Error(f"inputs have different numbers of samples: {samples} and {num}")
            samples = num
        return (samples, batch) if samples is not None else (1, 1)

    # ---- numbers that change between steps ----

    @_alone
    def set(self, name: str, value: float) -> None:
        """Changes one of plan.scalars for the steps from the next one on."""
        value = float(value)
        if not math.isfinite(value):
            raise Error(f"{name} = {value}: no finite number")
        self._all(lambda rank: self._check("mscrt_set_scalar", rank, c_text(name), value))

    @property
    def lr(self) -> float:
        """The learning rate, of the first group of parameters; can be set, and then is that of all groups."""
        return float(self.read("optimizer.lr"))

    @lr.setter
    def lr(self, value: float) -> None:
        self._set_groups("lr", value)

    def _groups(self, number: str) -> List[str]:
        """The names among plan.scalars of a number of the optimizer, one for each group of parameters."""
        name = f"optimizer.{number}"
        return [n for n in self.plan.scalars if n == name or re.fullmatch(re.escape(name) + r"\.\d+", n)]

    def _set_groups(self, number: str, value: float) -> None:
        for name in self._groups(number) or [f"optimizer.{number}"]:
            self.set(name, value)

    # ---- values ----

    @_alone
    def read(self, name: str) -> Array:
        """A parameter or state, or an output of the step that ran last, whole."""
        v = self.plan.parameters.get(name) or self.plan.outputs.get(self._last or "", {}).get(name)
        if v is None:
            raise Error(f"there is no parameter '{name}', nor an output of what ran last")
        array = Array(v.dtype, v.shape)
        self._read_into(name, array.address, array.nbytes)
        return array

    def _read_into(self, name, address, nbytes):
        first = next(iter(self._contexts))
        self._all(lambda rank: self._check("mscrt_read", rank, c_text(name), address if rank == first else None,
                                           nbytes))

    @_alone
    def _compute(self, inputs, outputs):
        """Section "forward" from and into memory of the caller: lists of names, as bytes, addresses and sizes.  Nobody
        needs that memory afterwards but the caller: the next call is given all again."""
        if self._ranks:
            self._run_ranks(b"forward", inputs)
            for name, address, nbytes in outputs:
                self._read_into(name.decode(), address, nbytes)
            return
        (rank, ) = self._contexts
        for name, address, nbytes in outputs:
            self._check("mscrt_borrow_output", rank, b"forward", name, address, nbytes)
        self._run_rank(rank, b"forward", inputs)

    @_alone
    def view(self, name: str) -> Array:
        """A parameter or state of a job of one rank in its own memory: steps change it, and what is written there the
        next step takes.  It can be looked at as long as anybody has it, also after close()."""
        v = self.plan.parameters.get(name)
        if v is None:
            raise Error(f"there is no parameter '{name}'")
        tensor = runtime._Tensor()
        if self.plan.ranks == 1:
            self._check("mscrt_local", 0, c_text(name), byref(tensor))
        if self.plan.ranks > 1 or math.prod(tensor.room[:tensor.rank]) != math.prod(v.shape):
            raise Error(f"{name} does not lie in one piece in the memory of one rank: read it")
        self._lease = self._lease or _Lease(self._library, self._contexts[0])
        memory = (ctypes.c_char * max(_bytes(v), 1)).from_address(tensor.data)
        memory.lease = self._lease
        return Array(v.dtype, v.shape, memory)

    @_alone
    def load(self, path) -> None:
        """Parameters, and state if it is there, from a safetensors file, a checkpoint, or what Hugging Face or PyTorch
        wrote."""
        self._all(lambda rank: self._check("mscrt_load", rank, c_text(path)))

    @_alone
    def save(self, path) -> None:
        """Writes whole parameters to a safetensors file; what stood there before stays until the new one is
        complete."""
        self._all(lambda rank: self._check("mscrt_save", rank, c_text(path)))

    @_alone
    def checkpoint(self, path) -> None:
        """Makes a folder with parameters, state, the number of steps and the seed: resume goes on bit for bit, also in
        a job of other ranks."""
        self._all(lambda rank: self._check("mscrt_checkpoint", rank, c_text(path)))

    @_alone
    def resume(self, path) -> None:
        """Goes on where the job was that wrote this checkpoint."""
        self._all(lambda rank: self._check("mscrt_resume", rank, c_text(path)))

    # ---- the end ----

    def cancel(self) -> None:
        """Ends the step under way, or the next, with RunError CANCELLED; from any thread.  A job of one rank can go on
        from there, others are at their end."""
        self._check_open()
        for context in self._contexts.values():
            self._library.mscrt_cancel(context)

    def close(self) -> None:
        """Gives back memory and threads; may be called again.  In a process that was forked from the job's it does
        nothing."""
        if self._closed or self._process != os.getpid():
            return
        with self._turn:
            self._close()

    def _close(self):
        if self._closed:
            return
        for job in list(self._sharers):
            job.close()
        self._closed = True
        if self._lease:
            self._lease = None
            return
        try:
            self._library.mscrt_ranks_free(self._together)
            self._all(lambda rank: self._library.mscrt_close(self._contexts[rank]))
        finally:
            for thread in self._ranks:
                thread.work.put((None, None))
            for thread in self._ranks:
                thread.join()

    def __del__(self):
        if not getattr(self, "_closed", True) and not sys.is_finalizing():
            self.close()

    def __enter__(self) -> "Job":
        self._check_open()
        return self

    def __exit__(self, *_) -> None:
        self.close()


def _bytes(v) -> int:
    return math.prod(v.shape) * KINDS[v.dtype][0]


class _Slice:
    """One batch of a borrowed array's samples; a short one is filled up with copies of all of them, as often as they
    fit, and of its last one."""

    def __init__(self, memory, first, num, room):
        size = memory.nbytes // room[1]
        self.memory = memory
        if num == room[0]:
            self.address = memory.address + first * size
        else:
            data = ctypes.string_at(memory.address + first * size, num * size)
            self._kept = data * (room[0] // num) + data[len(data) - size:] * (room[0] % num)
            self.address = ctypes.cast(ctypes.c_char_p(self._kept), c_void_p).value
        self.nbytes = size * room[0]


def _part(name, v, memory, first, batch, samples):
    if v.batch is None or samples == batch:
        return memory
    return _Slice(memory, first, min(batch, samples - first), (batch, samples))


def _has_rows(v, samples, batch):
    """True if the output has a row for each sample, or all samples are one batch."""
    return samples == batch or (v.batch == 0 and v.shape[0] % batch == 0)


def _join(name, v, parts, samples, batch):
    """The outputs of batches as one, without what filled up the last batch."""
    if samples == batch:
        return parts[0]
    if not _has_rows(v, samples, batch):
        raise Error(f"output {name} has no rows of samples: give exactly {batch} samples")
    rows = v.shape[0] // batch * samples
    array = Array(v.dtype, (rows, *v.shape[1:]))
    at = 0
    for part in parts:
        num = min(part.nbytes, array.nbytes - at)
        array.memory[at:at + num] = part.memory[:num]
        at += num
    return array
