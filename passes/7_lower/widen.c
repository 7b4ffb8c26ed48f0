/* widen.c: gives a product of f16 or bf16 a result in f32.  Its operands are exact in f32, so sums grow in f32 and a
 * cast rounds them once; users that want f32, such as an update or a sum over ranks, read the result without that
 * rounding. Operands are cast too if the chosen implementation takes none of 16 bits; a convolution on a CPU then knows
 * that it may multiply them in bf16.  A convolution that becomes a product as it stands is widened as a product. */
#include "ir/conv.h"
#include "passes/7_lower/choose.h"
#include "passes/7_lower/gpu/library.h"

/* The implementation that would compute the op in f32. */
static msc_choice choose_in_f32(msc_arena *arena, msc_op *op, const msc_choices *choices) {
  const msc_type *narrow = op->out[0].type;
  op->out[0].type = msc_type_of(msc_op_ctx(op), MSC_F32, narrow->rank, narrow->dim, NULL);
  msc_choice by = msc_choose(arena, op, choices).by;
  op->out[0].type = narrow;
  return by;
}

static msc_value *insert_cast(msc_op *where, msc_value *v, msc_dtype dtype) {
  msc_context *ctx = msc_op_ctx(where);
  msc_op *cast = msc_op_new(where->block->func, OP_cast, 1, &v, 1, where->loc);
  msc_op_put(cast, msc_dtype_attr(ctx, dtype));
  cast->out[0].type = msc_type_of(ctx, dtype, v->type->rank, v->type->dim, NULL);
  msc_insert_before(where, cast);
  return &cast->out[0];
}

/* Lets users that cast `narrow` to f32 read `wide` instead. */
static void bypass_casts(msc_value *narrow, msc_value *wide) {
  for (msc_use *u = narrow->uses, *next; u; u = next) {
    msc_op *cast = u->user;
    next = u->next;
    if (cast->kind != OP_cast || cast->out[0].type->dtype != MSC_F32) continue;
    msc_replace_uses(&cast->out[0], wide);
    msc_op_erase(cast);
  }
}

/* True if the op is a convolution that the runtime may multiply in pairs of bf16. */
static bool takes_pairs(const msc_op *op) {
  enum { WIDTH = 32 };
  msc_windows v;
  return msc_is_windowed(op) && msc_window_weights(op) && msc_windows_of_op(op, WIDTH, &v) &&
         msc_windows_take_pairs(&v);
}

msc_op *msc_widen_product(msc_arena *arena, msc_op *op, const msc_choices *choices) {
  msc_dtype narrow = op->out[0].type->dtype;
  bool is_narrow = narrow == MSC_BF16 || narrow == MSC_F16;
  if (!choices->target->widens_products || !is_narrow) return op;
  bool takes_narrow = msc_choose(arena, op, choices).by == MSC_BY_PRODUCT;
  if (choose_in_f32(arena, op, choices) == MSC_BY_KERNEL || (takes_narrow && msc_is_windowed(op))) return op;
  msc_value *in[2] = {op->in[0].value, op->in[1].value};
  for (int i = 0; i < 2 && !takes_narrow; i++) in[i] = insert_cast(op, in[i], MSC_F32);
  msc_op *wide = msc_op_copy(op->block->func, op, in);
  wide->out[0].type = msc_type_of(msc_op_ctx(op), MSC_F32, op->out[0].type->rank, op->out[0].type->dim, NULL);
  if (narrow == MSC_BF16 && takes_pairs(wide)) msc_op_put(wide, msc_fact_narrow(true));
  msc_insert_before(op, wide);
  bypass_casts(&op->out[0], &wide->out[0]);
  if (msc_has_uses(&op->out[0])) msc_replace_uses(&op->out[0], insert_cast(op, &wide->out[0], narrow));
  msc_op_erase(op);
  return wide;
}
