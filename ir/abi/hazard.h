/* hazard.h: calls in program order, some of them collectives that run beside the others, in; what each call must wait
 * for, out.  Compiler and runtime share it: the first predicts with it what the second does.
 *
 * Collectives are numbered from 1 and run one after the other on a stream of their own, each no earlier than all calls
 * before it have run.  So what a call waits for is one number: this collective and all before it must have run.  A call
 * waits for two reasons:
 *
 *   run      it reads what the collective writes, or writes what the collective reads or writes
 *   release  it overwrites what other ranks may still be reading although the collective has run here: a span that
 *            lingers
 *
 * Collectives need not wait for each other's runs, since they keep their order; they wait for releases only. */
#ifndef MSC_HAZARD_H
#define MSC_HAZARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes [begin, end), at least one, of a space that a call reads or writes. */
typedef struct {
  uint64_t begin, end;
  uint32_t space;
  bool written, lingers;
} msc_span;

typedef struct {
  msc_span span;
  uint32_t number; /* of the collective */
} msc_pending;

/* The spans that collectives under way use. The caller provides `pending`, with room for the spans of all
 * collectives. */
typedef struct {
  msc_pending *pending;
  size_t num_pending;
  uint32_t started, ran, released;
} msc_hazards;

/* The numbers of the collectives that a call must wait for; 0: none. */
typedef struct {
  uint32_t run, release;
} msc_waits;

static inline bool msc_spans_meet(const msc_span *a, const msc_span *b) {
  return a->space == b->space && a->begin < b->end && b->begin < a->end;
}

static inline void msc_hazard_of(const msc_hazards *h, const msc_span *s, msc_waits *w) {
  for (size_t i = 0; i < h->num_pending; i++) {
    const msc_pending *p = &h->pending[i];
    if (!(s->written || p->span.written) || !msc_spans_meet(&p->span, s)) continue;
    if (p->number > h->ran && p->number > w->run) w->run = p->number;
    if (s->written && p->span.lingers && p->number > w->release) w->release = p->number;
  }
}

/* Drops collectives that no later call has to wait for. */
static inline void msc_hazards_settle(msc_hazards *h, msc_waits w) {
  size_t kept = 0;
  if (w.run > h->ran) h->ran = w.run;
  if (w.release > h->ran) h->ran = w.release;
  if (w.release > h->released) h->released = w.release;
  for (size_t i = 0; i < h->num_pending; i++) {
    const msc_pending *p = &h->pending[i];
    if (p->number > h->ran || (p->span.lingers && p->number > h->released)) h->pending[kept++] = *p;
  }
  h->num_pending = kept;
}

/* Takes the next call in program order; returns what it must wait for. */
static inline msc_waits msc_hazards_next(msc_hazards *h, size_t num_spans, const msc_span *span, bool collective) {
  msc_waits w = {0, 0};
  for (size_t i = 0; i < num_spans && h->num_pending; i++) msc_hazard_of(h, &span[i], &w);
  if (!collective) {
    if (w.run || w.release) msc_hazards_settle(h, w);
    return w;
  }
  w.run = 0;
  h->started++;
  for (size_t i = 0; i < num_spans; i++) h->pending[h->num_pending++] = (msc_pending){span[i], h->started};
  return w;
}

#endif
