/* offload: parameters and state that live in host memory or on disk, as the key offload says -> fetched to the device
 * for the ops that use them, and their new values taken back.
 *
 * Ops that use such values are units, in their order. What a unit uses is fetched while the unit before it runs, no
 * earlier than the transfer needs, and is dropped unless one of the next two units uses it again: the values of two
 * units are on the device at a time. A new value is taken back as soon as it is there, beside the next units.
 *
 * Where the device is the host, a kernel that computes the new value of what lives in host memory element by element,
 * as updates do, reads the old one there and writes the new one over it: moving both would take longer.
 *
 * Values of a step that nobody reads for a while, as those that the backward needs of the forward, are put off the
 * device likewise, where the key says so: after the last use before the pause, until shortly before the next. Where
 * auto_offload asks for a share of them, these are those with the longest pauses.
 *
 * Views of such a value are made anew for each user, so that they do not begin its life before that user's.
 *
 * Where servers run updates (server_updates) they fetch for these, and take back what these make; neither they nor the
 * workers use a value that the others have fetched. */
#include <stdlib.h>
#include <string.h>

#include "ir/alias.h"
#include "passes/7_lower/gpu/library.h"
#include "passes/7_lower/nest/nest.h"
#include "passes/7_lower/target.h"
#include "passes/8_memory/homes.h"
#include "passes/8_memory/overlap.h"
#include "passes/8_memory/peak.h"
#include "passes/8_memory/postpone.h"
#include "passes/8_memory/served.h"
#include "passes/8_memory/offsets/offsets.h"
#include "passes/config/config.h"
#include "passes/pass.h"

enum {
  KEPT_UNITS = 2, /* after its last use */
  WORTH = 4,      /* pauses of a value are so many times as long as a transfer, or longer */
  AHEAD = 4,      /* times a fetch's time before its user: what the unit before takes back goes first */
};

/* A value that does not live on the device. */
typedef struct {
  msc_value *arg;
  msc_home home;
  uint64_t ns;   /* of one transfer */
  const msc_op *updater; /* it reads the value where it lives, and makes the new one there; NULL: no op does */
  struct {
    msc_op *fetch; /* the last one; NULL: none yet */
    size_t used;   /* number of the unit that used it last */
  } by[MSC_NUM_SERVED];
} stored;

typedef struct {
  msc_pass_ctx *pass;
  msc_func *f;
  size_t num;
  stored *all;
  stored **of;        /* by number of the argument; NULL: it lives on the device */
  const uint64_t *ns; /* by op id, before anything was inserted */
  int64_t fetches, stows, updates, bytes;
} offloader;

/* ---- what is updated where it lives ---- */

/* Returns who runs the op: MSC_BY_... */
static int runner_of(const msc_op *op) { return (int)msc_op_int(op, MSC_FACT(served)); }

/* Returns the value that the function returns as the new value of argument `arg` and of nothing else; NULL: none is. */
static msc_value *new_value_of(const msc_func *f, size_t arg) {
  const msc_op *ret = f->body->last;
  msc_value *made = NULL;
  for (size_t i = 0; i < ret->num_in; i++)
    if (msc_tied_argument(f, i) == (int64_t)arg) made = ret->in[i].value;
  size_t returned = 0;
  for (const msc_use *u = made ? made->uses : NULL; u; u = u->next) returned += u->user == ret;
  return returned == 1 ? made : NULL;
}

/* True if op may write result `made` over the argument that v is, or is a view of: other ops read that before, and op
 * reads the argument itself, once, each element no later than it writes it. */
static bool may_write_over(msc_nester *nester, const msc_value *v, const msc_op *op, const msc_value *made) {
  size_t reads = 0;
  for (const msc_use *u = v->uses; u; u = u->next) {
    if (msc_is_view(u->user)) MSC_TRY(may_write_over(nester, &u->user->out[0], op, made));
    else if (u->user->id > op->id) return false;
    else if (u->user == op && (v->def || reads++)) return false;
    else if (u->user == op && !msc_may_update(nester, op, (size_t)(u - op->in), made->index)) return false;
  }
  return true;
}

/* Returns the op that can make the new value of s where the old one lives; NULL: none can. */
static const msc_op *find_updater(msc_nester *nester, const msc_func *f, const stored *s) {
  const msc_value *made = s->home == MSC_HOME_CPU ? new_value_of(f, s->arg->index) : NULL;
  const msc_op *op = made ? made->def : NULL;
  if (!op || op->block != f->body || !msc_nest_can_fuse(op) || msc_runs_in_tiles(op) || msc_runs_on_host(op) ||
      runner_of(op) || msc_memory_of(made).root != made || !may_write_over(nester, s->arg, op, made))
    return NULL;
  return op;
}

/* Sets the updaters, if the device is the host. The ops have numbers in their order. */
static void find_updaters(offloader *z) {
  const msc_target *target = msc_target_of(z->f->module);
  if (!target->is_host) return;
  msc_nester *nester = msc_nester_new(z->pass->ctx, z->pass->scratch, target);
  for (size_t i = 0; i < z->num; i++)
    if ((z->all[i].updater = find_updater(nester, z->f, &z->all[i]))) z->updates++;
}

/* ---- what is used ---- */

/* The offloaded parameter or state that v is, or is a view of; NULL: v lives on the device. */
static stored *stored_behind(const offloader *z, const msc_value *v) {
  while (v->def && msc_is_view(v->def)) v = v->def->in[0].value;
  return v->def ? NULL : z->of[v->index];
}

static bool is_unit(const offloader *z, const msc_op *op) {
  if (msc_is_view(op) || (msc_info(op)->flags & MSC_TERMINATOR) || msc_runs_on_host(op)) return false;
  for (size_t i = 0; i < op->num_in; i++)
    if (stored_behind(z, op->in[i].value)) return true;
  return false;
}

/* The offloaded value that must be on the device for operand i of op; NULL: it lives there, or op reads it where it
 * lives. */
static stored *wanted_by(const offloader *z, const msc_op *op, size_t i) {
  stored *s = stored_behind(z, op->in[i].value);
  return s && s->updater != op ? s : NULL;
}

/* The op before which, or behind which, a transfer may be inserted: nothing may stand between a product and the op
 * that takes its tiles. */
static msc_op *place_before(msc_op *op) { return msc_runs_in_tiles(op->prev) ? op->prev : op; }
static msc_op *place_behind(msc_op *op) { return msc_runs_in_tiles(op) ? op->next : op; }

/* ---- fetching ---- */

/* The predicted time of op; 0 for the ops that this pass inserted. */
static uint64_t transfer_ns(const offloader *z, const msc_op *op) {
  return op->kind == OP_fetch || msc_is_view(op) ? 0 : z->ns[op->id];
}

/* Where a transfer of `ns` for `user` begins: as late as it can, but not before `first`. */
static msc_op *begin_of_fetch(const offloader *z, msc_op *user, msc_op *first, uint64_t ns) {
  msc_op *at = place_before(user);
  for (uint64_t sum = 0; at != first && at->prev && sum < ns; at = place_before(at->prev))
    sum += transfer_ns(z, at->prev);
  return at;
}

/* True if the value that unit number `number` needs is on the device of who runs it. */
static bool is_kept(const stored *s, int runner, size_t number) {
  return s->by[runner].fetch && number - s->by[runner].used <= KEPT_UNITS;
}

static msc_value *insert_fetch(offloader *z, stored *s, msc_op *at, msc_op *user) {
  int runner = runner_of(user);
  msc_op *fetch = s->by[runner].fetch = msc_op_new(z->f, OP_fetch, 1, &s->arg, 1, user->loc);
  fetch->name = s->arg->name;
  if (runner) msc_op_put(fetch, msc_fact_served(runner));
  msc_insert_before(at, fetch);
  fetch->id = at->id;
  if (!msc_infer(fetch)) return NULL;
  fetch->out[0].whole = s->arg->whole;
  z->fetches++;
  z->bytes += msc_type_bytes(s->arg->type);
  return &fetch->out[0];
}

/* Returns the value that a user reads in place of v: the fetched value or, if v is a view, the same view of it, which
 * this call inserts before `at`. */
static msc_value *fetched_view(offloader *z, msc_value *v, msc_value *fetched, msc_op *at) {
  if (!v->def) return fetched;
  msc_value *x = fetched_view(z, v->def->in[0].value, fetched, at);
  msc_op *view = msc_op_copy(z->f, v->def, &x);
  msc_insert_before(at, view);
  view->id = at->id;
  view->out[0].whole = v->whole;
  return &view->out[0];
}

static bool serve_unit(offloader *z, msc_op *op, msc_op *before, size_t number) {
  uint64_t ns = 0;
  int runner = runner_of(op);
  for (size_t i = 0; i < op->num_in; i++) {
    const stored *s = wanted_by(z, op, i);
    if (s && !is_kept(s, runner, number)) ns += s->ns;
  }
  msc_op *at = begin_of_fetch(z, op, before ? place_before(before) : NULL, AHEAD * ns);
  for (size_t i = 0; i < op->num_in; i++) {
    msc_value *v = op->in[i].value;
    stored *s = wanted_by(z, op, i);
    if (!s) continue;
    bool kept = is_kept(s, runner, number);
    msc_value *fetched = kept ? &s->by[runner].fetch->out[0] : insert_fetch(z, s, at, op);
    s->by[runner].used = number;
    if (!fetched) return false;
    msc_set_operand(op, i, fetched_view(z, v, fetched, place_before(op)));
  }
  return true;
}

/* ---- taking back ---- */

/* The op behind which the transfer of a new value back may begin: the value has been made, and the old one is not
 * fetched any more. */
static msc_op *begin_of_stow(const stored *s, const msc_value *made, const msc_op *ret) {
  if (!made->def) return ret->prev;
  msc_op *at = place_behind(made->def);
  int64_t beside = made->def->kind == OP_comm ? msc_op_int(made->def, MSC_FACT(beside)) : 0;
  for (; beside > 0 && at->next != ret; beside--) at = at->next;
  for (msc_op *op = at->next; op && op != ret; op = op->next)
    for (int i = 0; i < MSC_NUM_SERVED; i++)
      if (op == s->by[i].fetch) at = op;
  return place_behind(at);
}

static bool take_back(offloader *z, size_t last) {
  msc_op *ret = z->f->body->last;
  for (size_t i = 0; i < ret->num_in; i++) {
    int64_t arg = msc_tied_argument(z->f, i);
    stored *s = arg < 0 ? NULL : z->of[arg], *from = stored_behind(z, ret->in[i].value);
    if ((from && from == s) || (s && s->updater)) continue; /* it stays as it is; it is where it lives */
    if (from) {
      msc_value *fetched = insert_fetch(z, from, ret, ret);
      if (!fetched) return false;
      msc_set_operand(ret, i, fetched_view(z, ret->in[i].value, fetched, ret));
      from->by[MSC_BY_WORKERS].used = last;
    }
    msc_value *made = ret->in[i].value;
    if (!s || (made->def && msc_is_made_on_host(made))) continue;
    msc_value *in[] = {s->arg, made};
    msc_op *stow = msc_op_new(z->f, OP_stow, 2, in, 1, made->def->loc);
    stow->name = s->arg->name;
    if (made->def && runner_of(made->def)) msc_op_put(stow, msc_fact_served(runner_of(made->def)));
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

/* Sets `beside` of every transfer from the device: the number of following ops during which the value must stay in
 * place. The ops last as long as the transfer, but have at most KEPT_UNITS fetches among them, whose values would reuse
 * the place. */
static void set_ends_of_stows(offloader *z) {
  const uint64_t *ns = msc_op_times(z->pass, z->f); /* by op id; the call numbers the ops */
  for (msc_op *op = z->f->body->first; op; op = op->next) {
    if (op->kind != OP_stow && op->kind != OP_stash) continue;
    uint64_t left = op->kind == OP_stow ? z->of[op->in[0].value->index]->ns
                                        : msc_home_ns(msc_pass_cluster(z->pass), msc_op_home(op),
                                                      (uint64_t)msc_type_bytes(op->out[0].type));
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

/* ---- values of a step ---- */

static void erase_unused_views(msc_func *f) {
  for (msc_op *op = f->body->last, *before; op; op = before) {
    before = op->prev;
    if (msc_is_view(op) && !msc_has_uses(&op->out[0])) msc_op_erase(op);
  }
}

/* The uses of a value in the order of the ops, its views' among them. */
typedef struct {
  msc_op *op;
  size_t operand;
} offload_reader;

/* A value that may be put off, and for how long. */
typedef struct {
  size_t number; /* among the results of all ops */
  int64_t bytes;
  uint64_t pause;
} long_lived;

typedef struct {
  msc_pass_ctx *pass;
  msc_func *f;
  msc_put_off how;
  int64_t room;       /* in host memory */
  bool *stays;        /* by the number of the result; NULL: all that may be put off are */
  const uint64_t *ns; /* by op id */
  uint64_t *begin;    /* by op id: when it begins, if ops run one after the other */
  int64_t slot;       /* where the next value goes on disk */
  size_t num;
  offload_reader *use;
} stasher;

/* Lists the uses of v; false: its memory is not its own, or the function returns it. */
static bool list_uses(stasher *z, const msc_value *v) {
  for (const msc_use *u = v->uses; u; u = u->next) {
    bool part = msc_moves_nothing(u->user) && !msc_is_view(u->user); /* of a concat */
    if (part || (msc_info(u->user)->flags & MSC_TERMINATOR)) return false;
    if (msc_is_view(u->user)) {
      if (!list_uses(z, &u->user->out[0])) return false;
      continue;
    }
    msc_grow(z->pass->scratch, z->use, z->num);
    z->use[z->num++] = (offload_reader){u->user, (size_t)(u - u->user->in)};
  }
  return true;
}

static int compare_readings(const void *a, const void *b) {
  const offload_reader *x = a, *y = b;
  return (x->op->id > y->op->id) - (x->op->id < y->op->id);
}

/* What only servers of parameters make is not put off: they run no transfers. */
static bool may_be_stashed(const msc_value *v) {
  const msc_op *op = v->def;
  return !msc_op_int(op, MSC_FACT(served)) && !msc_is_view(op) && !msc_is_constant_op(op) && !msc_runs_in_tiles(op) &&
         op->kind != OP_comm && !msc_is_message(op) && !msc_is_transfer(op) && !msc_runs_on_host(op) &&
         v->type->rank > 0 && msc_type_bytes(v->type) >= MSC_LEAST_OFFLOADED_BYTES && msc_memory_of(v).root == v;
}

/* The number of the first use behind the longest pause, and its length; SIZE_MAX: no pause is worth it. */
static size_t longest_pause(const stasher *z, const msc_value *v, uint64_t ns, uint64_t *out_length) {
  uint64_t before = z->begin[v->def->id] + z->ns[v->def->id];
  size_t found = SIZE_MAX;
  *out_length = WORTH * ns;
  for (size_t i = 0; i < z->num; i++) {
    uint32_t id = z->use[i].op->id;
    if (z->begin[id] >= before + *out_length) *out_length = z->begin[id] - before, found = i;
    before = z->begin[id] + z->ns[id];
  }
  return found;
}

/* True if use number i reads v through a transpose that moves nothing. */
static bool is_use_of_transpose(const stasher *z, size_t i, const msc_value *v) {
  const msc_value *x = z->use[i].op->in[z->use[i].operand].value;
  while (x != v && x->def->in[0].value != v) x = x->def->in[0].value;
  return x != v && msc_moves_nothing(x->def) && x->def->kind == OP_transpose;
}

/* True if v's elements have the same order in memory before use number `pause` and from there on. A call with any
 * strides, as attention, makes its result in the order of a transpose that reads it, and reads it so where there is
 * such a transpose (msc_strides): there must be one on both sides, or on none. */
static bool keeps_order(const stasher *z, const msc_value *v, size_t pause) {
  bool before = false, behind = false;
  for (size_t i = 0; i < z->num && msc_is_graph(v->def); i++)
    *(i < pause ? &before : &behind) |= is_use_of_transpose(z, i, v);
  return before == behind;
}

/* Returns the value that a user reads in place of v: `fetched` if v is `whole`, else the same view of `fetched`, which
 * this call inserts before `at`. */
static msc_value *view_of_fetched(stasher *z, msc_value *v, const msc_value *whole, msc_value *fetched, msc_op *at) {
  if (v == whole) return fetched;
  msc_value *x = view_of_fetched(z, v->def->in[0].value, whole, fetched, at);
  msc_op *view = msc_op_copy(z->f, v->def, &x);
  msc_insert_before(at, view);
  view->id = at->id;
  view->out[0].whole = v->whole;
  return &view->out[0];
}

/* Where v, result number `number`, may wait while it is put off; the device: nowhere. */
static msc_home home_for(const stasher *z, const msc_value *v, size_t number) {
  if (!may_be_stashed(v) || (z->stays && z->stays[number])) return MSC_HOME_DEVICE;
  return msc_type_bytes(v->type) <= z->room ? z->how.home : z->how.beyond;
}

/* Lists the uses of v, in order, and finds its longest pause; returns the number of the first use behind it, or
 * SIZE_MAX: v is not put off. */
static size_t find_pause(stasher *z, const msc_value *v, msc_home home, uint64_t *out_length) {
  uint64_t ns = msc_home_ns(msc_pass_cluster(z->pass), home, (uint64_t)msc_type_bytes(v->type));
  z->num = 0;
  if (!list_uses(z, v) || !z->num) return SIZE_MAX;
  qsort(z->use, z->num, sizeof *z->use, compare_readings);
  size_t pause = longest_pause(z, v, ns, out_length);
  return pause == SIZE_MAX || !keeps_order(z, v, pause) ? SIZE_MAX : pause;
}

/* Puts v off the device, to `home`, between use number i - 1, or its op, and use number i. */
static bool stash_value(stasher *z, msc_value *v, size_t i, msc_home home) {
  uint64_t ns = msc_home_ns(msc_pass_cluster(z->pass), home, (uint64_t)msc_type_bytes(v->type));
  msc_op *last = place_behind(i ? z->use[i - 1].op : v->def), *user = z->use[i].op, *at = place_before(user);
  msc_op *stash = msc_op_new(z->f, OP_stash, 1, &v, 1, v->def->loc);
  stash->name = v->def->name;
  msc_op_put(stash, msc_home_attr(z->pass->ctx, home));
  if (home == MSC_HOME_CPU) z->room -= msc_type_bytes(v->type);
  if (home == MSC_HOME_DISK) {
    enum { PAGE = 4096 };
    msc_op_set(stash, "slot", msc_int(z->slot));
    z->slot += (msc_type_bytes(v->type) + PAGE - 1) / PAGE * PAGE;
  }
  for (uint64_t sum = 0; at->prev && at->prev != last && sum < AHEAD * ns; at = place_before(at->prev))
    sum += at->prev->kind == OP_fetch || at->prev->kind == OP_stash ? 0 : z->ns[at->prev->id];
  msc_insert_after(last, stash);
  stash->id = last->id;
  msc_value *put = &stash->out[0];
  msc_op *fetch = msc_op_new(z->f, OP_fetch, 1, &put, 1, user->loc);
  fetch->name = v->def->name;
  if (at == last || at == last->next) msc_insert_after(stash, fetch);
  else msc_insert_before(at, fetch);
  fetch->id = at->id;
  if (!msc_infer(stash) || !msc_infer(fetch)) return false;
  stash->out[0].whole = fetch->out[0].whole = v->whole;
  for (; i < z->num; i++) {
    offload_reader *u = &z->use[i];
    msc_value *x = view_of_fetched(z, u->op->in[u->operand].value, v, &fetch->out[0], place_before(u->op));
    msc_set_operand(u->op, u->operand, x);
  }
  return true;
}

/* Sorts the longest pauses to the front; of equal ones the value that was made first. */
static int compare_pauses(const void *a, const void *b) {
  const long_lived *x = a, *y = b;
  if (x->pause != y->pause) return x->pause > y->pause ? -1 : 1;
  return (x->number > y->number) - (x->number < y->number);
}

/* Marks the values that stay on the device, where only a share of those that may leave it does. */
static void choose_share(stasher *z, size_t num_ops, msc_op *const *op) {
  int64_t all = 0;
  size_t num = 0, number = 0;
  long_lived *list = NULL, one;
  for (size_t k = 0; k < num_ops; k++)
    for (size_t i = 0; i < op[k]->num_out; i++, number++) {
      const msc_value *v = &op[k]->out[i];
      one = (long_lived){.number = number, .bytes = msc_type_bytes(v->type)};
      msc_home home = home_for(z, v, number);
      if (home == MSC_HOME_DEVICE || find_pause(z, v, home, &one.pause) == SIZE_MAX) continue;
      msc_grow(z->pass->scratch, list, num);
      list[num++] = one;
      all += one.bytes;
    }
  int64_t left = all / MSC_PUT_OFF_PARTS * z->how.parts;
  if (num) qsort(list, num, sizeof *list, compare_pauses);
  z->stays = msc_new_array(z->pass->scratch, bool, number);
  for (size_t i = 0; i < num; left -= list[i++].bytes) z->stays[list[i].number] = left <= 0;
}

static bool stash_values(msc_pass_ctx *pass, msc_func *f, msc_put_off how) {
  stasher z = {.pass = pass, .f = f, .how = how, .room = how.room, .ns = msc_op_times(pass, f)};
  size_t num = 0, number = 0;
  int64_t values = 0;
  z.begin = msc_new_array(pass->scratch, uint64_t, f->body->last->id + 1);
  for (const msc_op *op = f->body->first; op->next; op = op->next, num++)
    z.begin[op->next->id] = z.begin[op->id] + z.ns[op->id];
  msc_op **op = msc_new_array(pass->scratch, msc_op *, num + 1);
  num = 0;
  for (msc_op *o = f->body->first; o->next; o = o->next) op[num++] = o;
  if (how.parts < MSC_PUT_OFF_PARTS) choose_share(&z, num, op);
  for (size_t k = 0; k < num; k++)
    for (size_t i = 0; i < op[k]->num_out; i++, number++) {
      msc_value *v = &op[k]->out[i];
      msc_home home = home_for(&z, v, number);
      uint64_t length;
      size_t pause = home == MSC_HOME_DEVICE ? SIZE_MAX : find_pause(&z, v, home, &length);
      if (pause == SIZE_MAX) continue;
      if (!stash_value(&z, v, pause, home)) return false;
      values++;
    }
  if (z.slot) msc_func_put(f, msc_fact_stashed(z.slot));
  erase_unused_views(f);
  msc_stat(pass, "values put off", values);
  return true;
}

/* ---- a function ---- */

static void list_stored(offloader *z) {
  const msc_block *b = z->f->body;
  const msc_cluster *cluster = msc_pass_cluster(z->pass);
  z->all = msc_new_array(z->pass->scratch, stored, b->num_args + 1);
  z->of = msc_new_array(z->pass->scratch, stored *, b->num_args + 1);
  for (size_t i = 0; i < b->num_args; i++) {
    msc_home home = msc_home_of(z->pass->config, z->f, i);
    if (home == MSC_HOME_DEVICE) continue;
    msc_arg_put(z->f, i, msc_fact_msc_home(z->pass->ctx, home));
    z->all[z->num] = (stored){
        .arg = b->args[i], .home = home, .ns = msc_home_ns(cluster, home, (uint64_t)msc_type_bytes(b->args[i]->type))};
    z->of[i] = &z->all[z->num++];
  }
}

static bool offload_func(msc_pass_ctx *pass, msc_func *f, bool *out_any) {
  offloader z = {.pass = pass, .f = f};
  msc_op *before = NULL;
  size_t number = 0;
  msc_put_off how = msc_put_off_of(pass->config, f->module);
  bool values = how.parts && msc_program_of(f) == MSC_PROGRAM_TRAIN;
  if (values && !stash_values(pass, f, how)) return false;
  list_stored(&z);
  *out_any |= values || z.num;
  if (!z.num && !values) return true;
  z.ns = msc_op_times(pass, f);
  find_updaters(&z);
  for (msc_op *op = f->body->first; op; op = op->next) {
    if (!is_unit(&z, op)) continue;
    if (!serve_unit(&z, op, before, ++number)) return false;
    before = op;
  }
  if (!take_back(&z, number)) return false;
  erase_unused_views(f);
  set_ends_of_stows(&z);
  msc_postpone_transfers(pass, f);
  msc_stat(pass, "values fetched", z.fetches);
  msc_stat(pass, "values taken back", z.stows);
  msc_stat(pass, "values updated where they live", z.updates);
  msc_stat(pass, "bytes moved", z.bytes);
  msc_remark(pass, NULL, "%s: %" PRId64 " values are fetched and %" PRId64 " taken back, %" PRId64 " bytes", f->name,
             z.fetches, z.stows, z.bytes);
  return true;
}

bool pass_offload(msc_pass_ctx *pass, msc_module *m) {
  bool any = false;
  if (msc_config_updates_on_host(pass->config) && !msc_target_of(m)->host)
    return msc_error(pass->ctx, MSC_E_CONFIG, msc_config_loc(pass->config, MSC_KEY_offload),
                     "offload.update: beside a GPU its host runs updates; in a plan for %s all run there",
                     msc_target_of(m)->name);
  for (msc_func *f = m->first; f; f = f->next) MSC_TRY(offload_func(pass, f, &any));
  return any || msc_not_asked_for(pass);
}
