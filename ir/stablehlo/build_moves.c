/* build_moves.c: a node that only moves elements (broadcast, slice, pad, transpose, reverse) in; its ops out. */
#include <string.h>

#include "ir/stablehlo/hlo.h"

static const msc_type *result_type(const hlo_node *n) { return n->op->num_out ? n->op->out_type[0] : NULL; }

/* Reads an attribute, which may have another name, with one number per dimension of the only operand. */
static bool each_dim(hlo_node *n, const char *name, const char *other, int64_t *out) {
  if (n->op->num_in < 1) return hlo_refuse(n, "takes an operand");
  int rank = n->in[0]->type->rank, num = hlo_ints(n, hlo_attr(n, name) ? name : other, out, MSC_MAX_RANK);
  if (num < 0) return false;
  return num == rank || hlo_refuse(n, "'%s' has %d numbers for %d dimensions", name, num, rank);
}

/* Dimension d of the operand becomes dimension dims[d] of the result; the others are new. */
bool hlo_build_broadcast_in_dim(hlo_node *n) {
  int64_t dims[MSC_MAX_RANK], perm[MSC_MAX_RANK], shape[MSC_MAX_RANK];
  const msc_type *to = result_type(n);
  MSC_TRY(each_dim(n, "dims", "broadcast_dimensions", dims));
  const msc_type *from = n->in[0]->type;
  for (int d = 0; d < to->rank; d++) shape[d] = 1;
  for (int d = 0; d < from->rank; d++) {
    if (dims[d] < 0 || dims[d] >= to->rank) return hlo_refuse(n, "there is no dimension %d", (int)dims[d]);
    shape[dims[d]] = from->dim[d];
    perm[d] = d;
  }
  for (int i = 1; i < from->rank; i++) /* by the dimension of the result */
    for (int k = i; k > 0 && dims[perm[k - 1]] > dims[perm[k]]; k--) {
      int64_t other = perm[k];
      perm[k] = perm[k - 1], perm[k - 1] = other;
    }
  msc_value *x = transpose(n->b, n->in[0], perm);
  if (!x) return false;
  return hlo_set(n, broadcast(n->b, reshape(n->b, x, to->rank, shape), to->rank, to->dim));
}

bool hlo_build_reshape(hlo_node *n) {
  if (n->op->num_in != 1) return hlo_refuse(n, "takes one operand");
  return hlo_set(n, reshape(n->b, n->in[0], result_type(n)->rank, result_type(n)->dim));
}

bool hlo_build_transpose(hlo_node *n) {
  int64_t perm[MSC_MAX_RANK];
  MSC_TRY(each_dim(n, "dims", "permutation", perm));
  return hlo_set(n, transpose(n->b, n->in[0], perm));
}

/* Builds x [0:4, 1:9:2], which may have the three lists as attributes instead. */
bool hlo_build_slice(hlo_node *n) {
  int64_t start[MSC_MAX_RANK], limit[MSC_MAX_RANK], stride[MSC_MAX_RANK];
  if (n->op->num_in != 1) return hlo_refuse(n, "takes one operand");
  if (!n->op->num_lists) {
    MSC_TRY(each_dim(n, "start_indices", "start_indices", start) &&
            each_dim(n, "limit_indices", "limit_indices", limit) && each_dim(n, "strides", "strides", stride));
    return hlo_set(n, slice_of(n->b, n->in[0], start, limit, stride));
  }
  const hlo_value *list = &n->op->list[0];
  if ((int)list->num != n->in[0]->type->rank) return hlo_refuse(n, "has %zu ranges", list->num);
  for (size_t d = 0; d < list->num; d++) {
    int64_t range[3] = {0, 0, 1};
    if (hlo_ints_of(&list->item[d], range, 3) < 2) return hlo_refuse(n, "range %zu is none", d);
    start[d] = range[0], limit[d] = range[1], stride[d] = range[2];
  }
  return hlo_set(n, slice_of(n->b, n->in[0], start, limit, stride));
}

/* x with zeros around it; low and high may be negative, and `interior` elements stand between any two. */
static msc_value *pad_any(hlo_node *n, msc_value *x, const int64_t *low, const int64_t *high, const int64_t *interior,
                          double value) {
  size_t rank = (size_t)x->type->rank;
  int64_t stride[MSC_MAX_RANK], more[2][MSC_MAX_RANK], start[MSC_MAX_RANK], limit[MSC_MAX_RANK];
  for (size_t d = 0; d < rank; d++) {
    stride[d] = interior[d] + 1;
    more[0][d] = low[d] > 0 ? low[d] : 0, more[1][d] = high[d] > 0 ? high[d] : 0;
    int64_t whole = (x->type->dim[d] - 1) * stride[d] + 1 + more[0][d] + more[1][d];
    start[d] = low[d] < 0 ? -low[d] : 0, limit[d] = high[d] < 0 ? whole + high[d] : whole;
  }
  return slice_of(n->b, pad_with(n->b, x, more[0], more[1], stride, value), start, limit, NULL);
}

bool hlo_build_pad(hlo_node *n) {
  int64_t low[MSC_MAX_RANK], high[MSC_MAX_RANK], interior[MSC_MAX_RANK];
  double value;
  if (n->op->num_in != 2) return hlo_refuse(n, "takes two operands");
  if (!hlo_splat(n->in[1], &value)) return hlo_refuse(n, "pads with a value that is no constant");
  MSC_TRY(each_dim(n, "low", "edge_padding_low", low) && each_dim(n, "high", "edge_padding_high", high) &&
          each_dim(n, "interior", "interior_padding", interior));
  for (int d = 0; d < n->in[0]->type->rank; d++)
    if (interior[d] < 0) return hlo_refuse(n, "interior padding is negative");
  if (!n->in[0]->type->rank) return hlo_set(n, n->in[0]);
  return hlo_set(n, pad_any(n, n->in[0], low, high, interior, value));
}

bool hlo_build_reverse(hlo_node *n) {
  int64_t dims[MSC_MAX_RANK];
  if (n->op->num_in != 1) return hlo_refuse(n, "takes one operand");
  int num = hlo_ints(n, hlo_attr(n, "dims") ? "dims" : "dimensions", dims, MSC_MAX_RANK);
  if (num < 0) return false;
  return hlo_set(n, num ? with_ints(n->b, OP_reverse, n->in[0], "dims", num, dims) : n->in[0]);
}

bool hlo_build_concatenate(hlo_node *n) {
  int64_t dim = 0;
  int num = hlo_ints(n, hlo_attr(n, "dim") ? "dim" : "dimension", &dim, 1);
  if (num < 0) return false;
  if (num != 1 || !n->op->num_in) return hlo_refuse(n, "needs a dimension and operands");
  return hlo_set(n, n->op->num_in == 1 ? n->in[0] : join_along(n->b, (int)dim, n->op->num_in, n->in));
}
