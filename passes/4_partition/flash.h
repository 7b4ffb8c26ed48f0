/* flash.h: attention for a GPU: which of it stays one op until its code is chosen. */
#ifndef MSC_PASSES_FLASH_H
#define MSC_PASSES_FLASH_H

#include "passes/pass.h"

/* Of one function: the attention ops so far. */
typedef struct {
  size_t num;
  msc_op **op;
} flash_memo;

static inline bool flash_is(const msc_op *op) {
  return op->kind == OP_flash_attention || op->kind == OP_flash_attention_grad;
}

/* Puts flash_attention in the place of attention, flash_attention_grad in that of its gradient, with layouts; false:
 * nothing changed, since it is another op, for another target, of another type, or cut otherwise than along batch and
 * heads.  in_layout: what its operands are wanted in; NULL each without layouts. */
bool flash_takes(msc_pass_ctx *pass, flash_memo *memo, msc_op *op, const msc_layout *const *in_layout);

#endif
