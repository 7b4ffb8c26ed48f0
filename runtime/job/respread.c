/* respread.c: the parts of a state that ranks kept under a plan in; the parts that they need under another plan out.
 * One rank after the other broadcasts the part of a parameter that it has and no rank before it had; each rank copies
 * the elements that it needs. Only for meetings: all of the state goes to every rank. */
#include <stdlib.h>
#include <string.h>

#include "runtime/job/job.h"
#include "runtime/memory/memory.h"

#define PIECE_BYTES ((uint64_t)4 << 20)

/* The states that ranks of this job kept under one plan. */
typedef struct {
  mscrt_context *c;
  const mscrt_plan *plan;
  int *rank;            /* of each rank: the rank that it was in that plan; -1: it kept no state of it */
  const uint8_t *state; /* of this rank; NULL: none */
  uint8_t *fresh;       /* the new state of this rank */
  uint64_t at, room;    /* offset and bytes of the pieces in the arena that others read */
} spreading;

/* ---- finding the parts ---- */

/* Agrees on the plan whose states are tried next, and on who kept one; k->plan NULL: all were tried. *tried: the number
 * of the plan before it, from where they count down. */
static mscrt_status *agree_on_holders(spreading *k, const mscrt_plan *plan, int rank, const uint8_t *state,
                                      uint64_t *tried) {
  mscrt_context *c = k->c;
  uint64_t own = state && plan == c->plan ? (uint64_t)c->o.num_family + 1 : 0, most;
  for (int i = 0; i < c->o.num_family; i++)
    if (state && c->o.family[i] == plan) own = (uint64_t)i + 1;
  MSCRT_CHECK(mscrt_max(c, own < *tried ? own : 0, &most));
  *tried = most;
  k->plan = !most ? NULL : most > (uint64_t)c->o.num_family ? c->plan : c->o.family[most - 1];
  k->state = most && own == most ? state : NULL;
  for (int r = 0; r < c->o.ranks && most; r++) {
    uint64_t said;
    MSCRT_CHECK(mscrt_max(c, k->state && r == c->o.rank ? (uint64_t)rank + 1 : 0, &said));
    k->rank[r] = (int)said - 1;
  }
  return NULL;
}

static bool is_equal_box(int rank, const msc_box *a, const msc_box *b) {
  size_t bytes = sizeof(int64_t) * (size_t)rank;
  return !memcmp(a->begin, b->begin, bytes) && !memcmp(a->size, b->size, bytes);
}

/* True if rank r of this job has a part of a parameter that no rank before it has; then sets the boxes of the part and
 * of its buffer. */
static bool holds_new_part(const spreading *k, const mscrt_variable *v, int r, msc_box *out_box, msc_box *out_buffer) {
  msc_box other, buffer;
  if (k->rank[r] < 0 || mscrt_stage_of(k->plan, k->rank[r]) != v->stage) return false;
  mscrt_variable_box(k->plan, v, k->rank[r], out_box, out_buffer);
  if (msc_box_elems(v->rank, out_box) == 0) return false;
  for (int i = 0; i < r; i++) {
    if (k->rank[i] < 0 || mscrt_stage_of(k->plan, k->rank[i]) != v->stage) continue;
    mscrt_variable_box(k->plan, v, k->rank[i], &other, &buffer);
    if (is_equal_box(v->rank, &other, out_box)) return false;
  }
  return true;
}

/* ---- moving ---- */

static mscrt_status *make_broadcast(const mscrt_context *c, int from, uint64_t bytes, mscrt_exchange *e) {
  mscrt_status *s = NULL;
  msc_box all = {.size = {(int64_t)bytes}};
  *e = (mscrt_exchange){.verb = MSC_BROADCAST,
                        .dtype = MSCRT_U8,
                        .rank = 1,
                        .to_box = all,
                        .own_box = all,
                        .num_terms = 1,
                        .elems = (int64_t)bytes,
                        .src_bytes = bytes,
                        .dst_bytes = bytes};
  MSCRT_GOTO(mscrt_new_array(&e->group.member, c->o.ranks));
  MSCRT_GOTO(mscrt_new_array(&e->give, c->o.ranks));
  MSCRT_GOTO(mscrt_new_array(&e->peers, 1));
  MSCRT_GOTO(mscrt_new_array(&e->cut, 1));
  e->group.num = c->o.ranks, e->group.index = c->o.rank;
  for (int r = 0; r < c->o.ranks; r++) {
    e->group.member[r] = r;
    if (from == c->o.rank && r != from) e->give[e->num_gives++] = (mscrt_give){r, all};
  }
  e->peers[0] = from;
  e->cut[e->num_cuts++] = (mscrt_cut){.box = all, .from_box = all, .peer = e->peers};
  return NULL;
fail:
  mscrt_exchange_free(e);
  return s;
}

/* Copies bytes of rank `from`, at `own` there, to every rank. */
static mscrt_status *broadcast_piece(const spreading *k, int from, const uint8_t *own, uint8_t *to, uint64_t bytes,
                                     const char *name) {
  mscrt_context *c = k->c;
  mscrt_exchange e;
  mscrt_ticket ticket;
  mscrt_site site = {.name = name, .step = c->step};
  MSCRT_CHECK(make_broadcast(c, from, bytes, &e));
  if (from == c->o.rank) memcpy(c->arena + k->at, own, (size_t)bytes);
  mscrt_part part = {.e = &e, .src = k->at, .dst = to};
  mscrt_status *s = c->transport->run(c->comm, c->pool, 1, &part, &site, &ticket);
  if (!s && c->transport->lingers(1, &part) != MSCRT_LINGERS_NOT) s = c->transport->finish(c->comm, &e, ticket, &site);
  mscrt_exchange_free(&e);
  return s;
}

/* Sets `part` to the buffer of variable v as rank `from` kept it. */
static mscrt_status *broadcast_part(const spreading *k, int from, const mscrt_variable *v, uint64_t bytes,
                                    uint8_t *part) {
  const uint8_t *own = k->c->o.rank == from ? k->state + mscrt_state_at(k->plan, v) : NULL;
  if (k->c->o.ranks == 1) {
    memcpy(part, own, (size_t)bytes);
    return NULL;
  }
  for (uint64_t n, at = 0; at < bytes; at += n) {
    n = bytes - at < k->room ? bytes - at : k->room; /* room is not 0 where there are parameters */
    MSCRT_CHECK(broadcast_piece(k, from, own ? own + at : NULL, part + at, n, v->name));
  }
  return NULL;
}

/* Copies the elements of a broadcast part that this rank needs of v; returns how many they are. */
static int64_t copy_own_elements(const spreading *k, const mscrt_variable *v, const msc_box *from,
                                 const msc_box *from_buffer, const uint8_t *part) {
  const mscrt_context *c = k->c;
  msc_box box, buffer, both;
  if (v->stage != c->stage) return 0;
  mscrt_variable_box(c->plan, v, c->o.rank, &box, &buffer);
  if (!msc_box_intersect(v->rank, from, &box, &both)) return 0;
  msc_box_copy(v->rank, &both, &buffer, k->fresh + mscrt_state_at(c->plan, v), from_buffer, part,
               mscrt_dtype_bytes(v->dtype));
  return msc_box_elems(v->rank, &both);
}

static mscrt_status *spread_parameter(const spreading *k, const mscrt_variable *v, bool *out_whole) {
  const mscrt_context *c = k->c;
  const mscrt_variable *old = mscrt_find_variable(k->plan->num_parameters, k->plan->parameter, v->name);
  int64_t wanted = 0, got = 0;
  msc_box box, buffer;
  uint8_t *part = NULL;
  *out_whole = false;
  if (!old || old->dtype != v->dtype || old->rank != v->rank) return NULL;
  uint64_t bytes = mscrt_variable_bytes(old);
  mscrt_status *s = mscrt_allocate((void **)&part, (size_t)bytes + 1, 1);
  if (v->stage == c->stage) {
    mscrt_variable_box(c->plan, v, c->o.rank, &box, &buffer);
    wanted = msc_box_elems(v->rank, &box);
  }
  for (int r = 0; r < c->o.ranks && !s; r++) {
    if (!holds_new_part(k, old, r, &box, &buffer)) continue;
    s = broadcast_part(k, r, old, bytes, part);
    if (!s) got += copy_own_elements(k, v, &box, &buffer, part);
  }
  free(part);
  *out_whole = got == wanted;
  return s;
}

/* Finds a range of the arena behind the mailboxes of every stage, which is not used yet and is the same on all
 * ranks. */
static void find_free_arena(spreading *k) {
  const mscrt_context *c = k->c;
  for (uint32_t i = 0; i < c->plan->num_stages; i++) {
    uint64_t at[MSCRT_NUM_SPACES];
    mscrt_set_space_offsets(c, i, at);
    if (at[PLAN_SPACE_PERSISTENT] > k->at) k->at = at[PLAN_SPACE_PERSISTENT];
  }
  k->room = c->arena_bytes - k->at < PIECE_BYTES ? c->arena_bytes - k->at : PIECE_BYTES;
}

/* Sets `fresh` from the states kept under k->plan; *out_whole: they have all parts that any rank needs. */
static mscrt_status *spread_from_plan(const spreading *k, bool *out_whole) {
  uint64_t lacks = 0;
  for (uint32_t i = 0; i < k->c->plan->num_parameters; i++) {
    bool whole;
    MSCRT_CHECK(spread_parameter(k, &k->c->plan->parameter[i], &whole));
    lacks |= !whole;
  }
  MSCRT_CHECK(mscrt_max(k->c, lacks, &lacks));
  *out_whole = !lacks;
  return NULL;
}

mscrt_status *mscrt_spread_state(mscrt_context *c, const mscrt_plan *plan, int rank, const uint8_t *state,
                                 bool *out_whole) {
  spreading k = {.c = c};
  uint64_t bytes = mscrt_state_bytes(c), tried = UINT64_MAX;
  mscrt_status *s = NULL;
  *out_whole = false;
  find_free_arena(&k);
  MSCRT_CHECK(mscrt_new_array(&k.rank, c->o.ranks));
  s = mscrt_allocate((void **)&k.fresh, (size_t)bytes + 1, 1);
  while (!s && tried && !*out_whole) {
    s = agree_on_holders(&k, plan, rank, state, &tried);
    if (!s && k.plan) s = spread_from_plan(&k, out_whole);
  }
  if (!s) memset(c->arena + k.at, 0, (size_t)k.room);
  if (!s && *out_whole) mscrt_set_state(c, k.fresh);
  free(k.fresh);
  free(k.rank);
  return s;
}
