/* time_model.h: what things cost on a described cluster: kernels and collectives, in whole nanoseconds.  Search,
 * compile report and simulator ask the same functions.
 *
 *   msc_cost cost;
 *   msc_cost_of(cluster, &module->mesh, &cost);
 *   int64_t ns = msc_cost_work(&cost, MSC_BF16, flops, bytes);
 *
 * A group of a collective is a set of digits of the mesh.  Ranks count row-major, so a digit is the faster the more
 * minor it is: its level is the innermost whose devices differ in no other digit than it and what is minor to it.  An
 * axis that straddles the end of a level has digits on both sides.  A group is as fast as the slowest of its digits;
 * that a hierarchical path is faster is for the planner to find, step by step.  Overlap with compute is not assumed. */
#ifndef MSC_PASSES_TIME_MODEL_H
#define MSC_PASSES_TIME_MODEL_H

#include "passes/cluster.h"

typedef struct {
  const msc_cluster *cluster;
  const msc_mesh *mesh;
  int64_t stride[MSC_MAX_AXES]; /* ranks from one coordinate of the axis to the next */
} msc_cost;

void msc_cost_of(const msc_cluster *cluster, const msc_mesh *mesh, msc_cost *out_cost);

/* The time of a kernel on one device: the slower of its arithmetic and its memory traffic, and at least that of a
 * launch. */
int64_t msc_cost_work(const msc_cost *c, msc_dtype dtype, double flops, double bytes);

/* The blocks of a GPU's kernel, and the threads of each. 0 blocks: not known, or no GPU. */
typedef struct {
  int64_t blocks, threads;
} msc_cost_grid;

/* Returns the time of a kernel with this grid: its arithmetic lasts as long as that of the multiprocessor with most
 * blocks, and its bytes go at the rate at which the threads that run at once ask for them. A cluster that says nothing
 * of multiprocessors has msc_cost_work's. */
int64_t msc_cost_kernel(const msc_cost *c, msc_dtype dtype, double flops, double bytes, msc_cost_grid grid);

/* Returns the time of a matrix product, a convolution or attention. If products were measured, the arithmetic is as
 * fast as measured for this number of operations, and never faster than large products are. */
int64_t msc_cost_product(const msc_cost *c, msc_dtype dtype, double flops, double bytes);

/* Returns the level of links that connects neighbours along this digit; 0: the innermost. */
int msc_cost_level(const msc_cost *c, msc_subaxis digit);
/* Returns the innermost level of links that connects rank a + i with rank b + i for every i below `num`. */
int msc_cost_level_between(const msc_cost *c, int64_t a, int64_t b, int64_t num);
/* Returns the size of the largest minor part of the axis whose ranks are connected by a faster level of links than the
 * whole axis; 1: there is none, or the axis lies within the innermost level. */
int64_t msc_cost_inner_parts(const msc_cost *c, int axis);

/* A collective over a group of `ranks` devices whose slowest link is of `level`.  `bytes`: the bytes that each device
 * receives, in an exchange the worst one; `peers`: of an exchange, the number of devices that one receives from. */
typedef struct {
  msc_verb verb;
  int level;
  int64_t ranks, bytes, peers;
} msc_cost_transfer;
int64_t msc_cost_collective(const msc_cost *c, const msc_cost_transfer *t);

/* The time of a transfer that shares latency and launch with the others of a bucket of `num`; a transfer without a
 * bucket pays all of it. */
int64_t msc_cost_shared(const msc_cost *c, const msc_cost_transfer *t, int64_t num);

/* A link by its figures, whatever its level, and the time of a transfer over it: the one formula behind the two
 * functions above and behind the planner of redistributions. If the cluster has a measured time of this verb and
 * number of ranks on this level, that is returned instead. */
typedef struct {
  const msc_cluster *measured;                /* the cluster with measured times; NULL: none were measured */
  double launch_ns, latency_ns, bytes_per_ns; /* latency of a round; 0 bytes_per_ns: bytes take no time */
} msc_cost_link;
int64_t msc_cost_over(const msc_cost_link *link, const msc_cost_transfer *t, int64_t num);
/* Rounded up, so that nothing is free and no part of a sum is lost; no more than a century. */
int64_t msc_cost_whole_ns(double ns);

#endif
