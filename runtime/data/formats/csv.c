/* csv.c: a file of numbers in lines, with commas or tabs between them, in; its lines as samples out.  Where lines begin
 * is found once; numbers are read when a sample is wanted, so the file need not fit in memory.
 *
 * The first line has names if any of its fields is no number and not empty.  Fields may stand in double quotes.  Lines
 * without any character are passed over.  Every line has as many fields as the first one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/data.h"

enum { MAX_COLUMNS = 65536, MAX_LINE = 16 << 20, CHUNK = 1 << 20 };

typedef struct {
  mscrt_records records;
  mscrt_blob blob;
  char separator;
  bool whole;               /* numbers are integers: the input is one of integers */
  uint64_t *begin;          /* where each sample's line begins, and where the last one ends */
  int64_t num, room, first; /* samples; places in `begin`; lines before them */
  int fields;               /* of a line */
  int num_columns, *column; /* which fields the input takes */
} table;

bool mscrt_is_csv_name(const char *path) {
  const char *end = strrchr(path, '.');
  return end && (!strcasecmp(end, ".csv") || !strcasecmp(end, ".tsv"));
}

/* ---- lines ---- */

static mscrt_status *add_line(table *t, uint64_t begin) {
  MSCRT_CHECK(mscrt_grow(&t->begin, t->num, &t->room, sizeof *t->begin));
  t->begin[t->num++] = begin;
  return NULL;
}

/* Finds where the first line begins: behind the mark that some programs put in front of UTF-8. */
static mscrt_status *find_first_line(const table *t, uint64_t *out_begin) {
  char mark[3] = "";
  if (t->blob.bytes >= sizeof mark) MSCRT_CHECK(mscrt_blob_read(&t->blob, 0, mark, sizeof mark));
  *out_begin = memcmp(mark, "\xef\xbb\xbf", sizeof mark) ? 0 : sizeof mark;
  return NULL;
}

/* Finds where lines begin; skips empty lines. */
static mscrt_status *find_lines(table *t) {
  uint64_t begin = 0;
  mscrt_status *s = find_first_line(t, &begin);
  if (s) return s;
  char *chunk = malloc(CHUNK), last = 0; /* of the chunk before */
  if (!chunk) return mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
  for (uint64_t at = 0; at < t->blob.bytes && !s; at += CHUNK) {
    size_t num = t->blob.bytes - at < CHUNK ? (size_t)(t->blob.bytes - at) : CHUNK;
    s = mscrt_blob_read(&t->blob, at, chunk, num);
    for (const char *p = chunk, *end = chunk + num; !s && p < end; p++) {
      const char *newline = memchr(p, '\n', (size_t)(end - p));
      if (!newline) break;
      uint64_t next = at + (uint64_t)(newline - chunk) + 1;
      bool empty = next - begin == 1 || (next - begin == 2 && (newline > chunk ? newline[-1] : last) == '\r');
      if (!empty) s = add_line(t, begin);
      begin = next, p = newline;
    }
    last = chunk[num - 1];
  }
  if (!s && begin < t->blob.bytes) s = add_line(t, begin);
  free(chunk);
  return s;
}

/* The place in the file, from 1, of a line that is not empty, for messages: counts the ends of lines before it. */
static int64_t line_number(const table *t, int64_t number) {
  int64_t lines = 1;
  char chunk[4096];
  for (uint64_t at = 0; at < t->begin[number]; at += sizeof chunk) {
    size_t num = t->begin[number] - at < sizeof chunk ? (size_t)(t->begin[number] - at) : sizeof chunk;
    mscrt_status *s = mscrt_blob_read(&t->blob, at, chunk, num);
    if (s) mscrt_status_free(s);
    for (size_t i = 0; !s && i < num; i++) lines += chunk[i] == '\n';
    if (s) break;
  }
  return lines;
}

/* Reads line `number`, without its end, terminated by a 0; the caller frees it. */
static mscrt_status *read_line(const table *t, int64_t number, char **out) {
  uint64_t begin = t->begin[number], end = number + 1 < t->num ? t->begin[number + 1] : t->blob.bytes;
  *out = NULL;
  if (end - begin > MAX_LINE)
    return mscrt_bad_file(&t->blob, "line %" PRId64 " is longer than %d bytes", line_number(t, number), MAX_LINE);
  char *line = malloc((size_t)(end - begin) + 1);
  if (!line) return mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
  mscrt_status *s = mscrt_blob_read(&t->blob, begin, line, (size_t)(end - begin));
  if (s) {
    free(line);
    return s;
  }
  size_t num = (size_t)(end - begin);
  char *newline = memchr(line, '\n', num); /* empty lines may follow */
  if (newline) num = (size_t)(newline - line);
  if (num && line[num - 1] == '\r') num--;
  line[num] = 0;
  *out = line;
  return NULL;
}

/* Takes the field that begins at *at, without its quotes, terminated by a 0; *at moves behind it, or becomes NULL after
 * the last field. */
static char *take_field(const table *t, char **at) {
  char *p = *at, *field = p;
  if (*p == '"') {
    char *to = p;
    field = p++;
    for (; *p && (*p != '"' || p[1] == '"'); p++) *to++ = *p == '"' ? *p++ : *p;
    if (*p == '"') p++;
    while (*p && *p != t->separator) p++;
    bool more = *p != 0;
    *to = 0;
    *at = more ? p + 1 : NULL;
    return field;
  }
  char *end = strchr(p, t->separator);
  if (end) *end = 0;
  *at = end ? end + 1 : NULL;
  return field;
}

static bool is_end(const char *p) {
  while (*p == ' ') p++;
  return !*p;
}

/* Reads a number; *out_fits: f64 holds it. */
static bool read_real(const char *field, double *out, bool *out_fits) {
  char *end;
  *out_fits = mscrt_read_decimal(field, &end, out);
  return end != field && is_end(end);
}

static bool read_integer_field(const char *field, int64_t *out) {
  char *end;
  errno = 0;
  *out = strtoll(field, &end, 10);
  return end != field && is_end(end) && !errno;
}

/* ---- columns ---- */

static int count_fields(const table *t, const char *line) {
  char *copy = strdup(line), *at = copy;
  int num = 0;
  while (at && num < MAX_COLUMNS) take_field(t, &at), num++;
  free(copy);
  return num;
}

/* Finds the field of the first line that has this name, or this number; -1: none. */
static int find_column(const table *t, const char *first_line, const char *name, size_t length) {
  char *copy = strdup(first_line), *at = copy;
  int found = -1;
  for (int i = 0; at && copy && found < 0; i++) {
    const char *field = take_field(t, &at);
    if (t->first && strlen(field) == length && !memcmp(field, name, length)) found = i;
  }
  free(copy);
  char *end;
  long number = strtol(name, &end, 10);
  if (found < 0 && end == name + length && length && number >= 0 && number < t->fields) found = (int)number;
  return found;
}

static mscrt_status *choose_columns(table *t, const mscrt_wanted *w, const char *first_line, const char *columns) {
  int own = columns ? -1 : find_column(t, first_line, w->name, strlen(w->name));
  MSCRT_CHECK(mscrt_new_array(&t->column, t->fields > 0 ? t->fields : 1));
  if (own >= 0 && t->first) {
    t->column[t->num_columns++] = own;
    return NULL;
  }
  for (int i = 0; i < t->fields && !columns; i++) t->column[t->num_columns++] = i;
  for (const char *at = columns; at;) {
    const char *comma = strchr(at, ',');
    size_t length = comma ? (size_t)(comma - at) : strlen(at);
    int i = find_column(t, first_line, at, length);
    if (i < 0)
      return mscrt_bad_file(&t->blob, "has no column '%.*s': it has %d%s", (int)length, at, t->fields,
                            t->first ? ", named in its first line" : " without names, which count from 0");
    if (t->num_columns == t->fields) return mscrt_bad_file(&t->blob, "more columns are wanted than its %d", t->fields);
    t->column[t->num_columns++] = i;
    at = comma ? comma + 1 : NULL;
  }
  return NULL;
}

static mscrt_status *read_names(table *t, const mscrt_wanted *w, const char *columns) {
  char *line;
  double number;
  bool fits;
  if (!t->num) return mscrt_bad_file(&t->blob, "%s", "has no lines");
  MSCRT_CHECK(read_line(t, 0, &line));
  char *copy = strdup(line), *at = copy;
  t->separator = strchr(line, '\t') && !strchr(line, ',') ? '\t' : ',';
  while (at && !t->first) {
    const char *field = take_field(t, &at);
    t->first = !is_end(field) && !read_real(field, &number, &fits);
  }
  t->fields = count_fields(t, line);
  mscrt_status *s = t->fields >= MAX_COLUMNS ? mscrt_bad_file(&t->blob, "has more than %d columns", MAX_COLUMNS - 1)
                                             : choose_columns(t, w, line, columns);
  free(copy);
  free(line);
  return s;
}

/* ---- samples ---- */

static mscrt_status *decode_fields(const table *t, int64_t number, char *line, void *out) {
  char **field = NULL, *at = line;
  mscrt_status *s = mscrt_new_array(&field, t->fields);
  int num = 0;
  for (; !s && at && num < t->fields; num++) field[num] = take_field(t, &at);
  if (!s && (num < t->fields || at))
    s = mscrt_bad_file(&t->blob, "line %" PRId64 " has %s than %d fields", line_number(t, number),
                       at ? "more" : "fewer", t->fields);
  for (int i = 0; !s && i < t->num_columns; i++) {
    const char *text = field[t->column[i]];
    bool fits = true,
         ok = t->whole ? read_integer_field(text, (int64_t *)out + i) : read_real(text, (double *)out + i, &fits);
    if (!ok || !fits)
      s = mscrt_bad_file(&t->blob, "line %" PRId64 ", field %d: '%.40s' is no %s", line_number(t, number),
                         t->column[i] + 1, text, t->whole ? "integer of 64 bits" : "number within f64");
  }
  free(field);
  return s;
}

static mscrt_status *decode_line(const mscrt_records *r, int64_t number, void *out) {
  const table *t = (const table *)r;
  char *line;
  MSCRT_CHECK(read_line(t, number + t->first, &line));
  mscrt_status *s = decode_fields(t, number + t->first, line, out);
  free(line);
  return s;
}

static void free_table(mscrt_records *r) {
  table *t = (table *)r;
  mscrt_blob_close(&t->blob);
  free(t->begin);
  free(t->column);
  free(t);
}

mscrt_status *mscrt_csv_open(mscrt_blob *b, const mscrt_wanted *w, const char *columns, mscrt_array *out_array,
                             mscrt_records **out_records) {
  table *t = NULL;
  MSCRT_CHECK(mscrt_new_array(&t, 1));
  t->records = (mscrt_records){.decode = decode_line, .free = free_table, .apart = true};
  t->blob = *b, t->whole = !mscrt_is_float(w->dtype), t->separator = ',';
  *b = (mscrt_blob){.fd = -1};
  mscrt_status *s = find_lines(t);
  if (!s) s = read_names(t, w, columns);
  if (s) {
    free_table(&t->records);
    return s;
  }
  *out_array =
      (mscrt_array){.dtype = t->whole ? MSCRT_I64 : MSCRT_F64, .rank = 2, .dim = {t->num - t->first, t->num_columns}};
  *out_records = &t->records;
  return NULL;
}
