/* array.h: what every fuzz target of data files does with an array that a reader accepted: reads all of
 * it, as samples. */
#ifndef MSC_TESTS_FUZZ_ARRAY_H
#define MSC_TESTS_FUZZ_ARRAY_H

#include <stdlib.h>
#include <string.h>

#include "runtime/data/data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void read_samples(const mscrt_blob *b, const mscrt_array *a) {
  mscrt_samples s = {.blob = *b, .kind = MSCRT_NPY, .array = *a};
  mscrt_wanted w = {.name = "x",
                    .dtype = mscrt_is_float(a->dtype) ? MSCRT_F32 : MSCRT_I32,
                    .rank = a->rank,
                    .batch_dim = a->rank ? 0 : -1};
  msc_box box = {0};
  uint64_t elems;
  memcpy(w.shape, a->dim, sizeof w.shape);
  if (a->rank > MSCRT_MAX_RANK || !mscrt_shape_bytes(a->rank, a->dim, 1, &elems) || elems > 1 << 16 ||
      mscrt_samples_line(&s, &w) > 1 << 20 || (a->rank && a->dim[0] > 1 << 16))
    return;
  memcpy(box.size, a->dim, sizeof box.size);
  uint64_t *sample = calloc(a->rank && a->dim[0] ? (size_t)a->dim[0] : 1, sizeof *sample);
  for (int64_t i = 0; a->rank && i < a->dim[0]; i++) sample[i] = (uint64_t)(a->dim[0] - 1 - i);
  void *line = malloc(mscrt_samples_line(&s, &w) + 1), *out = malloc((size_t)elems * 4 + 1);
  mscrt_status_free(mscrt_samples_read(&s, &w, sample, &box, &box, line, out, &(uint64_t){0}));
  free(sample);
  free(line);
  free(out);
}

#endif
