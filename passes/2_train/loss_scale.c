/* loss_scale: the loss's own gradient -> `loss_scale` times as large, so that gradients of f16 do not vanish; and what
 * undoes it before the update: gradients back to their size, and with a dynamic scale no update from a step whose
 * gradients are not all finite.
 *
 * A number becomes a factor of `loss_seed`.  A dynamic scale is state, `loss_scale`, beside `loss_scale.good`, the
 * finite steps since it changed last: after `window` of them it grows by `factor`, a step that is not finite shrinks it
 * by that and is skipped.  All of it is ops of the step: nobody waits for the host, and sums over ranks and stages make
 * them agree.  The function's attribute `loss_scale` is the number, or the argument's number, until pass optimizer
 * has used it. */
#include "passes/2_train/train.h"
#include "passes/config/config.h"
#include "passes/pass.h"

#define LARGEST 0x1p96 /* of a dynamic scale: where nothing overflows it would end as infinity, which never shrinks */

/* ---- before autodiff ---- */

static msc_value *add_state(msc_pass_ctx *pass, msc_func *f, const char *name, const char *init) {
  msc_context *ctx = pass->ctx;
  name = msc_free_arg_name(f, pass->scratch, name);
  msc_value *v = msc_add_arg(f->body, msc_type_of(ctx, MSC_F32, 0, NULL, NULL), name);
  msc_arg_set(f, v->index, "msc.name", msc_str(ctx, name));
  msc_arg_set(f, v->index, "msc.role", msc_str(ctx, msc_role_name(MSC_ROLE_STATE)));
  msc_arg_set(f, v->index, "msc.init", msc_str(ctx, init));
  return v;
}

bool pass_loss_scale(msc_pass_ctx *pass, msc_module *m) {
  msc_loss_scale s = msc_config_loss_scale(pass->config);
  msc_func *f = msc_training_func(m);
  if (!f || msc_func_attr(f, "gradients") || msc_func_attr(f, "loss_scale") || (s.scale == 1 && !s.dynamic))
    return msc_not_asked_for(pass);
  if (s.dynamic) {
    msc_value *scale = add_state(pass, f, "loss_scale", msc_arena_printf(pass->scratch, "constant:%.9g", s.scale));
    add_state(pass, f, "loss_scale.good", "zeros");
    msc_func_set(f, "loss_scale", msc_int(scale->index));
  } else {
    msc_func_set(f, "loss_seed", msc_float(msc_loss_seed(f) * s.scale));
    msc_func_set(f, "loss_scale", msc_float(s.scale));
  }
  pass->changes_meaning = true;
  return true;
}

msc_value *msc_dynamic_scale(const msc_func *f) {
  const msc_attr_value *v = msc_func_attr(f, "loss_scale");
  bool is_arg = v && v->kind == MSC_ATTR_INT && v->i >= 0 && (uint64_t)v->i + 1 < f->body->num_args;
  return is_arg ? f->body->args[v->i] : NULL;
}

/* ---- before the update ---- */

static msc_value *f32(msc_builder *b, double v) { return msc_build_scalar(b, MSC_F32, v); }

/* NULL operands: something before was reported. */
static msc_value *op2(msc_builder *b, msc_op_kind kind, msc_value *x, msc_value *y) {
  return x && y ? msc_build(b, kind, 2, (msc_value *[]){x, y}) : NULL;
}
static msc_value *choose(msc_builder *b, msc_value *c, msc_value *x, msc_value *y) {
  return c && x && y ? msc_build(b, OP_select, 3, (msc_value *[]){c, x, y}) : NULL;
}

bool msc_unscale_gradients(msc_builder *b, size_t num, msc_value **gradient) {
  const msc_attr_value *number = msc_func_attr(b->func, "loss_scale");
  msc_value *scale = msc_dynamic_scale(b->func), *back = NULL;
  if (!number) return true;
  back = scale ? op2(b, OP_div, f32(b, 1), scale) : f32(b, 1 / number->f);
  for (size_t i = 0; i < num; i++)
    if (gradient[i])
      MSC_TRY((gradient[i] = op2(b, OP_mul, gradient[i], msc_value_in(b, back, gradient[i]->type->dtype))));
  return true;
}

/* In one rank's program a gradient may be its own: the sum over all ranks. */
static msc_value *of_all_ranks(msc_builder *b, msc_value *v) {
  const msc_mesh *mesh = &b->func->module->mesh;
  msc_context *ctx = b->func->module->ctx;
  msc_subaxis every[MSC_MAX_AXES];
  if (!v || !msc_func_attr(b->func, "manual")) return v;
  for (int a = 0; a < mesh->num_axes; a++) every[a] = (msc_subaxis){(uint32_t)a, 1, (uint32_t)mesh->axis[a].size};
  msc_attr axes =
      msc_named(ctx, "axes", msc_str(ctx, msc_subaxis_print(msc_context_arena(ctx), mesh, mesh->num_axes, every)));
  msc_op *op = msc_build_with(b, OP_all_reduce, 1, &v, 1, 1, &axes);
  return op ? &op->out[0] : NULL;
}

/* Squares of f32 do not overflow f64: their sum is finite when all of them are. */
bool msc_gradients_finite(msc_builder *b, size_t num, msc_value *const *gradient, msc_value **out_ok) {
  msc_value *sum = NULL;
  *out_ok = NULL;
  for (size_t i = 0; i < num && msc_dynamic_scale(b->func); i++) {
    msc_value *squares = gradient[i] ? msc_sum_of_squares(b, gradient[i]) : NULL;
    if (gradient[i]) MSC_TRY((sum = sum ? op2(b, OP_add, sum, squares) : squares));
  }
  if (!sum) return true;
  MSC_TRY((sum = of_all_ranks(b, sum)));
  return (*out_ok = msc_build(b, OP_is_finite, 1, &sum)) != NULL;
}

bool msc_next_scale(msc_builder *b, const msc_loss_scale *s, msc_value *ok, msc_value **new_value) {
  msc_value *scale = msc_dynamic_scale(b->func);
  if (!scale || !ok) return true;
  msc_context *ctx = b->func->module->ctx;
  msc_value *good = b->func->body->args[scale->index + 1], *one_more = op2(b, OP_add, good, f32(b, 1));
  msc_attr reaches = msc_named(ctx, "predicate", msc_str(ctx, "ge"));
  msc_op *full =
      one_more ? msc_build_with(b, OP_compare, 2, (msc_value *[]){one_more, f32(b, (double)s->window)}, 1, 1, &reaches)
               : NULL;
  if (!full) return false;
  msc_value *grown = op2(b, OP_min, op2(b, OP_mul, scale, f32(b, s->factor)), f32(b, LARGEST));
  msc_value *shrunk = op2(b, OP_max, op2(b, OP_mul, scale, f32(b, 1 / s->factor)), f32(b, 1));
  new_value[scale->index] = op2(b, OP_assign, scale, choose(b, ok, choose(b, &full->out[0], grown, scale), shrunk));
  new_value[good->index] =
      op2(b, OP_assign, good, choose(b, ok, choose(b, &full->out[0], f32(b, 0), one_more), f32(b, 0)));
  return new_value[scale->index] && new_value[good->index];
}
