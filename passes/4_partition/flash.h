/* flash.h: attention that stays one op until its kernel is chosen. */
#ifndef MSC_PASSES_FLASH_H
#define MSC_PASSES_FLASH_H

#include "passes/pass.h"

/* The flash_attention ops of one function so far. */
typedef struct {
  size_t num;
  msc_op **op;
} flash_memo;

/* Replaces attention by flash_attention, and its gradient by flash_attention_grad, with layouts. False, with nothing
 * changed, for another op, target or element type, or if it is cut other than along batch and heads. in_layout: the
 * layouts that its operands are wanted in; NULL each without layouts. */
bool flash_replace(msc_pass_ctx *pass, flash_memo *memo, msc_op *op, const msc_layout *const *in_layout);

#endif
