"""Plans executed in this process: a ctypes binding of libmscrt (runtime/mscrt.h), for one rank and data from memory.

    with Plan("plan.bin", library="build/libmscrt.so") as plan:
        plan.load("trained.safetensors")
        logits = plan.run("forward", "logits", x=batch)   # from numpy, array.array or bytes; an array.array

A plan may be used by one thread at a time and waits for its turn; after close() every call says that it is closed.
"""
import array
import ctypes
import functools
import math
import os
import threading
from ctypes import (POINTER, Structure, byref, c_bool, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint32, c_uint64,
                    c_void_p)

MAX_RANK = 8
# Of mscrt_dtype, in its order: name, bytes, code for module array (None: none), formats of buffers of such elements.
DTYPES = (("f32", 4, "f", "f"), ("f16", 2, None, "eH"), ("bf16", 2, None, "H"),
          ("f64", 8, "d", "d"), ("i1", 1, None, "?bB"),
          ("i8", 1, "b", "b"), ("i16", 2, "h", "h"), ("i32", 4, "i", "il"), ("i64", 8, "q", "ql"), ("u8", 1, "B", "B"),
          ("u16", 2, "H", "H"), ("u32", 4, "I", "IL"), ("u64", 8, "Q", "QL"))


class Error(RuntimeError):
    """What a status of the runtime says."""


@functools.lru_cache(maxsize=256)
def c_text(text) -> bytes:
    """A name or a path as the libraries take it."""
    data = os.fsencode(text)
    if 0 in data:
        raise ValueError(f"{text!r} has a zero byte")
    return data


class _Tensor(Structure):
    _fields_ = [("name", c_char_p), ("dtype", c_int), ("rank", c_int), ("shape", c_int64 * MAX_RANK),
                ("begin", c_int64 * MAX_RANK),
                ("size", c_int64 * MAX_RANK), ("room", c_int64 * MAX_RANK), ("data", c_void_p)]


class _PlanOptions(Structure):
    _fields_ = [("struct_size", c_size_t), ("trust_native", c_bool)]


class _Options(Structure):
    _fields_ = [("struct_size", c_size_t), ("rank", c_int), ("ranks", c_int), ("address", c_char_p),
                ("threads", c_int), ("seed", c_uint64),
                ("timeout_ms", c_int), ("log", c_void_p), ("log_user", c_void_p),
                ("perf_map", c_bool), ("no_init", c_bool),
                ("device", c_char_p), ("time_scale", c_double), ("overlap", c_int), ("measure", c_bool),
                ("events", c_uint32), ("choices", c_char_p), ("comm", c_char_p), ("tune", c_bool),
                ("local_ranks", c_int), ("token", c_char_p), ("host", c_char_p), ("led", c_bool), ("silence_ms", c_int),
                ("meet_ms", c_int), ("recover", c_bool), ("allocate", c_void_p), ("release", c_void_p),
                ("memory_user", c_void_p), ("offload_path", c_char_p), ("servers", c_int), ("server", c_int),
                ("family", c_void_p), ("num_family", c_int), ("cores", c_int), ("parameters_of", c_void_p),
                ("server_hosts", c_char_p)]


# name -> (result, arguments); a status is a pointer, NULL when all went well
_FUNCTIONS = {
    "mscrt_status_text": (c_char_p, [c_void_p]), "mscrt_status_free": (None, [c_void_p]),
    "mscrt_plan_read": (c_void_p, [c_char_p, POINTER(_PlanOptions), POINTER(c_void_p)]),
    "mscrt_plan_close": (None, [c_void_p]),
    "mscrt_plan_num_inputs": (c_size_t, [c_void_p]),
    "mscrt_plan_input": (None, [c_void_p, c_size_t, POINTER(_Tensor), POINTER(c_int)]),
    "mscrt_plan_num_outputs": (c_size_t, [c_void_p]),
    "mscrt_plan_output": (None, [c_void_p, c_size_t, POINTER(_Tensor), POINTER(c_char_p)]),
    "mscrt_open": (c_void_p, [c_void_p, POINTER(_Options), POINTER(c_void_p)]), "mscrt_close": (None, [c_void_p]),
    "mscrt_load": (c_void_p, [c_void_p, c_char_p]), "mscrt_save": (c_void_p, [c_void_p, c_char_p]),
    "mscrt_set_input": (c_void_p, [c_void_p, c_char_p, c_char_p, c_size_t]),
    "mscrt_run": (c_void_p, [c_void_p, c_char_p, c_int64, POINTER(c_double)]),
    "mscrt_read": (c_void_p, [c_void_p, c_char_p, c_void_p, c_size_t]),
}


def _open_library(path):
    library = ctypes.CDLL(path)
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def _text(shape):
    return f"[{', '.join(map(str, shape))}]"


def _bytes_of(name, batch, dtype, shape):
    """The bytes of an input's batch, row major.  `bytes` are taken as they are; what has a buffer must have the input's
    element type, and its shape or all its elements in one row."""
    if isinstance(batch, (bytes, bytearray)):
        return bytes(batch)
    try:
        view = memoryview(batch)
    except (TypeError, ValueError, BufferError) as e:
        raise Error(f"input '{name}' is neither bytes nor an array: {e}") from None
    called, size, _, formats = DTYPES[dtype]
    if view.format.lstrip("@=<") not in formats or view.itemsize != size:
        bits = 8 * view.itemsize
        raise Error(f"input '{name}' has elements of {called}, not of format '{view.format}' ({bits} bits)")
    if view.shape not in (shape, (math.prod(shape),)):
        raise Error(f"input '{name}' has the shape {_text(shape)}, not {_text(view.shape)}")
    return view.tobytes()


class Plan:
    """A plan for one rank, loaded and ready; its native code is trusted.  Closes with the `with` block or close()."""

    def __init__(self, path, library="libmscrt.so.0", seed=0, threads=0):
        self._plan, self._context, self._lock = c_void_p(), c_void_p(), threading.RLock()
        self._library = _open_library(library)
        try:
            self._check("mscrt_plan_read", c_text(path), byref(_PlanOptions(ctypes.sizeof(_PlanOptions), True)),
                        byref(self._plan))
            self._check("mscrt_open", self._plan, byref(_Options(struct_size=ctypes.sizeof(_Options), ranks=1,
                                                                 seed=seed, threads=threads)), byref(self._context))
        except BaseException:
            self.close()
            raise
        self.inputs = dict(self._inputs())
        self.outputs = dict(self._outputs())

    def _check(self, name, *arguments):
        status = getattr(self._library, name)(*arguments)
        if status:
            text = self._library.mscrt_status_text(status).decode()
            self._library.mscrt_status_free(status)
            raise Error(text)

    def _call(self, name, *arguments):
        """A call on the context."""
        with self._lock:
            self._check_open()
            self._check(name, self._context, *arguments)

    def _check_open(self):
        if not self._context:
            raise Error("this plan is closed")

    def _inputs(self):
        for i in range(self._library.mscrt_plan_num_inputs(self._plan)):
            tensor, role = _Tensor(), c_int()
            self._library.mscrt_plan_input(self._plan, i, byref(tensor), byref(role))
            yield tensor.name.decode(), (tensor.dtype, tuple(tensor.shape[:tensor.rank]))

    def _outputs(self):
        for i in range(self._library.mscrt_plan_num_outputs(self._plan)):
            tensor, section = _Tensor(), c_char_p()
            self._library.mscrt_plan_output(self._plan, i, byref(tensor), byref(section))
            yield (section.value.decode(), tensor.name.decode()), (tensor.dtype, tuple(tensor.shape[:tensor.rank]))

    def load(self, path):
        """Parameters from a safetensors file."""
        self._call("mscrt_load", c_text(path))

    def save(self, path):
        self._call("mscrt_save", c_text(path))

    def run(self, section, output=None, **inputs):
        """Runs a section once on whole batches.  The loss of "train", or an output's elements, row major; its shape is
        in outputs[section, output], that of an input in inputs[name]."""
        with self._lock:
            self._check_open()
            if output is not None and (section, output) not in self.outputs:
                names = ", ".join(n for s, n in self.outputs if s == section)
                raise Error(f"section {section} has no output {output}; it has {names or 'none'}")
            for name, batch in inputs.items():
                if name not in self.inputs:
                    raise Error(f"the model has no input '{name}'; its inputs are: {', '.join(self.inputs)}")
                data = _bytes_of(name, batch, *self.inputs[name])
                self._call("mscrt_set_input", c_text(name), data, len(data))
            loss = c_double()
            self._call("mscrt_run", c_text(section), 1, byref(loss))
            return loss.value if output is None else self._read(output, *self.outputs[section, output])

    def _read(self, name, dtype, shape):
        _, size, code, _ = DTYPES[dtype]
        num = math.prod(shape) * size
        room = ctypes.create_string_buffer(max(num, 1))
        self._call("mscrt_read", c_text(name), room, num)
        return array.array(code, room.raw[:num]) if code else room.raw[:num]

    def close(self):
        """Gives back memory and threads; may be called again."""
        with self._lock:
            self._library.mscrt_close(self._context)
            self._library.mscrt_plan_close(self._plan)
            self._context, self._plan = c_void_p(), c_void_p()

    def __enter__(self):
        self._check_open()
        return self

    def __exit__(self, *_):
        self.close()
