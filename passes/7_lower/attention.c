/* attention: flash_attention and its gradient, of one rank's heads -> products and what lies between them, or marked for a library. */
#include "passes/4_partition/flash.h"
#include "passes/7_lower/choose.h"
#include "passes/7_lower/graph.h"
#include "passes/pass.h"

bool pass_attention(msc_pass_ctx *pass, msc_module *m) {
  int64_t num = 0, by_library = 0;
  msc_choices choices = msc_choices_of(pass, m);
  for (msc_func *f = m->first; f; f = f->next)
    for (msc_op *op = f->body->first, *next; op; op = next) {
      next = op->next;
      if (!flash_is(op)) continue;
      msc_chosen chosen = msc_choose(pass->scratch, op, &choices);
      if (*chosen.declined) msc_remark(pass, op, "%s", chosen.declined);
      if (chosen.by == MSC_BY_LIBRARY) {
        msc_graph_mark(pass, op);
        by_library++;
        continue;
      }
      msc_func *expansion = msc_expansion_of(op);
      MSC_TRY(expansion);
      msc_expand_in_place(op, expansion);
      num++;
    }
  msc_stat(pass, "ops expanded", num);
  msc_stat(pass, "ops by a library", by_library);
  return true;
}
