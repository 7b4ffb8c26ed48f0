"""formula: numbers that need no file: initial weights, samples and labels, the same here, in tests/passes/fixtures.c
and in the PyTorch run that made the losses.  In: a seed and an element number; out: a number exactly representable
in f32."""
import functools
import math
import struct

MASK = 0xFFFFFFFF
TOKENS = 16  # kinds of tokens


def bits(seed, i):
    """32 well mixed bits (lowbias32)."""
    x = (i * 0x9E3779B1 + seed * 0x85EBCA77 + 0x165667B1) & MASK
    x = ((x ^ x >> 16) * 0x7FEB352D) & MASK
    x = ((x ^ x >> 15) * 0x846CA68B) & MASK
    return x ^ x >> 16


def unit(seed, i):
    """In [-1, 1), a multiple of 2^-23."""
    return (bits(seed, i) >> 8) / 8388608 - 1


def f32(v):
    return struct.unpack("<f", struct.pack("<f", v))[0]


def weights(arg, init, count):
    """Initial values of argument number `arg`, whose msc.init is zeros, ones, uniform:bound or, with even values of
    that deviation, normal:std."""
    if init == "zeros":
        return [0.0] * count
    if init == "ones":
        return [1.0] * count
    kind, number = init.split(":")
    bound = float(number) * (math.sqrt(3) if kind == "normal" else 1)
    return [f32(bound * unit(100 + arg, i)) for i in range(count)]


def label(sample, classes):
    return (7 * sample + 3) % classes


@functools.lru_cache(None)
def pattern(number, features):
    return [0.25 * unit(11, number * features + p) for p in range(features)]


def data(sample, features, classes):
    """A blurred picture of the sample's class: one part pattern, three parts noise, negative parts dark."""
    first = sample * features
    return [
        max(0.0, f32(v + 0.75 * unit(12, first + p))) for p, v in enumerate(pattern(label(sample, classes), features))
    ]


def tokens(sample, length):
    return [bits(14, sample * length + p) % TOKENS for p in range(length)]


def next_tokens(sample, length):
    """What follows each token of the sample; behind the last comes the first of the next sample."""
    return [bits(14, sample * length + p + 1) % TOKENS for p in range(length)]


def target(sample, outputs):
    return [f32(0.5 * unit(13, sample * outputs + o) + 0.25) for o in range(outputs)]


def probabilities(sample, classes):
    """A soft label: sums to 1 up to rounding, half of it on the class itself."""
    return [0.5 / classes + (0.5 if c == label(sample, classes) else 0.0) for c in range(classes)]


def count(shape):
    return math.prod(shape)
