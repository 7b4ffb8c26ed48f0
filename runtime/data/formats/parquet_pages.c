/* parquet_pages.c: a column of a group of rows of a Parquet file, page after page, in; its values as i64 or f64 out.
 * Formats: https://parquet.apache.org/docs/file-format/data-pages/encodings. Pages of both versions; values plain, by
 * a dictionary, as runs, as packed deltas, or with their bytes apart; codecs by the libraries that other programs
 * have. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "runtime/data/formats/parquet.h"
#include "runtime/data/formats/thrift.h"

enum { PAGE_DATA, PAGE_INDEX, PAGE_DICTIONARY, PAGE_DATA_V2 };
enum { PLAIN = 0, PLAIN_DICTIONARY = 2, RLE = 3, DELTA_PACKED = 5, RLE_DICTIONARY = 8, BYTES_APART = 9 };
enum { STORED, SNAPPY, GZIP, ZSTD = 6 };
enum { MOST_PAGE = 1 << 30 };

typedef struct {
  int kind, encoding, levels; /* levels: the encoding of definition levels */
  int64_t bytes, packed_bytes, values, nulls, level_bytes, repeat_bytes;
  bool is_compressed;
} page;

typedef struct {
  const mscrt_blob *b;
  const parquet_column *column;
  const parquet_chunk *chunk;
  int64_t first_row, done; /* values that are decoded */
  bool whole;
  char *out;
  int64_t num_words; /* of the dictionary */
  void *word;        /* i64 or f64 */
  uint8_t *room;     /* of a page without its compression */
  size_t room_bytes;
} decoding;

static mscrt_status *bad(const decoding *d, const char *why) {
  return mscrt_bad_file(d->b, "column '%s', from row %" PRId64 " on: %s", d->column->name, d->first_row + d->done, why);
}

/* ---- runs and packed numbers ---- */

/* Numbers of `width` bits, as runs of one or as groups of eight that are packed. */
typedef struct {
  const uint8_t *at, *end;
  int width;
  uint64_t run, packed; /* numbers left of a run, or of packed ones */
  uint64_t value, bit;  /* of a run; the next bit of packed ones */
  bool bad;
} numbers;

static uint64_t take_varint(const uint8_t **at, const uint8_t *end, bool *out_bad) {
  uint64_t v = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (*at == end) break;
    uint8_t b = *(*at)++;
    v |= (uint64_t)(b & 127) << shift;
    if (!(b & 128)) return v;
  }
  *out_bad = true;
  return 0;
}

/* `width` bits from bit `bit` on; bytes beyond the end are zeros. */
static inline uint64_t take_bits(const uint8_t *at, const uint8_t *end, uint64_t bit, int width) {
  uint64_t v = 0;
  if (width <= 56 && bit / 8 + sizeof v <= (uint64_t)(end - at)) { /* all lie in one word */
    memcpy(&v, at + bit / 8, sizeof v);
    return v >> bit % 8 & (((uint64_t)1 << width) - 1);
  }
  for (int have = 0; have < width;) {
    const uint8_t *p = at + (bit + (uint64_t)have) / 8;
    int skip = (int)((bit + (uint64_t)have) % 8), take = 8 - skip < width - have ? 8 - skip : width - have;
    uint64_t byte = p < end ? *p : 0;
    v |= (byte >> skip & ((1u << take) - 1)) << have;
    have += take;
  }
  return v;
}

static void begin_run(numbers *n) {
  uint64_t head = take_varint(&n->at, n->end, &n->bad), left = (uint64_t)(n->end - n->at);
  uint64_t bytes = ((uint64_t)n->width + 7) / 8, packed = (head >> 1) * (uint64_t)n->width;
  n->bad |= !(head >> 1);
  if (n->bad) return;
  if (head & 1) {
    n->bad = head >> 1 > UINT32_MAX || (packed > left && packed > left + (uint64_t)n->width);
    n->packed = (head >> 1) * 8, n->bit = 0;
    return;
  }
  n->bad = bytes > left;
  if (n->bad) return;
  n->run = head >> 1;
  n->value = take_bits(n->at, n->end, 0, n->width);
  n->at += bytes;
}

/* The next `num` packed numbers. */
static void take_packed(const numbers *n, uint64_t num, uint32_t *out) {
  uint64_t bit = n->bit, width = (uint64_t)n->width, mask = ((uint64_t)1 << width) - 1, v;
  uint64_t last = (bit + num * width) / 8 + sizeof v; /* behind the last word that holds one of them */
  if (last > (uint64_t)(n->end - n->at)) {
    for (uint64_t i = 0; i < num; i++) out[i] = (uint32_t)take_bits(n->at, n->end, bit + i * width, n->width);
    return;
  }
  for (uint64_t i = 0; i < num; i++, bit += width) {
    memcpy(&v, n->at + bit / 8, sizeof v);
    out[i] = (uint32_t)(v >> bit % 8 & mask);
  }
}

enum { AT_ONCE = 256 }; /* numbers that are taken at once */

/* Takes the next numbers, `num` or AT_ONCE of them. Returns how many; 0: they are damaged, or none are wanted. */
static int64_t take_numbers(numbers *n, int64_t num, uint32_t out[AT_ONCE]) {
  uint64_t want = num < AT_ONCE ? (uint64_t)num : AT_ONCE;
  for (uint64_t done = 0, some; done < want; done += some) {
    if (!n->run && !n->packed) begin_run(n);
    if (n->bad) return 0;
    uint64_t left = n->run ? n->run : n->packed;
    some = left < want - done ? left : want - done;
    if (n->run) {
      for (uint64_t i = 0; i < some; i++) out[done + i] = (uint32_t)n->value;
      n->run -= some;
      continue;
    }
    take_packed(n, some, out + done);
    n->bit += some * (uint64_t)n->width, n->packed -= some;
    if (n->packed) continue;
    uint64_t bytes = (n->bit + 7) / 8;
    n->at = bytes > (uint64_t)(n->end - n->at) ? n->end : n->at + bytes;
  }
  return (int64_t)want;
}

/* Skips what is left of a run of `value`, at most num numbers. Returns how many; 0: the next number is in no such
 * run. */
static int64_t skip_run(numbers *n, int64_t num, uint64_t value) {
  if (!n->run && !n->packed) begin_run(n);
  if (n->bad || !n->run || n->value != value) return 0;
  uint64_t some = n->run < (uint64_t)num ? n->run : (uint64_t)num;
  n->run -= some;
  return (int64_t)some;
}

/* ---- values ---- */

static int bytes_of_type(int type) { return type == PARQUET_INT32 || type == PARQUET_FLOAT ? 4 : 8; }

/* Converts a value, as the file has it, to i64 or f64. */
static void convert_element(const decoding *d, const uint8_t *from, void *to) {
  int32_t i = 0;
  int64_t l = 0;
  float f;
  double v = 0;
  switch (d->column->type) {
    case PARQUET_INT32:
      memcpy(&i, from, sizeof i);
      l = d->column->is_unsigned ? (int64_t)(uint32_t)i : i, v = (double)l;
      break;
    case PARQUET_INT64: memcpy(&l, from, sizeof l), v = (double)l; break;
    case PARQUET_FLOAT: memcpy(&f, from, sizeof f), v = (double)f; break;
    default: memcpy(&v, from, sizeof v);
  }
  if (d->whole) memcpy(to, &l, sizeof l);
  else memcpy(to, &v, sizeof v);
}

static void *place_of_next(decoding *d) { return d->out + d->done++ * 8; }

static void put_whole(const decoding *d, int64_t l, void *to) {
  double v = (double)l;
  if (d->whole) memcpy(to, &l, sizeof l);
  else memcpy(to, &v, sizeof v);
}

static mscrt_status *decode_plain(decoding *d, const uint8_t *at, const uint8_t *end, int64_t num) {
  int bytes = bytes_of_type(d->column->type);
  if (d->column->type == PARQUET_BOOLEAN) {
    if ((end - at) < (num + 7) / 8) return bad(d, "a page is too short");
    for (int64_t i = 0; i < num; i++) put_whole(d, at[i / 8] >> i % 8 & 1, place_of_next(d));
    return NULL;
  }
  if ((end - at) / bytes < num) return bad(d, "a page is too short");
  for (int64_t i = 0; i < num; i++) convert_element(d, at + i * bytes, place_of_next(d));
  return NULL;
}

static mscrt_status *decode_words(decoding *d, const uint8_t *at, const uint8_t *end, int64_t num) {
  if (num && at == end) return bad(d, "a page is too short");
  numbers n = {.at = at + (num > 0), .end = end, .width = num ? *at : 0};
  if (n.width > 32) return bad(d, "numbers of words have more than 32 bits");
  for (int64_t i = 0, some; i < num; i += some) {
    uint32_t k[AT_ONCE];
    some = take_numbers(&n, num - i, k);
    if (!some) return bad(d, "a value is not in the dictionary");
    int64_t known = some;
    uint32_t most = 0;
    for (int64_t j = 0; j < some; j++) most = k[j] > most ? k[j] : most;
    if (most >= (uint64_t)d->num_words)
      for (known = 0; k[known] < (uint64_t)d->num_words;) known++;
    char *out = d->out + d->done * 8;
    const char *word = d->word;
    for (int64_t j = 0; j < known; j++) memcpy(out + j * 8, word + (size_t)k[j] * 8, 8);
    d->done += known;
    if (known < some) return bad(d, "a value is not in the dictionary");
  }
  return NULL;
}

static mscrt_status *decode_truths(decoding *d, const uint8_t *at, const uint8_t *end, int64_t num) {
  numbers n = {.at = at + 4, .end = end, .width = 1};
  if (end - at < 4 || d->column->type != PARQUET_BOOLEAN) return bad(d, "runs are for truth values");
  for (int64_t i = 0, some; i < num; i += some) {
    uint32_t is_true[AT_ONCE];
    some = take_numbers(&n, num - i, is_true);
    if (!some) return bad(d, "a run is too short");
    for (int64_t j = 0; j < some; j++) put_whole(d, is_true[j], place_of_next(d));
  }
  return NULL;
}

/* A sum of deltas as a value of the column: numbers of 32 bits wrap around in these. */
static void put_sum(decoding *d, uint64_t v) {
  int64_t l = d->column->type == PARQUET_INT64 ? (int64_t)v
              : d->column->is_unsigned         ? (int64_t)(uint32_t)v
                                               : (int64_t)(int32_t)(uint32_t)v;
  put_whole(d, l, place_of_next(d));
}

static mscrt_status *decode_deltas(decoding *d, const uint8_t *at, const uint8_t *end, int64_t num) {
  bool wrong = d->column->type != PARQUET_INT32 && d->column->type != PARQUET_INT64;
  uint64_t block = take_varint(&at, end, &wrong), parts = take_varint(&at, end, &wrong),
           count = take_varint(&at, end, &wrong), first = take_varint(&at, end, &wrong);
  if (wrong || !block || !parts || block > 1 << 20 || parts > block || block % parts || count != (uint64_t)num)
    return bad(d, "its deltas are none");
  uint64_t value = (first >> 1) ^ -(first & 1), each = block / parts;
  for (int64_t i = 0; i < num;) {
    const uint8_t *widths;
    if (i == 0) put_sum(d, value), i++;
    if (i == num) return NULL;
    uint64_t least = take_varint(&at, end, &wrong);
    least = (least >> 1) ^ -(least & 1);
    if (wrong || (uint64_t)(end - at) < parts) return bad(d, "a page is too short");
    widths = at, at += parts;
    for (uint64_t p = 0; p < parts && i < num; p++) {
      uint64_t bytes = each * widths[p] / 8;
      if (widths[p] > 64 || bytes > (uint64_t)(end - at)) return bad(d, "a page is too short");
      for (uint64_t k = 0; k < each && i < num; k++, i++) {
        value += least + take_bits(at, end, k * widths[p], widths[p]);
        put_sum(d, value);
      }
      at += bytes;
    }
  }
  return NULL;
}

static mscrt_status *decode_apart(decoding *d, const uint8_t *at, const uint8_t *end, int64_t num) {
  int bytes = bytes_of_type(d->column->type);
  uint8_t value[8];
  if (d->column->type == PARQUET_BOOLEAN || (end - at) / bytes < num) return bad(d, "a page is too short");
  for (int64_t i = 0; i < num; i++) {
    for (int k = 0; k < bytes; k++) value[k] = at[k * num + i];
    convert_element(d, value, place_of_next(d));
  }
  return NULL;
}

static mscrt_status *decode_values(decoding *d, int encoding, const uint8_t *at, const uint8_t *end, int64_t num) {
  char text[80];
  switch (encoding) {
    case PLAIN: return decode_plain(d, at, end, num);
    case PLAIN_DICTIONARY:
    case RLE_DICTIONARY: return decode_words(d, at, end, num);
    case RLE: return decode_truths(d, at, end, num);
    case DELTA_PACKED: return decode_deltas(d, at, end, num);
    case BYTES_APART: return decode_apart(d, at, end, num);
    default: snprintf(text, sizeof text, "encoding %d of numbers is not supported", encoding); return bad(d, text);
  }
}

/* ---- compression ---- */

/* A function of a library that is loaded when a file needs it, and then stays. */
static void *library_function(const char *library, const char *name) {
  void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  return handle ? dlsym(handle, name) : NULL;
}

static bool inflate_gzip(const uint8_t *from, size_t bytes, uint8_t *to, size_t room) {
  z_stream z = {.next_in = (Bytef *)(uintptr_t)from, .avail_in = (uInt)bytes, .next_out = to, .avail_out = (uInt)room};
  if (inflateInit2(&z, 15 + 32) != Z_OK) return false;
  bool ok = inflate(&z, Z_FINISH) == Z_STREAM_END && !z.avail_out;
  inflateEnd(&z);
  return ok;
}

static mscrt_status *unpack(const decoding *d, const uint8_t *from, size_t bytes, uint8_t *to, size_t room) {
  int (*snappy)(const char *, size_t, char *, size_t *);
  size_t (*zstd)(void *, size_t, const void *, size_t), out = room;
  const char *missing = NULL;
  bool ok = true;
  switch (d->chunk->codec) {
    case SNAPPY:
      *(void **)(void *)&snappy = library_function("libsnappy.so.1", "snappy_uncompress");
      if (!snappy) missing = "libsnappy.so.1";
      else ok = snappy((const char *)from, bytes, (char *)to, &out) == 0 && out == room;
      break;
    case GZIP: ok = inflate_gzip(from, bytes, to, room); break;
    case ZSTD:
      *(void **)(void *)&zstd = library_function("libzstd.so.1", "ZSTD_decompress");
      if (!zstd) missing = "libzstd.so.1";
      else ok = zstd(to, room, from, bytes) == room;
      break;
    default:
      return mscrt_bad_file(d->b, "column '%s': codec %d is not supported: snappy, gzip and zstd are", d->column->name,
                            d->chunk->codec);
  }
  if (missing) return mscrt_fail(MSCRT_ENVIRONMENT, "%s: its compression needs %s", d->b->path, missing);
  return ok ? NULL : bad(d, "a page is damaged");
}

/* The bytes of a page from `at` on, without compression; *out_at is in the file's bytes, or in d->room. */
static mscrt_status *open_page(decoding *d, const uint8_t *at, size_t bytes, int64_t unpacked, bool packed,
                               const uint8_t **out_at) {
  *out_at = at;
  if (!packed || d->chunk->codec == STORED)
    return (uint64_t)unpacked == bytes ? NULL : bad(d, "a page has another size than it says");
  if (!unpacked) return NULL;
  if ((size_t)unpacked > d->room_bytes) {
    free(d->room);
    d->room_bytes = 0;
    d->room = malloc((size_t)unpacked);
    if (!d->room) return mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
    d->room_bytes = (size_t)unpacked;
  }
  *out_at = d->room;
  return unpack(d, at, bytes, d->room, (size_t)unpacked);
}

/* ---- pages ---- */

static void read_data_header(mscrt_thrift *t, page *p, bool second) {
  mscrt_thrift_field f = {0};
  while (mscrt_thrift_next(t, &f)) {
    int id = f.id;
    if (second && id == 7) {
      p->is_compressed = mscrt_thrift_bool(t, f, true);
      continue;
    }
    int64_t v = mscrt_thrift_number(t, f, 0);
    if (id == 1) p->values = v;
    else if (!second && id == 2) p->encoding = (int)v;
    else if (!second && id == 3) p->levels = (int)v;
    else if (second && id == 2) p->nulls = v;
    else if (second && id == 4) p->encoding = (int)v;
    else if (second && id == 5) p->level_bytes = v;
    else if (second && id == 6) p->repeat_bytes = v;
  }
}

static mscrt_status *read_page_header(const decoding *d, mscrt_thrift *t, page *p) {
  mscrt_thrift_field f = {0};
  *p = (page){.kind = -1, .bytes = -1, .packed_bytes = -1, .values = -1, .is_compressed = true, .levels = RLE};
  while (mscrt_thrift_next(t, &f)) {
    if (f.type == MSCRT_THRIFT_STRUCT && (f.id == 5 || f.id == 7 || f.id == 8)) read_data_header(t, p, f.id == 8);
    else if (f.id == 1) p->kind = (int)mscrt_thrift_number(t, f, -1);
    else if (f.id == 2) p->bytes = mscrt_thrift_number(t, f, -1);
    else if (f.id == 3) p->packed_bytes = mscrt_thrift_number(t, f, -1);
    else mscrt_thrift_skip(t, f.type);
  }
  if (t->bad || p->bytes < 0 || p->bytes > MOST_PAGE || p->packed_bytes < 0 || p->packed_bytes > t->end - t->at)
    return bad(d, "the header of a page is damaged");
  bool counts = p->kind != PAGE_INDEX;
  if (counts && (p->values < 0 || p->values > d->chunk->values))
    return bad(d, "a page has more values than its column");
  return NULL;
}

/* Checks that no value is absent; *at moves behind the levels that say so. */
static mscrt_status *skip_levels(const decoding *d, const page *p, const uint8_t **at, const uint8_t *end) {
  bool second = p->kind == PAGE_DATA_V2;
  uint32_t bytes = (uint32_t)p->level_bytes;
  if (!d->column->optional && !second) return NULL;
  if (!second) {
    if (p->levels != RLE) return bad(d, "its levels are packed in the old way, which is not supported");
    if (end - *at < 4) return bad(d, "a page is too short");
    memcpy(&bytes, *at, 4), *at += 4;
  }
  if (bytes > (uint64_t)(end - *at)) return bad(d, "a page is too short");
  numbers n = {.at = *at, .end = *at + bytes, .width = 1};
  *at += bytes;
  for (int64_t i = 0, some; i < p->values && d->column->optional; i += some) {
    uint32_t present[AT_ONCE];
    some = skip_run(&n, p->values - i, 1);
    if (some) continue;
    some = take_numbers(&n, p->values - i, present);
    if (!some) return bad(d, "its levels are damaged");
    for (int64_t j = 0; j < some; j++)
      if (!present[j])
        return mscrt_bad_file(d->b, "row %" PRId64 " has no value in column '%s'", d->first_row + d->done + i + j,
                              d->column->name);
  }
  return NULL;
}

static mscrt_status *decode_data_page(decoding *d, const page *p, const uint8_t *at) {
  const uint8_t *values, *end = at + p->packed_bytes;
  bool second = p->kind == PAGE_DATA_V2;
  int64_t before = second ? p->level_bytes + p->repeat_bytes : 0;
  if (d->done + p->values > d->chunk->values) return bad(d, "it has more values than rows");
  if (second && (p->level_bytes < 0 || p->repeat_bytes || before > p->packed_bytes || before > p->bytes))
    return bad(d, "the header of a page is damaged");
  if (second) MSCRT_CHECK(skip_levels(d, p, &at, end));
  MSCRT_CHECK(open_page(d, at, (size_t)(end - at), p->bytes - before, !second || p->is_compressed, &values));
  end = values + (p->bytes - before);
  if (!second) MSCRT_CHECK(skip_levels(d, p, &values, end));
  return decode_values(d, p->encoding, values, end, p->values);
}

static mscrt_status *decode_dictionary(decoding *d, const page *p, const uint8_t *at) {
  const uint8_t *values;
  decoding words = *d;
  if (p->encoding != PLAIN && p->encoding != PLAIN_DICTIONARY) return bad(d, "its dictionary is not plain");
  MSCRT_CHECK(open_page(d, at, (size_t)p->packed_bytes, p->bytes, true, &values));
  free(d->word);
  d->word = NULL, d->num_words = 0;
  MSCRT_CHECK(mscrt_allocate(&d->word, (size_t)p->values, 8));
  words.out = d->word, words.done = 0;
  MSCRT_CHECK(decode_plain(&words, values, values + p->bytes, p->values));
  d->num_words = p->values;
  return NULL;
}

static mscrt_status *decode_pages(decoding *d, const uint8_t *bytes) {
  mscrt_thrift t = {.at = bytes, .end = bytes + d->chunk->bytes};
  while (d->done < d->chunk->values) {
    page p;
    if (t.at == t.end) return bad(d, "it has fewer values than rows");
    MSCRT_CHECK(read_page_header(d, &t, &p));
    if (p.kind == PAGE_DATA || p.kind == PAGE_DATA_V2) MSCRT_CHECK(decode_data_page(d, &p, t.at));
    if (p.kind == PAGE_DICTIONARY) MSCRT_CHECK(decode_dictionary(d, &p, t.at));
    t.at += p.packed_bytes;
  }
  return NULL;
}

mscrt_status *mscrt_parquet_decode(const mscrt_blob *b, const parquet_column *column, const parquet_chunk *chunk,
                                   int64_t rows, int64_t first_row, bool whole, void *out) {
  uint8_t *bytes = NULL;
  decoding d = {.b = b, .column = column, .chunk = chunk, .first_row = first_row, .whole = whole, .out = out};
  if (chunk->values != rows) return bad(&d, "it has another number of values than there are rows");
  mscrt_status *s = mscrt_allocate((void **)&bytes, (size_t)chunk->bytes, 1);
  if (!s) s = mscrt_blob_read(b, chunk->at, bytes, (size_t)chunk->bytes);
  if (!s) s = decode_pages(&d, bytes);
  free(bytes);
  free(d.word);
  free(d.room);
  return s;
}
