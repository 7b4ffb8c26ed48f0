/* subnormal.h: makes a thread take floating-point numbers nearer to 0 than 2^-126 (of f64: 2^-1022) as 0, in what it
 * reads and in results.  Such numbers are what momentum without gradients decays to, and cost a CPU a hundred times as
 * much as others. */
#ifndef MSCRT_SUBNORMAL_H
#define MSCRT_SUBNORMAL_H

#include <stdint.h>

/* Takes them as 0 from now on; returns the mode before, for mscrt_restore_subnormal. */
static inline uint32_t mscrt_flush_subnormal(void) {
#ifdef __x86_64__
  enum { TAKEN_AS_ZERO = 1 << 6, MADE_ZERO = 1 << 15 }; /* bits of MXCSR */
  uint32_t before = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before | TAKEN_AS_ZERO | MADE_ZERO);
  return before;
#else
  return 0;
#endif
}

static inline void mscrt_restore_subnormal(uint32_t before) {
#ifdef __x86_64__
  __builtin_ia32_ldmxcsr(before);
#else
  (void)before;
#endif
}

#endif
