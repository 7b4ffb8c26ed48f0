/* op.h: the kinds of ops, and what the row of each in op.def says. */
#ifndef MSC_IR_OP_H
#define MSC_IR_OP_H

#include "ir/attr.h"
#include "ir/verb.h"
#include "ir/word.h"

typedef struct msc_value msc_value;

typedef enum {
#define OP(name, ...) OP_##name,
#include "ir/op.def"
#undef OP
  OP_COUNT
} msc_op_kind;

enum {
  MSC_PURE = 1,       /* may be folded, merged, dropped */
  MSC_COMMUTES = 2,   /* operands 0 and 1 may be swapped */
  MSC_COLLECTIVE = 4, /* communicates */
  MSC_TERMINATOR = 8,
  MSC_UPDATE = 16,                         /* optimizer step: results are the new state of tied operands */
  MSC_COMPOSITE = 32,                      /* has no kernel of its own: always replaced by its expansion */
  MSC_LOCAL = 64,                          /* exists only after lowering: shapes are one rank's */
  MSC_CHECKED = 256,                       /* an index outside is an error of the run */
  MSC_RANDOM = 128,                        /* equal ops give different numbers; pass random gives each its own salt */
  MSC_SLICES = 512,                        /* every rank keeps a part of what it holds; nothing is sent */
  MSC_MOVES = MSC_COLLECTIVE | MSC_SLICES, /* changes which rank holds what */
  MSC_MESSAGE = 1024,                      /* goes between stages of a pipeline; its partner is in another function */
  MSC_INTERNAL = 4096,                     /* only passes make it; models must not have it */
  MSC_TRANSFER = 8192,                     /* a transfer between the device and host memory or disk */
  MSC_CHEAP = 2048, /* elementwise, a few instructions: computing it twice may be cheaper than storing it */
};

/* From which elements of the operands each element of the results is computed. */
typedef enum {
  MSC_FORM_OTHER,       /* in a way of its own */
  MSC_FORM_SOURCE,      /* each element follows from attributes alone */
  MSC_FORM_ELEMENTWISE, /* each from the elements at the same place; operands broadcast */
  MSC_FORM_STRETCH,     /* each is the element of the operand that broadcasting puts there */
  MSC_FORM_RESHAPE,     /* the operand's elements in the same order, in other dimensions */
  MSC_FORM_MOVE,        /* each is an element of an operand, at a place that the attributes say, or a constant */
  MSC_FORM_PRODUCT,     /* products of matrices: matmul, batch_matmul */
  MSC_FORM_WINDOW,      /* each from windows over the last two dimensions, see conv.h */
  MSC_FORM_REDUCE,      /* each from all elements along the dimensions `dims` */
  MSC_FORM_ROWS,        /* each from all elements along dimension `axis`, or along the dimensions from it on */
  MSC_FORM_SCATTER,     /* zeros, to which operand `updates` is added at the places `indices` */
  MSC_FORM_ATTENTION,   /* softmax of products of queries and keys, times values; or the gradient of that */
  MSC_FORM_LOSS,        /* a loss for each sample, then `reduction` over all samples */
} msc_form;

typedef enum { MSC_COST_NONE, MSC_COST_BYTES, MSC_COST_FLOPS, MSC_COST_COMM } msc_cost_class;

/* What an attribute's integers or word mean. */
typedef enum {
  MSC_SENSE_NONE,
  MSC_SENSE_DIM,  /* kinds dim and dims: numbers of dimensions */
  MSC_SENSE_PERM, /* kind perm: numbers of dimensions, one for each dimension of the result */
  MSC_SENSE_EACH, /* kind each: one entry belongs to each dimension of the first operand */
  MSC_SENSE_VERB,
  MSC_SENSE_REDUCTION, /* kinds verb and reduction: a word of ir/verb.def */
  MSC_SENSE_DTYPE,     /* kind dtype: an element type */
  MSC_SENSE_WORD,      /* a word of the set `words` */
} msc_attr_sense;

typedef struct {
  const char *name;
  msc_attr_kind kind;
  bool is_list, is_nested;   /* ints: list of INT; splits: list of lists of INT */
  msc_attr_sense sense;
  msc_word_set words;
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
/* Builds what `op` computes, from operands `in` with the types of op's own; false after a report. */
typedef bool msc_expand_fn(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result);
/* Builds the gradients of op's operands from dy, the gradient of its result 0; leaves NULL those that it does not
 * know. */
typedef bool msc_backward_fn(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value *dy,
                             msc_value **out_gradient);
typedef struct msc_eval msc_eval;
typedef void msc_eval_fn(msc_eval *e); /* the interpreter's kernel: see interp/kernel.h */

enum { MSC_MOST_OPERANDS = 10 }; /* the most operands that a row names */

/* Columns that only some rows of op.def give. */
typedef struct {
  const char *formula; /* formula of an element, see scalar.h; NULL: none */
  bool has_unit;
  int unit; /* f(x, unit) = x; f(unit, x) = x, too, if the op commutes */
  msc_reduction reduction;
  bool mean;           /* the sum is divided by the number of its terms */
  const char *indexed; /* tensor and dimension that numbers address, see msc_indexed_of; NULL: none */
  unsigned (*summed)(const msc_op *op); /* bits of dimensions of operand 0 that are summed; NULL: the form says it */
  char one_of;               /* letter of the rule that is no factor of the work; 0: none */
  bool local;                /* a composite that is expanded when shapes are one rank's */
  msc_backward_fn *backward; /* NULL: the gradient is that of the expansion */
} msc_op_facts;

enum { MSC_OP_ATTRS = 16 }; /* the most attributes that a row has */

struct msc_op_info {
  const char *name;
  int min_in, max_in;     /* max_in < 0: any number */
  int min_out, max_out;
  int num_operands, num_results, num_attrs;
  msc_operand_spec operand[MSC_MOST_OPERANDS];
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
  msc_eval_fn *eval;      /* NULL: the interpreter evaluates the expansion, or knows the op */
  msc_cost_class cost;
  msc_op_facts facts;
  const struct msc_formula *formula; /* facts.formula, read; NULL: none */
};

/* ---- op.c ---- */

const msc_op_info *msc_op_info_of(msc_context *ctx, msc_op_kind kind);
const msc_op_info *msc_info(const msc_op *op);
msc_form msc_form_of(const msc_op *op);
/* Returns the dimensions of operand 0 that the op sums, as bits; 0: it sums none. */
unsigned msc_summed_dims(const msc_op *op);
bool msc_is_unused(const msc_op *op);  /* true if no op reads its results and it does not end a block */
bool msc_is_message(const msc_op *op); /* sends to or receives from another stage of a pipeline */
bool msc_is_transfer(const msc_op *op); /* takes a value to or from host memory or disk: fetch, stow, stash */
/* True if each element of the result is one of the operand's, in another type, shape or order: casts, reshapes,
 * transposes. */
bool msc_keeps_elements(const msc_op *op);
bool msc_takes_mean(const msc_op *op); /* divides a sum by the number of its terms: reduce_mean, a loss of `mean` */
/* Returns the number of terms of an op's sum if its operand 0 had type x: elements of the reduced dimensions, or rows
 * of a loss. */
int64_t msc_terms_of_mean(const msc_op *op, const msc_type *x);
/* True for softmax_cross_entropy and its gradient, whose operands are scores and labels. */
bool msc_is_cross_entropy(const msc_op *op);
/* Returns the operand or result that the row calls `name`; NULL: the row has none, or this op leaves it out. */
msc_value *msc_named_value(const msc_op *op, const char *name);
/* What an op addresses by numbers: the numbers in operand `by`, NULL for iota, address dimension `dim` of tensor
 * `of`. */
typedef struct {
  msc_value *of, *by;
  int dim, num; /* first dimension, and how many dimensions are addressed by one number each */
} msc_indexed;
bool msc_indexed_of(const msc_op *op, msc_indexed *out_indexed); /* false: addresses nothing */
const char *msc_kind_name(unsigned kind);
bool msc_kind_parse(const char *name, msc_op_kind *out_kind);
/* Return the collective that a verified op is, MSC_NUM_VERBS if it is none, and its attribute `reduction`. */
msc_verb msc_op_verb(const msc_op *op);
bool msc_sums_over_ranks(const msc_op *op); /* true for a lowered all_reduce, which may work in place */
msc_reduction msc_op_reduction(const msc_op *op);
msc_op_kind msc_reducing_kind(msc_reduction r);  /* the op that reduces dimensions: reduce_sum ... */
msc_op_kind msc_combining_kind(msc_reduction r); /* the op on two elements: add ... */
/* Finds the reduction that has this kind as its op on two elements; false: there is none. */
bool msc_reduction_between(msc_op_kind kind, msc_reduction *out_reduction);
double msc_reduction_unit(msc_reduction r, msc_dtype dtype); /* the identity: 0, 1, an infinity, a limit */
msc_op_kind msc_verb_kind(msc_verb v);                 /* by the column `op` */
bool msc_declares(const msc_op *op, const char *attr); /* true for an attribute of its row; a vjp has those of its op */
/* Checks the numbers of operands and results, and names and kinds of attributes, against the row; reports every
 * fault. */
bool msc_check_row(const msc_op *op);

#endif
