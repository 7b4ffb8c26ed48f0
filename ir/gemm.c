/* gemm.c: op gemm, a product with a bias and a function that are applied before it is stored, in; its shape, its
 * operands by name, and its results in the interpreter out. */
#include "ir/gemm.h"

#include <math.h>
#include <string.h>

#include "ir/interp/kernel.h"
#include "ir/op_table.h"
#include "ir/shape/shape.h"

/* ---- words ---- */

/* Returns the number of `word` in a list of words; -1: it is not in the list. */
static int place_of_word(const char *words, const char *word) {
  size_t length = strlen(word);
  for (int i = 0; words && *words; i++) {
    size_t n = strcspn(words, " ");
    if (n == length && !memcmp(words, word, n)) return i;
    words += n + strspn(words + n, " ");
  }
  return -1;
}

static int count_of(const char *words) {
  int num = 0;
  for (; words && *words; num++) words += strcspn(words, " "), words += strspn(words, " ");
  return num;
}

const char *msc_gemm_word(msc_gemm_extra x) {
  static const char *const words[] = {
#define X(NAME, word) word,
      MSC_GEMM_EXTRAS(X)
#undef X
  };
  return words[x];
}

static int operand_of(const msc_op *gemm, msc_gemm_extra x) {
  int place = place_of_word(msc_op_str(gemm, "takes"), msc_gemm_word(x));
  return place < 0 || place + 2 >= gemm->num_in ? -1 : place + 2;
}

static int result_of(const msc_op *gemm, msc_gemm_extra x) {
  const msc_attr_value *gives = msc_op_attr(gemm, "gives");
  int place = gives ? place_of_word(gives->s, msc_gemm_word(x)) : -1;
  return place < 0 || place + 1 >= gemm->num_out ? -1 : place + 1;
}

msc_value *msc_gemm_operand(const msc_op *gemm, msc_gemm_extra x) {
  int i = operand_of(gemm, x);
  return i < 0 ? NULL : gemm->in[i].value;
}

msc_value *msc_gemm_result(const msc_op *gemm, msc_gemm_extra x) {
  int i = result_of(gemm, x);
  return i < 0 ? NULL : &gemm->out[i];
}

/* Returns the bytes of a row of bits, one for each of n columns. */
static int64_t bit_bytes(int64_t n) { return (n + 127) / 128 * 16; }

/* ---- shape ---- */

/* Computes the type of operand or result `aux`: the argument of gelu, or one bit per element, which is 1 if relu keeps
 * it. */
static void aux_type(const msc_op *op, msc_dtype *out_dtype, int64_t *out_dim) {
  const msc_type *y = op->out[0].type;
  memcpy(out_dim, y->dim, sizeof *out_dim * (size_t)y->rank);
  *out_dtype = msc_op_bool(op, "relu") ? MSC_U8 : y->dtype;
  if (*out_dtype == MSC_U8) out_dim[y->rank - 1] = bit_bytes(out_dim[y->rank - 1]);
}

static bool must_be(msc_op *op, int i, const char *word, msc_dtype dtype, int rank, const int64_t *dim) {
  if (i < 0) return true;
  const msc_type *t = shape_in(op, (size_t)i), *wanted = msc_type_of(msc_op_ctx(op), dtype, rank, dim, NULL);
  /* dim is NULL for a scalar */
  bool same = t->dtype == dtype && t->rank == rank && (rank == 0 || !memcmp(t->dim, dim, sizeof *dim * (size_t)rank));
  return same || shape_wrong(op, "'%s' must be %s, not %s", word, shape_text(op, wanted), shape_text(op, t));
}

static bool check_gemm_operands(msc_op *op) {
  const msc_type *y = op->out[0].type;
  int64_t dim[MSC_MAX_RANK];
  msc_dtype aux;
  int bias = operand_of(op, MSC_GEMM_BIAS);
  if (op->num_in > 2 && count_of(msc_op_str(op, "takes")) != op->num_in - 2)
    return shape_wrong(op, "%d operands behind 'b' for takes = \"%s\"", op->num_in - 2, msc_op_str(op, "takes"));
  if (bias >= 0) {
    const msc_type *t = shape_in(op, (size_t)bias);
    if (t->dtype != y->dtype) return must_be(op, bias, "bias", y->dtype, 1, &y->dim[y->rank - 1]);
    if (t->rank != 1 || t->dim[0] != y->dim[y->rank - 1])
      return shape_wrong(op, "'bias' must have the %" D " columns of the result, not shape %s", y->dim[y->rank - 1],
                         shape_text(op, t));
  }
  aux_type(op, &aux, dim);
  if (operand_of(op, MSC_GEMM_UNLESS) >= 0 && operand_of(op, MSC_GEMM_ADD) < 0)
    return shape_wrong(op, "'unless' is said of 'add', which it has not");
  return must_be(op, operand_of(op, MSC_GEMM_ADD), "add", y->dtype, y->rank, y->dim) &&
         must_be(op, operand_of(op, MSC_GEMM_UNLESS), "unless", MSC_I1, 0, NULL) &&
         must_be(op, operand_of(op, MSC_GEMM_AUX), "aux", aux, y->rank, dim);
}

static bool set_results(msc_op *op) {
  const msc_type *y = op->out[0].type;
  const msc_attr_value *gives = msc_op_attr(op, "gives");
  int64_t dim[MSC_MAX_RANK];
  msc_dtype dtype;
  int aux = result_of(op, MSC_GEMM_AUX), sum_a = result_of(op, MSC_GEMM_SUM_A), sum_b = result_of(op, MSC_GEMM_SUM_B);
  if (count_of(gives ? gives->s : NULL) != op->num_out - 1)
    return shape_wrong(op, "%d results behind 'y' for gives = \"%s\"", op->num_out - 1, gives ? gives->s : "");
  if ((aux > 0) + (sum_a > 0) + (sum_b > 0) != op->num_out - 1 || op->num_out > 2)
    return shape_wrong(op, "gives = \"%s\": there are aux, sum_a and sum_b, one at most", gives->s);
  aux_type(op, &dtype, dim);
  if (aux > 0) return shape_set(op, (size_t)aux, dtype, y->rank, dim);
  if (op->num_out > 1 && y->rank != 2) return shape_wrong(op, "sums of matrices of a batch");
  if (sum_a > 0) return shape_set(op, (size_t)sum_a, y->dtype, 1, &y->dim[0]);
  return sum_b < 0 || shape_set(op, (size_t)sum_b, y->dtype, 1, &y->dim[1]);
}

static bool check_function(msc_op *op) {
  bool relu = msc_op_bool(op, "relu"), gelu = msc_op_bool(op, "gelu"), slope = msc_op_bool(op, "slope");
  if (relu && gelu) return shape_wrong(op, "relu and gelu at once");
  if (slope != (operand_of(op, MSC_GEMM_AUX) >= 0))
    return shape_wrong(op, "a slope is taken at 'aux', and 'aux' is for a slope");
  if ((slope || result_of(op, MSC_GEMM_AUX) >= 0) && !relu && !gelu) return shape_wrong(op, "neither relu nor gelu");
  return true;
}

static bool set_dtype(msc_op *op) {
  const msc_attr_value *name = msc_op_attr(op, "dtype");
  if (!name) return true;
  msc_dtype dtype = msc_op_dtype(op);
  const msc_type *y = op->out[0].type;
  if (dtype != MSC_F32 || msc_dtype_bytes(y->dtype) > 4)
    return shape_wrong(op, "a product of %s in %s", msc_dtype_name(y->dtype), msc_dtype_name(dtype));
  return shape_set(op, 0, dtype, y->rank, y->dim);
}

bool shape_gemm(msc_op *op) {
  MSC_TRY(shape_must_be_float(op, 0));
  if (msc_op_int(op, "tile") < 0) return shape_wrong(op, "tile %" D " must not be negative", msc_op_int(op, "tile"));
  int64_t columns = msc_op_int(op, "tile_columns");
  if (columns < 0 || (columns && !msc_op_int(op, "tile")))
    return shape_wrong(op, "tile_columns %" D " without rows of a tile, or negative", columns);
  MSC_TRY(shape_batch_matmul(op) && set_dtype(op));
  const msc_type *a = shape_in(op, 0);
  int64_t blocks = msc_op_int(op, MSC_FACT(blocks)), inner = a->dim[a->rank - 1 - msc_op_bool(op, "transpose_a")];
  if (blocks < 1 || blocks > MSC_MAX_SUM_BLOCKS || (blocks & (blocks - 1)) || inner % blocks)
    return shape_wrong(op, "blocks %" D " is not a power of two up to %d that divides the inner size %" D, blocks,
                       MSC_MAX_SUM_BLOCKS, inner);
  return check_gemm_operands(op) && check_function(op) && set_results(op);
}

/* ---- values ---- */

static double gelu(double x) { return 0.5 * x * (1 + tanh(0.79788456080286536 * (x + 0.044715 * x * x * x))); }

static double gelu_slope(double x) {
  double t = tanh(0.79788456080286536 * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.79788456080286536 * (1 + 3 * 0.044715 * x * x);
}

/* Turns the index of an element of y into that of the byte of `aux` that holds its bit, and returns the bit's
 * number. */
static int find_bit(int64_t *index, int rank) {
  int bit = (int)(index[rank - 1] % 8);
  index[rank - 1] /= 8;
  return bit;
}

static double slope_at(msc_eval *e, const int64_t *index, bool relu) {
  int64_t at[MSC_MAX_RANK];
  size_t aux = (size_t)operand_of(e->op, MSC_GEMM_AUX);
  int rank = e->out[0].rank;
  memcpy(at, index, sizeof *at * (size_t)rank);
  if (!relu) return gelu_slope(msc_piece_get(e, aux, at).f);
  int bit = find_bit(at, rank);
  return (double)(msc_piece_get(e, aux, at).u >> bit & 1);
}

static void keep_aux(msc_eval *e, const int64_t *index, double v, bool relu) {
  int64_t at[MSC_MAX_RANK];
  int place = result_of(e->op, MSC_GEMM_AUX), rank = e->out[0].rank;
  if (place < 0) return;
  memcpy(at, index, sizeof *at * (size_t)rank);
  if (!relu) {
    msc_piece_put(e, (size_t)place, at, (msc_scalar){.f = v});
    return;
  }
  uint64_t bit = 1ull << find_bit(at, rank);
  int64_t offset = msc_piece_offset(&e->out[place], at);
  msc_scalar byte = msc_load(MSC_U8, e->out[place].data, offset);
  byte.u = v > 0 ? byte.u | bit : byte.u & ~bit;
  msc_store(MSC_U8, e->out[place].data, offset, byte);
}

static void clear_aux(msc_eval *e) {
  int64_t index[MSC_MAX_RANK];
  int place = result_of(e->op, MSC_GEMM_AUX);
  if (place < 0) return;
  for (bool more = msc_first_index(&e->out[place], index); more; more = msc_next_index(&e->out[place], index))
    msc_piece_put(e, (size_t)place, index, msc_scalar_of(e->out[place].dtype, 0));
}

/* Sums operand i over dimension `inner`. */
static void sum_operand(msc_eval *e, size_t i, int inner, size_t out) {
  const msc_piece *x = &e->in[i];
  int64_t index[2];
  msc_dtype dtype = e->out[out].dtype;
  for (int64_t r = 0; r < e->out[out].full[0]; r++) {
    msc_scalar sum = msc_scalar_of(dtype, 0);
    for (int64_t k = 0; k < x->full[inner]; k++) {
      index[inner] = k, index[1 - inner] = r;
      sum = msc_arithmetic(SCALAR_add, dtype, sum, msc_piece_get(e, i, index));
    }
    msc_piece_put(e, out, &r, sum);
  }
}

static msc_scalar finish(msc_eval *e, const int64_t *index, msc_scalar v) {
  const msc_piece *y = &e->out[0];
  bool relu = msc_op_bool(e->op, "relu"), is_gelu = msc_op_bool(e->op, "gelu");
  int add = operand_of(e->op, MSC_GEMM_ADD), bias = operand_of(e->op, MSC_GEMM_BIAS),
      unless = operand_of(e->op, MSC_GEMM_UNLESS);
  if (add >= 0 && (unless < 0 || !msc_piece_get(e, (size_t)unless, NULL).u))
    v = msc_arithmetic(SCALAR_add, y->dtype, v, msc_piece_get(e, (size_t)add, index));
  if (bias >= 0) v = msc_arithmetic(SCALAR_add, y->dtype, v, msc_piece_get(e, (size_t)bias, &index[y->rank - 1]));
  if (msc_op_bool(e->op, "slope")) return (msc_scalar){.f = v.f * slope_at(e, index, relu)};
  keep_aux(e, index, v.f, relu);
  if (relu && v.f < 0) v.f = 0;
  return is_gelu ? (msc_scalar){.f = gelu(v.f)} : v;
}

void eval_gemm(msc_eval *e) {
  const msc_piece *y = &e->out[0];
  int64_t index[MSC_MAX_RANK];
  int sum_a = result_of(e->op, MSC_GEMM_SUM_A), sum_b = result_of(e->op, MSC_GEMM_SUM_B);
  clear_aux(e);
  for (bool more = msc_first_index(y, index); more && !e->fault; more = msc_next_index(y, index))
    msc_piece_put(e, 0, index, finish(e, index, msc_product_at(e, index)));
  if (sum_a > 0) sum_operand(e, 0, msc_op_bool(e->op, "transpose_a") ? 0 : 1, (size_t)sum_a);
  if (sum_b > 0) sum_operand(e, 1, msc_op_bool(e->op, "transpose_b") ? 1 : 0, (size_t)sum_b);
}
