/* literal.c: numbers, tensor elements or attributes, in; texts that read back as the same bits in any locale out, and
 * back. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/text/text.h"

/* ---- elements: bits and doubles ---- */

static uint64_t float_bits(msc_dtype dtype, double v) {
  uint64_t bits = 0;
  if (dtype == MSC_F64) {
    memcpy(&bits, &v, 8);
  } else if (dtype == MSC_F16) {
    _Float16 h = (_Float16)v;
    memcpy(&bits, &h, 2);
  } else {
    float f = (float)v;
    memcpy(&bits, &f, 4);
    /* to nearest even */
    if (dtype == MSC_BF16) bits = f != f ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  }
  return bits;
}

static double float_of_bits(msc_dtype dtype, uint64_t bits) {
  double d;
  float f;
  _Float16 h;
  uint32_t word = (uint32_t)(dtype == MSC_BF16 ? bits << 16 : bits);
  switch (dtype) {
    case MSC_F64: return memcpy(&d, &bits, 8), d;
    case MSC_F16: return memcpy(&h, &bits, 2), (double)h;
    default: return memcpy(&f, &word, 4), (double)f;
  }
}

static int64_t int_of_bits(msc_dtype dtype, uint64_t bits) {
  int unused = 64 - 8 * (int)msc_dtype_bytes(dtype);
  if (msc_dtype_class_of(dtype) != MSC_CLASS_INT) return (int64_t)bits;
  return (int64_t)(bits << unused) >> unused;
}

/* ---- writing ---- */

static double read_decimal(const char *text, size_t num);

static void bits_text(msc_dtype dtype, uint64_t bits, char *out) {
  snprintf(out, MSC_NUMBER_TEXT, "0x%0*" PRIX64, 2 * (int)msc_dtype_bytes(dtype), bits);
}

/* Writes the fewest digits, at least two, that read back as the same bits; MLIR needs a point in every float. */
static void float_text(msc_dtype dtype, uint64_t bits, char *out) {
  double v = float_of_bits(dtype, bits);
  if (isnan(v) || isinf(v)) {
    bits_text(dtype, bits, out);
    return;
  }
  for (int digits = 1; digits <= 17; digits++) {
    snprintf(out, MSC_NUMBER_TEXT, "%.*e", digits, v);
    out[out[0] == '-' ? 2 : 1] = '.'; /* the locale's point may be another */
    if (float_bits(dtype, read_decimal(out, strlen(out))) == bits) return;
  }
}

void msc_float_text(msc_dtype dtype, double v, char out[MSC_NUMBER_TEXT]) {
  float_text(dtype, float_bits(dtype, v), out);
}

void msc_int_text(msc_dtype dtype, int64_t v, char out[MSC_NUMBER_TEXT]) {
  bool minus = v < 0 && dtype != MSC_U64;
  uint64_t rest = minus ? -(uint64_t)v : (uint64_t)v;
  char digits[20];
  size_t num = 0;
  do digits[num++] = (char)('0' + rest % 10);
  while (rest /= 10);
  if (minus) *out++ = '-';
  while (num) *out++ = digits[--num];
  *out = 0;
}

void msc_element_text(msc_dtype dtype, const void *element, char out[MSC_NUMBER_TEXT]) {
  uint64_t bits = 0;
  memcpy(&bits, element, (size_t)msc_dtype_bytes(dtype));
  if (msc_is_float(dtype)) float_text(dtype, bits, out);
  else if (dtype == MSC_I1) snprintf(out, MSC_NUMBER_TEXT, "%s", bits ? "true" : "false");
  else msc_int_text(dtype, int_of_bits(dtype, bits), out);
}

/* ---- reading ---- */

/* Reads a decimal number by strtod, which is given no point, as that depends on the locale: "-1.25e3" becomes
 * "-125e1". */
static double read_decimal(const char *text, size_t num) {
  char digits[MSC_MAX_NUMBER + 32];
  size_t n = 0, i = 0;
  long shift = 0, exponent = 0;
  bool fraction = false;
  for (; i < num && text[i] != 'e' && text[i] != 'E'; i++) {
    if (text[i] == '.') fraction = true;
    else digits[n++] = text[i], shift -= fraction;
  }
  bool negative = i + 1 < num && text[i + 1] == '-';
  for (; i < num; i++)
    if (text[i] >= '0' && text[i] <= '9' && exponent < 100000) exponent = exponent * 10 + (text[i] - '0');
  snprintf(digits + n, sizeof digits - n, "e%ld", (negative ? -exponent : exponent) + shift);
  return strtod(digits, NULL);
}

/* Magnitude of an INT token; false: more than 64 bits. */
static bool magnitude(msc_token t, bool *out_negative, bool *out_hex, uint64_t *out_v) {
  const char *s = t.at, *end = t.at + t.num;
  *out_negative = *s == '-';
  s += *out_negative;
  *out_hex = end - s > 2 && s[1] == 'x';
  s += *out_hex ? 2 : 0;
  uint64_t base = *out_hex ? 16 : 10;
  for (*out_v = 0; s < end; s++) {
    uint64_t digit = *s <= '9' ? (uint64_t)(*s - '0') : ((uint64_t)*s & 31) + 9;
    if (__builtin_mul_overflow(*out_v, base, out_v) || __builtin_add_overflow(*out_v, digit, out_v)) return false;
  }
  return true;
}

static bool is_number(msc_token t) { return t.kind == MSC_TOK_INT || t.kind == MSC_TOK_FLOAT; }

static bool too_big(msc_parser *p, msc_token t, msc_dtype dtype) {
  return msc_syntax(p, t, "%s does not fit %s", msc_token_text(p, t), msc_dtype_name(dtype));
}

bool msc_read_int(msc_parser *p, msc_token t, msc_dtype dtype, int64_t *out_v) {
  bool negative, hex;
  uint64_t v;
  if (t.kind != MSC_TOK_INT)
    return msc_syntax(p, t, "expected an integer for %s, not %s", msc_dtype_name(dtype), msc_token_text(p, t));
  if (!magnitude(t, &negative, &hex, &v)) return too_big(p, t, dtype);
  int bits = dtype == MSC_I1 ? 1 : 8 * (int)msc_dtype_bytes(dtype);
  uint64_t most = UINT64_MAX >> (64 - bits); /* hexadecimal text gives the bits themselves */
  if (msc_dtype_class_of(dtype) == MSC_CLASS_INT && !hex) most = (most >> 1) + negative;
  else if (negative && v) most = 0;
  if (v > most) return too_big(p, t, dtype);
  *out_v = negative ? (int64_t)(0 - v) : int_of_bits(dtype, v);
  return true;
}

static bool read_float_bits(msc_parser *p, msc_token t, msc_dtype dtype, uint64_t *out_bits) {
  bool negative, hex = false;
  if (t.num > MSC_MAX_NUMBER) return msc_syntax(p, t, "a number of more than %d characters", MSC_MAX_NUMBER);
  if (t.kind == MSC_TOK_INT) {
    if (!magnitude(t, &negative, &hex, out_bits) && hex) return too_big(p, t, dtype);
    if (!hex)
      return msc_syntax(p, t, "a number of type %s needs a point, as in %.*s.0", msc_dtype_name(dtype), (int)t.num,
                        t.at);
    if (negative || (dtype != MSC_F64 && *out_bits >> (8 * msc_dtype_bytes(dtype)))) return too_big(p, t, dtype);
    return true;
  }
  if (t.kind != MSC_TOK_FLOAT)
    return msc_syntax(p, t, "expected a number for %s, not %s", msc_dtype_name(dtype), msc_token_text(p, t));
  *out_bits = float_bits(dtype, read_decimal(t.at, t.num));
  return isinf(float_of_bits(dtype, *out_bits)) ? too_big(p, t, dtype) : true;
}

bool msc_read_float(msc_parser *p, msc_token t, msc_dtype dtype, double *out_v) {
  uint64_t bits;
  MSC_TRY(read_float_bits(p, t, dtype, &bits));
  *out_v = float_of_bits(dtype, bits);
  return true;
}

bool msc_read_element(msc_parser *p, msc_token t, msc_dtype dtype, unsigned char *out_element) {
  uint64_t bits = 0;
  int64_t i;
  if (msc_is_float(dtype)) {
    MSC_TRY(read_float_bits(p, t, dtype, &bits));
  } else if (dtype == MSC_I1 && !is_number(t)) {
    bool yes = t.num == 4 && memcmp(t.at, "true", 4) == 0, no = t.num == 5 && memcmp(t.at, "false", 5) == 0;
    if (!yes && !no) return msc_syntax(p, t, "expected true or false, not %s", msc_token_text(p, t));
    bits = yes;
  } else {
    MSC_TRY(msc_read_int(p, t, dtype, &i));
    bits = (uint64_t)i;
  }
  memcpy(out_element, &bits, (size_t)msc_dtype_bytes(dtype));
  return true;
}
