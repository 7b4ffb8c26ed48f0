/* place.h: buffers with lifetimes -> offsets in one arena. */
#ifndef MSC_PASSES_PLACE_H
#define MSC_PASSES_PLACE_H

#include "ir/ir.h"

enum { MSC_ALIGN = 64 }; /* of every buffer: a cache line, the widest vector */

/* Live in the half-open interval [lower, upper) of logical time. */
typedef struct {
  uint64_t lower, upper, bytes;
} msc_buffer;

/* Offsets (multiples of MSC_ALIGN) such that buffers live at once do not overlap; returns the arena's bytes.
 * Depends only on the set of buffers, not on time or machine. */
uint64_t msc_place(msc_arena *arena, size_t num, const msc_buffer *buffer, uint64_t *out_offset);
/* The largest sum of aligned sizes live at once: no arena is smaller. */
uint64_t msc_place_bound(msc_arena *arena, size_t num, const msc_buffer *buffer);

#endif
