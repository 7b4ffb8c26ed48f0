/* allocate.h: the memory that an order of ops needs. */
#ifndef MSC_PASSES_ALLOCATE_H
#define MSC_PASSES_ALLOCATE_H

#include "passes/pass.h"

/* The bytes of the scratch arena that pass allocate would make for the ops of the function in their present order.
 * Numbers the ops anew.  With a capacity: the bytes of the first arena found that is no larger, if any is. */
uint64_t msc_scratch_of(msc_pass_ctx *pass, msc_func *f, uint64_t capacity);

/* A place of the scratch arena and the ids of the first and last op during which it is used. */
typedef struct {
  const msc_value *value; /* the first value that lies there; NULL: working memory of an op */
  uint32_t first, last;
  uint64_t bytes;
} msc_lifetime;

/* Lists the places that pass allocate would make for the ops in their present order, in pass->scratch; returns how
 * many there are. Numbers the ops anew. */
size_t msc_list_lifetimes(msc_pass_ctx *pass, msc_func *f, msc_lifetime **out_lifetime);

#endif
