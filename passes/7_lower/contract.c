/* contract: einsum of one rank's shapes -> matrix products, and transposes where letters lie otherwise.
 *
 * A product has its letters in at most four groups, and dimensions of a group become one.  Of a whole tensor that would keep the minor
 * ones from being cut: so it is done here, where every rank's part is a tensor of its own. */
#include "passes/pass.h"

/* Products sum in the blocks that the einsum was given. */
static void hand_on_blocks(const msc_op *op, msc_func *expansion) {
  const msc_attr_value *blocks = msc_op_attr(op, "blocks");
  for (msc_op *o = expansion->body->first; o && blocks; o = o->next)
    if (o->kind == OP_matmul || o->kind == OP_batch_matmul) msc_op_set(o, "blocks", *blocks);
}

static bool contract_func(msc_pass_ctx *pass, msc_func *f) {
  for (msc_op *op = f->body->first, *next; op; op = next) {
    next = op->next;
    if (op->kind != OP_einsum) continue;
    msc_func *expansion = msc_expansion_of(op);
    MSC_TRY(expansion);
    hand_on_blocks(op, expansion);
    msc_expand_in_place(op, expansion);
    msc_stat(pass, "ops expanded", 1);
  }
  return true;
}

bool pass_contract(msc_pass_ctx *pass, msc_module *m) {
  for (msc_func *f = m->first; f; f = f->next) MSC_TRY(contract_func(pass, f));
  return true;
}
