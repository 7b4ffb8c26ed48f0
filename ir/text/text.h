/* text.h: tokens, the parser's state and numbers as text, which the reader and the writer of IR text share. */
#ifndef MSC_IR_TEXT_H
#define MSC_IR_TEXT_H

#include "ir/ir.h"
#include "ir/table.h"
#include "ir/text/symbols.h"

enum {
  MSC_MAX_NESTING = 64,     /* regions, lists, dictionaries and locations in one another */
  MSC_MAX_CALLERS = 48,     /* printed per location: fewer than may nest                 */
  MSC_MAX_LISTED = 16,      /* elements of a dense constant written one by one           */
  MSC_MAX_NUMBER = 1000,    /* characters of a number                                    */
  MSC_MAX_SYNTAX_ERRORS = 100,
  MSC_NUMBER_TEXT = 40,     /* room for any number written                               */
};

/* ---- lex.c ---- */

/* A token's kind is its character, or one of these. */
enum {
  MSC_TOK_END = 256,
  MSC_TOK_BAD,     /* the lexer's `bad` says why                   */
  MSC_TOK_WORD,    /* module, tensor, f32, msc.role                */
  MSC_TOK_VALUE,   /* %x                                           */
  MSC_TOK_BLOCK,   /* ^bb0                                         */
  MSC_TOK_HASH,    /* #msc.layout, and the #1 of %0#1              */
  MSC_TOK_STRING,  /* with its quotes, escapes known to be good    */
  MSC_TOK_INT,     /* 12, -3, 0x1F                                 */
  MSC_TOK_FLOAT,   /* 1.5, -2.0e-03                                */
  MSC_TOK_ARROW,
};

typedef struct {
  int kind;
  uint32_t line, col; /* from 1; columns are bytes */
  bool first;         /* on its line */
  const char *at;
  size_t num;
} msc_token;

typedef struct {
  const char *p, *end, *line_start;
  uint32_t line;
  const char *bad, *bad_at; /* why, and where inside the token (NULL: at its start) */
} msc_lexer;

msc_lexer msc_lexer_of(const char *text, size_t bytes);

/* ---- the parser's state ---- */

/* One attribute of a dictionary that is being read. */
typedef struct {
  msc_attr attr;
  msc_token at;
} msc_entry;

typedef struct {
  msc_context *ctx;
  msc_arena *scratch; /* freed when parsing ends */
  msc_module *module;
  const char *file;
  msc_lexer lex;
  msc_token tok;      /* the one looked at */
  int depth;          /* of nesting */
  int num_syntax_errors;
  /* Stacks, so that nothing is allocated per construct: a construct pushes, copies out, pops. */
  struct { msc_attr_value *v; size_t num, room; } values;
  struct { msc_entry *e; size_t num, room; } entries;
  struct { const char *text; size_t num; const msc_layout *layout; } layouts[64];
} msc_parser;

/* Adds an item on top of a stack {array, num, room}; the items may move. */
#define MSC_PUSH(p, stack, array, item)                                          \
  do {                                                                           \
    msc_reserve((p)->scratch, (stack).array, (stack).room, (stack).num + 1);     \
    (stack).array[(stack).num++] = (item);                                       \
  } while (0)

void msc_advance(msc_parser *p);
bool msc_take(msc_parser *p, int kind);                /* if the token is of this kind, goes on */
bool msc_take_word(msc_parser *p, const char *word);
bool msc_is_word(const msc_parser *p, const char *word);
bool msc_expect(msc_parser *p, int kind, const char *what); /* as msc_take, or reports: expected `what` */
bool msc_unexpected(msc_parser *p, const char *what);  /* reports: expected `what`, not the token */
bool msc_syntax(msc_parser *p, msc_token at, const char *fmt, ...) MSC_PRINTF(3, 4);
bool msc_nest(msc_parser *p);                          /* one level deeper, or reports */
const msc_loc *msc_loc_at(const msc_parser *p, msc_token at);
const char *msc_token_text(const msc_parser *p, msc_token t); /* for messages: quoted, short, printable */
const char *msc_token_string(const msc_parser *p, msc_token t); /* of a STRING: unescaped, interned */

/* ---- parse_attr.c ---- */

typedef struct {
  const msc_attr *attrs;
  size_t num;
} msc_attr_array;

/* `{a = 1, ...}`, sorted by name.  `module`: msc.mesh is read into the module, wherever it stands. */
bool msc_parse_dict(msc_parser *p, bool module, msc_attr_array *out_attrs);
bool msc_parse_type(msc_parser *p, const msc_type **out_type);
/* `loc(...)` if there is one.  Else, and where it names no file, the place is `at`, marked as implied. */
bool msc_parse_loc(msc_parser *p, msc_token at, const msc_loc **out_loc, const char **out_name);

/* ---- literal.c ---- */

/* One tensor element or attribute number as text that reads back as the same bits. */
void msc_element_text(msc_dtype dtype, const void *element, char out[MSC_NUMBER_TEXT]);
void msc_int_text(msc_dtype dtype, int64_t v, char out[MSC_NUMBER_TEXT]);
void msc_float_text(msc_dtype dtype, double v, char out[MSC_NUMBER_TEXT]);
/* Reports at the token when it is no number of that type. */
bool msc_read_int(msc_parser *p, msc_token t, msc_dtype dtype, int64_t *out_v);
bool msc_read_float(msc_parser *p, msc_token t, msc_dtype dtype, double *out_v);
bool msc_read_element(msc_parser *p, msc_token t, msc_dtype dtype, unsigned char *out_element);

/* ---- print_attr.c ---- */

typedef struct {
  const msc_type *type;
  const char *text; /* NULL: not made yet */
} msc_type_spelling;

/* A text that is being written.  The text of a type is made once. */
typedef struct {
  msc_arena *scratch;
  const msc_mesh *mesh;
  MSC_TABLE(msc_type_spelling) types;
  msc_write_fn *write;
  void *user;
  size_t num;
  char buffer[4096];
} msc_printer;

void msc_put(msc_printer *w, const char *text, size_t num);
void msc_puts(msc_printer *w, const char *text);
void msc_put_number(msc_printer *w, int64_t v);
void msc_put_string(msc_printer *w, const char *text);                /* with quotes and escapes */
void msc_put_type(msc_printer *w, const msc_type *t);
void msc_put_attrs(msc_printer *w, const msc_attr *attrs, size_t num); /* {a = 1 : i64, ...} */
void msc_put_named(msc_printer *w, const msc_attr *attr);              /* a = 1 : i64 */
void msc_flush(msc_printer *w);

/* A growing text in an arena, as the receiver of a printer. */
typedef struct {
  msc_arena *arena;
  char *text; /* ends with NUL */
  size_t num, room;
} msc_text;

void msc_text_write(void *user, const char *data, size_t bytes);

#endif
