/* windows.h: convolutions on a CPU, computed by the kernels of matrix products. */
#ifndef MSCRT_WINDOWS_H
#define MSCRT_WINDOWS_H

#include "runtime/context.h"

/* Runs one work item of a convolution, with a worker's memory `room`. */
void mscrt_run_windows(const mscrt_record *r, void *const *buffers, int64_t unit, void *room);
/* Run an item of a convolution of tiles, of small images, of channels by themselves, and of
 * channels in groups. */
void mscrt_run_winograd(const mscrt_record *r, void *const *buffers, int64_t unit, void *room);
void mscrt_run_small_images(const mscrt_record *r, void *const *buffers, int64_t unit, void *room);
void mscrt_run_channels(const mscrt_record *r, void *const *buffers, int64_t unit, void *room);
void mscrt_run_groups(const mscrt_record *r, void *const *buffers, int64_t unit, void *room);

/* Multiplies `rows` rows of a, whose terms may be pairs of bf16 and which begin step_a terms apart, by the panels b,
 * into rows of c or, if `add`, added to them. */
static inline void mscrt_multiply_rows(const mscrt_record *r, const float *a, int64_t step_a, float *b, float *c,
                                       int64_t step_c, int64_t rows, int64_t columns, int64_t terms, bool add) {
  void *buffers[5] = {(void *)(uintptr_t)a, b, c, NULL, add ? c : NULL};
  int64_t dims[10] = {columns, terms, step_a, step_c, 1, false, false, add ? step_c : 0, 0};
  r->multiply(buffers, 0, rows, dims, NULL);
}

/* Transposes a matrix [columns, terms] with rows `step` apart to [terms, width]: the panels of a second operand. */
static inline void mscrt_pack_lines(const mscrt_record *r, const float *from, float *to, int64_t columns, int64_t terms,
                                    int64_t step) {
  r->pack((void *[]){(void *)(uintptr_t)from, to}, 0, 1, (int64_t[]){columns, terms, step}, NULL);
}

/* Copies elements first, first + step, ... of a line of `size` elements; what lies outside is 0. */
void mscrt_copy_line(float *to, const float *line, int64_t size, int64_t first, int64_t step, int64_t num);

#endif
