/* kinds.c: the rows of schedule.def: a kind's names, and what makes its lists. */
#include <string.h>

#include "passes/6_pipeline/schedule/order.h"

const msc_schedule_row msc_schedule_rows[MSC_NUM_SCHEDULES] = {
#define SCHEDULE(name, text, split, generator, order) {text, generator, order},
#include "passes/6_pipeline/schedule/schedule.def"
#undef SCHEDULE
};

const char *msc_schedule_name(msc_schedule_kind kind) { return msc_schedule_rows[kind].name; }
const char *msc_schedule_order(msc_schedule_kind kind) { return msc_schedule_rows[kind].order; }

bool msc_schedule_of_name(const char *name, msc_schedule_kind *out_kind) {
  for (int k = 0; k < MSC_NUM_SCHEDULES; k++) {
    if (strcmp(name, msc_schedule_rows[k].name)) continue;
    *out_kind = (msc_schedule_kind)k;
    return true;
  }
  return false;
}
