/* time_model.c: kernels and collectives -> nanoseconds on a described cluster (see time_model.h). */
#include "passes/time_model.h"

#include <math.h>

void msc_cost_of(const msc_cluster *cluster, const msc_mesh *mesh, msc_cost *out_cost) {
  *out_cost = (msc_cost){.cluster = cluster, .mesh = mesh};
  int64_t stride = 1;
  for (int a = mesh->num_axes; a-- > 0;) {
    out_cost->stride[a] = stride;
    stride *= mesh->axis[a].size;
  }
}

int64_t msc_cost_whole_ns(double ns) { return ns < 4e18 ? (int64_t)ceil(ns) : (int64_t)4e18; }

/* Log-log between the points (x0, y0) and (x1, y1). */
static double interpolate(double x, double x0, double y0, double x1, double y1) {
  return y0 * pow(y1 / y0, log(x / x0) / log(x1 / x0));
}

/* Returns the time of a product of so many operations, interpolated between the two nearest measured products; beyond
 * them it is in proportion to the nearest one.  0: none of the type was measured. */
static double measured_product_ns(const msc_cluster *cluster, msc_dtype dtype, double flops) {
  const msc_cluster_product *below = NULL, *above = NULL;
  for (size_t i = 0; i < cluster->num_products; i++) {
    const msc_cluster_product *p = &cluster->product[i];
    if (p->dtype != dtype) continue;
    if (p->flops <= flops) below = p;
    else if (!above) above = p;
  }
  if (below && above) return interpolate(flops, below->flops, (double)below->ns, above->flops, (double)above->ns);
  const msc_cluster_product *nearest = below ? below : above;
  return nearest ? (double)nearest->ns * flops / nearest->flops : 0;
}

static int64_t slowest_ns(const msc_cluster *cluster, double arithmetic, double bytes) {
  double memory = bytes * 1e9 / cluster->bytes_per_s;
  int64_t ns = msc_cost_whole_ns(arithmetic > memory ? arithmetic : memory);
  return ns > cluster->launch_ns ? ns : cluster->launch_ns;
}

int64_t msc_cost_work(const msc_cost *c, msc_dtype dtype, double flops, double bytes) {
  return slowest_ns(c->cluster, flops * 1e9 / c->cluster->flops_per_s[dtype], bytes);
}

/* Returns the part of a GPU's multiprocessors that work on average until the one with most blocks ends. */
static double busy_share(const msc_cluster_gpu *gpu, int64_t blocks) {
  int64_t most = (blocks - 1) / gpu->multiprocessors + 1;
  return (double)blocks / ((double)most * (double)gpu->multiprocessors);
}

/* Returns the bytes per second that the threads that run at once can ask for: each waits for two vectors at a time,
 * which take about a thousand clocks when others ask, too. */
static double asked_bytes_per_s(const msc_cluster_gpu *gpu, msc_cost_grid grid) {
  enum { BYTES = 32, CLOCKS = 1000 };
  int64_t fit = gpu->threads / grid.threads;
  if (fit > gpu->blocks) fit = gpu->blocks;
  double at_once = (double)gpu->multiprocessors * (double)(fit > 1 ? fit : 1);
  if (at_once > (double)grid.blocks) at_once = (double)grid.blocks;
  return at_once * (double)grid.threads * BYTES * (double)gpu->clock_hz / CLOCKS;
}

int64_t msc_cost_kernel(const msc_cost *c, msc_dtype dtype, double flops, double bytes, msc_cost_grid grid) {
  const msc_cluster_gpu *gpu = &c->cluster->gpu;
  if (!gpu->multiprocessors || grid.blocks <= 0 || grid.threads <= 0) return msc_cost_work(c, dtype, flops, bytes);
  double asked = asked_bytes_per_s(gpu, grid), most = c->cluster->bytes_per_s;
  if (asked < most) bytes *= most / asked;
  return msc_cost_work(c, dtype, flops / busy_share(gpu, grid.blocks), bytes);
}

int64_t msc_cost_product(const msc_cost *c, msc_dtype dtype, double flops, double bytes) {
  double measured = measured_product_ns(c->cluster, dtype, flops),
         least = flops * 1e9 / c->cluster->product_flops_per_s[dtype];
  return slowest_ns(c->cluster, measured > least ? measured : least, bytes);
}

/* ---- links ---- */

/* The innermost level whose groups hold whole blocks of `ranks` consecutive ranks, or else all ranks. */
static int level_of_block(const msc_cost *c, int64_t ranks) {
  const msc_cluster *k = c->cluster;
  int l = 0;
  while (l + 1 < k->num_levels && k->level[l].size % ranks && msc_mesh_size(c->mesh) > k->level[l].size) l++;
  return l;
}

int msc_cost_level(const msc_cost *c, msc_subaxis digit) {
  int64_t rest = c->mesh->axis[digit.axis].size / ((int64_t)digit.pre * digit.size);
  return level_of_block(c, c->stride[digit.axis] * rest * digit.size);
}

int msc_cost_level_between(const msc_cost *c, int64_t a, int64_t b, int64_t num) {
  int l = 0;
  for (int64_t i = 0; i < num; i++)
    while (l + 1 < c->cluster->num_levels && (a + i) / c->cluster->level[l].size != (b + i) / c->cluster->level[l].size)
      l++;
  return l;
}

int64_t msc_cost_inner_parts(const msc_cost *c, int axis) {
  int64_t size = c->mesh->axis[axis].size;
  int outer = level_of_block(c, c->stride[axis] * size);
  if (outer == 0) return 1;
  int64_t inner = c->cluster->level[outer - 1].size;
  if (inner % c->stride[axis]) return 1;
  inner /= c->stride[axis];
  return inner > 1 && inner < size && size % inner == 0 ? inner : 1;
}

/* ---- collectives ---- */

/* Returns the time of a transfer from the measured sizes: interpolates between the two nearest ones on logarithmic
 * scales, and extends the largest one in proportion.  0: no size was measured.  *out_least becomes the time of the
 * smallest measured size, which is taken as latency. */
static double measured_ns(const msc_cluster *cluster, const msc_cost_transfer *t, double *out_least) {
  const msc_cluster_measure *below = NULL, *above = NULL;
  bool named = false;
  *out_least = 0;
  double bytes = (double)t->bytes / msc_verb_received_share(t->verb, t->ranks);
  for (size_t i = 0; i < cluster->num_measures; i++) {
    const msc_cluster_measure *m = &cluster->measure[i];
    if (m->verb != t->verb || m->ranks != t->ranks || (m->level >= 0 && m->level != t->level)) continue;
    if (m->level < 0 && named) break; /* those of this very level are enough */
    named = m->level >= 0;
    if (!below && !above) *out_least = (double)m->ns;
    if ((double)m->bytes <= bytes) below = m;
    else if (!above) above = m;
  }
  if (!below && !above) return 0;
  if (!below) return (double)above->ns;
  if (!above) return (double)below->ns * bytes / (double)below->bytes;
  return interpolate(bytes, (double)below->bytes, (double)below->ns, (double)above->bytes, (double)above->ns);
}

int64_t msc_cost_over(const msc_cost_link *link, const msc_cost_transfer *t, int64_t num) {
  if (t->ranks <= 1 || t->verb == MSC_SHARD) return 0;
  if (!msc_verb_fuses(t->verb)) num = 1;
  double least = 0, measured = link->measured ? measured_ns(link->measured, t, &least) : 0;
  if (least > measured) least = measured;
  if (measured > 0) return msc_cost_whole_ns(measured - least + least / (double)num);
  double latency = link->launch_ns + (double)msc_verb_rounds(t->verb, t->ranks, t->peers) * link->latency_ns;
  double bytes_ns = link->bytes_per_ns > 0 ? (double)t->bytes / link->bytes_per_ns : 0;
  return msc_cost_whole_ns(latency / (double)num + bytes_ns);
}

int64_t msc_cost_shared(const msc_cost *c, const msc_cost_transfer *t, int64_t num) {
  const msc_cluster_level *l = &c->cluster->level[t->level];
  const msc_cost_link link = {.measured = c->cluster->num_measures ? c->cluster : NULL,
                              .launch_ns = (double)c->cluster->collective_ns,
                              .latency_ns = (double)l->latency_ns,
                              .bytes_per_ns = l->bytes_per_s / 1e9};
  return msc_cost_over(&link, t, num);
}

int64_t msc_cost_collective(const msc_cost *c, const msc_cost_transfer *t) { return msc_cost_shared(c, t, 1); }
