/* transpose_weights: a matrix that many products of few rows read transposed, as the weights of a network's steps are
 * -> one transpose of it, and products that read it as it then lies: a product packs the columns of a transposed matrix
 * each time, which takes longer than few rows take to multiply. The order of sums stays. */
#include "ir/formula.h"
#include "passes/pass.h"

enum { LEAST = 8, FEW_ROWS = 64 }; /* products that are worth it; rows */

/* Is u a product of few rows in the function's own block that reads its value transposed? */
static bool reads_few_rows(const msc_func *f, const msc_use *u) {
  const msc_op *op = u->user;
  if (op->kind != OP_matmul || op->block != f->body || u != &op->in[1]) return false;
  if (!msc_op_bool(op, "transpose_b") || msc_op_bool(op, "transpose_a")) return false;
  return op->out[0].type->rank == 2 && op->out[0].type->dim[0] <= FEW_ROWS;
}

/* Lets all products of few rows that read v transposed read one transpose of it. Returns how many these are; 0: they
 * are too few, and nothing changes. */
static size_t transpose_once(msc_func *f, msc_value *v) {
  size_t num = 0;
  msc_op *first = NULL;
  for (const msc_use *u = v->uses; u; u = u->next) {
    if (!reads_few_rows(f, u)) continue;
    num++;
    if (!first || u->user->id < first->id) first = u->user;
  }
  if (num < LEAST) return 0;
  msc_builder b = {.func = f, .block = first->block, .before = first, .loc = first->loc, .name = first->name};
  msc_value *transposed = transpose(&b, v, (int64_t[]){1, 0});
  if (!transposed) return 0;
  for (msc_use *u = v->uses, *next; u; u = next) {
    next = u->next;
    if (!reads_few_rows(f, u)) continue;
    msc_op *op = u->user;
    msc_set_operand(op, 1, transposed);
    msc_op_unset(op, "transpose_b");
  }
  return num;
}

bool pass_transpose_weights(msc_pass_ctx *pass, msc_module *m) {
  int64_t num = 0;
  for (msc_func *f = m->first; f; f = f->next) {
    msc_number(f->body);
    for (size_t i = 0; i < f->body->num_args; i++)
      if (f->body->args[i]->type->rank == 2) num += (int64_t)transpose_once(f, f->body->args[i]);
  }
  msc_stat(pass, "products of transposed matrices", num);
  return true;
}
