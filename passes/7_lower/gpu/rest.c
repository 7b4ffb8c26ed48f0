/* rest.c: a gemm of a GPU in; ops out that do by themselves what the library does besides the product a b (+ add):
 *
 *   bias, relu, gelu, aux of gelu   y, bias    -> function(y + bias), y + bias
 *   aux of relu, by an op behind    y          -> a bit for each element, 1 if it is positive
 *   slope of gelu                   y, aux     -> y gelu'(aux)
 *   slope of relu                   y, aux     -> y where the bit of aux is 1, else 0
 *   sum_a, sum_b                    a or b     -> its sums over all rows */
#include "passes/7_lower/gpu/rest.h"

#include <string.h>

#include "ir/formula.h"
#include "ir/gemm.h"
#include "ir/grad/op_gradients.h"
#include "ir/layout/layout.h"

enum { BITS = 8 }; /* in a byte of aux; it divides the columns of a relu whose bits are kept */

typedef struct {
  msc_builder b; /* stands in the body of the op */
  msc_op *op;
  size_t num_results;
  msc_value *result[MSC_REST_RESULTS]; /* in the body */
} rest;

/* Returns operand i of the op as f32, or as f64. */
static msc_value *wide_operand(rest *r, size_t i) {
  msc_value *x = r->op->body->args[i];
  return cast(&r->b, x, msc_dtype_bytes(x->type->dtype) < 4 ? MSC_F32 : x->type->dtype);
}

/* The op's next result is v, in the type of one of the gemm's; its elements lie in the same order as there. */
static void give(rest *r, msc_value *v, const msc_value *of_gemm) {
  v = cast(&r->b, v, of_gemm->type->dtype);
  r->op->out[r->num_results].type = v ? v->type : of_gemm->type;
  r->result[r->num_results++] = v;
}

static void build_function(rest *r, const msc_op *gemm) {
  const msc_value *aux = msc_gemm_result(gemm, MSC_GEMM_AUX);
  msc_value *y = wide_operand(r, 0);
  if (msc_gemm_operand(gemm, MSC_GEMM_BIAS)) {
    msc_value *bias = wide_operand(r, 1);
    y = plus(&r->b, y, bias);
  }
  msc_value *x = y;
  if (msc_op_bool(gemm, "gelu")) y = gelu(&r->b, MSC_GELU_TANH, y);
  if (msc_op_bool(gemm, "relu")) y = unary(&r->b, OP_relu, y);
  give(r, y, &gemm->out[0]);
  if (r->op->num_out > 1) give(r, x, aux);
}

static void build_slope_of_gelu(rest *r, const msc_op *gemm) {
  msc_value *dy = wide_operand(r, 0), *x = wide_operand(r, 1), *dx = NULL, *y = gelu(&r->b, MSC_GELU_TANH, x);
  msc_grad_ctx g = {.b = r->b, .dresult = &dy, .wanted = &(bool){true}, .doperand = &dx};
  if (!y || !msc_info(y->def)->grad(&g, y->def)) return;
  if (msc_is_unused(y->def)) msc_op_erase(y->def);
  give(r, dx, &gemm->out[0]);
}

/* Changes the shape of an operand to `rows` rows of `dim` elements, which lie as before. */
static void shape_operand(rest *r, size_t i, int rank, const int64_t *dim) {
  msc_value *x = r->op->body->args[i];
  x->type = msc_type_of(formula_ctx(&r->b), x->type->dtype, rank, dim, NULL);
}

/* Eight elements, a byte's, at a time: so each finds its bit without a quotient. */
static void build_slope_of_relu(rest *r, const msc_op *gemm) {
  const msc_type *t = gemm->out[0].type, *aux = msc_gemm_operand(gemm, MSC_GEMM_AUX)->type;
  int64_t bytes = t->dim[t->rank - 1] / BITS, room = aux->dim[aux->rank - 1], rows = msc_type_elems(aux) / room;
  shape_operand(r, 0, 3, (int64_t[]){rows, bytes, BITS});
  shape_operand(r, 1, 2, (int64_t[]){rows, room});
  msc_value *byte = part_of(&r->b, r->op->body->args[1], 1, 0, bytes);
  byte = cast(&r->b, reshape(&r->b, byte, 3, (int64_t[]){rows, bytes, 1}), MSC_I32);
  msc_value *bit = binary(&r->b, OP_shift_right, byte, count_up(&r->b, MSC_I32, BITS));
  bit = binary(&r->b, OP_bitwise_and, bit, number(&r->b, bit, 1));
  msc_value *dy = r->op->body->args[0], *zero = number(&r->b, dy, 0);
  give(r, choose(&r->b, cast(&r->b, bit, MSC_I1), dy, zero), &gemm->out[0]);
}

/* The bits of elements j, j + 8, j + 16 .. of each row lie in bit j of its bytes. */
static void build_bits(rest *r, const msc_op *gemm) {
  const msc_value *aux = msc_gemm_result(gemm, MSC_GEMM_AUX);
  const msc_type *t = gemm->out[0].type;
  int64_t n = t->dim[t->rank - 1], rows = msc_type_elems(t) / n, room = aux->type->dim[aux->type->rank - 1];
  shape_operand(r, 0, 2, (int64_t[]){rows, n});
  msc_value *y = r->op->body->args[0], *zero = number(&r->b, y, 0), *byte = NULL;
  msc_value *positive = cast(&r->b, compare(&r->b, MSC_GT, y, zero), MSC_I32);
  for (int64_t j = 0; j < BITS; j++) {
    msc_value *bit =
        slice_of(&r->b, positive, (int64_t[]){0, j}, (int64_t[]){rows, n - BITS + j + 1}, (int64_t[]){1, BITS});
    bit = scale_by(&r->b, bit, 1 << j);
    byte = byte ? binary(&r->b, OP_bitwise_or, byte, bit) : bit;
  }
  byte = cast(&r->b, byte, MSC_U8);
  give(r, pad_with(&r->b, byte, (int64_t[]){0, 0}, (int64_t[]){0, room - n / BITS}, NULL, 0), aux);
}

static void build_sums(rest *r, const msc_op *gemm) {
  const msc_value *sums = msc_gemm_result(gemm, MSC_GEMM_SUM_A);
  int64_t dims[MSC_MAX_RANK];
  msc_value *x = wide_operand(r, 0);
  int num = x ? x->type->rank - 1 : 0;
  for (int d = 0; d < num; d++) dims[d] = d;
  if (!sums) sums = msc_gemm_result(gemm, MSC_GEMM_SUM_B);
  give(r, with_ints(&r->b, OP_reduce_sum, x, "dims", num, dims), sums);
}

/* ---- which ops there are ---- */

typedef void build_fn(rest *r, const msc_op *gemm);

/* Inserts an op behind the gemm, and behind those in *out, whose body fn builds. */
static bool insert(msc_op *gemm, build_fn *fn, size_t num_in, msc_value *const *in, size_t num_out,
                   msc_value *const *result, msc_rests *out) {
  msc_func *f = gemm->block->func;
  msc_op *op = msc_op_new(f, OP_fused, num_in, in, num_out, gemm->loc);
  op->name = gemm->name;
  msc_insert_after(out->num ? out->op[out->num - 1].op : gemm, op);
  op->body = msc_block_new(f, op);
  for (size_t i = 0; i < num_in; i++) msc_add_arg(op->body, in[i]->type, NULL);
  rest r = {.b = {.func = f, .block = op->body, .loc = gemm->loc}, .op = op};
  fn(&r, gemm);
  for (size_t i = 0; i < num_out; i++)
    if (i >= r.num_results || !r.result[i]) return msc_op_erase(op), false;
  msc_append(op->body, msc_op_new(f, OP_yield, r.num_results, r.result, 0, gemm->loc));
  msc_rest *one = &out->op[out->num++];
  one->op = op;
  memcpy(one->result, result, num_out * sizeof *result);
  return true;
}

bool msc_insert_rests(msc_op *gemm, msc_rests *out) {
  bool slope = msc_op_bool(gemm, "slope"), has_relu = msc_op_bool(gemm, "relu"), has_gelu = msc_op_bool(gemm, "gelu");
  msc_value *bias = msc_gemm_operand(gemm, MSC_GEMM_BIAS), *y = &gemm->out[0],
            *kept = msc_gemm_result(gemm, MSC_GEMM_AUX), *sum_a = msc_gemm_result(gemm, MSC_GEMM_SUM_A),
            *sum_b = msc_gemm_result(gemm, MSC_GEMM_SUM_B);
  *out = (msc_rests){0};
  if (sum_a) return insert(gemm, build_sums, 1, &gemm->in[0].value, 1, &sum_a, out);
  if (sum_b) return insert(gemm, build_sums, 1, &gemm->in[1].value, 1, &sum_b, out);
  if (slope)
    return insert(gemm, has_relu ? build_slope_of_relu : build_slope_of_gelu, 2,
                  (msc_value *[]){y, msc_gemm_operand(gemm, MSC_GEMM_AUX)}, 1, &y, out);
  if (!bias && !has_relu && !has_gelu) return true;
  bool bits = has_relu && kept;
  return insert(gemm, build_function, bias ? 2 : 1, (msc_value *[]){y, bias}, kept && !bits ? 2 : 1,
                (msc_value *[]){y, kept}, out) &&
         (!bits || insert(gemm, build_bits, 1, &y, 1, &kept, out));
}
