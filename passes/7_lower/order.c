/* order: program order -> ops that only feed parameter updates run as early as they can, so that live ranges of
 * gradients are short.
 *
 * An op feeds updates if all its results end in update ops without passing through another product; such an op runs
 * as soon as its predecessors have run.  An op that only draws random numbers waits for their first user: its result
 * is large, and it has no operands to keep.  Ops on single numbers, as those that all updates of a step share, run
 * early too: their results take no room, and many ops need them.  Other ops keep their order. */
#include <string.h>

#include "passes/7_lower/depend.h"
#include "passes/pass.h"

typedef struct {
  msc_depend deps;
  bool *feeds_update, *is_draw, *is_scalar; /* by op id */
  uint32_t *pending;                        /* by op id: number of predecessors that have not run yet */
  uint32_t *first, *successor;              /* successors of op i: successor[first[i]] .. successor[first[i+1]-1] */
} op_orderer;

static bool costs_flops(const msc_op *op) { return msc_info(op)->cost == MSC_COST_FLOPS; }

/* True if this use is a return that makes the value the new one of an argument. */
static bool is_new_argument_value(const msc_use *u, const msc_attr_value *ties) {
  size_t at = (size_t)(u - u->user->in);
  return msc_is_return(u->user) && at < ties->list.num && ties->list.v[at].i >= 0;
}

/* Goes through the ops from last to first.  An op feeds updates if every user does, or is the return of an
 * argument's new value.  A product as user ends the chain: otherwise the whole backward would feed updates. */
static void find_update_feeders(op_orderer *z, const msc_attr_value *ties) {
  for (size_t i = z->deps.num_ops; i-- > 0;) {
    const msc_op *op = z->deps.op[i];
    bool feeds = op->num_out > 0 && !msc_op_attr(op, MSC_FACT(recompute));
    for (size_t k = 0; k < op->num_out && feeds; k++) {
      feeds = msc_has_uses(&op->out[k]);
      for (const msc_use *u = op->out[k].uses; u && feeds; u = u->next)
        feeds = (z->feeds_update[u->user->id] && !costs_flops(u->user)) || is_new_argument_value(u, ties);
    }
    z->feeds_update[i] = feeds;
  }
}

static bool contains_random_op(const msc_op *op) {
  bool any = msc_info(op)->flags & MSC_RANDOM;
  for (const msc_op *inner = op->body ? op->body->first : NULL; inner && !any; inner = inner->next)
    any = msc_info(inner)->flags & MSC_RANDOM;
  return any;
}

/* Finds ops that draw random numbers and read single numbers only. */
static void find_random_draws(op_orderer *z) {
  for (size_t i = 0; i < z->deps.num_ops; i++) {
    const msc_op *op = z->deps.op[i];
    bool draws = !z->feeds_update[i] && contains_random_op(op);
    for (size_t k = 0; k < op->num_in && draws; k++) draws = msc_type_elems(op->in[k].value->type) == 1;
    z->is_draw[i] = draws;
  }
}

static bool is_single_number(const msc_value *v) { return msc_type_elems(v->type) == 1; }

static void find_scalar_ops(op_orderer *z) {
  for (size_t i = 0; i < z->deps.num_ops; i++) {
    const msc_op *op = z->deps.op[i];
    bool counts = op->num_out && msc_info(op)->flags & MSC_PURE && !msc_op_attr(op, MSC_FACT(recompute));
    for (size_t k = 0; k < op->num_in && counts; k++) counts = is_single_number(op->in[k].value);
    for (size_t k = 0; k < op->num_out && counts; k++) counts = is_single_number(&op->out[k]);
    z->is_scalar[i] = counts;
  }
}

static bool runs_early(const op_orderer *z, size_t i) { return z->feeds_update[i] || z->is_scalar[i]; }

static void find_successors(op_orderer *z, msc_arena *arena) {
  size_t n = z->deps.num_ops;
  uint32_t *at = msc_new_array(arena, uint32_t, n + 1);
  for (size_t i = 0; i < z->deps.first[n]; i++) z->first[z->deps.before[i] + 1]++;
  for (size_t i = 0; i < n; i++) z->first[i + 1] += z->first[i];
  memcpy(at, z->first, n * sizeof *at);
  for (uint32_t i = 0; i < n; i++)
    for (const uint32_t *p = msc_depend_begin(&z->deps, i); p < msc_depend_end(&z->deps, i); p++) {
      z->successor[at[*p]++] = i;
      z->pending[i]++;
    }
}

/* Appends op i, and then the successors that run early and now have no predecessor left.  A stack, not recursion:
 * chains are long. */
static void append_when_ready(op_orderer *z, msc_block *b, uint32_t i, bool *done, uint32_t *stack) {
  size_t depth = 0;
  stack[depth++] = i;
  while (depth) {
    uint32_t op = stack[--depth];
    done[op] = true;
    msc_append(b, z->deps.op[op]);
    for (uint32_t k = z->first[op + 1]; k-- > z->first[op];) {
      uint32_t w = z->successor[k];
      if (--z->pending[w] == 0 && runs_early(z, w)) stack[depth++] = w;
    }
  }
}

/* Appends the random numbers that op i needs. */
static void append_draws(op_orderer *z, msc_block *b, uint32_t i, bool *done, uint32_t *stack) {
  for (const uint32_t *p = msc_depend_begin(&z->deps, i); p < msc_depend_end(&z->deps, i); p++)
    if (z->is_draw[*p] && !done[*p]) append_when_ready(z, b, *p, done, stack);
}

static void order_func(msc_pass_ctx *pass, msc_func *f) {
  msc_arena *a = pass->scratch;
  op_orderer z = {.deps = msc_depend_of(a, f)};
  size_t n = z.deps.num_ops;
  z.feeds_update = msc_new_array(a, bool, n), z.is_draw = msc_new_array(a, bool, n),
  z.is_scalar = msc_new_array(a, bool, n);
  z.pending = msc_new_array(a, uint32_t, n);
  z.first = msc_new_array(a, uint32_t, n + 1);
  z.successor = msc_new_array(a, uint32_t, z.deps.first[n] + 1);
  bool *done = msc_new_array(a, bool, n);
  uint32_t *stack = msc_new_array(a, uint32_t, n + 1);
  find_update_feeders(&z, msc_func_attr(f, MSC_FACT(ties)));
  find_random_draws(&z);
  find_scalar_ops(&z);
  find_successors(&z, a);
  f->body->first = f->body->last = NULL;
  for (uint32_t i = 0; i < n; i++)
    if (z.is_scalar[i] && !z.pending[i] && !done[i]) append_when_ready(&z, f->body, i, done, stack);
  for (uint32_t i = 0; i < n; i++) {
    if (done[i] || z.is_draw[i]) continue;
    append_draws(&z, f->body, i, done, stack);
    if (!done[i] && (!runs_early(&z, i) || z.pending[i] == 0)) append_when_ready(&z, f->body, i, done, stack);
  }
}

bool pass_order(msc_pass_ctx *pass, msc_module *m) {
  for (msc_func *f = m->first; f; f = f->next)
    if (msc_func_attr(f, MSC_FACT(ties))) order_func(pass, f);
  return true;
}
