/* kernel.h: a kernel of the interpreter takes the pieces of an op's operands that one rank holds and fills the pieces
 * of its results, with these functions. */
#ifndef MSC_IR_INTERP_KERNEL_H
#define MSC_IR_INTERP_KERNEL_H

#include "ir/interp/interp.h"
#include "ir/op_table.h"
#include "ir/scalar.h"

/* A piece of a tensor that has `full` elements per dimension: its elements `box`, row-major. */
typedef struct {
  msc_dtype dtype;
  int rank;
  int64_t full[MSC_MAX_RANK];
  msc_box box;
  char *data;
} msc_piece;

/* One number: f of float types, i of bool and signed ones, u of unsigned ones. */
typedef union {
  double f;
  int64_t i;
  uint64_t u;
} msc_scalar;

/* One run of a function on all ranks in step. */
typedef struct {
  msc_func *f;
  const msc_module *m;
  msc_arena *arena;
  msc_box_mesh mesh;
  int64_t num_ranks;
  bool one_device;  /* layouts are ignored */
  msc_piece *piece; /* the piece of value v on rank r: [v->id * num_ranks + r] */
} msc_interp;

static inline msc_piece *msc_piece_of(const msc_interp *in, const msc_value *v, int64_t rank) {
  return &in->piece[v->id * in->num_ranks + rank];
}

#define MSC_NO_START INT64_MIN

/* One op on one rank. */
struct msc_eval {
  const msc_op *op;
  msc_arena *arena;
  msc_piece *in, *out;
  /* of a lowered op: where this rank's part of the indexed dimension begins; MSC_NO_START: the dimension is whole */
  int64_t start;
  /* of a lowered random op: for each dimension, where this rank's part begins, and the size of the whole tensor; NULL:
   * the part is the whole tensor */
  const int64_t *begin, *whole;
  const char *fault; /* the first error, NULL: none; the kernel goes on after one */
};

/* Returns the op's attribute `axis`, which may count from the end, as a dimension. */
static inline int64_t msc_eval_axis(const msc_eval *e, int rank) {
  int64_t axis = msc_op_int(e->op, "axis");
  return axis < 0 ? axis + rank : axis;
}

/* ---- interp/piece.c ---- */

msc_piece msc_piece_whole(const msc_type *t, void *data);
int64_t msc_piece_elems(const msc_piece *p);
int64_t msc_piece_offset(const msc_piece *p, const int64_t *index); /* -1: it does not hold the index */
msc_scalar msc_load(msc_dtype dtype, const void *data, int64_t offset);
void msc_store(msc_dtype dtype, void *data, int64_t offset, msc_scalar v); /* rounds, wraps */

/* Go over the global indexes of a piece in order: for (bool more = msc_first_index(p, index); more; more =
 * msc_next_index(p, index)). */
bool msc_first_index(const msc_piece *p, int64_t *out_index);
bool msc_next_index(const msc_piece *p, int64_t *index);

/* Records an error of the kernel; only the first one is kept. */
void msc_fault(msc_eval *e, const char *fmt, ...) MSC_PRINTF(2, 3);
/* Reads operand i at a global index; a fault and 0 when the rank does not hold it. */
msc_scalar msc_piece_get(msc_eval *e, size_t i, const int64_t *index);
/* Reads operand i, which is broadcast to a tensor of rank `rank`, at an index of that tensor. */
msc_scalar msc_piece_get_stretched(msc_eval *e, size_t i, int rank, const int64_t *index);
void msc_piece_put(msc_eval *e, size_t i, const int64_t *index, msc_scalar v);

/* ---- interp/elementwise.c ---- */

static inline bool msc_is_unsigned(msc_dtype d) { return msc_dtype_class_of(d) == MSC_CLASS_UINT; }
/* Compares two elements; NaN is not less than anything. */
bool msc_scalar_less(msc_dtype dtype, msc_scalar a, msc_scalar b);
msc_scalar msc_scalar_of(msc_dtype dtype, double v);
/* Computes a code of two operands; an integer divided by zero is 0. */
msc_scalar msc_arithmetic(msc_scalar_code code, msc_dtype dtype, msc_scalar a, msc_scalar b);
msc_scalar msc_reduce(msc_reduction r, msc_dtype dtype, msc_scalar a, msc_scalar b);
/* Reduces `num` terms in the order in which ranks do: ((0+1)+(2+3))+(4+5). */
msc_scalar msc_reduce_tree(msc_reduction r, msc_dtype dtype, int64_t num, const msc_scalar *term);
msc_scalar msc_identity(msc_reduction r, msc_dtype dtype); /* the identity: 0, 1, or an infinity */

/* ---- interp/collective.c: results of a collective on all ranks ---- */

bool msc_run_collective(const msc_interp *in, const msc_op *op);

/* ---- interp/parts.c ---- */

/* Fills a piece with values that no op may use, as padding has at first: NaN, or an index that is out of range. */
void msc_poison(msc_piece *p);
/* Allocates the piece that the rank holds under layout l; NULL: the whole tensor. */
msc_piece msc_piece_of_layout(const msc_box_mesh *mesh, msc_arena *arena, msc_dtype dtype, int rank_of_tensor,
                              const int64_t *shape, const msc_layout *l, int64_t rank);

/* ---- interp/halo.c ---- */

/* Returns operand i on this rank, with the rows of neighbours that the op's windows need. */
msc_piece msc_piece_with_halo(const msc_interp *in, const msc_op *op, size_t i, int64_t rank);
/* Runs a lowered halo: a comm that gives each rank its part with rows of its neighbours. */
bool msc_run_halo(const msc_interp *in, const msc_op *op, const msc_layout *l, const int64_t *shape,
                  msc_reduction beside);

/* ---- interp/rows.c ---- */

/* Returns one element of a matrix product; of a gemm, one of its first result before bias and function are applied. */
msc_scalar msc_product_at(msc_eval *e, const int64_t *index);

#endif
