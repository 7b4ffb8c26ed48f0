/* parts: split -> a slice for each part, which the op that reads the part can take in its own loops.  A split is one
 * kernel that writes all parts. */
#include "ir/formula.h"
#include "passes/pass.h"

static bool replace_split(msc_op *split) {
  msc_builder b = {
      .func = split->block->func, .block = split->block, .before = split, .loc = split->loc, .name = split->name};
  int dim = (int)msc_op_int(split, "dim");
  int64_t from = 0;
  for (size_t i = 0; i < split->num_out; i++) {
    int64_t to = from + split->out[i].type->dim[dim];
    msc_value *part = msc_has_uses(&split->out[i]) ? part_of(&b, split->in[0].value, dim, from, to) : &split->out[i];
    if (!part) return false;
    if (part != &split->out[i]) msc_replace_uses(&split->out[i], part);
    from = to;
  }
  msc_op_erase(split);
  return true;
}

bool pass_parts(msc_pass_ctx *pass, msc_module *m) {
  for (msc_func *f = m->first; f; f = f->next)
    for (msc_op *op = f->body->first, *next; op; op = next) {
      next = op->next;
      if (op->kind != OP_split) continue;
      MSC_TRY(replace_split(op));
      msc_stat(pass, "splits replaced", 1);
    }
  return true;
}
