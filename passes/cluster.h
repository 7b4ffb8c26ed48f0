/* cluster.h: a described cluster: what its devices and links can do.  One description serves search, partitioner, the
 * compile report and the simulator.  The file is JSON, units stand in the names (tools/clusters/h100.json is a whole
 * one):
 *
 *   {"device": {"name": "H100", "flops_per_s": {"f32": 67e12, "bf16": 989e12}, "memory_bytes": 80000000000,
 *               "bytes_per_s": 3.35e12, "launch_ns": 3000,
 *               "product_flops_per_s": {"f32": 45e12, "bf16": 670e12}, "collective_ns": 9000,         may be absent
 *               "section_ns": 2000000,      to begin the forward or backward of a micro-batch; may be absent
 *               "host_bytes_per_s": 25e9, "disk_bytes_per_s": 1e9,       to and from what is offloaded; may be absent
 *               "gpu": {"arch": 90, ...}},                                                   see below; may be absent
 *    "levels": [{"name": "node", "size": 8, "latency_ns": 3000, "bytes_per_s": 450e9},                innermost first
 *               {"name": "fabric", "latency_ns": 15000, "bytes_per_s": 50e9}],             the last one has no size
 *    "collectives": [{"op": "all_reduce", "ranks": 8, "bytes": 1048576, "ns": 41000,      measured; may be absent
 *                      "level": "node"}],                           the level that connects those ranks; may be absent
 *    "products": [{"type": "bf16", "rows": 512, "inner": 64, "columns": 512, "ns": 41}]}      measured; may be absent
 *
 * A level's size counts devices, those of inner levels included.  Its bandwidth is one device's; with "shared_by": n a
 * link of that bandwidth serves n devices at once. */
#ifndef MSC_PASSES_CLUSTER_H
#define MSC_PASSES_CLUSTER_H

#include "ir/ir.h"

#define MSC_MAX_LEVELS 8
#define MSC_DISK_NS    100000 /* of one transfer to or from a disk, however short */

typedef struct {
  const char *name;
  int64_t size;       /* devices that it connects, those of inner levels included; INT64_MAX: the outermost */
  int64_t latency_ns; /* of one step between neighbours */
  double bytes_per_s; /* of one device when all send at once */
} msc_cluster_level;

/* One measured collective of `ranks` devices; `bytes` as in the verb's own figure: what one device holds before. */
typedef struct {
  msc_verb verb;
  int level; /* that its ranks are connected by; -1: not said, it holds for any */
  int64_t ranks, bytes, ns;
} msc_cluster_measure;

/* One measured matrix product; flops: multiplications and additions. */
typedef struct {
  msc_dtype dtype;
  double flops;
  int64_t ns;
} msc_cluster_product;

/* The properties of a GPU by which NVIDIA's libraries choose kernels, so that they can choose without the GPU.  The
 * last three are the most that one multiprocessor has. */
typedef struct {
  int64_t arch; /* 90 is compute capability 9.0; 0: not given, or no GPU of NVIDIA's */
  int64_t multiprocessors, clock_hz, memory_clock_hz, cache_bytes, shared_bytes, threads, blocks;
} msc_cluster_gpu;

typedef struct msc_cluster {
  const char *device;
  double flops_per_s[MSC_NUM_DTYPES];         /* a type without a figure of its own has f32's */
  double product_flops_per_s[MSC_NUM_DTYPES]; /* what large matrix products reach; absent: flops_per_s */
  int64_t memory_bytes;
  double bytes_per_s;
  double host_bytes_per_s, disk_bytes_per_s; /* between the device and what is offloaded */
  int64_t launch_ns;                         /* of one kernel, whatever its size */
  int64_t collective_ns;                     /* of one collective, whatever its size; absent: launch_ns */
  int64_t section_ns;                        /* to begin the forward or backward of a micro-batch; absent: 0 */
  msc_cluster_gpu gpu;
  int num_levels;
  msc_cluster_level level[MSC_MAX_LEVELS];
  size_t num_measures;
  msc_cluster_measure *measure; /* by verb, ranks, bytes */
  size_t num_products;
  msc_cluster_product *product; /* by element type, flops */
  const char *text;             /* the description itself */
  bool is_shipped;              /* a kind of machine, no particular one */
} msc_cluster;

/* `name` is the file's, for messages.  NULL after reporting every fault at its place. */
const msc_cluster *msc_cluster_read(msc_context *ctx, const char *name, const char *text, size_t bytes);
/* A description that msc brings along: a100, cpu, h100, h200; NULL: there is none of this name, and nothing is
 * reported. */
const msc_cluster *msc_cluster_named(msc_context *ctx, const char *name);
/* "a100, cpu, h100, h200" */
const char *msc_cluster_names(msc_arena *arena);

#endif
