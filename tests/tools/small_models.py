"""small_models: models of one or two products that tests train, with their data: written into this folder, or as
text."""
import struct

from expect import write


def write_idx(path, shape, numbers):
    """Bytes as a file of IDX's format."""
    write(path, struct.pack(f">BBBB{len(shape)}I", 0, 0, 8, len(shape), *shape) + bytes(numbers))


def write_one_product(model="net.mlir", data="x.idx", name="net"):
    """Eight samples of 12 numbers a step, a loss that is a mean, momentum; a message can name net.py:3:5."""
    write(model, f"""module attributes {{msc.name = "{name}"}} {{
  "msc.func"() ({{
  ^bb0(%x: tensor<8x12xf32>, %w: tensor<12x4xf32>):
    %0 = "msc.matmul"(%x, %w) : (tensor<8x12xf32>, tensor<12x4xf32>) -> tensor<8x4xf32> loc("dense"("net.py":3:5))
    %1 = "msc.reduce_mean"(%0) {{dims = [0, 1]}} : (tensor<8x4xf32>) -> tensor<f32>
    "msc.return"(%1) : (tensor<f32>) -> ()
  }}) {{sym_name = "forward", loss = 0 : i64, results = ["loss"],
      arg_attrs = [{{msc.name = "x", msc.role = "data"}}, {{msc.name = "w", msc.role = "parameter", msc.init = "normal:0.1"}}],
      optimizer = {{kind = "momentum", lr = 1.0e-01 : f32, momentum = 9.0e-01 : f32}}}} : () -> ()
}}
""")
    write_idx(data, [64, 12], list(range(96)) * 8)


def two_products(batch=8, hidden=6, dropout=True, names=("w", "v"), init=0.3, lr=3e-2):
    """A classifier of 12 numbers into 4 classes with adam; `names` are those of its parameters."""
    x, h, y = f"tensor<{batch}x12xf32>", f"tensor<{batch}x{hidden}xf32>", f"tensor<{batch}x4xf32>"
    w, v, classes = f"tensor<12x{hidden}xf32>", f"tensor<{hidden}x4xf32>", f"tensor<{batch}xi32>"
    drop = f"""
    %1 = "msc.dropout"(%0) {{rate = 2.5e-01 : f64}} : ({h}) -> {h}""" if dropout else ""
    return f"""module attributes {{msc.name = "net"}} {{
  "msc.func"() ({{
  ^bb0(%x: {x}, %y: {classes}, %w: {w}, %v: {v}):
    %0 = "msc.matmul"(%x, %w) : ({x}, {w}) -> {h} loc("up"("net.py":1:1)){drop}
    %2 = "msc.matmul"(%{int(dropout)}, %v) : ({h}, {v}) -> {y} loc("down"("net.py":2:1))
    %3 = "msc.softmax_cross_entropy"(%2, %y) : ({y}, {classes}) -> tensor<f32>
    "msc.return"(%3) : (tensor<f32>) -> ()
  }}) {{sym_name = "forward", loss = 0 : i64, results = ["loss"],
      arg_attrs = [{{msc.name = "x", msc.role = "data"}}, {{msc.name = "y", msc.role = "label"}},
                   {{msc.name = "{names[0]}", msc.role = "parameter", msc.init = "normal:{init}"}},
                   {{msc.name = "{names[1]}", msc.role = "parameter", msc.init = "normal:{init}"}}],
      optimizer = {{kind = "adam", lr = {lr:.1e} : f64}}}} : () -> ()
}}
"""


def write_samples(num):
    """x.idx and y.idx: so many samples of two_products, with labels."""
    write_idx("x.idx", [num, 12], (i * 37 % 256 for i in range(12 * num)))
    write_idx("y.idx", [num], (i * 7 % 4 for i in range(num)))
