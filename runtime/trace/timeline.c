/* timeline.c: begins and ends of calls in; the newest events, and sums over all events, out. Nothing is allocated while
 * a step runs. */
#include <stdlib.h>

#include "runtime/trace/trace.h"
#include "runtime/wait.h"

enum { CALLER, STREAM, MOVER, NUM_THREADS };

typedef struct {
  mscrt_event *event;            /* a ring */
  uint64_t num;                  /* events recorded so far */
} lane;

struct mscrt_timeline {
  uint32_t room;                 /* size of each lane */
  lane lane[NUM_THREADS];
  int64_t total_ns[MSCRT_NUM_EVENT_KINDS];
};

mscrt_status *mscrt_timeline_new(uint32_t room, mscrt_timeline **out_timeline) {
  mscrt_timeline *t = NULL;
  mscrt_status *s = mscrt_new_array(&t, 1);
  *out_timeline = NULL;
  if (s) return s;
  t->room = room;
  for (int i = 0; i < NUM_THREADS && !s; i++) s = mscrt_new_array(&t->lane[i].event, room);
  if (s) mscrt_timeline_free(t);
  else *out_timeline = t;
  return s;
}

void mscrt_timeline_free(mscrt_timeline *t) {
  for (int i = 0; t && i < NUM_THREADS; i++) free(t->lane[i].event);
  free(t);
}

int64_t mscrt_timeline_now(const mscrt_timeline *t) { return t ? mscrt_now_ns() : 0; }

void mscrt_timeline_put(mscrt_timeline *t, mscrt_event_kind kind, const mscrt_execution *x, int64_t begin_ns) {
  if (t) mscrt_timeline_put_past(t, kind, x, begin_ns, mscrt_now_ns());
}

void mscrt_timeline_put_past(mscrt_timeline *t, mscrt_event_kind kind, const mscrt_execution *x, int64_t begin_ns,
                             int64_t end_ns) {
  t->total_ns[kind] += end_ns - begin_ns;
  if (!t->room) return;
  lane *l = &t->lane[kind == MSCRT_EVENT_COLLECTIVE ? STREAM : kind == MSCRT_EVENT_TRANSFER ? MOVER : CALLER];
  const mscrt_record *r = x->record;
  l->event[l->num++ % t->room] = (mscrt_event){.kind = kind,
                                               .name = r && r->name ? r->name : x->section->name,
                                               .loc = r ? r->loc : NULL,
                                               .section = x->section->name,
                                               .call = r ? (uint32_t)(r - x->section->call) : UINT32_MAX,
                                               .step = x->step,
                                               .begin_ns = begin_ns,
                                               .end_ns = end_ns};
}

static size_t num_kept(const mscrt_timeline *t, const lane *l) { return l->num < t->room ? (size_t)l->num : t->room; }

size_t mscrt_num_events(const mscrt_context *c) {
  size_t num = 0;
  for (int i = 0; c->timeline && i < NUM_THREADS; i++) num += num_kept(c->timeline, &c->timeline->lane[i]);
  return num;
}

mscrt_event mscrt_event_at(const mscrt_context *c, size_t i) {
  const mscrt_timeline *t = c->timeline;
  const lane *l = &t->lane[CALLER];
  for (; i >= num_kept(t, l); l++) i -= num_kept(t, l);
  return l->event[(l->num - num_kept(t, l) + i) % t->room];
}

int64_t mscrt_event_ns(const mscrt_context *c, mscrt_event_kind kind) {
  return c->timeline ? c->timeline->total_ns[kind] : 0;
}
