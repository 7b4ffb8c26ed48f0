/* expand_random.c: the part of nest/expand.c that draws: each element by its number in the whole tensor, so that any
 * number of ranks draw the same. */

#include "ir/abi/philox.h"
#include "passes/7_lower/nest/expand.h"

/* Loads the scalar operand k. */
static uint16_t scalar_operand(msc_nester *n, const msc_op *op, int k) {
  msc_view none = {0};
  return msc_nest_eval(n, msc_nest_find_value(n, op->in[k].value), &none);
}

/* The random word of the element of t at the view. Operand `key` is the seed, the next one the step. */
static uint16_t random_word(msc_nester *n, const msc_op *op, int key, const msc_type *t, const msc_view *view) {
  msc_type whole = *t;
  int64_t number[MSC_MAX_RANK], stride = 1;
  uint16_t offset, seed = scalar_operand(n, op, key), step = scalar_operand(n, op, key + 1);
  bool parts = msc_op_ints(op, MSC_FACT(starts), number, MSC_MAX_RANK) >= 0;
  if (parts) msc_op_ints(op, MSC_FACT(whole_shape), whole.dim, MSC_MAX_RANK);
  msc_affine at = msc_nest_offset(n, &whole, view, &offset);
  for (int d = t->rank - 1; d >= 0; stride *= whole.dim[d] ? whole.dim[d] : 1, d--) {
    if (!parts || number[d] < 0) continue;
    uint16_t term = msc_nest_op(n, NEST_MUL, msc_nest_start(n, number[d]), msc_nest_dim(n, stride));
    offset = offset ? msc_nest_op(n, NEST_ADD, offset, term) : term;
  }
  if (!offset) offset = msc_nest_number(n, MSC_I64, 0);
  uint16_t upper = msc_nest_op(n, NEST_AND, step, msc_nest_dim(n, UINT32_MAX));
  upper = msc_nest_op(n, NEST_ADD, upper, msc_nest_dim(n, (int64_t)((uint64_t)msc_op_int(op, "salt") << 32)));
  return msc_nest_add(n, (msc_instr){.code = NEST_PHILOX, .dtype = MSC_U32, .arg = {offset, seed, upper}}, &at, 0);
}

uint16_t loop_dropout(msc_nester *n, const msc_value *result, const msc_view *view) {
  const msc_op *op = result->def;
  int x = msc_nest_find_value(n, op->in[0].value);
  const msc_type *t = n->value[x].value->type;
  uint16_t v = msc_nest_eval(n, x, view);
  double rate = msc_op_float(op, "rate");
  if (op->num_in == 1 || n->failed) return v;
  uint16_t threshold = msc_nest_cast(n, msc_nest_dim(n, msc_dropout_threshold(rate)), MSC_U32);
  uint16_t stays = msc_nest_compare(n, NEST_GE, random_word(n, op, 1, t, view), threshold);
  uint16_t scaled = msc_nest_op(n, NEST_MUL, v, msc_nest_scalar(n, t->dtype, 1 / (1 - rate)));
  return msc_nest_select(n, stays, scaled, msc_nest_number(n, (msc_dtype)n->instr[v].dtype, 0));
}

/* Makes a number below 1 of as many bits of the word as the element type has digits, by 2^-32: exact in f32 for all
 * types but f64. */
uint16_t loop_uniform(msc_nester *n, const msc_value *result, const msc_view *view) {
  const msc_op *op = result->def;
  const msc_type *t = result->type;
  if (op->num_in == 1) return msc_nest_refuse(n, "it has no seed");
  uint16_t word = random_word(n, op, 1, t, view), mask = msc_nest_number(n, MSC_U32, msc_uniform_mask(t->dtype));
  msc_dtype wide = t->dtype == MSC_F64 ? MSC_F64 : MSC_F32;
  uint16_t u = msc_nest_cast(n, msc_nest_op(n, NEST_AND, word, mask), wide);
  return msc_nest_cast(n, msc_nest_op(n, NEST_MUL, u, msc_nest_number(n, wide, 0x1p-32)), t->dtype);
}
