/* accumulate: func train over one micro-batch, with layouts -> an op `accumulate` on every value that passes from what
 * runs per micro-batch to what runs once per step (the updates, the ops that only updates use, and the loss).
 *
 * A gradient is summed over micro-batches in the layout that it has, partial or not, so that the change to the layout
 * of the update is one collective per step. From zero 2 on it is summed in the layout of the update: less memory, but
 * one collective per micro-batch. With gradient_fp32_sync a cast that widens the gradient comes before the sum, so the
 * sum is f32. */

#include "ir/formula.h"
#include "passes/3_shard/shard.h"
#include "passes/config/config.h"
#include "passes/direction.h"
#include "passes/pass.h"

typedef struct {
  msc_pass_ctx *pass;
  msc_func *f;
  int64_t count;
  bool cuts;       /* sums have the layouts of the updates (zero 2 and 3) */
  bool wide;       /* sums of narrow gradients are f32 */
  bool *per_micro; /* by value id: depends on the micro-batch */
  bool *per_step;  /* by op id: used by updates only, so runs once per step */
  msc_value **sum; /* by value id */
} accumulator;

static bool widens_gradient(const msc_op *op) {
  return op->kind == OP_cast && op->out[0].type->dtype == MSC_F32 && msc_dtype_bytes(op->in[0].value->type->dtype) < 4;
}

/* True if every use of op leads to an update only. A cast that widens a gradient comes before the sum. */
static bool is_used_by_updates_only(const accumulator *a, const msc_op *op) {
  return !(a->wide && widens_gradient(op)) && shard_runs_per_step(op, a->per_step);
}

static const msc_attr_value *stage_attr_of(const msc_value *v) {
  return v->def ? msc_op_attr(v->def, MSC_FACT(stage)) : NULL;
}

/* True if v adds what two stages contribute to the gradient of one parameter: it is added once per step, where the
 * update is. */
static bool is_sum_of_stages(const msc_value *v) {
  const msc_op *op = v->def;
  if (op->kind != OP_add || op->in[0].value->type != v->type || op->in[1].value->type != v->type) return false;
  const msc_attr_value *a = stage_attr_of(op->in[0].value), *b = stage_attr_of(op->in[1].value);
  return a && b && a->i != b->i;
}

/* Replaces cast(a + b) of such a sum by cast(a) + cast(b), each cast where its operand is made, in the cast's
 * layout. */
static void widen_terms(const accumulator *a, msc_op *cast) {
  msc_op *add = cast->in[0].value->def;
  msc_value *in[2];
  for (int i = 0; i < 2; i++) {
    msc_op *own = msc_op_copy(a->f, cast, &add->in[i].value);
    msc_op_copy_attr(own, add->in[i].value->def, MSC_FACT(stage));
    own->forward = cast->forward, own->letters = cast->letters;
    msc_insert_after(add->in[i].value->def, own);
    in[i] = &own->out[0];
  }
  msc_op *sum = msc_op_copy(a->f, add, in);
  sum->out[0].type = cast->out[0].type;
  const msc_layout *both[2] = {cast->out[0].type->layout, cast->out[0].type->layout};
  if (both[0]) msc_op_put(sum, msc_fact_in_layout(a->pass->ctx, 2, both));
  sum->forward = add->forward, sum->letters = add->letters;
  msc_insert_after(cast, sum);
  msc_replace_uses(&cast->out[0], &sum->out[0]);
  msc_op_erase(cast);
  if (!msc_has_uses(&add->out[0])) msc_op_erase(add);
}

/* Numbers the function and finds what runs once per step. */
static msc_numbering find_per_step(accumulator *a) {
  msc_numbering n = msc_number(a->f->body);
  a->per_step = msc_new_array(a->pass->scratch, bool, n.num_ops);
  for (msc_op *op = a->f->body->last; op; op = op->prev) a->per_step[op->id] = is_used_by_updates_only(a, op);
  return n;
}

/* Widens the terms of every sum of stages that is a gradient for an update, and cast for it.  Other sums of stages, of
 * gradients that go on to other ops and of residuals that skip a stage, are sent as narrow as they are. */
static void widen_all_terms(accumulator *a) {
  find_per_step(a);
  for (msc_op *op = a->f->body->first, *next; op; op = next) {
    next = op->next;
    bool widens = a->wide && widens_gradient(op) && op->in[0].value->def && is_sum_of_stages(op->in[0].value);
    for (const msc_use *u = op->out[0].uses; u && widens; u = u->next) widens = a->per_step[u->user->id];
    if (widens) widen_terms(a, op);
  }
}

/* Erases the per-micro-batch sums of stages that were replaced by sums per step, so that their terms are not sent
 * for every micro-batch. */
static void erase_replaced_sums(const accumulator *a) {
  for (msc_op *op = a->f->body->last, *previous; op; op = previous) {
    previous = op->prev;
    if (op->num_out == 1 && is_sum_of_stages(&op->out[0]) && !msc_has_uses(&op->out[0])) msc_op_erase(op);
  }
}

/* Builds the sum of v over micro-batches behind v, in the layout `want` (NULL: the layout of v); `mean`: divided by
 * the number of micro-batches. */
static msc_value *accumulate_where_made(accumulator *a, msc_value *v, const msc_layout *want, bool mean) {
  msc_builder b = {.func = a->f, .block = a->f->body, .before = v->def->next, .loc = v->def->loc, .name = v->def->name};
  msc_attr attrs[2] = {msc_fact_count(msc_int(a->count)), msc_named(a->pass->ctx, "mean", msc_bool(true))};
  msc_op *op = msc_build_with(&b, OP_accumulate, 1, &v, 1, mean ? 2 : 1, attrs);
  if (!op) return NULL;
  op->out[0].type = v->type;
  if (want && want != v->type->layout) {
    msc_op_put(op, msc_fact_in_layout(a->pass->ctx, 1, &want));
    op->out[0].type = msc_type_with_layout(a->pass->ctx, v->type, want);
  }
  if (v->def) msc_op_copy_attr(op, v->def, MSC_FACT(stage));
  msc_stat(a->pass, "sums over micro-batches", 1);
  return &op->out[0];
}

static msc_value *accumulate_gradient(accumulator *a, msc_op *user, msc_value *v, const msc_layout *want);

static msc_value *add_stage_sums(accumulator *a, msc_op *user, const msc_op *add, const msc_layout *want) {
  msc_context *ctx = a->pass->ctx;
  msc_value *x = accumulate_gradient(a, user, add->in[0].value, want),
            *y = accumulate_gradient(a, user, add->in[1].value, want);
  msc_builder b = {.func = a->f, .block = a->f->body, .before = user, .loc = add->loc, .name = add->name};
  msc_value *sum = plus(&b, x, y);
  if (!sum) return NULL;
  sum->type = want ? msc_type_with_layout(ctx, add->out[0].type, want) : add->out[0].type;
  msc_op_copy_attr(sum->def, user, MSC_FACT(stage));
  if (!sum->type->layout) return sum;
  const msc_layout *both[2] = {sum->type->layout, sum->type->layout};
  msc_op_put(sum->def, msc_fact_in_layout(ctx, 2, both));
  return sum;
}

/* The sum of gradient v over micro-batches for `user`, built on first use. */
static msc_value *accumulate_gradient(accumulator *a, msc_op *user, msc_value *v, const msc_layout *want) {
  if (!a->sum[v->id])
    a->sum[v->id] =
        is_sum_of_stages(v) ? add_stage_sums(a, user, v->def, want) : accumulate_where_made(a, v, want, false);
  return a->sum[v->id];
}

static bool is_accumulated(const accumulator *a, const msc_value *v) {
  return v->def && v->def->kind != OP_accumulate && a->per_micro[v->id] && !a->per_step[v->def->id];
}

static bool accumulate_operand(accumulator *a, msc_op *op, size_t operand) {
  msc_value *v = op->in[operand].value;
  const msc_layout *want = NULL;
  if (!is_accumulated(a, v)) return true;
  if (a->cuts && v->type->layout && v->type->rank) want = msc_wanted_layout(op, operand);
  msc_value *sum = accumulate_gradient(a, op, v, want);
  if (sum) msc_set_operand(op, operand, sum);
  return sum != NULL;
}

/* A loss that is a quotient: of the sums of both operands, where 2_train has not added the divisor up. */
static bool divide_sums(accumulator *a, msc_op *ret, size_t operand) {
  msc_op *div = ret->in[operand].value->def;
  msc_value *sum[2];
  for (int i = 0; i < 2; i++) {
    sum[i] = div->in[i].value;
    if (!a->per_micro[sum[i]->id]) continue;
    MSC_TRY((sum[i] = accumulate_where_made(a, sum[i], NULL, false)));
    if (stage_attr_of(sum[i])) msc_op_put(sum[i]->def, msc_fact_stage(0));
  }
  msc_op *quotient = msc_op_copy(a->f, div, sum);
  MSC_TRY(quotient);
  if (stage_attr_of(&div->out[0])) msc_op_put(quotient, msc_fact_stage(0));
  msc_insert_before(ret, quotient);
  msc_set_operand(ret, operand, &quotient->out[0]);
  if (!msc_has_uses(&div->out[0])) msc_op_erase(div);
  return true;
}

/* Accumulates the loss. The sum belongs to stage 0, which adds up what every micro-batch sent to it, so that no
 * stage waits for the last one's update. */
static bool accumulate_loss(accumulator *a, msc_op *ret, size_t operand) {
  msc_value *v = ret->in[operand].value;
  if (!is_accumulated(a, v)) return true;
  if (msc_func_attr(a->f, MSC_FACT(micro_quotient)) && v->def->kind == OP_div) return divide_sums(a, ret, operand);
  msc_value *sum = a->sum[v->id] ? a->sum[v->id]
                                 : accumulate_where_made(a, v, NULL, msc_func_attr(a->f, MSC_FACT(micro_mean)) != NULL);
  if (!sum) return false;
  msc_set_operand(ret, operand, sum);
  if (sum->def->kind == OP_accumulate && stage_attr_of(sum)) msc_op_put(sum->def, msc_fact_stage(0));
  return true;
}

bool pass_accumulate(msc_pass_ctx *pass, msc_module *m) {
  accumulator a = {.pass = pass, .f = msc_program_func(m, MSC_PROGRAM_TRAIN)};
  const msc_attr_value *micro = a.f ? msc_func_attr(a.f, MSC_FACT(micro)) : NULL,
                       *loss = a.f ? msc_func_attr(a.f, MSC_FACT(loss)) : NULL;
  if (!micro || !loss || msc_func_attr(a.f, MSC_FACT(accumulated))) return msc_not_asked_for(pass);
  a.count = micro->i;
  a.cuts = msc_config_zero(pass->config) >= 2;
  a.wide = msc_config_bool(pass->config, MSC_KEY_gradient_fp32_sync);
  widen_all_terms(&a);
  a.sum = msc_new_array(pass->scratch, msc_value *, find_per_step(&a).num_values);
  a.per_micro = msc_micro_values(pass->scratch, a.f);
  for (msc_op *op = a.f->body->first; op; op = op->next)
    for (size_t i = 0; i < op->num_in && op->kind != OP_accumulate && a.per_step[op->id]; i++)
      MSC_TRY(accumulate_operand(&a, op, i));
  MSC_TRY(accumulate_loss(&a, a.f->body->last, (size_t)loss->i));
  erase_replaced_sums(&a);
  msc_func_put(a.f, msc_fact_accumulated(true));
  return true;
}
