/* vectors.h: how many elements of f32 the vectors have for which a kernel that is compiled for several widths runs. */
#ifndef MSCRT_VECTORS_H
#define MSCRT_VECTORS_H

#include <stdint.h>

/* Returns 16 on a CPU with AVX-512 (F, VL, DQ and BW), 8 on one with AVX2 and FMA, else 4; at most `most`, what a plan
 * is made for, which may be more than the CPU has. */
static inline int64_t mscrt_vector_lanes(int64_t most) {
#ifdef __x86_64__
  if (most >= 16 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw"))
    return 16;
  if (most >= 8 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 8;
#else
  (void)most;
#endif
  return 4;
}

#endif
