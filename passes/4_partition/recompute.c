/* recompute: ops marked `recompute`, whose results the backward uses -> a copy of each just before its first backward
 * user.
 *
 * `recompute = true` is an op's own mark; a name is that of the block whose ops all carry it: what leaves the block
 * stays, the rest is computed again from what came into it.  A change of layout belongs to the block of the op whose
 * result it changes, or else of those it serves; it is repeated unless `mp_comm_recompute = false`, of a parameter only
 * with `parallel_optimizer_comm_recompute`, whose default is whether it is `msc.gathered`, as of zero 3.  A copy
 * carries `recompute = true`, the originals no mark: so nobody takes one for the other, and lowering leaves it where it
 * stands.  With `recompute_saving = N` on the function, ops without a mark get one where that saves about N bytes for
 * the least time, and before that those of blocks that have a `memory_limit` (recompute.h).  Random numbers are those
 * of salt, seed and step: the same again. */
#include <stdlib.h>
#include <string.h>

#include "passes/4_partition/recompute.h"
#include "passes/direction.h"

typedef struct {
  msc_pass_ctx *pass;
  msc_func *f;
  msc_op **op;         /* by id */
  const bool *forward; /* by op id */
  const msc_op **mark; /* by op id: an op with the marks that count for it, or NULL */
  msc_op **copy;       /* by op id: NULL: none yet */
  msc_op **writer;     /* by argument: what makes its new value, or NULL */
  bool *needed;        /* by op id, while a user is served */
  uint32_t *found;     /* those needed */
  int64_t num_copies;
} recomputing;

/* ---- marks ---- */

static bool is_move(const msc_op *op) { return op->kind == OP_shard || msc_info(op)->flags & MSC_COLLECTIVE; }

static bool is_marked(const msc_op *op) {
  const msc_attr_value *v = msc_op_attr(op, "recompute");
  return v && (v->kind == MSC_ATTR_STR || (v->kind == MSC_ATTR_BOOL && v->b));
}

static const char *block_of(const msc_op *mark) {
  const msc_attr_value *v = mark ? msc_op_attr(mark, "recompute") : NULL;
  return v && v->kind == MSC_ATTR_STR ? v->s : NULL;
}

/* The mark that all forward users have in common. */
static const msc_op *mark_of_users(const recomputing *r, const msc_op *op) {
  const msc_op *common = NULL;
  for (const msc_use *u = op->out[0].uses; u; u = u->next) {
    if (!r->forward[u->user->id]) continue;
    const msc_op *mark = r->mark[u->user->id];
    if (!mark || (common && common != mark && (!block_of(mark) || block_of(mark) != block_of(common)))) return NULL;
    common = mark;
  }
  return common;
}

static void find_marks(recomputing *r) {
  for (const msc_op *op = r->f->body->first; op; op = op->next) {
    if (!r->forward[op->id]) continue;
    const msc_op *maker = is_move(op) && op->num_in ? op->in[0].value->def : NULL;
    r->mark[op->id] = is_marked(op) ? op : maker ? r->mark[maker->id] : NULL;
  }
  for (const msc_op *op = r->f->body->last; op; op = op->prev)
    if (r->forward[op->id] && is_move(op) && !r->mark[op->id] && op->num_out == 1)
      r->mark[op->id] = mark_of_users(r, op);
}

static bool says(const msc_op *mark, const char *name, bool absent) {
  const msc_attr_value *v = msc_op_attr(mark, name);
  return v && v->kind == MSC_ATTR_BOOL ? v->b : absent;
}

/* The argument that layout changes lead from, and its cast, or NULL. */
static const msc_value *moved_argument(const msc_op *op) {
  const msc_value *v = op->in[0].value;
  while (v->def && (is_move(v->def) || v->def->kind == OP_cast) && v->def->num_in == 1) v = v->def->in[0].value;
  return v->def ? NULL : v;
}

static bool is_gathered(const recomputing *r, const msc_value *arg) {
  const msc_attr_value *v = msc_arg_attr(r->f, arg->index, "msc.gathered");
  return v && v->kind == MSC_ATTR_BOOL && v->b;
}

static bool is_repeated_move(const recomputing *r, const msc_op *op, const msc_op *mark) {
  if (op->kind == OP_shard) return true;
  const msc_value *arg = op->num_in ? moved_argument(op) : NULL;
  if (!arg || msc_arg_role(r->f, arg->index) != MSC_ROLE_PARAMETER) return says(mark, "mp_comm_recompute", true);
  return says(mark, "parallel_optimizer_comm_recompute", is_gathered(r, arg));
}

/* Is it what its block hands on?  A change of layout inside is not yet outside. */
static bool leaves(const recomputing *r, const msc_op *op, const char *block) {
  for (size_t i = 0; i < op->num_out; i++)
    for (const msc_use *u = op->out[i].uses; u; u = u->next)
      if (r->forward[u->user->id] && block_of(r->mark[u->user->id]) != block) return true;
  return false;
}

/* Does it read an argument whose new value is made before `user`?  Then it is too late. */
static bool reads_what_changed(const recomputing *r, const msc_op *op, const msc_op *user) {
  for (size_t i = 0; i < op->num_in; i++) {
    const msc_value *v = op->in[i].value;
    const msc_op *writer = v->def ? NULL : r->writer[v->index];
    if (writer && writer->id < user->id) return true;
  }
  return false;
}

/* A stage computes again what it computed itself, from what it received: what crosses to another is sent once, in the
 * forward.  Backwards that wait for each other's copies have no order. */
static bool in_same_stage(const msc_op *op, const msc_op *user) {
  const msc_attr_value *a = msc_op_attr(op, "stage"), *b = msc_op_attr(user, "stage");
  return !a || !b || a->i == b->i;
}

static bool is_repeated(const recomputing *r, const msc_op *op, const msc_op *user) {
  const msc_op *mark = r->mark[op->id];
  if (!mark || op->body || !in_same_stage(op, user)) return false;
  if (is_move(op) ? !is_repeated_move(r, op, mark) : !(msc_info(op)->flags & MSC_PURE)) return false;
  return !(block_of(mark) && leaves(r, op, block_of(mark))) && !reads_what_changed(r, op, user);
}

/* ---- copies ---- */

/* The change of layout of an argument that the backward makes for itself, or NULL. */
static msc_op *backward_move(const recomputing *r, const msc_op *op) {
  const msc_op *maker = op->num_in == 1 ? op->in[0].value->def : op;
  if (!is_move(op) || (maker && maker->kind != OP_cast)) return NULL;
  for (const msc_use *u = op->in[0].value->uses; u; u = u->next)
    if (u->user->kind == op->kind && !r->forward[u->user->id] && u->user->out[0].type == op->out[0].type)
      return u->user;
  return NULL;
}

/* Takes it, early enough for `user`, in place of a copy. */
static bool use_backward_move(recomputing *r, const msc_op *op, msc_op *user) {
  msc_op *there = backward_move(r, op);
  if (!there) return false;
  if (there->id > user->id) {
    msc_op_unlink(there);
    msc_insert_before(user, there);
    msc_op_set(there, "recompute", msc_bool(true));
  }
  r->copy[op->id] = there;
  return true;
}

/* Note the op of v if it has to be computed again for `user`; returns how many are noted. */
static size_t need(recomputing *r, const msc_value *v, msc_op *user, size_t num) {
  const msc_op *op = v->def;
  if (!op || op->id >= user->id || !r->forward[op->id] || r->copy[op->id] || r->needed[op->id] ||
      !is_repeated(r, op, user))
    return num;
  if (use_backward_move(r, op, user)) return num;
  r->needed[op->id] = true;
  r->found[num] = op->id;
  return num + 1;
}

static msc_value *again(const recomputing *r, msc_value *v, const msc_op *user) {
  msc_op *copy = v->def && r->forward[v->def->id] ? r->copy[v->def->id] : NULL;
  return copy && in_same_stage(copy, user) ? &copy->out[v->index] : v;
}

static void drop_marks_of(msc_op *op) {
  static const char *const marks[] = {"recompute", "mp_comm_recompute", "parallel_optimizer_comm_recompute",
                                      "memory_limit"};
  for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) msc_op_unset(op, marks[i]);
}

static void copy_before(recomputing *r, const msc_op *op, msc_op *user) {
  msc_value **in = msc_new_array(r->pass->scratch, msc_value *, op->num_in + 1);
  for (size_t i = 0; i < op->num_in; i++) in[i] = again(r, op->in[i].value, op);
  msc_op *copy = msc_op_copy(r->f, op, in);
  copy->id = user->id; /* it is of the backward too */
  drop_marks_of(copy);
  msc_op_set(copy, "recompute", msc_bool(true));
  msc_insert_before(user, copy);
  r->copy[op->id] = copy;
  r->num_copies++;
}

static int by_number(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

/* Copies of all that its operands need and is not there yet, in their order; they take the place of the originals. */
static void serve(recomputing *r, msc_op *user) {
  size_t num = 0;
  for (size_t i = 0; i < user->num_in; i++) num = need(r, user->in[i].value, user, num);
  for (size_t done = 0; done < num; done++) {
    const msc_op *op = r->op[r->found[done]];
    for (size_t i = 0; i < op->num_in; i++) num = need(r, op->in[i].value, user, num);
  }
  qsort(r->found, num, sizeof *r->found, by_number);
  for (size_t i = 0; i < num; i++) {
    copy_before(r, r->op[r->found[i]], user);
    r->needed[r->found[i]] = false;
  }
  for (size_t i = 0; i < user->num_in; i++) msc_set_operand(user, i, again(r, user->in[i].value, user));
}

/* ---- the pass ---- */

/* `of`: of which ops, by id; NULL: all. */
static void drop_marks(msc_func *f, const bool *of) {
  for (msc_op *op = f->body->first; op; op = op->next)
    if (!of || of[op->id]) drop_marks_of(op);
}

static void find_writers(recomputing *r) {
  const msc_attr_value *ties = msc_func_attr(r->f, "ties");
  const msc_op *ret = r->f->body->last;
  r->writer = msc_new_array(r->pass->scratch, msc_op *, r->f->body->num_args + 1);
  for (size_t i = 0; ties && i < ties->list.num && i < ret->num_in; i++)
    if (ties->list.v[i].i >= 0) r->writer[ties->list.v[i].i] = ret->in[i].value->def;
}

static size_t told(const msc_func *f, const char *name) {
  const msc_attr_value *v = msc_func_attr(f, name);
  return v && v->kind == MSC_ATTR_INT && v->i > 0 ? (size_t)v->i : 0;
}

static bool recompute(msc_pass_ctx *pass, msc_func *f) {
  msc_arena *a = pass->scratch;
  recomputing r = {.pass = pass, .f = f, .forward = msc_forward_ops(a, f)};
  size_t n = f->body->last->id + 1;
  r.op = msc_new_array(a, msc_op *, n);
  r.mark = msc_new_array(a, const msc_op *, n);
  r.copy = msc_new_array(a, msc_op *, n);
  r.needed = msc_new_array(a, bool, n);
  r.found = msc_new_array(a, uint32_t, n);
  for (msc_op *op = f->body->first; op; op = op->next) r.op[op->id] = op;
  MSC_TRY(recompute_limit_blocks(pass, f, r.forward));
  size_t saving = told(f, "recompute_saving");
  if (saving)
    msc_stat(
        pass, "ns for what is computed again",
        recompute_choose(pass, f, r.forward, (int64_t)saving, told(f, "recompute_group"), told(f, "recompute_shift")));
  find_writers(&r);
  find_marks(&r);
  for (size_t i = 0; i < n; i++)
    if (!r.forward[i]) serve(&r, r.op[i]);
  drop_marks(f, r.forward);
  msc_stat(pass, "ops computed again", r.num_copies);
  return true;
}

bool pass_recompute(msc_pass_ctx *pass, msc_module *m) {
  for (msc_func *f = m->first; f; f = f->next) {
    if (strcmp(f->name, "train") != 0) drop_marks(f, NULL);
    else MSC_TRY(recompute(pass, f));
  }
  return true;
}
