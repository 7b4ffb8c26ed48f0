"""Gradients fused by index: a chain of layers, one parameter of the given size each, is compiled for two ranks, and
what is sent together is read back.  Gradients are ready from the last parameter to the first."""
import os

from facts import FOLDER, Answer, family, msc


def chain(sizes, kind="f32"):
    """IR text: every layer multiplies its parameter, one row, to the value so far and sums."""
    x, lines, last = f"tensor<2x1x{kind}>", [], "x"
    for i, n in enumerate(sizes):
        w, y = f"tensor<1x{n}x{kind}>", f"tensor<2x{n}x{kind}>"
        lines += [f'%y{i} = "msc.matmul"(%{last}, %w{i}) : ({x}, {w}) -> {y}',
                  f'%x{i} = "msc.reduce_sum"(%y{i}) {{dims = [1], keep_dims = true}} : ({y}) -> {x}']
        last = f"x{i}"
    lines += [
        f'%loss = "msc.reduce_mean"(%{last}) {{dims = [0, 1]}} : ({x}) -> tensor<{kind}>',
        f'"msc.return"(%loss) : (tensor<{kind}>) -> ()'
    ]
    args = [f"%x: {x}"] + [f"%w{i}: tensor<1x{n}x{kind}>" for i, n in enumerate(sizes)]
    attrs = ['{msc.name = "x", msc.role = "data"}'
             ] + [f'{{msc.init = "zeros", msc.name = "w{i}", msc.role = "parameter"}}' for i in range(len(sizes))]
    return "\n".join([
        "module {", '"msc.func"() ({', f"^bb0({', '.join(args)}):", *lines,
        "}) {" + f"arg_attrs = [{', '.join(attrs)}],",
        'sym_name = "forward", loss = 0 : i64, results = ["loss"], optimizer = {kind = "sgd", lr = 0.1 : f32}} : () '
        '-> ()',
        "}", ""
    ])


def buckets(sizes, *settings):
    """In the order in which gradients are ready; what overlaps other work may run in another."""
    with open(os.path.join(FOLDER.name, "chain.mlir"), "w") as out:
        out.write(chain(sizes))
    keys = ("device_num=2", "parallel_mode=data_parallel", *settings)
    said = msc("compile", "chain.mlir", "-o", "chain.bin", *(word for key in keys for word in ("--set", key)))
    return sorted(said["buckets"], key=lambda b: b["number"])


@family("comm_fusion.index_split*")
def by_index(given, expected):
    members = [
        b["members"]
        for b in buckets([8] * given["allreduce_count"], f"all_reduce_fusion_config={given['split_indices']}")
    ]
    begins = [sum(members[:k]) for k in range(len(members) + 1)]
    return Answer({"segments": [[a, b - 1] for a, b in zip(begins, begins[1:])]})
