/* offsets.h: gives buffers with lifetimes offsets in one arena (dynamic storage allocation).
 *
 * Buffers that share one place (views, in-place results) are one buffer to the planner: the caller merges them. Buffers
 * that must lie side by side (the parts of the message of one collective) form a group; a buffer whose place is given
 * has a fixed offset. */
#ifndef MSC_PASSES_OFFSETS_H
#define MSC_PASSES_OFFSETS_H

#include "ir/ir.h"

enum { MSC_ALIGN = 64 }; /* alignment of every buffer of a plan: a cache line, the widest vector */
static inline uint64_t msc_round_to_lines(uint64_t bytes) { return (bytes + MSC_ALIGN - 1) / MSC_ALIGN * MSC_ALIGN; }
#define MSC_OFFSET_FREE  UINT64_MAX
#define MSC_OFFSETS_MOST ((uint64_t)1 << 61) /* all sizes, alignments and fixed offsets together stay below this */

/* Live in the half-open interval [lower, upper) of logical time. A buffer of 0 bytes lies at offset 0, or in its
 * turn in its group. */
typedef struct {
  uint64_t lower, upper, bytes;
} msc_buffer;

/* Buffers that lie one behind the other without a gap, in this order; their lifetimes may differ. Only the first is
 * aligned: a caller that wants the others aligned rounds sizes up. */
typedef struct {
  size_t num;
  const uint32_t *buffer; /* indices; a buffer is in one group at most */
} msc_offsets_group;

typedef struct {
  uint64_t align;    /* alignment of every offset outside groups; 0: 1 */
  uint64_t capacity; /* stops at the first plan that is no larger; 0: as small as possible */
  /* limit of the search in nodes, so that a plan is the same on every machine; 0: 20,000 without a time limit, none
   * with one */
  uint64_t node_limit;
  double time_limit_s; /* limit of CPU time; 0: none; with one, the plan may depend on the speed of the machine */
  size_t num_groups;
  const msc_offsets_group *group;
  /* By buffer: its offset, a multiple of `align`, or MSC_OFFSET_FREE; NULL: all are free. In a group only the first
   * buffer may be fixed; fixed buffers that are live together must not overlap. */
  const uint64_t *fixed;
  /* A known plan by buffer, or NULL: the arena found is no larger than this one. So a problem contained in another
   * never needs more memory if the plan of the larger is passed here. An invalid plan is ignored. */
  const uint64_t *candidate;
} msc_offsets_options;

typedef struct {
  uint64_t bytes; /* of the arena */
  uint64_t bound; /* largest sum of the sizes live at once: no arena is smaller */
  bool proven;    /* true: no plan is smaller */
  uint64_t nodes; /* search nodes visited */
} msc_offsets_result;

/* Finds offsets such that buffers live at the same time do not overlap. The same problem gives the same arena in
 * whatever order its buffers are given. options NULL: all zero. */
msc_offsets_result msc_find_offsets(msc_arena *arena, size_t num, const msc_buffer *buffer,
                                    const msc_offsets_options *options, uint64_t *out_offset);

#endif
