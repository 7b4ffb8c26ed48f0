/* philox.h: random numbers that depend on a counter only: any rank computes any element.  Compiler and runtime share
 * it.
 *
 * Random ops use key = the run's seed and counter = (element number in the whole tensor, number of the step, number of
 * the op): a mask is the same for every layout, number of ranks and number of threads, and when it
 * is computed again. */
#ifndef MSC_IR_PHILOX_H
#define MSC_IR_PHILOX_H

#include <stdint.h>

/* Philox4x32-10 (Salmon et al., 2011): out[4] of a counter and a key. */
static inline void msc_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; round++) {
    uint64_t a = (uint64_t)0xd2511f53 * c0, b = (uint64_t)0xcd9e8d57 * c2;
    uint32_t next0 = (uint32_t)(b >> 32) ^ c1 ^ k0, next2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
    c1 = (uint32_t)b;
    c3 = (uint32_t)a;
    c0 = next0;
    c2 = next2;
    k0 += 0x9e3779b9;
    k1 += 0xbb67ae85;
  }
  out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

/* Returns word 0 for one element of a random op. */
static inline uint32_t msc_philox_element(uint64_t seed, int64_t element, uint32_t step, uint32_t op) {
  uint32_t counter[4] = {(uint32_t)element, (uint32_t)((uint64_t)element >> 32), step, op};
  uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)}, out[4];
  msc_philox(counter, key, out);
  return out[0];
}

/* Returns the least word with which an element is kept. */
static inline uint32_t msc_dropout_threshold(double rate) {
  double t = rate * 0x1p32 + 0.5;
  return t >= 0x1p32 ? UINT32_MAX : (uint32_t)t;
}

#endif
