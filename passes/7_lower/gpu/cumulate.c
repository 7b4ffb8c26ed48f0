/* cumulate: cumsum and cumprod along few long rows -> along many short blocks, and what the blocks before each come to.
 *
 * A GPU's kernel goes along a row in one thread: of the tokens that a router sends to eight experts, eight threads of a
 * hundred thousand would work. */
#include "ir/formula.h"
#include "passes/7_lower/target.h"
#include "passes/pass.h"

enum {
  LONG_ROW = 512,       /* elements; a shorter row is left to one thread */
  ENOUGH_ROWS = 1 << 14 /* so many threads hide each other's waiting */
};

static bool is_slow(const msc_op *op) {
  if (op->kind != OP_cumsum && op->kind != OP_cumprod) return false;
  const msc_type *t = op->out[0].type;
  int64_t n = t->dim[axis_of(op, "axis", t->rank)];
  return t->rank < MSC_MAX_RANK && n >= LONG_ROW && msc_type_elems(t) / n < ENOUGH_ROWS;
}

/* Returns the least number of blocks that have no more elements each than there are blocks. */
static int64_t choose_blocks(int64_t n) {
  int64_t blocks = 1;
  while (blocks * blocks < n) blocks++;
  return blocks;
}

/* Builds the op by blocks. Where these do not divide a row, its end is made longer by elements that change nothing. */
static msc_value *cumulate(msc_builder *b, const msc_op *op) {
  const msc_type *t = op->out[0].type;
  int axis = axis_of(op, "axis", t->rank);
  int64_t n = t->dim[axis], blocks = choose_blocks(n), high[MSC_MAX_RANK] = {0}, none[MSC_MAX_RANK] = {0};
  high[axis] = (blocks - n % blocks) % blocks;
  msc_value *x = pad_with(b, op->in[0].value, none, high, NULL, op->kind == OP_cumprod),
            *y = msc_cumulate_in_blocks(b, op, x, blocks);
  return y && high[axis] ? part_of(b, y, axis, 0, n) : y;
}

bool pass_cumulate(msc_pass_ctx *pass, msc_module *m) {
  int64_t num = 0;
  for (msc_func *f = m->first; f; f = f->next) {
    for (msc_op *op = f->body->first, *next; op; op = next) {
      next = op->next;
      if (!is_slow(op) || msc_runs_on_host(op)) continue;
      msc_builder b = {.func = f, .block = f->body, .before = op, .loc = op->loc, .name = op->name};
      msc_value *y = cumulate(&b, op);
      MSC_TRY(y);
      msc_replace_uses(&op->out[0], y);
      msc_op_erase(op);
      num++;
    }
  }
  msc_stat(pass, "scans in blocks", num);
  return true;
}
