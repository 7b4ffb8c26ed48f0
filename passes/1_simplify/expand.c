/* expand: composite ops -> the primitives they stand for.  The first primitive gets the strategy of the operands, the last
 * that of the result, all the other annotations; both have the composite's name, for messages and strategy files. */
#include <string.h>

#include "passes/pass.h"

/* mean_absolute_error(p, t) = mean, sum or nothing of |p - t| */
static msc_value *absolute_error(msc_builder *b, const msc_op *op) {
  msc_context *ctx = b->func->module->ctx;
  const char *reduction = msc_op_str(op, "reduction");
  msc_value *difference = msc_build(b, OP_sub, 2, (msc_value *[]){op->in[0].value, op->in[1].value});
  msc_value *error = msc_build(b, OP_abs, 1, &difference);
  if (!error || !strcmp(reduction, "none")) return error;
  int64_t dims[MSC_MAX_RANK];
  for (int d = 0; d < error->type->rank; d++) dims[d] = d;
  msc_attr all = msc_named(ctx, "dims", msc_ints(ctx, (size_t)error->type->rank, dims));
  msc_op_kind kind = strcmp(reduction, "mean") ? OP_reduce_sum : OP_reduce_mean;
  msc_op *reduce = msc_build_with(b, kind, 1, &error, 1, 1, &all);
  return reduce ? &reduce->out[0] : NULL;
}

static msc_value *expansion(msc_builder *b, const msc_op *op) {
  switch (op->kind) {
    case OP_mean_absolute_error: return absolute_error(b, op);
    default: msc_op_error(op, MSC_E_INTERNAL, "%s: no expansion is known", msc_kind_name(op->kind)); return NULL;
  }
}

static bool is_own(const msc_op_info *info, const char *name) {
  for (int i = 0; i < info->num_attrs; i++)
    if (!strcmp(info->attr[i].name, name)) return true;
  return false;
}

/* What the row does not know is the user's annotation. */
static void hand_down(const msc_op *from, msc_op *first, msc_op *last) {
  for (size_t i = 0; i < from->num_attrs; i++) {
    const msc_attr *a = &from->attrs[i];
    if (is_own(msc_info(from), a->name)) continue;
    bool of_operands = !strncmp(a->name, "in_", 3), of_results = !strncmp(a->name, "out_", 4);
    for (msc_op *op = first;; op = op->next) {
      if ((!of_operands || op == first) && (!of_results || op == last)) msc_op_set(op, a->name, a->value);
      if (op == last) break;
    }
  }
}

static bool expand_op(msc_op *op) {
  msc_op *before = op->prev;
  msc_builder b = {.func = op->block->func, .block = op->block, .before = op, .loc = op->loc, .name = op->name};
  msc_value *v = expansion(&b, op);
  if (!v) return false;
  hand_down(op, before ? before->next : op->block->first, op->prev);
  msc_replace_uses(&op->out[0], v);
  msc_op_erase(op);
  return true;
}

bool pass_expand(msc_pass_ctx *pass, msc_module *m) {
  for (msc_func *f = m->first; f; f = f->next)
    for (msc_op *op = f->body->first, *next; op; op = next) {
      next = op->next;
      if (!(msc_info(op)->flags & MSC_COMPOSITE)) continue;
      MSC_TRY(expand_op(op));
      msc_stat(pass, "ops expanded", 1);
    }
  return true;
}
