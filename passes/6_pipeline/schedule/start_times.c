/* start_times.c: sets start and end of every entry, if each starts as soon as its stage is free and its data has
 * arrived. A hop delays the receiver and occupies no stage. */
#include "passes/6_pipeline/schedule/schedule.h"

typedef struct {
  const msc_schedule *s;
  const msc_section_cost *cost;
  int64_t *end[2];  /* by work (F, B), virtual stage and micro-batch; -1: not yet */
  int *at;          /* by stage: its next entry */
  int64_t *free_at; /* by stage: when it begins */
  int *waiting;     /* stack of the stages that may be able to go on */
  bool *is_waiting;
  int num_waiting;
} clock;

static int64_t *end_time(clock *c, msc_work work, int k, int j) {
  return &c->end[work][(int64_t)k * c->s->micro_batches + j];
}

static void wake_waiting_stage(clock *c, int stage) {
  if (c->is_waiting[stage]) return;
  c->is_waiting[stage] = true;
  c->waiting[c->num_waiting++] = stage;
}

/* When the data of an entry of virtual stage k arrives; -1: not known yet. */
static int64_t data_time(clock *c, const msc_entry *e, int k) {
  int last = c->s->stages * c->s->chunks - 1, from = e->work == MSC_FORWARD ? k - 1 : k + 1;
  int64_t at = 0;
  if (e->work != MSC_FORWARD) {
    at = *end_time(c, e->work == MSC_WEIGHT ? MSC_BACKWARD : MSC_FORWARD, k, e->micro_batch);
    if (at < 0 || e->work == MSC_WEIGHT) return at;
  }
  if (from < 0 || from > last) return at;
  int64_t sent = *end_time(c, e->work, from, e->micro_batch);
  if (sent < 0) return -1;
  if (c->s->place[from] != c->s->place[k]) sent += c->cost[from < k ? from : k].hop;
  return sent > at ? sent : at;
}

static int64_t work_time(const clock *c, msc_work work, int k) {
  const msc_section_cost *t = &c->cost[k];
  if (work == MSC_FORWARD) return t->forward;
  return work == MSC_WEIGHT ? t->weight : t->backward + (msc_schedule_is_split(c->s->kind) ? 0 : t->weight);
}

/* Runs the entries of a stage until one must wait. */
static void run_until_wait(clock *c, int stage) {
  msc_stage_list *l = &c->s->stage[stage];
  int last = c->s->stages * c->s->chunks - 1;
  for (; c->at[stage] < l->num_entries; c->at[stage]++) {
    msc_entry *e = &l->entry[c->at[stage]];
    int k = msc_virtual_stage(c->s, stage, e->chunk), to = e->work == MSC_FORWARD ? k + 1 : k - 1;
    int64_t ready = data_time(c, e, k), idle_from = c->at[stage] ? e[-1].end : c->free_at[stage];
    if (ready < 0) return;
    e->start = ready > idle_from ? ready : idle_from;
    e->end = e->start + work_time(c, e->work, k);
    if (e->work == MSC_WEIGHT) continue;
    *end_time(c, e->work, k, e->micro_batch) = e->end;
    if (to >= 0 && to <= last && c->s->place[to] != stage) wake_waiting_stage(c, c->s->place[to]);
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

/* Runs one step; false if the lists wait for each other. */
static bool run_step(clock *c) {
  const msc_schedule *s = c->s;
  for (int64_t i = 0; i < (int64_t)s->stages * s->chunks * s->micro_batches; i++) c->end[0][i] = c->end[1][i] = -1;
  for (int i = s->stages - 1; i >= 0; i--) {
    c->at[i] = 0;
    wake_waiting_stage(c, i);
  }
  while (c->num_waiting) {
    int stage = c->waiting[--c->num_waiting];
    c->is_waiting[stage] = false;
    run_until_wait(c, stage);
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
  MSC_TRY(run_step(&c));
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
  enum { STEPS = 4 }; /* after so many steps all steps are alike */
  clock c = new_clock(scratch, s, cost);
  int64_t end = 0, before = 0;
  for (int step = 0; step < STEPS; step++) {
    run_step(&c);
    before = end;
    for (int i = 0; i < s->stages; i++) {
      c.free_at[i] = end_of_stage(s, i) + update[i];
      if (c.free_at[i] > end) end = c.free_at[i];
    }
  }
  msc_schedule_time(scratch, s, cost);
  return end - before;
}
