/* library: matrix products that generated tiles or a library compute -> gemm, which absorbs a bias and a relu that
 * follow if no other op reads the values in between.  A weight's gradient becomes one product of matrices first,
 * whose rows are its leading dimensions.  Products of f16 and bf16 have results in f32 on a CPU (widen.c), unless their
 * only use is the cast that rounds them: the gemm then stores rounded sums.  A product with one long column as its
 * result becomes one of one row. */

#include "passes/7_lower/choose.h"
#include "passes/check.h"
#include "passes/pass.h"

/* The operand that `add` adds to x if it is one row [n] that is broadcast over x's rows; else NULL. */
static msc_value *row_bias(const msc_op *add, const msc_value *x) {
  msc_value *other = add->in[add->in[0].value == x ? 1 : 0].value;
  const msc_type *t = other->type;
  if (other == x || t->rank < 1 || add->out[0].type != x->type) return NULL;
  for (int d = 0; d + 1 < t->rank; d++)
    if (t->dim[d] != 1) return NULL;
  return t->rank == 1 && t->dim[0] == x->type->dim[x->type->rank - 1] ? other : NULL;
}

/* An operand of which each product of a batch has its own part, or all the same: repeated in memory where only some of
 * its leading dimensions are stretched. */
static msc_value *stretch_operand(msc_op *matmul, size_t i) {
  msc_value *x = matmul->in[i].value;
  const msc_type *t = x->type, *y = matmul->out[0].type;
  int64_t own = 1, all = 1, dim[MSC_MAX_RANK];
  for (int d = 0; d + 2 < t->rank; d++) own *= t->dim[d];
  for (int d = 0; d < y->rank; d++) dim[d] = d + 2 < y->rank ? y->dim[d] : t->dim[t->rank - y->rank + d];
  for (int d = 0; d + 2 < y->rank; d++) all *= y->dim[d];
  if (own == 1 || own == all) return x;
  msc_op *op = msc_op_new(matmul->block->func, OP_broadcast_to, 1, &x, 1, matmul->loc);
  msc_op_put(op, msc_fact_shape(msc_op_ctx(matmul), y->rank, dim));
  op->out[0].type = msc_type_of(msc_op_ctx(matmul), t->dtype, y->rank, dim, NULL);
  msc_insert_before(matmul, op);
  return &op->out[0];
}

/* Inserts the gemm in front of `last`, the last op that it absorbs: there the bias is computed. */
static msc_op *insert_gemm(msc_op *matmul, msc_op *last, msc_value *bias, bool relu) {
  msc_value *in[3] = {stretch_operand(matmul, 0), stretch_operand(matmul, 1), bias};
  msc_op *gemm = msc_op_new(matmul->block->func, OP_gemm, bias ? 3 : 2, in, 1, matmul->loc);
  gemm->name = matmul->name;
  msc_insert_before(last, gemm);
  msc_op_copy_attr(gemm, matmul, "transpose_a");
  msc_op_copy_attr(gemm, matmul, "transpose_b");
  msc_op_copy_attr(gemm, matmul, MSC_FACT(by));
  if (relu) msc_op_set(gemm, "relu", msc_bool(true));
  gemm->out[0].type = last->out[0].type;
  if (gemm->out[0].type->dtype != in[0]->type->dtype)
    msc_op_put(gemm, msc_dtype_attr(msc_op_ctx(gemm), gemm->out[0].type->dtype));
  msc_replace_uses(&last->out[0], &gemm->out[0]);
  return gemm;
}

/* Returns the only user of a wide product if it rounds the sums to the type of the operands; else NULL. */
static msc_op *rounding_of(const msc_op *matmul) {
  msc_op *cast = msc_only_user(&matmul->out[0], OP_cast);
  msc_dtype operand = matmul->in[0].value->type->dtype;
  return cast && msc_dtype_bytes(operand) < 4 && matmul->out[0].type->dtype == MSC_F32 &&
                 cast->out[0].type->dtype == operand
             ? cast
             : NULL;
}

static msc_op *absorb_users(msc_op *matmul) {
  msc_op *add = msc_only_user(&matmul->out[0], OP_add), *cast = rounding_of(matmul), *last = matmul, *relu = NULL;
  msc_value *bias = add ? row_bias(add, &matmul->out[0]) : NULL;
  if (bias) last = add;
  if (cast) last = cast;
  relu = msc_only_user(&last->out[0], OP_relu);
  if (relu) last = relu;
  msc_op *gemm = insert_gemm(matmul, last, bias, relu != NULL);
  if (relu) msc_op_erase(relu);
  if (bias) msc_op_erase(add);
  if (cast) msc_op_erase(cast);
  msc_op_erase(matmul);
  return gemm;
}

static void mark_generated(const msc_pass_ctx *pass, msc_op *gemm, int64_t blocks, bool in_parts) {
  msc_op_set(gemm, "generated", msc_bool(true));
  if (in_parts) msc_op_put(gemm, msc_fact_in_parts(true));
  if (!msc_is_deterministic(gemm->block->func->module, pass->config)) msc_op_put(gemm, msc_fact_any_order(true));
  if (blocks > 1) msc_op_put(gemm, msc_fact_blocks(blocks));
}

/* Inserts a reshape of x to `dim`, the same bytes. */
static msc_value *reshape_before(msc_op *before, msc_value *x, int rank, const int64_t *dim) {
  const msc_type *to = msc_type_of(msc_op_ctx(before), x->type->dtype, rank, dim, NULL);
  if (to == x->type) return x;
  msc_op *op = msc_op_new(before->block->func, OP_reshape, 1, &x, 1, before->loc);
  msc_op_put(op, msc_fact_shape(msc_op_ctx(before), rank, dim));
  op->out[0].type = to;
  msc_insert_before(before, op);
  return &op->out[0];
}

/* Inserts a reshape of x[*,k] to [rows,k], the same bytes. */
static msc_value *reshape_to_matrix(msc_op *before, msc_value *x) {
  int64_t k = x->type->dim[x->type->rank - 1], dim[2] = {k ? msc_type_elems(x->type) / k : 0, k};
  for (int d = 0; k == 0 && d + 1 < x->type->rank; d++) dim[0] = (d ? dim[0] : 1) * x->type->dim[d];
  return reshape_before(before, x, 2, dim);
}

/* True if a product a b of matrices has one column, and rows enough that b^T a^T takes less time: kernels sum as many
 * columns at once as a vector has lanes. Operands that are widened are packed in any case, which takes longer for a. */
static bool is_long_column(const msc_op *matmul) {
  enum { LONG = 16 };
  const msc_type *a = matmul->in[0].value->type, *b = matmul->in[1].value->type, *y = matmul->out[0].type;
  bool one_matrix = b->rank == 2 && (a->rank == 2 || !msc_op_bool(matmul, "transpose_a"));
  return one_matrix && msc_dtype_bytes(a->dtype) >= 4 && y->dim[y->rank - 1] == 1 && msc_type_elems(y) >= LONG;
}

/* Replaces a product a b of one column by b^T a^T, whose row is the same memory; sums keep their order. */
static msc_op *replace_column(msc_op *matmul) {
  bool transposed = msc_op_bool(matmul, "transpose_a");
  msc_value *y = &matmul->out[0], *b = matmul->in[1].value;
  int64_t row[2] = {1, msc_type_elems(y->type)}, terms[2] = {1, msc_type_elems(b->type)};
  msc_value *in[2] = {reshape_before(matmul, b, 2, terms), reshape_to_matrix(matmul, matmul->in[0].value)};
  msc_op *op = msc_op_new(matmul->block->func, OP_matmul, 2, in, 1, matmul->loc);
  op->name = matmul->name;
  if (!transposed) msc_op_set(op, "transpose_b", msc_bool(true));
  msc_op_copy_attr(op, matmul, MSC_FACT(by));
  msc_op_copy_attr(op, matmul, MSC_FACT(blocks));
  op->out[0].type = msc_type_of(msc_op_ctx(op), y->type->dtype, 2, row, NULL);
  msc_insert_before(matmul, op);
  msc_replace_uses(y, reshape_before(matmul, &op->out[0], y->type->rank, y->type->dim));
  msc_op_erase(matmul);
  return op;
}

static msc_op *replace_weight_grad(msc_op *grad) {
  msc_value *in[2] = {reshape_to_matrix(grad, grad->in[0].value), reshape_to_matrix(grad, grad->in[1].value)};
  msc_op *op = msc_op_new(grad->block->func, OP_matmul, 2, in, 1, grad->loc);
  op->name = grad->name;
  msc_op_set(op, "transpose_a", msc_bool(true));
  msc_op_copy_attr(op, grad, MSC_FACT(blocks));
  msc_op_copy_attr(op, grad, MSC_FACT(in_parts));
  op->out[0].type = grad->out[0].type;
  msc_insert_before(grad, op);
  msc_replace_uses(&grad->out[0], &op->out[0]);
  msc_op_erase(grad);
  return op;
}

bool pass_library(msc_pass_ctx *pass, msc_module *m) {
  int64_t generated = 0, by_library = 0;
  msc_choices choices = msc_choices_of(pass, m);
  for (msc_func *f = m->first; f; f = f->next)
    for (msc_op *op = f->body->last, *previous; op; op = previous) {
      previous = op->prev; /* from last to first: what a product absorbs stands after it */
      if (op->kind == OP_matmul_weight_grad) op = replace_weight_grad(op);
      if (msc_form_of(op) != MSC_FORM_PRODUCT) continue;
      op = msc_widen_product(pass->scratch, op, &choices);
      msc_chosen chosen = msc_choose(pass->scratch, op, &choices);
      if (*chosen.declined) msc_remark(pass, op, "%s", chosen.declined);
      if (chosen.by != MSC_BY_LIBRARY && chosen.by != MSC_BY_PRODUCT) continue;
      if (chosen.by == MSC_BY_PRODUCT && is_long_column(op)) op = replace_column(op);
      int64_t num_blocks = msc_fact_read(op, blocks, 1);
      bool in_parts = msc_op_bool(op, MSC_FACT(in_parts));
      msc_op *gemm = absorb_users(op);
      if (chosen.by == MSC_BY_PRODUCT) mark_generated(pass, gemm, num_blocks, in_parts);
      generated += chosen.by == MSC_BY_PRODUCT, by_library += chosen.by == MSC_BY_LIBRARY;
    }
  msc_stat(pass, "products by generated code", generated);
  msc_stat(pass, "products by a library", by_library);
  msc_record_reads(m);
  return true;
}
