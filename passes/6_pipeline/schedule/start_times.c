/* start_times.c: lists and costs in; when every entry starts and ends out, if each starts as soon as its stage is free
 * and its data is there.  A hop delays the receiver and occupies nobody. */
#include "passes/6_pipeline/schedule/schedule.h"

typedef struct {
  const msc_schedule *s;
  const msc_section_cost *cost;
  int64_t *end[2];  /* of forward and backward of every virtual stage and micro-batch; -1: not yet */
  int *at;          /* next entry of every stage */
  int64_t *free_at; /* when every stage begins */
  int *waiting;     /* stack of stages that may go on */
  bool *is_waiting;
  int num_waiting;
} clock;

static int64_t *end_of(clock *c, msc_work work, int k, int j) {
  return &c->end[work][(int64_t)k * c->s->micro_batches + j];
}

static void wake(clock *c, int stage) {
  if (c->is_waiting[stage]) return;
  c->is_waiting[stage] = true;
  c->waiting[c->num_waiting++] = stage;
}

/* When the data of an entry of virtual stage k is there; -1: not yet. */
static int64_t data_at(clock *c, const msc_entry *e, int k) {
  int last = c->s->stages * c->s->chunks - 1, from = e->work == MSC_FORWARD ? k - 1 : k + 1;
  int64_t at = 0;
  if (e->work != MSC_FORWARD) {
    at = *end_of(c, e->work == MSC_WEIGHT ? MSC_BACKWARD : MSC_FORWARD, k, e->micro_batch);
    if (at < 0 || e->work == MSC_WEIGHT) return at;
  }
  if (from < 0 || from > last) return at;
  int64_t sent = *end_of(c, e->work, from, e->micro_batch);
  if (sent < 0) return -1;
  if (c->s->place[from] != c->s->place[k]) sent += c->cost[from < k ? from : k].hop;
  return sent > at ? sent : at;
}

static int64_t length_of(const clock *c, msc_work work, int k) {
  const msc_section_cost *t = &c->cost[k];
  if (work == MSC_FORWARD) return t->forward;
  return work == MSC_WEIGHT ? t->weight : t->backward + (msc_schedule_is_split(c->s->kind) ? 0 : t->weight);
}

/* Runs a stage until it must wait. */
static void go_on(clock *c, int stage) {
  msc_stage_list *l = &c->s->stage[stage];
  int last = c->s->stages * c->s->chunks - 1;
  for (; c->at[stage] < l->num_entries; c->at[stage]++) {
    msc_entry *e = &l->entry[c->at[stage]];
    int k = msc_virtual_stage(c->s, stage, e->chunk), to = e->work == MSC_FORWARD ? k + 1 : k - 1;
    int64_t ready = data_at(c, e, k), idle_from = c->at[stage] ? e[-1].end : c->free_at[stage];
    if (ready < 0) return;
    e->start = ready > idle_from ? ready : idle_from;
    e->end = e->start + length_of(c, e->work, k);
    if (e->work == MSC_WEIGHT) continue;
    *end_of(c, e->work, k, e->micro_batch) = e->end;
    if (to >= 0 && to <= last && c->s->place[to] != stage) wake(c, c->s->place[to]);
  }
}

static clock new_clock(msc_arena *scratch, const msc_schedule *s, const msc_section_cost *cost) {
  clock c = {.s = s, .cost = cost};
  for (int w = 0; w < 2; w++)
    c.end[w] = msc_new_array(scratch, int64_t, (int64_t)s->stages * s->chunks * s->micro_batches);
  c.at = msc_new_array(scratch, int, s->stages);
  c.free_at = msc_new_array(scratch, int64_t, s->stages);
  c.waiting = msc_new_array(scratch, int, s->stages);
  c.is_waiting = msc_new_array(scratch, bool, s->stages);
  return c;
}

/* One step; false when the lists wait for each other. */
static bool run(clock *c) {
  const msc_schedule *s = c->s;
  for (int64_t i = 0; i < (int64_t)s->stages * s->chunks * s->micro_batches; i++) c->end[0][i] = c->end[1][i] = -1;
  for (int i = s->stages - 1; i >= 0; i--) {
    c->at[i] = 0;
    wake(c, i);
  }
  while (c->num_waiting) {
    int stage = c->waiting[--c->num_waiting];
    c->is_waiting[stage] = false;
    go_on(c, stage);
  }
  for (int i = 0; i < s->stages; i++)
    if (c->at[i] < s->stage[i].num_entries) return false;
  return true;
}

static int64_t end_of_stage(const msc_schedule *s, int stage) {
  return s->stage[stage].entry[s->stage[stage].num_entries - 1].end;
}

bool msc_schedule_time(msc_arena *scratch, msc_schedule *s, const msc_section_cost *cost) {
  int64_t first = INT64_MAX, last = 0;
  clock c = new_clock(scratch, s, cost);
  MSC_TRY(run(&c));
  s->makespan = 0;
  for (int i = 0; i < s->stages; i++) {
    int64_t begin = s->stage[i].entry[0].start, end = end_of_stage(s, i);
    if (end - begin > s->makespan) s->makespan = end - begin;
    if (begin < first) first = begin;
    if (end > last) last = end;
  }
  s->wall = last - first;
  return true;
}

int64_t msc_schedule_period(msc_arena *scratch, msc_schedule *s, const msc_section_cost *cost, const int64_t *update) {
  enum { STEPS = 4 }; /* until all are alike */
  clock c = new_clock(scratch, s, cost);
  int64_t end = 0, before = 0;
  for (int step = 0; step < STEPS; step++) {
    run(&c);
    before = end;
    for (int i = 0; i < s->stages; i++) {
      c.free_at[i] = end_of_stage(s, i) + update[i];
      if (c.free_at[i] > end) end = c.free_at[i];
    }
  }
  msc_schedule_time(scratch, s, cost);
  return end - before;
}
