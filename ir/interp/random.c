/* random.c: a random op and its operands on one rank in; its results out.  An element's random number depends on its
 * place in the whole tensor. */
#include "ir/interp/kernel.h"
#include "ir/abi/philox.h"

/* Returns the row-major number of an element of result 0 in the whole tensor. */
static int64_t number_in_whole(const msc_eval *e, const int64_t *index) {
  const msc_piece *y = &e->out[0];
  int64_t place = 0;
  for (int d = 0; d < y->rank; d++)
    place = place * (e->whole ? e->whole[d] : y->full[d]) + index[d] + (e->begin ? e->begin[d] : 0);
  return place;
}

/* Returns the random word of an element; `key`: the number of operand `seed`, which operand `step` follows. */
static uint32_t word_of(msc_eval *e, size_t key, const int64_t *index) {
  uint64_t seed = msc_piece_get(e, key, NULL).u, step = msc_piece_get(e, key + 1, NULL).u;
  return msc_philox_element(seed, number_in_whole(e, index), (uint32_t)step, (uint32_t)msc_op_int(e->op, "salt"));
}

/* Computes uniform numbers below 1: each has as many of a word's first bits as its element type has digits. */
void eval_uniform(msc_eval *e) {
  const msc_piece *y = &e->out[0];
  int64_t index[MSC_MAX_RANK];
  if (e->op->num_in == 1) msc_fault(e, "no seed is given");
  for (bool more = msc_first_index(y, index); more && e->op->num_in > 1; more = msc_next_index(y, index)) {
    uint32_t word = word_of(e, 1, index) & msc_uniform_mask(y->dtype);
    msc_piece_put(e, 0, index, (msc_scalar){.f = word * 0x1p-32});
  }
}

/* Multiplies in f32, or f64 for f64, as the kernels do. */
void eval_dropout(msc_eval *e) {
  const msc_piece *y = &e->out[0];
  double rate = msc_op_float(e->op, "rate"), scale = 1 / (1 - rate);
  bool wide = y->dtype == MSC_F64;
  int64_t index[MSC_MAX_RANK];
  for (bool more = msc_first_index(y, index); more; more = msc_next_index(y, index)) {
    msc_scalar x = msc_piece_get(e, 0, index);
    if (e->op->num_in > 1 && word_of(e, 1, index) < msc_dropout_threshold(rate)) x.f = 0;
    else if (e->op->num_in > 1) x.f = wide ? x.f * scale : (double)((float)x.f * (float)scale);
    msc_piece_put(e, 0, index, x);
  }
}
