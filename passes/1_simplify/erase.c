/* erase.c: erases ops of one function; afterwards no gradient op names an erased op as its forward op. */
#include "passes/1_simplify/simplify.h"

msc_erasing msc_erase_begin(msc_func *f, msc_arena *arena) {
  msc_numbering n = msc_number(f->body);
  return (msc_erasing){f, msc_new_array(arena, const msc_op *, n.num_ops), 0};
}

void msc_erase(msc_erasing *e, msc_op *op, const msc_op *same) {
  e->kept[op->id] = same ? same : op;
  e->num++;
  msc_op_erase(op);
}

void msc_erase_end(msc_erasing *e) {
  if (!e->num) return;
  for (msc_op *op = e->func->body->first; op; op = op->next) {
    while (op->forward && e->kept[op->forward->id]) {
      const msc_op *same = e->kept[op->forward->id];
      op->forward = same == op->forward ? NULL : same;
    }
    if (!op->forward) op->letters = NULL;
  }
}
