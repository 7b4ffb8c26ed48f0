/* stack: put_rows -> on a CPU a scatter_update, which writes these rows alone where the list lies; on a GPU a choice,
 * for every element, between what a micro-batch gives and what is there. */
#include "ir/formula.h"
#include "passes/7_lower/target.h"
#include "passes/pass.h"

/* Builds x with the rows in their places: of [rows, micro-batches, elements of a row], those of one micro-batch. */
static msc_value *build_choice(msc_builder *b, const msc_op *op) {
  msc_value *x = op->in[0].value, *rows = op->in[1].value;
  const msc_type *t = op->out[0].type;
  int64_t n = rows->type->dim[0], parts = n ? t->dim[0] / n : 1, elems = n ? msc_type_elems(rows->type) / n : 0;
  int64_t all[3] = {n, parts, elems}, row[3] = {n, 1, elems}, column[2] = {parts, 1};
  msc_value *number = reshape(b, count_up(b, MSC_I64, parts), 2, column),
            *is_new = compare(b, MSC_EQ, number, op->in[2].value),
            *chosen = choose(b, is_new, reshape(b, rows, 3, row), reshape(b, x, 3, all));
  return reshape(b, chosen, t->rank, t->dim);
}

/* Builds x with the rows in their places: row i in place i * micro-batches + number. */
static msc_value *build_update(msc_builder *b, const msc_op *op) {
  msc_value *x = op->in[0].value, *rows = op->in[1].value;
  int64_t n = rows->type->dim[0], parts = n ? op->out[0].type->dim[0] / n : 1;
  msc_value *first = scale_by(b, count_up(b, MSC_I64, n), (double)parts),
            *in[] = {x, plus(b, first, op->in[2].value), rows};
  return msc_build(b, OP_scatter_update, 3, in);
}

static bool stack_func(msc_pass_ctx *pass, msc_func *f) {
  for (msc_op *op = f->body->first, *next; op; op = next) {
    next = op->next;
    if (op->kind != OP_put_rows) continue;
    msc_builder b = {.func = f, .block = f->body, .before = op, .loc = op->loc, .name = op->name};
    msc_value *put = msc_target_of_op(op)->is_gpu ? build_choice(&b, op) : build_update(&b, op);
    MSC_TRY(put);
    msc_replace_uses(&op->out[0], put);
    msc_op_erase(op);
    msc_stat(pass, "lists of rows", 1);
  }
  return true;
}

bool pass_stack(msc_pass_ctx *pass, msc_module *m) {
  for (msc_func *f = m->first; f; f = f->next) MSC_TRY(stack_func(pass, f));
  return true;
}
