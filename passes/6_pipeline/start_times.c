/* start_times.c: lists and costs in; when every entry starts and ends out, if each starts as soon as its stage is free and its
 * data is there.  A hop delays the receiver and occupies nobody. */
#include "passes/6_pipeline/schedule.h"

typedef struct {
  const msc_schedule *s;
  const msc_section_cost *cost;
  int64_t *end[2];  /* of forward and backward of every virtual stage and micro-batch; -1: not yet */
  int *at;          /* next entry of every stage */
  int *waiting;     /* stack of stages that may go on */
  bool *is_waiting;
  int num_waiting;
} clock;

static int64_t *end_of(clock *c, msc_work work, int k, int j) { return &c->end[work][(int64_t)k * c->s->micro_batches + j]; }

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
    int64_t ready = data_at(c, e, k), idle_from = c->at[stage] ? e[-1].end : 0;
    if (ready < 0) return;
    e->start = ready > idle_from ? ready : idle_from;
    e->end = e->start + length_of(c, e->work, k);
    if (e->work == MSC_WEIGHT) continue;
    *end_of(c, e->work, k, e->micro_batch) = e->end;
    if (to >= 0 && to <= last && c->s->place[to] != stage) wake(c, c->s->place[to]);
  }
}

bool msc_schedule_time(msc_arena *scratch, msc_schedule *s, const msc_section_cost *cost) {
  int64_t num = (int64_t)s->stages * s->chunks * s->micro_batches, first = INT64_MAX, last = 0;
  clock c = {.s = s, .cost = cost};
  for (int w = 0; w < 2; w++) {
    c.end[w] = msc_new_array(scratch, int64_t, num);
    for (int64_t i = 0; i < num; i++) c.end[w][i] = -1;
  }
  c.at = msc_new_array(scratch, int, s->stages);
  c.waiting = msc_new_array(scratch, int, s->stages);
  c.is_waiting = msc_new_array(scratch, bool, s->stages);
  for (int i = s->stages - 1; i >= 0; i--) wake(&c, i);
  while (c.num_waiting) {
    int stage = c.waiting[--c.num_waiting];
    c.is_waiting[stage] = false;
    go_on(&c, stage);
  }
  s->makespan = 0;
  for (int i = 0; i < s->stages; i++) {
    const msc_stage_list *l = &s->stage[i];
    if (c.at[i] < l->num_entries) return false;
    int64_t begin = l->entry[0].start, end = l->entry[l->num_entries - 1].end;
    if (end - begin > s->makespan) s->makespan = end - begin;
    if (begin < first) first = begin;
    if (end > last) last = end;
  }
  s->wall = last - first;
  return true;
}
