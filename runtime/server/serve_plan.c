/* serve_plan.c: a context of a plan in; serves its share of the parameters until all workers have left: each push runs
 * the calls that update parameters, and workers pull the new values. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/comm/address.h"
#include "runtime/execute/execute.h"
#include "runtime/job/job.h"
#include "runtime/memory/memory.h"
#include "runtime/server/changes.h"
#include "runtime/subnormal.h"
#include "runtime/wait.h"

typedef struct {
  mscrt_context *c;
  mscrt_shares shares;
  const mscrt_share *own;
  const mscrt_shard *shard;
  mscrt_changes *changes;
  char *values, *state;
  mscrt_status *failure; /* of an update */
  bool goes_on;          /* with what it had when it served other workers */
} plan_server;

/* Puts together what workers have pushed of a value that is gathered.  The part of a worker that is not in this update
 * are numbers of no row, -1, and gradients of zero. */
static void gather_part(const plan_server *p, const mscrt_served_part *part) {
  const mscrt_exchange *e = part->record->part[part->part].e;
  void *dst = part->record->part[part->part].dst;
  uint64_t bytes = mscrt_dtype_bytes(e->dtype), sums = (uint64_t)p->own->elems * mscrt_dtype_bytes(p->shares.dtype);
  memset(dst, mscrt_is_float(e->dtype) ? 0 : -1, (size_t)e->elems * bytes);
  for (int64_t i = 0; i < e->num_cuts; i++) {
    const mscrt_cut *cut = &e->cut[i];
    const char *pushed = mscrt_shard_apart(p->shard, (int)cut->peer[0] - p->shares.first_rank);
    if (pushed)
      msc_box_copy(e->rank, &cut->box, &e->to_box, dst, &cut->from_box, pushed + part->at - sums, (size_t)bytes);
  }
}

static void copy_parts(const plan_server *p, const mscrt_record *r, const char *sums) {
  for (uint32_t i = 0; i < p->own->num_parts; i++) {
    const mscrt_served_part *part = &p->own->part[i];
    if (part->record != r) continue;
    if (mscrt_is_gathered(part)) gather_part(p, part);
    else memcpy(r->part[part->part].dst, sums + part->at, mscrt_served_bytes(part));
  }
}

static void copy_variables(const plan_server *p, const mscrt_served_value *v, uint32_t num, char *to) {
  for (uint32_t i = 0; i < num; i++) memcpy(to + v[i].at, mscrt_address_of(p->c, v[i].v->ref, 0), v[i].bytes);
}

static void find_changes(void *user, uint64_t since, int64_t *out_num, const mscrt_value_span **out_span) {
  plan_server *p = user;
  mscrt_find_changes(p->changes, since, out_num, out_span);
}

/* Copies what has changed since a version to where workers pull it. */
static void copy_values(plan_server *p, uint64_t since) {
  const mscrt_served_value *v = p->own->value;
  const mscrt_value_span *span;
  int64_t num;
  mscrt_find_changes(p->changes, since, &num, &span);
  for (int64_t i = 0; i < num; i++) {
    while (span[i].at >= v->at + v->bytes) v++;
    const char *from = mscrt_address_of(p->c, v->v->ref, 0);
    memcpy(p->values + span[i].at, from + (span[i].at - v->at), span[i].bytes);
  }
}

static const void *copy_state(void *user) {
  plan_server *p = user;
  copy_variables(p, p->own->value + p->own->num_values, p->own->num_states, p->state);
  return p->state;
}

/* ---- workers that come in the place of lost ones ---- */

static uint32_t num_kept(const mscrt_share *own) { return own->num_values + own->num_states + own->num_others; }

/* Workers of whom one is lost may go back to before the last update, and this server then has to. */
static void keep_before_update(plan_server *p, uint64_t step) {
  mscrt_kept *k = p->c->kept;
  for (uint32_t i = 0; k && i < num_kept(p->own); i++) {
    const mscrt_served_value *v = &p->own->value[i];
    memcpy(k->border + mscrt_state_at(p->c->plan, v->v), mscrt_address_of(p->c, v->v->ref, 0), v->bytes);
  }
  if (k) k->border_step = (int64_t)step;
}

static bool go_to_version(void *user, uint64_t version) {
  plan_server *p = user;
  mscrt_kept *k = p->c->kept;
  bool anew = version == MSCRT_NO_VERSION, back = !anew && (int64_t)version != k->live_step;
  if (back && (int64_t)version != k->border_step) return false;
  for (uint32_t i = 0; back && i < num_kept(p->own); i++) {
    const mscrt_served_value *v = &p->own->value[i];
    memcpy(mscrt_address_of(p->c, v->v->ref, 0), k->border + mscrt_state_at(p->c->plan, v->v), v->bytes);
  }
  k->live_step = anew ? 0 : (int64_t)version;
  if (anew || back) k->border_step = -1;
  mscrt_forget_changes(p->changes);
  copy_values(p, MSCRT_NO_VERSION);
  return true;
}

static void put_all(void *user, const void *all) {
  plan_server *p = user;
  const char *from = all;
  for (uint32_t i = 0; i < num_kept(p->own); from += p->own->value[i++].bytes)
    memcpy(mscrt_address_of(p->c, p->own->value[i].v->ref, 0), from, p->own->value[i].bytes);
  copy_values(p, MSCRT_NO_VERSION);
}

/* Notes which parameters this server has; of one that goes on, refuses those that it did not have before. */
static mscrt_status *note_served(const plan_server *p) {
  mscrt_kept *k = p->c->kept;
  const mscrt_plan *plan = p->c->plan;
  if (!k) return NULL;
  if (!p->goes_on) MSCRT_CHECK(mscrt_new_array(&k->served, plan->num_parameters));
  for (uint32_t i = 0; i < num_kept(p->own); i++) {
    const mscrt_variable *v = p->own->value[i].v;
    bool *served = &k->served[v - plan->parameter];
    if (p->goes_on && !*served)
      return mscrt_fail(MSCRT_INPUT, "server %d of the plan for %d ranks has %s, which another one had before",
                        p->c->o.server - 1, p->c->o.ranks, v->name);
    *served = true;
  }
  k->is_live = true;
  return NULL;
}

/* ---- updates ---- */

static mscrt_status *run_served_calls(plan_server *p, uint64_t step, const char *sums) {
  uint32_t number = 0;
  static const mscrt_slots first;
  for (uint32_t i = 0; i < p->shares.num_sections; i++)
    for (uint32_t k = 0; k < p->shares.section[i]->num_calls; k++) {
      const mscrt_record *r = &p->shares.section[i]->call[k];
      mscrt_execution t = {.section = p->shares.section[i], .record = r, .slots = &first, .step = (int64_t)step};
      bool own = r->served == MSCRT_BY_BOTH;
      if (!r->served) continue;
      if (r->kind == PLAN_CALL_KIND_COLLECTIVE) {
        copy_parts(p, r, sums);
        continue;
      }
      if (r->served == MSCRT_BY_SERVERS) own = p->own->runs[number++];
      if (!own) continue;
      MSCRT_CHECK(r->copies ? mscrt_copy_in_place(p->c, &t) : p->c->device->compute(p->c, &t));
      mscrt_note_changes(p->changes, r, step + 1);
    }
  return NULL;
}

static void update(void *user, uint64_t step, int64_t first, int64_t num, const void *gradient, void *values) {
  plan_server *p = user;
  (void)first, (void)num, (void)values;
  keep_before_update(p, step);
  if (!p->failure) p->failure = run_served_calls(p, step, gradient);
  if (p->c->kept) p->c->kept->live_step = (int64_t)step + 1;
  copy_values(p, step);
}

static bool set_number(void *user, uint64_t number, double value) {
  const plan_server *p = user;
  if (number >= p->c->plan->num_parameters) return false;
  const mscrt_variable *v = &p->c->plan->parameter[number];
  if (!mscrt_is_scalar(v) || v->stage != p->c->stage) return false;
  mscrt_convert(v->dtype, mscrt_address_of(p->c, v->ref, 0), 1, MSCRT_F64, &value, false, false, 1);
  return true;
}

/* True if this process is a server that has a copy, and not a copy itself: copies are numbered behind all servers. */
static bool has_copy(const mscrt_context *c) {
  return mscrt_plan_server_copies(c->plan) > 1 && c->o.server <= c->o.servers;
}

static void log_lost_copy(void *user, const char *why) {
  const plan_server *p = user;
  char text[512];
  snprintf(text, sizeof text, "server %d has lost its copy, and goes on alone: %s", p->c->o.server - 1, why);
  if (p->c->o.log) p->c->o.log(p->c->o.log_user, MSCRT_LOG_WARNING, text);
}

static mscrt_status *listen_for_workers(const plan_server *p, int *out_fd) {
  char address[320];
  mscrt_address at;
  MSCRT_CHECK(mscrt_server_address(&p->c->o, p->c->o.server - 1, address, sizeof address));
  MSCRT_CHECK(mscrt_resolve(address, mscrt_now_ns() + (int64_t)p->c->o.timeout_ms * 1000000, &at));
  return mscrt_listen(&at, p->c->o.token != NULL, out_fd);
}

/* Connects to the copy of this server, if it has one; a copy that was lost before does not answer. */
static mscrt_status *connect_to_copy(plan_server *p, int *out_fd) {
  const mscrt_options *o = &p->c->o;
  if (!has_copy(p->c)) return NULL;
  mscrt_status *s = mscrt_dial_server(o, o->server - 1 + o->servers, out_fd);
  if (!s || !p->goes_on || mscrt_status_code(s) != MSCRT_PEER) return s;
  log_lost_copy(p, mscrt_status_text(s));
  mscrt_status_free(s);
  return NULL;
}

static mscrt_status *serve_share(plan_server *p, const mscrt_key *key, int listener, int backup) {
  mscrt_shard *shard = NULL;
  bool asynchronous = plan_plan_asynchronous(p->c->plan->root);
  uint32_t bound = plan_plan_staleness(p->c->plan->root);
  mscrt_shard_options o = {.dtype = p->shares.dtype,
                           .rows = 1,
                           .columns = p->own->push_bytes ? p->own->elems : 1,
                           .workers = p->shares.ranks,
                           .sync = !asynchronous,
                           .staleness = !asynchronous         ? 0
                                        : bound == UINT32_MAX ? MSCRT_NO_BOUND
                                                              : (int64_t)bound,
                           .values = p->values,
                           .update = update,
                           .user = p};
  if (!p->own->elems) o.dtype = MSCRT_F32;
  uint64_t sums = (uint64_t)o.columns * mscrt_dtype_bytes(o.dtype);
  o.apart_bytes = p->own->push_bytes > sums ? p->own->push_bytes - sums : 0;
  MSCRT_CHECK(mscrt_shard_new(&o, &shard));
  p->shard = shard;
  copy_values(p, MSCRT_NO_VERSION);
  mscrt_serving serving = {.shard = shard,
                           .rows = 1,
                           .row_bytes = sums + o.apart_bytes,
                           .value_bytes = p->own->value_bytes,
                           .values = p->values,
                           .changes = find_changes,
                           .listener = listener,
                           .key = key->library ? key : NULL,
                           .stop = p->c->wake,
                           .backup = backup,
                           .backup_ms = p->c->o.timeout_ms,
                           .alone = log_lost_copy,
                           .alone_user = p,
                           .state = copy_state,
                           .state_bytes = p->own->state_bytes,
                           .set = set_number,
                           .user = p,
                           .until_left = true};
  if (p->c->kept) serving.begin = go_to_version, serving.put = put_all, serving.put_bytes = mscrt_all_bytes(p->own);
  if (p->goes_on) serving.epoch = MSCRT_NO_EPOCH;
  mscrt_status *s = mscrt_serve(&serving);
  if (serving.backup >= 0) close(serving.backup);
  mscrt_shard_free(shard);
  return s;
}

mscrt_status *mscrt_run_server(mscrt_context *c) {
  MSCRT_NEEDS(c);
  plan_server p = {.c = c};
  mscrt_status *s = NULL;
  int listener = -1, backup = -1;
  mscrt_key key = {0};
  MSCRT_CHECK(mscrt_check_process(c));
  if (c->o.server < 1) return mscrt_fail(MSCRT_ARGUMENT, "this context is no server's");
  MSCRT_CHECK(mscrt_shares_new(c, &p.shares));
  p.own = &p.shares.share[(c->o.server - 1) % c->o.servers / (int)c->plan->num_stages];
  MSCRT_GOTO(mscrt_allocate((void **)&p.values, (size_t)p.own->value_bytes, 1));
  MSCRT_GOTO(mscrt_allocate((void **)&p.state, (size_t)p.own->state_bytes, 1));
  p.goes_on = mscrt_goes_on_serving(c);
  MSCRT_GOTO(note_served(&p));
  MSCRT_GOTO(mscrt_changes_new(&p.shares, p.own, &p.changes));
  MSCRT_GOTO(mscrt_key_open(c->o.token, &key));
  MSCRT_GOTO(listen_for_workers(&p, &listener));
  MSCRT_GOTO(connect_to_copy(&p, &backup));
  uint32_t mode = mscrt_flush_subnormal();
  s = serve_share(&p, &key, listener, backup);
  mscrt_restore_subnormal(mode);
fail:
  if (listener >= 0) close(listener);
  mscrt_key_close(&key);
  mscrt_changes_free(p.changes);
  free(p.values);
  free(p.state);
  mscrt_shares_free(&p.shares);
  if (!s && !p.failure && atomic_load(&c->cancelled)) s = mscrt_fail(MSCRT_CANCELLED, "the server was told to end");
  if (p.failure) mscrt_status_free(s), s = p.failure;
  return s;
}
