/* place.h: buffers with lifetimes -> offsets in one arena.
 *
 * Buffers that share one place (views, in-place results) are one buffer to the planner: the caller merges them.
 * Buffers that must lie side by side (the parts of one collective's message) are a group; what lies somewhere already
 * has a fixed offset. */
#ifndef MSC_PASSES_PLACE_H
#define MSC_PASSES_PLACE_H

#include "ir/ir.h"

enum { MSC_ALIGN = 64 }; /* of every buffer of a plan: a cache line, the widest vector */
#define MSC_PLACE_FREE UINT64_MAX
#define MSC_PLACE_MOST ((uint64_t)1 << 61) /* all sizes, alignments and fixed offsets together stay below this */

/* Live in the half-open interval [lower, upper) of logical time.  Of 0 bytes: lies at 0, or in its group's order. */
typedef struct {
  uint64_t lower, upper, bytes;
} msc_buffer;

/* Buffers that lie one behind the other without a gap, in this order; lifetimes may differ.  The first one is aligned:
 * who wants the others aligned rounds the sizes up. */
typedef struct {
  size_t num;
  const uint32_t *buffer; /* indices; a buffer is in one group at most */
} msc_place_group;

typedef struct {
  uint64_t align;            /* of every offset outside groups; 0: 1 */
  uint64_t capacity;         /* done at the first plan that is no larger; 0: as small as possible */
  /* of the search, so that a plan is the same on every machine; 0: 20,000 without a time limit, none with one */
  uint64_t node_limit;
  double time_limit_s;       /* of CPU; 0: none; with one, a plan may depend on the machine's speed */
  size_t num_groups;
  const msc_place_group *group;
  /* By buffer: its offset, a multiple of `align`, or MSC_PLACE_FREE; NULL: all are free.  Of a group's only the first
   * may be given; fixed buffers live at once are apart. */
  const uint64_t *fixed;
  /* A known plan by buffer, or NULL: no arena larger than this one comes out.  So a problem that is contained in
   * another never needs more than that one, whose plan is passed here; what does not keep to the rules is ignored. */
  const uint64_t *candidate;
} msc_place_options;

typedef struct {
  uint64_t bytes; /* of the arena */
  uint64_t bound; /* largest sum of sizes live at once: no arena is smaller */
  bool proven;    /* no plan is smaller */
  uint64_t nodes; /* that were visited */
} msc_place_result;

/* Offsets such that buffers live at once do not overlap.  The same problem gives the same arena in whatever order its
 * buffers come.  options NULL: all zero. */
msc_place_result msc_place(msc_arena *arena, size_t num, const msc_buffer *buffer, const msc_place_options *options,
                           uint64_t *out_offset);

#endif
