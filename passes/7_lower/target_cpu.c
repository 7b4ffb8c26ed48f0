/* target_cpu.c: CPUs of x86-64. */
#include "passes/7_lower/nest/program.h"

const msc_target msc_target_cpu = {
    MSC_TARGET_ROW(cpu),
    .deterministic = true,
    .is_host = true,
    .has_servers = true,
    .is_elastic = true,
    .graphs_have_kernels = true,
    .widens_products = true,
    .cuts_products = true,
    .vector_bytes = 32,
    .flops_of_byte = 1,
    .sums_in_blocks = true,
    .blocks_scatters = true,
    .pools_in_runtime = true,
    .keeps_rows = true,
    .few_items = 8,
    .long_work = 32768,
    .long_tail = 32768,
    .part_points = 16384,
    .lanes = msc_nest_cpu_lanes,
    .items = msc_nest_cpu_items,
    .part = msc_nest_cpu_part,
    .shape = msc_nest_cpu_shape,
};
