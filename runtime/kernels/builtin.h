/* builtin.h: the kernels of ir/abi/builtin.h, called like those of a plan. */
#ifndef MSCRT_BUILTIN_H
#define MSCRT_BUILTIN_H

#include "ir/abi/builtin.h"
#include "runtime/plan/plan.h"

mscrt_kernel *mscrt_builtin(uint32_t number);
/* True if a call of a built-in kernel is possible and its buffers, of `bytes` bytes each, hold everything that the
 * kernel touches; items: the extent of the call. */
bool mscrt_builtin_fits(uint32_t number, uint32_t num_buffers, const uint64_t *bytes, uint32_t num_dims,
                        const int64_t *dims, uint64_t items);

/* ---- pooling.c ---- */

void mscrt_run_pool(void *const *buffers, int64_t begin, int64_t end, const int64_t *dims, const double *scalars);
bool mscrt_pool_fits(uint32_t num, const uint64_t *bytes, const int64_t *dims, int64_t items);

/* ---- lazy_update.c ---- */

void mscrt_run_lazy(void *const *buffers, int64_t begin, int64_t end, const int64_t *dims, const double *scalars);
/* The rows that a lazy update writes. */
typedef struct {
  uint32_t table;         /* the number of the buffer of the table's new values */
  int64_t num;            /* of the numbers in its list */
  uint64_t row_bytes;
  int64_t start, rows;    /* of the part of the table that the buffer is */
  bool wide;              /* numbers are of i64, not of i32 */
  const void *numbers;
} mscrt_lazy_rows;
void mscrt_find_lazy_rows(void *const *buffers, const int64_t *dims, mscrt_lazy_rows *out_rows);
/* The row of the part that number i of the list names; -1: it is in another part. */
int64_t mscrt_lazy_row(const mscrt_lazy_rows *l, int64_t i);
bool mscrt_lazy_fits(uint32_t num, const uint64_t *bytes, const int64_t *dims, int64_t items);

/* ---- segment_sum.c ---- */

void mscrt_run_segments(void *const *buffers, int64_t begin, int64_t end, const int64_t *dims, const double *scalars);
bool mscrt_segments_fit(uint32_t num, const uint64_t *bytes, const int64_t *dims, int64_t items);

#endif
