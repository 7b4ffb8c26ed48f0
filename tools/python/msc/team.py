"""Collectives of a program's own, between the processes of a job: msc.init, get_rank, get_group_size, Team."""
import ctypes
import os
from typing import Optional, Sequence

from msc import native, runtime
from msc.ops import Error
from msc.runtime import c_text

_OPERATIONS = ("sum", "max", "min", "prod")
_all: Optional["Team"] = None  # the team of init, as that of other frameworks


def _dtype_of(view):
    for number, (_, size, _, formats) in enumerate(runtime.DTYPES):
        if view.itemsize == size and view.format.lstrip("@=<") in formats:
            return number
    raise Error(f"there is no element type for the format '{view.format}'")


def _pointer(array, writes):
    """(its memoryview, address, what keeps the address valid) of a contiguous buffer."""
    view = memoryview(array)
    if not view.c_contiguous or (writes and view.readonly):
        raise Error("an array must be contiguous, and one that is written not read-only")
    memory = ctypes.c_char * view.nbytes
    kept = memory.from_buffer_copy(view.tobytes()) if view.readonly else memory.from_buffer(view.cast("B"))
    return view, ctypes.addressof(kept), kept


class Team:
    """Ranks that exchange arrays (anything with a buffer, as numpy's): those of a job (msc.init), or a group of it.
    Values are combined in the order of ranks; every member calls the same functions in the same order."""

    def __init__(self, handle, library):
        self._handle, self._library = handle, library
        self.rank, self.size = library.mscrt_rank(handle), library.mscrt_group_size(handle)

    def _call(self, name, *words):
        if not self._handle:
            raise Error("this team is at its end")
        native.check(self._library, getattr(self._library, name)(self._handle, *words))

    def group(self, ranks: Sequence[int]) -> "Team":
        """A team of some ranks, which count in ascending order; every rank of the job calls it, with a list that has it
        or not (then .rank is -1)."""
        out, numbers = ctypes.c_void_p(), (ctypes.c_int * max(len(ranks), 1))(*ranks)
        self._call("mscrt_group", len(ranks), numbers, ctypes.byref(out))
        return Team(out, self._library)

    def _exchange(self, name, src, dst, blocks_in, blocks_out, *operation):
        given, source, _one = _pointer(src, False)
        made, target, _two = _pointer(dst, True)
        dtype, count = _dtype_of(given), given.nbytes // given.itemsize // blocks_in
        if _dtype_of(made) != dtype or given.nbytes != count * blocks_in * given.itemsize or \
                made.nbytes != count * blocks_out * given.itemsize:
            raise Error(
                f"{name}: {given.nbytes} bytes of '{given.format}' do not become {made.nbytes} of '{made.format}'")
        self._call("mscrt_" + name, dtype, *operation, source, target, count)

    def all_reduce(self, src, dst, operation: str = "sum"):
        """dst, which may be src: what all ranks give, combined by sum, max, min or prod."""
        self._exchange("all_reduce", src, dst, 1, 1, _OPERATIONS.index(operation))

    def all_gather(self, src, dst):
        """dst: what all ranks give, one behind the other."""
        self._exchange("all_gather", src, dst, 1, self.size)

    def reduce_scatter(self, src, dst, operation: str = "sum"):
        """dst: of what all ranks give the part for this one, combined."""
        self._exchange("reduce_scatter", src, dst, self.size, 1, _OPERATIONS.index(operation))

    def all_to_all(self, src, dst):
        """src: a part for every rank; dst: the parts that every rank has for this one."""
        self._exchange("all_to_all", src, dst, self.size, self.size)

    def broadcast(self, data, root: int = 0):
        """data becomes that of the rank `root`."""
        view, address, _kept = _pointer(data, True)
        self._call("mscrt_broadcast", _dtype_of(view), root, address, view.nbytes // view.itemsize)

    def send(self, data, to: int):
        """A message to another rank; returns when it is on its way."""
        view, address, _kept = _pointer(data, False)
        self._call("mscrt_send", to, address, view.nbytes)

    def receive(self, data, source: int):
        """Into data, as many bytes as it has, which are as many as were sent."""
        view, address, _kept = _pointer(data, True)
        self._call("mscrt_receive", source, address, view.nbytes)

    def barrier(self):
        """Returns when all members have called it."""
        self._call("mscrt_barrier")

    def close(self):
        """Ends the group, or with the team of init the job for this rank."""
        handle, self._handle = self._handle, None
        if handle:
            self._library.mscrt_end(handle)


def init(backend: Optional[str] = None,
         rank: Optional[int] = None,
         ranks: Optional[int] = None,
         address: Optional[str] = None,
         timeout: float = 300,
         libraries: Optional[str] = None) -> Team:
    """Joins the job that `msc launch` started this process in, or torchrun, or the one that rank, ranks and address
    say; the team of all its ranks.  backend: "local" on one host, "hosts" on any, "tcp" without shared memory inside
    hosts, "mpi" where mpirun started the ranks, "ucx" where UCX is installed."""
    global _all
    if _all:
        raise Error("this process has joined a job already")
    library, out = native.executor(libraries), ctypes.c_void_p()
    o = runtime._Options(struct_size=ctypes.sizeof(runtime._Options), timeout_ms=int(timeout * 1000))
    torch = os.environ.get("WORLD_SIZE")
    if ranks is None and torch and not os.environ.get("MSC_RANKS"):
        rank, ranks = int(os.environ["RANK"]), int(torch)
        address = address or f"{os.environ['MASTER_ADDR']}:{int(os.environ['MASTER_PORT']) + 1}"  # beside torch's own
    if ranks is not None:
        o.rank, o.ranks, o.address = rank or 0, ranks, c_text(address) if address else None
    native.check(library, library.mscrt_init(c_text(backend) if backend else None, ctypes.byref(o), ctypes.byref(out)))
    _all = Team(out, library)
    return _all


def _team(group):
    if group is None and _all is None:
        raise Error("msc.init has not been called")
    return group or _all


def get_rank(group: Optional[Team] = None) -> int:
    """The number of this process in a group, or in the job."""
    return _team(group).rank


def get_group_size(group: Optional[Team] = None) -> int:
    """How many processes a group, or the job, has."""
    return _team(group).size


def finalize():
    """Ends the job for this rank."""
    global _all
    team, _all = _all, None
    if team:
        team.close()
