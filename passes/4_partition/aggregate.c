/* aggregate: what a gradient meets between its sum over the replicas and the optimizer: gradients_mean, gradient_fp32_sync. */
#include "passes/3_shard/shard.h"
#include "passes/config.h"
#include "passes/pass.h"

typedef struct {
  msc_pass_ctx *pass;
  msc_func *f;
  bool mean, wide;
  const bool *is_optimizers; /* by op id */
  struct {
    const msc_layout *want;
    msc_value *value;
  } *brought; /* by value id */
} aggregating;

static int64_t replicas(const msc_layout *l) {
  int64_t n = 1;
  for (int i = 0; i < l->num_partial; i++) n *= l->sub[l->first[l->rank] + i].size;
  return n;
}

/* A new op before the update whose operands are wanted as given and whose result lies in `layout`. */
static msc_value *build(aggregating *a, msc_op *update, msc_op_kind kind, size_t num, msc_value **in, const msc_layout **want, const msc_layout *layout, const char *dtype) {
  msc_context *ctx = a->pass->ctx;
  msc_attr_value *text = msc_new_array(a->pass->scratch, msc_attr_value, num);
  for (size_t i = 0; i < num; i++) text[i] = msc_str(ctx, msc_layout_print(a->pass->scratch, &a->f->module->mesh, want[i]));
  msc_builder b = {.func = a->f, .before = update, .loc = update->loc, .name = update->name};
  msc_attr attrs[2] = {msc_named(ctx, "in_layout", msc_list(ctx, num, text))};
  if (dtype) attrs[1] = msc_named(ctx, "dtype", msc_str(ctx, dtype));
  msc_op *op = msc_build_with(&b, kind, num, in, 1, dtype ? 2 : 1, attrs);
  if (!op) return NULL;
  if (msc_op_attr(update, "stage")) msc_op_set(op, "stage", *msc_op_attr(update, "stage"));
  op->out[0].type = msc_type_with_layout(ctx, op->out[0].type, layout);
  return &op->out[0];
}

static msc_value *scaled(aggregating *a, msc_op *update, msc_value *g, const msc_layout *want, double factor) {
  msc_builder b = {.func = a->f, .before = update, .loc = update->loc};
  msc_value *c = msc_build_scalar(&b, g->type->dtype, factor);
  if (!c) return NULL;
  const msc_layout *whole = msc_layout_replicated(a->pass->ctx, 0);
  c->type = msc_type_with_layout(a->pass->ctx, c->type, whole);
  return build(a, update, OP_mul, 2, (msc_value *[]){g, c}, (const msc_layout *[]){want, whole}, want, NULL);
}

/* Operand `at` of an op of the optimizer: is it a gradient that is not added up yet?  One is brought once for all who want it alike. */
static bool aggregate(aggregating *a, msc_op *op, size_t at) {
  msc_value *v = op->in[at].value, *g = v;
  const msc_layout *have = g->type->layout, *want = NULL;
  if (!msc_op_attr(op, "in_layout") || !have || !have->num_partial || have->reduction != MSC_SUM || a->is_optimizers[v->def->id]) return true;
  MSC_TRY(shard_wanted(op, at, &want));
  if (want->num_partial) return true;
  if (a->brought[v->id].want == want) return msc_set_operand(op, at, a->brought[v->id].value), true;
  msc_dtype narrow = g->type->dtype;
  bool widen = a->wide && (narrow == MSC_F16 || narrow == MSC_BF16);
  if (widen) MSC_TRY((g = build(a, op, OP_cast, 1, &g, &have, have, "f32")));
  if (a->mean) MSC_TRY((g = scaled(a, op, g, want, 1.0 / (double)replicas(have))));
  if (widen) MSC_TRY((g = build(a, op, OP_cast, 1, &g, &want, want, msc_dtype_name(narrow))));
  msc_set_operand(op, at, g);
  a->brought[v->id].want = want;
  a->brought[v->id].value = g;
  return true;
}

bool pass_aggregate(msc_pass_ctx *pass, msc_module *m) {
  msc_func *f = msc_find_func(m, "train");
  if (!f) return true;
  msc_parallel_mode mode = msc_config_parallel_mode(pass->config);
  /* in data_parallel the mean is part of the objective, see replica_objective */
  bool global = mode == MSC_SEMI_AUTO_PARALLEL || mode == MSC_AUTO_PARALLEL;
  msc_numbering n = msc_number(f->body);
  aggregating a = {.pass = pass, .f = f, .is_optimizers = shard_optimizer_ops(pass->scratch, f)};
  a.mean = global && msc_config_bool(pass->config, MSC_KEY_gradients_mean);
  a.wide = msc_config_bool(pass->config, MSC_KEY_gradient_fp32_sync);
  a.brought = msc_arena_alloc(pass->scratch, (n.num_values + 1) * sizeof *a.brought);
  msc_op **op = msc_new_array(pass->scratch, msc_op *, n.num_ops);
  for (msc_op *o = f->body->first; o; o = o->next) op[o->id] = o;
  for (uint32_t i = 0; i < n.num_ops; i++)
    for (size_t t = 0; t < op[i]->num_in; t++)
      if (op[i]->in[t].value->def && (msc_info(op[i])->flags & MSC_UPDATE || a.is_optimizers[i])) MSC_TRY(aggregate(&a, op[i], t));
  return true;
}
