/* aggregate: what a gradient meets between its sum over the replicas and the update: gradients_mean, gradient_fp32_sync. */
#include <string.h>

#include "passes/config.h"
#include "passes/pass.h"

typedef struct {
  msc_pass_ctx *pass;
  msc_func *f;
  bool mean, wide;
} aggregating;

static int gradient_operand(const msc_op *op) {
  const msc_op_info *info = msc_info(op);
  for (int i = 0; i < info->num_operands && i < op->num_in; i++)
    if (strcmp(info->operand[i].name, "g") == 0) return i;
  return -1;
}

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

static bool aggregate(aggregating *a, msc_op *update) {
  int at = gradient_operand(update);
  const msc_attr_value *wants = at < 0 ? NULL : msc_op_attr(update, "in_layout");
  if (!wants) return true;
  msc_value *g = update->in[at].value;
  const msc_layout *have = g->type->layout, *want = NULL;
  MSC_TRY(msc_layout_parse(a->pass->ctx, &a->f->module->mesh, update->loc, wants->list.v[at].s, &want));
  if (!have || !have->num_partial) return true;
  msc_dtype narrow = g->type->dtype;
  bool widen = a->wide && (narrow == MSC_F16 || narrow == MSC_BF16);
  if (widen) MSC_TRY((g = build(a, update, OP_cast, 1, &g, &have, have, "f32")));
  if (a->mean) MSC_TRY((g = scaled(a, update, g, want, 1.0 / (double)replicas(have))));
  if (widen) MSC_TRY((g = build(a, update, OP_cast, 1, &g, &want, want, msc_dtype_name(narrow))));
  msc_set_operand(update, (size_t)at, g);
  return true;
}

bool pass_aggregate(msc_pass_ctx *pass, msc_module *m) {
  msc_func *f = msc_find_func(m, "train");
  if (!f) return true;
  msc_parallel_mode mode = msc_config_parallel_mode(pass->config);
  /* in data_parallel the mean is part of the objective, see replica_objective */
  bool global = mode == MSC_SEMI_AUTO_PARALLEL || mode == MSC_AUTO_PARALLEL;
  aggregating a = {pass, f, global && msc_config_bool(pass->config, MSC_KEY_gradients_mean), msc_config_bool(pass->config, MSC_KEY_gradient_fp32_sync)};
  for (msc_op *op = f->body->first; op; op = op->next)
    if (msc_info(op)->flags & MSC_UPDATE) MSC_TRY(aggregate(&a, op));
  return true;
}
