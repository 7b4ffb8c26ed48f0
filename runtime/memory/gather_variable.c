/* gather_variable.c: a variable that ranks hold in parts in; the whole variable in memory of the caller out. A part
 * that lives in host memory or on disk is copied to scratch meanwhile. */
#include <stdlib.h>
#include <string.h>

#include "runtime/execute/execute.h"
#include "runtime/memory/memory.h"
#include "runtime/trace/trace.h"

uint64_t mscrt_set_space_offsets(const mscrt_context *c, uint32_t stage, uint64_t *out_at) {
  const mscrt_stage *s = &c->plan->stage[stage];
  uint64_t at[MSC_NUM_POOLS], bytes[MSC_NUM_POOLS] = {[MSC_POOL_MAILBOXES] = c->mailboxes[stage],
                                                      [MSC_POOL_PERSISTENT] = s->bytes[PLAN_SPACE_PERSISTENT],
                                                      [MSC_POOL_INPUTS] = c->input_slots * c->input_stride,
                                                      [MSC_POOL_SCRATCH] = s->bytes[PLAN_SPACE_SCRATCH]};
  for (int k = 0; k < MSCRT_NUM_CARRIED; k++)
    bytes[MSC_POOL_CARRIED + k] = msc_pool_slots_bytes(s->bytes[PLAN_SPACE_CARRIED_FB + k], s->slots[k]);
  uint64_t all = msc_pools_lay_out(bytes, at);
  out_at[PLAN_SPACE_PERSISTENT] = at[MSC_POOL_PERSISTENT];
  out_at[PLAN_SPACE_INPUT] = at[MSC_POOL_INPUTS];
  for (int k = 0; k < MSCRT_NUM_CARRIED; k++) out_at[PLAN_SPACE_CARRIED_FB + k] = at[MSC_POOL_CARRIED + k];
  out_at[PLAN_SPACE_SCRATCH] = at[MSC_POOL_SCRATCH];
  return all;
}

/* Saves `bytes` at offset `there` of the arena in *out_saved, then copies `own` there. */
static mscrt_status *put_in_arena(const mscrt_context *c, const void *own, uint64_t there, size_t bytes,
                                  void **out_saved) {
  MSCRT_CHECK(mscrt_allocate(out_saved, bytes, 1));
  memcpy(*out_saved, c->arena + there, bytes);
  memcpy(c->arena + there, own, bytes);
  return NULL;
}

mscrt_status *mscrt_gather(mscrt_context *c, const mscrt_variable *v, void *out) {
  static const uint8_t uncut[MSCRT_MAX_RANK + 1];
  if (mscrt_output_in_caller_memory(c, v)) { /* of the only rank */
    if (out && out != mscrt_output_in_caller_memory(c, v))
      memcpy(out, mscrt_output_in_caller_memory(c, v), (size_t)mscrt_whole_bytes(v));
    return NULL;
  }
  MSCRT_CHECK(mscrt_write_rows_back(c));
  const void *own = v->stage == c->stage ? mscrt_address_of(c, v->ref, c->last_slot) : NULL;
  uint64_t at[MSCRT_NUM_SPACES];
  mscrt_set_space_offsets(c, v->stage, at);
  bool away = mscrt_is_offloaded(v->ref.space);
  uint64_t there = away ? at[PLAN_SPACE_SCRATCH]
                        : at[v->ref.space] + v->ref.offset +
                              (v->ref.space == PLAN_SPACE_INPUT ? (uint64_t)c->last_slot * c->input_stride : 0);
  void *saved = NULL;
  bool one_stage = c->plan->num_stages == 1;
  if (own && !away && v->ref.space != PLAN_SPACE_CONSTANT)
    MSCRT_CHECK(mscrt_fetch(c, there, mscrt_variable_bytes(v)));
  if (one_stage && (!v->layout || v->layout->num == 0 || v->ref.space == PLAN_SPACE_CONSTANT)) {
    if (out) memcpy(out, own, (size_t)mscrt_whole_bytes(v));
    mscrt_drop_disk_pages(c, v->ref);
    return NULL;
  }
  uint64_t scratch = c->plan->stage[v->stage].bytes[PLAN_SPACE_SCRATCH];
  if (away && mscrt_variable_bytes(v) > scratch)
    return mscrt_fail(MSCRT_UNSUPPORTED,
                      "'%s' is a table with a cache, its parts are larger than what ranks share; a checkpoint has it",
                      v->name);
  msc_box_layout to = {v->rank, 0, uncut, NULL, NULL};
  int per_stage = c->plan->ranks / (int)c->plan->num_stages; /* a rank of the stage that holds it gives it */
  mscrt_collective k = {.verb = MSC_ALL_GATHER,
                        .dtype = v->dtype,
                        .rank = v->rank,
                        .from = v->layout,
                        .to = &to,
                        .first_holder = (int)v->stage * per_stage,
                        .num_holders = per_stage};
  mscrt_exchange e;
  memcpy(k.shape, v->shape, sizeof k.shape);
  MSCRT_CHECK(mscrt_exchange_make(&c->plan->mesh, c->o.rank, &k, NULL, c->transport->sends, &e));
  e.asks = true;
  if (!out) e.num_cuts = 0;
  if (away && own) {
    mscrt_status *no_room = put_in_arena(c, own, there, (size_t)mscrt_variable_bytes(v), &saved);
    if (no_room) return mscrt_exchange_free(&e), no_room;
    mscrt_drop_disk_pages(c, v->ref);
  }
  /* other ranks read it in the arena, where nothing else lies at its offset */
  if (own && mscrt_find_shared(c, v->ref)) memcpy(c->arena + there, own, (size_t)mscrt_variable_bytes(v));
  mscrt_site site = {.name = v->name, .step = c->step};
  mscrt_ticket ticket;
  mscrt_part part = {.e = &e, .src = there, .dst = out};
  uint64_t number = mscrt_flight_all(c->flight, true, v->name, e.dst_bytes, c->step);
  mscrt_status *s = c->transport->run(c->comm, c->pool, 1, &part, &site, &ticket);
  if (!s && c->transport->lingers(1, &part) != MSCRT_LINGERS_NOT) s = c->transport->finish(c->comm, &e, ticket, &site);
  mscrt_exchange_free(&e);
  if (saved) memcpy(c->arena + there, saved, (size_t)mscrt_variable_bytes(v));
  free(saved);
  if (!s) mscrt_flight_end(c->flight, number);
  if (s) c->broken = true;
  return s;
}

mscrt_status *mscrt_copy_outputs(mscrt_context *c, uint32_t program) {
  for (uint32_t i = 0; c->output && i < c->plan->num_outputs; i++)
    if (c->plan->output[i].program == program && c->output[i].data && !c->output[i].direct)
      MSCRT_CHECK(mscrt_gather(c, &c->plan->output[i], c->output[i].data));
  return NULL;
}
