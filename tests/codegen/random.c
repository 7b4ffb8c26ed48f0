/* random.c: random small graphs: those that msc_nest_fits accepts become one kernel, which must compute what the
 * interpreter does, however its work is cut and wherever a result may overwrite an operand. */
#include "tests/codegen/kernels.h"

enum { MOST_OPS = 7, MOST_KERNELS = 400 };

typedef struct {
  kernel_run *k;
  msc_builder b;
  msc_value *value[64];
  size_t num;
} graph;

static size_t below(graph *g, size_t n) { return (size_t)(random_number(g->k) * (double)n); }
static msc_value *any(graph *g) { return g->value[below(g, g->num)]; }
static msc_value *recent(graph *g) { return g->value[g->num - 1 - below(g, g->num < 3 ? g->num : 3)]; }

static msc_value *any_of(graph *g, msc_dtype dtype) {
  for (int tries = 0; tries < 10; tries++) {
    msc_value *v = tries < 5 ? recent(g) : any(g);
    if (v->type->dtype == dtype) return v;
  }
  return NULL;
}

static msc_value *built(graph *g, msc_op_kind kind, size_t num_in, msc_value *const *in, size_t num_attrs,
                        const msc_attr *attrs) {
  msc_op *op = msc_build_with(&g->b, kind, num_in, in, 1, num_attrs, attrs);
  if (op) return &op->out[0];
  msc_clear_diags(g->k->ctx);
  return NULL;
}

static msc_attr ints(graph *g, const char *name, size_t n, const int64_t *v) {
  return msc_named(g->k->ctx, name, msc_ints(g->k->ctx, n, v));
}

static msc_value *unary(graph *g, msc_dtype dtype) {
  static const msc_op_kind kinds[] = {OP_neg, OP_relu, OP_abs, OP_tanh, OP_sigmoid, OP_erf};
  msc_value *x = any_of(g, dtype);
  return x ? built(g, kinds[below(g, 6)], 1, &x, 0, NULL) : NULL;
}

static msc_value *binary(graph *g, msc_dtype dtype) {
  static const msc_op_kind kinds[] = {OP_add, OP_sub, OP_mul, OP_max, OP_min};
  msc_value *x[2] = {any_of(g, dtype), any(g)};
  return x[0] && x[1]->type->dtype == dtype ? built(g, kinds[below(g, 5)], 2, x, 0, NULL) : NULL;
}

static msc_value *choice(graph *g, msc_dtype dtype) {
  msc_value *x[3] = {NULL, any_of(g, dtype), any(g)};
  msc_attr p = msc_named(g->k->ctx, "predicate", msc_str(g->k->ctx, below(g, 2) ? "lt" : "ge"));
  if (!x[1] || x[2]->type->dtype != dtype) return NULL;
  x[0] = built(g, OP_compare, 2, x + 1, 1, &p);
  return x[0] ? built(g, OP_select, 3, x, 0, NULL) : NULL;
}

static msc_value *reduction(graph *g, msc_dtype dtype) {
  static const msc_op_kind kinds[] = {OP_reduce_sum, OP_reduce_mean, OP_reduce_max, OP_reduce_min};
  msc_value *x = any_of(g, dtype);
  int64_t dims[MSC_MAX_RANK];
  size_t n = 0;
  if (!x || x->type->rank == 0) return NULL;
  for (int d = 0; d < x->type->rank; d++)
    if (below(g, 2)) dims[n++] = d;
  if (!n) dims[n++] = x->type->rank - 1;
  msc_attr a[2] = {ints(g, "dims", n, dims), msc_named(g->k->ctx, "keep_dims", msc_bool(below(g, 2)))};
  return built(g, kinds[below(g, 4)], 1, &x, 2, a);
}

static msc_value *softmax(graph *g, msc_dtype dtype) {
  msc_value *x = any_of(g, dtype);
  if (!x || x->type->rank == 0) return NULL;
  msc_attr a = msc_named(g->k->ctx, "axis", msc_int((int64_t)below(g, (size_t)x->type->rank)));
  return built(g, below(g, 2) ? OP_softmax : OP_log_softmax, 1, &x, 1, &a);
}

static msc_value *transposition(graph *g) {
  msc_value *x = recent(g);
  int64_t perm[MSC_MAX_RANK];
  int rank = x->type->rank;
  for (int d = 0; d < rank; d++) perm[d] = d;
  for (int d = rank - 1; d > 0; d--) {
    size_t o = below(g, (size_t)d + 1);
    int64_t t = perm[d];
    perm[d] = perm[o], perm[o] = t;
  }
  msc_attr a = ints(g, "perm", (size_t)rank, perm);
  return built(g, OP_transpose, 1, &x, 1, &a);
}

static msc_value *cut(graph *g) {
  msc_value *x = recent(g);
  int64_t v[3][MSC_MAX_RANK];
  bool pad = below(g, 2);
  size_t rank = (size_t)x->type->rank;
  for (size_t d = 0; d < rank; d++) {
    int64_t n = x->type->dim[d];
    v[0][d] = pad ? (int64_t)below(g, 3) : (int64_t)below(g, (size_t)(n / 2 + 1));
    v[1][d] = pad ? (int64_t)below(g, 3) : n - (int64_t)below(g, (size_t)(n - v[0][d]));
    v[2][d] = below(g, 4) ? 1 : 2;
  }
  msc_attr a[3] = {ints(g, pad ? "low" : "start", rank, v[0]), ints(g, pad ? "high" : "limit", rank, v[1]),
                   ints(g, "stride", rank, v[2])};
  return built(g, pad ? OP_pad : OP_slice, 1, &x, 3, a);
}

static msc_value *joint(graph *g) {
  msc_value *x[2] = {recent(g), any(g)};
  if (x[0]->type->rank == 0) return NULL;
  msc_attr a = msc_named(g->k->ctx, "dim", msc_int((int64_t)below(g, (size_t)x[0]->type->rank)));
  return built(g, OP_concat, 2, x, 1, &a);
}

static msc_value *spread(graph *g) {
  msc_value *x = recent(g);
  int64_t shape[MSC_MAX_RANK];
  size_t rank = (size_t)x->type->rank, front = rank < 3 ? below(g, 2) : 0;
  if (front) shape[0] = 3;
  for (size_t d = 0; d < rank; d++) shape[front + d] = x->type->dim[d] == 1 ? 9 : x->type->dim[d];
  msc_attr a = ints(g, "shape", front + rank, shape);
  return built(g, OP_broadcast_to, 1, &x, 1, &a);
}

static msc_value *regroup(graph *g) {
  msc_value *x = recent(g);
  int64_t shape[MSC_MAX_RANK];
  size_t n = 0;
  for (int d = 0; d < x->type->rank; d++) {
    int64_t size = x->type->dim[d];
    if (size % 2 == 0 && size > 2 && n < 4) shape[n++] = 2, size /= 2;
    shape[n++] = size;
    if (n > 5) return NULL;
  }
  msc_attr a = ints(g, "shape", n, shape);
  return built(g, OP_reshape, 1, &x, 1, &a);
}

/* ---- moved within its own shape: it meets what it was made from ---- */

/* Elements [from, to) of dimension d. */
static msc_value *part(graph *g, msc_value *x, int d, int64_t from, int64_t to, int64_t step) {
  int64_t start[MSC_MAX_RANK] = {0}, limit[MSC_MAX_RANK], stride[MSC_MAX_RANK];
  for (int i = 0; i < x->type->rank; i++) limit[i] = x->type->dim[i], stride[i] = 1;
  start[d] = from, limit[d] = to, stride[d] = step;
  msc_attr a[3] = {ints(g, "start", (size_t)x->type->rank, start), ints(g, "limit", (size_t)x->type->rank, limit),
                   ints(g, "stride", (size_t)x->type->rank, stride)};
  return built(g, OP_slice, 1, &x, 3, a);
}

/* x with so many zeros before, behind and `step` - 1 between its elements. */
static msc_value *padded(graph *g, msc_value *x, int d, int64_t before, int64_t behind, int64_t step) {
  int64_t low[MSC_MAX_RANK] = {0}, high[MSC_MAX_RANK] = {0}, stride[MSC_MAX_RANK];
  for (int i = 0; i < x->type->rank; i++) stride[i] = 1;
  low[d] = before, high[d] = behind, stride[d] = step;
  msc_attr a[3] = {ints(g, "low", (size_t)x->type->rank, low), ints(g, "high", (size_t)x->type->rank, high),
                   ints(g, "stride", (size_t)x->type->rank, stride)};
  return built(g, OP_pad, 1, &x, 3, a);
}

static msc_value *side_by_side(graph *g, msc_value *x, msc_value *y, int d) {
  msc_value *in[2] = {x, y};
  msc_attr a = msc_named(g->k->ctx, "dim", msc_int(d));
  return x && y ? built(g, OP_concat, 2, in, 1, &a) : NULL;
}

static msc_value *reduced(graph *g, msc_value *x, int d) {
  static const msc_op_kind kinds[] = {OP_reduce_sum, OP_reduce_mean, OP_reduce_max, OP_reduce_min, OP_reduce_prod};
  int64_t dim = d;
  msc_attr a[2] = {ints(g, "dims", 1, &dim), msc_named(g->k->ctx, "keep_dims", msc_bool(true))};
  return built(g, kinds[below(g, 5)], 1, &x, 2, a);
}

/* The last element first, by index. */
static msc_value *reversed(graph *g, msc_value *x, int d) {
  int64_t n = x->type->dim[d];
  msc_attr type = msc_named(g->k->ctx, "type", msc_type_attr(msc_type_of(g->k->ctx, MSC_I32, 1, &n, NULL))),
           axis = msc_named(g->k->ctx, "axis", msc_int(d));
  msc_value *in[2] = {msc_build_scalar(&g->b, MSC_I32, (double)(n - 1)), built(g, OP_iota, 0, NULL, 1, &type)};
  msc_value *table[2] = {x, built(g, OP_sub, 2, in, 0, NULL)};
  return built(g, OP_gather, 2, table, 1, &axis);
}

/* Dimension d and another one change places. */
static msc_value *turned(graph *g, msc_value *x, int d) {
  int64_t perm[MSC_MAX_RANK];
  int other = (int)below(g, (size_t)x->type->rank);
  for (int i = 0; i < x->type->rank; i++) perm[i] = i == d ? other : i == other ? d : i;
  msc_attr a = ints(g, "perm", (size_t)x->type->rank, perm);
  return built(g, OP_transpose, 1, &x, 1, &a);
}

static msc_value *moved(graph *g) {
  msc_value *x = recent(g);
  if (x->type->rank == 0) return NULL;
  int d = (int)below(g, (size_t)x->type->rank);
  int64_t n = x->type->dim[d];
  if (n < 2) return NULL;
  int64_t k = n % 2 == 0 && below(g, 2) ? n / 2 : 1 + (int64_t)below(g, (size_t)n - 1);
  msc_value *y;
  switch (below(g, 9)) {
    case 0: return side_by_side(g, part(g, x, d, k, n, 1), part(g, x, d, 0, k, 1), d);
    case 1: return (y = part(g, x, d, 0, k, 1)) ? padded(g, y, d, n - k, 0, 1) : NULL;
    case 2: return (y = part(g, x, d, k, n, 1)) ? padded(g, y, d, 0, k, 1) : NULL;
    case 3: return (y = part(g, x, d, 0, n, 2)) ? padded(g, y, d, 0, n % 2 == 0, 2) : NULL;
    case 4: return (y = reduced(g, x, d)) ? padded(g, y, d, k, n - 1 - k, 1) : NULL;
    case 5: return side_by_side(g, reduced(g, x, d), part(g, x, d, 1, n, 1), d);
    case 6:
      return (y = reduced(g, x, d)) ? side_by_side(g, part(g, x, d, 0, k, 1), padded(g, y, d, n - 1 - k, 0, 1), d)
                                    : NULL;
    case 7: return reversed(g, x, d);
    default: return turned(g, x, d);
  }
}

/* ---- windows ---- */

/* Seen as images: batch and channels of size 1 where x has fewer dimensions. */
static msc_value *image(graph *g, msc_value *x) {
  int64_t shape[4] = {1, 1, 1, 1};
  if (x->type->rank > 4 || x->type->rank == 0) return NULL;
  for (int d = 0; d < x->type->rank; d++) shape[4 - x->type->rank + d] = x->type->dim[d];
  msc_attr a = ints(g, "shape", 4, shape);
  return x->type->rank == 4 ? x : built(g, OP_reshape, 1, &x, 1, &a);
}

static msc_value *pooled(graph *g) {
  msc_value *x = image(g, recent(g));
  int64_t kernel[2] = {1 + (int64_t)below(g, 2), 1 + (int64_t)below(g, 3)},
          stride[2] = {1 + (int64_t)below(g, 2), 1 + (int64_t)below(g, 2)}, padding[4];
  for (int i = 0; i < 4; i++) padding[i] = (int64_t)below(g, (size_t)kernel[i / 2]);
  msc_attr a[3] = {ints(g, "kernel", 2, kernel), ints(g, "stride", 2, stride), ints(g, "padding", 4, padding)};
  return x ? built(g, below(g, 2) ? OP_max_pool : OP_avg_pool, 1, &x, 3, a) : NULL;
}

static msc_value *step(graph *g, msc_dtype dtype) {
  switch (below(g, 17)) {
    case 0: case 1: return unary(g, dtype);
    case 2: case 3: case 4: return binary(g, dtype);
    case 5: return choice(g, dtype);
    case 6: case 7: return reduction(g, dtype);
    case 8: return softmax(g, dtype);
    case 9: return below(g, 2) ? transposition(g) : regroup(g);
    case 10: return cut(g);
    case 11: return joint(g);
    case 12:
    case 13:
    case 14: return moved(g);
    case 15: return pooled(g);
    default: return spread(g);
  }
}

static void add_arguments(graph *g, msc_dtype dtype) {
  static const int64_t sizes[] = {1, 2, 3, 7, 8, 9, 16, 17, 33, 70};
  int64_t base[3];
  for (int d = 0; d < 3; d++) base[d] = sizes[below(g, 10)];
  for (size_t i = 0, num = 2 + below(g, 2); i < num; i++) {
    int64_t dim[3];
    int rank = (int)below(g, 3) + (i == 0);
    for (int d = 0; d < rank; d++) dim[d] = below(g, 5) ? base[3 - rank + d] : 1;
    g->value[g->num++] = msc_add_arg(g->b.block, msc_type_of(g->k->ctx, dtype, rank, dim, NULL), NULL);
  }
}

static void drop_unused(msc_func *f) {
  for (msc_op *op = f->body->last->prev, *before; op; op = before) {
    before = op->prev;
    if (!msc_has_uses(&op->out[0])) msc_op_erase(op);
  }
}

/* A graph of one to MOST_OPS ops that returns its last value and perhaps another; NULL when it came to nothing. */
static msc_func *make_graph(kernel_run *k, msc_dtype dtype) {
  msc_module *m = msc_module_new(k->ctx);
  msc_func *f = msc_func_new(m, "f");
  graph g = {.k = k, .b = {.func = f, .block = f->body}};
  add_arguments(&g, dtype);
  size_t num_args = g.num;
  for (size_t i = 0, num = 1 + below(&g, MOST_OPS); i < num; i++) {
    msc_value *v = step(&g, dtype);
    if (v && msc_type_elems(v->type) < 20000) g.value[g.num++] = v;
  }
  if (g.num == num_args) return NULL;
  msc_value *out[2] = {g.value[g.num - 1], g.value[num_args + below(&g, g.num - num_args)]};
  msc_append_return(f, out[0] == out[1] ? 1 : 2, out, NULL);
  drop_unused(f);
  return f;
}

static bool accepted(msc_nester *n, msc_func *f) {
  const msc_op *ops[64];
  size_t num = 0;
  msc_nest_info info;
  const char *why;
  for (msc_op *op = f->body->first; op->kind != OP_return; op = op->next) ops[num++] = op;
  bool fits = num && msc_nest_fits(n, num, ops, &info, &why);
  assert_true(fits || num != 1); /* an op by itself always has a kernel */
  return fits;
}

/* `k`: empty; it is freed. */
static void check_type(kernel_run *k, msc_dtype dtype, uint64_t seed, size_t most) {
  k->seed = seed;
  for (int i = 0; i < 8 * (int)most && k->num < most; i++) {
    msc_func *f = make_graph(k, dtype);
    if (!f || !accepted(k->nester, f)) continue;
    size_t bytes;
    const char *text = msc_print_text(f->module, msc_context_arena(k->ctx), &bytes);
    kernels_add(k, text, f, true, -2, 2)->reordered = true;
  }
  assert_int_equal(k->num, most);
  kernels_finish(k);
  kernels_check(k);
  kernels_free(k);
}

/* One of `share` parts of them; an emulated GPU takes longer. */
static size_t number_of(size_t share) { return MOST_KERNELS / share / (on_gpu() ? 4 : 1); }

static void test_f32(void **state) {
  (void)state;
  check_type(kernels_new(NULL), MSC_F32, 11, number_of(1));
}

static void test_f64(void **state) {
  (void)state;
  check_type(kernels_new(NULL), MSC_F64, 12, number_of(3));
}

/* Vectors of half the width, without FMA and conversions of f16. */
static void test_plain_cpu(void **state) {
  (void)state;
  if (on_gpu()) return;
  check_type(kernels_new("x86-64"), MSC_F32, 14, number_of(4));
  check_type(kernels_new("x86-64"), MSC_F16, 15, number_of(8));
}

static void test_f16(void **state) {
  (void)state;
  check_type(kernels_new(NULL), MSC_F16, 13, number_of(3));
}

int main(int argc, char **argv) {
  if (argc == 3) { /* SEED COUNT: a longer look */
    check_type(kernels_new(NULL), MSC_F32, strtoull(argv[1], NULL, 10), strtoull(argv[2], NULL, 10));
    return 0;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_f32), cmocka_unit_test(test_f64), cmocka_unit_test(test_f16),
                                     cmocka_unit_test(test_plain_cpu)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
