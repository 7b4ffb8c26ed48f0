/* best_plan.c: what every method of placing needs: whether a limit is reached, the best plan so far, orders of
 * bodies. */
#include <string.h>

#include "ir/abi/clock.h"
#include "passes/8_memory/offsets/bodies.h"

/* ---- limits, and the best plan ---- */

bool msc_placing_goal_reached(const msc_placing *z) { return z->height <= z->goal || z->proven; }

bool msc_placing_limit_reached(const msc_placing *z) {
  return (z->node_limit && z->nodes >= z->node_limit) || (z->deadline > 0 && msc_cpu_seconds() >= z->deadline);
}

double msc_placing_seconds_left(const msc_placing *z) {
  double left = z->deadline - msc_cpu_seconds();
  return z->deadline <= 0 ? 0 : left > 1e-6 ? left : 1e-6;
}

uint32_t msc_placing_peak(const msc_placing *z, uint32_t from, uint32_t to) {
  uint32_t peak = from;
  for (uint32_t s = from; s < to; s++)
    if (z->live[s] > z->live[peak]) peak = s;
  return peak;
}

uint32_t msc_placing_distance(uint32_t section, const msc_body *b) {
  return b->to <= section ? section - b->to + 1 : b->from > section ? b->from - section : 0;
}

static bool is_plain_body(const msc_body *b) {
  return b->fixed < 0 && b->num_parts == 1 && b->part[0].low == 0 && b->part[0].high == b->height && b->to <= INT32_MAX;
}

bool msc_placing_is_plain(const msc_placing *z) {
  for (size_t i = 0; i < z->num; i++) MSC_TRY(is_plain_body(&z->body[i]));
  return true;
}

/* The height of a plan, given as offsets by body. */
static int64_t height_of_plan(const msc_placing *z, const int64_t *offset) {
  int64_t height = 0;
  for (size_t i = 0; i < z->num; i++)
    if (offset[i] + z->body[i].height > height) height = offset[i] + z->body[i].height;
  return height;
}

void msc_placing_keep(msc_placing *z, const int64_t *offset) {
  int64_t height = height_of_plan(z, offset);
  if (height >= z->height) return;
  z->height = height;
  memcpy(z->best, offset, z->num * sizeof *offset);
  if (height == z->bound) z->proven = true;
}

/* ---- ranks ---- */

static double largest_live(const msc_placing *z, const msc_body *b) {
  int64_t most = 0;
  for (uint32_t s = b->from; s < b->to; s++)
    if (z->live[s] > most) most = z->live[s];
  return (double)most;
}

static double sum_live(const int64_t *sum, const msc_body *b) { return (double)(sum[b->to] - sum[b->from]); }

/* The rank of a body in one of the orders. Time counts in sections, not in the caller's clock: what matters is what
 * else is live. */
static double rank_body(const msc_placing *z, int order, const msc_body *b, const int64_t *sum) {
  double size = (double)b->height, time = (double)(b->to - b->from);
  switch (order) {
    case 0: return size;
    case 1: return time;
    case 2: return size * time;
    case 3: return sum_live(sum, b);
    case 4: return largest_live(z, b);
    case 5: return size * time * time;
    case 6: return size * size * time;
    default: return -(double)b->from;
  }
}

void msc_place_rank_bodies(const msc_placing *z, int order, double *out_rank) {
  int64_t *sum = msc_new_array(z->arena, int64_t, z->num_sections + 1);
  for (size_t s = 0; s < z->num_sections; s++) sum[s + 1] = sum[s] + z->live[s] / (int64_t)z->num_sections;
  for (size_t i = 0; i < z->num; i++) out_rank[i] = rank_body(z, order, &z->body[i], sum);
}
