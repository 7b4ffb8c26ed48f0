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

/* A variable that is being gathered. */
typedef struct {
  mscrt_context *c;
  const mscrt_variable *v;
  const void *own; /* this rank's part; NULL: another stage has the variable */
  size_t own_bytes;
  bool away;   /* parts live in host memory or on disk: they go through scratch */
  uint64_t at; /* offset of a part in the arena of a rank that holds one */
  void *saved; /* the arena's bytes at `at` before the part was copied there; NULL: the part lies there anyway */
} gathering;

/* Returns the offset in the arena at which ranks of the variable's stage read each other's parts. */
static uint64_t find_offset(const mscrt_context *c, const mscrt_variable *v) {
  uint64_t at[MSCRT_NUM_SPACES];
  mscrt_set_space_offsets(c, v->stage, at);
  if (mscrt_is_offloaded(v->ref.space)) return at[PLAN_SPACE_SCRATCH];
  uint64_t slot = v->ref.space == PLAN_SPACE_INPUT ? (uint64_t)c->last_slot * c->input_stride : 0;
  return at[v->ref.space] + v->ref.offset + slot;
}

/* True if this rank has the whole variable, as every other rank has. */
static bool is_whole(const gathering *g) {
  const mscrt_variable *v = g->v;
  return g->c->plan->num_stages == 1 && (!v->layout || v->layout->num == 0 || v->ref.space == PLAN_SPACE_CONSTANT);
}

/* Puts this rank's part where other ranks read it, unless it lies there; withdraw_part restores what was there. */
static mscrt_status *offer_part(gathering *g) {
  const mscrt_context *c = g->c;
  if (g->own && g->away) {
    MSCRT_CHECK(mscrt_allocate(&g->saved, g->own_bytes, 1));
    memcpy(g->saved, c->arena + g->at, g->own_bytes);
    memcpy(c->arena + g->at, g->own, g->own_bytes);
    mscrt_drop_disk_pages(c, g->v->ref);
  }
  /* of a part in the memory of another context, the place in this arena has no other value */
  if (g->own && mscrt_find_shared(c, g->v->ref)) memcpy(c->arena + g->at, g->own, g->own_bytes);
  return NULL;
}

static void withdraw_part(gathering *g) {
  if (g->saved) memcpy(g->c->arena + g->at, g->saved, g->own_bytes);
  free(g->saved);
}

/* Makes the exchange in which every rank of the job gets the whole variable from the ranks of one stage. */
static mscrt_status *make_gather_exchange(const gathering *g, bool wants, mscrt_exchange *out_e) {
  static const uint8_t uncut[MSCRT_MAX_RANK + 1];
  const mscrt_variable *v = g->v;
  int per_stage = g->c->plan->ranks / (int)g->c->plan->num_stages;
  msc_box_layout to = {v->rank, 0, uncut, NULL, NULL};
  mscrt_collective k = {.verb = MSC_ALL_GATHER,
                        .dtype = v->dtype,
                        .rank = v->rank,
                        .from = v->layout,
                        .to = &to,
                        .first_holder = (int)v->stage * per_stage,
                        .num_holders = per_stage};
  memcpy(k.shape, v->shape, sizeof k.shape);
  MSCRT_CHECK(mscrt_exchange_make(&g->c->plan->mesh, g->c->o.rank, &k, NULL, g->c->transport->sends, out_e));
  out_e->asks = true;
  if (!wants) out_e->num_cuts = 0;
  return NULL;
}

static mscrt_status *run_gather(const gathering *g, mscrt_exchange *e, void *out) {
  mscrt_context *c = g->c;
  mscrt_site site = {.name = g->v->name, .step = c->step};
  mscrt_ticket ticket;
  mscrt_part part = {.e = e, .src = g->at, .dst = out};
  uint64_t number = mscrt_flight_all(c->flight, true, g->v->name, e->dst_bytes, c->step);
  mscrt_status *s = c->transport->run(c->comm, c->pool, 1, &part, &site, &ticket);
  if (!s && c->transport->lingers(1, &part) != MSCRT_LINGERS_NOT) s = c->transport->finish(c->comm, e, ticket, &site);
  if (!s) mscrt_flight_end(c->flight, number);
  if (s) c->broken = true;
  return s;
}

/* True if the device has a place of its own for the variable, beside that on the host. */
static bool has_device_copy(const mscrt_variable *v) {
  return v->ref.space != PLAN_SPACE_CONSTANT && !mscrt_is_offloaded(v->ref.space);
}

mscrt_status *mscrt_fetch_variable(mscrt_context *c, const mscrt_variable *v, const void *at) {
  return has_device_copy(v) ? mscrt_fetch(c, (uint64_t)((const uint8_t *)at - c->arena), mscrt_variable_bytes(v))
                            : NULL;
}

mscrt_status *mscrt_store_variable(mscrt_context *c, const mscrt_variable *v, const void *at) {
  plan_ref changed = v->ref;
  changed.bytes = mscrt_variable_bytes(v);
  mscrt_note_change(c, changed);
  return has_device_copy(v) ? mscrt_store(c, (uint64_t)((const uint8_t *)at - c->arena), mscrt_variable_bytes(v))
                            : NULL;
}

mscrt_status *mscrt_gather(mscrt_context *c, const mscrt_variable *v, void *out) {
  const void *callers = mscrt_output_in_caller_memory(c, v); /* of the only rank */
  if (callers) {
    if (out && out != callers) memcpy(out, callers, (size_t)mscrt_whole_bytes(v));
    return NULL;
  }
  MSCRT_CHECK(mscrt_write_rows_back(c));
  gathering g = {.c = c,
                 .v = v,
                 .own = v->stage == c->stage ? mscrt_address_of(c, v->ref, c->last_slot) : NULL,
                 .own_bytes = (size_t)mscrt_variable_bytes(v),
                 .away = mscrt_is_offloaded(v->ref.space),
                 .at = find_offset(c, v)};
  if (g.own) MSCRT_CHECK(mscrt_fetch_variable(c, v, g.own));
  if (is_whole(&g)) {
    if (out) memcpy(out, g.own, (size_t)mscrt_whole_bytes(v));
    mscrt_drop_disk_pages(c, v->ref);
    return NULL;
  }
  if (g.away && g.own_bytes > c->plan->stage[v->stage].bytes[PLAN_SPACE_SCRATCH])
    return mscrt_fail(
        MSCRT_UNSUPPORTED,
        "'%s' does not live on the device, and its parts are larger than what ranks share; a checkpoint has "
        "it",
        v->name);
  mscrt_exchange e;
  MSCRT_CHECK(make_gather_exchange(&g, out != NULL, &e));
  mscrt_status *s = offer_part(&g);
  if (!s) s = run_gather(&g, &e, out);
  mscrt_exchange_free(&e);
  withdraw_part(&g);
  return s;
}

mscrt_status *mscrt_copy_outputs(mscrt_context *c, uint32_t program) {
  for (uint32_t i = 0; c->output && i < c->plan->num_outputs; i++)
    if (c->plan->output[i].program == program && c->output[i].data && !c->output[i].direct)
      MSCRT_CHECK(mscrt_gather(c, &c->plan->output[i], c->output[i].data));
  return NULL;
}
