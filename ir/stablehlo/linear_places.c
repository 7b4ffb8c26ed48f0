/* linear_places.c: windows of an operand, whose beginnings are indices of a gather or scatter, in; for each element of
 * the result or the updates the number of the operand's element out (see hlo.h). */
#include <string.h>

#include "ir/stablehlo/hlo.h"

typedef struct {
  hlo_node *n;
  const hlo_places *p;
  const msc_type *operand, *type;
  msc_value *indices;
  hlo_dims rest; /* dimensions of the other tensor that are not the window's: those of the indices */
} window_places;

static int find_dim(const hlo_dims *d, int64_t v) {
  for (int i = 0; i < d->num; i++)
    if (d->v[i] == v) return i;
  return -1;
}

static bool are_below(const hlo_dims *d, int rank) {
  for (int i = 0; i < d->num; i++)
    if (d->v[i] < 0 || d->v[i] >= rank) return false;
  return true;
}

/* Checks that numbers of dimensions are in range, and that sizes fit. */
static bool check(window_places *w) {
  const hlo_places *p = w->p;
  int rank = w->operand->rank, k_rank = w->indices->type->rank, dims = k_rank - (p->vector < k_rank);
  int64_t numbers = p->vector < k_rank ? w->indices->type->dim[p->vector] : 1;
  bool ok = are_below(&p->window, w->type->rank) && are_below(&p->single, rank) && are_below(&p->map, rank) &&
            are_below(&p->batch, rank) && are_below(&p->k_batch, k_rank) && p->batch.num == p->k_batch.num &&
            p->window.num + p->single.num + p->batch.num == rank && p->map.num == numbers &&
            (!p->sizes.num || p->sizes.num == rank);
  for (int d = 0; d < w->type->rank; d++)
    if (find_dim(&p->window, d) < 0) w->rest.v[w->rest.num++] = d;
  ok = ok && w->rest.num == dims && w->rest.num + p->window.num == w->type->rank;
  for (int d = 0, i = 0; ok && d < k_rank; d++)
    if (d != p->vector) ok = w->indices->type->dim[d] == w->type->dim[w->rest.v[i++]];
  for (int i = 0; ok && i < p->k_batch.num; i++) ok = p->k_batch.v[i] != p->vector;
  return ok || hlo_refuse(w->n, "its dimension numbers do not fit its operands");
}

/* Counts along dimension d of the other tensor; all others are 1. */
static msc_value *count_along(const window_places *w, int64_t d) {
  int64_t shape[MSC_MAX_RANK];
  for (int i = 0; i < w->type->rank; i++) shape[i] = i == d ? w->type->dim[i] : 1;
  return reshape(w->n->b, count_up(w->n->b, MSC_I32, w->type->dim[d]), w->type->rank, shape);
}

/* Number j of each place, with a size of 1 in the window's dimensions of the other tensor. */
static msc_value *number_of_place(const window_places *w, int j) {
  int64_t shape[MSC_MAX_RANK];
  msc_value *k = w->indices;
  for (int d = 0; d < w->type->rank; d++) shape[d] = find_dim(&w->p->window, d) < 0 ? w->type->dim[d] : 1;
  if (w->p->vector < k->type->rank) k = part_of(w->n->b, k, (int)w->p->vector, j, j + 1);
  return k ? reshape(w->n->b, k, w->type->rank, shape) : NULL;
}

static msc_value *add_if_there(msc_builder *b, msc_value *x, msc_value *y) {
  return x && y ? plus(b, x, y) : x ? x : y;
}

/* The beginning of the window in dimension d, moved so that the window is inside; adds to *inside whether it was. */
static msc_value *begin_of(const window_places *w, int j, int64_t last, msc_value **inside) {
  msc_builder *b = w->n->b;
  msc_value *k = number_of_place(w, j);
  if (!k) return NULL;
  msc_value *low = number(b, k, 0), *high = number(b, k, (double)last);
  if (inside) {
    msc_value *both[] = {compare(b, MSC_GE, k, low), compare(b, MSC_LE, k, high)};
    msc_value *here = binary(b, OP_logical_and, both[0], both[1]);
    *inside = *inside ? binary(b, OP_logical_and, *inside, here) : here;
  }
  return cast(b, binary(b, OP_min, binary(b, OP_max, k, low), high), MSC_I32);
}

/* The place in dimension d of the operand; NULL: always the first. */
static bool place_in_dim(const window_places *w, int d, int *window, msc_value **inside, msc_value **out) {
  const hlo_places *p = w->p;
  int batch = find_dim(&p->batch, d), j = find_dim(&p->map, d);
  int64_t size = 1;
  *out = NULL;
  if (batch >= 0) {
    int64_t at = p->k_batch.v[batch];
    *out = count_along(w, w->rest.v[at > p->vector ? at - 1 : at]);
  } else if (find_dim(&p->single, d) < 0) {
    if (*window >= p->window.num) return hlo_refuse(w->n, "its dimension numbers do not fit its operands");
    int64_t at = p->window.v[(*window)++];
    size = w->type->dim[at];
    *out = count_along(w, at);
  }
  int64_t last = w->operand->dim[d] - size;
  if (last < 0 || (p->sizes.num && p->sizes.v[d] != size))
    return hlo_refuse(w->n, "its window does not fit dimension %d", d);
  if (j < 0) return true;
  msc_value *begin = begin_of(w, j, last, inside);
  *out = begin ? add_if_there(w->n->b, *out, begin) : NULL;
  return *out != NULL;
}

msc_value *hlo_linear_places(hlo_node *n, const hlo_places *p, const msc_type *operand, msc_value *indices,
                             const msc_type *type, msc_value **out_inside) {
  window_places w = {.n = n, .p = p, .operand = operand, .type = type, .indices = indices};
  msc_value *sum = NULL, *inside = NULL, *at;
  int64_t stride = 1;
  int window = p->window.num;
  if (msc_type_elems(operand) >= INT32_MAX) return hlo_refuse(n, "its operand has too many elements"), NULL;
  if (!check(&w)) return NULL;
  int first[MSC_MAX_RANK]; /* the window dimension of each of the operand's dimensions */
  window = 0;
  for (int d = 0; d < operand->rank; d++) {
    first[d] = window;
    window += find_dim(&p->batch, d) < 0 && find_dim(&p->single, d) < 0;
  }
  for (int d = operand->rank; d-- > 0; stride *= operand->dim[d]) {
    window = first[d];
    if (!place_in_dim(&w, d, &window, out_inside ? &inside : NULL, &at)) return NULL;
    if (at) sum = add_if_there(n->b, sum, scale_by(n->b, at, (double)stride));
  }
  if (out_inside && inside) inside = broadcast(n->b, inside, type->rank, type->dim);
  if (out_inside) *out_inside = inside;
  if (!sum) sum = reshape(n->b, count_up(n->b, MSC_I32, 1), 0, NULL);
  return sum ? broadcast(n->b, sum, type->rank, type->dim) : NULL;
}
