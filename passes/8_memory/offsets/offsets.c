/* offsets.c: the planner: greedy orders first, then the exact search while limits allow; the best plan is kept. */

#include "ir/abi/clock.h"
#include "passes/8_memory/offsets/bodies.h"

enum { SEARCHED = 1500, STEPS = 4000000 };

static void set_limits(msc_placing *z) {
  const msc_offsets_options *o = z->options;
  int64_t capacity =
      o->capacity / (uint64_t)z->unit < INT64_MAX ? (int64_t)(o->capacity / (uint64_t)z->unit) : INT64_MAX - 1;
  z->goal = capacity > z->bound ? capacity : z->bound;
  z->deadline = o->time_limit_s > 0 ? msc_cpu_seconds() + o->time_limit_s : 0;
  z->node_limit = o->node_limit ? o->node_limit : o->time_limit_s > 0 ? 0 : STEPS / z->num + 1;
}

/* Takes over the plan that the caller knows, rounded down to units (heights are whole units, so nothing overlaps
 * then). A plan that tears a group apart is ignored. */
static void try_candidate(msc_placing *z, size_t num, const uint32_t *body_of, const int64_t *low) {
  const uint64_t *offset = z->options->candidate;
  int64_t *of_body = msc_new_array(z->arena, int64_t, z->num);
  for (size_t i = 0; i < z->num; i++) of_body[i] = -1;
  for (size_t i = 0; i < num; i++) {
    if (body_of[i] == UINT32_MAX) continue;
    if (offset[i] >= MSC_OFFSETS_MOST || (int64_t)offset[i] < low[i]) return;
    int64_t at = (int64_t)offset[i] - low[i], *of = &of_body[body_of[i]];
    if (*of >= 0 && *of != at) return;
    *of = at;
  }
  for (size_t i = 0; i < z->num; i++) of_body[i] /= z->unit;
  msc_place_known_plan(z, of_body);
}

static msc_offsets_result place_in_scratch(msc_arena *arena, size_t num, const msc_buffer *buffer,
                                           const msc_offsets_options *options, uint64_t *out_offset) {
  msc_placing z;
  uint32_t *body_of = msc_new_array(arena, uint32_t, num);
  int64_t *low = msc_new_array(arena, int64_t, num);
  for (size_t i = 0; i < num; i++) out_offset[i] = 0;
  if (!msc_placing_of(&z, arena, num, buffer, options, body_of, low)) return (msc_offsets_result){.proven = true};
  set_limits(&z);
  z.best = msc_new_array(arena, int64_t, z.num);
  if (z.options->candidate) try_candidate(&z, num, body_of, low);
  if (!msc_placing_goal_reached(&z)) msc_place_greedily(&z);
  if (!msc_placing_goal_reached(&z)) msc_place_from_best(&z);
  if (!msc_placing_goal_reached(&z) && z.num <= SEARCHED) msc_place_exactly(&z);
  for (size_t i = 0; i < num; i++)
    if (body_of[i] != UINT32_MAX) out_offset[i] = (uint64_t)(z.best[body_of[i]] * z.unit + low[i]);
  return (msc_offsets_result){(uint64_t)(z.height * z.unit), (uint64_t)(z.bound * z.unit), z.proven, z.nodes};
}

msc_offsets_result msc_find_offsets(msc_arena *arena, size_t num, const msc_buffer *buffer,
                                    const msc_offsets_options *options, uint64_t *out_offset) {
  static const msc_offsets_options none = {0};
  msc_arena *scratch = msc_arena_beside(arena);
  msc_offsets_result r = place_in_scratch(scratch, num, buffer, options ? options : &none, out_offset);
  msc_arena_free(scratch);
  return r;
}
