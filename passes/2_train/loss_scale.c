/* loss_scale: multiplies the gradient of the loss by `loss_scale`, so that gradients of f16 do not vanish, and undoes
 * it before the update: gradients get their size back, and with a dynamic scale a step whose gradients are not all
 * finite makes no update.
 *
 * A number becomes a factor of `loss_seed`. A dynamic scale is state, `loss_scale`, beside `loss_scale.good`, the
 * number of finite steps since it last changed: after `window` of them it grows by `factor`; a step that is not finite
 * shrinks it by `factor` and is skipped. All of this is ops of the step, so nothing waits for the host, and sums over
 * ranks and stages make them agree. The attribute `loss_scale` of the function is the number, or the number of the
 * argument, until pass optimizer has used it. */
#include "ir/formula.h"
#include "passes/2_train/train.h"
#include "passes/config/config.h"
#include "passes/pass.h"

#define LARGEST 0x1p96 /* limit of a dynamic scale: without overflow it would grow to infinity, which never shrinks */

/* ---- before autodiff ---- */

static msc_value *add_scale_state(msc_pass_ctx *pass, msc_func *f, const char *name, const char *init) {
  msc_context *ctx = pass->ctx;
  name = msc_free_arg_name(f, pass->scratch, name);
  msc_value *v = msc_add_arg(f->body, msc_type_of(ctx, MSC_F32, 0, NULL, NULL), name);
  msc_arg_put(f, v->index, msc_fact_msc_name(ctx, name));
  msc_arg_put(f, v->index, msc_fact_msc_role(ctx, MSC_ROLE_STATE));
  msc_arg_put(f, v->index, msc_fact_msc_init(ctx, init));
  return v;
}

bool pass_loss_scale(msc_pass_ctx *pass, msc_module *m) {
  msc_loss_scale s = msc_config_loss_scale(pass->config);
  msc_func *f = msc_training_func(m);
  if (!f || msc_func_attr(f, MSC_FACT(gradients)) || msc_func_attr(f, MSC_FACT(loss_scale)) ||
      (s.scale == 1 && !s.dynamic))
    return msc_not_asked_for(pass);
  if (s.dynamic) {
    msc_value *scale =
        add_scale_state(pass, f, "loss_scale", msc_arena_printf(pass->scratch, "constant:%.9g", s.scale));
    add_scale_state(pass, f, "loss_scale.good", "zeros");
    msc_func_put(f, msc_fact_loss_scale(msc_int(scale->index)));
  } else {
    msc_func_put(f, msc_fact_loss_seed(msc_loss_seed(f) * s.scale));
    msc_func_put(f, msc_fact_loss_scale(msc_float(s.scale)));
  }
  pass->changes_meaning = true;
  return true;
}

msc_value *msc_dynamic_scale(const msc_func *f) {
  const msc_attr_value *v = msc_func_attr(f, MSC_FACT(loss_scale));
  bool is_arg = v && v->kind == MSC_ATTR_INT && v->i >= 0 && (uint64_t)v->i + 1 < f->body->num_args;
  return is_arg ? f->body->args[v->i] : NULL;
}

/* ---- before the update ---- */

static msc_value *build_f32(msc_builder *b, double v) { return msc_build_scalar(b, MSC_F32, v); }

bool msc_unscale_gradients(msc_builder *b, size_t num, msc_value **gradient) {
  const msc_attr_value *number = msc_func_attr(b->func, MSC_FACT(loss_scale));
  msc_value *scale = msc_dynamic_scale(b->func), *back = NULL;
  if (!number) return true;
  back = scale ? msc_compute(b, "1 / a", scale) : build_f32(b, 1 / number->f);
  for (size_t i = 0; i < num; i++)
    if (gradient[i]) MSC_TRY((gradient[i] = times(b, gradient[i], cast(b, back, gradient[i]->type->dtype))));
  return true;
}

/* The squares of f32 do not overflow f64, so their sum is finite if and only if all elements are. */
bool msc_gradients_finite(msc_builder *b, size_t num, msc_value *const *gradient, msc_value **out_ok) {
  msc_value *sum = NULL;
  *out_ok = NULL;
  for (size_t i = 0; i < num && msc_dynamic_scale(b->func); i++) {
    msc_value *squares = gradient[i] ? msc_sum_of_squares(b, gradient[i]) : NULL;
    if (gradient[i]) MSC_TRY((sum = sum ? plus(b, sum, squares) : squares));
  }
  if (!sum) return true;
  MSC_TRY((sum = msc_sum_over_ranks(b, sum))); /* gradients may be a rank's own */
  return (*out_ok = msc_build(b, OP_is_finite, 1, &sum)) != NULL;
}

bool msc_next_scale(msc_builder *b, const msc_loss_scale *s, msc_value *ok, msc_value **new_value) {
  msc_value *scale = msc_dynamic_scale(b->func);
  if (!scale || !ok) return true;
  msc_value *good = b->func->body->args[scale->index + 1], *one_more = msc_compute(b, "a + 1", good),
            *full = compare(b, MSC_GE, one_more, build_f32(b, (double)s->window)), *most = build_f32(b, LARGEST),
            *grown = msc_compute(b, "min(a * b, c)", scale, build_f32(b, s->factor), most), *least = build_f32(b, 1),
            *shrunk = msc_compute(b, "max(a * b, c)", scale, build_f32(b, 1 / s->factor), least);
  new_value[scale->index] = binary(b, OP_assign, scale, choose(b, ok, choose(b, full, grown, scale), shrunk));
  msc_value *zero = build_f32(b, 0), *counted = choose(b, full, build_f32(b, 0), one_more);
  new_value[good->index] = binary(b, OP_assign, good, choose(b, ok, counted, zero));
  return new_value[scale->index] && new_value[good->index];
}
