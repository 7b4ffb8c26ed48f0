/* localize.h: what the files of pass localize share. */
#ifndef MSC_PASSES_LOCALIZE_H
#define MSC_PASSES_LOCALIZE_H

#include "passes/pass.h"

typedef struct {
  msc_pass_ctx *pass;
  msc_func *f;
  const msc_mesh *mesh;
  const msc_type **global; /* by value id: the type before the pass */
  size_t num_values;
  bool deterministic;
  size_t num_starts;
  msc_attr_value *starts;
} localizing;

/* The type that the value had before the pass: global, with its layout. */
static inline const msc_type *global_of(const localizing *z, const msc_value *v) { return z->global[v->id]; }

static inline bool is_cut_type_dim(const msc_type *t, int dim) {
  return t->layout && t->layout->first[dim + 1] > t->layout->first[dim];
}

static inline msc_attr_value dims_attr(const localizing *z, const msc_type *t) {
  return msc_ints(z->pass->ctx, (size_t)t->rank, t->dim);
}

/* ---- localize_comm.c ---- */

/* Replaces a collective by a comm. */
void localize_collective(localizing *z, msc_op *op);
/* Inserts a comm of x in front of op; its layouts and its result are still to be set. */
msc_op *localize_insert_comm(localizing *z, msc_op *op, msc_value *x, msc_verb verb);
/* Sets the layouts that the comm changes one into the other, those of a tensor of this shape. */
void localize_set_layouts(localizing *z, msc_op *comm, const msc_layout *from, const msc_layout *to,
                          const int64_t *shape);
/* Sets the type of the comm's result to `local`, and its global type to `t`. */
void localize_finish_comm(localizing *z, msc_op *comm, const msc_type *t, const msc_type *local);

/* ---- halo.c ---- */

/* Fetches the rows that the windows of a convolution or pool read, so that along a cut dimension there is no padding,
 * and sets the attributes of op for its part. */
void localize_windows(localizing *z, msc_op *op);

#endif
