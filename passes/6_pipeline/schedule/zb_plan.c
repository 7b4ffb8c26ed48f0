/* zb_plan.c: makes and copies plans of zb-auto, a string of works per stage, and holds them against limits. */
#include <string.h>

#include "ir/abi/clock.h"
#include "passes/6_pipeline/schedule/zero_bubble.h"

zb_plan zb_new_plan(msc_arena *arena, const zb_problem *z) {
  return (zb_plan){msc_new_array(arena, uint8_t, (int64_t)z->stages * z->length), INT64_MAX};
}

uint8_t *zb_string(const zb_problem *z, const zb_plan *p, int stage) { return p->work + (int64_t)stage * z->length; }

void zb_copy(const zb_problem *z, zb_plan *to, const zb_plan *from) {
  memcpy(to->work, from->work, (size_t)z->stages * (size_t)z->length);
  to->makespan = from->makespan;
}

bool zb_fits(const zb_problem *z, int stage, const uint8_t *work) {
  const msc_section_cost *c = &z->cost[stage];
  int64_t bytes = 0, change[] = {c->kept, c->kept_for_weight - c->kept, -c->kept_for_weight};
  int done[MSC_NUM_WORKS] = {0};
  for (int i = 0; i < z->length; i++) {
    if (work[i] != MSC_FORWARD && done[work[i]] == done[work[i] - 1]) return false;
    done[work[i]]++;
    bytes += change[work[i]];
    if (bytes > z->limit[stage]) return false;
  }
  return true;
}

bool zb_is_over(const zb_problem *z, const zb_plan *best) {
  if (best->makespan == INT64_MAX) return false; /* the first list schedule is always finished */
  return best->makespan <= z->bound || z->budget <= 0 || (z->until > 0 && msc_cpu_seconds() >= z->until);
}
