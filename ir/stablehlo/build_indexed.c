/* build_indexed.c: a gather, scatter, dynamic slice or sort in; its ops out. */
#include <string.h>

#include "ir/stablehlo/hlo.h"

static bool has(const hlo_dims *d, int64_t v) {
  for (int i = 0; i < d->num; i++)
    if (d->v[i] == v) return true;
  return false;
}

/* A member of the attribute dimension_numbers, or of its name in another op; absent: none. */
static bool read_dims(hlo_node *n, const char *dict_name, const char *name, hlo_dims *out) {
  const hlo_value *dict = hlo_attr(n, dict_name);
  *out = (hlo_dims){0};
  for (size_t i = 0; dict && i < dict->num; i++)
    if (!strcmp(dict->item[i].name, name)) out->num = hlo_ints_of(&dict->item[i], out->v, MSC_MAX_RANK);
  bool ok = out->num >= 0;
  for (int i = 0; i < out->num; i++) ok &= out->v[i] >= 0 && out->v[i] <= MSC_MAX_RANK;
  return ok || hlo_refuse(n, "%s is no list of dimensions", name);
}

static bool are_below(const hlo_dims *d, int rank) {
  for (int i = 0; i < d->num; i++)
    if (d->v[i] >= rank) return false;
  return true;
}

/* k with numbers below 0 replaced by 0 and those above `last` by it, as StableHLO's gather does. */
static msc_value *clamp(hlo_node *n, msc_value *k, int64_t last) {
  return msc_compute(n->b, "min(max(a, 0), b)", k, number(n->b, k, (double)last));
}

/* Casts indices to types that msc has for them: narrower ones to i32, unsigned ones to i64. */
static bool widen_index(hlo_node *n, msc_value **k) {
  msc_dtype d = (*k)->type->dtype;
  msc_dtype_class class = msc_dtype_class_of(d);
  if (class != MSC_CLASS_INT && class != MSC_CLASS_UINT) return hlo_refuse(n, "numbers of places must be integers");
  if (d != MSC_I32 && d != MSC_I64) *k = cast(n->b, *k, msc_dtype_bytes(d) < 4 ? MSC_I32 : MSC_I64);
  return *k != NULL;
}

/* The indices without the dimension that has the numbers of one place, which has size 1. */
static msc_value *flat_indices(hlo_node *n, msc_value *k, int64_t vector) {
  int64_t shape[MSC_MAX_RANK];
  int rank = 0;
  for (int d = 0; d < k->type->rank; d++)
    if (d != vector) shape[rank++] = k->type->dim[d];
  return reshape(n->b, k, rank, shape);
}

/* ---- gather ---- */

typedef struct {
  hlo_dims offset, collapsed, map, batch, k_batch, sizes;
  int64_t vector;
} gather_dims;

static bool read_gathering(hlo_node *n, gather_dims *g) {
  hlo_dims vector;
  const char *dict = "dimension_numbers";
  MSC_TRY(read_dims(n, dict, "offset_dims", &g->offset) && read_dims(n, dict, "collapsed_slice_dims", &g->collapsed) &&
          read_dims(n, dict, "start_index_map", &g->map) && read_dims(n, dict, "operand_batching_dims", &g->batch) &&
          read_dims(n, dict, "start_indices_batching_dims", &g->k_batch) &&
          read_dims(n, dict, "index_vector_dim", &vector));
  g->vector = vector.num ? vector.v[0] : 0;
  int rank = n->in[0]->type->rank;
  if (!are_below(&g->collapsed, rank) || !are_below(&g->map, rank) || !are_below(&g->batch, rank) ||
      !are_below(&g->k_batch, n->in[1]->type->rank) || g->batch.num != g->k_batch.num)
    return hlo_refuse(n, "its dimension_numbers name dimensions that there are not");
  g->sizes.num = hlo_ints(n, "slice_sizes", g->sizes.v, MSC_MAX_RANK);
  return g->sizes.num == n->in[0]->type->rank || hlo_refuse(n, "slice_sizes has %d numbers", g->sizes.num);
}

/* Whole rows of one dimension: the table's other dimensions are the offset dimensions of the result, in their order. */
static bool gather_rows(hlo_node *n, const gather_dims *g, int64_t axis, msc_value *k) {
  int64_t perm[MSC_MAX_RANK];
  int rank = n->op->out_type[0]->rank, index = 0, other = 0;
  msc_value *y = gather(n->b, n->in[0], k, axis);
  if (!y) return false;
  if (y->type->rank != rank) return hlo_refuse(n, "its result has %d dimensions, not %d", y->type->rank, rank);
  for (int d = 0; d < rank; d++) {
    bool offset = has(&g->offset, d);
    perm[d] = !offset ? axis + index++ : other < axis ? other++ : k->type->rank + other++;
  }
  return hlo_set(n, transpose(n->b, y, perm));
}

/* Builds a gather of one element of each row, which the index at the same place of the other dimensions names. */
static bool gather_along(hlo_node *n, const gather_dims *g, int64_t axis, msc_value *k) {
  int64_t perm[MSC_MAX_RANK], back[MSC_MAX_RANK], shape[MSC_MAX_RANK + 1];
  int rank = n->in[0]->type->rank, own = k->type->rank, num = 0;
  if (own == rank - 1) { /* one place a row: a dimension of 1 behind the others */
    for (int d = 0; d < own; d++) shape[d] = k->type->dim[d];
    shape[own] = 1;
    k = reshape(n->b, k, rank, shape);
  }
  if (!k || k->type->rank != rank) return hlo_refuse(n, "such a gather is not read");
  for (int d = 0; d < rank; d++) perm[d] = back[d] = -1;
  for (int i = 0; i < g->batch.num; i++) {
    int64_t d = g->k_batch.v[i];
    perm[g->batch.v[i]] = d > g->vector ? d - 1 : d, num++;
  }
  for (int d = 0; d < rank; d++) {
    bool batch = false;
    for (int i = 0; i < g->batch.num; i++) batch |= perm[g->batch.v[i]] == d;
    if (!batch) perm[axis] = d, num++;
  }
  for (int d = 0; d < rank; d++)
    if (perm[d] >= 0 && perm[d] < rank) back[perm[d]] = d;
  for (int d = 0; d < rank; d++)
    if (num != rank || back[d] < 0) return hlo_refuse(n, "such a gather is not read");
  msc_value *y = take_along(n->b, n->in[0], transpose(n->b, k, perm), axis);
  y = y ? transpose(n->b, y, back) : NULL;
  return y && hlo_set(n, reshape(n->b, y, n->op->out_type[0]->rank, n->op->out_type[0]->dim));
}

/* Builds a gather of any form: computes, for every element of the result, the number of the operand's element, and
 * gathers from the operand as one row. */
static bool gather_windows(hlo_node *n, const gather_dims *g) {
  const msc_type *t = n->in[0]->type;
  const hlo_places places = {g->offset, g->collapsed, g->map, g->batch, g->k_batch, g->sizes, g->vector};
  msc_value *k = hlo_linear_places(n, &places, t, n->in[1], n->op->out_type[0], NULL);
  return k && hlo_set(n, gather(n->b, reshape(n->b, n->in[0], 1, (int64_t[]){msc_type_elems(t)}), k, 0));
}

bool hlo_build_gather(hlo_node *n) {
  gather_dims g;
  if (n->op->num_in != 2 || n->op->num_out != 1) return hlo_refuse(n, "takes two operands");
  MSC_TRY(widen_index(n, &n->in[1]) && read_gathering(n, &g));
  const msc_type *t = n->in[0]->type;
  bool rows = g.map.num == 1 && g.collapsed.num == 1 && g.collapsed.v[0] == g.map.v[0];
  for (int d = 0; d < t->rank; d++) rows &= g.sizes.v[d] == (has(&g.collapsed, d) || has(&g.batch, d) ? 1 : t->dim[d]);
  if (!rows || (g.batch.num && g.batch.num != t->rank - 1)) return gather_windows(n, &g);
  int64_t axis = g.map.v[0];
  msc_value *k = g.vector < n->in[1]->type->rank ? flat_indices(n, n->in[1], g.vector) : n->in[1];
  k = k ? clamp(n, k, t->dim[axis] - 1) : NULL;
  if (!k) return false;
  return g.batch.num ? gather_along(n, &g, axis, k) : gather_rows(n, &g, axis, k);
}

/* ---- scatter ---- */

/* Builds a scatter that adds.  Updates of windows that are not inside the operand are replaced by zeros or added to an
 * extra element behind the others. */
static msc_value *add_windows(hlo_node *n, msc_value *k, msc_value *inside) {
  const msc_type *t = n->in[0]->type;
  msc_value *update = n->in[2];
  if (inside) update = choose(n->b, inside, update, number(n->b, update, 0));
  msc_value *sum = sum_by_row(n->b, k, update, msc_type_elems(t), 0);
  return sum ? plus(n->b, n->in[0], reshape(n->b, sum, t->rank, t->dim)) : NULL;
}

static msc_value *replace_windows(hlo_node *n, msc_value *k, msc_value *inside) {
  const msc_type *t = n->in[0]->type;
  int64_t all = msc_type_elems(t), num = msc_type_elems(k->type);
  msc_value *x = reshape(n->b, n->in[0], 1, &all);
  if (inside) {
    msc_value *both[] = {x, reshape(n->b, number(n->b, x, 0), 1, (int64_t[]){1})};
    x = join_along(n->b, 0, 2, both);
    k = choose(n->b, inside, k, number(n->b, k, (double)all));
  }
  k = k ? reshape(n->b, k, 1, &num) : NULL;
  x = replace_rows(n->b, x, k, reshape(n->b, n->in[2], 1, &num), 0);
  if (x && inside) x = part_of(n->b, x, 0, 0, all);
  return x ? reshape(n->b, x, t->rank, t->dim) : NULL;
}

/* Builds a scatter that takes the largest, the smallest or the product of an element and its updates, by comparing each
 * element with each update: for small tensors only. */
static msc_value *combine_windows(hlo_node *n, msc_reduction r, msc_value *k, msc_value *inside) {
  enum { MOST_PAIRS = 1 << 24 };
  msc_builder *b = n->b;
  const msc_type *t = n->in[0]->type;
  int64_t all = msc_type_elems(t), num = msc_type_elems(k->type), last = 1;
  int64_t rows[] = {all, 1}, columns[] = {1, num};
  if (all > MOST_PAIRS / num) return hlo_refuse(n, "combines too many elements with too many updates"), NULL;
  if (inside) k = choose(b, inside, k, number(b, k, -1));
  msc_value *x = reshape(b, n->in[0], 2, rows), *update = reshape(b, n->in[2], 2, columns);
  msc_value *here =
      k ? compare(b, MSC_EQ, reshape(b, count_up(b, MSC_I32, all), 2, rows), reshape(b, k, 2, columns)) : NULL;
  if (!x || !update || !here) return NULL;
  msc_value *mine = choose(b, here, update, r == MSC_PROD ? number(b, x, 1) : x);
  msc_value *found = mine ? reduce_along(b, r, mine, last) : NULL;
  return found ? reshape(b, combine_by(b, r, x, found), t->rank, t->dim) : NULL;
}

/* Whether whole rows of the first dimension are updated, one after the other: what look-ups have as their gradient. */
static bool are_rows(const hlo_places *p, int64_t k_rank, const msc_type *x, const msc_type *update) {
  bool rows = p->map.num == 1 && !p->map.v[0] && p->single.num == 1 && !p->single.v[0] && !p->batch.num;
  for (int i = 0; rows && i < p->window.num; i++)
    rows = p->window.v[i] == k_rank + i && update->dim[k_rank + i] == x->dim[1 + i];
  return rows && p->window.num == x->rank - 1;
}

/* Adds updates to windows of the operand, puts them in their place, or combines them.  Of rows a number outside is an
 * error when the plan runs, as of look-ups. */
bool hlo_build_scatter(hlo_node *n) {
  hlo_places p = {0};
  hlo_dims vector;
  const char *dict = "scatter_dimension_numbers";
  hlo_combiner c;
  msc_value *inside = NULL;
  if (n->op->num_in != 3 || n->op->num_out != 1 || n->op->num_regions != 1)
    return hlo_refuse(n, "takes three operands");
  MSC_TRY(widen_index(n, &n->in[1]) && read_dims(n, dict, "update_window_dims", &p.window) &&
          read_dims(n, dict, "inserted_window_dims", &p.single) &&
          read_dims(n, dict, "scatter_dims_to_operand_dims", &p.map) &&
          read_dims(n, dict, "input_batching_dims", &p.batch) &&
          read_dims(n, dict, "scatter_indices_batching_dims", &p.k_batch) &&
          read_dims(n, dict, "index_vector_dim", &vector));
  const hlo_region *body = &n->op->region[0];
  const msc_type *x = n->in[0]->type, *update = n->in[2]->type;
  bool replaces =
      body->num_ops == 1 && body->num_args == 2 && body->op[0].num_in == 1 && !strcmp(body->op[0].in[0], body->arg[1]);
  if (!replaces && (!hlo_combiner_of(n->op, &c) || c.logical))
    return hlo_refuse(n, "its region is no op that updates are combined by");
  bool adds = !replaces && c.reduction == MSC_SUM;
  p.vector = vector.num ? vector.v[0] : 0;
  bool flat = p.vector >= n->in[1]->type->rank || n->in[1]->type->dim[p.vector] == 1;
  msc_value *k = flat && p.vector < n->in[1]->type->rank ? flat_indices(n, n->in[1], p.vector) : n->in[1];
  if ((adds || replaces) && flat && k && are_rows(&p, k->type->rank, x, update)) {
    if (replaces) return hlo_set(n, replace_rows(n->b, n->in[0], k, n->in[2], 0));
    return hlo_set(n, plus(n->b, n->in[0], sum_by_row(n->b, k, n->in[2], x->dim[0], 0)));
  }
  k = hlo_linear_places(n, &p, x, n->in[1], update, &inside);
  if (!k) return false;
  return hlo_set(n, adds       ? add_windows(n, k, inside)
                    : replaces ? replace_windows(n, k, inside)
                               : combine_windows(n, c.reduction, k, inside));
}

/* ---- slices at places that are known later ---- */

/* The `size` numbers from the start on, which is moved so that all are inside. */
static msc_value *numbers_from(hlo_node *n, msc_value *start, int64_t size, int64_t whole) {
  msc_value *from = reshape(n->b, clamp(n, start, whole - size), 1, (int64_t[]){1});
  return plus(n->b, count_up(n->b, start->type->dtype, size), from);
}

static bool starts_fit(hlo_node *n, size_t first, int rank) {
  if (n->op->num_in != first + (size_t)rank) return hlo_refuse(n, "needs a start for each dimension");
  for (size_t i = first; i < n->op->num_in; i++) {
    MSC_TRY(widen_index(n, &n->in[i]));
    if (n->in[i]->type->rank) return hlo_refuse(n, "a start is one number");
  }
  return true;
}

bool hlo_build_dynamic_slice(hlo_node *n) {
  int64_t size[MSC_MAX_RANK];
  msc_value *x = n->op->num_in ? n->in[0] : NULL;
  if (!x) return hlo_refuse(n, "takes operands");
  int num = hlo_ints(n, hlo_attr(n, "sizes") ? "sizes" : "slice_sizes", size, MSC_MAX_RANK), rank = x->type->rank;
  if (num < 0) return false;
  if (num != rank) return hlo_refuse(n, "has %d sizes for %d dimensions", num, rank);
  MSC_TRY(starts_fit(n, 1, rank));
  for (int d = 0; d < rank && x; d++) {
    int64_t whole = x->type->dim[d];
    double at;
    if (size[d] < 1 || size[d] > whole) return hlo_refuse(n, "size %d is out of range", d);
    if (size[d] == whole) continue;
    bool known = hlo_splat(n->in[1 + d], &at);
    if (known && at > (double)(whole - size[d])) at = (double)(whole - size[d]);
    if (known && at < 0) at = 0;
    x = known ? part_of(n->b, x, d, (int64_t)at, (int64_t)at + size[d])
              : gather(n->b, x, numbers_from(n, n->in[1 + d], size[d], whole), d);
  }
  return hlo_set(n, x);
}

bool hlo_build_dynamic_update_slice(hlo_node *n) {
  if (n->op->num_in < 2) return hlo_refuse(n, "takes operands");
  msc_value *x = n->in[0], *update = n->in[1];
  int part = -1, rank = x->type->rank;
  if (update->type->rank != rank)
    return hlo_refuse(n, "the update has %d dimensions, not %d", update->type->rank, rank);
  MSC_TRY(starts_fit(n, 2, rank));
  for (int d = 0; d < rank; d++) {
    if (update->type->dim[d] == x->type->dim[d]) continue;
    if (part >= 0) return hlo_refuse(n, "updates of parts of more than one dimension are not read");
    part = d;
  }
  if (part < 0) return hlo_set(n, update);
  int64_t whole = x->type->dim[part], size = update->type->dim[part];
  double at;
  if (size < whole && hlo_splat(n->in[2 + part], &at)) {
    int64_t from = at < 0 ? 0 : at > (double)(whole - size) ? whole - size : (int64_t)at, num = 0;
    msc_value *parts[3];
    if (from > 0) parts[num++] = part_of(n->b, x, part, 0, from);
    parts[num++] = update;
    if (from + size < whole) parts[num++] = part_of(n->b, x, part, from + size, whole);
    return hlo_set(n, join_along(n->b, part, (size_t)num, parts));
  }
  msc_value *k = numbers_from(n, n->in[2 + part], update->type->dim[part], x->type->dim[part]);
  return k && hlo_set(n, replace_rows(n->b, x, k, update, part));
}

/* ---- order ---- */

static bool set_both(hlo_node *n, msc_op_kind kind, size_t num_attrs, const msc_attr *attrs) {
  msc_op *op = msc_build_with(n->b, kind, 1, n->in, 2, num_attrs, attrs);
  for (size_t i = 0; op && i < n->op->num_out; i++) n->out[i] = &op->out[i];
  return op != NULL;
}

/* Builds a sort.  The direction is that of the last comparison by LT or GT in the region: others test for NaN or
 * zero. */
bool hlo_build_sort(hlo_node *n) {
  const hlo_region *body = n->op->num_regions == 1 ? &n->op->region[0] : NULL;
  int64_t dim = -1;
  bool less = false, more = false;
  if (n->op->num_in < 1 || n->op->num_in > 2 || !body) return hlo_refuse(n, "takes one operand, or numbers with it");
  if (hlo_ints(n, "dimension", &dim, 1) < 0) return false;
  for (size_t i = 0; i < body->num_ops; i++) {
    if (hlo_has_word(&body->op[i], "LT")) less = true, more = false;
    if (hlo_has_word(&body->op[i], "GT")) more = true, less = false;
  }
  const msc_value *place = n->op->num_in == 2 ? n->in[1] : NULL;
  if ((!less && !more) || (place && !hlo_counts(place)))
    return hlo_refuse(n, "only values, and with them their places, are put in order");
  msc_dtype dtype = place ? n->in[1]->type->dtype : MSC_I32;
  msc_attr attrs[] = {msc_named(n->ctx, "axis", msc_int(dim)), msc_named(n->ctx, "descending", msc_bool(more)),
                      msc_dtype_attr(n->ctx, dtype)};
  return set_both(n, OP_sort, 3, attrs);
}

bool hlo_build_top_k(hlo_node *n) {
  int64_t k = 0;
  if (n->op->num_in != 1 || n->op->num_out != 2) return hlo_refuse(n, "takes one operand and has two results");
  if (hlo_ints(n, "k", &k, 1) != 1) return hlo_refuse(n, "needs k");
  msc_attr attrs[] = {msc_named(n->ctx, "k", msc_int(k))};
  return set_both(n, OP_topk, 1, attrs);
}
