/* halo.c: a convolution or pool whose images are cut along rows or columns in; the `comm` ops that fetch its halo, the
 * rows of other parts that its windows read, out.  At run time runtime/comm/exchange.c moves them. */
#include <string.h>

#include "ir/comm.h"
#include "ir/conv.h"
#include "passes/7_lower/localize.h"

/* Returns the rows of x that the halo names: by a new comm, or by an equal one that an op before this one has. */
static msc_value *add_halo(localizing *z, msc_op *op, msc_value *x, const msc_comm_halo *h, msc_reduction beside) {
  const msc_type *local = x->type, *whole = global_of(z, x);
  msc_layout raw = *whole->layout; /* of buffers, including their padding, along other dimensions */
  int64_t shape[MSC_MAX_RANK], dim[MSC_MAX_RANK];
  for (int d = 0; d < local->rank; d++) {
    dim[d] = local->dim[d], shape[d] = d == h->dim ? whole->dim[d] : dim[d] * msc_layout_parts(whole->layout, d);
    if (d != h->dim) raw.split[d] = NULL;
  }
  const msc_layout *l = msc_layout_of(z->pass->ctx, z->mesh, &raw);
  msc_attr_value want = msc_ints(z->pass->ctx, 4, (int64_t[]){h->dim, h->lo, h->hi, h->step});
  for (msc_use *u = x->uses; u; u = u->next) {
    const msc_attr_value *have = u->user->kind == OP_comm ? msc_op_attr(u->user, "halo") : NULL;
    if (have && msc_attr_equal(have, &want) && msc_op_reduction(u->user) == beside) return &u->user->out[0];
  }
  msc_op *comm = localize_insert_comm(z, op, x, MSC_HALO);
  localize_set_layouts(z, comm, l, l, shape);
  msc_op_set(comm, "reduction", msc_str(z->pass->ctx, msc_reduction_name(beside)));
  msc_op_set(comm, "halo", want);
  dim[h->dim] = h->lo + h->step + h->hi;
  for (int d = 0; d < local->rank; d++)
    shape[d] = d == h->dim ? dim[d] * msc_layout_parts(whole->layout, d) : whole->dim[d];
  raw = *whole->layout; /* that of the result: all its rows along h->dim count */
  raw.split[h->dim] = NULL;
  localize_finish_comm(
      z, comm, msc_type_of(z->pass->ctx, local->dtype, local->rank, shape, msc_layout_of(z->pass->ctx, z->mesh, &raw)),
      msc_type_of(z->pass->ctx, local->dtype, local->rank, dim, NULL));
  return &comm->out[0];
}

/* Do windows that exist see the padding behind a rank's part of what they slide over?  They do where they reach beyond
 * the whole, and where results of windows are added up, also of such as do not exist. */
static bool counts_padding(const msc_op *op, const msc_conv *c, int dim) {
  return c->of_x_result || c->dim[dim - 2].high || msc_named_value(op, "dw");
}

/* Where the operand holds results of windows (c.of_x_result), the padding is set so that the first window begins at the
 * part's first element. */
void localize_windows(localizing *z, msc_op *op) {
  int64_t padding[4] = {0}, size[2];
  msc_conv c = msc_conv_of(op);
  const msc_type *image = global_of(z, c.of_x_result ? &op->out[0] : op->in[0].value);
  msc_op_ints(op, "padding", padding, 4);
  for (int d = 2; d < 4; d++) {
    const msc_window *w = &c.dim[d - 2];
    msc_comm_halo h = {.dim = d, .step = msc_halo_step(op, d)};
    int64_t *low = &padding[2 * (d - 2)], *high = low + 1;
    if (!is_cut_type_dim(image, d)) continue;
    for (size_t i = 0; i < op->num_in; i++) {
      msc_value *v = op->in[i].value;
      const msc_type *whole = global_of(z, v);
      if (!msc_halo_of(op, i, d, &h.lo, &h.hi)) continue;
      bool has_all = !h.lo && !h.hi && h.step == v->type->dim[d];
      if (has_all && (msc_dim_is_even(whole->layout, whole, d) || !counts_padding(op, &c, d))) continue;
      msc_set_operand(op, i, add_halo(z, op, v, &h, msc_info(op)->facts.reduction));
    }
    msc_halo_of(op, 0, d, &h.lo, &h.hi);
    *low = c.of_x_result ? w->low + h.lo * w->stride : 0;
    *high = 0;
    if (!c.of_x_result) continue;
    int64_t y = h.lo + h.step + h.hi, needed = (y - 1) * w->stride + (w->kernel - 1) * w->dilation + 1;
    if (needed > w->x + *low) *high = needed - w->x - *low;
  }
  bool pads = msc_op_attr(op, "padding") != NULL;
  for (int i = 0; i < 4; i++) pads |= padding[i] != 0;
  if (pads) msc_op_set(op, "padding", msc_ints(z->pass->ctx, 4, padding));
  size[0] = c.dim[0].x, size[1] = c.dim[1].x;
  if (msc_op_attr(op, "size")) msc_op_set(op, "size", msc_ints(z->pass->ctx, 2, size));
  const msc_value *w = msc_window_weights(op);
  if (w && msc_op_attr(op, "groups") && w->type->dim[1]) msc_op_set(op, "groups", msc_int(c.c / w->type->dim[1]));
}
