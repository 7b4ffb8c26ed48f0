/* target_cuda.c: NVIDIA's GPUs since sm_80, with cuBLASLt and cuDNN. */
#include "passes/7_lower/nest/program.h"

const msc_target msc_target_cuda = {
    MSC_TARGET_ROW(cuda),
    .least_arch = 80,
    .cluster = "h100",
    .is_gpu = true,
    .makes_ptx = true,
    .host = &msc_target_cpu,
    .steps_of_input = 2, /* the next step's are copied there while one runs */
    .takes_strides = true,
    .product_workspace = 32 << 20, /* for an H100 */
    .vector_bytes = 16,
    .flops_of_byte = 8,
    .joins_readers = true,
    .joins_small_kernels = true,
    .remakes_cheap_values = true,
    .adds_atomically = true,
    .finds_labels = true,
    .scatter_threads = 65536, /* together they hide how long memory takes */
    .few_items = 256,
    .long_work = 65536,
    .long_tail = 2048,
    .part_points = 4096,
    .lanes = msc_nest_gpu_lanes,
    .items = msc_nest_gpu_items,
    .part = msc_nest_gpu_part,
    .shape = msc_nest_gpu_shape,
};
