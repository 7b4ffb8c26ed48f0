/* search: letters without digits -> digits with which a step takes the least time.  By configuration it compares all
 * strategies, goes digit by digit, or keeps what the user and propagation decided (step_time_search.h). */
#include "passes/3_shard/step_time_search/step_time_search.h"
#include "passes/3_shard/shard.h"

/* Drops in_strategy from all ops: a tuple fixes numbers of parts only, and the digits are decided now. */
static void drop_tuples(msc_func *f) {
  for (msc_op *op = f->body->first; op; op = op->next) msc_op_unset(op, MSC_FACT(in_strategy));
}

bool pass_search(msc_pass_ctx *pass, msc_module *m) {
  msc_func *f = shard_func(m);
  for (msc_func *one = m->first; one; one = one->next)
    msc_drop_attr(one->attrs, &one->num_attrs, MSC_FACT(unmerged_ops)); /* read before the search */
  if (!f) return true;
  MSC_TRY(shard_search_time(pass, f));
  drop_tuples(f);
  return true;
}
