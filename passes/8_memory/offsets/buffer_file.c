/* buffer_file.c: reads buffers from CSV text (see buffer_file.h). The first line names the columns, in any order;
 * every following line is one buffer. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "passes/8_memory/offsets/buffer_file.h"

enum { ID, LOWER, UPPER, SIZE, NUM_COLUMNS, MOST_ERRORS = 20 };
static const char *const columns[NUM_COLUMNS] = {"id", "lower", "upper", "size"};

typedef struct {
  const char *text;
  size_t bytes;
  uint32_t col; /* from 1 */
} field;

typedef struct {
  msc_context *ctx;
  const char *path, *at, *end;
  uint32_t line;
  int place[NUM_COLUMNS]; /* by column: its index among the fields of a line */
  uint64_t total;
  uint32_t *line_of; /* by buffer */
  msc_buffer_file *out;
} buffer_reader;

static const msc_loc *loc_of(const buffer_reader *r, uint32_t line, uint32_t col) {
  return msc_loc_of(r->ctx, &(msc_loc){.file = msc_intern(r->ctx, r->path), .line = line, .col = col});
}

#define wrong(r, field, ...) msc_error((r)->ctx, MSC_E_DATA, loc_of((r), (r)->line, (field).col), __VA_ARGS__)

/* ---- lines and fields ---- */

static bool is_blank_char(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/* Reads the next line that is not blank, without its end; false at the end of the file. */
static bool read_line(buffer_reader *r, const char **out_begin, const char **out_end) {
  while (r->at < r->end) {
    const char *begin = r->at, *end = memchr(begin, '\n', (size_t)(r->end - begin));
    if (!end) end = r->end;
    r->at = end < r->end ? end + 1 : end;
    r->line++;
    *out_begin = begin, *out_end = end;
    while (begin < end && is_blank_char(*begin)) begin++;
    if (begin < end) return true;
  }
  return false;
}

/* Splits a line into fields, trimmed, and keeps up to NUM_COLUMNS of them; returns how many there are. */
static int split_line(const char *begin, const char *end, field out_field[NUM_COLUMNS]) {
  int num = 0;
  for (const char *p = begin; p <= end; num++) {
    const char *comma = memchr(p, ',', (size_t)(end - p)), *stop = comma ? comma : end, *a = p, *b = stop;
    while (a < b && is_blank_char(*a)) a++;
    while (a < b && is_blank_char(b[-1])) b--;
    if (num < NUM_COLUMNS) out_field[num] = (field){a, (size_t)(b - a), (uint32_t)(a - begin + 1)};
    p = stop + 1;
  }
  return num;
}

static bool field_equals(field f, const char *word) {
  return f.bytes == strlen(word) && !memcmp(f.text, word, f.bytes);
}

/* ---- the header ---- */

static bool read_header(buffer_reader *r) {
  const char *begin, *end;
  field f[NUM_COLUMNS];
  if (!read_line(r, &begin, &end))
    return msc_error(r->ctx, MSC_E_DATA, loc_of(r, 1, 1),
                     "the file is empty; its first line names the columns id, lower, upper, size");
  if (end - begin >= 3 && !memcmp(begin, "\xef\xbb\xbf", 3)) begin += 3;
  int num = split_line(begin, end, f);
  for (int c = 0; c < NUM_COLUMNS; c++) r->place[c] = -1;
  for (int i = 0; i < num && i < NUM_COLUMNS; i++) {
    int c = 0;
    while (c < NUM_COLUMNS && !field_equals(f[i], columns[c])) c++;
    if (c == NUM_COLUMNS) return wrong(r, f[i], "column %d is none of id, lower, upper, size", i + 1);
    if (r->place[c] >= 0) return wrong(r, f[i], "column '%s' is there twice", columns[c]);
    r->place[c] = i;
  }
  for (int c = 0; c < NUM_COLUMNS; c++)
    if (r->place[c] < 0)
      return wrong(r, f[0], "column '%s' is missing; the first line names the columns id, lower, upper, size",
                   columns[c]);
  return num == NUM_COLUMNS || wrong(r, f[NUM_COLUMNS - 1], "%d columns; expected id, lower, upper, size", num);
}

/* ---- buffers ---- */

static bool read_whole(buffer_reader *r, field f, const char *column, int64_t *out_value) {
  char digits[24];
  char *end;
  if (!f.bytes) return wrong(r, f, "%s is missing", column);
  if (f.bytes < sizeof digits) {
    memcpy(digits, f.text, f.bytes);
    digits[f.bytes] = 0;
    errno = 0;
    *out_value = strtoll(digits, &end, 10);
    if (!errno && end == digits + f.bytes && (digits[0] == '-' || (digits[0] >= '0' && digits[0] <= '9'))) return true;
  }
  return wrong(r, f, "%s is not a whole number of 63 bits", column);
}

/* The bytes of the UTF-8 character at s; 0 if it is invalid or a control character. */
static size_t printable_bytes(const unsigned char *s, size_t left) {
  if (*s < 0x80) return *s >= ' ' && *s != 0x7f;
  size_t n = *s >= 0xf0 ? 4 : *s >= 0xe0 ? 3 : 2;
  uint32_t c = *s & (0x7fu >> n);
  if (*s < 0xc2 || *s > 0xf4 || n > left) return 0;
  for (size_t i = 1; i < n; i++) {
    if ((s[i] & 0xc0) != 0x80) return 0;
    c = c << 6 | (s[i] & 0x3fu);
  }
  bool overlong = (n == 3 && c < 0x800) || (n == 4 && c < 0x10000), surrogate = c >= 0xd800 && c <= 0xdfff;
  return overlong || surrogate || c > 0x10ffff || c < 0xa0 ? 0 : n;
}

static bool read_id(buffer_reader *r, field f, const char **out_id) {
  const unsigned char *s = (const unsigned char *)f.text;
  if (!f.bytes) return wrong(r, f, "the id is missing");
  for (size_t i = 0, n; i < f.bytes; i += n)
    if (!(n = printable_bytes(s + i, f.bytes - i))) return wrong(r, f, "the id is not printable text");
  char *id = msc_arena_copy(msc_context_arena(r->ctx), f.text, f.bytes + 1);
  id[f.bytes] = 0;
  *out_id = id;
  return true;
}

static bool read_buffer(buffer_reader *r, const char *begin, const char *end) {
  field f[NUM_COLUMNS];
  int num = split_line(begin, end, f);
  if (num != NUM_COLUMNS) return wrong(r, f[0], "%d fields; a buffer has %d: id, lower, upper, size", num, NUM_COLUMNS);
  const char *id = NULL;
  int64_t lower, upper, size;
  MSC_TRY(read_id(r, f[r->place[ID]], &id));
  bool ok = read_whole(r, f[r->place[LOWER]], "lower", &lower);
  ok = read_whole(r, f[r->place[UPPER]], "upper", &upper) && ok;
  ok = read_whole(r, f[r->place[SIZE]], "size", &size) && ok;
  MSC_TRY(ok);
  if (lower >= upper)
    return wrong(r, f[r->place[UPPER]], "buffer '%s' is live from %" PRId64 " to before %" PRId64 ": never", id, lower,
                 upper);
  if (size < 0) return wrong(r, f[r->place[SIZE]], "buffer '%s' has the size %" PRId64, id, size);
  if ((uint64_t)size >= MSC_OFFSETS_MOST - r->total)
    return wrong(r, f[r->place[SIZE]], "the sizes add up to more than 2^61 bytes");
  r->total += (uint64_t)size;
  r->line_of[r->out->num] = r->line;
  r->out->id[r->out->num] = id;
  r->out->buffer[r->out->num++] =
      (msc_buffer){(uint64_t)lower ^ (uint64_t)1 << 63, (uint64_t)upper ^ (uint64_t)1 << 63, (uint64_t)size};
  return true;
}

typedef struct {
  const char *id;
  uint32_t line;
} named;

static int compare_buffer_ids(const void *a, const void *b) {
  const named *x = a, *y = b;
  int c = strcmp(x->id, y->id);
  return c ? c : x->line < y->line ? -1 : x->line > y->line;
}

static bool check_ids_differ(buffer_reader *r) {
  size_t num = r->out->num;
  named *n = msc_new_array(msc_context_arena(r->ctx), named, num);
  for (size_t i = 0; i < num; i++) n[i] = (named){r->out->id[i], r->line_of[i]};
  qsort(n, num, sizeof *n, compare_buffer_ids);
  for (size_t i = 1; i < num; i++) {
    if (strcmp(n[i - 1].id, n[i].id) != 0) continue;
    msc_error(r->ctx, MSC_E_DATA, loc_of(r, n[i].line, 0), "buffer '%s' is there twice", n[i].id);
    return msc_note(r->ctx, loc_of(r, n[i - 1].line, 0), "the first one");
  }
  return true;
}

bool msc_buffers_read(msc_context *ctx, const char *path, const char *text, size_t bytes, msc_buffer_file *out_file) {
  buffer_reader r = {.ctx = ctx, .path = path, .at = text, .end = text + bytes, .out = out_file};
  const char *begin, *end;
  int errors = 0;
  size_t lines = 1;
  for (const char *p = text; p < r.end && (p = memchr(p, '\n', (size_t)(r.end - p))); p++) lines++;
  *out_file = (msc_buffer_file){0, msc_new_array(msc_context_arena(ctx), const char *, lines),
                                msc_new_array(msc_context_arena(ctx), msc_buffer, lines)};
  r.line_of = msc_new_array(msc_context_arena(ctx), uint32_t, lines);
  MSC_TRY(read_header(&r));
  while (read_line(&r, &begin, &end)) {
    if (read_buffer(&r, begin, end) || ++errors < MOST_ERRORS) continue;
    return msc_note(ctx, NULL, "what comes behind line %u was not looked at", r.line);
  }
  return check_ids_differ(&r) && !errors;
}
