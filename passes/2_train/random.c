/* random: random ops -> the same with a number each, `salt`, and with two more operands: the seed of the run and the
 * number of the step. Both are state of the function; its attribute `random_step` names the latter for pass
 * optimizer, which counts it. In a function that is not trained, dropout is removed, and the number of the step stays
 * 0. */

#include "ir/formula.h"
#include "passes/2_train/train.h"
#include "passes/pass.h"

static bool is_random_draw(const msc_op *op) { return (msc_info(op)->flags & MSC_RANDOM) != 0; }

/* True if op still needs its key: the last two operands, seed and step. */
static bool needs_key(const msc_op *op) { return is_random_draw(op) && op->num_in < msc_info(op)->max_in; }

/* ---- numbers ---- */

/* Gives random ops their salts, in program order, after the largest that the model gives. */
static void assign_salts(msc_func *f) {
  int64_t salt = 0;
  for (const msc_op *op = f->body->first; op; op = op->next)
    if (is_random_draw(op) && msc_op_int(op, "salt") > salt) salt = msc_op_int(op, "salt");
  for (msc_op *op = f->body->first; op; op = op->next)
    if (is_random_draw(op) && !msc_op_int(op, "salt")) msc_op_set(op, "salt", msc_int(++salt));
}

/* ---- state ---- */

static msc_value *add_random_state(msc_func *f, msc_arena *arena, const char *name, const char *init) {
  msc_context *ctx = f->module->ctx;
  name = msc_free_arg_name(f, arena, name);
  msc_value *v = msc_add_arg(f->body, msc_type_of(ctx, MSC_I64, 0, NULL, NULL), name);
  msc_arg_put(f, v->index, msc_fact_msc_name(ctx, name));
  msc_arg_put(f, v->index, msc_fact_msc_role(ctx, MSC_ROLE_STATE));
  msc_arg_put(f, v->index, msc_fact_msc_init(ctx, init));
  return v;
}

/* Builds the number that differs between micro-batches: step * micro_size + number of the micro-batch. */
static msc_value *build_draw_number(msc_func *f, msc_value *step) {
  const msc_attr_value *micro = msc_func_attr(f, MSC_FACT(micro));
  msc_value *number = NULL;
  for (size_t i = 0; micro && i < f->body->num_args; i++)
    if (msc_arg_role(f, i) == MSC_ROLE_MICRO) number = f->body->args[i];
  if (!number) return step;
  msc_builder b = {.func = f, .block = f->body, .before = f->body->first, .loc = f->loc, .name = step->name};
  msc_value *k = msc_build_scalar(&b, step->type->dtype, (double)micro->i);
  return msc_compute(&b, "a * b + c", step, k, number);
}

/* counted: pass optimizer counts the steps. */
static bool add_keys(msc_pass_ctx *pass, msc_func *f, bool counted) {
  assign_salts(f);
  msc_value *seed = add_random_state(f, pass->scratch, "random.seed", "seed"),
            *step = add_random_state(f, pass->scratch, "random.step", "zeros");
  msc_value *draw = build_draw_number(f, step);
  MSC_TRY(draw);
  for (msc_op *op = f->body->first; op; op = op->next) {
    if (!needs_key(op)) continue;
    msc_value *in[8];
    size_t num = op->num_in;
    for (size_t i = 0; i < num; i++) in[i] = op->in[i].value;
    in[num++] = seed, in[num++] = draw;
    msc_set_operands(op, num, in);
    msc_stat(pass, "random ops", 1);
  }
  if (counted) msc_func_put(f, msc_fact_random_step(step->index));
  pass->changes_meaning = true;
  return true;
}

/* ---- the pass ---- */

static void remove_dropouts(msc_func *f) {
  for (msc_op *op = f->body->first, *next; op; op = next) {
    next = op->next;
    if (op->kind != OP_dropout || !needs_key(op)) continue;
    msc_replace_uses(&op->out[0], op->in[0].value);
    msc_op_erase(op);
  }
}

bool pass_random(msc_pass_ctx *pass, msc_module *m) {
  msc_func *trained = msc_training_func(m);
  for (msc_func *f = m->first; f; f = f->next) {
    bool any = false;
    if (f != trained) remove_dropouts(f);
    for (const msc_op *op = f->body->first; op; op = op->next) any |= needs_key(op);
    if (any) MSC_TRY(add_keys(pass, f, f == trained));
  }
  return true;
}
