/* expansion.c: a composite op and what its operands are wanted in -> the layouts of the primitives that it stands for, and what
 * it costs then. */
#include "passes/3_shard/expansion.h"

#include "passes/3_shard/shard.h"

bool shard_lay_expansion(msc_pass_ctx *pass, msc_func *f, const msc_layout *const *in_layout) {
  shard_graph g;
  int64_t conflicts;
  for (size_t i = 0; i < f->body->num_args; i++) {
    msc_value *arg = f->body->args[i];
    if (!in_layout[i]) return true;
    arg->type = msc_type_with_layout(pass->ctx, arg->type, in_layout[i]);
    msc_arg_set(f, i, "msc.layout", msc_str(pass->ctx, msc_layout_print(pass->scratch, &f->module->mesh, in_layout[i])));
  }
  if (!f->body->num_args) return true;
  MSC_TRY(shard_graph_of(pass, f, &g));
  shard_propagate(pass, &g, false, &conflicts);
  shard_lay_ops(pass, &g);
  return true;
}

/* ---- costs ---- */

static double local_elems(const msc_type *t) {
  int64_t dim[MSC_MAX_RANK];
  double n = 1;
  if (!t->layout) return (double)msc_type_elems(t);
  msc_local_dims(t, t->layout, dim);
  for (int d = 0; d < t->rank; d++) n *= (double)dim[d];
  return n;
}

static double bytes_of(const msc_value *v) { return local_elems(v->type) * (double)msc_dtype_bytes(v->type->dtype); }

static double product_flops(const msc_op *op) {
  const msc_value *a = op->in[0].value;
  int inner = a->type->rank - 1 - msc_op_bool(op, "transpose_a");
  int64_t dim[MSC_MAX_RANK];
  msc_local_dims(a->type, a->type->layout, dim);
  return 2 * local_elems(op->out[0].type) * (double)dim[inner];
}

/* The changes of layout that op's operands need. */
static int64_t changes_ns(shard_prices *prices, const msc_op *op) {
  const msc_attr_value *want = msc_op_attr(op, "in_layout");
  msc_context *ctx = msc_op_ctx(op);
  int64_t ns = 0;
  for (size_t i = 0; want && i < op->num_in && i < want->list.num; i++) {
    const msc_type *t = op->in[i].value->type;
    const msc_layout *l = NULL;
    bool again = false;
    for (size_t k = 0; k < i && !again; k++) again = op->in[k].value == op->in[i].value && want->list.v[k].s == want->list.v[i].s;
    if (again || !t->layout || !msc_layout_parse(ctx, &op->block->func->module->mesh, op->loc, want->list.v[i].s, &l) || l == t->layout) continue;
    int to = shard_layout_number(prices, l);
    ns += shard_price_row(prices, msc_type_with_layout(ctx, t, NULL), false, shard_layout_number(prices, t->layout), 1, &to)[to];
    if (ns >= SHARD_IMPOSSIBLE) return SHARD_IMPOSSIBLE;
  }
  return ns;
}

static int64_t inner_ns(msc_pass_ctx *pass, const msc_cost *cost, shard_prices *prices, const msc_op *o) {
  const msc_layout **in = msc_new_array(pass->scratch, const msc_layout *, o->num_in + 1);
  for (size_t i = 0; i < o->num_in; i++) in[i] = o->in[i].value->type->layout;
  if (!o->num_in || !msc_must_expand(o, in)) return 0;
  msc_func *f = msc_expansion_of(o);
  return f ? shard_expansion_ns(pass, cost, prices, f, in, false) : SHARD_IMPOSSIBLE;
}

int64_t shard_expansion_ns(msc_pass_ctx *pass, const msc_cost *cost, shard_prices *prices, msc_func *f, const msc_layout *const *in_layout, bool with_work) {
  double flops = 0, bytes = 0;
  int64_t ns = 0;
  if (!shard_lay_expansion(pass, f, in_layout)) return SHARD_IMPOSSIBLE;
  for (const msc_op *o = f->body->first; o != f->body->last; o = o->next) {
    if (msc_info(o)->cost == MSC_COST_FLOPS && o->in[0].value->type->layout) {
      flops += product_flops(o);
      for (size_t i = 0; i < o->num_in; i++) bytes += bytes_of(o->in[i].value);
      bytes += bytes_of(&o->out[0]);
    }
    ns += changes_ns(prices, o) + inner_ns(pass, cost, prices, o);
    if (ns >= SHARD_IMPOSSIBLE) return SHARD_IMPOSSIBLE;
  }
  if (!with_work || !f->body->num_args) return ns;
  for (size_t i = 0; i < f->body->num_args; i++) bytes += bytes_of(f->body->args[i]);
  for (size_t i = 0; i < f->body->last->num_in; i++) bytes += bytes_of(f->body->last->in[i].value);
  return ns + msc_cost_work(cost, f->body->args[0]->type->dtype, flops, bytes);
}
