/* narrow: values that forward and backward read -> computed once in each, if that takes less memory than to keep them.
 *
 *   a cast to a wider type    the backward gets a cast of its own
 *   elementwise ops on        kernels of a GPU's backward compute them again: x - mean(x) in f32 from x in bf16, a relu
 *   narrower or kept values   from the two terms of a sum, the silu of a gate.  A CPU's do not: a kernel rounds only
 *                             values that it stores, and results must have the same bits for any number of ranks
 *
 * Where no product lies between the two uses, as between a loss and its gradient, one kernel may do both and share the
 * value. */
#include <stdlib.h>

#include "passes/7_lower/target.h"
#include "passes/direction.h"
#include "passes/pass.h"

enum { MOST_OPS = 16, MOST_SOURCES = 8 };

/* The ops that compute a value, and the values in memory that they read. */
typedef struct {
  int num_ops, num_sources;
  const msc_op *op[MOST_OPS];
  const msc_value *source[MOST_SOURCES];
} cone;

/* By op id: the number of products before it. */
static const uint32_t *count_products(msc_arena *scratch, const msc_func *f) {
  uint32_t num = 0, *products = msc_new_array(scratch, uint32_t, f->body->last->id + 1);
  for (const msc_op *op = f->body->first; op; op = op->next) {
    products[op->id] = num;
    num += msc_info(op)->cost == MSC_COST_FLOPS;
  }
  return products;
}

static bool casts_to_wider(const msc_op *op) {
  return op->kind == OP_cast && msc_type_bytes(op->out[0].type) > msc_type_bytes(op->in[0].value->type);
}

/* A GPU computes silu in a few instructions, too; its gradient reads the operand, which is kept for that. */
static bool may_be_remade(const msc_op *op) { return msc_info(op)->flags & MSC_CHEAP || op->kind == OP_silu; }

static bool reads_elementwise(const msc_op *op) {
  return may_be_remade(op) || op->kind == OP_reduce_sum || op->kind == OP_reduce_mean || op->kind == OP_compare ||
         op->kind == OP_select;
}

static bool is_in_backward(const msc_use *u, const bool *forward) { return !forward[u->user->id]; }

/* The first user in the backward, or NULL.  A return belongs to neither. */
static msc_op *first_in_backward(const msc_value *v, const bool *forward) {
  msc_op *first = NULL;
  for (const msc_use *u = v->uses; u; u = u->next)
    if (is_in_backward(u, forward) && (!first || u->user->id < first->id)) first = u->user;
  return first;
}

/* True if an op reads v that is no part of an elementwise kernel, such as a product: then v is stored in any case. */
static bool is_read_whole(const msc_value *v) {
  const msc_use *u = v->uses;
  while (u && reads_elementwise(u->user)) u = u->next;
  return u != NULL;
}

static bool add_op(cone *c, const msc_op *op) {
  for (int i = 0; i < c->num_ops; i++)
    if (c->op[i] == op) return true;
  if (c->num_ops == MOST_OPS) return false;
  c->op[c->num_ops++] = op;
  return true;
}

static bool add_cone_source(cone *c, const msc_value *v) {
  for (int i = 0; i < c->num_sources; i++)
    if (c->source[i] == v) return true;
  if (c->num_sources == MOST_SOURCES) return false;
  c->source[c->num_sources++] = v;
  return true;
}

static int order_by_id(const void *a, const void *b) {
  const msc_op *x = *(const msc_op *const *)a, *y = *(const msc_op *const *)b;
  return x->id < y->id ? -1 : x->id > y->id;
}

/* Collects the ops that compute op's result, back to stored values.  False: they are too many. */
static bool find_cone(const msc_op *op, const bool *forward, cone *out) {
  *out = (cone){.num_ops = 1, .op = {op}};
  for (int done = 0; done < out->num_ops; done++)
    for (size_t i = 0; i < out->op[done]->num_in; i++) {
      const msc_value *v = out->op[done]->in[i].value;
      bool inside = v->def && forward[v->def->id] && may_be_remade(v->def) && !is_read_whole(v);
      MSC_TRY(inside ? add_op(out, v->def) : add_cone_source(out, v));
    }
  qsort(out->op, (size_t)out->num_ops, sizeof *out->op, order_by_id);
  return true;
}

/* True if the sources have no more bytes than the value, and those kept for this alone have fewer.  Smaller sources,
 * such as means and weights, are not counted. */
static bool takes_less_memory(const cone *c, const msc_value *v, const bool *forward) {
  int64_t elems = msc_type_elems(v->type), read = 0, kept = 0;
  for (int i = 0; i < c->num_sources; i++) {
    const msc_value *s = c->source[i];
    if (msc_type_elems(s->type) < elems) continue;
    read += msc_type_bytes(s->type);
    if (s->def && !first_in_backward(s, forward)) kept += msc_type_bytes(s->type);
  }
  return read <= msc_type_bytes(v->type) && kept < msc_type_bytes(v->type);
}

static bool only_kernels_use(const msc_value *v, const bool *forward) {
  for (const msc_use *u = v->uses; u; u = u->next)
    if (is_in_backward(u, forward) && !reads_elementwise(u->user)) return false;
  return true;
}

static void copy_for_backward(msc_func *f, const cone *c, msc_op *op, msc_op *first, const bool *forward) {
  msc_op *copy[MOST_OPS];
  msc_value *in[4];
  for (int i = 0; i < c->num_ops; i++) {
    for (size_t k = 0; k < c->op[i]->num_in; k++) {
      int at = 0;
      while (at < i && &c->op[at]->out[0] != c->op[i]->in[k].value) at++;
      in[k] = at < i ? &copy[at]->out[0] : c->op[i]->in[k].value;
    }
    copy[i] = msc_op_copy(f, c->op[i], in);
    copy[i]->id = first->id;
    msc_insert_before(first, copy[i]);
  }
  for (msc_use *u = op->out[0].uses, *next; u; u = next) {
    next = u->next;
    if (is_in_backward(u, forward)) msc_set_operand(u->user, (size_t)(u - u->user->in), &copy[c->num_ops - 1]->out[0]);
  }
}

static bool pays_to_remake(const msc_op *op, const bool *forward, cone *out) {
  if (casts_to_wider(op)) {
    *out = (cone){.num_ops = 1, .op = {op}};
    return true;
  }
  return msc_target_of(op->block->func->module)->remakes_cheap_values && may_be_remade(op) &&
         only_kernels_use(&op->out[0], forward) && find_cone(op, forward, out) &&
         takes_less_memory(out, &op->out[0], forward);
}

static int64_t narrow_func(msc_arena *scratch, msc_func *f) {
  const bool *forward = msc_forward_ops(scratch, f);
  const uint32_t *products = count_products(scratch, f);
  int64_t num = 0;
  cone c;
  for (msc_op *op = f->body->first; op; op = op->next) {
    msc_op *first = forward[op->id] && op->num_out ? first_in_backward(&op->out[0], forward) : NULL;
    if (!first || products[first->id] == products[op->id] || !pays_to_remake(op, forward, &c)) continue;
    copy_for_backward(f, &c, op, first, forward);
    num++;
  }
  return num;
}

bool pass_narrow(msc_pass_ctx *pass, msc_module *m) {
  int64_t num = 0;
  for (msc_func *f = m->first; f; f = f->next) num += narrow_func(pass->scratch, f);
  if (!num) return msc_not_asked_for(pass);
  msc_stat(pass, "values made again in the backward", num);
  return true;
}
