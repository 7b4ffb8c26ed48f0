/* collective.c: runs one collective with other ranks, after releasing what it overwrites: peers may still read buffers
 * of earlier collectives. */
#include "runtime/execute/execute.h"
#include "runtime/trace/trace.h"

mscrt_status *mscrt_release(mscrt_context *c, const mscrt_execution *t, uint32_t upto, uint32_t *released) {
  for (; *released < upto; ++*released) {
    const mscrt_record *r = t->section->beside[*released];
    if (r->lingers)
      MSCRT_CHECK(
          c->transport->finish(c->comm, r->part[0].e, c->ticket[*released],
                               &(mscrt_site){t->record ? t->record->name : "the end of the step", NULL, t->step}));
  }
  return NULL;
}

mscrt_status *mscrt_run_collective(mscrt_context *c, mscrt_pool *pool, const mscrt_execution *t, uint32_t *released) {
  MSCRT_CHECK(mscrt_release(c, t, t->record->waits.release, released));
  int64_t begin = mscrt_timeline_now(c->timeline);
  for (uint32_t i = 0; i < t->record->num_parts; i++) c->received_bytes += t->record->part[i].e->received;
  uint64_t number = mscrt_flight_collective(c->flight, t->record, t->step);
  MSCRT_CHECK(c->device->collective(c, pool, t, &c->ticket[t->number - 1]));
  mscrt_flight_end(c->flight, number);
  mscrt_timeline_put(c->timeline, MSCRT_EVENT_COLLECTIVE, t, begin);
  return NULL;
}
