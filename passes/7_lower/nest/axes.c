/* axes.c: finds which dimensions of the values of a region run in one loop. Every dimension of size other than 1 is a
 * node of a union-find; each op joins the nodes that its row says agree. A join that would put two dimensions of one
 * value into one loop (x + transpose(x)) is not made: the value is then computed once for each view of it. */
#include <stdarg.h>

#include "ir/conv.h"
#include "passes/7_lower/nest/nester.h"

uint16_t msc_nest_refuse(msc_nester *n, const char *fmt, ...) {
  va_list ap;
  if (n->failed) return 0;
  va_start(ap, fmt);
  vsnprintf(n->why, sizeof n->why, fmt, ap);
  va_end(ap);
  n->failed = true;
  return 0;
}

/* ---- values ---- */

static size_t slot_of(const msc_nester *n, const msc_value *v) {
  size_t s = ((uintptr_t)v >> 4) * 0x9E3779B97F4A7C15u >> 40;
  for (s %= VALUE_SLOTS; n->slot[s] && n->value[n->slot[s] - 1].value != v;) s = (s + 1) % VALUE_SLOTS;
  return s;
}

int msc_nest_find_value(const msc_nester *n, const msc_value *v) { return (int)n->slot[slot_of(n, v)] - 1; }

int msc_nest_add_value(msc_nester *n, const msc_value *v, const msc_op *def) {
  size_t s = slot_of(n, v);
  if (n->slot[s]) return n->slot[s] - 1;
  if (n->num_values == MAX_VALUES) return msc_nest_refuse(n, "more than %d values", MAX_VALUES);
  msc_nest_value *w = &n->value[n->num_values];
  *w = (msc_nest_value){.value = v, .def = def, .buffer = -1};
  for (int d = 0; d < v->type->rank; d++) {
    if (v->type->dim[d] == 1) continue;
    int c = ++n->num_classes;
    n->parent[c] = (uint16_t)c, n->size[c] = v->type->dim[d], n->axis_of[c] = -1;
    w->dim_class[d] = (uint16_t)c;
  }
  n->slot[s] = (uint16_t)(n->num_values + 1);
  return n->num_values++;
}

/* ---- classes ---- */

static int root(msc_nester *n, int c) {
  while (n->parent[c] != c) c = n->parent[c] = n->parent[n->parent[c]];
  return c;
}

static bool joins_one_value(msc_nester *n, int a, int b) {
  for (int v = 0; v < n->num_values; v++) {
    bool has_a = false, has_b = false;
    for (int d = 0; d < n->value[v].value->type->rank; d++) {
      int c = n->value[v].dim_class[d];
      if (!c) continue;
      c = root(n, c);
      has_a |= c == a, has_b |= c == b;
    }
    if (has_a && has_b) return true;
  }
  return false;
}

/* Joins two dimensions. If both have size 1 because they were reduced, they stand for one reduced dimension; if one
 * has, the other joins the dimension that it was reduced from: in y = g * rsqrt(mean(x * x)) the rows of g and x are
 * one loop, though no op reads both. */
static void join_dims(msc_nester *n, int v, int vd, int w, int wd) {
  uint16_t *once_a = &n->value[v].once_class[vd], *once_b = &n->value[w].once_class[wd];
  int a = n->value[v].dim_class[vd], b = n->value[w].dim_class[wd];
  if (!a && !b) {
    *once_a = *once_b = *once_a ? *once_a : *once_b;
    return;
  }
  if (!a) a = *once_a;
  if (!b) b = *once_b;
  if (!a || !b) return;
  a = root(n, a), b = root(n, b);
  if (a == b || n->size[a] != n->size[b] || joins_one_value(n, a, b)) return;
  n->parent[a > b ? a : b] = (uint16_t)(a < b ? a : b);
}

static int rank_of_value(const msc_nester *n, int v) { return n->value[v].value->type->rank; }

/* Joins dimensions aligned from the right. */
static void join_right(msc_nester *n, int v, int w) {
  for (int i = 1; i <= rank_of_value(n, v) && i <= rank_of_value(n, w); i++)
    join_dims(n, v, rank_of_value(n, v) - i, w, rank_of_value(n, w) - i);
}

static void join_left(msc_nester *n, int v, int w) {
  for (int i = 0; i < rank_of_value(n, v) && i < rank_of_value(n, w); i++) join_dims(n, v, i, w, i);
}

static void join_reduce(msc_nester *n, const msc_op *op, int x, int y) {
  int64_t dims[MSC_MAX_RANK];
  int num = msc_op_ints(op, "dims", dims, MSC_MAX_RANK);
  bool keep = msc_op_bool(op, "keep_dims");
  for (int d = 0, at = 0; d < rank_of_value(n, x); d++) {
    bool gone = false;
    for (int i = 0; i < num; i++) gone |= dims[i] == d;
    if (!gone) join_dims(n, x, d, y, at);
    else if (keep) n->value[y].once_class[at] = n->value[x].dim_class[d];
    at += !gone || keep;
  }
}

/* Joins the dimensions that a reshape leaves alone: equal sizes after equal numbers of elements. */
static void join_reshape(msc_nester *n, int x, int y) {
  const msc_type *a = n->value[x].value->type, *b = n->value[y].value->type;
  int64_t before_a = 1, before_b = 1;
  for (int i = 0, j = 0; i < a->rank && j < b->rank;) {
    if (a->dim[i] == 1) i++;
    else if (b->dim[j] == 1) j++;
    else if (before_a == before_b && a->dim[i] == b->dim[j]) {
      join_dims(n, x, i, y, j);
      before_a *= a->dim[i++], before_b *= b->dim[j++];
    } else if (before_a <= before_b) before_a *= a->dim[i++];
    else before_b *= b->dim[j++];
  }
}

static void join_matmul(msc_nester *n, const msc_op *op, int a, int b, int y) {
  bool ta = msc_op_bool(op, "transpose_a"), tb = msc_op_bool(op, "transpose_b");
  int ra = rank_of_value(n, a), rb = rank_of_value(n, b), ry = rank_of_value(n, y);
  for (int i = 3; i <= ry; i++) {
    if (i <= ra) join_dims(n, a, ra - i, y, ry - i);
    if (i <= rb) join_dims(n, b, rb - i, y, ry - i);
  }
  join_dims(n, a, ra - 2 + ta, y, ry - 2);
  join_dims(n, b, rb - 1 - tb, y, ry - 1);
  join_dims(n, a, ra - 1 - ta, b, rb - 2 + tb);
}

static void join_along(msc_nester *n, int x, int y, int64_t but) {
  for (int d = 0; d < rank_of_value(n, x); d++)
    if (d != but) join_dims(n, x, d, y, d);
}

/* Joins images with images and pooled channels with channels; elements that windows see run along loops of their own.
 * Pools of one image run along the same windows. */
static void join_pooled(msc_nester *n, const msc_op *op, int y) {
  for (int i = 0; i < op->num_in; i++) {
    int x = msc_nest_find_value(n, op->in[i].value);
    join_dims(n, x, 0, y, 0), join_dims(n, x, 1, y, 1);
  }
  for (size_t i = 0; i < n->num_ops && n->ops[i] != op; i++) {
    bool alike = msc_is_windowed(n->ops[i]) && n->ops[i]->in[0].value == op->in[0].value;
    for (int d = 2; alike && d < 4; d++) join_dims(n, msc_nest_find_value(n, &n->ops[i]->out[0]), d, y, d);
  }
}

/* ---- joins of rows of loop.def ---- */

/* Joins the images of a convolution with those of its result. */
static void join_images(msc_nester *n, const msc_op *op, const int *in, int y) {
  (void)op;
  join_dims(n, in[0], 0, y, 0);
}

/* Joins nothing: the gradient of a convolution's weights sums over images. */
static void join_nothing(msc_nester *n, const msc_op *op, const int *in, int y) {
  (void)n, (void)op, (void)in, (void)y;
}

static void join_unfold(msc_nester *n, const msc_op *op, const int *in, int y) {
  int image = msc_op_bool(op, "images_last") ? 3 : 0;
  join_dims(n, in[0], 0, y, image), join_dims(n, in[0], 1, y, image ? 0 : 1);
}

static void join_transpose(msc_nester *n, const msc_op *op, const int *in, int y) {
  int64_t perm[MSC_MAX_RANK];
  msc_op_ints(op, "perm", perm, MSC_MAX_RANK);
  for (int d = 0; d < rank_of_value(n, y); d++) join_dims(n, in[0], (int)perm[d], y, d);
}

static void join_concat(msc_nester *n, const msc_op *op, const int *in, int y) {
  (void)in;
  for (int i = 0; i < op->num_in; i++) join_along(n, msc_nest_find_value(n, op->in[i].value), y, msc_op_int(op, "dim"));
}

static void join_split(msc_nester *n, const msc_op *op, const int *in, int y) {
  (void)y;
  for (int i = 0; i < op->num_out; i++)
    join_along(n, in[0], msc_nest_find_value(n, &op->out[i]), msc_op_int(op, "dim"));
}

/* Joins the dimensions in which a slice or pad begins at 0: in the others its elements are shifted. */
static void join_shifted(msc_nester *n, const msc_op *op, const char *first, int x, int y) {
  int64_t v[MSC_MAX_RANK];
  msc_op_ints(op, first, v, MSC_MAX_RANK);
  for (int d = 0; d < rank_of_value(n, y); d++)
    if (v[d] == 0) join_dims(n, x, d, y, d);
}
static void join_slice(msc_nester *n, const msc_op *op, const int *in, int y) {
  join_shifted(n, op, MSC_FACT(start), in[0], y);
}
static void join_pad(msc_nester *n, const msc_op *op, const int *in, int y) { join_shifted(n, op, "low", in[0], y); }

/* Joins the dimensions of a gather: table [pre, v, post], indices [*], y [pre, *, post]. */
static void join_gather(msc_nester *n, const msc_op *op, const int *in, int y) {
  int r = rank_of_value(n, in[1]), axis = (int)msc_op_int(op, "axis");
  for (int d = 0; d < axis; d++) join_dims(n, in[0], d, y, d);
  for (int d = 0; d < r; d++) join_dims(n, in[1], d, y, axis + d);
  for (int d = axis + 1; d < rank_of_value(n, in[0]); d++) join_dims(n, in[0], d, y, d - 1 + r);
}

static int dim_of_indices(const msc_op *op) {
  msc_indexed x = {0};
  return msc_indexed_of(op, &x), x.dim;
}

static void join_scatter_add(msc_nester *n, const msc_op *op, const int *in, int y) {
  int r = rank_of_value(n, in[0]), dim = dim_of_indices(op);
  for (int d = 0; d < r; d++) join_dims(n, in[0], d, in[1], dim + d);
  for (int d = 0; d < rank_of_value(n, y); d++)
    if (d != dim) join_dims(n, y, d, in[1], d < dim ? d : d - 1 + r);
}

static void join_take_along(msc_nester *n, const msc_op *op, const int *in, int y) {
  join_along(n, in[1], y, -1), join_along(n, in[0], y, dim_of_indices(op));
}
static void join_add_along(msc_nester *n, const msc_op *op, const int *in, int y) {
  join_along(n, in[0], in[1], -1), join_along(n, y, in[1], dim_of_indices(op));
}

/* Joins the dimensions of a gather of blocks: x [named, post], indices [*, m], blocks [*, post]. */
static void join_named(msc_nester *n, int x, int indices, int blocks) {
  int lead = rank_of_value(n, indices) - 1, depth = (int)n->value[indices].value->type->dim[lead];
  for (int d = 0; d < lead; d++) join_dims(n, indices, d, blocks, d);
  for (int d = depth; d < rank_of_value(n, x); d++) join_dims(n, x, d, blocks, lead + d - depth);
}
static void join_gather_nd(msc_nester *n, const msc_op *op, const int *in, int y) {
  (void)op, join_named(n, in[0], in[1], y);
}
static void join_scatter_nd_add(msc_nester *n, const msc_op *op, const int *in, int y) {
  (void)op, join_named(n, y, in[0], in[1]);
}

static void join_from_left(msc_nester *n, const msc_op *op, const int *in, int y) {
  for (int i = 1; i < op->num_in; i++) join_left(n, in[0], in[i]);
  join_left(n, in[0], y);
}

typedef void join_fn(msc_nester *n, const msc_op *op, const int *in, int y);
static join_fn *const join_of[OP_COUNT] = {
#define LOOP(op, join, read) [OP_##op] = join,
#include "passes/7_lower/nest/loop.def"
};

static void join_op(msc_nester *n, const msc_op *op) {
  int in[8], y = op->num_out ? msc_nest_find_value(n, &op->out[0]) : -1;
  for (int i = 0; i < op->num_in && i < 8; i++) in[i] = msc_nest_find_value(n, op->in[i].value);
  if (join_of[op->kind]) {
    join_of[op->kind](n, op, in, y);
    return;
  }
  switch (msc_form_of(op)) {
    case MSC_FORM_SOURCE: break;
    case MSC_FORM_RESHAPE: join_reshape(n, in[0], y); break;
    case MSC_FORM_PRODUCT: join_matmul(n, op, in[0], in[1], y); break;
    case MSC_FORM_WINDOW: join_pooled(n, op, y); break;
    case MSC_FORM_REDUCE: join_reduce(n, op, in[0], y); break;
    default: /* elementwise, softmax, optimizers: all operands broadcast to all results */
      for (int j = 0; j < op->num_out; j++)
        for (int i = 0; i < op->num_in && i < 8; i++) join_right(n, in[i], msc_nest_find_value(n, &op->out[j]));
  }
}

static int new_axis(msc_nester *n, int64_t extent) {
  if (n->num_axes == MSC_NEST_AXES) return msc_nest_refuse(n, "more than %d loops", MSC_NEST_AXES);
  n->extent[n->num_axes] = extent;
  return n->num_axes++;
}

int msc_nest_axis(msc_nester *n, int v, int d) {
  int c = n->value[v].dim_class[d];
  if (!c) return -1;
  c = root(n, c);
  if (n->axis_of[c] < 0) n->axis_of[c] = (int8_t)new_axis(n, n->size[c]);
  return n->axis_of[c];
}

int msc_nest_own_axis(msc_nester *n, int v, int k, int64_t extent) {
  if (extent == 1) return -1;
  uint8_t *own = &n->value[v].own_axis[k];
  if (!*own || n->extent[*own - 1] != extent) *own = (uint8_t)(new_axis(n, extent) + 1);
  return *own - 1;
}

/* True if op i reads a result of one that is not among the same `period` ops. */
static bool depends_on_others(const msc_nester *n, size_t i, size_t period) {
  for (size_t k = 0; k < n->num_ops; k++)
    for (int a = 0; a < n->ops[i]->num_in && k / period != i / period; a++)
      if (n->ops[i]->in[a].value->def == n->ops[k]) return true;
  return false;
}

static bool repeats(const msc_nester *n, size_t period) {
  for (size_t i = 0; i < n->num_ops; i++) {
    const msc_op *op = n->ops[i], *model = n->ops[i % period];
    if (op->kind != model->kind || !op->num_out || op->out[0].type != model->out[0].type ||
        depends_on_others(n, i, period))
      return false;
  }
  return true;
}

/* Joins ops that repeat with a period and have one shape, though nothing connects them, so that they run in the same
 * loops: updates beside each other, or sums over micro-batches. */
static void join_ops_alike(msc_nester *n) {
  size_t period = 1;
  while (2 * period <= n->num_ops && (n->num_ops % period || !repeats(n, period))) period++;
  const msc_op *model = n->ops[period - 1];
  for (size_t i = 2 * period - 1; i < n->num_ops; i += period)
    join_left(n, msc_nest_find_value(n, &model->out[0]), msc_nest_find_value(n, &n->ops[i]->out[0]));
}

bool msc_nest_collect_values(msc_nester *n) {
  for (size_t i = 0; i < n->num_ops; i++) {
    const msc_op *op = n->ops[i];
    for (int k = 0; k < op->num_in; k++) msc_nest_add_value(n, op->in[k].value, NULL);
    for (int k = 0; k < op->num_out; k++) msc_nest_add_value(n, &op->out[k], op);
    if (n->failed) return false;
  }
  for (size_t i = 0; i < n->num_ops; i++) join_op(n, n->ops[i]);
  if (n->num_ops > 1 && n->ops[0]->num_out) join_ops_alike(n);
  return true;
}
