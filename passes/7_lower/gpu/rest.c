/* rest.c: a gemm of a GPU in; an op out that does by itself what the library does besides the product a b (+ add):
 *
 *   bias, relu, gelu, aux   y, bias    -> function(y + bias), y + bias
 *   slope of gelu           y, aux     -> y gelu'(aux)
 *   sum_a, sum_b            a or b     -> its sums over all rows
 *
 * Only the library knows the bits that tell where a relu is positive. */
#include "passes/7_lower/gpu/rest.h"

#include "ir/formula.h"
#include "ir/gemm.h"
#include "ir/grad/op_gradients.h"

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

static void give(rest *r, msc_value *v, const msc_value *of_gemm) {
  v = cast(&r->b, v, of_gemm->type->dtype);
  r->op->out[r->num_results].type = of_gemm->type;
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
  if (aux) give(r, x, aux);
}

static void build_slope(rest *r, const msc_op *gemm) {
  msc_value *dy = wide_operand(r, 0), *x = wide_operand(r, 1), *dx = NULL, *y = gelu(&r->b, MSC_GELU_TANH, x);
  msc_grad_ctx g = {.b = r->b, .dresult = &dy, .wanted = &(bool){true}, .doperand = &dx};
  if (!y || !msc_info(y->def)->grad(&g, y->def)) return;
  if (msc_is_unused(y->def)) msc_op_erase(y->def);
  give(r, dx, &gemm->out[0]);
}

static void build_sums(rest *r, const msc_value *sums) {
  int64_t dims[MSC_MAX_RANK];
  msc_value *x = wide_operand(r, 0);
  int num = x ? x->type->rank - 1 : 0;
  for (int d = 0; d < num; d++) dims[d] = d;
  give(r, with_ints(&r->b, OP_reduce_sum, x, "dims", num, dims), sums);
}

/* Lists the operands of the op; 0: there is nothing to do, or only the library can do it. */
static size_t list_operands(const msc_op *gemm, msc_value *out_in[3]) {
  bool slope = msc_op_bool(gemm, "slope"), has_relu = msc_op_bool(gemm, "relu"), has_gelu = msc_op_bool(gemm, "gelu");
  msc_value *bias = msc_gemm_operand(gemm, MSC_GEMM_BIAS), *aux = msc_gemm_operand(gemm, MSC_GEMM_AUX);
  size_t num = 0;
  if (msc_gemm_result(gemm, MSC_GEMM_SUM_A)) return out_in[0] = gemm->in[0].value, 1;
  if (msc_gemm_result(gemm, MSC_GEMM_SUM_B)) return out_in[0] = gemm->in[1].value, 1;
  if (has_relu && (slope || msc_gemm_result(gemm, MSC_GEMM_AUX))) return 0;
  if (!bias && !has_relu && !has_gelu) return 0;
  out_in[num++] = (msc_value *)&gemm->out[0];
  if (bias) out_in[num++] = bias;
  if (slope) out_in[num++] = aux;
  return num;
}

bool msc_insert_rest(msc_op *gemm, msc_op **out_rest, msc_value *out_results[MSC_REST_RESULTS]) {
  msc_value *in[3], *sums = msc_gemm_result(gemm, MSC_GEMM_SUM_A), *aux = msc_gemm_result(gemm, MSC_GEMM_AUX);
  size_t num = list_operands(gemm, in);
  *out_rest = NULL;
  if (!num) return true;
  if (!sums) sums = msc_gemm_result(gemm, MSC_GEMM_SUM_B);
  msc_func *f = gemm->block->func;
  msc_op *op = msc_op_new(f, OP_fused, num, in, !sums && aux ? 2 : 1, gemm->loc);
  op->name = gemm->name;
  msc_insert_after(gemm, op);
  op->body = msc_block_new(f, op);
  for (size_t i = 0; i < num; i++) msc_add_arg(op->body, in[i]->type, NULL);
  rest r = {.b = {.func = f, .block = op->body, .loc = gemm->loc}, .op = op};
  if (sums) build_sums(&r, sums);
  else if (msc_op_bool(gemm, "slope")) build_slope(&r, gemm);
  else build_function(&r, gemm);
  out_results[0] = sums ? sums : &gemm->out[0], out_results[1] = aux;
  for (size_t i = 0; i < op->num_out; i++)
    if (i >= r.num_results || !r.result[i]) return msc_op_erase(op), false;
  msc_append(op->body, msc_op_new(f, OP_yield, r.num_results, r.result, 0, gemm->loc));
  *out_rest = op;
  return true;
}
