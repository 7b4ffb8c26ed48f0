/* onnx.h: functions for the builders of nodes.  A builder reads a node's operands, builds ops, and sets its results:
 *
 *   bool onnx_build_Relu(onnx_node *n) { return onnx_set(n, 0, unary(n->b, OP_relu, onnx_in(n, 0))); }
 *
 * A function that returns false has reported why, at the node.  NULL values pass through builders, see formula.h. */
#ifndef MSC_IR_ONNX_ONNX_H
#define MSC_IR_ONNX_ONNX_H

#include "ir/formula.h"
#include "ir/interp/interp.h"
#include "ir/onnx/model.h"

typedef enum {
  ONNX_IS_TENSOR,
  ONNX_IS_SEQUENCE, /* of known length: exists while the file is read, no longer */
  ONNX_IS_NOTHING,  /* an empty optional */
  ONNX_IS_FAULTY,   /* its node was reported */
} onnx_value_kind;

/* The value of a name in the file. */
typedef struct onnx_value {
  onnx_value_kind kind;
  const msc_type *type;
  const void *data;   /* elements of a constant; NULL: known when the plan runs */
  const char *weight; /* of a constant: the name of the parameter that it is where an op takes it; NULL: a plain one */
  const char *input;  /* the graph's input that it is, or that alone it is computed of; NULL: none, or several */
  bool is_frozen;     /* with weight: it is not trained */
  bool varies;        /* a constant that follows from sizes of inputs: it may be another one for other sizes */
  bool grows;         /* of such a constant: it may have more elements */
  msc_value *made;    /* what stands for it in the model's function where sizes vary; or NULL */
  msc_value *value;   /* in function `func`; NULL: a constant that no op has taken there */
  const msc_func *func;
  size_t num_items; /* of a sequence */
  struct onnx_value **item;
} onnx_value;

typedef struct onnx_reader onnx_reader;
typedef struct onnx_node onnx_node;
typedef bool onnx_build_fn(onnx_node *n);

enum {
  ONNX_ALONE = 1, /* the builder folds by itself, or never: control flow, sequences, random numbers */
};

/* A row of onnx.def. */
typedef struct {
  const char *domain, *name;
  int since; /* the first opset that has it */
  onnx_build_fn *build;
  msc_op_kind kind; /* of the op that it is another name of */
  unsigned flags;
  const char *text, *defaults; /* see onnx.def; or NULL */
} onnx_row;

struct onnx_node {
  onnx_reader *r;
  msc_builder *b;
  msc_context *ctx;
  msc_arena *scratch;
  const onnx_node_proto *proto;
  const onnx_row *row;
  const char *what; /* for messages: the op's type */
  int opset;
  size_t num_in, num_out, num_attrs;
  onnx_value **in;  /* NULL: absent */
  onnx_value **out; /* set by the builder */
  const onnx_attr *attr;
  uint64_t attrs_seen; /* by number, the first 64 */
};

/* ---- operands.c, run_nodes.c ---- */

/* Reports at the node: "Conv: ..."; false. */
bool onnx_refuse(onnx_node *n, const char *fmt, ...) MSC_PRINTF(2, 3);

/* The row of an operator that is a formula of one operand, whatever the case of its name; NULL: there is none. */
const onnx_row *onnx_formula_row(const char *name);

static inline bool onnx_has(const onnx_node *n, size_t i) { return i < n->num_in && n->in[i]; }
static inline bool onnx_wants(const onnx_node *n, size_t i) { return i < n->num_out && *n->proto->out[i]; }
/* Operand i as an operand for ops; NULL after a report: it is absent, or no tensor. */
msc_value *onnx_in(onnx_node *n, size_t i);
/* A value as an operand for ops; NULL after a report. */
msc_value *onnx_value_of(onnx_node *n, onnx_value *v);
const msc_type *onnx_type(onnx_node *n, size_t i);
/* Sets result i; false when v is NULL.  A result that the file leaves out is ignored. */
bool onnx_set(onnx_node *n, size_t i, msc_value *v);
bool onnx_set_value(onnx_node *n, size_t i, onnx_value *v);
/* A constant; `data` is kept as it is. */
bool onnx_set_constant(onnx_node *n, size_t i, const msc_type *type, const void *data);
onnx_value *onnx_constant(onnx_node *n, const msc_type *type, const void *data);

/* Elements of operand i, which must be known now: integers of any type, or floats.  NULL after a report. */
const int64_t *onnx_const_ints(onnx_node *n, size_t i, size_t *out_num);
const double *onnx_const_floats(onnx_node *n, size_t i, size_t *out_num);
/* Read the one element of operand i, which must be a constant. */
bool onnx_const_int(onnx_node *n, size_t i, int64_t *out_v);
bool onnx_const_float(onnx_node *n, size_t i, double *out_v);

/* Finds an attribute; NULL: absent, or, after a report, of another type.  Attributes that the builder does not read are
 * reported after it. */
const onnx_attr *onnx_attr_of(onnx_node *n, const char *name, onnx_attr_type type);
int64_t onnx_int(onnx_node *n, const char *name, int64_t absent);
double onnx_float(onnx_node *n, const char *name, double absent);
const char *onnx_text(onnx_node *n, const char *name, const char *absent);
/* True if `word` is one of `words`, which are separated by blanks. */
bool onnx_is_one_of(const char *word, const char *words);
/* Copies an attribute's integers; returns how many, -1: absent, -2 after a report: more than max. */
int onnx_ints(onnx_node *n, const char *name, int64_t *out_v, int max);

/* Reads an attribute of `num` sizes, from 0 to 2^30; absent: each is `fill`. */
bool onnx_sizes(onnx_node *n, const char *name, int num, int64_t fill, int64_t *out);

/* Converts `axis`, which may be negative to count from the end, to a dimension of a tensor of `rank`. */
bool onnx_axis(onnx_node *n, int64_t axis, int rank, int *out_axis);
/* Reads integers from operand i, or, in opsets before `since`, from the attribute `name`; *out_num is -1 when both are
 * absent. */
bool onnx_ints_of(onnx_node *n, size_t i, const char *name, int since, int64_t *out_v, int max, int *out_num);
/* Builds the nodes of a graph in an attribute, which see the names of the node's own graph; `in` are the graph's
 * inputs, and out_value receives its results. */
bool onnx_run_graph(onnx_node *n, const onnx_graph *g, size_t num_in, onnx_value *const *in, onnx_value **out_value);
onnx_value *onnx_new_value(onnx_node *n);
/* Makes the value of a tensor that ops compute; NULL if v is NULL. */
onnx_value *onnx_computed(onnx_node *n, msc_value *v);
/* Returns the file that contains the node. */
const msc_model_bytes *onnx_file(const onnx_node *n);

/* ---- words for what builders build often ---- */

static inline int rank_of(const msc_value *v) { return v ? v->type->rank : 0; }
static inline msc_value *like(msc_builder *b, const msc_value *x, double c) { return number(b, x, c); }

/* Transposes x so that dimension `from` becomes dimension `to`; the others keep their order. */
msc_value *onnx_move_dim(msc_builder *b, msc_value *x, int from, int to);
/* Reshape x: the first inserts a dimension of size 1 at place `dim`, the second removes dimension `dim`, whose size is
 * 1. */
msc_value *onnx_insert_dim(msc_builder *b, msc_value *x, int dim);
msc_value *onnx_drop_dim(msc_builder *b, msc_value *x, int dim);
/* Builds a constant tensor from doubles. */
msc_value *onnx_dense(msc_builder *b, msc_dtype dtype, int rank, const int64_t *dim, const double *v);
/* Builds the mask that is true where x and y are; a mask that is NULL is true everywhere. */
msc_value *onnx_both(msc_builder *b, msc_value *x, msc_value *y);
msc_value *onnx_reverse(msc_builder *b, msc_value *x, int dim);
/* Casts x to the element type in which sums and roots are computed: f16 and bf16 become f32. */
static inline msc_value *widen(msc_builder *b, msc_value *x) {
  return x ? cast(b, x, widen_dtype(x->type->dtype)) : NULL;
}
/* Builds a product like numpy's matmul: leading dimensions broadcast, and vectors are rows or columns. */
msc_value *onnx_matmul(msc_builder *b, msc_value *x, msc_value *y);
msc_value *onnx_all_but(msc_builder *b, msc_op_kind kind, msc_value *x,
                        int first); /* reduces dimensions from first on */
/* Adds the bias of input i, one number per channel, to y if there is one. */
msc_value *onnx_add_bias(onnx_node *n, msc_value *y, size_t i);
/* Builds an activation of a recurrent cell by its ONNX name: Tanh, Sigmoid, ... with its alpha and beta. */
msc_value *onnx_activation(onnx_node *n, const char *name, double alpha, double beta, msc_value *x);

#define ONNX_ROW(domain, name, since, flags, kind, function, ...) onnx_build_fn onnx_build_##function;
#include "ir/onnx/onnx.def"
#undef ONNX_ROW

#endif
