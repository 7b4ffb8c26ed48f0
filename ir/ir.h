/* ir.h: what a program is.  Read this first, then the headers that it includes, in their order.
 *
 * A module holds a device mesh and functions; a function is one block: arguments and an ordered list of SSA ops.
 * Everything lives in the arena of one msc_context and is freed with it; strings, types and layouts are interned, so
 * equal means same pointer. */
#ifndef MSC_IR_IR_H
#define MSC_IR_IR_H

#include "ir/context.h"
#include "ir/layout/layout.h"
#include "ir/attr.h"
#include "ir/op.h"
#include "ir/sharding_rule.h"

typedef struct msc_block msc_block;
typedef struct msc_builder msc_builder;

typedef struct msc_use {
  msc_value *value;
  msc_op *user;
  struct msc_use *next, **prev;  /* the value's list of uses */
} msc_use;

struct msc_value {
  const msc_type *type;
  msc_op *def;        /* NULL: block argument */
  msc_block *block;   /* the block of which it is an argument; else NULL */
  uint32_t index;     /* result or argument number */
  uint32_t id;        /* dense number, set by msc_number */
  msc_use *uses;
  const char *name; /* an argument's name, interned, or NULL */
  /* of a result after lowering: the type and layout of the tensor of which it is one rank's part; NULL: not recorded */
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
  uint64_t verified;     /* verify.c: a hash of the op as it was when it passed the checks; 0: it has not yet */
  uint64_t fits;         /* the same for the checks of passes/7_lower/check_layouts.c */
};

struct msc_block {
  size_t num_args;
  msc_value **args;
  msc_op *first, *last;
  msc_op *parent;  /* op whose region this is, or NULL */
  msc_func *func;
};

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

/* ---- attr.c ---- */

msc_role msc_arg_role(const msc_func *f, size_t arg); /* MSC_NUM_ROLES: it says none */

/* ---- graph.c: building and changing ---- */

static inline msc_context *msc_op_ctx(const msc_op *op) { return op->block->func->module->ctx; }
msc_module *msc_module_new(msc_context *ctx);
msc_func *msc_func_new(msc_module *m, const char *name);
msc_func *msc_find_func(const msc_module *m, const char *name);
msc_func *msc_program_func(const msc_module *m, msc_program_kind kind); /* NULL if it is cut into sections */
/* Returns the kind of program that f is, or is a section of; MSC_NUM_PROGRAM_KINDS if it is neither. */
msc_program_kind msc_program_of(const msc_func *f);
void msc_func_remove(msc_func *f);
msc_block *msc_block_new(msc_func *f, msc_op *parent);
msc_value *msc_add_arg(msc_block *b, const msc_type *type, const char *name);

/* Makes an op that is in no block and whose results have no types: insert it, then let msc_infer set the types. */
msc_op *msc_op_new(msc_func *f, msc_op_kind kind, size_t num_in, msc_value *const *in, size_t num_out,
                   const msc_loc *loc);
/* Copies op without its regions, with other operands, into no block. The copy has op's attributes, name, place in the
 * source and result types. */
msc_op *msc_op_copy(msc_func *f, const msc_op *op, msc_value *const *in);
void msc_append(msc_block *b, msc_op *op);
/* Appends the return op of f, with these results. */
void msc_append_return(msc_func *f, size_t num, msc_value *const *result, const msc_loc *loc);
void msc_insert_before(msc_op *where, msc_op *op);
void msc_insert_after(msc_op *where, msc_op *op);
void msc_op_unlink(msc_op *op);             /* takes op out of its block; it keeps its operands */
void msc_op_erase(msc_op *op);              /* its results must have no uses; takes op out of its block */
/* Clears the field `forward` of those gradient ops of f whose forward op is erased. Layouts must have been decided. */
void msc_forget_erased(msc_func *f);
void msc_set_operand(msc_op *op, size_t i, msc_value *v);
void msc_set_operands(msc_op *op, size_t num, msc_value *const *in);
/* Lets all users of `old` use `new_value` instead. If `new_value` has the same type and no `whole` is recorded for it,
 * it gets that of `old`. */
void msc_replace_uses(msc_value *old, msc_value *new_value);
static inline bool msc_is_return(const msc_op *op) { return op->kind == OP_return; }
static inline bool msc_is_constant_op(const msc_op *op) { return op->kind == OP_constant; }
/* Returns the elements of a constant as a dense value; NULL: v is no constant. */
static inline const msc_attr_value *msc_constant_elements(const msc_value *v) {
  return v->def && msc_is_constant_op(v->def) ? msc_op_attr(v->def, "value") : NULL;
}
/* Returns what messages call an op: its name, or its kind. */
static inline const char *msc_op_title(const msc_op *op) { return op->name ? op->name : msc_kind_name(op->kind); }
bool msc_has_uses(const msc_value *v);
bool msc_has_one_use(const msc_value *v);
/* Returns the op that is the only user of v, if it is of this kind; else NULL. */
msc_op *msc_only_user(const msc_value *v, msc_op_kind kind);
/* Runs the row's shape function: sets result types, or reports and returns false. */
bool msc_infer(msc_op *op);
/* Sets a result's type, for shape functions; a layout that the result has stays if the rest of the type is equal. */
bool msc_result(msc_op *op, size_t i, msc_dtype dtype, int rank, const int64_t *dim);
/* Numbers values and ops of a block densely in order, regions included; returns how many. */
typedef struct {
  uint32_t num_values, num_ops;
} msc_numbering;
msc_numbering msc_number(msc_block *b);
/* Makes a deep copy of f under another name in the same module. Numbers f. */
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

/* Builds an op, inserts it and infers its types; NULL after a report. The _with form sets attributes before
 * inference. */
msc_value *msc_build(msc_builder *b, msc_op_kind kind, size_t num_in, msc_value *const *in);
msc_op *msc_build_with(msc_builder *b, msc_op_kind kind, size_t num_in, msc_value *const *in, size_t num_out,
                       size_t num_attrs, const msc_attr *attrs);
msc_value *msc_build_scalar(msc_builder *b, msc_dtype dtype, double v); /* rank-0 constant */

/* ---- expand.c ---- */

/* Makes the function that computes a composite op from its operands. Its types have no layouts, and it is in no
 * module's list. NULL after a report. */
msc_func *msc_expansion_of(const msc_op *op);
/* Erases ops whose results nobody uses. */
void msc_drop_unused(msc_func *f);
/* Replaces the op by the ops of its expansion, which get the marks that the user gave it: stage, recompute, other
 * hints. */
void msc_expand_in_place(msc_op *op, msc_func *expansion);
void msc_copy_marks(const msc_op *from, msc_op *to);
/* True for a loss that is the mean over the rows with a label that is not ignored: their number is data. */
bool msc_counts_kept_rows(const msc_op *op);
/* True if the op is replaced by its expansion whatever the layouts are. */
bool msc_has_no_kernel(const msc_op *op);
/* True if the op can be computed by its expansion only: because it has no kernel, or because a letter is cut that the
 * kernel needs whole. in_layout: the layouts of its operands; NULL: those that they have. */
bool msc_must_expand(const msc_op *op, const msc_layout *const *in_layout);
/* Returns the dimensions of an einsum's first operand over which a product with the second one sums, as bits; 0 unless
 * there are two operands. */
unsigned msc_einsum_summed(const msc_op *op);

/* ---- expand/scan.c ---- */

/* Builds a cumsum or cumprod like op of x, whose axis is divided into so many equal blocks: each is cumulated by
 * itself, and combined with what all blocks before it come to. */
msc_value *msc_cumulate_in_blocks(msc_builder *b, const msc_op *op, msc_value *x, int64_t blocks);

/* ---- verify.c ---- */

/* Checks structure, SSA, rows of op.def, shapes, tied operands and layouts.  Reports all faults. */
bool msc_verify(msc_module *m);

#include "ir/model.h"

#endif
