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

/* Copies elements first, first + step, ... of a line of `size` elements; what lies outside is 0. */
void mscrt_copy_line(float *to, const float *line, int64_t size, int64_t first, int64_t step, int64_t num);

#endif
