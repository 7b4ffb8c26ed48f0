/* cpu.c: how a CPU runs over the walk of a region: elements of a vector, items, and how many items a thread takes at
 * once. */
#include "passes/7_lower/nest/expand.h"

static int count_value_bytes(const msc_instr *in) {
  if (in->dtype == MSC_I1) return 1;
  if (msc_nest_has(in, NEST_ADDRESS)) return 1;
  return (int)msc_dtype_bytes((msc_dtype)in->dtype);
}

/* Returns how many elements a vector has whose lanes no sum adds to each other, if the widest value has so many bytes:
 * those of a long vector if the axis fills long vectors, all of them or all but the last few. */
static int lanes_apart(const msc_nester *n, int widest) {
  int64_t size = n->extent[n->walk.lane], lanes = n->apart_bytes / widest;
  bool fills = size % lanes == 0 || size >= 4 * lanes;
  return (fills ? n->apart_bytes : n->vector_bytes) / widest;
}

/* How many elements a vector has: the widest values that vary along the lanes fill it. */
int msc_nest_cpu_lanes(const msc_nester *n) {
  int widest = 0;
  if (n->walk.lane < 0) return 1;
  for (int i = 1; i < n->num_instrs; i++)
    if (n->live[i] && (n->instr[i].axes >> n->walk.lane & 1) && count_value_bytes(&n->instr[i]) > widest)
      widest = count_value_bytes(&n->instr[i]);
  if (widest < 4) widest = 4;
  bool apart = n->walk.kind == MSC_NEST_MAP || n->walk.kind == MSC_NEST_COLUMN;
  return apart ? lanes_apart(n, widest) : n->vector_bytes / widest;
}

uint64_t msc_nest_cpu_items(const msc_nester *n) {
  const msc_nest_walk *w = &n->walk;
  uint16_t lane = w->lane >= 0 ? (uint16_t)(1u << w->lane) : 0;
  if (w->kind == MSC_NEST_TRANSPOSE)
    return msc_nest_points(n, w->items & (uint16_t) ~(lane | 1u << w->across)) *
           msc_nest_divide_up((uint64_t)n->extent[w->across], MSC_TRANSPOSE_ROWS);
  if ((w->kind == MSC_NEST_COLUMN || w->kind == MSC_NEST_SCATTER) && lane)
    return msc_nest_points(n, w->items & (uint16_t)~lane) *
           msc_nest_divide_up((uint64_t)n->extent[w->lane], (uint64_t)msc_nest_cpu_lanes(n) * MSC_COLUMN_VECTORS);
  return msc_nest_points(n, w->items);
}

int64_t msc_nest_cpu_part(const msc_nester *n, int axis) {
  uint64_t rest = msc_nest_points(n, (n->walk.items | n->walk.reduced) & (uint16_t)~(1u << axis)) + 1;
  uint64_t points = n->target->part_points;
  return points / rest < 1 ? 1 : (int64_t)(points / rest);
}

/* How many items a thread takes at once: about 64 KB, or as much arithmetic, so that handing out work costs little. */
static uint64_t grain_of(const msc_nester *n, const msc_nest_launch *l) {
  uint64_t work = l->bytes + l->flops, unit = 65536, grain;
  if (!l->extent || !work) return 1;
  grain = (uint64_t)((double)unit * (double)l->extent / (double)work);
  if (n->walk.kind == MSC_NEST_MAP && grain > 64) grain = grain / 64 * 64;
  return grain < 1 ? 1 : grain > l->extent ? l->extent : grain;
}

void msc_nest_cpu_shape(const msc_nester *n, msc_nest_launch *l) {
  l->extent = msc_nest_cpu_items(n), l->grain = grain_of(n, l);
}
