/* npy.c: reads .npy files of NumPy, versions 1 to 3, and begins new ones: magic, version, header length, a Python dict
 * in text, then the elements. */
#include <stdio.h>
#include <string.h>

#include "runtime/data/data.h"

#define MAX_HEADER 65536

bool mscrt_is_npy(const uint8_t *head, size_t bytes) { return bytes >= 6 && !memcmp(head, "\x93NUMPY", 6); }

/* A cursor in the text of the header. */
typedef struct {
  const char *at, *end;
} cursor;

static void skip_npy_blanks(cursor *c) {
  while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n')) c->at++;
}

static bool take_char(cursor *c, char want) {
  skip_npy_blanks(c);
  if (c->at == c->end || *c->at != want) return false;
  c->at++;
  return true;
}

static bool take_word(cursor *c, const char *word) {
  size_t n = strlen(word);
  skip_npy_blanks(c);
  if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n)) return false;
  c->at += n;
  return true;
}

static bool take_quoted(cursor *c, char *out, size_t room) {
  skip_npy_blanks(c);
  if (c->at == c->end || (*c->at != '\'' && *c->at != '"')) return false;
  char quote = *c->at++;
  size_t n = 0;
  while (c->at < c->end && *c->at != quote) {
    if (n + 1 == room || *c->at == '\\') return false;
    out[n++] = *c->at++;
  }
  out[n] = 0;
  return take_char(c, quote);
}

static bool take_integer(cursor *c, int64_t *out) {
  skip_npy_blanks(c);
  int64_t v = 0;
  if (c->at == c->end || *c->at < '0' || *c->at > '9') return false;
  for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
    if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *c->at - '0', &v)) return false;
  take_char(c, 'L'); /* a suffix that Python 2 wrote */
  *out = v;
  return true;
}

static bool take_shape_tuple(cursor *c, mscrt_array *a) {
  if (!take_char(c, '(')) return false;
  for (a->rank = 0; !take_char(c, ')'); a->rank++) {
    int64_t dim;
    if (!take_integer(c, &dim)) return false;
    if (a->rank < MSCRT_MAX_RANK) a->dim[a->rank] = dim;
    if (take_char(c, ',')) continue;
    a->rank++;
    return take_char(c, ')');
  }
  return true;
}

static const struct {
  char text[3];
  mscrt_dtype dtype;
} npy_kinds[] = {
    {"f4", MSCRT_F32}, {"f2", MSCRT_F16}, {"f8", MSCRT_F64}, {"b1", MSCRT_I1},  {"i1", MSCRT_I8},  {"i2", MSCRT_I16},
    {"i4", MSCRT_I32}, {"i8", MSCRT_I64}, {"u1", MSCRT_U8},  {"u2", MSCRT_U16}, {"u4", MSCRT_U32}, {"u8", MSCRT_U64},
};

static bool npy_dtype(const char *descr, mscrt_array *a) {
  if (!descr[0] || !strchr("<>|=", descr[0])) return false;
  a->big_endian = descr[0] == '>';
  for (size_t i = 0; i < sizeof npy_kinds / sizeof *npy_kinds; i++)
    if (!strcmp(descr + 1, npy_kinds[i].text)) {
      a->dtype = npy_kinds[i].dtype;
      return true;
    }
  return false;
}

static mscrt_status *parse_npy_header(const mscrt_blob *b, cursor c, mscrt_array *a) {
  char key[16], descr[64] = "", clean[80];
  bool fortran = false, has_order = false, has_shape = false;
  if (!take_char(&c, '{')) return mscrt_bad_file(b, "npy: %s", "the header is not a dict");
  while (!take_char(&c, '}')) {
    if (!take_quoted(&c, key, sizeof key) || !take_char(&c, ':'))
      return mscrt_bad_file(b, "npy: %s", "the header's keys are damaged");
    if (!strcmp(key, "descr")) {
      if (!take_quoted(&c, descr, sizeof descr))
        return mscrt_bad_file(b, "npy: %s", "arrays of records are not supported; save plain arrays");
    } else if (!strcmp(key, "fortran_order")) {
      fortran = take_word(&c, "True");
      if (!fortran && !take_word(&c, "False"))
        return mscrt_bad_file(b, "npy: %s", "fortran_order is neither True nor False");
      has_order = true;
    } else if (!strcmp(key, "shape")) {
      if (!take_shape_tuple(&c, a)) return mscrt_bad_file(b, "npy: %s", "the shape is not a tuple of sizes");
      has_shape = true;
    } else {
      return mscrt_bad_file(b, "npy: unknown key '%s' in the header",
                            mscrt_clean_text(key, sizeof key, clean, sizeof clean));
    }
    if (!take_char(&c, ',') && (c.at == c.end || *c.at != '}'))
      return mscrt_bad_file(b, "npy: %s", "the header's dict does not end");
  }
  if (!descr[0] || !has_order || !has_shape)
    return mscrt_bad_file(b, "npy: the header lacks %s", !descr[0] ? "descr" : !has_shape ? "shape" : "fortran_order");
  if (!npy_dtype(descr, a))
    return mscrt_bad_file(b, "npy: element type '%s' is not supported",
                          mscrt_clean_text(descr, sizeof descr, clean, sizeof clean));
  if (fortran && a->rank > 1)
    return mscrt_bad_file(b, "npy: %s", "the array is in Fortran order; save numpy.ascontiguousarray(a)");
  if (a->rank > MSCRT_MAX_RANK)
    return mscrt_bad_file(b, "npy: %d dimensions, at most %d are supported", a->rank, MSCRT_MAX_RANK);
  return NULL;
}

mscrt_status *mscrt_npy_parse(const mscrt_blob *b, mscrt_array *out_array) {
  uint8_t head[12];
  char text[MAX_HEADER];
  MSCRT_CHECK(mscrt_blob_read(b, 0, head, 10));
  if (!mscrt_is_npy(head, 10)) return mscrt_bad_file(b, "%s", "not an npy file");
  if (head[6] < 1 || head[6] > 3) return mscrt_bad_file(b, "npy: version %d is not supported", head[6]);
  uint64_t at = 10, bytes = head[8] | (uint64_t)head[9] << 8;
  if (head[6] >= 2) {
    MSCRT_CHECK(mscrt_blob_read(b, 10, head + 10, 2));
    at = 12;
    bytes |= (uint64_t)head[10] << 16 | (uint64_t)head[11] << 24;
  }
  if (bytes > MAX_HEADER)
    return mscrt_bad_file(b, "npy: the header has %" PRIu64 " bytes, at most %d are read", bytes, MAX_HEADER);
  MSCRT_CHECK(mscrt_blob_read(b, at, text, (size_t)bytes));
  mscrt_array a = {.at = at + bytes};
  MSCRT_CHECK(parse_npy_header(b, (cursor){text, text + bytes}, &a));
  char shape[MSCRT_SHAPE_TEXT];
  mscrt_shape_text(a.rank, a.dim, shape);
  if (!mscrt_shape_bytes(a.rank, a.dim, mscrt_dtype_bytes(a.dtype), &a.bytes))
    return mscrt_bad_file(b, "npy: shape %s is too large", shape);
  MSCRT_CHECK(mscrt_array_fills(b, "npy", &a));
  *out_array = a;
  return NULL;
}

/* Version 1.0: the header ends at a multiple of 64 bytes. */
mscrt_status *mscrt_npy_begin(const mscrt_file *f, mscrt_dtype dtype, int rank, const int64_t *shape) {
  char head[512] = "\x93NUMPY\x01";
  const char *descr = "f4";
  size_t n = 10, room = sizeof head;
  for (size_t i = 0; i < sizeof npy_kinds / sizeof *npy_kinds; i++)
    if (npy_kinds[i].dtype == dtype) descr = npy_kinds[i].text;
  n += (size_t)snprintf(head + n, room - n, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                        mscrt_dtype_bytes(dtype) == 1 ? '|' : '<', descr);
  for (int d = 0; d < rank; d++) n += (size_t)snprintf(head + n, room - n, "%s%" PRId64, d ? ", " : "", shape[d]);
  n += (size_t)snprintf(head + n, room - n, "%s), }", rank == 1 ? "," : "");
  while (n % 64 != 63) head[n++] = ' ';
  head[n++] = '\n';
  head[8] = (char)((n - 10) & 255);
  head[9] = (char)((n - 10) >> 8);
  return mscrt_file_write(f, head, n);
}
