/* ir.h: what a program is.  Read this first.
 *
 * A module holds a device mesh and functions; a function is one block: arguments and an ordered list of SSA ops.
 * Everything lives in the arena of one msc_context and is freed with it; strings, types and layouts are interned, so
 * equal means same pointer.  Arena exhaustion never returns NULL: it leaves through the context's
 * one recovery point. */
#ifndef MSC_IR_IR_H
#define MSC_IR_IR_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "ir/layout/box.h"
#include "ir/verb.h"

#define MSC_MAX_RANK 8      /* dimensions of a tensor                                       */
#define MSC_MAX_AXES 8      /* axes of a mesh                                               */
#define MSC_MAX_SUBAXES 24  /* sub-axes in one layout; 65,536 devices have at most 16 atoms */
#define MSC_MAX_DEVICES 65536
#define MSC_MAX_LETTERS 24  /* letters of one sharding rule                                 */

#define MSC_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define MSC_TRY(e)            \
  do {                        \
    if (!(e)) return false;   \
  } while (0)

typedef struct msc_context msc_context;
typedef struct msc_arena msc_arena;
typedef struct msc_module msc_module;
typedef struct msc_func msc_func;
typedef struct msc_block msc_block;
typedef struct msc_op msc_op;
typedef struct msc_value msc_value;
typedef struct msc_attr msc_attr;
typedef struct msc_attr_value msc_attr_value;

/* ---- element types: one row each, the order is model.fbs's and append-only ---- */

/*            name  IR text  bytes  class */
#define MSC_DTYPES(X) \
  X(F32,  "f32",  4, FLOAT) \
  X(F16,  "f16",  2, FLOAT) \
  X(BF16, "bf16", 2, FLOAT) \
  X(F64,  "f64",  8, FLOAT) \
  X(I1,   "i1",   1, BOOL) /* one byte, 0 or 1 */ \
  X(I8,   "i8",   1, INT) \
  X(I16,  "i16",  2, INT) \
  X(I32,  "i32",  4, INT) \
  X(I64,  "i64",  8, INT) \
  X(U8,   "ui8",  1, UINT) \
  X(U16,  "ui16", 2, UINT) \
  X(U32,  "ui32", 4, UINT) \
  X(U64,  "ui64", 8, UINT)

typedef enum {
#define X(name, text, bytes, class) MSC_##name,
  MSC_DTYPES(X)
#undef X
  MSC_NUM_DTYPES
} msc_dtype;

typedef enum { MSC_CLASS_FLOAT, MSC_CLASS_BOOL, MSC_CLASS_INT, MSC_CLASS_UINT } msc_dtype_class;

const char *msc_dtype_name(msc_dtype d);
int64_t msc_dtype_bytes(msc_dtype d);
msc_dtype_class msc_dtype_class_of(msc_dtype d);
bool msc_dtype_parse(const char *text, msc_dtype *out_dtype);
static inline bool msc_is_float(msc_dtype d) { return msc_dtype_class_of(d) == MSC_CLASS_FLOAT; }
/* Of a word of random bits those that a number in [0, 1) of this float type has room for: word / 2^32 is exact. */
static inline uint32_t msc_uniform_mask(msc_dtype d) {
  return UINT32_MAX << (d == MSC_F64 ? 0 : d == MSC_F32 ? 8 : d == MSC_F16 ? 21 : 24);
}

/* ---- mesh and layout ---- */

typedef struct {
  const char *name;  /* interned */
  int64_t size;      /* >= 1 */
} msc_axis;

/* A rank's coordinates are its number in mixed radix, first axis major. */
typedef struct {
  int num_axes;
  msc_axis axis[MSC_MAX_AXES];
} msc_mesh;

/* One digit of an axis: `size` parts after `pre` parts.  axis = pre * size * rest; digit = coord / rest % size.  A
 * whole axis is {axis, 1, its size}. */
typedef msc_digit msc_subaxis;

/* Where the parts of a tensor are.  Dimension d is cut by sub[first[d]] .. sub[first[d+1]-1], major first; the value is
 * an unfinished reduction over sub[first[rank]] .. ; on every other digit of the mesh it is replicated.  Always in
 * normal form: no size-1 digits, neighbouring digits of one axis merged, partial digits in mesh order.  Interned.  Part
 * i of k of a dimension of n elements starts at i * ceil(n / k), or at split[dim][i] where the parts have chosen sizes
 * (interned, see box.h; in normal form only where they are not those of the rule). */
typedef struct msc_layout {
  uint8_t rank, num_partial, reduction;
  uint8_t first[MSC_MAX_RANK + 1];
  msc_subaxis sub[MSC_MAX_SUBAXES];
  uint32_t zero; /* no padding: layouts are interned as bytes */
  const int64_t *split[MSC_MAX_RANK];
} msc_layout;

/* A ranked tensor: global shape plus layout (NULL: not decided yet, or local).  Interned. */
typedef struct msc_type {
  msc_dtype dtype;
  int rank;
  int64_t dim[MSC_MAX_RANK];
  const msc_layout *layout;
} msc_type;

/* ---- locations and diagnostics ---- */

typedef struct msc_loc {
  const char *file;  /* interned; NULL: unknown */
  uint32_t line, col;
  const char *scope;             /* module path in the user's program, or NULL */
  const struct msc_loc *caller;  /* where that code was called from, or NULL   */
  bool implied;                  /* the place in the IR text itself: not printed again */
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
  struct msc_diag *next;
} msc_diag;

/* ---- attributes ---- */

typedef enum {
  MSC_ATTR_INT,
  MSC_ATTR_FLOAT,
  MSC_ATTR_BOOL,
  MSC_ATTR_STR,
  MSC_ATTR_LIST,
  MSC_ATTR_DICT,
  MSC_ATTR_TYPE,
  MSC_ATTR_DENSE,
  MSC_ATTR_LAYOUT, /* in IR text a string */
  MSC_ATTR_DIGITS, /* digits of mesh axes, major first: a layout of one dimension, in IR text without its brackets */
} msc_attr_kind;

struct msc_attr_value {
  msc_attr_kind kind;
  msc_dtype dtype; /* of INT and FLOAT, as written: 1 : i64 */
  union {
    int64_t i;
    double f;
    bool b;
    const char *s; /* interned */
    struct { size_t num; const msc_attr_value *v; } list;
    struct { size_t num; const msc_attr *a; } dict;           /* sorted by name */
    const msc_type *type;
    const msc_layout *layout;
    struct { const msc_type *type; const void *data; size_t bytes; } dense; /* bytes of one element: a splat */
  };
};

struct msc_attr {
  const char *name; /* interned */
  msc_attr_value value;
};

/* Names of the rows of fact.def.  msc_intern gives these very arrays, in every context: whether an attribute is a fact
 * is asked by comparing addresses, and a misspelt one does not compile. */
typedef struct {
#define FACT(id, name, on, kind, from, until, meaning) char id[sizeof name];
#include "ir/fact.def"
#undef FACT
} msc_fact_name_table;
extern const msc_fact_name_table msc_fact_names; /* fact.c */
#define MSC_FACT(id) (msc_fact_names.id)
static inline bool msc_is_fact_name(const char *name) {
  return (uintptr_t)name - (uintptr_t)&msc_fact_names < sizeof msc_fact_names;
}

/* ---- ops ---- */

typedef enum {
#define OP(name, ...) OP_##name,
#include "ir/op.def"
#undef OP
  OP_COUNT
} msc_op_kind;

typedef struct msc_use {
  msc_value *value;
  msc_op *user;
  struct msc_use *next, **prev;  /* the value's list of uses */
} msc_use;

struct msc_value {
  const msc_type *type;
  msc_op *def;        /* NULL: block argument */
  msc_block *block;   /* of an argument; NULL otherwise */
  uint32_t index;     /* result or argument number */
  uint32_t id;        /* dense number, set by msc_number */
  msc_use *uses;
  const char *name;   /* of an argument: interned, or NULL */
  /* of a result after lowering: the tensor of which it is one rank's part, with its layout; NULL: nobody says */
  const msc_type *whole;
};

struct msc_op {
  uint16_t kind, num_in, num_out;
  msc_use *in;
  msc_value *out;
  size_t num_attrs;
  msc_attr *attrs;    /* sorted by name */
  msc_block *body;    /* the one region, or NULL */
  const msc_loc *loc; /* never NULL */
  const char *name;   /* the user's or an invented name, interned; NULL: none */
  msc_op *prev, *next;
  msc_block *block;   /* the block it stands in */
  const msc_op *forward; /* a gradient op: the forward op whose strategy it shares; NULL otherwise */
  const char *letters;   /* with forward: character i is the forward op's letter for own letter i, '.' none */
  uint32_t id;        /* dense number, set by msc_number */
  uint64_t verified;  /* verify.c: what it found right, as a number; 0: nothing yet */
  uint64_t fits;      /* likewise of passes/7_lower/check_layouts.c */
};

struct msc_block {
  size_t num_args;
  msc_value **args;
  msc_op *first, *last;
  msc_op *parent;  /* op whose region this is, or NULL */
  msc_func *func;
};

/* What an argument is for. */
typedef enum {
  MSC_ROLE_DATA,
  MSC_ROLE_LABEL,
  MSC_ROLE_MASK,
  MSC_ROLE_PARAMETER,
  MSC_ROLE_STATE,
  MSC_ROLE_MICRO,
  MSC_ROLE_SUM,
  MSC_ROLE_CARRIED,
  MSC_ROLE_NONE
} msc_role;

struct msc_func {
  msc_module *module;
  const char *name;
  msc_block *body;      /* ends with OP_return */
  msc_attr *attrs;      /* sorted; sym_name and arg_attrs are not among them */
  size_t num_attrs;
  struct msc_arg_info {  /* one per argument */
    msc_attr *attrs;     /* msc.name, msc.role, msc.init, ... sorted */
    size_t num_attrs;
  } *arg;
  const msc_loc *loc;
  msc_func *next;
};

struct msc_module {
  msc_context *ctx;
  msc_mesh mesh;  /* num_axes 0: none */
  msc_attr *attrs;
  size_t num_attrs;
  msc_func *first, *last;
};

/* ---- op table ---- */

enum {
  MSC_PURE = 1,       /* may be folded, merged, dropped */
  MSC_COMMUTES = 2,   /* operands 0 and 1 may be swapped */
  MSC_COLLECTIVE = 4, /* communicates */
  MSC_TERMINATOR = 8,
  MSC_UPDATE = 16,                         /* optimizer step: results are the new state of tied operands */
  MSC_COMPOSITE = 32,                      /* has no kernel of its own: always replaced by its expansion */
  MSC_LOCAL = 64,                          /* exists only after lowering: shapes are one rank's */
  MSC_CHECKED = 256,                       /* an index outside is an error of the run */
  MSC_RANDOM = 128,                        /* equal ops differ until each has its own salt, by pass random */
  MSC_SLICES = 512,                        /* every rank keeps a part of what it holds; nothing is sent */
  MSC_MOVES = MSC_COLLECTIVE | MSC_SLICES, /* changes which rank holds what */
  MSC_MESSAGE = 1024,                      /* between the stages of a pipeline; its partner is in another function */
  MSC_INTERNAL = 4096, /* no model has it: passes make it */
  MSC_CHEAP = 2048, /* elementwise, a few instructions: computing it twice may be cheaper than storing it */
};

/* How the elements of the results follow from those of the operands. */
typedef enum {
  MSC_FORM_OTHER,       /* in a way of its own */
  MSC_FORM_SOURCE,      /* from attributes alone */
  MSC_FORM_ELEMENTWISE, /* each from those at its place; operands broadcast */
  MSC_FORM_STRETCH,     /* each is the operand's that broadcasting puts there */
  MSC_FORM_RESHAPE,     /* the same in the same order, in other dimensions */
  MSC_FORM_MOVE,        /* each is one of the operands', at a place that the attributes say, or a constant */
  MSC_FORM_PRODUCT,     /* products of matrices: matmul, batch_matmul */
  MSC_FORM_WINDOW,      /* from windows over the last two dimensions, see conv.h */
  MSC_FORM_REDUCE,      /* from those along the attribute `dims` */
  MSC_FORM_ROWS,        /* from those along one dimension, or along the last ones, that are named by `axis` */
  MSC_FORM_SCATTER,     /* zeros, to which operand `updates` is added at the places `indices` */
  MSC_FORM_ATTENTION,   /* softmax of products of queries and keys, times values; or the gradient of that */
  MSC_FORM_LOSS,        /* a loss for each sample, then `reduction` over all samples */
} msc_form;

typedef enum { MSC_COST_NONE, MSC_COST_BYTES, MSC_COST_FLOPS, MSC_COST_COMM } msc_cost_class;

/* What an attribute's integers have to do with dimensions. */
typedef enum {
  MSC_SENSE_NONE,
  MSC_SENSE_DIM,  /* kinds dim and dims: they are numbers of dimensions */
  MSC_SENSE_PERM, /* kind perm: the same, one for each dimension of the result */
  MSC_SENSE_EACH, /* kind each: one entry belongs to each dimension of the first operand */
  MSC_SENSE_VERB,
  MSC_SENSE_REDUCTION, /* kinds verb and reduction: a word of ir/verb.def */
} msc_attr_sense;

typedef struct {
  const char *name;
  msc_attr_kind kind;
  bool is_list, is_nested;   /* ints: list of INT; splits: list of lists of INT */
  msc_attr_sense sense;
  bool has_default;
  const char *default_text;  /* as in the row */
} msc_attr_spec;

typedef struct {
  const char *name;
  bool optional, variadic;
  int8_t tied;  /* result that is this operand's new value, or -1 */
} msc_operand_spec;

typedef struct msc_rule msc_rule;
typedef bool msc_shape_fn(msc_op *op);
typedef bool msc_rule_fn(const msc_op *op, msc_rule *rule);
typedef struct msc_grad_ctx msc_grad_ctx;
typedef bool msc_grad_fn(msc_grad_ctx *g, msc_op *op);
typedef struct msc_builder msc_builder;
/* Builds what op computes from operands `in`, typed as op's; false after a report. */
typedef bool msc_expand_fn(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result);
typedef struct msc_eval msc_eval;
typedef void msc_eval_fn(msc_eval *e); /* the interpreter's kernel: see interp/kernel.h */

/* What only some rows of op.def say. */
typedef struct {
  const char *formula; /* of an element, see scalar.h; NULL: none */
  bool has_unit;
  int unit; /* f(x, unit) = x; of an op that commutes f(unit, x) = x, too */
  msc_reduction reduction;
  const char *indexed; /* tensor and dimension that numbers address, see msc_indexed_of; NULL: none */
} msc_op_facts;

enum { MSC_OP_ATTRS = 16 }; /* of a row of op.def */

typedef struct {
  const char *name;
  int min_in, max_in;     /* max_in < 0: any number */
  int min_out, max_out;
  int num_operands, num_results, num_attrs;
  msc_operand_spec operand[8];
  const char *result[8]; /* names; of `y*` only the first */
  msc_attr_spec attr[MSC_OP_ATTRS];
  unsigned flags;
  msc_form form;
  msc_verb verb; /* the row of verb.def with its name, or MSC_NUM_VERBS; of OP_comm see msc_op_verb */
  msc_shape_fn *shape;
  const char *rule;       /* sharding rule, see rule.c */
  msc_rule_fn *rule_fn;   /* rewrites the letters for the actual attributes, or NULL */
  msc_grad_fn *grad;      /* NULL: not differentiable, or by way of the expansion */
  msc_expand_fn *expand;  /* a composite's; NULL: a primitive */
  msc_eval_fn *eval;      /* NULL: by its expansion, or known to the interpreter */
  msc_cost_class cost;
  msc_op_facts facts;
  const struct msc_formula *formula; /* facts.formula, read; NULL: none */
} msc_op_info;

/* ---- sharding rules ---- */

typedef enum { MSC_PAR, MSC_RED, MSC_REP } msc_letter_role;

typedef struct {
  char name;      /* as in the rule text; letters made by '*' are A, B, C ... */
  uint8_t role;   /* msc_letter_role */
  uint8_t reduction;
  bool expands;   /* when it is cut, the op is replaced by its expansion */
  bool halo;      /* parts need elements of their neighbours: they are equal, and no smaller than `least` */
  int64_t size, least;
} msc_letter;

typedef struct {
  uint8_t num;
  /* major first; (ij) is {2, {i, j}}: a reshape merges no more than there are dimensions */
  uint8_t letter[MSC_MAX_RANK];
  uint32_t num_split;           /* with split: the parts it is cut into, if at all */
  const int64_t *split;         /* chosen borders of its parts (msc_split_of), or NULL */
} msc_dim_letters;

typedef struct {
  uint8_t rank;
  msc_dim_letters *dim; /* num 0: this dimension has no letter and is whole */
} msc_tensor_letters;

/* The rule of one op instance; its arrays are in the arena given to msc_rule_of.  Tensors: operands first, then
 * results. */
struct msc_rule {
  uint8_t num_letters;        /* in the order of the row's text; a star's are A, B ... by position */
  bool linear;                /* sum-partials may pass: see `joint` */
  bool joint;                 /* all linear operands partial, or none (add); else exactly one of them (matmul) */
  uint16_t num_in, num_tensors;
  uint32_t linear_in;         /* mask of linear operands */
  msc_letter *letter;
  msc_tensor_letters *tensor;
};

/* ---- context.c: arena, interning, diagnostics ---- */

typedef void *msc_realloc_fn(void *user, void *ptr, size_t old_bytes, size_t bytes); /* bytes 0 frees */

/* NULL when memory is out.  `alloc` NULL: the C library's. */
msc_context *msc_context_new(msc_realloc_fn *alloc, void *user);
void msc_context_free(msc_context *ctx);
/* Upper bound of all arenas together; 0: none. */
void msc_context_limit(msc_context *ctx, size_t bytes);

/* Runs fn(ctx, arg) with the recovery point set: arena exhaustion inside becomes an OUT_OF_MEMORY error and false. */
bool msc_protect(msc_context *ctx, bool (*fn)(msc_context *, void *), void *arg);

msc_arena *msc_context_arena(msc_context *ctx);
msc_arena *msc_arena_new(msc_context *ctx); /* a scratch arena; freed by msc_arena_free or with the context */
msc_arena *msc_arena_beside(const msc_arena *arena); /* another one of its context */
void msc_arena_free(msc_arena *arena);
void msc_arena_reset(msc_arena *arena); /* all that it handed out is gone, the arena stays */
void *msc_arena_alloc(msc_arena *arena, size_t bytes); /* zeroed, 16-byte aligned, never NULL */
void *msc_arena_copy(msc_arena *arena, const void *data, size_t bytes);
char *msc_arena_printf(msc_arena *arena, const char *fmt, ...) MSC_PRINTF(2, 3);
char *msc_arena_vprintf(msc_arena *arena, const char *fmt, va_list ap);
/* Room for one more of `num` items: the array itself, or its copy with twice the room; capacity is the next power of
 * two. */
void *msc_arena_grown(msc_arena *arena, void *array, size_t num, size_t item_bytes);
size_t msc_arena_bytes(const msc_arena *arena);
#define msc_grow(arena, array, num) ((array) = msc_arena_grown((arena), (array), (num), sizeof *(array)))
#define msc_new(arena, T) ((T *)msc_arena_alloc((arena), sizeof(T)))
#define msc_new_array(arena, T, n) ((T *)msc_arena_alloc((arena), sizeof(T) * (size_t)(n)))

const char *msc_intern(msc_context *ctx, const char *text);
const char *msc_intern_n(msc_context *ctx, const char *text, size_t n);
/* Interns any byte-comparable struct: the caller zeroes its padding. */
const void *msc_intern_bytes(msc_context *ctx, const void *data, size_t bytes);
/* Where what follows from two interned things can be remembered; NULL at first. */
const void **msc_known(msc_context *ctx, const void *a, const void *b);
const msc_type *msc_type_of(msc_context *ctx, msc_dtype dtype, int rank, const int64_t *dim, const msc_layout *layout);
const msc_type *msc_type_with_layout(msc_context *ctx, const msc_type *t, const msc_layout *layout);
const msc_type *msc_type_with_dtype(msc_context *ctx, const msc_type *t, msc_dtype dtype);
/* Product of the dimensions; -1 when it does not fit 63 bits or a dimension is negative. */
int64_t msc_type_elems(const msc_type *t);
int64_t msc_type_bytes(const msc_type *t); /* likewise */
const msc_loc *msc_loc_of(msc_context *ctx, const msc_loc *loc); /* interned copy */

/* Diagnostics are collected, in order.  All return false, so `return msc_error(...)` reads well. */
bool msc_error(msc_context *ctx, msc_code code, const msc_loc *loc, const char *fmt, ...) MSC_PRINTF(4, 5);
bool msc_verror(msc_context *ctx, msc_severity s, msc_code code, const msc_loc *loc, const char *op_name,
                const char *fmt, va_list ap);
bool msc_warning(msc_context *ctx, msc_code code, const msc_loc *loc, const char *fmt, ...) MSC_PRINTF(4, 5);
/* belongs to the one before */
bool msc_note(msc_context *ctx, const msc_loc *loc, const char *fmt, ...) MSC_PRINTF(3, 4);
/* at op->loc, with op->name */
bool msc_op_error(const msc_op *op, msc_code code, const char *fmt, ...) MSC_PRINTF(3, 4);
const msc_diag *msc_diags(const msc_context *ctx); /* first; follow ->next */
int msc_num_errors(const msc_context *ctx);
void msc_clear_diags(msc_context *ctx);
/* What is reported between the two is forgotten: of a trial, whose failure is an answer. */
typedef struct {
  msc_diag *last;
  int num_errors;
} msc_diag_mark;
msc_diag_mark msc_mark_diags(const msc_context *ctx);
void msc_forget_diags(msc_context *ctx, msc_diag_mark since);
const char *msc_code_title(msc_code code);
const char *msc_code_story(msc_code code);
/* Nearest of n words by edit distance, or NULL when none is near: "did you mean". */
const char *msc_nearest(const char *word, const char *const *words, size_t n);

/* ---- graph.c: building and changing ---- */

static inline msc_context *msc_op_ctx(const msc_op *op) { return op->block->func->module->ctx; }
msc_module *msc_module_new(msc_context *ctx);
msc_func *msc_func_new(msc_module *m, const char *name);
msc_func *msc_find_func(const msc_module *m, const char *name);
void msc_func_remove(msc_func *f);
msc_block *msc_block_new(msc_func *f, msc_op *parent);
msc_value *msc_add_arg(msc_block *b, const msc_type *type, const char *name);

/* A detached op with untyped results; insert it, then let msc_infer set the result types. */
msc_op *msc_op_new(msc_func *f, msc_op_kind kind, size_t num_in, msc_value *const *in, size_t num_out,
                   const msc_loc *loc);
/* A detached copy of op, without regions, on other operands: attributes, name, place in the source and result types. */
msc_op *msc_op_copy(msc_func *f, const msc_op *op, msc_value *const *in);
void msc_append(msc_block *b, msc_op *op);
/* Ends f, whose results these are. */
void msc_append_return(msc_func *f, size_t num, msc_value *const *result, const msc_loc *loc);
void msc_insert_before(msc_op *where, msc_op *op);
void msc_insert_after(msc_op *where, msc_op *op);
void msc_op_unlink(msc_op *op);             /* out of its block, operands kept */
void msc_op_erase(msc_op *op);              /* results must have no uses */
void msc_set_operand(msc_op *op, size_t i, msc_value *v);
void msc_set_operands(msc_op *op, size_t num, msc_value *const *in);
/* which is a part of the same whole, if nobody says of what */
void msc_replace_uses(msc_value *old, msc_value *new_value);
bool msc_has_uses(const msc_value *v);
bool msc_has_one_use(const msc_value *v);
/* NULL: there is none, or another, or it is of another kind */
msc_op *msc_only_user(const msc_value *v, msc_op_kind kind);
/* Runs the row's shape function: sets result types, or reports and returns false. */
bool msc_infer(msc_op *op);
/* Called by shape functions; keeps a layout the result already has when the rest of the type agrees. */
bool msc_result(msc_op *op, size_t i, msc_dtype dtype, int rank, const int64_t *dim);
/* Numbers values and ops of a block densely in order, regions included; returns how many. */
typedef struct { uint32_t num_values, num_ops; } msc_numbering;
msc_numbering msc_number(msc_block *b);
/* Deep copy of f under another name.  `map`, if not NULL, receives an array old value id -> new value (after
 * msc_number). */
msc_func *msc_func_clone(msc_func *f, const char *name);

/* Insertion point for passes that build many ops. */
struct msc_builder {
  msc_func *func;
  msc_block *block;
  msc_op *before;      /* NULL: at the end */
  const msc_loc *loc;
  const char *name;    /* given to each op built, or NULL */
  const msc_op *forward; /* given to each op built, or NULL */
};

/* Builds, inserts and infers; NULL after a reported error.  Attributes are set before inference by the _with form. */
msc_value *msc_build(msc_builder *b, msc_op_kind kind, size_t num_in, msc_value *const *in);
msc_op *msc_build_with(msc_builder *b, msc_op_kind kind, size_t num_in, msc_value *const *in, size_t num_out,
                       size_t num_attrs, const msc_attr *attrs);
msc_value *msc_build_scalar(msc_builder *b, msc_dtype dtype, double v); /* rank-0 constant */

/* ---- attr.c ---- */

msc_attr_value msc_int(int64_t v);
msc_attr_value msc_float(double v);
msc_attr_value msc_bool(bool v);
msc_attr_value msc_str(msc_context *ctx, const char *s);
msc_attr_value msc_type_attr(const msc_type *t);
msc_attr_value msc_layout_attr(const msc_layout *l);
msc_attr_value msc_layouts_attr(msc_context *ctx, size_t num, const msc_layout *const *l);
msc_attr_value msc_digits_attr(const msc_layout *digits);
/* The layout or digits that v holds; NULL: v is NULL or something else. */
const msc_layout *msc_attr_layout(const msc_attr_value *v);
msc_attr_value msc_ints(msc_context *ctx, size_t num, const int64_t *v);
msc_attr_value msc_list(msc_context *ctx, size_t num, const msc_attr_value *v);
msc_attr msc_named(msc_context *ctx, const char *name, msc_attr_value v);
bool msc_attr_equal(const msc_attr_value *a, const msc_attr_value *b);

/* Hashes of contents, equal for what is equal; interned things count by their pointers, so the numbers order
 * nothing. */
static inline uint64_t msc_mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9e3779b97f4a7c15u;
  return h ^ h >> 32;
}
static inline uint64_t msc_mix_pointer(uint64_t h, const void *p) { return msc_mix(h, (uintptr_t)p); }
uint64_t msc_mix_attrs(uint64_t h, const msc_attr *attrs, size_t num);

/* Attributes are asked for by their names: MSC_FACT(stage), or what the op's row declares. */
const msc_attr_value *msc_find_attr(const msc_attr *attrs, size_t num, const char *name);
void msc_put_attr(msc_context *ctx, msc_attr **attrs, size_t *num, const char *name, msc_attr_value v);
void msc_drop_attr(msc_attr *attrs, size_t *num, const char *name);
const msc_attr_value *msc_op_attr(const msc_op *op, const char *name); /* NULL: absent */
/* The entry for operand i of the op's fact in_layout; NULL: the op wants it in no other layout. */
const msc_layout *msc_wanted_layout(const msc_op *op, size_t i);
void msc_op_set(msc_op *op, const char *name, msc_attr_value v);
void msc_op_unset(msc_op *op, const char *name);
/* With the row's default when absent. */
int64_t msc_op_int(const msc_op *op, const char *name);
double msc_op_float(const msc_op *op, const char *name);
/* The number of the operand that the row calls so; -1: the row has none, or this op leaves it out. */
int msc_operand_called(const msc_op *op, const char *name);
bool msc_op_bool(const msc_op *op, const char *name);
const char *msc_op_str(const msc_op *op, const char *name);
const msc_layout *msc_op_layout(const msc_op *op, const char *name); /* or digits; NULL: absent */
/* Copies up to max ints; returns how many the list has, -1 when absent. */
int msc_op_ints(const msc_op *op, const char *name, int64_t *out_v, int max);
/* Arguments of functions. */
const msc_attr_value *msc_arg_attr(const msc_func *f, size_t arg, const char *name);
void msc_arg_set(msc_func *f, size_t arg, const char *name, msc_attr_value v);
msc_role msc_arg_role(const msc_func *f, size_t arg);
const char *msc_role_name(msc_role r);
const msc_attr_value *msc_func_attr(const msc_func *f, const char *name);
void msc_func_set(msc_func *f, const char *name, msc_attr_value v);

/* ---- layout_attr.c ---- */

/* Texts become pointers where a row, of facts or the op's, says that the attribute holds layouts or digits.  What a
 * user said stays text while it cannot be read: it may wait for a mesh.  False after reports.  info: NULL: of no op. */
bool msc_read_layouts(const msc_module *m, const msc_loc *loc, msc_attr *attrs, size_t num, const msc_op_info *info);
/* What a user said, for who reports it where it is wrong; NULL: nothing that is a layout, or "", not given. */
bool msc_users_layout(const msc_module *m, const msc_loc *loc, const msc_attr_value *v, const msc_layout **out_layout);
/* Gives the module the mesh: all of its layouts become those with the same names of axes, and texts that waited are
 * read.  False after reports. */
bool msc_change_mesh(msc_module *m, const msc_mesh *mesh);
/* Texts for layouts and digits in v, and in lists in it. */
msc_attr_value msc_attr_with_texts(const msc_module *m, msc_arena *arena, const msc_attr_value *v);

/* ---- op.c ---- */

const msc_op_info *msc_op_info_of(msc_context *ctx, msc_op_kind kind);
const msc_op_info *msc_info(const msc_op *op);
msc_form msc_form_of(const msc_op *op);
bool msc_is_unused(const msc_op *op);  /* no op reads a result, and it ends no block */
bool msc_is_message(const msc_op *op); /* sends to or receives from another stage of a pipeline */
bool msc_takes_mean(const msc_op *op); /* divides a sum by the number of its terms: reduce_mean, a loss of `mean` */
/* softmax_cross_entropy or its gradient, whose operands are scores and labels. */
bool msc_is_cross_entropy(const msc_op *op);
/* The operand or result that the row calls `name`; NULL: there is none, or this op lacks it. */
msc_value *msc_named_value(const msc_op *op, const char *name);
/* Numbers of operand `by`, NULL for iota, address dimension `dim` of the tensor `of`. */
typedef struct {
  msc_value *of, *by;
  int dim, num; /* of several at once, num dimensions from `dim` on, one number each */
} msc_indexed;
bool msc_indexed_of(const msc_op *op, msc_indexed *out_indexed); /* false: it addresses nothing */
const char *msc_kind_name(unsigned kind);
bool msc_kind_parse(const char *name, msc_op_kind *out_kind);
/* Of a verified op: the collective that it is, MSC_NUM_VERBS where it is none; its attribute `reduction`. */
msc_verb msc_op_verb(const msc_op *op);
bool msc_sums_over_ranks(const msc_op *op); /* after lowering: an all_reduce, which may work in place */
msc_reduction msc_op_reduction(const msc_op *op);
msc_op_kind msc_verb_kind(msc_verb v);                 /* by the column `op` */
bool msc_declares(const msc_op *op, const char *attr); /* an attribute of its row; a vjp has those of the op it is of */
/* Number of operands and results, attribute names and kinds against the row; reports every fault. */
bool msc_check_row(const msc_op *op);

/* ---- layout.c ---- */

/* normal form, interned */
const msc_layout *msc_layout_of(msc_context *ctx, const msc_mesh *mesh, const msc_layout *raw);
/* the same, not interned */
void msc_layout_normalize(const msc_layout *raw, msc_layout *out_layout);
const msc_layout *msc_layout_replicated(msc_context *ctx, int rank);
/* one dimension, cut over all axes of the mesh */
const msc_layout *msc_mesh_digits(msc_context *ctx, const msc_mesh *mesh);
/* dimension `dim` by itself, without partial sums */
const msc_layout *msc_layout_of_dim(msc_context *ctx, const msc_mesh *mesh, const msc_layout *l, int dim);
bool msc_layout_parse(msc_context *ctx, const msc_mesh *mesh, const msc_loc *loc, const char *text,
                      const msc_layout **out_layout);
const char *msc_layout_print(msc_arena *arena, const msc_mesh *mesh, const msc_layout *l);
bool msc_mesh_parse(msc_context *ctx, const msc_loc *loc, const char *text, msc_mesh *out_mesh); /* "dp=2,tp=4" */
const char *msc_mesh_print(msc_arena *arena, const msc_mesh *mesh);
int64_t msc_mesh_size(const msc_mesh *mesh);
int64_t msc_layout_parts(const msc_layout *l, int dim);

/* Sums over a dimension of n elements are made in blocks: the largest power of two of them that divides n, 8 at most,
 * or 64 for a long one, and none shorter than `least`; each is summed by itself and they are added as a balanced tree,
 * ((0+1)+(2+3))+((4+5)+(6+7)).  Ranks that hold aligned groups of blocks have subtrees, and collectives add ranks as a
 * tree: so the sum has the same bits however the dimension is cut. */
enum { MSC_MAX_SUM_BLOCKS = 64 };
int64_t msc_sum_blocks(int64_t n, int64_t least);
/* Blocks of the part that one of `parts` ranks holds; the part's own where it is no aligned group. */
int64_t msc_sum_blocks_of_part(int64_t n, int64_t parts, int64_t least);
bool msc_layout_is_replicated(const msc_layout *l); /* no cut, no partial */
/* Divides evenly everywhere? */
bool msc_layout_fits(const msc_layout *l, const msc_type *t);
bool msc_dim_is_even(const msc_layout *l, const msc_type *t, int dim);
bool msc_layout_has_split(const msc_layout *l); /* chosen sizes of parts somewhere */
/* Interned borders of parts, of num sizes; each at least 0, their sum below 2^63. */
const int64_t *msc_split_of(msc_context *ctx, size_t num, const int64_t *size);
/* Dimensions of the largest part. */
void msc_local_dims(const msc_type *t, const msc_layout *l, int64_t *out_dim);
int64_t msc_local_bytes(const msc_type *t); /* by t->layout; global when NULL */
int64_t msc_subaxis_digit(const msc_mesh *mesh, msc_subaxis s, int64_t rank);
const char *msc_subaxis_print(msc_arena *arena, const msc_mesh *mesh, int num, const msc_subaxis *s); /* "{x,y:(1)2}" */
/* The same as a layout of one dimension, which may have sizes of parts: "{x,y:(1)2}/(3,1)". */
bool msc_digits_parse(msc_context *ctx, const msc_mesh *mesh, const msc_loc *loc, const char *text,
                      const msc_layout **out_digits);
const char *msc_digits_print(msc_arena *arena, const msc_mesh *mesh, const msc_layout *digits);
/* The box of elements rank holds: begin and size per dimension; sizes may be 0 at the end of an uneven dimension. */
void msc_layout_box(const msc_mesh *mesh, const msc_type *t, const msc_layout *l, int64_t rank, int64_t *out_begin,
                    int64_t *out_size);
/* The same mesh and layout as box.h sees them; the layout's memory is shared. */
msc_box_mesh msc_mesh_sizes(const msc_mesh *mesh);
msc_box_layout msc_layout_cuts(const msc_layout *l);

/* Atoms: the finest digits in use.  Every algorithm over layouts works on lists of atoms. */
typedef struct {
  int num;
  msc_subaxis atom[MSC_MAX_SUBAXES]; /* in mesh order, major first */
} msc_atoms;
/* Prime digits of every axis, refined so that each cut of the given layouts is a border; false when two cuts of an axis
 * have no common refinement. */
bool msc_atoms_of(const msc_mesh *mesh, size_t num_layouts, const msc_layout *const *layouts, msc_atoms *out_atoms);
/* The digits s as a list of atoms, in order; returns how many.  Their borders are borders of atoms. */
int msc_atoms_in(const msc_atoms *atoms, int num, const msc_subaxis *s, uint8_t *out_atom);

/* ---- rule.c ---- */

/* The rule of this op with its actual ranks and attributes, in `arena`.  An op without a rule gets REP letters. */
bool msc_rule_of(const msc_op *op, msc_arena *arena, msc_rule *out_rule);
/* "Amk,kn->Amn ; k:sum ; lin 0|1"; a dimension without letter is "." */
const char *msc_rule_print(msc_arena *arena, const msc_rule *rule);

/* ---- rule/digits.c ---- */

/* Layouts of all tensors from one list of atoms per letter; `pass` are partial atoms that go through a linear op. */
typedef struct {
  uint8_t num[MSC_MAX_LETTERS];
  uint8_t atom[MSC_MAX_LETTERS][MSC_MAX_SUBAXES]; /* major first */
  uint32_t pass;                                  /* mask of atoms */
  uint8_t pass_in;                                /* the operand they are in, when the op is linear in each alone */
} msc_assignment;
const msc_layout *msc_rule_layout(msc_context *ctx, const msc_mesh *mesh, const msc_atoms *atoms, const msc_rule *rule,
                                  const msc_assignment *a, size_t tensor);
/* May this letter be cut into so many parts?  (at least one element for each; halo letters: equal ones, no smaller than
 * what neighbours need of them) */
bool msc_letter_allows(const msc_letter *letter, int64_t parts);
/* May the letters be cut like this?  (each letter, compound order)  Parts need not be equal. */
bool msc_rule_allows(const msc_rule *rule, const msc_assignment *a, const msc_atoms *atoms);
/* Are the parts of this letter equal?  Or nearly: does padding add an eighth at most?  (who chooses freely takes no
 * others) */
bool msc_rule_divides(const msc_rule *rule, const msc_assignment *a, const msc_atoms *atoms, int letter);
bool msc_rule_fills(const msc_rule *rule, const msc_assignment *a, const msc_atoms *atoms, int letter);

/* ---- expand.c ---- */

/* What a composite op stands for: a function of its operands, types without layouts, that is in no module's list.  NULL
 * after a report. */
msc_func *msc_expansion_of(const msc_op *op);
/* Erases ops whose results nobody uses. */
void msc_drop_unused(msc_func *f);
/* The ops of an expansion in the place of the op, with its marks: stage, recompute, other hints. */
void msc_expand_in_place(msc_op *op, msc_func *expansion);
void msc_copy_marks(const msc_op *from, msc_op *to);
/* True for a loss that is the mean over the rows with a label that is not ignored: their number is data. */
bool msc_counts_kept_rows(const msc_op *op);
/* Is it only its expansion that can be computed?  It has no kernel, or a letter is cut that the kernel needs whole.
 * in_layout: of the operands; NULL: those they have. */
bool msc_must_expand(const msc_op *op, const msc_layout *const *in_layout);
/* Dimensions of an einsum's first operand that a product with the second one sums; 0 where there are more operands, or
 * fewer. */
unsigned msc_einsum_summed(const msc_op *op);

/* ---- rule/check.c ---- */

/* The type check of an op whose tensors all carry layouts (none: nothing to check); reports with both tensors named. */
bool msc_rule_check(const msc_op *op, msc_arena *arena);
/* Why this verb cannot change `from` into `to`, or NULL: it can. */
const char *msc_relayout_wrong(const msc_mesh *mesh, const msc_type *t, msc_verb verb, const msc_layout *from,
                               const msc_layout *to);

/* ---- print.c, parse.c ---- */

typedef void msc_write_fn(void *user, const char *data, size_t bytes);
void msc_print_module(const msc_module *m, msc_write_fn *write, void *user);
char *msc_print_text(const msc_module *m, msc_arena *arena, size_t *out_bytes);
const char *msc_type_text(msc_arena *arena, const msc_mesh *mesh, const msc_type *t);
const char *msc_attr_text(msc_arena *arena, const msc_mesh *mesh, const msc_attr_value *v);
/* `name` is the file name for locations.  NULL after reporting every fault it could find. */
msc_module *msc_parse(msc_context *ctx, const char *name, const char *text, size_t bytes);
/* The same for a part of a file that begins at the start of line `first_line`. */
msc_module *msc_parse_part(msc_context *ctx, const char *name, uint32_t first_line, const char *text, size_t bytes);

/* ---- read_fbs.c, write_fbs.c ---- */

/* A size for dimension `name` of the inputs: "batch", or "x.1" for dimension 1 of input x. */
typedef struct {
  const char *name;
  int64_t size; /* >= 1 */
} msc_dim_size;

/* The bytes of a model.fbs, in private memory; verified in structure and meaning, and not needed afterwards.  `name` is
 * the file's, for messages.  NULL after reporting every fault. */
msc_module *msc_read_fbs(msc_context *ctx, const char *name, const void *data, size_t bytes, size_t num_dims,
                         const msc_dim_size *dim);
/* The inverse, for a module with the function "forward" as its user wrote it; in `arena`.  NULL after reporting what
 * cannot be said in a model.fbs. */
const void *msc_write_fbs(const msc_module *m, msc_arena *arena, size_t *out_bytes);

/* ---- models of any kind ---- */

/* The elements that a parameter of a foreign model begins with; they live as long as the context. */
typedef struct {
  const char *name;
  const msc_type *type;
  const void *data;
} msc_weight;

typedef struct {
  const char *file; /* in which parameters of the module say they are: set by the caller, relative to the model */
  size_t num;
  msc_weight *item;
} msc_weights;

/* An input whose value is known when the model is read: its elements row by row, "1,2,3". */
typedef struct {
  const char *name, *text;
} msc_fixed_input;

/* A model.fbs, an ONNX file, or IR text, told apart by name and content; sizes are for the first two only, what follows
 * them for ONNX. */
typedef struct {
  const char *name; /* of the file, for messages */
  const void *data;
  size_t bytes, num_dims;
  const msc_dim_size *dim;
  size_t num_fixed;
  const msc_fixed_input *fixed;
  msc_weights *weights; /* receives them; NULL: a model that has some is refused */
  /* Bytes of a file beside the model or below; NULL, or in words what is wrong with it.  NULL: there are no files. */
  const char *(*read_beside)(void *user, const char *path, uint64_t offset, uint64_t bytes, const void **out_data);
  void *user;
} msc_model_bytes;

/* ---- onnx/read_onnx.c ---- */

/* An ONNX file, for inference.  Floating-point initializers become parameters, the others constants; sizes that the
 * file leaves open are given by `dim`.  NULL after reporting all that cannot be read. */
msc_module *msc_read_onnx(msc_context *ctx, const msc_model_bytes *model);

/* ---- read_model.c ---- */

/* Verified; the bytes are not needed afterwards.  NULL after reporting. */
msc_module *msc_read_model(msc_context *ctx, const msc_model_bytes *model);

/* ---- verify.c ---- */

/* Structure, SSA, rows, re-inferred shapes, tied operands, layouts.  Reports all faults. */
bool msc_verify(msc_module *m);

#endif
