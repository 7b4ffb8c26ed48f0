/* context.h: a context owns a program: its memory, which is freed as a whole, interned text, places in the source,
 * diagnostics.  Allocating never returns NULL: when memory is exhausted, or the context is cancelled, it jumps to the
 * context's one recovery point. */
#ifndef MSC_IR_CONTEXT_H
#define MSC_IR_CONTEXT_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define MSC_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define MSC_TRY(e)            \
  do {                        \
    if (!(e)) return false;   \
  } while (0)

typedef struct msc_context msc_context;
typedef struct msc_arena msc_arena;
typedef struct msc_op msc_op;

/* ---- characters ---- */

/* Tells digits and letters of ASCII, whatever the locale; an underscore counts as a letter, as in names of the IR. */
static inline bool msc_is_digit(char c) { return c >= '0' && c <= '9'; }
static inline bool msc_is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

/* ---- locations and diagnostics ---- */

typedef struct msc_loc {
  const char *file;  /* interned; NULL: unknown */
  uint32_t line, col;
  const char *scope;             /* module path in the user's program, or NULL */
  const struct msc_loc *caller;  /* where that code was called from, or NULL   */
  bool implied;                  /* the place is where the op stands in the IR text; printers omit it */
} msc_loc;

typedef enum { MSC_DIAG_ERROR, MSC_DIAG_WARNING, MSC_DIAG_NOTE, MSC_DIAG_REMARK } msc_severity;

/* Codes are rows of ir/diag.def and are never reused. */
typedef enum {
  MSC_E_NONE,
#define DIAG(name, number, title, story) MSC_E_##name = number,
#include "ir/diag.def"
#undef DIAG
} msc_code;

typedef struct msc_diag {
  msc_severity severity;
  msc_code code;
  const msc_loc *loc;   /* may be NULL */
  const char *op_name;  /* name of the op concerned, or NULL */
  const char *text;
  bool by_machine; /* the fault is the machine's, as of a full disk, and not the user's input */
  struct msc_diag *next;
} msc_diag;

/* ---- context.c ---- */

typedef void *msc_realloc_fn(void *user, void *ptr, size_t old_bytes, size_t bytes); /* bytes 0 frees */

/* Makes a context; NULL: there is no memory. `alloc` NULL: the C library's allocator. */
msc_context *msc_context_new(msc_realloc_fn *alloc, void *user);
void msc_context_free(msc_context *ctx);
/* Limits the bytes of all arenas together; 0: no limit. */
void msc_context_limit(msc_context *ctx, size_t bytes);

/* Makes the next allocation, and all after it, leave through the recovery point. Any thread or signal handler may call
 * it. */
void msc_context_cancel(msc_context *ctx);

/* Runs fn(ctx, arg) with the recovery point set: arena exhaustion inside becomes an OUT_OF_MEMORY error and false, and
 * so does msc_context_cancel with CANCELLED. */
bool msc_protect(msc_context *ctx, bool (*fn)(msc_context *, void *), void *arg);

/* Returns the context's own arena; during a trial, the trial's. */
msc_arena *msc_context_arena(msc_context *ctx);
/* Returns the context's own arena even during a trial, for data that the trial must leave behind. */
msc_arena *msc_lasting_arena(msc_context *ctx);

/* Begin and end a trial. In between, msc_context_arena is a new arena, which the end frees with all modules made in it;
 * interned data, memos and diagnostics stay. msc_begin_trial returns the previous arena, which msc_end_trial takes and
 * restores: so a trial may run inside another one. */
msc_arena *msc_begin_trial(msc_context *ctx);
void msc_end_trial(msc_context *ctx, msc_arena *outer);
/* Ends a trial whose modules are still wanted: they live in the arena that is returned, which the caller frees, or the
 * context. */
msc_arena *msc_leave_trial(msc_context *ctx, msc_arena *outer);

msc_arena *msc_arena_new(msc_context *ctx); /* a scratch arena; freed by msc_arena_free or with the context */
msc_arena *msc_arena_beside(const msc_arena *arena); /* makes another arena of the same context */
void msc_arena_free(msc_arena *arena);
void msc_arena_reset(msc_arena *arena); /* frees everything that the arena handed out, but not the arena */
void *msc_arena_alloc(msc_arena *arena, size_t bytes); /* zeroed, 16-byte aligned, never NULL */
void *msc_arena_copy(msc_arena *arena, const void *data, size_t bytes);
char *msc_arena_printf(msc_arena *arena, const char *fmt, ...) MSC_PRINTF(2, 3);
char *msc_arena_vprintf(msc_arena *arena, const char *fmt, va_list ap);
/* Makes room for one more after `num` items: returns the array itself, or its copy with twice the room. The capacity is
 * always the next power of two. */
void *msc_arena_room_for_one_more(msc_arena *arena, void *array, size_t num, size_t item_bytes);
size_t msc_arena_bytes(const msc_arena *arena);
#define msc_grow(arena, array, num) ((array) = msc_arena_room_for_one_more((arena), (array), (num), sizeof *(array)))
#define msc_new(arena, T) ((T *)msc_arena_alloc((arena), sizeof(T)))
#define msc_new_array(arena, T, n) ((T *)msc_arena_alloc((arena), sizeof(T) * (size_t)(n)))

const char *msc_intern(msc_context *ctx, const char *text);
const char *msc_intern_n(msc_context *ctx, const char *text, size_t n);
/* Interns any byte-comparable struct: the caller zeroes its padding. */
const void *msc_intern_bytes(msc_context *ctx, const void *data, size_t bytes);
/* Returns the place for a result that follows from two interned things alone: a pointer, which is NULL at first. */
const void **msc_memo_of(msc_context *ctx, const void *a, const void *b);
const msc_loc *msc_loc_of(msc_context *ctx, const msc_loc *loc); /* interned copy */

/* Diagnostics are collected, in order.  All return false, so `return msc_error(...)` reads well. */
bool msc_error(msc_context *ctx, msc_code code, const msc_loc *loc, const char *fmt, ...) MSC_PRINTF(4, 5);
bool msc_verror(msc_context *ctx, msc_severity s, msc_code code, const msc_loc *loc, const char *op_name,
                const char *fmt, va_list ap);
/* Reports that a file cannot be written: the text, and what the value `error` of errno means. */
bool msc_write_error(msc_context *ctx, const msc_loc *loc, int error, const char *fmt, ...) MSC_PRINTF(4, 5);
bool msc_warning(msc_context *ctx, msc_code code, const msc_loc *loc, const char *fmt, ...) MSC_PRINTF(4, 5);
/* Adds a note to the diagnostic before. */
bool msc_note(msc_context *ctx, const msc_loc *loc, const char *fmt, ...) MSC_PRINTF(3, 4);
/* Reports an error at op->loc, with op->name. */
bool msc_op_error(const msc_op *op, msc_code code, const char *fmt, ...) MSC_PRINTF(3, 4);
const msc_diag *msc_diags(const msc_context *ctx); /* the first one; follow ->next */
int msc_num_errors(const msc_context *ctx);
void msc_clear_diags(msc_context *ctx);
/* msc_forget_diags drops the diagnostics reported since msc_mark_diags, for example those of a trial, whose failure is
 * no error. */
typedef struct {
  msc_diag *last;
  int num_errors;
} msc_diag_mark;
msc_diag_mark msc_mark_diags(const msc_context *ctx);
void msc_forget_diags(msc_context *ctx, msc_diag_mark since);
const char *msc_code_title(msc_code code);
const char *msc_code_story(msc_code code);
/* Returns the nearest of n words by edit distance, for "did you mean"; NULL when none is near. */
const char *msc_nearest(const char *word, const char *const *words, size_t n);

#endif
