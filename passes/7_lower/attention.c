/* attention: flash_attention and its gradient, of one rank's heads -> products and what lies between them. */
#include "passes/4_partition/flash.h"
#include "passes/pass.h"

bool pass_attention(msc_pass_ctx *pass, msc_module *m) {
  int64_t num = 0;
  for (msc_func *f = m->first; f; f = f->next)
    for (msc_op *op = f->body->first, *next; op; op = next) {
      next = op->next;
      if (!flash_is(op)) continue;
      msc_func *expansion = msc_expansion_of(op);
      MSC_TRY(expansion);
      msc_expand_in_place(op, expansion);
      num++;
    }
  msc_stat(pass, "ops expanded", num);
  return true;
}
