/* padded_line.c: a line of an image in; the elements of it that neighbouring windows read, with zeros for padding,
 * out. */
#include <string.h>

#include "runtime/kernels/windows.h"

typedef float four __attribute__((vector_size(16), aligned(4)));
typedef float sixteen __attribute__((vector_size(64), aligned(4)));

static inline void copy_elements(float *restrict to, const float *restrict from, int64_t num) {
  int64_t i = 0;
  for (; i + 16 <= num; i += 16) memcpy(to + i, from + i, sizeof(sixteen));
  for (; i + 4 <= num; i += 4) memcpy(to + i, from + i, sizeof(four));
  for (; i < num; i++) to[i] = from[i];
}

void mscrt_copy_line(float *to, const float *line, int64_t size, int64_t first, int64_t step, int64_t num) {
  int64_t begin = first < 0 ? mscrt_smaller((step - 1 - first) / step, num) : 0,
          end = first >= size ? begin : mscrt_smaller((size - 1 - first) / step + 1, num);
  if (end < begin) end = begin;
  for (int64_t i = 0; i < begin; i++) to[i] = 0;
  if (step == 1) copy_elements(to + begin, line + first + begin, end - begin);
  else
    for (int64_t i = begin; i < end; i++) to[i] = line[first + i * step];
  for (int64_t i = end; i < num; i++) to[i] = 0;
}
