/* search: letters that are free -> digits, so that a step takes the least time: of all strategies, digit by digit, or
 * of those that go with what the user and propagation decided (step_time_search.h). */
#include "passes/3_shard/step_time_search/step_time_search.h"
#include "passes/3_shard/shard.h"

/* Drops the marks of strategy tuples, which fix numbers of parts only: their digits are decided now, as if layouts had
 * been given. */
static bool forget_tuples(msc_func *f) {
  for (msc_op *op = f->body->first; op; op = op->next) msc_op_unset(op, MSC_FACT(in_strategy));
  return true;
}

bool pass_search(msc_pass_ctx *pass, msc_module *m) {
  msc_func *f = shard_func(m);
  for (msc_func *one = m->first; one; one = one->next)
    msc_drop_attr(one->attrs, &one->num_attrs, MSC_FACT(unmerged_ops)); /* read before the search */
  return !f || (shard_search_time(pass, f) && forget_tuples(f));
}
