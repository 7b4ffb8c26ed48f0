/* kinds.c: the rows of schedule.def: names, whether the backward is split, most chunks, and what makes the lists. */
#include <string.h>

#include "passes/6_pipeline/schedule/order.h"

const msc_schedule_row msc_schedule_rows[MSC_NUM_SCHEDULES] = {
#define SCHEDULE(name, text, split, chunks, generator, order) {text, split, chunks, generator, order},
#include "passes/6_pipeline/schedule/schedule.def"
#undef SCHEDULE
};

const char *msc_schedule_name(msc_schedule_kind kind) { return msc_schedule_rows[kind].name; }
const char *msc_schedule_order(msc_schedule_kind kind) { return msc_schedule_rows[kind].order; }
bool msc_schedule_is_split(msc_schedule_kind kind) { return msc_schedule_rows[kind].split; }
int msc_schedule_most_chunks(msc_schedule_kind kind) { return msc_schedule_rows[kind].chunks; }

bool msc_schedule_of_name(const char *name, msc_schedule_kind *out_kind) {
  for (int k = 0; k < MSC_NUM_SCHEDULES; k++) {
    if (strcmp(name, msc_schedule_rows[k].name)) continue;
    *out_kind = (msc_schedule_kind)k;
    return true;
  }
  return false;
}
