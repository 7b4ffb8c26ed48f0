/* aggregate: the ops between the sum of a gradient over the replicas and the optimizer, for gradients_mean and
 * gradient_fp32_sync.
 *
 * gradients_mean divides every gradient by the number of parts that the batch is cut into (the function attribute
 * gradients_over), so that together they are the gradient of one loss. With gradients_mean_of `parameter` each is
 * divided by the number of ranks over which it is summed, which differs where layouts do. */
#include <string.h>

#include "passes/2_train/batch.h"
#include "passes/3_shard/shard.h"
#include "passes/config/config.h"
#include "passes/pass.h"

typedef struct {
  msc_pass_ctx *pass;
  msc_func *f;
  bool wide;
  int64_t over;              /* divisor of every gradient; 0: each by the number of its own replicas; 1: none */
  const bool *is_optimizers; /* by op id */
  struct {
    const msc_layout *want;
    msc_value *value;
  } * brought; /* by value id of a gradient: the result that was last built for a user, and its layout */
} aggregator;

static int64_t num_partial_ranks(const msc_layout *l) {
  return msc_group_size(l->num_partial, l->sub + l->first[l->rank]);
}

/* The largest number of parts into which an op cuts the batch of the inputs; 0 after a report. */
static int64_t num_batch_parts(msc_func *f, msc_arena *arena) {
  msc_batch_reading r;
  int64_t size = 0, parts = 1;
  msc_batch_begin(&r, f, arena, MSC_BATCH_ANYHOW);
  for (size_t i = 0; i < f->body->num_args && !size; i++)
    if (msc_batch_dim(f, i) >= 0) size = f->body->args[i]->type->dim[msc_batch_dim(f, i)];
  for (const msc_op *op = f->body->first; op->next; op = op->next) {
    if (!msc_batch_read(&r, op)) return 0;
    for (size_t i = 0; i < op->num_out; i++) {
      const msc_batch_fact *fact = msc_batch_of(&r, &op->out[i]);
      const msc_type *t = op->out[i].type;
      if (fact->meaning != MSC_BATCH_PART || fact->outer != 1 || t->dim[fact->dim] != size || !t->layout) continue;
      int64_t own = msc_layout_parts(t->layout, fact->dim);
      if (own > parts) parts = own;
    }
  }
  return parts;
}

/* True if operand `at` is a gradient of the model, not a value of the optimizer. */
static bool is_optimizer_gradient(const aggregator *a, const msc_op *op, size_t at) {
  const msc_value *v = op->in[at].value;
  if (!v->def || a->is_optimizers[v->def->id] || msc_info(v->def)->flags & MSC_UPDATE || !msc_is_float(v->type->dtype))
    return false;
  if (!(msc_info(op)->flags & MSC_UPDATE)) return !msc_is_constant_op(v->def);
  return at < (size_t)msc_info(op)->num_operands && !strcmp(msc_info(op)->operand[at].name, "g");
}

/* Builds an op before the update. want: the layout that the op needs each operand in; layout: that of its result. */
static msc_value *build_before_update(aggregator *a, msc_op *update, msc_op_kind kind, size_t num, msc_value **in,
                                      const msc_layout **want, const msc_layout *layout, const msc_dtype *dtype) {
  msc_context *ctx = a->pass->ctx;
  msc_builder b = {.func = a->f, .before = update, .loc = update->loc, .name = update->name};
  msc_attr attrs[2] = {msc_fact_in_layout(ctx, num, want)};
  if (dtype) attrs[1] = msc_dtype_attr(ctx, *dtype);
  msc_op *op = msc_build_with(&b, kind, num, in, 1, dtype ? 2 : 1, attrs);
  if (!op) return NULL;
  msc_op_copy_attr(op, update, MSC_FACT(stage));
  op->out[0].type = msc_type_with_layout(ctx, op->out[0].type, layout);
  return &op->out[0];
}

static msc_value *build_scaled_gradient(aggregator *a, msc_op *update, msc_value *g, const msc_layout *want,
                                        double factor) {
  msc_builder b = {.func = a->f, .before = update, .loc = update->loc};
  msc_value *c = msc_build_scalar(&b, g->type->dtype, factor);
  if (!c) return NULL;
  const msc_layout *whole = msc_layout_replicated(a->pass->ctx, 0);
  c->type = msc_type_with_layout(a->pass->ctx, c->type, whole);
  return build_before_update(a, update, OP_mul, 2, (msc_value *[]){g, c}, (const msc_layout *[]){want, whole}, want,
                             NULL);
}

/* Replaces operand `at` of an optimizer op by its quotient if it is a gradient with a divisor; with gradient_fp32_sync
 * 16-bit gradients are summed over ranks, and divided, in f32. Users that need the result in one layout share it. */
static bool aggregate_operand(aggregator *a, msc_op *op, size_t at) {
  msc_value *v = op->in[at].value, *g = v;
  const msc_layout *have = g->type->layout, *want = have;
  if (!have || a->is_optimizers[v->def->id]) return true;
  if (msc_op_attr(op, MSC_FACT(in_layout))) want = msc_wanted_layout(op, at);
  bool summed =
      msc_op_attr(op, MSC_FACT(in_layout)) && have->num_partial && have->reduction == MSC_SUM && !want->num_partial;
  int64_t over = a->over  ? (summed || is_optimizer_gradient(a, op, at) ? a->over : 1)
                 : summed ? num_partial_ranks(have)
                          : 1;
  if (want->num_partial || (!summed && over == 1)) return true;
  if (a->brought[v->id].want == want) return msc_set_operand(op, at, a->brought[v->id].value), true;
  msc_dtype narrow = g->type->dtype;
  bool widen = summed && a->wide && (narrow == MSC_F16 || narrow == MSC_BF16);
  if (widen) MSC_TRY((g = build_before_update(a, op, OP_cast, 1, &g, &have, have, &(msc_dtype){MSC_F32})));
  if (over > 1) MSC_TRY((g = build_scaled_gradient(a, op, g, want, 1.0 / (double)over)));
  if (widen) MSC_TRY((g = build_before_update(a, op, OP_cast, 1, &g, &want, want, &narrow)));
  msc_set_operand(op, at, g);
  a->brought[v->id].want = want;
  a->brought[v->id].value = g;
  return true;
}

bool pass_aggregate(msc_pass_ctx *pass, msc_module *m) {
  msc_func *f = msc_program_func(m, MSC_PROGRAM_TRAIN);
  if (!f) return true;
  msc_parallel_mode mode = msc_config_parallel_mode(pass->config);
  /* in data_parallel the mean is part of the objective (2_train/replica_objective) */
  bool global = mode == MSC_SEMI_AUTO_PARALLEL || mode == MSC_AUTO_PARALLEL;
  msc_numbering n = msc_number(f->body);
  aggregator a = {.pass = pass, .f = f, .is_optimizers = shard_optimizer_ops(pass->scratch, f)};
  bool mean = global && msc_config_bool(pass->config, MSC_KEY_gradients_mean),
       each = msc_config_choice(pass->config, MSC_KEY_gradients_mean_of) == 1;
  a.over = !mean ? 1 : each ? 0 : num_batch_parts(f, pass->scratch);
  if (mean && !each && !a.over) return false;
  if (mean && !each) msc_func_put(f, msc_fact_gradients_over(a.over));
  a.wide = msc_config_bool(pass->config, MSC_KEY_gradient_fp32_sync);
  a.brought = msc_arena_alloc(pass->scratch, (n.num_values + 1) * sizeof *a.brought);
  msc_op **op = msc_new_array(pass->scratch, msc_op *, n.num_ops);
  for (msc_op *o = f->body->first; o; o = o->next) op[o->id] = o;
  for (uint32_t i = 0; i < n.num_ops; i++)
    for (size_t t = 0; t < op[i]->num_in; t++)
      if (op[i]->in[t].value->def && (msc_info(op[i])->flags & MSC_UPDATE || a.is_optimizers[i]))
        MSC_TRY(aggregate_operand(&a, op[i], t));
  return true;
}
