/* context.c: requests for memory, interned data and diagnostics in; their storage, which is freed with the context,
 * out. */
#include <locale.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <xxhash.h>

#include "ir/abi/path_fault.h"
#include "ir/fact.h"
#include "ir/ir.h"
#include "ir/op_table.h"
#include "ir/table.h"

enum {
  FIRST_CHUNK = 64 * 1024,
  /* One huge page, where the system has them: page faults would take most of the time of a short compile. */
  LARGE_CHUNK = 2 * 1024 * 1024
};

typedef struct chunk {
  struct chunk *next;
  size_t bytes; /* of data */
  _Alignas(16) unsigned char data[];
} chunk;

struct msc_arena {
  msc_context *ctx;
  msc_arena *next, **prev; /* the context's list of arenas */
  chunk *chunks;           /* the current one first */
  size_t used;             /* bytes used of the current chunk */
  size_t total;
};

/* Interned bytes, followed by a NUL. */
typedef struct {
  const void *data; /* in the context's arena, or a name of fact.def */
  size_t bytes;
} interned;

typedef struct {
  const void *a, *b;
} pair;

/* The result that is kept for two interned pointers (msc_memo_of). */
typedef struct {
  pair of;
  const void **answer; /* its address does not change when the table grows */
} memo;

struct msc_context {
  msc_realloc_fn *alloc;
  void *user;
  msc_arena *arenas, *arena; /* all arenas; the context's own one */
  msc_arena *trial;          /* the arena of the innermost trial that has begun and not ended, or NULL */
  size_t total, limit;       /* bytes in chunks of all arenas, and in spare ones */
  chunk *spare;              /* large chunks of freed arenas, whose pages the system has provided already */
  msc_index names;           /* numbers in `name`, by hash */
  interned *name;
  MSC_TABLE(memo) known;
  atomic_bool cancelled;
  msc_diag *first, *last, why_left; /* why_left: the last diagnostic, which tells why the recovery point was used */
  int num_errors;
  jmp_buf *recovery;
  const msc_op_info **info; /* op.c's table, made on first use */
  /* layouts of whole tensors by rank, made on first use, because most tensors are whole on most meshes */
  const msc_layout *replicated[MSC_MAX_RANK + 1];
};

static void *libc_realloc(void *user, void *ptr, size_t old_bytes, size_t bytes) {
  (void)user, (void)old_bytes;
  if (bytes == 0) {
    free(ptr);
    return NULL;
  }
  if (ptr || bytes < LARGE_CHUNK || bytes > SIZE_MAX / 2) return realloc(ptr, bytes);
  bytes = (bytes + LARGE_CHUNK - 1) / LARGE_CHUNK * LARGE_CHUNK;
  void *large = aligned_alloc(LARGE_CHUNK, bytes);
  if (large) madvise(large, bytes, MADV_HUGEPAGE); /* if it fails, only the speed differs */
  return large;
}

/* ---- arenas ---- */

/* Jumps to the recovery point, when memory is exhausted or the context is cancelled. */
static void leave(msc_context *ctx) {
  if (ctx->recovery) longjmp(*ctx->recovery, 1);
  abort(); /* a bug in msc: an entry point without msc_protect */
}

static bool is_cancelled(const msc_context *ctx) { return atomic_load_explicit(&ctx->cancelled, memory_order_relaxed); }

static void free_chunk(msc_context *ctx, chunk *c) {
  ctx->total -= c->bytes;
  ctx->alloc(ctx->user, c, sizeof(chunk) + c->bytes, 0);
}

static void drop_chunk(msc_context *ctx, chunk *c) {
  if (c->bytes + sizeof(chunk) < LARGE_CHUNK) free_chunk(ctx, c);
  else c->next = ctx->spare, ctx->spare = c;
}

static void free_spare(msc_context *ctx) {
  while (ctx->spare) {
    chunk *c = ctx->spare;
    ctx->spare = c->next;
    free_chunk(ctx, c);
  }
}

/* Takes a spare chunk of about this size. */
static chunk *take_spare(msc_context *ctx, size_t bytes) {
  for (chunk **at = &ctx->spare; *at; at = &(*at)->next)
    if ((*at)->bytes >= bytes && (*at)->bytes / 2 <= bytes) {
      chunk *c = *at;
      *at = c->next;
      return c;
    }
  return NULL;
}

/* Makes a chunk with room for at least `bytes`. NULL: there is no more memory. */
static chunk *new_chunk(msc_context *ctx, size_t bytes) {
  chunk *c = take_spare(ctx, bytes);
  if (c || bytes > SIZE_MAX / 2) return c;
  if (ctx->limit && ctx->total + bytes > ctx->limit) free_spare(ctx);
  if (ctx->limit && ctx->total + bytes > ctx->limit) return NULL;
  c = ctx->alloc(ctx->user, NULL, 0, sizeof(chunk) + bytes);
  if (c) {
    c->bytes = bytes;
    ctx->total += bytes;
  }
  return c;
}

/* Returns the size of an arena's next chunk, which grows with the arena and with the request. */
static size_t next_chunk(const msc_arena *a, size_t bytes) {
  size_t size = FIRST_CHUNK;
  while (size < LARGE_CHUNK && (size < a->total || size / 4 < bytes)) size *= 2;
  return size - sizeof(chunk);
}

static msc_arena *link_arena(msc_context *ctx, msc_arena *a) {
  memset(a, 0, sizeof *a);
  a->ctx = ctx;
  a->next = ctx->arenas;
  a->prev = &ctx->arenas;
  if (a->next) a->next->prev = &a->next;
  ctx->arenas = a;
  return a;
}

msc_arena *msc_arena_new(msc_context *ctx) {
  msc_arena *a = ctx->alloc(ctx->user, NULL, 0, sizeof *a);
  if (!a) leave(ctx);
  return link_arena(ctx, a);
}

msc_arena *msc_arena_beside(const msc_arena *a) { return msc_arena_new(a->ctx); }

void msc_arena_free(msc_arena *a) {
  msc_context *ctx = a->ctx;
  for (chunk *c = a->chunks, *next; c; c = next) {
    next = c->next;
    drop_chunk(ctx, c);
  }
  *a->prev = a->next;
  if (a->next) a->next->prev = a->prev;
  ctx->alloc(ctx->user, a, sizeof *a, 0);
}

void msc_arena_reset(msc_arena *a) {
  for (chunk *c = a->chunks ? a->chunks->next : NULL, *next; c; c = next) {
    next = c->next;
    drop_chunk(a->ctx, c);
  }
  if (a->chunks) a->chunks->next = NULL;
  a->used = a->total = 0;
}

void *msc_arena_alloc(msc_arena *a, size_t bytes) {
  if (bytes > SIZE_MAX / 4 || is_cancelled(a->ctx)) leave(a->ctx);
  bytes = (bytes + 15) & ~(size_t)15;
  if (!a->chunks || a->chunks->bytes - a->used < bytes) {
    size_t usual = next_chunk(a, bytes);
    bool alone = bytes > usual;
    chunk *c = new_chunk(a->ctx, alone ? bytes : usual);
    if (!c) leave(a->ctx);
    if (a->chunks && alone) { /* a large request gets a chunk of its own, behind the current one */
      c->next = a->chunks->next;
      a->chunks->next = c;
      a->total += bytes;
      return memset(c->data, 0, bytes);
    }
    c->next = a->chunks;
    a->chunks = c;
    a->used = 0;
  }
  void *p = a->chunks->data + a->used;
  a->used += bytes;
  a->total += bytes;
  return memset(p, 0, bytes);
}

void *msc_arena_copy(msc_arena *a, const void *data, size_t bytes) {
  void *p = msc_arena_alloc(a, bytes);
  return bytes ? memcpy(p, data, bytes) : p;
}

void *msc_arena_room_for_one_more(msc_arena *a, void *array, size_t num, size_t item_bytes) {
  if (num & (num - 1)) return array;
  void *p = msc_arena_alloc(a, (num ? 2 * num : 1) * item_bytes);
  if (num) memcpy(p, array, num * item_bytes);
  return p;
}

char *msc_arena_vprintf(msc_arena *a, const char *fmt, va_list ap) {
  va_list again;
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, fmt, ap);
  char *p = msc_arena_alloc(a, (size_t)(n < 0 ? 0 : n) + 1);
  vsnprintf(p, (size_t)(n < 0 ? 0 : n) + 1, fmt, again);
  va_end(again);
  return p;
}

char *msc_arena_printf(msc_arena *a, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  char *p = msc_arena_vprintf(a, fmt, ap);
  va_end(ap);
  return p;
}

size_t msc_arena_bytes(const msc_arena *a) { return a->total; }

/* ---- context ---- */

msc_context *msc_context_new(msc_realloc_fn *alloc, void *user) {
  if (!alloc) alloc = libc_realloc;
  msc_context *ctx = alloc(user, NULL, 0, sizeof *ctx);
  msc_arena *arena = ctx ? alloc(user, NULL, 0, sizeof *arena) : NULL;
  if (!arena) {
    if (ctx) alloc(user, ctx, sizeof *ctx, 0);
    return NULL;
  }
  memset(ctx, 0, sizeof *ctx);
  ctx->alloc = alloc;
  ctx->user = user;
  ctx->arena = link_arena(ctx, arena);
  ctx->names.arena = ctx->known.index.arena = ctx->arena;
  return ctx;
}

void msc_context_free(msc_context *ctx) {
  if (!ctx) return;
  while (ctx->arenas) msc_arena_free(ctx->arenas);
  free_spare(ctx);
  ctx->alloc(ctx->user, ctx, sizeof *ctx, 0);
}

void msc_context_limit(msc_context *ctx, size_t bytes) { ctx->limit = bytes; }
void msc_context_cancel(msc_context *ctx) { atomic_store_explicit(&ctx->cancelled, true, memory_order_relaxed); }
msc_arena *msc_context_arena(msc_context *ctx) { return ctx->trial ? ctx->trial : ctx->arena; }
msc_arena *msc_lasting_arena(msc_context *ctx) { return ctx->arena; }

msc_arena *msc_begin_trial(msc_context *ctx) {
  msc_arena *outer = ctx->trial;
  ctx->trial = msc_arena_new(ctx);
  return outer;
}

msc_arena *msc_leave_trial(msc_context *ctx, msc_arena *outer) {
  msc_arena *arena = ctx->trial;
  ctx->trial = outer;
  return arena;
}

void msc_end_trial(msc_context *ctx, msc_arena *outer) { msc_arena_free(msc_leave_trial(ctx, outer)); }

/* Lets this thread read and write numbers with a decimal point, whatever the locale of the program is; returns what it
 * used before, for uselocale. */
static locale_t use_decimal_point(void) {
  return uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0)); /* the C library has it: nothing is made or freed */
}

bool msc_protect(msc_context *ctx, bool (*fn)(msc_context *, void *), void *arg) {
  jmp_buf here, *outer = ctx->recovery;
  locale_t before = use_decimal_point();
  if (setjmp(here)) {
    msc_diag *d = &ctx->why_left; /* the record itself must not need memory */
    if (ctx->last != d) {
      *d = (msc_diag){.severity = MSC_DIAG_ERROR,
                      .code = MSC_E_OUT_OF_MEMORY,
                      .text = "out of memory: the bound on the compiler's memory was reached"};
      if (is_cancelled(ctx)) d->code = MSC_E_CANCELLED, d->text = "cancelled by the program that compiles";
      if (ctx->last) ctx->last->next = d;
      else ctx->first = d;
      ctx->last = d;
    }
    ctx->num_errors++;
    ctx->recovery = outer;
    uselocale(before);
    return false;
  }
  ctx->recovery = &here;
  bool ok = fn(ctx, arg);
  ctx->recovery = outer;
  uselocale(before);
  return ok;
}

/* ---- interning ---- */

static const void *add_interned(msc_context *ctx, uint64_t hash, const void *data, size_t bytes) {
  msc_grow(ctx->arena, ctx->name, ctx->names.num);
  ctx->name[ctx->names.num] = (interned){data, bytes};
  msc_index_add(&ctx->names, hash, ctx->names.num);
  return data;
}

/* Interns the names of facts at the addresses that they have in their table. */
static void add_fact_names(msc_context *ctx) {
  while (ctx->names.num < MSC_NUM_FACTS) {
    const char *name = msc_fact_rows[ctx->names.num].name;
    add_interned(ctx, XXH3_64bits(name, strlen(name)), name, strlen(name));
  }
}

const void *msc_intern_bytes(msc_context *ctx, const void *data, size_t bytes) {
  uint64_t hash = XXH3_64bits(data, bytes);
  if (ctx->names.num < MSC_NUM_FACTS) add_fact_names(ctx);
  MSC_INDEX_EACH(&ctx->names, hash, i)
  if (ctx->name[i].bytes == bytes && !memcmp(ctx->name[i].data, data, bytes)) return ctx->name[i].data;
  char *copy = msc_arena_alloc(ctx->arena, bytes + 1);
  if (bytes) memcpy(copy, data, bytes);
  return add_interned(ctx, hash, copy, bytes);
}

const char *msc_intern_n(msc_context *ctx, const char *text, size_t n) { return msc_intern_bytes(ctx, text, n); }
const char *msc_intern(msc_context *ctx, const char *text) {
  return text && !msc_is_fact_name(text) ? msc_intern_n(ctx, text, strlen(text)) : text;
}

const void **msc_memo_of(msc_context *ctx, const void *a, const void *b) {
  const pair key = {a, b};
  const void ***answer = &msc_table_at(&ctx->known, &key)->answer;
  if (!*answer) *answer = msc_new(ctx->arena, const void *);
  return *answer;
}

const msc_layout *msc_layout_replicated(msc_context *ctx, int rank) {
  if (ctx->replicated[rank]) return ctx->replicated[rank];
  msc_layout l;
  memset(&l, 0, sizeof l);
  l.rank = (uint8_t)rank;
  return ctx->replicated[rank] = msc_intern_bytes(ctx, &l, sizeof l);
}

const msc_type *msc_type_of(msc_context *ctx, msc_dtype dtype, int rank, const int64_t *dim, const msc_layout *layout) {
  msc_type t;
  memset(&t, 0, sizeof t); /* clears the padding, too: types are compared as bytes */
  t.dtype = dtype;
  t.rank = rank;
  for (int d = 0; d < rank; d++) t.dim[d] = dim[d];
  t.layout = layout;
  return msc_intern_bytes(ctx, &t, sizeof t);
}

const msc_type *msc_type_with_layout(msc_context *ctx, const msc_type *t, const msc_layout *layout) {
  return msc_type_of(ctx, t->dtype, t->rank, t->dim, layout);
}

const msc_type *msc_type_with_dtype(msc_context *ctx, const msc_type *t, msc_dtype dtype) {
  return msc_type_of(ctx, dtype, t->rank, t->dim, t->layout);
}

bool msc_same_dims(const msc_type *a, const msc_type *b) {
  return a->rank == b->rank && !memcmp(a->dim, b->dim, sizeof *a->dim * (size_t)a->rank);
}

bool msc_same_tensor(const msc_type *a, const msc_type *b) { return a->dtype == b->dtype && msc_same_dims(a, b); }

int64_t msc_type_elems(const msc_type *t) {
  int64_t n = 1;
  bool zero = false;
  for (int d = 0; d < t->rank; d++) {
    if (t->dim[d] < 0) return -1;
    if (t->dim[d] == 0) zero = true;
    else if (__builtin_mul_overflow(n, t->dim[d], &n)) return -1;
  }
  return zero ? 0 : n;
}

int64_t msc_type_bytes(const msc_type *t) {
  int64_t n = msc_type_elems(t), bytes;
  if (n < 0 || __builtin_mul_overflow(n, msc_dtype_bytes(t->dtype), &bytes)) return -1;
  return bytes;
}

const msc_loc *msc_loc_of(msc_context *ctx, const msc_loc *loc) {
  msc_loc l;
  memset(&l, 0, sizeof l);
  l.file = loc->file, l.line = loc->line, l.col = loc->col;
  l.scope = loc->scope, l.caller = loc->caller, l.implied = loc->implied;
  return msc_intern_bytes(ctx, &l, sizeof l);
}

/* ---- element types ---- */

static const struct {
  const char *text;
  int64_t bytes;
  msc_dtype_class class;
} dtypes[MSC_NUM_DTYPES] = {
#define X(name, text, bytes, class) {text, bytes, MSC_CLASS_##class},
    MSC_DTYPES(X)
#undef X
};

const char *msc_dtype_name(msc_dtype d) { return dtypes[d].text; }
int64_t msc_dtype_bytes(msc_dtype d) { return dtypes[d].bytes; }
msc_dtype_class msc_dtype_class_of(msc_dtype d) { return dtypes[d].class; }

bool msc_dtype_parse(const char *text, msc_dtype *out_dtype) {
  for (int d = 0; d < MSC_NUM_DTYPES; d++) {
    const char *name = dtypes[d].text;
    bool bare = name[0] == 'u' && text[0] == 'u' && strcmp(name + 2, text + 1) == 0; /* ui8 in IR text, u8 elsewhere */
    if (bare || strcmp(name, text) == 0) {
      *out_dtype = (msc_dtype)d;
      return true;
    }
  }
  return false;
}

/* ---- diagnostics ---- */

bool msc_verror(msc_context *ctx, msc_severity s, msc_code code, const msc_loc *loc, const char *op_name,
                const char *fmt, va_list ap) {
  msc_diag *d = msc_new(ctx->arena, msc_diag);
  d->severity = s;
  d->code = code;
  d->loc = loc;
  d->op_name = op_name ? msc_intern(ctx, op_name) : NULL; /* the op may go before the diagnostic */
  d->text = msc_arena_vprintf(ctx->arena, fmt, ap);
  if (ctx->last) ctx->last->next = d;
  else ctx->first = d;
  ctx->last = d;
  ctx->num_errors += s == MSC_DIAG_ERROR;
  return false;
}

#define REPORT(ctx, severity, code, loc, op_name)                     \
  do {                                                                \
    va_list ap;                                                       \
    va_start(ap, fmt);                                                \
    msc_verror((ctx), (severity), (code), (loc), (op_name), fmt, ap); \
    va_end(ap);                                                       \
    return false;                                                     \
  } while (0)

bool msc_error(msc_context *ctx, msc_code code, const msc_loc *loc, const char *fmt, ...) {
  REPORT(ctx, MSC_DIAG_ERROR, code, loc, NULL);
}
bool msc_write_error(msc_context *ctx, const msc_loc *loc, int error, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  const char *what = msc_arena_vprintf(ctx->arena, fmt, ap);
  va_end(ap);
  msc_error(ctx, MSC_E_FILE, loc, "%s: %s", what, strerror(error));
  ctx->last->by_machine = !msc_is_path_fault(error);
  return false;
}
bool msc_warning(msc_context *ctx, msc_code code, const msc_loc *loc, const char *fmt, ...) {
  REPORT(ctx, MSC_DIAG_WARNING, code, loc, NULL);
}
bool msc_note(msc_context *ctx, const msc_loc *loc, const char *fmt, ...) {
  REPORT(ctx, MSC_DIAG_NOTE, MSC_E_NONE, loc, NULL);
}
bool msc_op_error(const msc_op *op, msc_code code, const char *fmt, ...) {
  REPORT(msc_op_ctx(op), MSC_DIAG_ERROR, code, op->loc, op->name);
}

const msc_diag *msc_diags(const msc_context *ctx) { return ctx->first; }
int msc_num_errors(const msc_context *ctx) { return ctx->num_errors; }

void msc_clear_diags(msc_context *ctx) { msc_forget_diags(ctx, (msc_diag_mark){0}); }

msc_diag_mark msc_mark_diags(const msc_context *ctx) { return (msc_diag_mark){ctx->last, ctx->num_errors}; }

void msc_forget_diags(msc_context *ctx, msc_diag_mark since) {
  if (since.last) since.last->next = NULL;
  else ctx->first = NULL;
  ctx->last = since.last;
  ctx->num_errors = since.num_errors;
}

static const struct {
  msc_code code;
  const char *title, *story;
} codes[] = {
#define DIAG(name, number, title, story) {MSC_E_##name, title, story},
#include "ir/diag.def"
#undef DIAG
};

const char *msc_code_title(msc_code code) {
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
    if (codes[i].code == code) return codes[i].title;
  return NULL;
}

const char *msc_code_story(msc_code code) {
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
    if (codes[i].code == code) return codes[i].story;
  return NULL;
}

/* Returns the Levenshtein distance of two words, computed with one row of the table; words that are longer than the row
 * get a large distance. */
static size_t edit_distance(const char *a, const char *b) {
  enum { MAX = 64 };
  size_t row[MAX + 1], la = strlen(a), lb = strlen(b);
  if (la > MAX || lb > MAX) return SIZE_MAX;
  for (size_t j = 0; j <= lb; j++) row[j] = j;
  for (size_t i = 1; i <= la; i++) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= lb; j++) {
      size_t change = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      size_t shorter = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
      row[j] = change < shorter ? change : shorter;
    }
  }
  return row[lb];
}

const char *msc_nearest(const char *word, const char *const *words, size_t n) {
  const char *best = NULL;
  size_t limit = strlen(word) / 3 + 1, least = limit + 1;
  for (size_t i = 0; i < n; i++) {
    size_t d = edit_distance(word, words[i]);
    if (d < least) least = d, best = words[i];
  }
  return best;
}

/* op.c keeps its parsed table here, so that there is no global state. */
const msc_op_info **msc_context_op_table(msc_context *ctx, size_t num) {
  if (!ctx->info) ctx->info = msc_new_array(ctx->arena, const msc_op_info *, num);
  return ctx->info;
}
