/* expand: composite ops -> the primitives they stand for; ops with a kernel of their own only where a letter is cut
 * that the kernel needs whole.
 *
 * In a function with layouts the expansion is laid out like a small function of its own: its arguments are what the op
 * wanted its operands in, digits spread from them through the rules of the primitives, and a sum that is partial is
 * finished where an op is not linear in it.  Whatever the users of the results want beyond that is redistributed
 * later, as everywhere. */
#include "passes/3_shard/expansion.h"
#include "passes/3_shard/shard.h"
#include "passes/4_partition/flash.h"
#include "passes/pass.h"

/* What the operands are wanted in, NULL without layouts; false after a report. */
static bool wanted(msc_pass_ctx *pass, const msc_op *op, const msc_layout ***out_layout) {
  *out_layout = msc_new_array(pass->scratch, const msc_layout *, op->num_in + 1);
  for (size_t i = 0; i < op->num_in; i++) {
    const msc_layout **l = &(*out_layout)[i];
    MSC_TRY(shard_wanted(op, i, l));
    if (!*l) *l = op->in[i].value->type->layout;
  }
  return true;
}

static bool expand_op(msc_pass_ctx *pass, msc_op *op, const msc_layout *const *in_layout) {
  msc_func *f = msc_expansion_of(op);
  if (!f || !shard_lay_expansion(pass, f, in_layout)) return false;
  msc_expand_in_place(op, f);
  msc_stat(pass, "ops expanded", 1);
  return true;
}

/* Gradient ops of what is gone stand alone: their layouts are decided. */
static void untie(msc_func *f, const bool *is_gone) {
  for (msc_op *op = f->body->first; op; op = op->next)
    if (op->forward && is_gone[op->forward->id]) op->forward = NULL, op->letters = NULL;
}

/* Sums over micro-batches lie as what they add up: what an expansion leaves partial, though its composite was not, is
 * finished once per step.  One that is cut among ranks says in_layout what it takes. */
static void follow_sums(msc_func *f) {
  for (msc_op *op = f->body->first; op; op = op->next)
    if (op->kind == OP_accumulate && !msc_op_attr(op, "in_layout"))
      op->out[0].type = msc_type_with_layout(f->module->ctx, op->out[0].type, op->in[0].value->type->layout);
}

static bool expand_func(msc_pass_ctx *pass, msc_func *f) {
  bool *is_gone = msc_new_array(pass->scratch, bool, msc_number(f->body).num_ops);
  flash_memo flash = {0};
  for (msc_op *op = f->body->first, *next; op; op = next) {
    const msc_layout **in_layout;
    next = op->next;
    if (!msc_info(op)->expand) continue;
    MSC_TRY(wanted(pass, op, &in_layout));
    if (!msc_must_expand(op, in_layout)) continue;
    msc_op *before = op->prev;
    if (!flash_takes(pass, &flash, op, in_layout)) MSC_TRY(expand_op(pass, op, in_layout));
    is_gone[op->id] = true;
    next = before ? before->next : f->body->first; /* it may hold composites itself */
  }
  untie(f, is_gone);
  follow_sums(f);
  return true;
}

bool pass_expand(msc_pass_ctx *pass, msc_module *m) {
  for (msc_func *f = m->first; f; f = f->next) MSC_TRY(expand_func(pass, f));
  return true;
}
