/* slots.c: assigns slots (buffers) to the entries of a schedule and counts the bytes. A list runs in order, so the
 * lifetimes of a class are intervals: the lowest free slot for each is an interval coloring with the fewest slots. */
#include "ir/table.h"
#include "passes/6_pipeline/schedule/schedule.h"

/* The free slots of one class, as a heap with the lowest number on top. */
typedef struct {
  int num_free, num; /* free slots; all slots */
  int *free;
} pool;

#define IS_LOWER(c, a, b) ((a) < (b))
MSC_HEAP(slot, void *, int, IS_LOWER, MSC_STAYS)

static int take_lowest_slot(pool *p) {
  return p->num_free ? slot_pop(NULL, p->free, (size_t)p->num_free--) : p->num++;
}

/* By work: the classes whose slots it takes, uses and releases. */
static const struct {
  bool takes[MSC_NUM_SLOTS], uses[MSC_NUM_SLOTS], gives[MSC_NUM_SLOTS];
} of_work[MSC_NUM_WORKS] = {
  [MSC_FORWARD] = {{true, true, false}, {true, true, false}, {false, false, false}},
  [MSC_BACKWARD] = {{false, false, true}, {true, true, true}, {true, false, false}},
  [MSC_WEIGHT] = {{false, false, false}, {false, true, true}, {false, true, true}},
};

static void assign_slots(msc_schedule *s, int stage, pool *pools, int *slot_of) {
  msc_stage_list *l = &s->stage[stage];
  int classes = msc_schedule_is_split(s->kind) ? MSC_NUM_SLOTS : 1;
  for (int i = 0; i < l->num_entries; i++) {
    msc_entry *e = &l->entry[i];
    int *held = &slot_of[((int64_t)e->chunk * s->micro_batches + e->micro_batch) * MSC_NUM_SLOTS];
    for (int c = 0; c < classes; c++) {
      if (of_work[e->work].takes[c]) held[c] = take_lowest_slot(&pools[c]);
      e->slot[c] = of_work[e->work].uses[c] ? held[c] : -1;
      if (of_work[e->work].gives[c]) slot_push(NULL, pools[c].free, (size_t)pools[c].num_free++, held[c]);
    }
  }
  for (int c = 0; c < MSC_NUM_SLOTS; c++) {
    l->num_slots[c] = pools[c].num;
    pools[c].num = pools[c].num_free = 0;
  }
}

static void count_stage_memory(msc_schedule *s, int stage, const msc_section_cost *cost) {
  msc_stage_list *l = &s->stage[stage];
  bool split = msc_schedule_is_split(s->kind);
  int in_flight = 0;
  int64_t bytes = 0;
  l->in_flight = 0, l->memory = 0;
  for (int i = 0; i < l->num_entries; i++) {
    const msc_section_cost *c = &cost[msc_virtual_stage(s, stage, l->entry[i].chunk)];
    switch (l->entry[i].work) {
      case MSC_FORWARD: in_flight++, bytes += c->kept; break;
      case MSC_BACKWARD: in_flight--, bytes += (split ? c->kept_for_weight : 0) - c->kept; break;
      default: bytes -= c->kept_for_weight;
    }
    if (in_flight > l->in_flight) l->in_flight = in_flight;
    if (bytes > l->memory) l->memory = bytes;
  }
}

void msc_schedule_slots(msc_arena *scratch, msc_schedule *s, const msc_section_cost *cost) {
  int per_stage = s->chunks * s->micro_batches;
  int *slot_of = msc_new_array(scratch, int, per_stage *MSC_NUM_SLOTS);
  pool pools[MSC_NUM_SLOTS] = {0};
  for (int c = 0; c < MSC_NUM_SLOTS; c++) pools[c].free = msc_new_array(scratch, int, per_stage);
  for (int i = 0; i < s->stages; i++) {
    assign_slots(s, i, pools, slot_of);
    count_stage_memory(s, i, cost);
  }
}
