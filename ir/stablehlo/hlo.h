/* hlo.h: the structs of a parsed StableHLO text (parse_hlo.c), and the functions that builders of ops share.
 *
 * JAX, and others, print ops in two forms, which have the same structs:
 *
 *   %3 = stablehlo.dot_general %1, %2, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x2xf32>) -> ...
 *   %4 = "stablehlo.gather"(%1, %2) <{slice_sizes = array<i64: 1, 16>}> : (...) -> tensor<...> */
#ifndef MSC_IR_STABLEHLO_HLO_H
#define MSC_IR_STABLEHLO_HLO_H

#include "ir/formula.h"
#include "ir/interp/interp.h"

enum { HLO_MAX_DEPTH = 64, HLO_MAX_OPS = 1 << 20 };

typedef enum { HLO_INT, HLO_FLOAT, HLO_WORD, HLO_TEXT, HLO_LIST, HLO_DICT, HLO_DENSE } hlo_kind;

/* A value of an attribute.  Lists with x or -> between them are a list of lists: [1] x [0] is a list of two; a dict's
 * members have names. */
typedef struct hlo_value {
  hlo_kind kind;
  const char *name; /* of an attribute or a member of a dict; NULL: none */
  int64_t i;
  double f;
  const char *s; /* word or text, interned */
  size_t num;
  struct hlo_value *item;
  const msc_type *type; /* of dense */
  const void *data;
} hlo_value;

typedef struct hlo_op hlo_op;

typedef struct {
  size_t num_args, num_ops;
  const char **arg;
  hlo_op *op;
} hlo_region;

struct hlo_op {
  const char *name; /* "stablehlo.add", "call", "return" */
  size_t num_names; /* 0: no results; 1, of several results: "%3" has the values "%3#0", "%3#1" */
  const char **result;
  size_t num_in, num_out, num_types, num_attrs, num_words, num_lists, num_regions;
  const char **in; /* names of values */
  const msc_type **out_type;
  hlo_value *attr;
  const char **word; /* words without a name: LT, SIGNED, @callee, stablehlo.add */
  hlo_value *list;   /* lists without a name: [0:4, 1:3] */
  hlo_region *region;
  const msc_loc *loc;
};

typedef struct {
  const char *name; /* "%arg0" */
  const msc_type *type;
  size_t num_attrs;
  hlo_value *attr;
  const char *said; /* its name in its location: "p['w']"; NULL: none */
} hlo_arg;

typedef struct {
  const char *name; /* "main" */
  size_t num_args, num_attrs, num_results;
  hlo_arg *arg;
  const char **result; /* their names in the file; NULL: none */
  hlo_value *attr;
  hlo_region body;
  const msc_loc *loc;
} hlo_func;

typedef struct {
  size_t num_funcs;
  hlo_func *func;
} hlo_module;

/* NULL after a report.  `text` ends with a zero byte behind `bytes`. */
hlo_module *hlo_parse(msc_context *ctx, msc_arena *arena, const char *file, const char *text, size_t bytes);

/* ---- read_stablehlo.c ---- */

typedef struct hlo_reader hlo_reader;

/* An op that is being built. */
typedef struct {
  hlo_reader *r;
  msc_builder *b;
  msc_context *ctx;
  msc_arena *scratch;
  const hlo_op *op;
  msc_value **in;  /* num_in */
  msc_value **out; /* num_out; set by the builder */
} hlo_node;

typedef bool hlo_build_fn(hlo_node *n);

/* A row of stablehlo.def. */
typedef struct {
  const char *name;
  hlo_build_fn *build;
  msc_op_kind kind;
  int num_in; /* -1: any number */
} hlo_row;

/* Reports an error at the op, with its name; returns false. */
bool hlo_refuse(hlo_node *n, const char *fmt, ...) MSC_PRINTF(2, 3);
/* Sets the only result; false when v is NULL. */
bool hlo_set(hlo_node *n, msc_value *v);

/* Returns an attribute; NULL if it is absent. */
const hlo_value *hlo_attr(const hlo_node *n, const char *name);
/* Reads the integers of an attribute; returns how many, 0 if it is absent, -1 after a report. */
int hlo_ints(hlo_node *n, const char *name, int64_t *out, int max);
/* Reads the integers of a list or dense value; returns how many, -1 if it holds anything else, or more than `max`. */
int hlo_ints_of(const hlo_value *v, int64_t *out, int max);
bool hlo_has_word(const hlo_op *op, const char *word);
/* Reads the element that all elements of a constant are equal to; false if there is none. */
bool hlo_splat(const msc_value *v, double *out);
/* True if the elements of v count the positions along a dimension: 0, 1, 2 ... */
bool hlo_counts(const msc_value *v);

/* The op by which a reduction combines two elements. Of truth values "and" takes the smaller, "or" the larger. */
typedef struct {
  msc_op_kind kind;
  msc_reduction reduction;
  bool logical;
} hlo_combiner;

/* Finds by which op a reduction combines two elements: `applies stablehlo.add`, or the op in its only region. False:
 * there is none. */
bool hlo_combiner_of(const hlo_op *op, hlo_combiner *out_combiner);

/* ---- linear_places.c ---- */

typedef struct {
  int num;
  int64_t v[MSC_MAX_RANK];
} hlo_dims;

/* How the elements of a tensor, a result or updates, correspond to windows of an operand at places that indices
 * give. */
typedef struct {
  hlo_dims window;         /* dimensions of the other tensor that are the window's, in the operand's order */
  hlo_dims single;         /* dimensions of the operand of which a window has one element, and the other tensor none */
  hlo_dims map;            /* which of the operand's dimensions each number of a place is for */
  hlo_dims batch, k_batch; /* dimensions of the operand that go with dimensions of the indices */
  hlo_dims sizes;          /* of a window in each of the operand's dimensions; none: as the other tensor says */
  int64_t vector;          /* the dimension of the indices in which the numbers of a place stand */
} hlo_places;

/* Builds, for each element of a tensor of `type`, the index of the operand's element that belongs to it, row by row, as
 * i32. Windows that reach outside the operand are moved inside. *out_inside, unless out_inside is NULL: a mask that is
 * true where windows were inside, or NULL if all must be. Returns NULL after a report. */
msc_value *hlo_linear_places(hlo_node *n, const hlo_places *p, const msc_type *operand, msc_value *indices,
                             const msc_type *type, msc_value **out_inside);

/* ---- build_*.c: one for each row that is BUILT ---- */

#define PLAIN(text, kind, num_in)
#define BUILT(text, function) hlo_build_fn hlo_build_##function;
#include "ir/stablehlo/stablehlo.def"
#undef PLAIN
#undef BUILT

#endif
