/* random.c: a counter and a key in, random numbers out; a seed, an epoch and a place in, the element of a permutation
 * out: any rank can compute any of them. */
#include "ir/abi/philox.h"
#include "runtime/runtime.h"

void mscrt_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) { msc_philox(counter, key, out); }

/* A Feistel network permutes 2^(2 * bits) numbers; following its cycles until the number is below num permutes num
 * of them (Black and Rogaway, 2002). The domain is less than four times num, so this takes at most four steps on
 * average. */
mscrt_order mscrt_order_of(uint64_t seed, uint64_t epoch, uint64_t num) {
  mscrt_order o = {.num = num, .bits = 1};
  while (o.bits < 32 && (uint64_t)1 << 2 * o.bits < num) o.bits++;
  uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  for (uint32_t half = 0; half < 2; half++) {
    uint32_t counter[4] = {(uint32_t)epoch, (uint32_t)(epoch >> 32), half, 0x6f726472 /* "ordr" */};
    mscrt_philox(counter, key, o.key + 4 * half);
  }
  return o;
}

static uint32_t mix_bits(uint32_t x) {
  x = (x ^ x >> 16) * 0x85ebca6b;
  x = (x ^ x >> 13) * 0xc2b2ae35;
  return x ^ x >> 16;
}

uint64_t mscrt_order_at(const mscrt_order *o, uint64_t i) {
  uint32_t mask = o->bits == 32 ? UINT32_MAX : ((uint32_t)1 << o->bits) - 1;
  do {
    uint32_t left = (uint32_t)(i >> o->bits) & mask, right = (uint32_t)i & mask;
    for (int round = 0; round < 8; round++) {
      uint32_t next = left ^ (mix_bits(right ^ o->key[round]) & mask);
      left = right;
      right = next;
    }
    i = (uint64_t)left << o->bits | right;
  } while (i >= o->num);
  return i;
}
