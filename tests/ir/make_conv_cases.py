"""PyTorch's values of convolutions, pools and their gradients -> tests/ir/conv_cases.h.  Element i of operand k is
(7 i + 3 k) % 11 - 5 (of positions: what max_pool_index makes), so that results are integers, or quarters, and exact."""
import sys

import torch
import torch.nn.functional as F


def values(k, shape):
    n = 1
    for s in shape:
        n *= s
    return torch.tensor([(7 * i + 3 * k) % 11 - 5 for i in range(n)], dtype=torch.float64).reshape(shape)


def text(t):
    return ",".join(f"{v:.17g}" for v in t.flatten().tolist())


def dims(*shapes, dtypes=None):
    return " ".join("x".join(map(str, s)) + "x" + (dtypes[i] if dtypes else "f64") for i, s in enumerate(shapes))


def attrs(stride, dilation, padding, **more):
    words = [f"{k}={','.join(map(str, v)) if isinstance(v, (list, tuple)) else v}" for k, v in more.items()]
    return " ".join(words + [
        f"stride={stride[0]},{stride[1]}", f"dilation={dilation[0]},{dilation[1]}", "padding=" +
        ",".join(map(str, padding))
    ])


def padded(x, padding, value=0.0):
    top, bottom, left, right = padding
    return F.pad(x, (left, right, top, bottom), value=value)


CONVS = [  # x, w, stride, dilation, padding, groups
    ((1, 1, 3, 3), (1, 1, 2, 2), (1, 1), (1, 1), (0, 0, 0, 0), 1),
    ((1, 2, 4, 3), (2, 2, 3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1),
    ((2, 1, 5, 4), (2, 1, 3, 2), (2, 1), (1, 2), (1, 0, 2, 1), 1),
    ((1, 4, 3, 3), (2, 2, 1, 1), (2, 2), (1, 1), (0, 0, 0, 0), 2),
    ((1, 2, 5, 2), (4, 1, 3, 1), (1, 1), (2, 1), (2, 2, 0, 0), 2),
]
POOLS = [  # x, kernel, stride, dilation, padding
    ((1, 1, 4, 4), (2, 2), (2, 2), (1, 1), (0, 0, 0, 0)),
    ((1, 2, 5, 4), (3, 2), (2, 1), (1, 2), (1, 1, 0, 1)),
    ((1, 1, 4, 3), (4, 1), (1, 1), (1, 1), (2, 1, 0, 0)),
]


def conv_cases():
    for xs, ws, stride, dilation, padding, groups in CONVS:
        x, w = values(0, xs).requires_grad_(), values(1, ws).requires_grad_()
        y = F.conv2d(padded(x, padding), w, stride=stride, dilation=dilation, groups=groups)
        yield "conv2d", dims(xs, ws), attrs(stride, dilation, padding, groups=groups), text(y)
        dx, = torch.autograd.grad(y, x, values(0, y.shape), retain_graph=True)
        yield "conv2d_transpose", dims(y.shape, ws), attrs(stride, dilation, padding, groups=groups,
                                                           size=xs[2:]), text(dx)
        dw, = torch.autograd.grad(y, w, values(1, y.shape))
        yield "conv2d_weight_grad", dims(xs, y.shape), attrs(stride, dilation, padding, groups=groups,
                                                             kernel=ws[2:]), text(dw)


def pool_cases():
    for xs, kernel, stride, dilation, padding in POOLS:
        x = values(0, xs).requires_grad_()
        low = padded(x, padding, -1e9)
        y, at = F.max_pool2d(low, kernel, stride, 0, dilation, return_indices=True)
        own = attrs(stride, dilation, padding, kernel=kernel)
        yield "max_pool", dims(xs), own, text(y)
        width = low.shape[3]  # position in the padded image -> in the window
        oy, ox = torch.meshgrid(torch.arange(y.shape[2]), torch.arange(y.shape[3]), indexing="ij")
        row, column = (at // width - oy * stride[0]) // dilation[0], (at % width - ox * stride[1]) // dilation[1]
        yield "max_pool_index", dims(xs), own, text(row * kernel[1] + column)
        dx, = torch.autograd.grad(y, x, values(1, y.shape))
        yield "max_pool_grad", dims(y.shape, y.shape, dtypes=["i32",
                                                              "f64"]), attrs(stride, dilation, padding, kernel=kernel,
                                                                             size=xs[2:]), text(dx)
        if dilation != (1, 1):
            continue
        y = F.avg_pool2d(padded(x, padding), kernel, stride)
        yield "avg_pool", dims(xs), own, text(y)
        inside = F.avg_pool2d(padded(torch.ones(xs, dtype=torch.float64), padding), kernel, stride)
        yield "avg_pool", dims(xs), own + " count_include_pad=false", text(y / inside)
        dx, = torch.autograd.grad(y, x, values(0, y.shape))
        yield "avg_pool_grad", dims(y.shape), attrs(stride, dilation, padding, kernel=kernel, size=xs[2:]), text(dx)


def resize_cases():
    for xs, size in (((1, 2, 3, 4), (6, 8)), ((1, 1, 5, 3), (2, 7)), ((1, 1, 4, 4), (4, 9))):
        for mode in ("nearest", "bilinear"):
            y = F.interpolate(values(0, xs), size, mode=mode)
            yield "resize", dims(xs), f"size={size[0]},{size[1]} mode={mode}", text(y)


with open(sys.argv[1], "w") as out:
    out.write(
        "/* conv_cases.h: made by make_conv_cases.py with PyTorch; op, operands, attributes, values of the result. */\n"
    )
    for case in list(conv_cases()) + list(pool_cases()) + list(resize_cases()):
        out.write("{" + ", ".join(f'"{field}"' for field in case) + "},\n")
