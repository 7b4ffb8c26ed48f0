/* postpone: a function whose fetches begin as early as transfers would like -> the same within the room for its values.
 *
 * A fetched value takes memory from the begin of its transfer on, and one that is taken back until the end of it. One
 * walk over the ops adds up what is in use; where that exceeds the room, the fetch whose user is farthest away begins
 * behind that op, or a value that is taken back has left by then: whatever next takes its place waits for the transfer.
 * Both only ever shorten lifetimes, so what fits stays as it is. */
#include <stdlib.h>

#include "passes/8_memory/allocate.h"
#include "passes/8_memory/homes.h"
#include "passes/8_memory/overlap.h"
#include "passes/8_memory/peak.h"
#include "passes/8_memory/postpone.h"
#include "passes/8_memory/stage_costs.h"

/* A lifetime that a transfer begins or ends. Places in the order are numbers of ops at the outermost level. */
typedef struct {
  msc_op *op;
  uint64_t bytes, ns; /* ns: of the transfer */
  size_t begin, end;  /* it may be shortened at the places from begin to end - 1 */
  bool fetches;       /* it begins with op, which may begin behind any of them; else op takes the value back */
  bool moved;
} movable;

typedef struct {
  msc_pass_ctx *pass;
  msc_func *f;
  size_t num_ops, num;
  msc_op **op;
  size_t *place;    /* by op id: its place in the order */
  int64_t *live;    /* by place: bytes live there */
  bool *moved;      /* by place: a fetch that begins elsewhere now */
  uint64_t *starts; /* by place: when the op begins, if ops run one after the other */
  movable *all;
} postponer;

/* ---- what may be shortened ---- */

/* The place of the op by which the fetch must have begun: its first user, or what writes the new value there. */
static size_t latest_begin(const postponer *z, const msc_op *fetch) {
  size_t end = z->num_ops;
  for (const msc_use *u = fetch->out[0].uses; u; u = u->next)
    if (z->place[u->user->id] < end) end = z->place[u->user->id];
  for (const msc_use *u = fetch->in[0].value->uses; u; u = u->next)
    if (u->user->kind == OP_stow && z->place[u->user->id] > z->place[fetch->id] && z->place[u->user->id] < end)
      end = z->place[u->user->id];
  return end;
}

/* The place of the last op that needs the value and takes nothing back, and of the transfer itself. */
static size_t last_need(const postponer *z, const msc_value *v, const uint32_t *ends, size_t last) {
  for (const msc_use *u = v->uses; u; u = u->next) {
    size_t at = z->place[msc_is_transfer(u->user) ? u->user->id : ends[u->user->id]];
    if (at > last) last = at;
  }
  return last;
}

static void add_movable(postponer *z, movable m) {
  if (m.begin >= m.end) return;
  m.ns = msc_home_ns(msc_pass_cluster(z->pass), msc_home_of_transfer(z->f, m.op), m.bytes);
  msc_grow(z->pass->scratch, z->all, z->num);
  z->all[z->num++] = m;
}

static void list_movable(postponer *z, size_t num, const msc_lifetime *life) {
  const uint32_t *ends = msc_ends_of_reads(z->pass->scratch, z->f);
  uint64_t *bytes = msc_new_array(z->pass->scratch, uint64_t, z->f->body->last->id + 1);
  z->num = 0;
  for (size_t i = 0; i < num; i++)
    if (life[i].value && life[i].value->def->kind == OP_fetch) bytes[life[i].value->def->id] = life[i].bytes;
  for (size_t i = 0; i < z->num_ops; i++) {
    msc_op *op = z->op[i];
    if (op->kind == OP_fetch && bytes[op->id])
      add_movable(z,
                  (movable){.op = op, .bytes = bytes[op->id], .begin = i, .end = latest_begin(z, op), .fetches = true});
    else if ((op->kind == OP_stow || op->kind == OP_stash) && ends[op->id] > op->id) {
      const msc_value *v = op->in[op->kind == OP_stow].value;
      add_movable(z, (movable){.op = op,
                               .bytes = (uint64_t)msc_type_bytes(v->type),
                               .begin = last_need(z, v, ends, i) + 1,
                               .end = z->place[ends[op->id]] + 1});
    }
  }
}

static void measure_live_bytes(postponer *z) {
  const uint64_t *ns = msc_op_times(z->pass, z->f);
  msc_lifetime *life;
  uint64_t now = 0;
  z->num_ops = 0;
  for (msc_op *op = z->f->body->first; op; op = op->next) {
    z->starts[z->num_ops] = now;
    z->op[z->num_ops++] = op;
    now += ns[op->id];
  }
  size_t num = msc_list_lifetimes(z->pass, z->f, &life); /* numbers the ops in another way */
  for (size_t i = 0; i < z->num_ops; i++)
    z->live[i] = z->live[i + 1] = 0, z->moved[i] = false, z->place[z->op[i]->id] = i;
  for (size_t i = 0; i < num; i++) {
    z->live[z->place[life[i].first]] += (int64_t)life[i].bytes;
    z->live[z->place[life[i].last] + 1] -= (int64_t)life[i].bytes;
  }
  for (size_t i = 1; i < z->num_ops; i++) z->live[i] += z->live[i - 1];
  list_movable(z, num, life);
}

/* ---- one walk ---- */

/* Ranks m among the lifetimes that could be shortened at a place, the largest number first; 0: m is not in use there,
 * or must be. First come fetches whose transfer still ends in time, that with the farthest user in front; then
 * transfers back, the earliest in front; then fetches that their users will wait for. */
static uint64_t willingness(const postponer *z, const movable *m, size_t at) {
  enum { SHIFT = 60 };
  static const uint64_t in_time = (uint64_t)3 << SHIFT, leaves = (uint64_t)2 << SHIFT, late = (uint64_t)1 << SHIFT;
  if (at < m->begin || at >= m->end) return 0;
  if (!m->fetches) return leaves + z->num_ops - m->begin;
  bool waits = m->end >= z->num_ops || z->starts[m->end] < z->starts[at + 1] + m->ns;
  return (waits ? late : in_time) + m->end;
}

/* Shortens m so that it does not cover place `at`: a fetch begins behind it, a transfer back ends before it. */
static void shorten(postponer *z, movable *m, size_t at) {
  size_t from = m->fetches ? m->begin : at, to = m->fetches ? at + 1 : m->end;
  for (size_t p = from; p < to; p++) z->live[p] -= (int64_t)m->bytes;
  if (m->fetches) m->begin = at + 1;
  else m->end = at;
  m->moved = true;
}

/* Shortens lifetimes until no more than `room` bytes are in use at any place where that can be; true if any was. */
static bool shorten_lifetimes(postponer *z, int64_t room) {
  bool any = false;
  for (size_t at = 0; at < z->num_ops; at++) {
    if (msc_runs_in_tiles(z->op[at])) continue; /* nothing stands between it and the next op */
    bool pair = at && msc_runs_in_tiles(z->op[at - 1]);
    while (z->live[at] > room || (pair && z->live[at - 1] > room)) {
      movable *best = NULL;
      for (size_t i = 0; i < z->num; i++)
        if (willingness(z, &z->all[i], at) > (best ? willingness(z, best, at) : 0)) best = &z->all[i];
      if (!best) break;
      shorten(z, best, at);
      any = true;
    }
  }
  return any;
}

/* ---- the new order ---- */

/* Fetches by the place where they begin, then by that of their users. */
static int compare_begins(const void *a, const void *b) {
  const movable *x = a, *y = b;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  if (x->end != y->end) return x->end < y->end ? -1 : 1;
  return x->op->id < y->op->id ? -1 : x->op->id > y->op->id;
}

/* The op before which a fetch that begins at a place of the old order stands: fetches for earlier users go first. */
static msc_op *place_of_fetch(const postponer *z, const movable *m) {
  size_t at = m->begin;
  while (z->moved[at] || (z->op[at]->kind == OP_fetch && latest_begin(z, z->op[at]) <= m->end)) at++;
  return z->op[at];
}

/* Sets `beside` of a transfer so that its value is in use until the op `last`. */
static void set_end(msc_op *transfer, const msc_op *last) {
  int64_t beside = 0;
  while (last->kind == OP_fetch) last = last->prev;
  if (last->id > transfer->id)
    for (const msc_op *op = transfer; op != last; op = op->next) beside++;
  if (beside) msc_op_put(transfer, msc_fact_beside(beside));
  else msc_op_unset(transfer, MSC_FACT(beside));
}

static void write_order(postponer *z) {
  msc_op **last = msc_new_array(z->pass->scratch, msc_op *, z->num_ops); /* of what is taken back, by its place */
  const uint32_t *ends = msc_ends_of_reads(z->pass->scratch, z->f);
  for (size_t i = 0; i < z->num_ops; i++)
    if (z->op[i]->kind == OP_stow || z->op[i]->kind == OP_stash) last[i] = z->op[z->place[ends[z->op[i]->id]]];
  for (size_t i = 0; i < z->num; i++)
    if (!z->all[i].fetches && z->all[i].moved) last[z->place[z->all[i].op->id]] = z->op[z->all[i].end - 1];
  for (size_t i = 0; i < z->num; i++)
    if (z->all[i].fetches && z->all[i].moved) z->moved[z->place[z->all[i].op->id]] = true;
  qsort(z->all, z->num, sizeof *z->all, compare_begins);
  for (size_t i = 0; i < z->num; i++) {
    movable *m = &z->all[i];
    if (!m->fetches || !m->moved) continue;
    msc_op *where = place_of_fetch(z, m);
    msc_op_unlink(m->op);
    msc_insert_before(where, m->op);
  }
  for (size_t i = 0; i < z->num_ops; i++)
    if (last[i]) set_end(z->op[i], last[i]);
}

void msc_postpone_transfers(msc_pass_ctx *pass, msc_func *f) {
  enum { TRIES = 6 };
  uint64_t room = msc_room_for_values(pass, f), bytes = msc_scratch_of(pass, f, room), before = bytes, most = room;
  postponer z = {.pass = pass, .f = f};
  size_t num_ids = f->body->last->id + 1;
  z.op = msc_new_array(pass->scratch, msc_op *, num_ids);
  z.place = msc_new_array(pass->scratch, size_t, num_ids);
  z.live = msc_new_array(pass->scratch, int64_t, num_ids + 1);
  z.moved = msc_new_array(pass->scratch, bool, num_ids);
  z.starts = msc_new_array(pass->scratch, uint64_t, num_ids);
  for (int i = 0; i < TRIES && bytes > room; i++) {
    measure_live_bytes(&z);
    if (!shorten_lifetimes(&z, (int64_t)most)) break;
    write_order(&z);
    bytes = msc_scratch_of(pass, f, room);
    most -= bytes > room && bytes - room < most ? bytes - room : 0;
  }
  msc_stat(pass, "bytes saved by later transfers", (int64_t)(before - bytes));
}
