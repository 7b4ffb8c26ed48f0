/* expand: composite ops -> the primitives they stand for; a composite with a kernel of its own is expanded only where a
 * letter is cut that the kernel needs whole.
 *
 * In a function with layouts the expansion is laid out like a small function: its arguments have the layouts that the
 * op wants its operands in, digits spread from them by the rules of the primitives, and a partial sum is finished
 * before an op that is not linear in it. Other layouts that users of the results want are made by `redistribute`. */
#include "passes/3_shard/expansion.h"
#include "passes/3_shard/shard.h"
#include "passes/4_partition/flash.h"
#include "passes/direction.h"
#include "passes/pass.h"

/* Returns the layouts that the operands are wanted in, NULL each without layouts. */
static const msc_layout **wanted_layouts(msc_pass_ctx *pass, const msc_op *op) {
  const msc_layout **layout = msc_new_array(pass->scratch, const msc_layout *, op->num_in + 1);
  for (size_t i = 0; i < op->num_in; i++) {
    const msc_layout *wanted = msc_wanted_layout(op, i);
    layout[i] = wanted ? wanted : op->in[i].value->type->layout;
  }
  return layout;
}

static bool expand_composite(msc_pass_ctx *pass, msc_op *op, const msc_layout *const *in_layout) {
  msc_func *f = msc_expansion_of(op);
  if (!f || !shard_lay_expansion(pass, f, in_layout)) return false;
  msc_expand_in_place(op, f);
  msc_stat(pass, "ops expanded", 1);
  return true;
}

/* Gives accumulate ops the layouts of their operands: an expansion may leave partial what the composite did not, and
 * it is finished once per step. An accumulate with `in_layout` keeps its own. An early sum is whole, so that the ranks
 * finish it before the micro-batches that read it. */
static void update_accumulate_layouts(msc_func *f) {
  for (msc_op *op = f->body->first; op; op = op->next) {
    bool is_early = msc_is_early_sum(op);
    if (op->kind != OP_accumulate || (msc_op_attr(op, MSC_FACT(in_layout)) && !is_early)) continue;
    const msc_layout *layout = op->in[0].value->type->layout;
    if (layout && is_early) {
      layout = msc_layout_replicated(f->module->ctx, op->out[0].type->rank);
      msc_op_put(op, msc_fact_in_layout(f->module->ctx, 1, &layout));
    }
    op->out[0].type = msc_type_with_layout(f->module->ctx, op->out[0].type, layout);
  }
}

static bool expand_func(msc_pass_ctx *pass, msc_func *f) {
  flash_memo flash = {0};
  for (msc_op *op = f->body->first, *next; op; op = next) {
    next = op->next;
    if (!msc_info(op)->expand) continue;
    const msc_layout **in_layout = wanted_layouts(pass, op);
    if (!msc_must_expand(op, in_layout)) continue;
    msc_op *before = op->prev;
    if (!flash_replace(pass, &flash, op, in_layout)) MSC_TRY(expand_composite(pass, op, in_layout));
    next = before ? before->next : f->body->first; /* the expansion may contain composites */
  }
  msc_forget_erased(f);
  update_accumulate_layouts(f);
  return true;
}

bool pass_expand(msc_pass_ctx *pass, msc_module *m) {
  for (msc_func *f = m->first; f; f = f->next) MSC_TRY(expand_func(pass, f));
  return true;
}
