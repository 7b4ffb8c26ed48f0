/* measure.h: the speed of this machine, in the units of a cluster description (passes/cluster.h).
 *
 * A device is one of `ranks` processes of `threads` threads.  All of them work at once, as they do in a job, and the
 * slowest one's figure is taken: memory and caches are shared. */
#ifndef MSC_TOOLS_MEASURE_H
#define MSC_TOOLS_MEASURE_H

#include "tools/cli.h"

#define MEASURE_MAX_RANKS 64

/* A square product, n x n x n. */
typedef struct {
  msc_dtype dtype;
  int64_t n, ns;
} measured_product;

enum { MEASURE_MOST_PRODUCTS = 24 };

typedef struct {
  int ranks, threads, cores;          /* cores: of this host */
  bool quick;                         /* small products and short windows: a first look */
  const struct msc_target *target;    /* of each rank's device */
  msc_cluster_gpu figures;            /* of a GPU; measure_gpu sets it, memory_bytes and device */
  const char *device;                 /* its name */
  int64_t memory_bytes;               /* of one device */
  double flops_per_s[MSC_NUM_DTYPES]; /* of the fastest matrix product; 0: not measured */
  int num_products;
  measured_product product[MEASURE_MOST_PRODUCTS];
  double bytes_per_s;                 /* read and written by an addition */
  double host_bytes_per_s, disk_bytes_per_s; /* to and from what is offloaded; 0: not measured */
  double launch_ns;                   /* from one small kernel to the next */
  size_t num_collectives;
  msc_cluster_measure *collective;    /* by verb, ranks, bytes; in the context's arena */
  double latency_ns, link_bytes_per_s; /* between GPUs; 0: there is one */
} measured;

/* ---- measure.c ---- */

/* Describes the first GPU; ranks 0: becomes the number of GPUs. An exit code. */
int measure_gpu(cli *c, measured *m);
/* Measures peaks, bandwidth, launch, and the links of several GPUs, by compiled plans. An exit code. */
int measure_device(cli *c, measured *m);
/* Returns a plan that multiplies, for one rank, in the context's arena; NULL after a report. */
const void *measure_compile_product(cli *c, measured *m, size_t *out_bytes);

/* ---- measure_transfers.c ---- */

/* Measures transfers of a CPU's ranks to memory of the host, and to files in the folder; NULL: none. An exit code. */
int measure_transfers(cli *c, const char *folder, measured *m);

/* ---- measure_comm.c ---- */

/* Measures collectives of `ranks` ranks and of groups of them. An exit code. */
int measure_collectives(cli *c, int ranks, measured *m);

typedef struct {
  int ranks;
  int rank;                           /* of a job that something else started; -1: all ranks are started here */
  int local_ranks;                    /* of this host */
  const char *address, *token, *host; /* of that job */
  const char *comm;                   /* the transport: local, hosts, tcp */
  size_t num_sizes;
  const int64_t *sizes;               /* bytes */
  uint32_t without;                   /* 1 << v: not of verb v */
} comm_request;

typedef struct {
  msc_verb verb;
  int64_t bytes, ns;
  uint64_t received;                  /* bytes that rank 0 receives */
} comm_time;

/* Measures every collective of all ranks, but those left out, at every size; results are in rank 0. An exit code. */
int measure_comm(cli *c, const comm_request *r, size_t *out_num, comm_time **out_times);

/* The time of a pair of ranks that send each other sizes[0] bytes at once, while the others wait. */
typedef struct {
  int a, b;
  int64_t ns;
} pair_time;

/* All pairs, in rank 0; *out_skew_ns: between the clocks of the ranks, as far as it can be told.  An exit code. */
int measure_pairs(cli *c, const comm_request *r, size_t *out_num, pair_time **out_times, int64_t *out_skew_ns);

#endif
