/* order: program order -> what only feeds parameter updates runs as soon as it can, so gradients die young.
 *
 * An op feeds updates when all its results end in update ops without passing through another product; such ops are
 * taken before others whenever what they wait for has run.  What only draws random numbers waits for the first op that
 * needs them: they are large, and made of nothing.  Single numbers that are made of single numbers, as what all updates
 * of a step share, run as soon as they can too: they take no room, and many wait for them.  The rest
 * keeps its order. */
#include <string.h>

#include "passes/7_lower/depend.h"
#include "passes/pass.h"

typedef struct {
  msc_depend deps;
  bool *feeds_update, *draws, *counts; /* by op id */
  uint32_t *pending;  /* by op id: how many it still waits for */
  uint32_t *first, *waiter; /* who waits for op i: waiter[first[i]] .. waiter[first[i+1]-1] */
} ordering;

static bool is_product(const msc_op *op) { return msc_info(op)->cost == MSC_COST_FLOPS; }

/* Is this use, by return, the new value of an argument? */
static bool is_new_value(const msc_use *u, const msc_attr_value *ties) {
  size_t at = (size_t)(u - u->user->in);
  return u->user->kind == OP_return && at < ties->list.num && ties->list.v[at].i >= 0;
}

/* Backward over the ops: an op feeds updates when every user does, or is the return that takes a new value of an
 * argument.  The whole backward ends in updates, so what goes into another product does not count: only the last
 * product of each chain does. */
static void find_feeders(ordering *z, const msc_attr_value *ties) {
  for (size_t i = z->deps.num_ops; i-- > 0;) {
    const msc_op *op = z->deps.op[i];
    bool feeds = op->num_out > 0 && !msc_op_attr(op, "recompute");
    for (size_t k = 0; k < op->num_out && feeds; k++) {
      feeds = msc_has_uses(&op->out[k]);
      for (const msc_use *u = op->out[k].uses; u && feeds; u = u->next)
        feeds = (z->feeds_update[u->user->id] && !is_product(u->user)) || is_new_value(u, ties);
    }
    z->feeds_update[i] = feeds;
  }
}

static bool is_random(const msc_op *op) {
  bool any = msc_info(op)->flags & MSC_RANDOM;
  for (const msc_op *inner = op->body ? op->body->first : NULL; inner && !any; inner = inner->next)
    any = msc_info(inner)->flags & MSC_RANDOM;
  return any;
}

/* From single numbers alone. */
static void find_draws(ordering *z) {
  for (size_t i = 0; i < z->deps.num_ops; i++) {
    const msc_op *op = z->deps.op[i];
    bool draws = !z->feeds_update[i] && is_random(op);
    for (size_t k = 0; k < op->num_in && draws; k++) draws = msc_type_elems(op->in[k].value->type) == 1;
    z->draws[i] = draws;
  }
}

static bool is_number(const msc_value *v) { return msc_type_elems(v->type) == 1; }

static void find_counts(ordering *z) {
  for (size_t i = 0; i < z->deps.num_ops; i++) {
    const msc_op *op = z->deps.op[i];
    bool counts = op->num_out && msc_info(op)->flags & MSC_PURE && !msc_op_attr(op, "recompute");
    for (size_t k = 0; k < op->num_in && counts; k++) counts = is_number(op->in[k].value);
    for (size_t k = 0; k < op->num_out && counts; k++) counts = is_number(&op->out[k]);
    z->counts[i] = counts;
  }
}

static bool runs_soon(const ordering *z, size_t i) { return z->feeds_update[i] || z->counts[i]; }

static void find_waiters(ordering *z, msc_arena *arena) {
  size_t n = z->deps.num_ops;
  uint32_t *at = msc_new_array(arena, uint32_t, n + 1);
  for (size_t i = 0; i < z->deps.first[n]; i++) z->first[z->deps.before[i] + 1]++;
  for (size_t i = 0; i < n; i++) z->first[i + 1] += z->first[i];
  memcpy(at, z->first, n * sizeof *at);
  for (uint32_t i = 0; i < n; i++)
    for (const uint32_t *p = msc_depend_begin(&z->deps, i); p < msc_depend_end(&z->deps, i); p++) {
      z->waiter[at[*p]++] = i;
      z->pending[i]++;
    }
}

/* Runs op i; then, at once, those that run soon and that it was the last to hold up.  A stack, not recursion:
 * chains are long. */
static void run(ordering *z, msc_block *b, uint32_t i, bool *done, uint32_t *stack) {
  size_t depth = 0;
  stack[depth++] = i;
  while (depth) {
    uint32_t op = stack[--depth];
    done[op] = true;
    msc_append(b, z->deps.op[op]);
    for (uint32_t k = z->first[op + 1]; k-- > z->first[op];) {
      uint32_t w = z->waiter[k];
      if (--z->pending[w] == 0 && runs_soon(z, w)) stack[depth++] = w;
    }
  }
}

/* The numbers that it needs. */
static void run_draws(ordering *z, msc_block *b, uint32_t i, bool *done, uint32_t *stack) {
  for (const uint32_t *p = msc_depend_begin(&z->deps, i); p < msc_depend_end(&z->deps, i); p++)
    if (z->draws[*p] && !done[*p]) run(z, b, *p, done, stack);
}

static void order_func(msc_pass_ctx *pass, msc_func *f) {
  msc_arena *a = pass->scratch;
  ordering z = {.deps = msc_depend_of(a, f)};
  size_t n = z.deps.num_ops;
  z.feeds_update = msc_new_array(a, bool, n), z.draws = msc_new_array(a, bool, n), z.counts = msc_new_array(a, bool, n);
  z.pending = msc_new_array(a, uint32_t, n);
  z.first = msc_new_array(a, uint32_t, n + 1);
  z.waiter = msc_new_array(a, uint32_t, z.deps.first[n] + 1);
  bool *done = msc_new_array(a, bool, n);
  uint32_t *stack = msc_new_array(a, uint32_t, n + 1);
  find_feeders(&z, msc_func_attr(f, "ties"));
  find_draws(&z);
  find_counts(&z);
  find_waiters(&z, a);
  f->body->first = f->body->last = NULL;
  for (uint32_t i = 0; i < n; i++)
    if (z.counts[i] && !z.pending[i] && !done[i]) run(&z, f->body, i, done, stack);
  for (uint32_t i = 0; i < n; i++) {
    if (done[i] || z.draws[i]) continue;
    run_draws(&z, f->body, i, done, stack);
    if (!done[i] && (!runs_soon(&z, i) || z.pending[i] == 0)) run(&z, f->body, i, done, stack);
  }
}

bool pass_order(msc_pass_ctx *pass, msc_module *m) {
  for (msc_func *f = m->first; f; f = f->next)
    if (msc_func_attr(f, "ties")) order_func(pass, f);
  return true;
}
