/* half.h: elements of 16 bits as f32 and back, without branches, so that loops over them become vectors. */
#ifndef MSCRT_HALF_H
#define MSCRT_HALF_H

#include <stdint.h>
#include <string.h>

static inline float msc_float_from_bits(uint32_t bits) {
  float v;
  memcpy(&v, &bits, sizeof v);
  return v;
}

static inline uint32_t msc_bits_of_float(float v) {
  uint32_t bits;
  memcpy(&bits, &v, sizeof bits);
  return bits;
}

static inline float msc_from_bf16(uint16_t v) { return msc_float_from_bits((uint32_t)v << 16); }

/* Rounds to nearest, ties to even, as the next one does. */
static inline uint16_t msc_to_bf16(float v) {
  uint32_t bits = msc_bits_of_float(v), quiet = bits >> 16 | 0x40, /* NaN stays NaN */
      rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}

static inline float msc_from_f16(uint16_t v) {
  uint32_t sign = (uint32_t)(v & 0x8000) << 16, rest = (uint32_t)(v & 0x7fff) << 13,
           small = msc_bits_of_float((float)(int32_t)(v & 0x3ff) * 0x1p-24f),
           bias = rest >= (uint32_t)31 << 23 ? (uint32_t)224 << 23 : (uint32_t)112 << 23; /* infinity, NaN: all ones */
  return msc_float_from_bits(sign | (rest < (uint32_t)1 << 23 ? small : rest + bias));
}

static inline uint16_t msc_to_f16(float v) {
  uint32_t bits = msc_bits_of_float(v), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
  /* below 2^-14: the sum's last place is 2^-24, so the addition rounds as wanted */
  uint32_t small = msc_bits_of_float(msc_float_from_bits(rest) + 0.5f) - 0x3f000000,
           normal = (rest + 0xfff + (rest >> 13 & 1) - 0x38000000) >> 13;
  uint32_t found = rest < 0x38800000 ? small : normal;
  if (rest >= 0x477ff000) found = 0x7c00; /* rounds to 65,536 or more */
  if (rest > 0x7f800000) found = 0x7e00;
  return (uint16_t)(sign | found);
}

#endif
