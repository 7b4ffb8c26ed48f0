"""onnx_file: ONNX files as bytes, written without the package onnx: just enough of protocol buffers for tests.

    data = model([node("Relu", ["x"], ["y"])], [value("x", 1, [2, 3])], [value("y", 1, [2, 3])])

Element types are numbers of TensorProto.DataType: 1 f32, 7 i64, 9 bool, 10 f16, 11 f64, 6 i32.
"""
import struct


def varint(v):
    v &= (1 << 64) - 1
    out = bytearray()
    while v > 127:
        out.append(v & 127 | 128)
        v >>= 7
    return bytes(out + bytes([v]))


def number(field, v):
    return varint(field << 3) + varint(v)


def data(field, v):
    """A text, bytes or a message."""
    v = v.encode() if isinstance(v, str) else v
    return varint(field << 3 | 2) + varint(len(v)) + v


def tensor(name, dtype, dims, raw, field=9, extra=b""):
    return b"".join(number(1, d) for d in dims) + number(2, dtype) + data(
        8, name) + (data(field, raw) if raw is not None else b"") + extra


def floats(name, dims, values):
    return tensor(name, 1, dims, struct.pack(f"<{len(values)}f", *values))


def ints(name, dims, values):
    return tensor(name, 7, dims, struct.pack(f"<{len(values)}q", *values))


def external(name, dtype, dims, location, **more):
    """A tensor whose elements are in a file beside the model."""
    entries = [("location", location), *((k, str(v)) for k, v in more.items())]
    return tensor(name,
                  dtype,
                  dims,
                  None,
                  extra=b"".join(data(13,
                                      data(1, k) + data(2, v)) for k, v in entries) + number(14, 1))


def value(name, dtype, dims):
    """A graph's input or output; a dimension is a number, a name, or None."""
    shape = b"".join(data(1, b"" if d is None else number(1, d) if isinstance(d, int) else data(2, d)) for d in dims)
    return data(1, name) + data(2, data(1, number(1, dtype) + data(2, shape)))


def attribute(name, v):
    if isinstance(v, Graph):
        return data(1, name) + data(6, v.bytes) + number(20, 5)
    if isinstance(v, Reference):
        return data(1, name) + data(21, v.name) + number(20, v.kind)
    if isinstance(v, bytes):  # a tensor
        return data(1, name) + data(5, v) + number(20, 4)
    if isinstance(v, str):
        return data(1, name) + data(4, v) + number(20, 3)
    if isinstance(v, float):
        return data(1, name) + varint(2 << 3 | 5) + struct.pack("<f", v) + number(20, 1)
    if isinstance(v, int):
        return data(1, name) + number(3, v) + number(20, 2)
    if v and isinstance(v[0], str):
        return data(1, name) + b"".join(data(9, s) for s in v) + number(20, 8)
    return data(1, name) + b"".join(number(8, i) for i in v) + number(20, 7)


class Reference:
    """In a function: the attribute of its caller."""

    def __init__(self, name, kind):
        self.name, self.kind = name, kind


class Graph:

    def __init__(self, nodes, inputs, outputs, initializers=()):
        self.bytes = b"".join(data(1, n) for n in nodes) + data(2, "g") + b"".join(
            data(5, t) for t in initializers) + b"".join(data(11, i) for i in inputs) + b"".join(
                data(12, o) for o in outputs)


def node(op, inputs, outputs, name="", domain="", **attributes):
    return b"".join(data(1, i) for i in inputs) + b"".join(
        data(2, o) for o in outputs) + data(3, name) + data(4, op) + b"".join(
            data(5, attribute(k, v)) for k, v in attributes.items()) + (data(7, domain) if domain else b"")


def opset(version, domain=""):
    return data(1, domain) + number(2, version)


def function(domain, name, inputs, outputs, nodes, attributes=(), version=20):
    return data(1, name) + b"".join(data(4, i) for i in inputs) + b"".join(data(5, o) for o in outputs) + b"".join(
        data(6, a) for a in attributes) + b"".join(data(7, n) for n in nodes) + data(9, opset(version)) + data(
            10, domain)


def model(nodes, inputs, outputs, initializers=(), version=20, functions=(), opsets=()):
    return number(1, 10) + data(7,
                                Graph(nodes, inputs, outputs, initializers).bytes) + data(8, opset(version)) + b"".join(
                                    data(8, o) for o in opsets) + b"".join(data(25, f) for f in functions)
