/* chunks.c: a kind of schedule in; which stage has which chunks out. */
#include "passes/6_pipeline/schedule/order.h"

static bool is_v_shaped(msc_schedule_kind kind, int chunks) { return kind == MSC_SCHEDULE_ZB_AUTO && chunks == 2; }

void msc_schedule_place(msc_schedule_kind kind, int stages, int chunks, int *out_place) {
  for (int k = 0; k < stages * chunks; k++)
    out_place[k] = is_v_shaped(kind, chunks) && k >= stages ? 2 * stages - 1 - k : k % stages;
}

int msc_virtual_stage(const msc_schedule *s, int stage, int chunk) {
  return is_v_shaped(s->kind, s->chunks) && chunk ? 2 * s->stages - 1 - stage : chunk * s->stages + stage;
}
