/* dce: pure ops whose results nobody uses -> gone, from the last to the first, regions included. */
#include "passes/pass.h"

static bool is_dead(const msc_op *op) {
  if (!(msc_info(op)->flags & MSC_PURE)) return false;
  for (int i = 0; i < op->num_out; i++)
    if (msc_has_uses(&op->out[i])) return false;
  return true;
}

/* Users stand after definitions, so one walk backward sees every user gone first. */
static int64_t sweep(msc_block *b) {
  int64_t removed = 0;
  for (msc_op *op = b->last, *prev; op; op = prev) {
    prev = op->prev;
    if (op->body) removed += sweep(op->body);
    if (is_dead(op)) msc_op_erase(op), removed++;
  }
  return removed;
}

bool pass_dce(msc_pass_ctx *pass, msc_module *m) {
  for (msc_func *f = m->first; f; f = f->next) msc_stat(pass, "ops removed", sweep(f->body));
  return true;
}
