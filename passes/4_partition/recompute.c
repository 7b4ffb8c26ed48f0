/* recompute: ops marked `recompute` whose results the backward uses -> a copy of each just before its first backward
 * user.
 *
 * `recompute = true` marks one op; a string marks all ops of the block of that name: what the block hands on is kept,
 * the rest is recomputed from what enters the block. A change of layout belongs to the block of the op whose result it
 * changes, else to the block of the ops that use it. It is repeated unless `mp_comm_recompute = false`; for a parameter
 * only with `parallel_optimizer_comm_recompute`, which defaults to whether the parameter is `msc.gathered`, as under
 * zero 3. A copy carries `recompute = true` and the originals no mark, so cse does not merge them and lowering leaves
 * the copy in its place. With `recompute_saving = N` on the function, ops without a mark get one where that saves about
 * N bytes for the least time; blocks with a `memory_limit` are marked before that (recompute.h). Random ops of a copy
 * draw the same numbers: those of salt, seed and step. */
#include <stdlib.h>
#include <string.h>

#include "ir/fact.h"
#include "passes/4_partition/recompute.h"
#include "passes/direction.h"

typedef struct {
  msc_pass_ctx *pass;
  msc_func *f;
  msc_op **op;         /* by id */
  const bool *forward; /* by op id */
  const msc_op **mark; /* by op id: the op whose marks apply to it, or NULL */
  msc_op **copy;       /* by op id: its copy; NULL: none yet */
  msc_op **writer;     /* by argument: the op that makes its new value, or NULL */
  bool *needed;        /* by op id: to be copied for the current user */
  uint32_t *found;     /* ids of the ops in `needed` */
  int64_t num_copies;
} recomputer;

/* ---- marks ---- */

static bool changes_layout(const msc_op *op) { return msc_info(op)->flags & MSC_MOVES; }

static bool is_recompute_marked(const msc_op *op) {
  const msc_attr_value *v = msc_op_attr(op, MSC_FACT(recompute));
  return v && (v->kind == MSC_ATTR_STR || (v->kind == MSC_ATTR_BOOL && v->b));
}

static const char *recompute_block_of(const msc_op *mark) {
  const msc_attr_value *v = mark ? msc_op_attr(mark, MSC_FACT(recompute)) : NULL;
  return v && v->kind == MSC_ATTR_STR ? v->s : NULL;
}

/* The op whose marks all forward users share; NULL if they differ. */
static const msc_op *mark_of_users(const recomputer *r, const msc_op *op) {
  const msc_op *common = NULL;
  for (const msc_use *u = op->out[0].uses; u; u = u->next) {
    if (!r->forward[u->user->id]) continue;
    const msc_op *mark = r->mark[u->user->id];
    if (!mark || (common && common != mark &&
                  (!recompute_block_of(mark) || recompute_block_of(mark) != recompute_block_of(common))))
      return NULL;
    common = mark;
  }
  return common;
}

static void find_recompute_marks(recomputer *r) {
  for (const msc_op *op = r->f->body->first; op; op = op->next) {
    if (!r->forward[op->id]) continue;
    const msc_op *maker = changes_layout(op) && op->num_in ? op->in[0].value->def : NULL;
    r->mark[op->id] = is_recompute_marked(op) ? op : maker ? r->mark[maker->id] : NULL;
  }
  for (const msc_op *op = r->f->body->last; op; op = op->prev)
    if (r->forward[op->id] && changes_layout(op) && !r->mark[op->id] && op->num_out == 1)
      r->mark[op->id] = mark_of_users(r, op);
}

static bool read_mark(const msc_op *mark, const char *name, bool absent) {
  const msc_attr_value *v = msc_op_attr(mark, name);
  return v && v->kind == MSC_ATTR_BOOL ? v->b : absent;
}

/* The argument that op reads through layout changes and casts; NULL if it reads another op. */
static const msc_value *moved_argument(const msc_op *op) {
  const msc_value *v = op->in[0].value;
  while (v->def && (changes_layout(v->def) || v->def->kind == OP_cast) && v->def->num_in == 1) v = v->def->in[0].value;
  return v->def ? NULL : v;
}

static bool is_gathered_argument(const recomputer *r, const msc_value *arg) {
  const msc_attr_value *v = msc_arg_attr(r->f, arg->index, MSC_FACT(msc_gathered));
  return v && v->kind == MSC_ATTR_BOOL && v->b;
}

static bool must_repeat_layout_change(const recomputer *r, const msc_op *op, const msc_op *mark) {
  if (op->kind == OP_shard) return true;
  const msc_value *arg = op->num_in ? moved_argument(op) : NULL;
  if (!arg || msc_arg_role(r->f, arg->index) != MSC_ROLE_PARAMETER)
    return read_mark(mark, MSC_FACT(mp_comm_recompute), true);
  return read_mark(mark, MSC_FACT(parallel_optimizer_comm_recompute), is_gathered_argument(r, arg));
}

/* True if a forward op outside of the block reads op. Layout changes inside belong to the block. */
static bool is_read_outside_block(const recomputer *r, const msc_op *op, const char *block) {
  for (size_t i = 0; i < op->num_out; i++)
    for (const msc_use *u = op->out[i].uses; u; u = u->next)
      if (r->forward[u->user->id] && recompute_block_of(r->mark[u->user->id]) != block) return true;
  return false;
}

/* True if op reads an argument whose new value is made before `user`: a copy there would read the new value. */
static bool reads_changed_argument(const recomputer *r, const msc_op *op, const msc_op *user) {
  for (size_t i = 0; i < op->num_in; i++) {
    const msc_value *v = op->in[i].value;
    const msc_op *writer = v->def ? NULL : r->writer[v->index];
    if (writer && writer->id < user->id) return true;
  }
  return false;
}

/* True if both ops run in the same stage. A stage recomputes only its own ops, from what it received: a value that
 * crosses to another stage is sent once, in the forward; otherwise backwards could wait for each other in a circle. */
static bool in_same_stage(const msc_op *op, const msc_op *user) {
  const msc_attr_value *a = msc_op_attr(op, MSC_FACT(stage)), *b = msc_op_attr(user, MSC_FACT(stage));
  return !a || !b || a->i == b->i;
}

static bool must_recompute(const recomputer *r, const msc_op *op, const msc_op *user) {
  const msc_op *mark = r->mark[op->id];
  if (!mark || op->body || !in_same_stage(op, user)) return false;
  if (changes_layout(op) ? !must_repeat_layout_change(r, op, mark) : !(msc_info(op)->flags & MSC_PURE)) return false;
  return !(recompute_block_of(mark) && is_read_outside_block(r, op, recompute_block_of(mark))) &&
         !reads_changed_argument(r, op, user);
}

/* ---- copies ---- */

/* The op by which the backward already makes this change of layout of an argument; NULL: there is none. */
static msc_op *find_backward_layout_change(const recomputer *r, const msc_op *op) {
  const msc_op *maker = op->num_in == 1 ? op->in[0].value->def : op;
  if (!changes_layout(op) || (maker && maker->kind != OP_cast)) return NULL;
  for (const msc_use *u = op->in[0].value->uses; u; u = u->next)
    if (u->user->kind == op->kind && !r->forward[u->user->id] && u->user->out[0].type == op->out[0].type)
      return u->user;
  return NULL;
}

/* Uses the layout change of the backward, moved before `user` if needed, in place of a copy. False if there is none. */
static bool reuse_backward_layout_change(recomputer *r, const msc_op *op, msc_op *user) {
  msc_op *there = find_backward_layout_change(r, op);
  if (!there) return false;
  if (there->id > user->id) {
    msc_op_unlink(there);
    msc_insert_before(user, there);
    msc_op_put(there, msc_fact_recompute(msc_bool(true)));
  }
  r->copy[op->id] = there;
  return true;
}

/* Adds the op that makes v to the needed ones if it must be recomputed for `user`; returns how many there are. */
static size_t note_needed(recomputer *r, const msc_value *v, msc_op *user, size_t num) {
  const msc_op *op = v->def;
  if (!op || op->id >= user->id || !r->forward[op->id] || r->copy[op->id] || r->needed[op->id] ||
      !must_recompute(r, op, user))
    return num;
  if (reuse_backward_layout_change(r, op, user)) return num;
  r->needed[op->id] = true;
  r->found[num] = op->id;
  return num + 1;
}

static msc_value *copy_or_original(const recomputer *r, msc_value *v, const msc_op *user) {
  msc_op *copy = v->def && r->forward[v->def->id] ? r->copy[v->def->id] : NULL;
  return copy && in_same_stage(copy, user) ? &copy->out[v->index] : v;
}

static void copy_before(recomputer *r, const msc_op *op, msc_op *user) {
  msc_value **in = msc_new_array(r->pass->scratch, msc_value *, op->num_in + 1);
  for (size_t i = 0; i < op->num_in; i++) in[i] = copy_or_original(r, op->in[i].value, op);
  msc_op *copy = msc_op_copy(r->f, op, in);
  copy->id = user->id; /* the copy belongs to the backward */
  if (op->name) copy->name = msc_intern(r->pass->ctx, msc_arena_printf(r->pass->scratch, "%s.recompute", op->name));
  msc_op_unset_sort(copy, MSC_SORT_RECOMPUTE);
  msc_op_put(copy, msc_fact_recompute(msc_bool(true)));
  msc_insert_before(user, copy);
  r->copy[op->id] = copy;
  r->num_copies++;
}

static int compare_op_ids(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

/* Copies, before `user`, every op that its operands need and that has no copy yet, in program order; `user` reads
 * the copies. */
static void copy_operands_for(recomputer *r, msc_op *user) {
  size_t num = 0;
  for (size_t i = 0; i < user->num_in; i++) num = note_needed(r, user->in[i].value, user, num);
  for (size_t done = 0; done < num; done++) {
    const msc_op *op = r->op[r->found[done]];
    for (size_t i = 0; i < op->num_in; i++) num = note_needed(r, op->in[i].value, user, num);
  }
  qsort(r->found, num, sizeof *r->found, compare_op_ids);
  for (size_t i = 0; i < num; i++) {
    copy_before(r, r->op[r->found[i]], user);
    r->needed[r->found[i]] = false;
  }
  for (size_t i = 0; i < user->num_in; i++) msc_set_operand(user, i, copy_or_original(r, user->in[i].value, user));
}

/* ---- the pass ---- */

/* of: by op id, which ops to clear; NULL: all. */
static void clear_recompute_marks(msc_func *f, const bool *of) {
  for (msc_op *op = f->body->first; op; op = op->next)
    if (!of || of[op->id]) msc_op_unset_sort(op, MSC_SORT_RECOMPUTE);
}

static void find_argument_writers(recomputer *r) {
  const msc_attr_value *ties = msc_func_attr(r->f, MSC_FACT(ties));
  const msc_op *ret = r->f->body->last;
  r->writer = msc_new_array(r->pass->scratch, msc_op *, r->f->body->num_args + 1);
  for (size_t i = 0; ties && i < ties->list.num && i < ret->num_in; i++)
    if (ties->list.v[i].i >= 0) r->writer[ties->list.v[i].i] = ret->in[i].value->def;
}

static size_t positive_func_attr(const msc_func *f, const char *name) {
  const msc_attr_value *v = msc_func_attr(f, name);
  return v && v->kind == MSC_ATTR_INT && v->i > 0 ? (size_t)v->i : 0;
}

static bool recompute_func(msc_pass_ctx *pass, msc_func *f) {
  msc_arena *a = pass->scratch;
  recomputer r = {.pass = pass, .f = f, .forward = msc_forward_ops(a, f)};
  size_t n = f->body->last->id + 1;
  r.op = msc_new_array(a, msc_op *, n);
  r.mark = msc_new_array(a, const msc_op *, n);
  r.copy = msc_new_array(a, msc_op *, n);
  r.needed = msc_new_array(a, bool, n);
  r.found = msc_new_array(a, uint32_t, n);
  for (msc_op *op = f->body->first; op; op = op->next) r.op[op->id] = op;
  MSC_TRY(recompute_limit_blocks(pass, f, r.forward));
  size_t saving = positive_func_attr(f, MSC_FACT(recompute_saving));
  if (saving)
    msc_stat(pass, "ns for what is computed again",
             recompute_choose(pass, f, r.forward, (int64_t)saving, positive_func_attr(f, MSC_FACT(recompute_group)),
                              positive_func_attr(f, MSC_FACT(recompute_shift))));
  find_argument_writers(&r);
  find_recompute_marks(&r);
  for (size_t i = 0; i < n; i++)
    if (!r.forward[i]) copy_operands_for(&r, r.op[i]);
  clear_recompute_marks(f, r.forward);
  msc_stat(pass, "ops computed again", r.num_copies);
  return true;
}

bool pass_recompute(msc_pass_ctx *pass, msc_module *m) {
  for (msc_func *f = m->first; f; f = f->next) {
    if (msc_program_of(f) != MSC_PROGRAM_TRAIN) clear_recompute_marks(f, NULL);
    else MSC_TRY(recompute_func(pass, f));
  }
  return true;
}
