/* kinds.c: the rows of schedule.def, and what follows from a kind alone: its names, which stage has which chunks. */
#include <string.h>

#include "passes/6_pipeline/schedule/order.h"

const msc_schedule_row msc_schedule_rows[MSC_NUM_SCHEDULES] = {
#define SCHEDULE(name, text, split, generator, order) {text, split, generator, order},
#include "passes/6_pipeline/schedule/schedule.def"
#undef SCHEDULE
};

const char *msc_schedule_name(msc_schedule_kind kind) { return msc_schedule_rows[kind].name; }
const char *msc_schedule_order(msc_schedule_kind kind) { return msc_schedule_rows[kind].order; }
bool msc_schedule_is_split(msc_schedule_kind kind) { return msc_schedule_rows[kind].split; }

bool msc_schedule_of_name(const char *name, msc_schedule_kind *out_kind) {
  for (int k = 0; k < MSC_NUM_SCHEDULES; k++) {
    if (strcmp(name, msc_schedule_rows[k].name)) continue;
    *out_kind = (msc_schedule_kind)k;
    return true;
  }
  return false;
}

static bool is_v_shaped(msc_schedule_kind kind, int chunks) { return kind == MSC_SCHEDULE_ZB_AUTO && chunks == 2; }

void msc_schedule_place(msc_schedule_kind kind, int stages, int chunks, int *out_place) {
  for (int k = 0; k < stages * chunks; k++)
    out_place[k] = is_v_shaped(kind, chunks) && k >= stages ? 2 * stages - 1 - k : k % stages;
}

int msc_virtual_stage(const msc_schedule *s, int stage, int chunk) {
  return is_v_shaped(s->kind, s->chunks) && chunk ? 2 * s->stages - 1 - stage : chunk * s->stages + stage;
}
