/* order.c: the next work of a stage in; its entry at the end of the stage's list out. */
#include "passes/6_pipeline/schedule/order.h"

#include <string.h>

static int *next_micro_batch(msc_orders *b, int stage, msc_work work, int chunk) {
  return &b->next[(stage * b->s->chunks + chunk) * MSC_NUM_WORKS + (int)work];
}

void msc_order_put(msc_orders *b, int stage, msc_work work, int chunk) {
  msc_stage_list *l = &b->s->stage[stage];
  l->entry[l->num_entries++] = (msc_entry){
      .work = work, .chunk = chunk, .micro_batch = (*next_micro_batch(b, stage, work, chunk))++, .slot = {-1, -1, -1}};
}

void msc_order_clear(msc_orders *b) {
  for (int i = 0; i < b->s->stages; i++) b->s->stage[i].num_entries = 0;
  memset(b->next, 0, sizeof *b->next * (size_t)(b->s->stages * b->s->chunks * MSC_NUM_WORKS));
}
