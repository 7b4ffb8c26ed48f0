/* zb_improve.c: an order in, a better one out: one work is moved within its stage's string, half the time on the stage with the
 * longest span; kept when makespan and excess are no worse.  Memory depends on the string alone. */
#include <string.h>

#include "passes/6_pipeline/zero_bubble.h"

static uint32_t draw(uint64_t *state, uint32_t below) {
  *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
  return (uint32_t)((*state >> 32) % below);
}

static int worst_stage(const zb_problem *z) {
  int worst = 0;
  for (int i = 1; i < z->stages; i++)
    if (z->span[i] > z->span[worst]) worst = i;
  return worst;
}

static void move(uint8_t *work, int from, int to) {
  uint8_t w = work[from];
  if (to > from) memmove(work + from, work + from + 1, (size_t)(to - from));
  else memmove(work + to + 1, work + to, (size_t)(from - to));
  work[to] = w;
}

void zb_improve(zb_problem *z, msc_arena *scratch, zb_plan *best) {
  uint64_t state = 88172645463325252u;
  zb_plan p = zb_new_plan(scratch, z);
  zb_run(z, best);
  zb_copy(z, &p, best);
  while (!zb_is_over(z, best)) {
    for (int n = 0; n < 20; n++) {
      int i = draw(&state, 2) ? worst_stage(z) : (int)draw(&state, (uint32_t)z->stages);
      int from = (int)draw(&state, (uint32_t)z->length), by = 1 + (int)draw(&state, draw(&state, 4) ? 6 : (uint32_t)z->length / 2 + 1);
      int to = draw(&state, 2) ? from + by : from - by;
      z->budget--;
      uint8_t *work = zb_string(z, &p, i);
      if (to < 0 || to >= z->length || work[from] == work[to]) continue;
      int64_t makespan = p.makespan;
      double excess = p.excess;
      move(work, from, to);
      if (zb_fits(z, i, work) && zb_run(z, &p) && (p.makespan < makespan || (p.makespan == makespan && p.excess <= excess))) {
        if (p.makespan < best->makespan) zb_copy(z, best, &p);
        continue;
      }
      move(work, to, from);
      p.makespan = makespan, p.excess = excess;
    }
  }
}
