/* json.c: reads the JSON of headers and manifests piece by piece; strings are decoded in place. */
#include "runtime/data/json.h"

#include <string.h>

void mscrt_json_blanks(mscrt_json *r) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r')) r->at++;
}

bool mscrt_json_token(mscrt_json *r, char want) {
  mscrt_json_blanks(r);
  if (r->at == r->end || *r->at != want) return false;
  r->at++;
  return true;
}

static bool take_hex(mscrt_json *r, uint32_t *out) {
  if (r->end - r->at < 4) return false;
  uint32_t v = 0;
  for (int i = 0; i < 4; i++) {
    char c = *r->at++;
    uint32_t digit = c >= '0' && c <= '9'                 ? (uint32_t)(c - '0')
                     : (c | 32) >= 'a' && (c | 32) <= 'f' ? (uint32_t)((c | 32) - 'a' + 10)
                                                          : 16;
    if (digit == 16) return false;
    v = v << 4 | digit;
  }
  *out = v;
  return true;
}

/* Decodes \uXXXX, surrogate pairs included, to UTF-8, which is never longer than the escape. */
static bool take_unicode(mscrt_json *r, char **to) {
  uint32_t c, low;
  if (!take_hex(r, &c) || c == 0 || (c >= 0xdc00 && c < 0xe000)) return false;
  if (c >= 0xd800 && c < 0xdc00) {
    if (r->end - r->at < 2 || r->at[0] != '\\' || r->at[1] != 'u') return false;
    r->at += 2;
    if (!take_hex(r, &low) || low < 0xdc00 || low >= 0xe000) return false;
    c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
  }
  char *o = *to;
  if (c < 0x80) *o++ = (char)c;
  else if (c < 0x800) *o++ = (char)(0xc0 | c >> 6);
  else if (c < 0x10000) *o++ = (char)(0xe0 | c >> 12);
  else *o++ = (char)(0xf0 | c >> 18);
  if (c >= 0x10000) *o++ = (char)(0x80 | (c >> 12 & 63));
  if (c >= 0x800) *o++ = (char)(0x80 | (c >> 6 & 63));
  if (c >= 0x80) *o++ = (char)(0x80 | (c & 63));
  *to = o;
  return true;
}

/* Decodes a string in place and ends it with NUL. */
bool mscrt_json_string(mscrt_json *r, char **out) {
  static const char plain[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
  if (!mscrt_json_token(r, '"')) return false;
  char *to = r->at;
  *out = to;
  while (r->at < r->end && *r->at != '"') {
    char c = *r->at++;
    if ((unsigned char)c < 0x20) return false;
    if (c != '\\') {
      *to++ = c;
      continue;
    }
    if (r->at == r->end) return false;
    c = *r->at++;
    const char *known = c ? strchr(plain, c) : NULL;
    if (known) *to++ = meant[known - plain];
    else if (c != 'u' || !take_unicode(r, &to)) return false;
  }
  if (r->at == r->end) return false;
  r->at++;
  *to = 0;
  return true;
}

bool mscrt_json_number(mscrt_json *r, uint64_t *out) {
  mscrt_json_blanks(r);
  uint64_t v = 0;
  if (r->at == r->end || *r->at < '0' || *r->at > '9') return false;
  for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++)
    if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (uint64_t)(*r->at - '0'), &v)) return false;
  *out = v;
  return true;
}

bool mscrt_json_hex(mscrt_json *r, uint64_t *out) {
  char *text;
  uint64_t v = 0;
  if (!mscrt_json_string(r, &text) || strlen(text) != 16) return false;
  for (; *text; text++) {
    const char *digits = "0123456789abcdef", *d = strchr(digits, *text);
    if (!d) return false;
    v = v << 4 | (uint64_t)(d - digits);
  }
  *out = v;
  return true;
}

bool mscrt_json_bool(mscrt_json *r, bool *out) {
  mscrt_json_blanks(r);
  *out = r->end - r->at >= 4 && !memcmp(r->at, "true", 4);
  if (!*out && (r->end - r->at < 5 || memcmp(r->at, "false", 5))) return false;
  r->at += *out ? 4 : 5;
  return true;
}

bool mscrt_json_sizes(mscrt_json *r, int *out_num, int64_t out[MSCRT_MAX_RANK]) {
  *out_num = 0;
  if (!mscrt_json_token(r, '[')) return false;
  if (mscrt_json_token(r, ']')) return true;
  do {
    uint64_t v;
    if (*out_num == MSCRT_MAX_RANK || !mscrt_json_number(r, &v) || v > INT64_MAX) return false;
    out[(*out_num)++] = (int64_t)v;
  } while (mscrt_json_token(r, ','));
  return mscrt_json_token(r, ']');
}

/* Skips a number of any form, true, false or null. */
static bool skip_word(mscrt_json *r) {
  mscrt_json_blanks(r);
  char *begin = r->at;
  while (r->at < r->end && *r->at &&
         (strchr("+-.", *r->at) || (*r->at >= '0' && *r->at <= '9') || ((*r->at | 32) >= 'a' && (*r->at | 32) <= 'z')))
    r->at++;
  return r->at > begin;
}

bool mscrt_json_skip(mscrt_json *r, int depth) {
  char *text;
  if (depth <= 0) return false;
  mscrt_json_blanks(r);
  if (r->at < r->end && *r->at == '"') return mscrt_json_string(r, &text);
  bool object = mscrt_json_token(r, '{');
  if (!object && !mscrt_json_token(r, '[')) return skip_word(r);
  char close = object ? '}' : ']';
  if (mscrt_json_token(r, close)) return true;
  do {
    if (object && (!mscrt_json_string(r, &text) || !mscrt_json_token(r, ':'))) return false;
    if (!mscrt_json_skip(r, depth - 1)) return false;
  } while (mscrt_json_token(r, ','));
  return mscrt_json_token(r, close);
}

void mscrt_json_put(FILE *f, const char *text) {
  fputc('"', f);
  for (; *text; text++) {
    if (*text == '"' || *text == '\\') fprintf(f, "\\%c", *text);
    else if ((unsigned char)*text < 0x20) fprintf(f, "\\u%04x", *text);
    else fputc(*text, f);
  }
  fputc('"', f);
}
