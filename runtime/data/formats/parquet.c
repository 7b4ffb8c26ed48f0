/* parquet.c: a Parquet file in; its rows as samples out, of the columns that an input takes. Groups of rows are decoded
 * when a row of them is wanted, these columns alone, by several threads until all are there, and the last few stay: a
 * file may be larger than memory.
 *
 * Columns are flat: one number per row, none absent. Format: https://parquet.apache.org/docs/file-format. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "runtime/data/formats/parquet.h"
#include "runtime/data/formats/thrift.h"

enum { MOST_FOOTER = 256 << 20, MOST_COLUMNS = 65536, MOST_GROUP_ROWS = 1 << 26 };
#define KEPT_BYTES ((uint64_t)512 << 20) /* of decoded groups; one at least stays */

enum { REQUIRED, OPTIONAL, REPEATED };                    /* repetition of a column */
enum { DECIMAL = 5, UNSIGNED_32 = 13, UNSIGNED_64 = 14 }; /* converted types that change what numbers mean */

typedef enum { GROUP_ABSENT, GROUP_LOADING, GROUP_READY } group_state;

typedef struct {
  int64_t first, rows;  /* numbers of rows */
  parquet_chunk *chunk; /* of each wanted column */
  group_state state;
  int users;     /* threads that read it */
  uint64_t used; /* when it was last wanted */
  char *values;  /* row after row, `each` bytes for each wanted column */
} row_group;

typedef struct {
  mscrt_records records;
  mscrt_blob blob;
  bool whole; /* values are whole numbers, else floats */
  int each;   /* bytes of a value: 4 where all wanted columns have no more, else 8 */
  int num_all, num_columns;
  parquet_column *all; /* of the file */
  int *column;         /* the wanted ones */
  int64_t num_groups, rows;
  row_group *group;
  pthread_mutex_t lock; /* of what follows, and of states */
  pthread_cond_t changed;
  uint64_t kept, clock;
  int64_t num_ready; /* groups */
} parquet;

bool mscrt_is_parquet_name(const char *path) {
  const char *end = strrchr(path, '.');
  return end && (!strcasecmp(end, ".parquet") || !strcasecmp(end, ".pq"));
}

/* ---- the footer ---- */

typedef struct {
  parquet *p;
  mscrt_thrift t;
  int64_t depth, left[8]; /* of nested columns: how many are left at each level */
} footer;

static mscrt_status *bad_footer(const parquet *p) { return mscrt_bad_file(&p->blob, "%s", "its footer is damaged"); }

static mscrt_status *read_schema_element(footer *f, bool is_root, int64_t *out_children) {
  parquet_column c = {.type = -1};
  mscrt_thrift_field field = {0};
  size_t bytes = 0;
  const char *name = NULL;
  int64_t repetition = REQUIRED, converted = -1;
  *out_children = 0;
  while (mscrt_thrift_next(&f->t, &field)) {
    if (field.id == 4) name = mscrt_thrift_text(&f->t, field, &bytes);
    else if (field.id == 1) c.type = (int)mscrt_thrift_number(&f->t, field, -1);
    else if (field.id == 3) repetition = mscrt_thrift_number(&f->t, field, REQUIRED);
    else if (field.id == 5) *out_children = mscrt_thrift_number(&f->t, field, 0);
    else if (field.id == 6) converted = mscrt_thrift_number(&f->t, field, -1);
    else mscrt_thrift_skip(&f->t, field.type);
  }
  if (f->t.bad || !name || *out_children < 0 || *out_children > MOST_COLUMNS) return bad_footer(f->p);
  c.optional = repetition == OPTIONAL, c.nested = repetition == REPEATED || f->depth > 0;
  c.is_unsigned = converted == UNSIGNED_32, c.is_decimal = converted == DECIMAL;
  if (is_root || *out_children) return NULL;
  if (f->p->num_all == MOST_COLUMNS) return mscrt_bad_file(&f->p->blob, "has more than %d columns", MOST_COLUMNS);
  c.name = strndup(name, bytes);
  if (!c.name) return mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
  f->p->all[f->p->num_all++] = c;
  return NULL;
}

/* Reads the tree of columns, which is a list in depth-first order: of its leaves the chunks of a group consist. */
static mscrt_status *read_schema(footer *f, mscrt_thrift_field field) {
  int64_t num = mscrt_thrift_list(&f->t, field, MSCRT_THRIFT_STRUCT), children;
  if (num < 1 || num > MOST_COLUMNS || f->p->all) return bad_footer(f->p);
  MSCRT_CHECK(mscrt_new_array(&f->p->all, num));
  MSCRT_CHECK(read_schema_element(f, true, &children));
  for (int64_t i = 1; i < num; i++) {
    MSCRT_CHECK(read_schema_element(f, false, &children));
    if (f->depth && --f->left[f->depth - 1] == 0) f->depth--;
    if (children && f->depth == (int64_t)(sizeof f->left / sizeof *f->left)) return bad_footer(f->p);
    if (children) f->left[f->depth++] = children;
  }
  return NULL;
}

static void read_chunk(footer *f, parquet_chunk *out) {
  mscrt_thrift_field field = {0}, inner;
  int64_t data = -1, dictionary = -1, bytes = -1, other_file = 0;
  *out = (parquet_chunk){.values = -1};
  while (mscrt_thrift_next(&f->t, &field)) {
    if (field.id == 1) other_file = 1;
    if (field.id != 3 || field.type != MSCRT_THRIFT_STRUCT) {
      mscrt_thrift_skip(&f->t, field.type);
      continue;
    }
    inner = (mscrt_thrift_field){0};
    while (mscrt_thrift_next(&f->t, &inner)) {
      int id = inner.id;
      if (id != 4 && id != 5 && id != 7 && id != 9 && id != 11) {
        mscrt_thrift_skip(&f->t, inner.type);
        continue;
      }
      int64_t v = mscrt_thrift_number(&f->t, inner, -1);
      if (id == 4) out->codec = (int)v;
      else if (id == 5) out->values = v;
      else if (id == 7) bytes = v;
      else if (id == 9) data = v;
      else dictionary = v;
    }
  }
  int64_t at = dictionary > 0 && dictionary < data ? dictionary : data;
  if (other_file || at < 0 || bytes < 0 || (uint64_t)at > f->p->blob.bytes ||
      (uint64_t)bytes > f->p->blob.bytes - (uint64_t)at)
    out->values = -1;
  else out->at = (uint64_t)at, out->bytes = (uint64_t)bytes;
}

static mscrt_status *read_row_group(footer *f, row_group *g) {
  mscrt_thrift_field field = {0};
  int64_t rows = -1;
  while (mscrt_thrift_next(&f->t, &field)) {
    if (field.id == 1) {
      int64_t num = mscrt_thrift_list(&f->t, field, MSCRT_THRIFT_STRUCT);
      if (num != f->p->num_all || g->chunk) return bad_footer(f->p);
      MSCRT_CHECK(mscrt_new_array(&g->chunk, num + 1));
      for (int64_t i = 0; i < num; i++) read_chunk(f, &g->chunk[i]);
    } else if (field.id == 3) rows = mscrt_thrift_number(&f->t, field, -1);
    else mscrt_thrift_skip(&f->t, field.type);
  }
  if (f->t.bad || rows < 0 || rows > MOST_GROUP_ROWS || !g->chunk) return bad_footer(f->p);
  g->first = f->p->rows, g->rows = rows;
  f->p->rows += rows;
  return NULL;
}

static mscrt_status *read_footer(footer *f) {
  mscrt_thrift_field field = {0};
  parquet *p = f->p;
  while (mscrt_thrift_next(&f->t, &field)) {
    if (field.id == 2) MSCRT_CHECK(read_schema(f, field));
    else if (field.id == 4) {
      int64_t num = mscrt_thrift_list(&f->t, field, MSCRT_THRIFT_STRUCT);
      if (!p->all || p->group) return bad_footer(p);
      MSCRT_CHECK(mscrt_new_array(&p->group, num + 1));
      for (; p->num_groups < num;) MSCRT_CHECK(read_row_group(f, &p->group[p->num_groups++]));
    } else mscrt_thrift_skip(&f->t, field.type);
  }
  return f->t.bad || !p->all || !p->group ? bad_footer(p) : NULL;
}

static mscrt_status *open_footer(parquet *p) {
  uint8_t tail[8], *bytes = NULL;
  uint32_t num;
  if (p->blob.bytes < 12) return mscrt_bad_file(&p->blob, "%s", "is no Parquet file: it is too short");
  MSCRT_CHECK(mscrt_blob_read(&p->blob, p->blob.bytes - 8, tail, 8));
  memcpy(&num, tail, 4);
  if (!memcmp(tail + 4, "PARE", 4)) return mscrt_bad_file(&p->blob, "%s", "is encrypted, which is not supported");
  if (memcmp(tail + 4, "PAR1", 4)) return mscrt_bad_file(&p->blob, "%s", "is no Parquet file, or is truncated");
  if (num > p->blob.bytes - 8 || num > MOST_FOOTER) return bad_footer(p);
  MSCRT_CHECK(mscrt_allocate((void **)&bytes, (size_t)num + 1, 1));
  mscrt_status *s = mscrt_blob_read(&p->blob, p->blob.bytes - 8 - num, bytes, num);
  footer f = {.p = p, .t = {.at = bytes, .end = bytes + num}};
  if (!s) s = read_footer(&f);
  free(bytes);
  return s;
}

/* ---- columns ---- */

static const char *why_no_numbers(const parquet_column *c) {
  if (c->nested) return "is nested or repeated: it has no single number per row";
  if (c->is_decimal) return "holds decimals, which are not supported";
  if (c->type < 0 || c->type > PARQUET_DOUBLE || c->type == PARQUET_INT96) return "holds no numbers";
  return NULL;
}

static int find_parquet_column(const parquet *p, const char *name, size_t length) {
  for (int i = 0; i < p->num_all; i++)
    if (strlen(p->all[i].name) == length && !memcmp(p->all[i].name, name, length)) return i;
  char *end;
  long number = strtol(name, &end, 10);
  return end == name + length && length && number >= 0 && number < p->num_all ? (int)number : -1;
}

static mscrt_status *take_column(parquet *p, int i) {
  const parquet_column *c = &p->all[i];
  const char *why = why_no_numbers(c);
  if (why) return mscrt_bad_file(&p->blob, "column '%s' %s", c->name, why);
  if (p->whole && (c->type == PARQUET_FLOAT || c->type == PARQUET_DOUBLE))
    return mscrt_bad_file(&p->blob, "column '%s' holds floating-point numbers, and the input takes integers", c->name);
  if (p->num_columns == p->num_all) return mscrt_bad_file(&p->blob, "more columns are wanted than its %d", p->num_all);
  p->column[p->num_columns++] = i;
  return NULL;
}

/* The columns that are named, or the one with the input's name, or all that hold numbers. */
static mscrt_status *take_columns(parquet *p, const mscrt_wanted *w, const char *columns) {
  int own = columns ? -1 : find_parquet_column(p, w->name, strlen(w->name));
  MSCRT_CHECK(mscrt_new_array(&p->column, p->num_all + 1));
  if (own >= 0) return take_column(p, own);
  for (int i = 0; i < p->num_all && !columns; i++)
    if (!why_no_numbers(&p->all[i])) MSCRT_CHECK(take_column(p, i));
  for (const char *at = columns; at;) {
    const char *comma = strchr(at, ',');
    size_t length = comma ? (size_t)(comma - at) : strlen(at);
    int i = find_parquet_column(p, at, length);
    if (i < 0) return mscrt_bad_file(&p->blob, "has no column '%.*s' among its %d", (int)length, at, p->num_all);
    MSCRT_CHECK(take_column(p, i));
    at = comma ? comma + 1 : NULL;
  }
  return p->num_columns ? NULL : mscrt_bad_file(&p->blob, "%s", "has no column of numbers");
}

/* True if no value of the wanted columns needs more than i32 or f32. */
static bool are_narrow(const parquet *p) {
  for (int i = 0; i < p->num_columns; i++) {
    const parquet_column *c = &p->all[p->column[i]];
    bool narrow = p->whole ? c->type == PARQUET_BOOLEAN || (c->type == PARQUET_INT32 && !c->is_unsigned)
                           : c->type == PARQUET_BOOLEAN || c->type == PARQUET_FLOAT;
    if (!narrow) return false;
  }
  return true;
}

/* ---- groups of rows ---- */

static uint64_t bytes_of_group(const parquet *p, const row_group *g) {
  return (uint64_t)g->rows * (uint64_t)p->num_columns * (uint64_t)p->each;
}

static mscrt_status *decode_column(const parquet *p, const row_group *g, int i, void *out) {
  const parquet_chunk *chunk = &g->chunk[p->column[i]];
  const parquet_column *column = &p->all[p->column[i]];
  if (chunk->values < 0) return mscrt_bad_file(&p->blob, "column '%s' does not lie in the file", column->name);
  return mscrt_parquet_decode(&p->blob, column, chunk, g->rows, g->first, p->whole, out);
}

/* put_into_rows puts `num` columns of `rows` values, one behind the other at `from`, into rows of `width` values. */
#define PUTS_INTO_ROWS(NAME, FROM, TO)                                                                 \
  static void NAME(int64_t rows, int num, const FROM *restrict from, int64_t width, TO *restrict to) { \
    for (int64_t row = 0; row < rows; row++, from++, to += width)                                      \
      for (int i = 0; i < num; i++) to[i] = (TO)from[i * rows];                                        \
  }
PUTS_INTO_ROWS(put_words, int64_t, int64_t)
PUTS_INTO_ROWS(put_narrow_whole, int64_t, int32_t)
PUTS_INTO_ROWS(put_narrow_floats, double, float)

static void put_into_rows(const parquet *p, int64_t rows, int num, const void *from, void *to) {
  if (p->each == 8) put_words(rows, num, from, p->num_columns, to);
  else if (p->whole) put_narrow_whole(rows, num, from, p->num_columns, to);
  else put_narrow_floats(rows, num, from, p->num_columns, to);
}

enum { SIDE_BY_SIDE = 8 }; /* columns that are put into rows at a time, so that a row's line of the cache stays there */

static mscrt_status *decode_group(const parquet *p, const row_group *g, char **out_values) {
  char *values = NULL, *room = NULL;
  int most = p->num_columns < SIDE_BY_SIDE ? p->num_columns : SIDE_BY_SIDE;
  mscrt_status *s = mscrt_allocate((void **)&values, (size_t)bytes_of_group(p, g), 1);
  if (!s) s = mscrt_allocate((void **)&room, (size_t)g->rows * 8, (size_t)most);
  for (int first = 0, num; first < p->num_columns && !s; first += num) {
    num = p->num_columns - first < most ? p->num_columns - first : most;
    for (int i = 0; i < num && !s; i++) s = decode_column(p, g, first + i, room + (size_t)i * (size_t)g->rows * 8);
    if (!s) put_into_rows(p, g->rows, num, room, values + (size_t)first * (size_t)p->each);
  }
  free(room);
  if (s) free(values);
  else *out_values = values;
  return s;
}

/* Drops groups that nobody reads, the oldest first, until there is room for another. Under the lock. */
static void make_room(parquet *p, uint64_t bytes) {
  while (p->kept && p->kept + bytes > KEPT_BYTES) {
    row_group *oldest = NULL;
    for (int64_t i = 0; i < p->num_groups; i++) {
      row_group *g = &p->group[i];
      if (g->state == GROUP_READY && !g->users && (!oldest || g->used < oldest->used)) oldest = g;
    }
    if (!oldest) return;
    free(oldest->values);
    oldest->values = NULL, oldest->state = GROUP_ABSENT;
    p->kept -= bytes_of_group(p, oldest), p->num_ready--;
  }
}

/* Makes a group ready and keeps it so until it is left. */
static mscrt_status *enter_group(parquet *p, row_group *g) {
  mscrt_status *s = NULL;
  char *values = NULL;
  pthread_mutex_lock(&p->lock);
  while (g->state == GROUP_LOADING) pthread_cond_wait(&p->changed, &p->lock);
  g->used = ++p->clock;
  if (g->state == GROUP_READY) {
    g->users++;
    pthread_mutex_unlock(&p->lock);
    return NULL;
  }
  g->state = GROUP_LOADING;
  make_room(p, bytes_of_group(p, g));
  pthread_mutex_unlock(&p->lock);
  s = decode_group(p, g, &values);
  pthread_mutex_lock(&p->lock);
  g->state = s ? GROUP_ABSENT : GROUP_READY;
  g->values = values, g->users += !s;
  if (!s) p->kept += bytes_of_group(p, g), p->num_ready++;
  atomic_store(&p->records.slow, p->num_ready < p->num_groups);
  pthread_cond_broadcast(&p->changed);
  pthread_mutex_unlock(&p->lock);
  return s;
}

static void leave_group(parquet *p, row_group *g) {
  pthread_mutex_lock(&p->lock);
  g->users--;
  pthread_mutex_unlock(&p->lock);
}

static row_group *group_of_row(const parquet *p, int64_t row) {
  int64_t low = 0, high = p->num_groups;
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    if (p->group[middle].first <= row) low = middle;
    else high = middle;
  }
  return &p->group[low];
}

static mscrt_status *decode_row(const mscrt_records *r, int64_t number, void *out) {
  parquet *p = (parquet *)(uintptr_t)r;
  row_group *g = group_of_row(p, number);
  size_t bytes = (size_t)p->num_columns * (size_t)p->each;
  MSCRT_CHECK(enter_group(p, g));
  memcpy(out, g->values + (size_t)(number - g->first) * bytes, bytes);
  leave_group(p, g);
  return NULL;
}

/* ---- opening ---- */

static void free_parquet(mscrt_records *r) {
  parquet *p = (parquet *)r;
  mscrt_blob_close(&p->blob);
  for (int i = 0; i < p->num_all; i++) free((char *)(uintptr_t)p->all[i].name);
  for (int64_t i = 0; i < p->num_groups; i++) free(p->group[i].chunk), free(p->group[i].values);
  pthread_mutex_destroy(&p->lock);
  pthread_cond_destroy(&p->changed);
  free(p->all);
  free(p->group);
  free(p->column);
  free(p);
}

mscrt_status *mscrt_parquet_open(mscrt_blob *b, const mscrt_wanted *w, const char *columns, mscrt_array *out_array,
                                 mscrt_records **out_records) {
  parquet *p = NULL;
  MSCRT_CHECK(mscrt_new_array(&p, 1));
  p->records = (mscrt_records){.decode = decode_row, .free = free_parquet, .slow = true};
  p->blob = *b, p->whole = !mscrt_is_float(w->dtype);
  *b = (mscrt_blob){.fd = -1};
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->changed, NULL);
  mscrt_status *s = open_footer(p);
  if (!s && !p->rows) s = mscrt_bad_file(&p->blob, "%s", "has no rows");
  if (!s) s = take_columns(p, w, columns);
  if (s) {
    free_parquet(&p->records);
    return s;
  }
  p->each = are_narrow(p) ? 4 : 8;
  mscrt_dtype dtype = p->each == 4 ? (p->whole ? MSCRT_I32 : MSCRT_F32) : p->whole ? MSCRT_I64 : MSCRT_F64;
  *out_array = (mscrt_array){.dtype = dtype, .rank = 2, .dim = {p->rows, p->num_columns}};
  *out_records = &p->records;
  return NULL;
}
