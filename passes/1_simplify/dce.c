/* dce: pure ops whose results nobody uses -> erased, from the last op to the first, regions included. */
#include "passes/1_simplify/simplify.h"
#include "passes/pass.h"

/* Users stand after definitions, so one backward walk has erased an op's dead users before it reaches the op. */
static void erase_dead_ops(msc_erasing *e, msc_block *b) {
  for (msc_op *op = b->last, *prev; op; op = prev) {
    prev = op->prev;
    if (msc_info(op)->flags & MSC_PURE && msc_is_unused(op)) msc_erase(e, op, NULL);
    else if (op->body) erase_dead_ops(e, op->body); /* regions nest once */
  }
}

bool pass_dce(msc_pass_ctx *pass, msc_module *m) {
  for (msc_func *f = m->first; f; f = f->next) {
    msc_erasing e = msc_erase_begin(f, pass->scratch);
    erase_dead_ops(&e, f->body);
    msc_erase_end(&e);
    msc_stat(pass, "ops removed", e.num);
  }
  return true;
}
