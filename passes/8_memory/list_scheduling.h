/* list_scheduling.h: finds a short order for pieces of work on one compute stream and several links.
 *
 * Stream 0 computes; the others are links. The order is one list. Compute runs through it: a compute piece starts when
 * its predecessors have ended, and the next follows. A piece of a link is started when all compute before it in the
 * list has ended; it then waits for its link and for its predecessors on other links. So the list is the whole schedule
 * and the same on every rank: two ranks that share links cannot disagree.
 *
 *   compute  | a | b |  c   | d |        list: a x b c y d      d waits for x and y
 *   link         |  x    |y| */
#ifndef MSC_PASSES_LIST_SCHEDULING_H
#define MSC_PASSES_LIST_SCHEDULING_H

#include "ir/ir.h"

enum { MSC_MAX_STREAMS = 8 };

/* Pieces of work in program order; each has earlier predecessors only. Piece i waits for before[first[i]] ..
 * before[first[i+1]-1]. Value v, of bytes[v] bytes, is made by piece maker[v] and lives until use[first_use[v]] ..
 * use[first_use[v+1]-1] have ended. */
typedef struct {
  size_t num, num_values;
  const uint8_t *stream;
  const uint64_t *ns;
  const uint32_t *first, *before;
  const uint64_t *bytes;
  const uint32_t *maker, *first_use, *use;
  /* most bytes that may be live at once; an order that needs more than this and than program order is not taken */
  uint64_t limit;
  bool is_trial; /* an order that is nearly as short is enough: small problems are searched less */
} msc_streams;

typedef struct {
  uint64_t ns;      /* until the last piece has ended */
  uint64_t exposed; /* the part of `ns` in which the compute stream waits */
  uint64_t peak;    /* most bytes live at once */
} msc_streams_time;

/* Measures an order. out_beside (may be NULL): by place in the order, for a piece of a link, how many of the pieces
 * that follow it run at the same time. */
msc_streams_time msc_streams_measure(msc_arena *scratch, const msc_streams *s, const uint32_t *order,
                                     uint32_t *out_beside);
/* A lower bound on the time of every order: the longest chain, or all work of one stream. */
uint64_t msc_streams_bound(msc_arena *scratch, const msc_streams *s);
/* Finds an order no longer than program order (which is returned if nothing is gained). The same problem gives the
 * same order. */
msc_streams_time msc_streams_order(msc_arena *scratch, const msc_streams *s, uint32_t *out_order);

#endif
