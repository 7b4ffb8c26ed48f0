/* call_record.c: the record of a call in; the addresses of its buffers, or what its kernel found wrong, out. */
#include "runtime/execute/execute.h"

void *mscrt_buffer_in_slots(const mscrt_record *r, uint32_t buffer, const mscrt_slots *slots) {
  void *at = r->buffers[buffer];
  return r->space && at ? (char *)at + slots->shift[r->space[buffer]] : at;
}

void *const *mscrt_buffers_of(mscrt_context *c, const mscrt_record *r, const mscrt_slots *slots, int room) {
  if (!r->space) return r->buffers;
  for (uint32_t i = 0; i < r->num_buffers; i++) c->shifted_buffers[room][i] = mscrt_buffer_in_slots(r, i, slots);
  return c->shifted_buffers[room];
}

/* The values of `flag` are defined in passes/7_lower/nest/nest.h. */
mscrt_status *mscrt_kernel_error_status(const mscrt_context *c, const mscrt_record *r, int64_t step, int32_t flag) {
  if (flag == 0) return NULL;
  return mscrt_fail(MSCRT_INPUT, "rank %d: step %" PRId64 ": %s%s%s: %s", c->o.rank, mscrt_step_number(step),
                    r->name ? r->name : "a call", r->loc ? " at " : "", r->loc ? r->loc : "",
                    flag == 2 ? "an integer is divided by zero" : "an index is out of range");
}
