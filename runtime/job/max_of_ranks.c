/* max_of_ranks.c: a number of every rank in; the largest of them, on all ranks, out. */
#include "runtime/trace/trace.h"

mscrt_status *mscrt_max(mscrt_context *c, uint64_t value, uint64_t *out_max) {
  MSCRT_NEEDS(c && out_max);
  MSCRT_CHECK(mscrt_check_not_broken(c));
  uint64_t number = mscrt_flight_all(c->flight, false, "max", sizeof value, c->step);
  mscrt_status *s = c->transport->max(c->comm, value, out_max, &(mscrt_site){.name = "max", .step = c->step});
  if (s) c->broken = true;
  else mscrt_flight_end(c->flight, number);
  return s;
}
