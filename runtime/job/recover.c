/* recover.c: a job that has lost ranks in; the same job at the same step out. Every rank keeps a copy of its state
 * before the running step, at the "border". A step is done when all ranks have met at its end, so no two ranks are more
 * than one step apart, and all ranks that are left have the state of the newest border. They meet again, with new
 * processes in the places of lost ones, which get their state from ranks that hold the same parts; or as another number
 * of ranks (see respread.c). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/job/job.h"
#include "runtime/memory/memory.h"
#include "runtime/server/share.h"

#define CUT_BYTES (1 << 20)

/* ---- keeping ---- */

static mscrt_status *make_kept(const mscrt_context *c, mscrt_kept **out_kept) {
  mscrt_kept *k = NULL;
  *out_kept = NULL;
  MSCRT_CHECK(mscrt_new_array(&k, 1));
  *k = (mscrt_kept){.plan = c->plan,
                    .rank = c->o.rank,
                    .bytes = mscrt_state_bytes(c),
                    .border_step = -1,
                    .met_step = -1,
                    .border_loss = (double)NAN,
                    .live_loss = (double)NAN};
  mscrt_status *s = mscrt_allocate((void **)&k->border, (size_t)k->bytes + 1, 1);
  if (s) mscrt_kept_free(k);
  else *out_kept = k;
  return s;
}

void mscrt_kept_free(mscrt_kept *k) {
  if (!k) return;
  free(k->border);
  free(k->served);
  free(k->live);
  free(k);
}

void mscrt_forget_kept(mscrt_context *c) {
  if (c->kept) c->kept->border_step = -1, c->kept->is_live = false;
}

typedef struct {
  uint8_t *to;
  const uint8_t *from;
  uint64_t bytes;
} copying;

static void copy_unit(void *arg, int64_t unit, int worker) {
  const copying *k = arg;
  uint64_t at = (uint64_t)unit * CUT_BYTES, num = k->bytes - at < CUT_BYTES ? k->bytes - at : CUT_BYTES;
  (void)worker;
  memcpy(k->to + at, k->from + at, (size_t)num);
}

static void copy_bytes(const mscrt_context *c, uint8_t *to, const uint8_t *from, uint64_t bytes) {
  mscrt_pool_run(c->pool, copy_unit, &(copying){to, from, bytes}, (int64_t)((bytes + CUT_BYTES - 1) / CUT_BYTES));
}

static uint64_t bytes_on_device(const mscrt_plan *plan, uint32_t stage) {
  return plan->stage[stage].bytes[PLAN_SPACE_PERSISTENT];
}

uint64_t mscrt_state_bytes(const mscrt_context *c) {
  return bytes_on_device(c->plan, c->stage) + c->plan->stage[c->stage].bytes[PLAN_SPACE_HOST];
}

uint64_t mscrt_state_at(const mscrt_plan *plan, const mscrt_variable *v) {
  return v->ref.offset + (v->ref.space == PLAN_SPACE_HOST ? bytes_on_device(plan, v->stage) : 0);
}

static void copy_state(const mscrt_context *c, uint8_t *to) {
  uint64_t device = bytes_on_device(c->plan, c->stage), host;
  const uint8_t *in_host = mscrt_offload_host(c, &host);
  copy_bytes(c, to, c->arena + c->space_offset[PLAN_SPACE_PERSISTENT], device);
  if (host) copy_bytes(c, to + device, in_host, host);
}

void mscrt_set_state(mscrt_context *c, const uint8_t *state) {
  uint64_t device = bytes_on_device(c->plan, c->stage), host;
  uint8_t *in_host = mscrt_offload_host(c, &host);
  copy_bytes(c, c->arena + c->space_offset[PLAN_SPACE_PERSISTENT], state, device);
  if (host) copy_bytes(c, in_host, state + device, host);
}

void mscrt_keep_state(mscrt_context *c) {
  mscrt_kept *k = c->kept;
  if (!k) return;
  copy_state(c, k->border);
  k->border_loss = k->is_live ? k->live_loss : (double)NAN;
  k->border_step = c->step, k->border_pushes = mscrt_num_pushes(c);
  k->is_live = false;
}

mscrt_status *mscrt_commit_step(mscrt_context *c, double loss) {
  uint64_t all;
  mscrt_kept *k = c->kept;
  if (!k) return NULL;
  k->is_live = true, k->live_step = c->step + 1, k->live_loss = loss;
  k->live_pushes = mscrt_num_pushes(c);
  return mscrt_max(c, 0, &all);
}

/* ---- finding the ranks that have a state ---- */

/* True if rank a holds the same part of a parameter as rank b, or b holds nothing of it. */
static bool is_same_box(const mscrt_plan *p, const mscrt_variable *v, int a, int b) {
  msc_box box[2], buffer[2];
  mscrt_variable_box(p, v, a, &box[0], &buffer[0]);
  mscrt_variable_box(p, v, b, &box[1], &buffer[1]);
  size_t bytes = sizeof(int64_t) * (size_t)v->rank;
  if (msc_box_elems(v->rank, &box[1]) == 0) return true;
  return !memcmp(box[0].begin, box[1].begin, bytes) && !memcmp(box[0].size, box[1].size, bytes);
}

/* The first rank of the stage of a parameter, lost ones left out, that holds the part of `rank`; -1: there is none. */
static int find_holder(const mscrt_plan *p, const mscrt_variable *v, int rank, const bool *lost) {
  int per_stage = p->ranks / (int)p->num_stages, first = (int)v->stage * per_stage;
  for (int r = first; r < first + per_stage; r++)
    if (!lost[r] && is_same_box(p, v, r, rank)) return r;
  return -1;
}

bool mscrt_plan_restores(const mscrt_plan *plan, int rank, const bool *lost, size_t *out_parameter) {
  for (uint32_t i = 0; i < plan->num_parameters; i++) {
    const mscrt_variable *v = &plan->parameter[i];
    if (v->stage != mscrt_stage_of(plan, rank) || find_holder(plan, v, rank, lost) >= 0) continue;
    if (out_parameter) *out_parameter = i;
    return false;
  }
  return true;
}

/* ---- moving states ---- */

/* Makes this rank's part in the exchange of a parameter: a lost rank gets all of its bytes from its holder. */
static mscrt_status *make_parameter_exchange(const mscrt_context *c, const mscrt_variable *v, const bool *lost,
                                             mscrt_exchange *e) {
  int64_t bytes = (int64_t)mscrt_variable_bytes(v), cuts = (bytes + CUT_BYTES - 1) / CUT_BYTES;
  mscrt_status *s = NULL;
  msc_box all = {.size = {bytes}};
  *e = (mscrt_exchange){.verb = MSC_PAIRS,
                        .dtype = MSCRT_U8,
                        .rank = 1,
                        .to_box = all,
                        .own_box = all,
                        .num_terms = 1,
                        .elems = bytes,
                        .src_bytes = (uint64_t)bytes,
                        .dst_bytes = (uint64_t)bytes,
                        .asks = true};
  MSCRT_GOTO(mscrt_new_array(&e->group.member, c->o.ranks));
  MSCRT_GOTO(mscrt_new_array(&e->give, c->o.ranks));
  MSCRT_GOTO(mscrt_new_array(&e->peers, 1));
  MSCRT_GOTO(mscrt_new_array(&e->cut, cuts));
  e->group.num = c->o.ranks, e->group.index = c->o.rank;
  for (int r = 0; r < c->o.ranks; r++) e->group.member[r] = r;
  for (int r = 0; r < c->o.ranks; r++) {
    if (!lost[r] || mscrt_stage_of(c->plan, r) != v->stage) continue;
    int holder = find_holder(c->plan, v, r, lost);
    if (holder == c->o.rank) e->give[e->num_gives++] = (mscrt_give){r, all};
    if (r != c->o.rank) continue;
    e->peers[0] = holder;
    for (; e->num_cuts < cuts; e->num_cuts++) {
      int64_t at = e->num_cuts * CUT_BYTES;
      msc_box piece = {.begin = {at}, .size = {bytes - at < CUT_BYTES ? bytes - at : CUT_BYTES}};
      e->cut[e->num_cuts] = (mscrt_cut){.box = piece, .from_box = all, .peer = e->peers};
    }
  }
  return NULL;
fail:
  mscrt_exchange_free(e);
  return s;
}

static bool is_held_by_lost(const mscrt_context *c, const mscrt_variable *v, const bool *lost) {
  for (int r = 0; r < c->o.ranks; r++)
    if (lost[r] && mscrt_stage_of(c->plan, r) == v->stage) return mscrt_variable_bytes(v) > 0;
  return false;
}

static mscrt_status *move_parameter(mscrt_context *c, const mscrt_variable *v, const bool *lost) {
  uint64_t at[MSCRT_NUM_SPACES], bytes = mscrt_variable_bytes(v);
  mscrt_exchange e;
  mscrt_ticket ticket;
  void *room = NULL;
  mscrt_site site = {.name = v->name, .step = c->step};
  if (!is_held_by_lost(c, v, lost)) return NULL;
  mscrt_set_space_offsets(c, v->stage, at);
  MSCRT_CHECK(make_parameter_exchange(c, v, lost, &e));
  mscrt_status *s = mscrt_allocate(&room, (size_t)bytes, 1);
  mscrt_part part = {.e = &e, .src = at[v->ref.space] + v->ref.offset, .dst = room};
  if (!s) s = c->transport->run(c->comm, c->pool, 1, &part, &site, &ticket);
  if (!s && c->transport->lingers(1, &part) != MSCRT_LINGERS_NOT) s = c->transport->finish(c->comm, &e, ticket, &site);
  if (!s && e.num_cuts) memcpy(c->arena + part.src, room, (size_t)bytes);
  free(room);
  mscrt_exchange_free(&e);
  return s;
}

/* ---- agreeing on a state ---- */

static int64_t newest_step(const mscrt_kept *k) { return !k ? -1 : k->is_live ? k->live_step : k->border_step; }

static bool has_state_of(const mscrt_kept *k, int64_t step) {
  return k->border_step == step || (k->is_live && k->live_step == step);
}

/* Agrees on which of the states that ranks kept belong together: those of the newest meeting, and those that ranks had
 * when they went to it and did not reach its end. A rank that was left out of meetings, or noticed a loss late, may
 * bring an older one: that is stale. */
static mscrt_status *find_stale(mscrt_context *c, const mscrt_kept *old, bool *out_stale) {
  int64_t newest = newest_step(old);
  uint64_t last, met, most;
  MSCRT_CHECK(mscrt_max(c, newest < 0 ? 0 : old->epoch + 1, &last));
  bool is_last = newest >= 0 && old->epoch + 1 == last;
  MSCRT_CHECK(mscrt_max(c, is_last ? (uint64_t)(old->met_step + 1) : 0, &met));
  MSCRT_CHECK(mscrt_max(c, is_last ? (uint64_t)(newest + 1) : 0, &most));
  /* a step is done on all ranks or on none: behind the second one, nobody is left who did not reach the end */
  *out_stale = newest >= 0 && !is_last && (!met || most > met + 1 || !has_state_of(old, (int64_t)met - 1));
  return NULL;
}

static mscrt_status *find_lost(mscrt_context *c, bool is_lost, bool *lost) {
  for (uint64_t below = (uint64_t)c->o.ranks + 1, own = (uint64_t)c->o.rank + 1;;) {
    uint64_t next;
    MSCRT_CHECK(mscrt_max(c, is_lost && own < below ? own : 0, &next));
    if (!next) return NULL;
    lost[next - 1] = true;
    below = next;
  }
}

/* Agrees on the loss of the last step that is done: the largest of the bits, plus 1, that ranks pass which know it;
 * ranks that do not know it pass 0. */
static mscrt_status *agree_on_loss(mscrt_context *c, double own, double *out_loss) {
  uint64_t bits = 0;
  if (isfinite(own)) memcpy(&bits, &own, sizeof bits), bits++;
  MSCRT_CHECK(mscrt_max(c, bits, &bits));
  *out_loss = (double)NAN;
  if (bits) bits--, memcpy(out_loss, &bits, sizeof bits);
  return NULL;
}

/* True if a rank has state in host memory, where other ranks cannot read it. */
static bool has_state_in_host(const mscrt_plan *plan) {
  for (uint32_t i = 0; i < plan->num_stages; i++)
    if (plan->stage[i].bytes[PLAN_SPACE_HOST]) return true;
  return false;
}

/* Copies their state to the lost ranks, where all ranks have the same plan as before. *out_whole: some rank had each
 * part; else nothing is set. */
static mscrt_status *replace_lost(mscrt_context *c, const uint8_t *state, const bool *lost, bool *out_whole) {
  *out_whole = true;
  for (int r = 0; r < c->o.ranks && *out_whole; r++)
    *out_whole = !lost[r] || mscrt_plan_restores(c->plan, r, lost, NULL);
  if (!*out_whole) return NULL;
  if (state) mscrt_set_state(c, state);
  for (uint32_t i = 0; i < c->plan->num_parameters; i++) MSCRT_CHECK(move_parameter(c, &c->plan->parameter[i], lost));
  return NULL;
}

static mscrt_status *restore_state_of_step(mscrt_context *c, const mscrt_kept *old, int64_t step, bool *lost) {
  bool whole, has = old && newest_step(old) >= 0, live = has && old->is_live && old->live_step == step;
  double loss = !has ? (double)NAN : live ? old->live_loss : old->border_loss;
  uint64_t pushes = !has ? 0 : live ? old->live_pushes : old->border_pushes;
  const uint8_t *state = !has ? NULL : live ? old->live : old->border;
  uint64_t wrong, others;
  MSCRT_CHECK(mscrt_max(c, has && !live && old->border_step != step, &wrong));
  MSCRT_CHECK(find_lost(c, !has, lost));
  for (int r = 0; r < c->o.ranks; r++) c->recovery.lost += lost[r];
  if (wrong) return NULL;
  bool moved = has && (old->plan != c->plan || old->rank != c->o.rank);
  MSCRT_CHECK(mscrt_max(c, moved || has_state_in_host(c->plan), &others));
  if (others) MSCRT_CHECK(mscrt_spread_state(c, has ? old->plan : NULL, has ? old->rank : 0, state, &whole));
  else MSCRT_CHECK(replace_lost(c, state, lost, &whole));
  if (!whole) return NULL;
  c->step = step;
  MSCRT_CHECK(agree_on_loss(c, loss, &c->recovery.loss));
  MSCRT_CHECK(mscrt_max(c, has ? c->o.seed : 0, &c->o.seed));
  MSCRT_CHECK(mscrt_max(c, pushes, &c->kept->live_pushes));
  c->recovery.from_peers = true;
  c->recovery.step = step;
  c->kept->is_live = true, c->kept->live_step = step, c->kept->live_loss = c->recovery.loss;
  c->kept->met_step = step;
  return NULL;
}

/* Agrees on the servers that any of the ranks has lost. */
static mscrt_status *agree_on_servers(mscrt_context *c, const mscrt_kept *old) {
  mscrt_kept *k = c->kept;
  for (int i = 0; i < c->o.servers && k->epoch && mscrt_plan_server_copies(c->plan) > 1; i++) {
    uint64_t lost;
    MSCRT_CHECK(mscrt_max(c, old ? old->lost_servers >> i & 1 : 0, &lost));
    k->lost_servers |= lost << i;
  }
  return NULL;
}

bool mscrt_goes_on_serving(const mscrt_context *c) { return c->o.server && c->kept && c->kept->served; }

/* The parameter of the same name and stage that a server has kept; NULL: there is none. */
static const mscrt_variable *find_served(const mscrt_kept *old, const mscrt_variable *v) {
  for (uint32_t i = 0; i < old->plan->num_parameters; i++) {
    const mscrt_variable *was = &old->plan->parameter[i];
    if (old->served[i] && was->stage == v->stage && !strcmp(was->name, v->name)) return was;
  }
  return NULL;
}

mscrt_status *mscrt_restore_server(mscrt_context *c, const mscrt_kept *old) {
  uint8_t *live;
  MSCRT_CHECK(make_kept(c, &c->kept));
  mscrt_kept *k = c->kept;
  c->recovery = (mscrt_recovery){.struct_size = sizeof c->recovery, .loss = (double)NAN};
  if (!old || !old->served || !old->live) return NULL;
  const mscrt_plan *from = old->plan, *to = c->plan;
  MSCRT_CHECK(mscrt_new_array(&k->served, to->num_parameters));
  MSCRT_CHECK(mscrt_allocate((void **)&live, (size_t)k->bytes + 1, 1));
  copy_state(c, live);
  for (uint32_t i = 0; i < to->num_parameters; i++) {
    const mscrt_variable *v = &to->parameter[i], *was = v->stage == c->stage ? find_served(old, v) : NULL;
    uint64_t bytes = mscrt_variable_bytes(v);
    if (!was || was->dtype != v->dtype || mscrt_variable_bytes(was) != bytes) continue;
    memcpy(live + mscrt_state_at(to, v), old->live + mscrt_state_at(from, was), (size_t)bytes);
    memcpy(k->border + mscrt_state_at(to, v), old->border + mscrt_state_at(from, was), (size_t)bytes);
    k->served[i] = true;
  }
  mscrt_set_state(c, live);
  free(live);
  k->is_live = true, k->live_step = old->live_step, k->border_step = old->border_step;
  c->recovery.from_peers = true;
  return NULL;
}

mscrt_status *mscrt_restore_state(mscrt_context *c, const mscrt_kept *old) {
  uint64_t most, far;
  bool stale = false, *lost = NULL;
  c->recovery = (mscrt_recovery){.struct_size = sizeof c->recovery, .loss = (double)NAN};
  MSCRT_CHECK(make_kept(c, &c->kept));
  if (c->o.ranks == 1 && !old) return NULL;
  MSCRT_CHECK(mscrt_max(c, old ? old->epoch + 1 : 0, &c->kept->epoch));
  if (c->o.servers) MSCRT_CHECK(agree_on_servers(c, old));
  MSCRT_CHECK(find_stale(c, old, &stale));
  if (stale) old = NULL;
  int64_t newest = newest_step(old);
  MSCRT_CHECK(mscrt_max(c, (uint64_t)(newest + 1), &most));
  if (!most) return NULL; /* the job begins */
  MSCRT_CHECK(mscrt_max(c, newest < 0 ? 0 : UINT64_MAX - (uint64_t)newest, &far));
  MSCRT_CHECK(mscrt_new_array(&lost, c->o.ranks));
  mscrt_status *s = restore_state_of_step(c, old, (int64_t)(UINT64_MAX - far), lost);
  free(lost);
  return s;
}

mscrt_status *mscrt_leave_with_kept(mscrt_context *c, mscrt_kept **out_kept) {
  mscrt_kept *k = c->kept;
  MSCRT_CHECK(mscrt_check_process(c));
  if (!k) return mscrt_fail(MSCRT_ARGUMENT, "a context that was not opened with `recover` cannot go on");
  if (k->is_live && !k->live) {
    MSCRT_CHECK(mscrt_allocate((void **)&k->live, (size_t)k->bytes + 1, 1));
    copy_state(c, k->live);
  }
  *out_kept = k;
  c->kept = NULL;
  c->broken = true;
  if (c->comm) c->transport->abort(c->comm, "it meets the others again");
  k->lost_servers = mscrt_lost_servers(c);
  return NULL;
}

int mscrt_lost_rank(const mscrt_context *c) { return c->comm ? c->transport->culprit(c->comm) : -1; }

void mscrt_get_recovery(const mscrt_context *c, mscrt_recovery *out_recovery) {
  size_t known = out_recovery->struct_size;
  memcpy(out_recovery, &c->recovery, known && known < sizeof c->recovery ? known : sizeof c->recovery);
}
