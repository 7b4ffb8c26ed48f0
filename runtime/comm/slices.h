/* slices.h: the elements of all values of an all_reduce, in a row, are cut into one slice for each member, which
 * reduces it and passes it to the others. */
#ifndef MSCRT_COMM_SLICES_H
#define MSCRT_COMM_SLICES_H

#include "runtime/comm/comm.h"

#define MSCRT_REDUCE_ELEMS 16384 /* elements per unit of work */

typedef struct {
  uint32_t num;
  const mscrt_part *part;
  int64_t elems, slice; /* number of all elements; of each member */
} mscrt_slices;

/* Divides all elements among the members, in whole cache lines if parts begin at one, so that no two ranks write to
 * the same line. */
static inline mscrt_slices mscrt_slices_of(uint32_t num, const mscrt_part *part) {
  const mscrt_exchange *e = part[0].e;
  int64_t line = 64 / (int64_t)mscrt_dtype_bytes(e->dtype), elems = part[num - 1].at + part[num - 1].e->elems,
          n = (elems + e->group.num - 1) / e->group.num;
  return (mscrt_slices){.num = num, .part = part, .elems = elems, .slice = (n + line - 1) / line * line};
}

static inline int64_t mscrt_slice_begin(const mscrt_slices *s, int64_t member) {
  return member * s->slice < s->elems ? member * s->slice : s->elems;
}

/* The part that contains element `at` of all; empty parts contain none. */
static inline const mscrt_part *mscrt_part_with(const mscrt_slices *s, int64_t at) {
  uint32_t low = 0, high = s->num;
  while (high - low > 1) {
    uint32_t middle = (low + high) / 2;
    if (s->part[middle].at <= at) low = middle;
    else high = middle;
  }
  return &s->part[low];
}

/* The number of elements of [begin, end) that lie in the part that contains `begin`. */
static inline int64_t mscrt_elements_in(const mscrt_part *p, int64_t begin, int64_t end) {
  int64_t last = p->at + p->e->elems;
  return (end < last ? end : last) - begin;
}

#endif
