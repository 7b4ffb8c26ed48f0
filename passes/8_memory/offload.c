/* offload: parameters and state that live in host memory or on disk, as the key offload says -> fetched to the device
 * for the ops that use them, and their new values taken back.
 *
 * Ops that use such values are units, in their order. What a unit uses is fetched while the unit before it runs, no
 * earlier than the transfer needs, and is dropped unless one of the next two units uses it again: the values of two
 * units are on the device at a time. A new value is taken back as soon as it is there, beside the next units.
 *
 * Views of such a value are made anew for each user, so that they do not begin its life before that user's. */
#include <string.h>

#include "ir/alias.h"
#include "passes/7_lower/nest/nest.h"
#include "passes/7_lower/target.h"
#include "passes/8_memory/homes.h"
#include "passes/8_memory/overlap.h"
#include "passes/8_memory/peak.h"
#include "passes/config/config.h"
#include "passes/pass.h"

enum {
  KEPT_UNITS = 2, /* after its last use */
  AHEAD = 4,      /* times a fetch's time before its user: what the unit before takes back goes first */
};

/* A value that does not live on the device. */
typedef struct {
  msc_value *arg;
  msc_home home;
  uint64_t ns;       /* of one transfer */
  msc_op *fetch;     /* the last one; NULL: none yet */
  size_t used;       /* number of the unit that used it last */
} stored;

typedef struct {
  msc_pass_ctx *pass;
  msc_func *f;
  size_t num;
  stored *all;
  stored **of;        /* by number of the argument; NULL: it lives on the device */
  const uint64_t *ns; /* by op id, before anything was inserted */
  int64_t fetches, stows, bytes;
} offloading;

/* ---- what is used ---- */

/* The stored value that v is, or is a view of; NULL: none. */
static stored *stored_behind(const offloading *z, const msc_value *v) {
  while (v->def && msc_is_view(v->def)) v = v->def->in[0].value;
  return v->def ? NULL : z->of[v->index];
}

static bool is_unit(const offloading *z, const msc_op *op) {
  if (msc_is_view(op) || (msc_info(op)->flags & MSC_TERMINATOR)) return false;
  for (size_t i = 0; i < op->num_in; i++)
    if (stored_behind(z, op->in[i].value)) return true;
  return false;
}

/* Nothing may stand between a product and the op that takes its tiles. */
static msc_op *place_before(msc_op *op) { return msc_runs_in_tiles(op->prev) ? op->prev : op; }
static msc_op *place_behind(msc_op *op) { return msc_runs_in_tiles(op) ? op->next : op; }

/* ---- fetching ---- */

/* Ops that were inserted take no time. */
static uint64_t time_of(const offloading *z, const msc_op *op) {
  return op->kind == OP_fetch || msc_is_view(op) ? 0 : z->ns[op->id];
}

/* Where a transfer of `ns` for `user` begins: as late as it can, but not before `first`. */
static msc_op *begin_of_fetch(const offloading *z, msc_op *user, msc_op *first, uint64_t ns) {
  msc_op *at = place_before(user);
  for (uint64_t sum = 0; at != first && at->prev && sum < ns; at = place_before(at->prev)) sum += time_of(z, at->prev);
  return at;
}

static msc_value *insert_fetch(offloading *z, stored *s, msc_op *at, msc_op *user) {
  s->fetch = msc_op_new(z->f, OP_fetch, 1, &s->arg, 1, user->loc);
  s->fetch->name = s->arg->name;
  msc_insert_before(at, s->fetch);
  s->fetch->id = at->id;
  if (!msc_infer(s->fetch)) return NULL;
  s->fetch->out[0].whole = s->arg->whole;
  z->fetches++;
  z->bytes += msc_type_bytes(s->arg->type);
  return &s->fetch->out[0];
}

/* The value that a user reads in place of v: what was fetched, or the same view of it, made before `at`. */
static msc_value *fetched_view(offloading *z, msc_value *v, msc_value *fetched, msc_op *at) {
  if (!v->def) return fetched;
  msc_value *x = fetched_view(z, v->def->in[0].value, fetched, at);
  msc_op *view = msc_op_copy(z->f, v->def, &x);
  msc_insert_before(at, view);
  view->id = at->id;
  view->out[0].whole = v->whole;
  return &view->out[0];
}

static bool serve_unit(offloading *z, msc_op *op, msc_op *before, size_t number) {
  uint64_t ns = 0;
  for (size_t i = 0; i < op->num_in; i++) {
    const stored *s = stored_behind(z, op->in[i].value);
    if (s && !(s->fetch && number - s->used <= KEPT_UNITS)) ns += s->ns;
  }
  msc_op *at = begin_of_fetch(z, op, before ? place_before(before) : NULL, AHEAD * ns);
  for (size_t i = 0; i < op->num_in; i++) {
    msc_value *v = op->in[i].value;
    stored *s = stored_behind(z, v);
    if (!s) continue;
    bool kept = s->fetch && number - s->used <= KEPT_UNITS;
    msc_value *fetched = kept ? &s->fetch->out[0] : insert_fetch(z, s, at, op);
    s->used = number;
    if (!fetched) return false;
    msc_set_operand(op, i, fetched_view(z, v, fetched, place_before(op)));
  }
  return true;
}

/* ---- taking back ---- */

/* The op behind which a new value can be taken back: it is there, and the old one is no longer fetched. */
static msc_op *begin_of_stow(const stored *s, const msc_value *made, const msc_op *ret) {
  if (!made->def) return ret->prev;
  msc_op *at = place_behind(made->def);
  int64_t beside = made->def->kind == OP_comm ? msc_op_int(made->def, MSC_FACT(beside)) : 0;
  for (; beside > 0 && at->next != ret; beside--) at = at->next;
  for (msc_op *op = at->next; op && op != ret; op = op->next)
    if (op == s->fetch) at = op;
  return place_behind(at);
}

static bool take_back(offloading *z, size_t last) {
  msc_op *ret = z->f->body->last;
  for (size_t i = 0; i < ret->num_in; i++) {
    int64_t arg = msc_tied_argument(z->f, i);
    stored *s = arg < 0 ? NULL : z->of[arg], *from = stored_behind(z, ret->in[i].value);
    if (from && from == s) continue; /* it stays as it is */
    if (from) {
      msc_value *fetched = insert_fetch(z, from, ret, ret);
      if (!fetched) return false;
      msc_set_operand(ret, i, fetched_view(z, ret->in[i].value, fetched, ret));
      from->used = last;
    }
    if (!s) continue;
    msc_value *made = ret->in[i].value;
    msc_value *in[] = {s->arg, made};
    msc_op *stow = msc_op_new(z->f, OP_stow, 2, in, 1, made->def->loc);
    stow->name = s->arg->name;
    msc_op *behind = begin_of_stow(s, made, ret);
    if (behind) msc_insert_after(behind, stow);
    else msc_insert_before(ret, stow);
    if (!msc_infer(stow)) return false;
    stow->out[0].whole = s->arg->whole;
    msc_set_operand(ret, i, &stow->out[0]);
    z->stows++;
    z->bytes += msc_type_bytes(s->arg->type);
  }
  return true;
}

/* Says for how many ops each new value is still read: as long as its transfer takes, and over no more than the next
 * two units, whose values take its place. */
static void set_ends_of_stows(offloading *z, const uint64_t *ns) {
  msc_number(z->f->body);
  for (msc_op *op = z->f->body->first; op; op = op->next) {
    if (op->kind != OP_stow) continue;
    uint64_t left = z->of[op->in[0].value->index]->ns;
    int64_t beside = 0, units = 0;
    for (const msc_op *next = op->next; next && next->next && units < KEPT_UNITS; next = next->next) {
      beside++;
      units += next->kind == OP_fetch;
      if (ns[next->id] >= left) break;
      left -= ns[next->id];
    }
    if (beside) msc_op_put(op, msc_fact_beside(beside));
  }
}

/* ---- a function ---- */

static void list_stored(offloading *z) {
  const msc_block *b = z->f->body;
  const msc_cluster *cluster = msc_pass_cluster(z->pass);
  z->all = msc_new_array(z->pass->scratch, stored, b->num_args + 1);
  z->of = msc_new_array(z->pass->scratch, stored *, b->num_args + 1);
  for (size_t i = 0; i < b->num_args; i++) {
    msc_home home = msc_home_of(z->pass->config, z->f, i);
    if (home == MSC_HOME_DEVICE) continue;
    msc_arg_put(z->f, i, msc_fact_msc_home(z->pass->ctx, msc_home_name(home)));
    z->all[z->num] = (stored){
        .arg = b->args[i], .home = home, .ns = msc_home_ns(cluster, home, (uint64_t)msc_type_bytes(b->args[i]->type))};
    z->of[i] = &z->all[z->num++];
  }
}

static void erase_unused_views(msc_func *f) {
  for (msc_op *op = f->body->last, *before; op; op = before) {
    before = op->prev;
    if (msc_is_view(op) && !msc_has_uses(&op->out[0])) msc_op_erase(op);
  }
}

static bool offload_func(msc_pass_ctx *pass, msc_func *f, bool *out_any) {
  offloading z = {.pass = pass, .f = f};
  msc_op *before = NULL;
  size_t number = 0;
  list_stored(&z);
  if (!z.num) return true;
  *out_any = true;
  z.ns = msc_op_times(pass, f);
  for (msc_op *op = f->body->first; op; op = op->next) {
    if (!is_unit(&z, op)) continue;
    if (!serve_unit(&z, op, before, ++number)) return false;
    before = op;
  }
  if (!take_back(&z, number)) return false;
  erase_unused_views(f);
  set_ends_of_stows(&z, msc_op_times(pass, f));
  msc_stat(pass, "values fetched", z.fetches);
  msc_stat(pass, "values taken back", z.stows);
  msc_stat(pass, "bytes moved", z.bytes);
  msc_remark(pass, NULL, "%s: %" PRId64 " values are fetched and %" PRId64 " taken back, %" PRId64 " bytes", f->name,
             z.fetches, z.stows, z.bytes);
  return true;
}

bool pass_offload(msc_pass_ctx *pass, msc_module *m) {
  const char *target = msc_target_of(m)->name;
  bool any = false;
  if (pass->config && strcmp(target, "cpu") && msc_config_bool(pass->config, MSC_KEY_auto_offload))
    return msc_error(pass->ctx, MSC_E_UNSUPPORTED, msc_config_loc(pass->config, MSC_KEY_auto_offload),
                     "auto_offload: not supported yet for %s, only for cpu", target);
  if (pass->config && strcmp(target, "cpu") && msc_config_value(pass->config, MSC_KEY_offload))
    return msc_error(pass->ctx, MSC_E_UNSUPPORTED, msc_config_loc(pass->config, MSC_KEY_offload),
                     "offload: not supported yet for %s, only for cpu", target);
  for (msc_func *f = m->first; f; f = f->next) MSC_TRY(offload_func(pass, f, &any));
  return any || msc_not_asked_for(pass);
}
