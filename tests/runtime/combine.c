/* combine.c: reductions of several ranks' values against the same tree computed element by element: every element type,
 * several destinations, in place, odd sizes and places, with and without caches; half floats against the compiler's. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/comm/comm.h"
#include "runtime/half.h"

enum { MOST_TERMS = 9, ELEMS = 1531, ROOM = ELEMS * 8 + 64 };

static uint64_t next_random(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 33;
}

/* Values whose sum depends on the order. */
static void fill_term(mscrt_dtype d, void *to, uint64_t seed) {
  for (int64_t i = 0; i < ELEMS; i++) {
    uint64_t r = next_random(&seed);
    double v = (double)(r % 2001) - 1000;
    if (r % 5 == 0) v *= 1000.25;
    int64_t n = d == MSCRT_I1 ? (int64_t)(r % 2) : (int64_t)(r % 120);
    void *from = mscrt_is_float(d) ? (void *)&v : (void *)&n;
    assert_int_equal(mscrt_convert(d, (char *)to + (size_t)i * mscrt_dtype_bytes(d), 1,
                                   mscrt_is_float(d) ? MSCRT_F64 : MSCRT_I64, from, false, false, 1),
                     MSCRT_CONVERTED);
  }
}

#define TWO(T, SUM, PRODUCT)                           \
  {                                                    \
    T x, y, r;                                         \
    memcpy(&x, a, sizeof x), memcpy(&y, b, sizeof y);  \
    r = (T)(red == MSC_PROD ? (PRODUCT) : (SUM));      \
    if (red == MSC_MAX) r = x > y ? x : y;             \
    if (red == MSC_MIN) r = x < y ? x : y;             \
    memcpy(a, &r, sizeof r);                           \
    return;                                            \
  }

/* *a becomes a op b, of one element. */
static void combine_two(mscrt_dtype d, msc_reduction red, void *a, const void *b) {
  switch (d) {
    case MSCRT_F32: TWO(float, x + y, x *y)
    case MSCRT_F64: TWO(double, x + y, x *y)
    case MSCRT_I1: TWO(uint8_t, x | y, x & y)
    case MSCRT_I8:
    case MSCRT_U8: TWO(uint8_t, x + y, x *y)
    case MSCRT_I16:
    case MSCRT_U16: TWO(uint16_t, x + y, x *y)
    case MSCRT_I32:
    case MSCRT_U32: TWO(uint32_t, x + y, x *y)
    default: TWO(uint64_t, x + y, x *y)
  }
}

/* Neighbours first; f16 and bf16 are f32 until the end. */
static void combine_terms(mscrt_dtype d, msc_reduction red, int num, const void *const *src, int64_t i, void *out) {
  int left = 1;
  uint64_t right = 0;
  if (num == 1) {
    uint16_t h;
    const char *from = (const char *)src[0] + (size_t)i * mscrt_dtype_bytes(d);
    memcpy(&h, from, 2);
    float f = d == MSCRT_BF16 ? mscrt_from_bf16(h) : mscrt_from_f16(h);
    if (d == MSCRT_F16 || d == MSCRT_BF16) memcpy(out, &f, 4);
    else memcpy(out, from, mscrt_dtype_bytes(d));
    return;
  }
  while (2 * left < num) left *= 2;
  combine_terms(d, red, left, src, i, out);
  combine_terms(d, red, num - left, src + left, i, &right);
  combine_two(d == MSCRT_F16 || d == MSCRT_BF16 ? MSCRT_F32 : d, red, out, &right);
}

static void store_expected(mscrt_dtype d, const void *value, void *to) {
  float f;
  memcpy(&f, value, 4);
  uint16_t h = d == MSCRT_BF16 ? mscrt_to_bf16(f) : mscrt_to_f16(f);
  if (d == MSCRT_F16 || d == MSCRT_BF16) memcpy(to, &h, 2);
  else memcpy(to, value, mscrt_dtype_bytes(d));
}

static char *memory[MOST_TERMS], *destination[3], *expected;

static void check_case(mscrt_dtype d, msc_reduction red, int num, int64_t elems, int64_t shift, int num_dst,
                       bool in_place, bool past_caches) {
  const void *src[MOST_TERMS];
  void *dst[3];
  size_t bytes = mscrt_dtype_bytes(d), at = (size_t)shift * bytes;
  for (int t = 0; t < num; t++) {
    fill_term(d, memory[t], (uint64_t)(num * 100 + t));
    src[t] = memory[t] + at;
  }
  for (int64_t i = 0; i < elems; i++) {
    uint64_t value = 0;
    combine_terms(d, red, num, src, i, &value);
    store_expected(d, &value, expected + (size_t)i * bytes);
  }
  for (int k = 0; k < num_dst; k++) {
    dst[k] = in_place && k < num ? memory[num - 1 - k] + at : destination[k] + at;
    if (!in_place || k >= num) memset(destination[k], 0x5a, ROOM);
  }
  char beyond[3] = {0};
  for (int k = 0; k < num_dst; k++) beyond[k] = ((char *)dst[k])[(size_t)elems * bytes];
  mscrt_combine_for_all(d, red, num, src, num_dst, dst, elems, past_caches);
  for (int k = 0; k < num_dst; k++) {
    assert_memory_equal(dst[k], expected, (size_t)elems * bytes);
    assert_int_equal(((char *)dst[k])[(size_t)elems * bytes], beyond[k]);
  }
}

static void combines_as_a_tree(void **state) {
  static const int64_t sizes[] = {0, 1, 15, 512, 513, 1500};
  (void)state;
  for (int t = 0; t < MOST_TERMS; t++) assert_non_null(memory[t] = aligned_alloc(64, (ROOM + 63) / 64 * 64));
  for (int k = 0; k < 3; k++) assert_non_null(destination[k] = aligned_alloc(64, (ROOM + 63) / 64 * 64));
  assert_non_null(expected = malloc(ROOM));
  for (int d = 0; d < MSCRT_NUM_DTYPES; d++)
    for (int num = 1; num <= MOST_TERMS; num++)
      for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int how = 0; how < 8; how++) {
          mscrt_dtype dtype = (mscrt_dtype)d;
          bool multiplies = !mscrt_is_float(dtype) && dtype != MSCRT_I1 && num % 4 == 3;
          check_case(dtype, multiplies ? MSC_PROD : MSC_SUM, num, sizes[s], how % 3, how & 4 ? 3 : 1, how & 2, how & 1);
          check_case(dtype, how % 2 ? MSC_MIN : MSC_MAX, num, sizes[s], 0, 1, false, false);
        }
  for (int t = 0; t < MOST_TERMS; t++) free(memory[t]);
  for (int k = 0; k < 3; k++) free(destination[k]);
  free(expected);
}

static void halves_are_those_of_the_compiler(void **state) {
  (void)state;
  for (uint32_t h = 0; h <= 0xffff; h++) {
    uint16_t bits = (uint16_t)h;
    _Float16 v;
    memcpy(&v, &bits, 2);
    float f = msc_from_f16(bits);
    if (isnan(f)) assert_true((h & 0x7fff) > 0x7c00);
    else assert_int_equal(msc_bits_of_float(f), msc_bits_of_float((float)v));
  }
  for (uint64_t b = 0; b <= UINT32_MAX; b += 1021) {
    float f = msc_float_from_bits((uint32_t)b);
    _Float16 v = (_Float16)f;
    uint16_t bits;
    memcpy(&bits, &v, 2);
    if (isnan(f)) assert_true((msc_to_f16(f) & 0x7fff) > 0x7c00);
    else assert_int_equal(msc_to_f16(f), bits);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(combines_as_a_tree),
    cmocka_unit_test(halves_are_those_of_the_compiler),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
