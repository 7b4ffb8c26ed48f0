#!/usr/bin/env python3
"""msc layout: slices, groups, normal form and refinements of layouts in both notations, and every way to ask for
nonsense."""
import json

from expect import Expect

expect = Expect()
GRID = ["layout", "--device-matrix", "8,4", "--tensor-map"]


def says(args, **wanted):
    """The JSON has these values."""
    def wrong(text):
        got = json.loads(text)
        return "" if {k: got.get(k) for k in wanted} == wanted else f"{wanted} in {got}"
    expect([*args, "--json"], 0, "", wrong)


says([*GRID, "1,-1", "--shape", "512,1024", "--rank", "5"], slice_shape=[64, 1024], layout="[{d:(1)8},{}]",
     ranks_with_same_slice=[4, 5, 6, 7], slices=[{"rank": 5, "begin": [64, 0],
                                                  "end": [128, 1024]}], group_per_axis=[[1, 5, 9, 13, 17, 21, 25, 29],
                                                                                        [4, 5, 6, 7]])
says("layout --mesh x=2,y=4 --layout [{y},{x}] --shape 8,6 --rank 6".split(), slice_shape=[2, 3], device_matrix=[2, 4],
     tensor_map=[0, 1], group_per_axis=[[2, 6], [4, 5, 6, 7]])
says("layout --mesh x=8 --layout [{x:(4)2,x:(1)2},{}] --shape 8,6 --rank 1".split(), device_matrix=[2, 2, 2],
     tensor_map=[[0, 2], -1], ranks_with_same_slice=[1, 3])
says("layout --device-matrix 2,2,1 --tensor-map 2,0 --shape 8,6 --rank 0".split(), device_matrix=[2, 2],
     tensor_map=[1, -1])
says("layout --device-matrix 4,2 --tensor-map -1,0 --shape 8,6 --ranks 10,3,2,9,11,100,1,0 --rank 0".split(),
     ranks_with_same_slice=[3, 9, 100, 0])

# Refinements.  Two matrices of 32 devices that cut them at 8 and at 2 meet at 2, 4, 4; crossing maps need one cut more.
other = '{"device_matrix":[2,16],"tensor_map":[%s]}'
says([*GRID, "1,0", "--shape", "512,1024", "--unify-with", other % "1,0", "--rank", "0"],
     unified_device_matrix=[2, 4, 4], unified_from_map=[2, 1, 0, -1], unified_to_map=[2, -1, 1, 0],
     unified_shape=[2, 256, 4, 256])
says([*GRID, "1,0", "--shape", "512,1024", "--unify-with", other % "0,1", "--rank", "0"],
     unified_device_matrix=[2, 2, 2, 4], unified_from_map=[3, 2, 1, 0], unified_to_map=[2, 1, 0, 3],
     unified_shape=[2, 2, 128, 1024])
says([*GRID, "1,0", "--shape", "512,1024", "--unify-with", "128,4096", "--rank", "0"], unified_device_matrix=[8, 4],
     unified_from_map=[1, -1, 0], unified_to_map=[-1, -1, -1], unified_shape=[128, 4, 1024])
says("layout --mesh x=2,y=2 --layout [{x},{y}] --shape 4,4 --unify-with [{y,x},{}] --rank 0".split(),
     unified_device_matrix=[2, 2], unified_from_map=[1, -1, 0], unified_to_map=[0, 1, -1], unified_shape=[2, 2, 4])
says([*GRID, "0,1", "--shape", "512,1024", "--expand-device-matrix", "4,2,2,2", "--rank", "0"],
     expanded_device_matrix={"device_matrix": [4, 2, 2, 2], "tensor_map": [1, 0, 3, 2], "shape": [2, 256, 4, 256]})
says([*GRID, "1,0", "--shape", "512,1024", "--expand-shape", "4,128,1024", "--rank", "0"],
     expanded_shape={"device_matrix": [4, 2, 4], "tensor_map": [2, 1, 0], "shape": [4, 128, 1024]})
says(
    "layout --device-matrix 8,4,2 --tensor-map 1,-1 --shape 16,64 --shard-copies 4 --rank 0".split(), sharded_copies={
        "device_matrix": [4, 2, 4, 2], "tensor_map": [1, 2, 0, -1], "shape": [4, 2, 2, 64], "slice_shape": [1, 64]
    })
says("layout --shape 2,8,32 --unify-with 16,32 --expand-shape 2,4,8".split(), unified=[2, 8, 32], out=[2, 4, 2, 4, 8])
blanks = ["--mesh", "x=2 , y=2", "--layout", "[{x},{y}]", "--shape", " 4, 6 ", "--ranks", "3 ,0..2", "--rank", "3"]
says(["layout", *blanks], slice_shape=[2, 3], ranks_with_same_slice=[3])
for sizes in ("4,,6", "4, ", ",4", "4 6"):
    expect(["layout", "--shape", sizes, "--unify-with", "4,6"], 1,
           f'--shape: error: "{sizes}" is not a list of sizes such as 16,16,16 [E0102]\n', "")
says("layout --ranks 5,3,1,0 --stages 2,2 --rank 1".split(), stages=[[5, 3], [1, 0]], device_num=4, stage_num=2,
     stage_id=1, rank_in_stage=0)
expect("layout --device-matrix 2,1 --tensor-map 1,-1 --shape 4,6", 0, "", """\
device_matrix          [2]
tensor_map             [0,-1]
shape                  [4,6]
mesh                   "d=2"
layout                 "[{d},{}]"
slice_shape            [2,6]
slices                 {"rank":0,"begin":[0,0],"end":[2,6]}
                       {"rank":1,"begin":[2,0],"end":[4,6]}
""")

# ---- what is wrong ----


def refuses(args, text):
    expect(args, 1, lambda err: "" if text in err else text, "")


refuses([*GRID, "1,1", "--shape", "8,8"], "axis 1 of the device matrix, counted from the right, is used twice")
refuses([*GRID, "2,1", "--shape", "8,8"],
        "entry 0 must be an axis of the device matrix, counted from the right, 0 to 1, or -1")
refuses([*GRID, "1", "--shape", "8,8"], "one entry for each of the 2 dimensions")
refuses([*GRID, "x", "--shape", "8,8"], "is not a list of axes")
refuses([*GRID, "1,-1", "--shape", "9,8"], "dimension 0 has 9 elements, which the devices it lies on do not divide")
refuses([*GRID, "1,0", "--shape", "8,8", "--rank", "32"], "rank 32 is not among the 32 ranks")
refuses([*GRID, "1,0", "--shape", "8,8", "--ranks", "0..30"], "31 ranks are listed, the device matrix has 32 devices")
refuses([*GRID, "1,0", "--shape", "8,8", "--ranks", "0..7,7"], "rank 7 is listed twice")
refuses([*GRID, "1,0", "--shape", "8,8", "--ranks", "7..0"], "is not a list of ranks")
refuses([*GRID, "1,0", "--shape", "8,8", "--unify-with", '{"device_matrix":[3,2],"tensor_map":[1,0]}'],
        "which the devices it lies on do not divide")
refuses([*GRID, "1,0", "--shape", "8,8", "--unify-with", '{"device_matrix":[6],"tensor_map":[-1,-1]}'],
        "no common refinement")
refuses([*GRID, "1,0", "--shape", "8,8", "--unify-with", "4,4"], "no common refinement")
refuses([*GRID, "1,0", "--shape", "8,8", "--shard-copies", "2"], "dimension 0 cannot be cut further")
refuses("layout --device-matrix 70000 --tensor-map -1 --shape 8".split(), "more than 65536 devices")
refuses("layout --mesh d=3 --layout [{d}/(5,6,7)] --shape 17".split(), "the sizes of parts do not add up to the shape")
refuses("layout --mesh d=3 --layout [{d}/(5,6,7)] --shape 18 --expand-shape 2,9".split(),
        "has no device matrix, which --expand-shape needs")
says("layout --mesh d=3 --layout [{d}/(5,6,7)] --shape 18 --rank 2".split(),
     slices=[{"rank": 2, "begin": [11], "end": [18]}], device_matrix=None)
refuses("layout --shape 2,4 --unify-with 3,3".split(), "have no common refinement")
refuses("layout --shape 2,0 --unify-with 3,3".split(), "0 is no size")
refuses("layout --ranks 0..3 --stages 2,3".split(), "the stages need more ranks than the 4 listed")
for args in ("", "--shape 4", "--shape 4 --mesh x=2", "--shape 4 --tensor-map 0",
             "--shape 4 --mesh x=2 --layout [{x}] --device-matrix 2 --tensor-map 0", "--stages 2"):
    expect(["layout", *args.split()], 2, lambda err: "" if "--help" in err else "usage", "")
expect.done()
