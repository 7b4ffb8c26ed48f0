"""Elements in memory with a type and a shape: Array, and Borrowed, which looks at memory of others without copies."""
import ctypes
import struct
import sys
from ctypes import POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_ssize_t, c_uint8, c_uint16, c_uint64
from ctypes import c_void_p
from math import prod
from typing import Any, List, Optional, Sequence, Tuple

from msc.ops import Error

# name -> bytes, struct's code (bf16 has none of its own), formats of buffers of such elements, DLPack's kind
KINDS = {
    "f32": (4, "f", "f", 2),
    "f16": (2, "e", "eH", 2),
    "bf16": (2, "H", "H", 4),
    "f64": (8, "d", "d", 2),
    "i1": (1, "?", "?bB", 6),
    "i8": (1, "b", "b", 0),
    "i16": (2, "h", "h", 0),
    "i32": (4, "i", "il", 0),
    "i64": (8, "q", "ql", 0),
    "u8": (1, "B", "B", 1),
    "u16": (2, "H", "H", 1),
    "u32": (4, "I", "IL", 1),
    "u64": (8, "Q", "QL", 1)
}

_OF_TORCH = {
    "f32": ("torch.float32", ),
    "f16": ("torch.float16", ),
    "bf16": ("torch.bfloat16", ),
    "f64": ("torch.float64", ),
    "i1": ("torch.bool", "torch.uint8"),
    **{f"{k}{bits}": (f"torch.{'u' * (k == 'u')}int{bits}", )
       for k in "iu" for bits in (8, 16, 32, 64)}
}


# what numpy calls elements -> what msc does
_OF_NUMPY = {
    name: tuple(f"{'|' if size == 1 else '<'}{kind}{size}" for kind in kinds)
    for name, size, kinds in (("f32", 4, "f"), ("f64", 8, "f"), ("i1", 1, "bui"),
                              *((f"{k}{8 * n}", n, k) for k in "iu" for n in (1, 2, 4, 8)))
}  # of the others the buffer says it


class _DLTensor(Structure):
    _fields_ = [("data", c_void_p), ("device", c_int32), ("device_number", c_int32), ("rank", c_int32),
                ("kind", c_uint8), ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)),
                ("strides", POINTER(c_int64)), ("offset", c_uint64)]


class _Managed(Structure):
    pass


_Deleter = ctypes.CFUNCTYPE(None, c_void_p)
_Managed._fields_ = [("tensor", _DLTensor), ("context", c_void_p), ("delete", _Deleter)]


class _Buffer(Structure):
    """Py_buffer."""
    _fields_ = [("at", c_void_p), ("owner", c_void_p), ("bytes", c_ssize_t), ("item", c_ssize_t), ("readonly", c_int),
                ("rank", c_int), ("format", c_char_p), ("shape", POINTER(c_ssize_t)), ("strides", POINTER(c_ssize_t)),
                ("inner", c_void_p), ("internal", c_void_p)]


_PYTHON, _OBJECT = ctypes.pythonapi, ctypes.py_object
_get_buffer = ctypes.PYFUNCTYPE(c_int, _OBJECT, POINTER(_Buffer), c_int)(("PyObject_GetBuffer", _PYTHON))
_release = ctypes.PYFUNCTYPE(None, POINTER(_Buffer))(("PyBuffer_Release", _PYTHON))
_new_capsule = ctypes.PYFUNCTYPE(_OBJECT, c_void_p, c_char_p, c_void_p)(("PyCapsule_New", _PYTHON))
_in_capsule = ctypes.PYFUNCTYPE(c_void_p, _OBJECT, c_char_p)(("PyCapsule_GetPointer", _PYTHON))
_is_unused = ctypes.PYFUNCTYPE(c_int, c_void_p, c_char_p)(("PyCapsule_IsValid", _PYTHON))
_in_dying_capsule = ctypes.PYFUNCTYPE(c_void_p, c_void_p, c_char_p)(("PyCapsule_GetPointer", _PYTHON))
_CONTIGUOUS, _NAME = 0x0020 | 0x0010 | 0x0008 | 0x0004, b"dltensor"  # PyBUF_C_CONTIGUOUS, strides, shape, format
_given = {}  # what DLPack's users hold: address of the struct -> all that must live as long


@_Deleter
def _take_back(address):
    _given.pop(address, None)


@ctypes.PYFUNCTYPE(None, c_void_p)
def _end_of_capsule(capsule):
    """Frees what a capsule holds if nobody has taken it out."""
    if _is_unused(capsule, _NAME):
        _given.pop(_in_dying_capsule(capsule, _NAME), None)


def _shown(shape: Sequence[int]) -> str:
    return f"[{', '.join(map(str, shape))}]"


class Array:
    """Elements of one type, row major.  numpy.asarray(a), memoryview(a.memory), torch.from_dlpack(a) and
    jax.dlpack.from_dlpack(a) look at the same memory; a.tolist() and a.item() are Python's numbers."""

    def __init__(self, dtype: str, shape: Sequence[int], memory: Any = None):
        self.dtype, self.shape = dtype, tuple(shape)
        self.nbytes = prod(self.shape) * KINDS[dtype][0]
        self._memory = memory if memory is not None else ctypes.create_string_buffer(max(self.nbytes, 1))

    @property
    def address(self) -> int:
        """Where its first byte lies."""
        return ctypes.addressof(self._memory)

    @property
    def memory(self) -> memoryview:
        """The bytes; writable."""
        return memoryview(self._memory).cast("B")[:self.nbytes]

    @property
    def __array_interface__(self):
        if self.dtype == "bf16":
            raise AttributeError("numpy has no bf16: take tolist(), or torch.from_dlpack")
        size, code, _, _ = KINDS[self.dtype]
        kind = {"e": "f", "d": "f", "?": "b"}.get(code, "f" if code == "f" else "u" if code.isupper() else "i")
        return {
            "shape": self.shape,
            "typestr": f"{'|' if size == 1 else '<'}{kind}{size}",
            "data": (self.address, False),
            "version": 3
        }

    def __dlpack_device__(self) -> Tuple[int, int]:
        return 1, 0

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        size, _, _, kind = KINDS[self.dtype]
        shape = (c_int64 * max(len(self.shape), 1))(*self.shape)
        tensor = _DLTensor(self.address, 1, 0, len(self.shape), kind, 8 * size, 1, shape, None, 0)
        managed = _Managed(tensor, None, _take_back)
        _given[ctypes.addressof(managed)] = managed, shape, self._memory
        return _new_capsule(ctypes.addressof(managed), _NAME, ctypes.cast(_end_of_capsule, c_void_p))

    def numpy(self):
        """The same memory as a numpy array."""
        import numpy
        return numpy.asarray(self)

    def _flat(self) -> list:
        size, code, _, _ = KINDS[self.dtype]
        values = list(struct.unpack(f"<{self.nbytes // size}{code}", self.memory))
        return values if self.dtype != "bf16" else [struct.unpack("<f", struct.pack("<I", v << 16))[0] for v in values]

    def tolist(self):
        """Nested lists of numbers; a number where there is no dimension."""
        values: List[Any] = self._flat()
        for size in reversed(self.shape[1:]):
            values = [values[i:i + size]
                      for i in range(0, len(values), size)] if size else [[] for _ in range(prod(self.shape[:-1]))]
        return values if self.shape else values[0]

    def item(self):
        """The only element."""
        if prod(self.shape) != 1:
            raise Error(f"item(): an array {_shown(self.shape)} has not one element")
        return self._flat()[0]

    def __float__(self) -> float:
        return float(self.item())

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without dimensions has no length")
        return self.shape[0]

    def __getitem__(self, index):
        return self.tolist()[index]

    def __repr__(self) -> str:
        return f"Array({self.dtype}, {_shown(self.shape)})"


def _flatten(value) -> list:
    return [x for v in value for x in _flatten(v)] if isinstance(value, (list, tuple)) else [value]


def _shape_of(value) -> tuple:
    return (len(value), *_shape_of(value[0])) if isinstance(
        value, (list, tuple)) and len(value) else () if not isinstance(value, (list, tuple)) else (0, )


def packed(dtype: str, values: Sequence) -> bytes:
    """Numbers as elements."""
    code = KINDS[dtype][1]
    if dtype != "bf16":
        return struct.pack(f"<{len(values)}{code}", *values)
    bits = struct.unpack(f"<{len(values)}I", struct.pack(f"<{len(values)}f", *values))
    return struct.pack(
        f"<{len(values)}H",
        *((b + 0x7FFF + (b >> 16 & 1)) >> 16 if b & 0x7FFFFFFF <= 0x7F800000 else b >> 16 | 0x40 for b in bits))


def _is_torch_tensor(value) -> bool:
    """True for a tensor of torch in the host's memory, and for none of a subclass, which may keep its elements
    elsewhere."""
    torch = sys.modules.get("torch")
    return bool(torch and type(value) in (torch.Tensor, torch.nn.Parameter) and value.is_cpu
                and value.layout is torch.strided)


def _is_numpy_array(value) -> bool:
    numpy = sys.modules.get("numpy")
    return bool(numpy and type(value) is numpy.ndarray)


class _Release:
    """Gives a buffer back when nobody has this object any more."""

    def __init__(self, buffer):
        self._buffer = buffer

    def __del__(self):
        _release(ctypes.byref(self._buffer))


class Borrowed:
    """The memory of `value`, contiguous and of elements of dtype, as long as this object lives: .address, .nbytes,
    .shape. bytes are taken as they are; arrays (buffer protocol: numpy, array, memoryview; else DLPack: torch, jax)
    are not copied if they are contiguous; lists and numbers are packed.  Errors say `what` it is."""

    def __init__(self, what: str, value: Any, dtype: str, shape: Optional[Sequence[int]]):
        self._kept: Any = value
        if isinstance(value, Array):
            self._check(what, value.dtype == dtype, dtype, value.dtype)
            self.address, self.nbytes, self.shape = value.address, value.nbytes, value.shape
        elif isinstance(value, (list, tuple, int, float)):
            self._pack(what, value, dtype)
        elif _is_numpy_array(value) and self._take_array(value, dtype):
            pass
        elif _is_torch_tensor(value):
            self._take_tensor(what, value, dtype)
        elif hasattr(value, "__dlpack__") and not hasattr(value, "__array_interface__"):
            self._take_dlpack(what, value, dtype)
        else:
            self._take_buffer(what, value, dtype, shape)

    @staticmethod
    def _check(what, ok, wanted, got):
        if not ok:
            raise Error(f"{what} has elements of {wanted}, not of {got}")

    def _pack(self, what, value, dtype):
        values = _flatten(value)
        try:
            self._kept = packed(dtype, values)
        except struct.error as e:
            raise Error(f"{what} has elements of {dtype}: {e}") from None
        self.shape = _shape_of(value)
        if prod(self.shape) != len(values):
            raise Error(f"{what}: lists of different lengths")
        self._point_to_bytes()

    def _point_to_bytes(self):
        self.address, self.nbytes = ctypes.cast(c_char_p(self._kept), c_void_p).value, len(self._kept)

    def _take_buffer(self, what, value, dtype, shape):
        buffer = _Buffer()
        try:
            _get_buffer(value, ctypes.byref(buffer), _CONTIGUOUS)
        except (BufferError, ValueError):
            try:
                value = memoryview(value)
                form, item, own = value.format, value.itemsize, value.shape
                self._kept = value.tobytes()  # not contiguous
            except (TypeError, ValueError, BufferError) as e:
                raise Error(f"{what} is no array of {dtype}: {e}") from None
            self._point_to_bytes()
        except TypeError as e:
            raise Error(f"{what} is no array: {e}") from None
        else:
            self._kept = value, _Release(buffer)
            self.address, self.nbytes, item = buffer.at, buffer.bytes, buffer.item
            form, own = (buffer.format or b"B").decode(), tuple(buffer.shape[:buffer.rank])
        if isinstance(value, (bytes, bytearray)):
            self.shape = None
            return
        size, _, forms, _ = KINDS[dtype]
        self._check(what, form.lstrip("@=<") in forms and item == size, dtype, f"format '{form}' ({8 * item} bits)")
        self.shape = tuple(own)

    def _take_array(self, value, dtype):
        """What _take_buffer does, in a fifth of the time; False: something is not as it should be, or has to be
        copied."""
        if value.dtype.str not in _OF_NUMPY.get(dtype, ()) or not value.flags.c_contiguous:
            return False
        try:
            self.address = ctypes.addressof(ctypes.c_char.from_buffer(value))
        except (TypeError, ValueError):  # read-only, or empty
            self.address = value.__array_interface__["data"][0]
        self.nbytes, self.shape = value.nbytes, value.shape
        return True

    def _take_tensor(self, what, value, dtype):
        """What _take_dlpack does, in a third of the time, which counts beside a small step."""
        if value.is_neg() or not value.is_contiguous():
            self._kept = value = value.detach().resolve_neg().contiguous()
        own = str(value.dtype)
        self._check(what, own in _OF_TORCH[dtype], dtype, own)
        self.address, self.nbytes, self.shape = value.data_ptr(), value.nbytes, tuple(value.shape)

    def _take_dlpack(self, what, value, dtype):
        value = value.detach() if hasattr(value, "detach") else value
        if hasattr(value, "is_contiguous") and not value.is_contiguous():
            value = value.contiguous()
        self._kept = value.__dlpack__()
        t = ctypes.cast(_in_capsule(self._kept, _NAME), POINTER(_Managed)).contents.tensor
        if t.device not in (1, 3, 11):  # the host's memory, also of CUDA and ROCm
            raise Error(f"{what} does not lie in the host's memory: copy it there first")
        size, _, _, kind = KINDS[dtype]
        self._check(what, (t.kind, t.bits, t.lanes) in ((kind, 8 * size, 1), (1, 8, 1) if dtype == "i1" else ()), dtype,
                    f"DLPack's kind {t.kind} ({t.bits} bits)")
        self.shape = tuple(t.shape[:t.rank])
        step = 1
        for i in range(t.rank - 1, -1, -1):
            if t.strides and t.shape[i] > 1 and t.strides[i] != step:
                raise Error(f"{what} is not contiguous")
            step *= t.shape[i]
        self.address, self.nbytes = (t.data or 0) + t.offset, step * size


__all__ = ["Array"]
