/* pairs.h: elements in f32 in; rounded to bf16, as pairs of terms that the kernels of products read, out.  The first
 * term of a pair is the lower half of its 32 bits. */
#ifndef MSCRT_PAIRS_H
#define MSCRT_PAIRS_H

#include <stdbool.h>
#include <stdint.h>

/* Loops for one width of vectors; results have the same bits for every width.
 *
 * round rounds elements to bf16; they stay f32.
 * put makes rounded elements of a row the first or the second terms of as many pairs. The first terms come first: they
 *   clear the second ones.
 * narrow rounds neighbouring terms of a row, and adds zeros up to `filled` terms. */
typedef struct {
  void (*round)(float *x, int64_t num);
  void (*put)(float *pairs, const float *row, int64_t num, bool second);
  void (*narrow)(const float *row, int64_t num, int64_t filled, uint16_t *to);
} mscrt_pair_loops;

/* Returns the loops for the widest vectors of this CPU. */
const mscrt_pair_loops *mscrt_pair_loops_here(void);

#endif
