"""The C libraries libmsc (ir/msc.h) and libmscrt (runtime/mscrt.h) as ctypes functions."""
import ctypes
import os
import queue
import shutil
import threading
from ctypes import POINTER, Structure, c_bool, c_char, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint32, c_uint64
from ctypes import c_void_p
from typing import Any, Callable, List, NamedTuple, Optional

from msc import runtime
from msc.ops import Error

_HERE = os.path.dirname(os.path.abspath(__file__))
# in a wheel; beside the package's sources; else where the system's loader looks
_FOLDERS = (os.path.join(_HERE, "lib"), os.path.join(_HERE, "..", "..", "..", "build"))


class OpenSize(Structure):
    _fields_ = [("name", c_char_p), ("size", c_int64)]


class CompilerOptions(Structure):
    _fields_ = [("struct_size", c_size_t), ("max_bytes", c_size_t), ("target", c_char_p), ("cpu", c_char_p),
                ("cluster", c_char_p), ("time_limit_s", c_double), ("num_sizes", c_size_t),
                ("sizes", POINTER(OpenSize))]


class CMessage(Structure):
    _fields_ = [("kind", c_int), ("code", c_char * 8), ("text", c_char_p), ("file", c_char_p), ("line", c_uint32),
                ("column", c_uint32), ("op", c_char_p)]


class Report(Structure):
    MEMORY = ("parameters", "state", "sums", "carried", "messages", "alignment", "inputs", "scratch", "constants",
              "workspace")
    _fields_ = [("struct_size", c_size_t), ("ranks", c_int64), ("stages", c_int64), ("memory_bytes", c_uint64),
                *((n, c_uint64) for n in MEMORY), ("predicted_step_ns", c_int64), ("exposed_comm_ns", c_int64)]


class Batch(Structure):
    _fields_ = [("input", c_char_p), ("data", c_void_p), ("bytes", c_size_t)]


_COMPILER = {
    "msc_version": (c_char_p, []),
    "msc_compiler_new": (c_void_p, [POINTER(CompilerOptions)]),
    "msc_compiler_free": (None, [c_void_p]),
    "msc_compiler_configure": (c_bool, [c_void_p, c_char_p, c_char_p, c_size_t]),
    "msc_compiler_cancel": (None, [c_void_p]),
    "msc_compiler_compile": (c_bool, [c_void_p, c_char_p, c_void_p, c_size_t,
                                      POINTER(c_void_p),
                                      POINTER(c_size_t)]),
    "msc_compiler_report": (c_bool, [c_void_p, POINTER(Report)]),
    "msc_compiler_num_messages": (c_size_t, [c_void_p]),
    "msc_compiler_message": (CMessage, [c_void_p, c_size_t])
}
_RUNTIME = {
    "mscrt_status_code": (c_int, [c_void_p]),
    "mscrt_status_trail": (c_char_p, [c_void_p]),
    "mscrt_plan_open": (c_void_p, [c_char_p, c_size_t,
                                   POINTER(runtime._PlanOptions),
                                   POINTER(c_void_p)]),
    "mscrt_plan_ranks": (c_int, [c_void_p]),
    "mscrt_plan_has": (c_bool, [c_void_p, c_char_p]),
    "mscrt_plan_weights": (c_char_p, [c_void_p]),
    "mscrt_plan_check_files": (c_void_p, [c_void_p, c_char_p]),
    "mscrt_plan_num_scalars": (c_size_t, [c_void_p]),
    "mscrt_plan_scalar": (c_char_p, [c_void_p, c_size_t, POINTER(c_double)]),
    "mscrt_checkpoint": (c_void_p, [c_void_p, c_char_p]),
    "mscrt_resume": (c_void_p, [c_void_p, c_char_p]),
    "mscrt_set_scalar": (c_void_p, [c_void_p, c_char_p, c_double]),
    "mscrt_plan_num_parameters": (c_size_t, [c_void_p]),
    "mscrt_plan_parameter": (None, [c_void_p, c_size_t, POINTER(runtime._Tensor),
                                    POINTER(c_bool)]),
    "mscrt_plan_input_batch": (c_int, [c_void_p, c_size_t]),
    "mscrt_plan_output_batch": (c_int, [c_void_p, c_size_t]),
    "mscrt_plan_output_reads_labels": (c_bool, [c_void_p, c_size_t]),
    "mscrt_plan_loss_adds_up": (c_bool, [c_void_p, POINTER(c_char_p)]),
    "mscrt_load_weights": (c_void_p, [c_void_p, c_char_p]),
    "mscrt_local": (c_void_p, [c_void_p, c_char_p, POINTER(runtime._Tensor)]),
    "mscrt_plan_micro": (c_uint32, [c_void_p, c_char_p]),
    "mscrt_cancel": (None, [c_void_p]),
    "mscrt_borrow_input": (c_void_p, [c_void_p, c_char_p, c_void_p, c_size_t]),
    "mscrt_borrow_output": (c_void_p, [c_void_p, c_char_p, c_char_p, c_void_p, c_size_t]),
    "mscrt_ranks_new": (c_void_p, [c_int, POINTER(c_void_p), POINTER(c_void_p)]),
    "mscrt_ranks_run": (c_void_p, [c_void_p, c_char_p, c_int64, c_size_t,
                                   POINTER(Batch), POINTER(c_double)]),
    "mscrt_ranks_free": (None, [c_void_p]),
    "mscrt_init": (c_void_p, [c_char_p, POINTER(runtime._Options), POINTER(c_void_p)]),
    "mscrt_end": (None, [c_void_p]),
    "mscrt_group": (c_void_p, [c_void_p, c_int, POINTER(c_int), POINTER(c_void_p)]),
    "mscrt_rank": (c_int, [c_void_p]),
    "mscrt_group_size": (c_int, [c_void_p]),
    "mscrt_all_reduce": (c_void_p, [c_void_p, c_int, c_int, c_void_p, c_void_p, c_int64]),
    "mscrt_all_gather": (c_void_p, [c_void_p, c_int, c_void_p, c_void_p, c_int64]),
    "mscrt_reduce_scatter": (c_void_p, [c_void_p, c_int, c_int, c_void_p, c_void_p, c_int64]),
    "mscrt_all_to_all": (c_void_p, [c_void_p, c_int, c_void_p, c_void_p, c_int64]),
    "mscrt_broadcast": (c_void_p, [c_void_p, c_int, c_int, c_void_p, c_int64]),
    "mscrt_send": (c_void_p, [c_void_p, c_int, c_void_p, c_size_t]),
    "mscrt_receive": (c_void_p, [c_void_p, c_int, c_void_p, c_size_t]),
    "mscrt_barrier": (c_void_p, [c_void_p])
}
CODES = ("OK", "ARGUMENT", "INPUT", "UNTRUSTED", "UNSUPPORTED", "ENVIRONMENT", "NO_MEMORY", "PEER", "STUCK", "BUG",
         "CANCELLED")


def find(name: str, folder: Optional[str] = None) -> str:
    """The path of a library, or its soname for the system's loader."""
    for place in (folder, ) if folder else _FOLDERS:
        path = os.path.join(place, name)
        if os.path.exists(path):
            return os.path.realpath(path)
    if folder:
        raise Error(f"{folder} has no {name}")
    return name


def find_program(folder: Optional[str] = None) -> str:
    """The program msc, for what only the command line does."""
    for place in (folder, *_FOLDERS):
        path = place and os.path.join(place, "msc")
        if path and os.access(path, os.X_OK) and not os.path.isdir(path):
            return os.path.realpath(path)
    path = shutil.which("msc")
    if not path:
        raise Error("the program msc is not there: it is built beside the libraries")
    return path


def _declare(library, *tables):
    for table in tables:
        for name, (result, arguments) in table.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    return library


_opened: dict = {}


def _library(name, folder, *tables):
    path = find(name, folder)
    if path not in _opened:
        try:
            _opened[path] = _declare(ctypes.CDLL(path), *tables)
        except OSError as e:
            raise Error(f"{name} cannot be loaded: {e}; build it with ninja, or install the wheel") from None
    return _opened[path]


def compiler(folder: Optional[str] = None):
    return _library("libmsc.so.0", folder, _COMPILER)


def executor(folder: Optional[str] = None):
    return _library("libmscrt.so.0", folder, runtime._FUNCTIONS, _RUNTIME)


def interruptible(work: Callable[[], Any], cancel: Callable[[], None]) -> Any:
    """What `work` returns, which is a long call of a library. Ctrl-C in the main thread makes it end by `cancel`."""
    if threading.current_thread() is not threading.main_thread():
        return work()
    done: queue.SimpleQueue = queue.SimpleQueue()
    thread = threading.Thread(target=lambda: done.put(work()), daemon=True)
    thread.start()
    try:
        return done.get()
    except BaseException:
        cancel()
        while thread.is_alive():  # what it works on is still needed, however often Ctrl-C is pressed
            try:
                thread.join()
            except KeyboardInterrupt:
                pass
        raise


class Message(NamedTuple):
    """What the compiler says of a model: the user's place, and a code that `msc explain` takes."""
    kind: str
    code: str
    text: str
    file: Optional[str]
    line: int
    column: int
    op: Optional[str]

    def __str__(self):
        numbers = f":{self.line}{f':{self.column}' if self.column else ''}" if self.line else ""
        place = f"{self.file}{numbers}: " if self.file else ""
        return f"{place}{self.kind}: {self.text}{f' [{self.code}]' if self.code else ''}"


class CompileError(Error):
    """The model or its configuration is wrong.  messages: all there is to say; code, text, file, line: of the first
    error."""

    def __init__(self, messages: List[Message]):
        first = next((m for m in messages if m.kind == "error"), Message("error", "", "out of memory", None, 0, 0,
                                                                         None))
        super().__init__("\n".join(map(str, messages)) or first.text)
        self.messages, self.code, self.text = messages, first.code, first.text
        self.file, self.line, self.op = first.file, first.line, first.op

    def __reduce__(self):  # to another process
        return CompileError, (self.messages, )


class CompileWarning(UserWarning):
    """What the compiler warns of."""


class RunError(runtime.Error, Error):
    """What the runtime says.  code: ARGUMENT, INPUT, ENVIRONMENT, PEER, ...; trail: where it came from, a line per
    level."""

    def __init__(self, code: str, text: str, trail: str = ""):
        super().__init__(text)
        self.code, self.text, self.trail, self.file, self.line = code, text, trail, None, 0

    def __reduce__(self):  # to another process
        return RunError, (self.code, self.text, self.trail)


def check(library, status) -> None:
    """Raises what a status says, and frees it."""
    if status:
        said = (CODES[library.mscrt_status_code(status)], library.mscrt_status_text(status).decode(errors="replace"),
                (library.mscrt_status_trail(status) or b"").decode(errors="replace"))
        library.mscrt_status_free(status)
        raise RunError(*said)
