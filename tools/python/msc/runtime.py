"""Plans executed in this process: a ctypes binding of libmscrt (runtime/mscrt.h), for one rank and data from memory.

    with Plan("plan.bin", library="build/libmscrt.so") as plan:
        plan.load("trained.safetensors")
        logits = plan.run("forward", "logits", x=bytes_of_a_batch)   # an array of the output's element type
"""
import array
import ctypes
from ctypes import POINTER, Structure, byref, c_bool, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

MAX_RANK = 8
CODES = {0: "f", 3: "d", 5: "b", 6: "h", 7: "i", 8: "q", 9: "B", 10: "H", 11: "I", 12: "Q"}  # of mscrt_dtype, for module array
SIZES = (4, 2, 2, 8, 1, 1, 2, 4, 8, 1, 2, 4, 8)


class Error(RuntimeError):
    """What a status of the runtime says."""


class _Tensor(Structure):
    _fields_ = [("name", c_char_p), ("dtype", c_int), ("rank", c_int), ("shape", c_int64 * MAX_RANK), ("begin", c_int64 * MAX_RANK),
                ("size", c_int64 * MAX_RANK), ("room", c_int64 * MAX_RANK), ("data", c_void_p)]


class _PlanOptions(Structure):
    _fields_ = [("struct_size", c_size_t), ("trust_native", c_bool)]


class _Options(Structure):
    _fields_ = [("struct_size", c_size_t), ("rank", c_int), ("ranks", c_int), ("address", c_char_p), ("threads", c_int), ("seed", c_uint64),
                ("timeout_ms", c_int), ("log", c_void_p), ("log_user", c_void_p), ("perf_map", c_bool), ("no_init", c_bool),
                ("device", c_char_p), ("time_scale", c_double), ("overlap", c_int), ("measure", c_bool), ("events", c_uint32), ("choices", c_char_p), ("comm", c_char_p), ("tune", c_bool)]


# name -> (result, arguments); a status is a pointer, NULL when all went well
_FUNCTIONS = {
    "mscrt_status_text": (c_char_p, [c_void_p]), "mscrt_status_free": (None, [c_void_p]),
    "mscrt_plan_read": (c_void_p, [c_char_p, POINTER(_PlanOptions), POINTER(c_void_p)]), "mscrt_plan_close": (None, [c_void_p]),
    "mscrt_plan_num_outputs": (c_size_t, [c_void_p]), "mscrt_plan_output": (None, [c_void_p, c_size_t, POINTER(_Tensor), POINTER(c_char_p)]),
    "mscrt_open": (c_void_p, [c_void_p, POINTER(_Options), POINTER(c_void_p)]), "mscrt_close": (None, [c_void_p]),
    "mscrt_load": (c_void_p, [c_void_p, c_char_p]), "mscrt_save": (c_void_p, [c_void_p, c_char_p]),
    "mscrt_set_input": (c_void_p, [c_void_p, c_char_p, c_char_p, c_size_t]),
    "mscrt_run": (c_void_p, [c_void_p, c_char_p, c_int64, POINTER(c_double)]), "mscrt_read": (c_void_p, [c_void_p, c_char_p, c_void_p, c_size_t]),
}


def _open_library(path):
    library = ctypes.CDLL(path)
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class Plan:
    """A plan for one rank, loaded and ready; its native code is trusted.  Closes with the `with` block or close()."""

    def __init__(self, path, library="libmscrt.so.0", seed=0, threads=0):
        self._plan, self._context = c_void_p(), c_void_p()
        self._library = _open_library(library)
        try:
            self._check("mscrt_plan_read", path.encode(), byref(_PlanOptions(ctypes.sizeof(_PlanOptions), True)), byref(self._plan))
            self._check("mscrt_open", self._plan, byref(_Options(struct_size=ctypes.sizeof(_Options), ranks=1, seed=seed, threads=threads)), byref(self._context))
        except Error:
            self.close()
            raise
        self.outputs = dict(self._outputs())

    def _check(self, name, *arguments):
        status = getattr(self._library, name)(*arguments)
        if status:
            text = self._library.mscrt_status_text(status).decode()
            self._library.mscrt_status_free(status)
            raise Error(text)

    def _outputs(self):
        for i in range(self._library.mscrt_plan_num_outputs(self._plan)):
            tensor, section = _Tensor(), c_char_p()
            self._library.mscrt_plan_output(self._plan, i, byref(tensor), byref(section))
            yield (section.value.decode(), tensor.name.decode()), (tensor.dtype, tuple(tensor.shape[:tensor.rank]))

    def load(self, path):
        """Parameters from a safetensors file."""
        self._check("mscrt_load", self._context, path.encode())

    def save(self, path):
        self._check("mscrt_save", self._context, path.encode())

    def run(self, section, output=None, **inputs):
        """Runs a section once on whole batches given as bytes (or what has a buffer).  The loss of "train", or an output's
        elements, row major; its shape is in outputs[section, output]."""
        for name, batch in inputs.items():
            data = bytes(batch)
            self._check("mscrt_set_input", self._context, name.encode(), data, len(data))
        loss = c_double()
        self._check("mscrt_run", self._context, section.encode(), 1, byref(loss))
        if output is None:
            return loss.value
        if (section, output) not in self.outputs:
            raise Error(f"section {section} has no output {output}; it has {', '.join(n for s, n in self.outputs if s == section) or 'none'}")
        dtype, shape = self.outputs[section, output]
        count = 1
        for n in shape:
            count *= n
        room = ctypes.create_string_buffer(max(count * SIZES[dtype], 1))
        self._check("mscrt_read", self._context, output.encode(), room, count * SIZES[dtype])
        return array.array(CODES[dtype], room.raw[:count * SIZES[dtype]]) if dtype in CODES else room.raw

    def close(self):
        self._library.mscrt_close(self._context)
        self._library.mscrt_plan_close(self._plan)
        self._context, self._plan = c_void_p(), c_void_p()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
