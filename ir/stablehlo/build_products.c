/* build_products.c: a dot_general or convolution in; its ops out. */
#include <string.h>

#include "ir/stablehlo/hlo.h"

/* ---- dot_general ---- */

/* Pairs of dimensions: one of the first operand, one of the second. */
typedef struct {
  int num;
  int64_t of[2][MSC_MAX_RANK];
} pairs;

/* NAME = [1] x [0], or a member of the attribute dot_dimension_numbers. */
static bool read_pairs(hlo_node *n, const char *pretty, const char *lhs, const char *rhs, pairs *out) {
  const hlo_value *v = hlo_attr(n, pretty), *dict = hlo_attr(n, "dot_dimension_numbers");
  *out = (pairs){0};
  const hlo_value *side[2] = {NULL, NULL};
  if (v && v->kind == HLO_LIST && v->num == 2) side[0] = &v->item[0], side[1] = &v->item[1];
  for (size_t i = 0; dict && i < dict->num; i++) {
    if (!strcmp(dict->item[i].name, lhs)) side[0] = &dict->item[i];
    if (!strcmp(dict->item[i].name, rhs)) side[1] = &dict->item[i];
  }
  if (!side[0] && !side[1]) return true;
  if (!side[0] || !side[1]) return hlo_refuse(n, "%s are given of one side alone", pretty);
  int num[2];
  for (int k = 0; k < 2; k++) {
    num[k] = hlo_ints_of(side[k], out->of[k], MSC_MAX_RANK);
    for (int i = 0; i < num[k]; i++)
      if (out->of[k][i] < 0 || out->of[k][i] >= n->in[k]->type->rank)
        return hlo_refuse(n, "%s: no such dimension", pretty);
  }
  if (num[0] < 0 || num[0] != num[1]) return hlo_refuse(n, "%s are not as many on both sides", pretty);
  out->num = num[0];
  return true;
}

/* Builds an einsum.  The result has the batch dimensions, the other dimensions of the left operand, then those of the
 * right one. */
bool hlo_build_dot_general(hlo_node *n) {
  pairs batch, sum;
  char side[2][MSC_MAX_RANK + 1] = {{0}}, equation[4 * MSC_MAX_RANK + 8], out[2 * MSC_MAX_RANK + 1];
  if (n->op->num_in != 2) return hlo_refuse(n, "takes two operands");
  MSC_TRY(read_pairs(n, "batching_dims", "lhs_batching_dimensions", "rhs_batching_dimensions", &batch) &&
          read_pairs(n, "contracting_dims", "lhs_contracting_dimensions", "rhs_contracting_dimensions", &sum));
  if (!strcmp(n->op->name, "stablehlo.dot")) {
    if (!n->in[0]->type->rank || !n->in[1]->type->rank) return hlo_refuse(n, "takes vectors and matrices");
    sum = (pairs){1, {{n->in[0]->type->rank - 1}, {0}}};
  }
  char letter = 'a';
  int num = 0;
  for (int i = 0; i < batch.num; i++, letter++) side[0][batch.of[0][i]] = side[1][batch.of[1][i]] = out[num++] = letter;
  for (int i = 0; i < sum.num; i++, letter++) side[0][sum.of[0][i]] = side[1][sum.of[1][i]] = letter;
  for (int k = 0; k < 2; k++)
    for (int d = 0; d < n->in[k]->type->rank; d++)
      if (!side[k][d]) side[k][d] = out[num++] = letter++;
  if (letter > 'z' + 1) return hlo_refuse(n, "has more dimensions than there are letters");
  snprintf(equation, sizeof equation, "%s,%s->%.*s", side[0], side[1], num, out);
  msc_dtype want = n->op->out_type[0]->dtype;
  msc_value *in[] = {cast(n->b, n->in[0], want), cast(n->b, n->in[1], want)}; /* bf16 x bf16 -> f32 is summed in f32 */
  return hlo_set(n, with_attr(n->b, OP_einsum, 2, in, msc_named(n->ctx, "equation", msc_str(n->ctx, equation))));
}

/* ---- convolution ---- */

/* Where n, c, h, w of an operand are. */
static bool read_order(hlo_node *n, const hlo_value *list, int rank, const char *first, const char *second,
                       int64_t perm[4]) {
  if (list->kind != HLO_LIST || (int)list->num != rank)
    return hlo_refuse(n, "dim_numbers are not as many as dimensions");
  for (int k = 0; k < rank; k++) perm[k] = -1;
  for (int d = 0; d < rank; d++) {
    const hlo_value *v = &list->item[d];
    if (v->kind == HLO_INT && v->i >= 0 && v->i < rank - 2) perm[2 + v->i] = d;
    else if (v->s && !strcmp(v->s, first)) perm[0] = d;
    else if (v->s && !strcmp(v->s, second)) perm[1] = d;
  }
  for (int k = 0; k < rank; k++)
    if (perm[k] < 0) return hlo_refuse(n, "dim_numbers are not understood");
  return true;
}

static const hlo_value *member(const hlo_value *dict, const char *name) {
  for (size_t i = 0; dict && i < dict->num; i++)
    if (!strcmp(dict->item[i].name, name)) return &dict->item[i];
  return NULL;
}

/* Reads the numbers of window = {...}, or of the attribute of the generic form, for the last `space` of two dimensions;
 * the others, and all if there are none, are `absent`. */
static bool two_of(hlo_node *n, int space, const char *pretty, const char *generic, int64_t absent, int64_t out[2]) {
  const hlo_value *v = member(hlo_attr(n, "window"), pretty);
  if (!v) v = hlo_attr(n, generic);
  out[0] = out[1] = absent;
  return !v || hlo_ints_of(v, out + 2 - space, space) == space ||
         hlo_refuse(n, "'%s' is not %d numbers", pretty, space);
}

/* padding [[top, bottom], [left, right]] as ours: top, bottom, left, right. */
static bool read_padding(hlo_node *n, int space, int64_t out[4]) {
  const hlo_value *v = member(hlo_attr(n, "window"), "pad");
  int64_t *own = out + 4 - 2 * space;
  if (!v) v = hlo_attr(n, "padding");
  memset(out, 0, 4 * sizeof *out);
  if (!v) return true;
  bool ok =
      v->kind == HLO_DENSE ? hlo_ints_of(v, own, 2 * space) == 2 * space : v->kind == HLO_LIST && (int)v->num == space;
  for (int i = 0; ok && v->kind == HLO_LIST && i < space; i++) ok = hlo_ints_of(&v->item[i], own + 2 * i, 2) == 2;
  return ok || hlo_refuse(n, "padding is not %d pairs", space);
}

typedef struct {
  int64_t stride[2], x_dilation[2], dilation[2], padding[4];
  int64_t groups;
} window;

static bool read_window(hlo_node *n, int space, window *w) {
  int64_t reverse[2], batch_groups = 1;
  w->groups = 1;
  MSC_TRY(two_of(n, space, "stride", "window_strides", 1, w->stride) &&
          two_of(n, space, "lhs_dilate", "lhs_dilation", 1, w->x_dilation) &&
          two_of(n, space, "rhs_dilate", "rhs_dilation", 1, w->dilation) &&
          two_of(n, space, "reverse", "window_reversal", 0, reverse) && read_padding(n, space, w->padding));
  MSC_TRY(hlo_ints(n, "feature_group_count", &w->groups, 1) >= 0 &&
          hlo_ints(n, "batch_group_count", &batch_groups, 1) >= 0);
  if (reverse[0] || reverse[1]) return hlo_refuse(n, "reversed windows are not read");
  if (batch_groups != 1) return hlo_refuse(n, "groups of the batch are not read");
  return true;
}

/* The value with its dimensions in our order, and a height of 1 where there is a width alone. */
static msc_value *in_our_order(hlo_node *n, msc_value *x, const int64_t *perm) {
  x = transpose(n->b, x, perm);
  if (!x || x->type->rank == 4) return x;
  return reshape(n->b, x, 4, (int64_t[]){x->type->dim[0], x->type->dim[1], 1, x->type->dim[2]});
}

/* Puts zeros between rows and columns of x. */
static msc_value *spread_x(hlo_node *n, msc_value *x, window *w) {
  int64_t low[4] = {0}, high[4] = {0}, stride[4] = {1, 1, w->x_dilation[0], w->x_dilation[1]};
  return pad_with(n->b, x, low, high, stride, 0);
}

bool hlo_build_convolution(hlo_node *n) {
  const hlo_value *numbers = hlo_attr(n, "dim_numbers");
  int64_t x_order[4], w_order[4], y_order[4], back[4];
  window w;
  int rank = n->op->num_in ? n->in[0]->type->rank : 0;
  if (!numbers) numbers = hlo_attr(n, "dimension_numbers");
  if (n->op->num_in != 2 || !numbers || numbers->kind != HLO_LIST || numbers->num != 3)
    return hlo_refuse(n, "needs two operands and dim_numbers [..]x[..]->[..]");
  if ((rank != 3 && rank != 4) || n->in[1]->type->rank != rank)
    return hlo_refuse(n, "only convolutions over one and two dimensions are read");
  MSC_TRY(read_order(n, &numbers->item[0], rank, "b", "f", x_order) &&
          read_order(n, &numbers->item[1], rank, "o", "i", w_order) &&
          read_order(n, &numbers->item[2], rank, "b", "f", y_order) && read_window(n, rank - 2, &w));
  for (int i = 0; i < 4; i++)
    if (w.padding[i] < 0) return hlo_refuse(n, "negative padding is not read");
  msc_value *x = in_our_order(n, n->in[0], x_order);
  msc_value *in[] = {x ? spread_x(n, x, &w) : NULL, in_our_order(n, n->in[1], w_order)};
  msc_attr attrs[] = {msc_named(n->ctx, "stride", msc_ints(n->ctx, 2, w.stride)),
                      msc_named(n->ctx, "dilation", msc_ints(n->ctx, 2, w.dilation)),
                      msc_named(n->ctx, "padding", msc_ints(n->ctx, 4, w.padding)),
                      msc_named(n->ctx, "groups", msc_int(w.groups))};
  msc_value *y = in[0] && in[1] ? with_attrs(n->b, OP_conv2d, 2, in, 4, attrs) : NULL;
  for (int k = 0; k < rank; k++) back[y_order[k]] = k;
  if (y && rank == 3) y = reshape(n->b, y, 3, (int64_t[]){y->type->dim[0], y->type->dim[1], y->type->dim[3]});
  return hlo_set(n, transpose(n->b, y, back));
}
