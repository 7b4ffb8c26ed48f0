/* expand.h: how instructions and coordinates are made (nest/instr.c), and the parts of nest/expand.c. */
#ifndef MSC_PASSES_EXPAND_H
#define MSC_PASSES_EXPAND_H

#include "passes/7_lower/nest/nester.h"

/* ---- nest/instr.c: an equal instruction is found instead of made again ---- */

uint16_t msc_nest_add(msc_nester *n, msc_instr in, const msc_affine *at, uint16_t over);
uint16_t msc_nest_op(msc_nester *n, msc_nest_code code, uint16_t a, uint16_t b); /* element type of a */
uint16_t msc_nest_number(msc_nester *n, msc_dtype dtype, double v);
uint16_t msc_nest_scalar(msc_nester *n, msc_dtype dtype, double v);
uint16_t msc_nest_dim(msc_nester *n, int64_t v);
int msc_nest_dim_slot(msc_nester *n, int64_t v);
uint16_t msc_nest_start(msc_nester *n, int64_t number);
uint16_t msc_nest_compare(msc_nester *n, msc_nest_predicate p, uint16_t a, uint16_t b);
uint16_t msc_nest_select(msc_nester *n, uint16_t c, uint16_t a, uint16_t b);
uint16_t msc_nest_cast(msc_nester *n, uint16_t a, msc_dtype dtype);
void msc_nest_check(msc_nester *n, msc_kernel_fault fault, uint16_t ok);

uint16_t msc_nest_coord(msc_nester *n, const msc_coord *c);
uint16_t msc_nest_coord_of(msc_nester *n, uint16_t instr);
uint16_t msc_nest_coord_value(msc_nester *n, uint16_t c);
uint16_t msc_nest_coord_of_axis(msc_nester *n, int axis); /* the position in this loop; of -1: 0 */
uint16_t msc_nest_coord_of_dim(msc_nester *n, int v, int d);
uint16_t msc_nest_move_coord(msc_nester *n, uint16_t c, int64_t factor, int64_t add); /* coordinate c * factor + add */
/* Is the coordinate one of a dimension of this size? */
uint16_t msc_nest_is_inside(msc_nester *n, uint16_t c, int64_t size);
uint16_t msc_nest_and(msc_nester *n, uint16_t a, uint16_t b);                          /* a and b; 0: always true */
uint16_t msc_nest_eval_where(msc_nester *n, uint16_t ok, int v, const msc_view *view); /* v where ok holds */
/* Loads an element of v, which comes from outside the region, as a tensor of type t. */
uint16_t msc_nest_load(msc_nester *n, int v, const msc_type *t, const msc_view *view);
msc_view msc_nest_stretch(const msc_nester *n, int v, const msc_view *view, int w);

/* ---- nest/instr.c: reductions ---- */

/* True if the coordinate is not the same all along one of these axes. */
bool msc_nest_coord_varies(const msc_nester *n, const msc_coord *c, uint16_t axes);
/* Opens a reduction over these axes, for a result that is wanted at the view: until it is closed, instructions run
 * along these axes. Refuses where the view, except for the dimensions `but`, varies along them. The result is for
 * msc_nest_close_reduction. */
msc_inside msc_nest_open_reduction(msc_nester *n, uint16_t over, const msc_view *view, int rank, unsigned but);
void msc_nest_close_reduction(msc_nester *n, msc_inside outer);
/* Reduces x over axes `over`, which must be open. */
uint16_t msc_nest_reduce(msc_nester *n, int kind, uint16_t x, uint16_t over);

/* ---- an element of a result by its row in loop.def ---- */

typedef uint16_t msc_loop_fn(msc_nester *n, const msc_value *result, const msc_view *view);
msc_loop_fn loop_constant, loop_transpose, loop_concat, loop_split, loop_slice, loop_pad; /* nest/expand.c */
msc_loop_fn loop_iota, loop_gather, loop_gather_nd, loop_take_along, loop_one_hot;        /* nest/expand_index.c */
msc_loop_fn loop_dropout, loop_uniform;                                                   /* nest/expand_random.c */
msc_loop_fn loop_compare, loop_cast;                                                      /* nest/expand.c */
msc_loop_fn loop_softmax, loop_log_softmax, loop_cross_entropy, loop_cross_entropy_grad;  /* nest/expand_rows.c */
/* nest/expand_conv.c */
msc_loop_fn loop_conv2d, loop_conv2d_transpose, loop_conv2d_weight_grad;
msc_loop_fn loop_max_pool, loop_max_pool_index, loop_avg_pool, loop_max_pool_grad, loop_avg_pool_grad;
msc_loop_fn loop_unfold, loop_fold;

/* ---- nest/expand_index.c ---- */

uint16_t msc_nest_row(msc_nester *n, const msc_op *op, uint16_t index, int64_t rows, uint16_t *out_ok);
/* The number of the block of t that the indices at the view's first coordinates name, and whether there is such a
 * block. */
uint16_t msc_nest_named_offset(msc_nester *n, const msc_op *op, int indices, const msc_view *view, const msc_type *t,
                               uint16_t *out_ok);

/* ---- nest/expand_rows.c ---- */

uint16_t msc_nest_matmul(msc_nester *n, const msc_op *op, int y, const msc_view *view);
uint16_t msc_nest_reduce_op(msc_nester *n, const msc_op *op, int y, const msc_view *view);

/* ---- nest/expand_optimizer.c ---- */

uint16_t msc_nest_update(msc_nester *n, const msc_op *op, int y, const msc_view *view);

#endif
