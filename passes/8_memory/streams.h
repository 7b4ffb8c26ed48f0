/* streams.h: work on several streams with what waits for what -> one order in which it ends early.
 *
 * Stream 0 computes; the others are links.  The order is one list.  Compute runs through it: a piece of its own starts
 * when what it waits for has ended, and the next follows; a link's piece is only started, when all compute before it in
 * the list has ended, and then waits for its link and for what comes from other links.  So the list itself is the
 * schedule, on every rank the same: two ranks that share links cannot disagree.
 *
 *   compute  | a | b |  c   | d |        list: a x b c y d      d waits for x and y
 *   link         |  x    |y|              */
#ifndef MSC_PASSES_STREAMS_H
#define MSC_PASSES_STREAMS_H

#include "ir/ir.h"

enum { MSC_MAX_STREAMS = 8 };

/* Pieces of work in program order: each waits for earlier ones only.  Piece i waits for before[first[i]] ..
 * before[first[i+1]-1].  Value v of `bytes` is made by piece maker[v] and lives until use[first_use[v]] ..
 * use[first_use[v+1]-1] have ended. */
typedef struct {
  size_t num, num_values;
  const uint8_t *stream;
  const uint64_t *ns;
  const uint32_t *first, *before;
  const uint64_t *bytes;
  const uint32_t *maker, *first_use, *use;
  /* bytes that may live at once; an order is taken only if it keeps to it or to what program order needs */
  uint64_t limit;
} msc_streams;

typedef struct {
  uint64_t ns;      /* until the last piece has ended */
  uint64_t exposed; /* of it: compute waits */
  uint64_t peak;    /* bytes that live at once */
} msc_streams_time;

/* What an order takes.  out_beside (may be NULL), by place in the order: how many pieces after a link's start
 * while it runs. */
msc_streams_time msc_streams_measure(msc_arena *scratch, const msc_streams *s, const uint32_t *order,
                                     uint32_t *out_beside);
/* No order is shorter: the longest chain, or all of one stream. */
uint64_t msc_streams_bound(msc_arena *scratch, const msc_streams *s);
/* Never longer than program order, which it is when nothing is gained.  The same problem gives the same order. */
msc_streams_time msc_streams_order(msc_arena *scratch, const msc_streams *s, uint32_t *out_order);

#endif
