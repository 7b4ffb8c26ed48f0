/* move.c: compares kernels of ops that move elements, and of those that gather or scatter by index, with the
 * interpreter. */
#include "tests/codegen/kernels.h"

static const char *const types[] = {"f32", "f64", "f16", "i1", "i64"};
#define COUNT(a) (sizeof(a) / sizeof *(a))

typedef struct {
  const char *op, *in, *attrs;
  int num_out;
} move_case;

static const move_case moves[] = {
    {"transpose", "3x5x$", "perm=1,0", 1},
    {"transpose", "40x33x$", "perm=1,0", 1},
    {"transpose", "64x16x$", "perm=1,0", 1},
    {"transpose", "3x33x40x$", "perm=0,2,1", 1},
    {"transpose", "19x2x24x$", "perm=2,1,0", 1},
    {"transpose", "2x3x17x5x$", "perm=0,2,1,3", 1},
    {"transpose", "2x3x17x5x$", "perm=3,1,0,2", 1},
    {"transpose", "7x$", "perm=0", 1},
    {"reshape", "6x4x$", "shape=2,3,4", 1},
    {"reshape", "2x3x4x$", "shape=6,-1", 1},
    {"reshape", "2x3x4x$", "shape=4,6", 1},
    {"flatten", "2x3x4x$", "axis=1", 1},
    {"slice", "19x$", "start=3 limit=18", 1},
    {"slice", "9x21x$", "start=2,1 limit=9,20 stride=3,2", 1},
    {"slice", "9x21x$", "start=2,0 limit=3,21", 1},
    {"slice", "4x4x$", "start=4,0 limit=4,4", 1},
    {"pad", "17x$", "low=2 high=3 value=1", 1},
    {"pad", "3x17x$", "low=1,0 high=0,9", 1},
    {"pad", "5x4x$", "low=1,2 high=2,1 stride=2,3 value=1", 1},
    {"pad", "1x4x$", "low=1,0 high=1,0 stride=4,1", 1},
    {"pad", "0x4x$", "low=1,0 high=1,0 value=1", 1},
    {"concat", "3x5x$ 3x7x$ 3x1x$", "dim=1", 1},
    {"concat", "3x5x$ 0x5x$ 4x5x$", "dim=0", 1},
    {"concat", "2x3x$", "dim=1", 1},
    {"split", "3x13x$", "dim=1 sizes=5,7,1,0", 4},
    {"split", "8x3x$", "dim=0 sizes=4,4", 2},
    {"broadcast_to", "5x1x$", "shape=3,5,17", 1},
    {"broadcast_to", "$", "shape=70", 1},
};

static const char *typed(kernel_run *k, const char *shapes, const char *dtype) {
  char *out = msc_arena_alloc(msc_context_arena(k->ctx), 200), *p = out;
  for (; *shapes; shapes++) p += *shapes == '$' ? sprintf(p, "%s", dtype) : sprintf(p, "%c", *shapes);
  return out;
}

static void test_moves(void **state) {
  kernel_run *k = kernels_new(NULL);
  (void)state;
  for (size_t t = 0; t < COUNT(types); t++)
    for (size_t i = 0; i < COUNT(moves); i++)
      kernels_add_op(k, moves[i].op, typed(k, moves[i].in, types[t]), moves[i].attrs, moves[i].num_out, -9, 9);
  kernels_finish(k);
  kernels_check(k);
  kernels_free(k);
}

/* Far more parts than a kernel has buffers: a copy for each. */
static void test_many_parts(void **state) {
  kernel_run *k = kernels_new(NULL);
  msc_value *part[MOST_OPERANDS];
  int64_t size[MOST_OPERANDS];
  (void)state;
  for (int joins = 0; joins < 2; joins++) {
    msc_func *f = msc_func_new(msc_module_new(k->ctx), "f");
    msc_builder b = {.func = f, .block = f->body};
    msc_attr attr[2] = {msc_named(k->ctx, "dim", msc_int(1))};
    for (int i = 0; i < MOST_OPERANDS; i++) {
      size[i] = 1 + i % 3;
      if (joins) part[i] = msc_add_arg(f->body, msc_type_of(k->ctx, MSC_F32, 2, (int64_t[]){5, size[i]}, NULL), NULL);
    }
    attr[1] = msc_named(k->ctx, "sizes", msc_ints(k->ctx, MOST_OPERANDS, size));
    msc_value *whole =
        joins ? NULL
              : msc_add_arg(f->body, msc_type_of(k->ctx, MSC_F32, 2, (int64_t[]){5, 2 * MOST_OPERANDS}, NULL), NULL);
    msc_op *op = joins ? msc_build_with(&b, OP_concat, MOST_OPERANDS, part, 1, 1, attr)
                       : msc_build_with(&b, OP_split, 1, &whole, MOST_OPERANDS, 2, attr);
    assert_non_null(op);
    for (int i = 0; i < op->num_out; i++) part[i] = &op->out[i];
    msc_append_return(f, op->num_out, part, NULL);
    kernels_add(k, joins ? "concat of many" : "split into many", f, false, -9, 9);
  }
  kernels_finish(k);
  kernels_check(k);
  kernels_free(k);
}

static void test_sources(void **state) {
  kernel_run *k = kernels_new(NULL);
  (void)state;
  for (size_t t = 0; t < COUNT(types); t++) {
    if (!strcmp(types[t], "i1")) continue;
    kernels_add_op(k, "iota", "", typed(k, "type=3x17x$ dim=1", types[t]), 1, 0, 1);
    kernels_add_op(k, "iota", "", typed(k, "type=3x17x$ dim=0", types[t]), 1, 0, 1);
    kernels_add_op(k, "one_hot", "9xi32", typed(k, "depth=7 dtype=$ on=3 off=1", types[t]), 1, -1, 9);
    kernels_add_op(k, "one_hot", "2x9xi64", typed(k, "depth=33 dtype=$", types[t]), 1, 0, 33);
    kernels_add_op(k, "constant", "", typed(k, "value=17x$:3", types[t]), 1, 0, 1);
  }
  kernels_finish(k);
  kernels_check(k);
  kernels_free(k);
}

/* Indices of operand `at` are drawn again, below `rows`. */
static void draw_indices(kernel_run *k, msc_tensor *t, int64_t rows) {
  for (int64_t i = 0; i < msc_type_elems(t->type); i++) msc_tensor_set(t, i, floor(random_number(k) * (double)rows));
}

static void prepare_gather(kernel_run *k, kernel_case *c) {
  draw_indices(k, &c->in[1], c->in[0].type->dim[msc_op_int(c->func->body->first, "axis")]);
}

static void prepare_scatter(kernel_run *k, kernel_case *c) {
  draw_indices(k, &c->in[0], msc_op_int(c->func->body->first, "rows"));
}

static void add_indexed(kernel_run *k, const char *op, const char *in, const char *attrs,
                        void (*prepare)(kernel_run *, kernel_case *)) {
  msc_module *m = msc_module_new(k->ctx);
  assert_non_null(one_op(m, op, in, attrs, 1));
  kernels_add_with(k, msc_arena_printf(msc_context_arena(k->ctx), "%s %s %s", op, in, attrs), m->first, false, -5, 5,
                   prepare)
      ->reordered = true;
}

static void test_indexed(void **state) {
  static const char *const some[] = {"f32", "f64", "bf16", "f16", "i8", "i32", "i64"};
  kernel_run *k = kernels_new(NULL);
  (void)state;
  for (size_t t = 0; t < COUNT(some); t++) {
    add_indexed(k, "gather", typed(k, "11x17x$ 5xi32", some[t]), "axis=0", prepare_gather);
    add_indexed(k, "gather", typed(k, "11x17x$ 2x3xi64", some[t]), "axis=1", prepare_gather);
    add_indexed(k, "gather", typed(k, "9x$ i32", some[t]), "axis=0", prepare_gather);
    add_indexed(k, "gather", typed(k, "9x$ 40xi32", some[t]), "axis=0", prepare_gather);
    /* many to one row */
    add_indexed(k, "scatter_add", typed(k, "423xi32 423x17x$", some[t]), "rows=7 axis=0", prepare_scatter);
    add_indexed(k, "scatter_add", typed(k, "2x3xi64 2x3x40x$", some[t]), "rows=70 axis=0", prepare_scatter);
    add_indexed(k, "scatter_add", typed(k, "4xi64 3x4x5x$", some[t]), "rows=6 axis=1", prepare_scatter);
    add_indexed(k, "scatter_add", typed(k, "4xi64 4x$", some[t]), "rows=6 axis=0", prepare_scatter);
    add_indexed(k, "scatter_add", typed(k, "0xi64 0x5x$", some[t]), "rows=6 axis=0", prepare_scatter);
  }
  kernels_finish(k);
  kernels_check(k);
  kernels_free(k);
}

static void prepare_unordered(kernel_run *k, kernel_case *c) {
  msc_op *op = c->func->body->first;
  msc_op_set(op, "any_order", msc_bool(true));
  c->reordered = c->unordered = true;
  const msc_type *y = op->out[0].type;
  draw_indices(k, &c->in[0],
               y->dim[op->kind == OP_add_along     ? y->rank + msc_op_int(op, "axis")
                      : op->kind == OP_scatter_add ? msc_op_int(op, "axis")
                                                   : 0]);
}

/* Adds that nobody wants in order: on a GPU all at once. */
static void test_unordered(void **state) {
  static const char *const some[] = {"f32", "f64", "bf16", "f16", "i8", "i32", "i64"};
  kernel_run *k = kernels_new(NULL);
  (void)state;
  for (size_t t = 0; t < COUNT(some); t++) {
    /* many to one row */
    add_indexed(k, "scatter_add", typed(k, "423xi32 423x17x$", some[t]), "rows=7 axis=0", prepare_unordered);
    /* vectors */
    add_indexed(k, "scatter_add", typed(k, "2x3xi64 2x3x40x$", some[t]), "rows=70 axis=0", prepare_unordered);
    add_indexed(k, "scatter_add", typed(k, "4xi64 3x4x5x$", some[t]), "rows=6 axis=1", prepare_unordered);
    add_indexed(k, "scatter_add", typed(k, "40xi64 40x$", some[t]), "rows=6 axis=0", prepare_unordered);
    add_indexed(k, "scatter_add", typed(k, "0xi64 0x5x$", some[t]), "rows=6 axis=0", prepare_unordered);
    add_indexed(k, "add_along", typed(k, "3x50x8xi32 3x50x8x$", some[t]), "rows=6 axis=-2", prepare_unordered);
    add_indexed(k, "scatter_nd_add", typed(k, "23x1xi32 23x16x$", some[t]), "shape=9,16", prepare_unordered);
  }
  kernels_finish(k);
  kernels_check(k);
  kernels_free(k);
}

static void prepare_along(kernel_run *k, kernel_case *c) {
  const msc_op *op = c->func->body->first;
  bool adds = op->kind == OP_add_along;
  int64_t axis = msc_op_int(op, "axis");
  const msc_type *t = adds ? op->out[0].type : c->in[0].type;
  draw_indices(k, &c->in[!adds], t->dim[axis < 0 ? axis + t->rank : axis]);
}

static void prepare_named(kernel_run *k, kernel_case *c) {
  const msc_op *op = c->func->body->first;
  bool adds = op->kind == OP_scatter_nd_add;
  msc_tensor *i = &c->in[!adds];
  const msc_type *t = adds ? op->out[0].type : c->in[0].type;
  int64_t depth = i->type->dim[i->type->rank - 1];
  for (int64_t j = 0; j < msc_type_elems(i->type); j++)
    msc_tensor_set(i, j, floor(random_number(k) * (double)t->dim[j % depth]));
}

static void prepare_update(kernel_run *k, kernel_case *c) {
  draw_indices(k, &c->in[1], c->in[0].type->dim[msc_op_int(c->func->body->first, "axis")]);
}

/* Random rows in order, each at the place where it stood. */
static void prepare_segments(kernel_run *k, kernel_case *c) {
  msc_tensor *indices = &c->in[0], *order = &c->in[1];
  int64_t n = indices->type->dim[0], rows = msc_op_int(c->func->body->first, "rows"), at = 0;
  int64_t *row = msc_new_array(msc_context_arena(k->ctx), int64_t, n + 1);
  for (int64_t i = 0; i < n; i++) row[i] = (int64_t)(random_number(k) * (double)rows);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < n; i++) {
      if (row[i] != r) continue;
      msc_tensor_set(indices, at, (double)r);
      msc_tensor_set(order, at++, (double)i);
    }
}

/* In f64 the order of sums is the interpreter's, bit for bit; it adds f32 in double. */
static void test_segments(void **state) {
  static const char *const some[] = {"64xi32 64xi32 64x17x$", "64xi64 64xi32 64x$", "128xi32 128xi32 128x3x100x$",
                                     "0xi32 0xi32 0x3x$"};
  static const char *const attrs[] = {"rows=7", "rows=1 blocks=64", "rows=7 blocks=2", "rows=50 blocks=8",
                                      "rows=300 blocks=16"};
  kernel_run *k = kernels_new(NULL);
  (void)state;
  for (size_t i = 0; i < COUNT(some) * COUNT(attrs) * 2 && !on_gpu(); i++) {
    const char *in = typed(k, some[i / 2 % COUNT(some)], i % 2 ? "f64" : "f32"), *with = attrs[i / 2 / COUNT(some)];
    msc_module *m = msc_module_new(k->ctx);
    if (*in == '0' && strstr(with, "blocks")) continue;
    assert_non_null(one_op(m, "segment_sum", in, with, 1));
    kernels_add_with(k, msc_arena_printf(msc_context_arena(k->ctx), "segment_sum %s %s", in, with), m->first, false, -5,
                     5, prepare_segments)->reordered = i % 2 == 0;
  }
  if (!on_gpu())
    assert_int_equal(kernels_add_op(k, "segment_sum", "8xi32 8xi32 8xf32", "rows=3", 1, 3, 5)->faults, MSC_FAULT_INDEX);
  kernels_finish(k);
  kernels_check(k);
  kernels_free(k);
}

static void test_indexed_elements(void **state) {
  static const char *const some[] = {"f32", "f64", "bf16", "f16", "i8", "i64"};
  kernel_run *k = kernels_new(NULL);
  (void)state;
  for (size_t t = 0; t < COUNT(some); t++) {
    add_indexed(k, "take_along", typed(k, "5x17x$ 5x40xi32", some[t]), "", prepare_along);
    add_indexed(k, "take_along", typed(k, "9x3x17x$ 4x3x17xi64", some[t]), "axis=0", prepare_along);
    add_indexed(k, "add_along", typed(k, "5x40xi32 5x40x$", some[t]), "rows=7", prepare_along);
    add_indexed(k, "add_along", typed(k, "9x3x17xi64 9x3x17x$", some[t]), "rows=4 axis=0", prepare_along);
    add_indexed(k, "gather_nd", typed(k, "5x6x17x$ 23x2xi32", some[t]), "", prepare_named);
    add_indexed(k, "gather_nd", typed(k, "5x6x$ 2x3x2xi64", some[t]), "", prepare_named);
    add_indexed(k, "scatter_nd_add", typed(k, "23x2xi32 23x17x$", some[t]), "shape=3,4,17", prepare_named);
    add_indexed(k, "scatter_nd_add", typed(k, "2x30x2xi64 2x30x$", some[t]), "shape=3,4", prepare_named);
    add_indexed(k, "scatter_update", typed(k, "7x17x$ 40xi32 40x17x$", some[t]), "", prepare_update);
    add_indexed(k, "scatter_update", typed(k, "3x7x2x$ 2x5xi64 3x2x5x2x$", some[t]), "axis=1", prepare_update);
  }
  kernels_finish(k);
  kernels_check(k);
  kernels_free(k);
}

/* Few different values: many are equal. */
static void prepare_ties(kernel_run *k, kernel_case *c) {
  msc_tensor *x = &c->in[0];
  static const double values[] = {-2, 0, 0.5, 3};
  for (int64_t i = 0; i < msc_type_elems(x->type); i++) {
    double r = random_number(k) * 6, v = r < 4 ? values[(int)r] : r < 5 ? (double)NAN : (double)-INFINITY;
    if (msc_is_float(x->type->dtype)) msc_tensor_set(x, i, r > 5.5 ? -0.0 : v);
    else msc_tensor_set(x, i, floor(r / 2));
  }
}

static void test_ordered(void **state) {
  static const char *const some[] = {"f32", "f64",  "bf16", "f16",  "i8",  "ui8",
                                     "i16", "ui16", "i32",  "ui32", "i64", "ui64"};
  static const move_case cases[] = {{"sort", "5x40x$", "", 2},
                                    {"sort", "9x3x17x$", "axis=0 descending=true dtype=i64", 2},
                                    {"sort", "3x0x$", "", 2},
                                    {"sort", "2x700x$", "", 2},
                                    {"sort", "3000x$", "", 2},
                                    {"sort", "700x$", "descending=true dtype=i64", 2},
                                    {"sort", "1x$", "", 2},
                                    {"sort", "2x300x3x$", "axis=1", 2},
                                    {"topk", "2x700x$", "k=300", 2},
                                    {"topk", "200x2x$", "k=3 axis=0 largest=false", 2},
                                    {"topk", "5x40x$", "k=7", 2},
                                    {"topk", "9x3x17x$", "k=9 axis=0 largest=false", 2},
                                    {"topk", "5x3x$", "k=0 dtype=i64", 2},
                                    {"unique", "40x$", "", 3},
                                    {"unique", "1x$", "dtype=i64", 3},
                                    {"unique", "300x$", "", 3},
                                    {"unique", "700x$", "", 3},
                                    {"unique", "3000x$", "dtype=i64", 3},
                                    {"unique", "0x$", "", 3}};
  kernel_run *k = kernels_new(NULL);
  (void)state;
  for (size_t t = 0; t < 2 * COUNT(some); t++)
    for (size_t i = 0; i < COUNT(cases); i++) {
      const char *in = typed(k, cases[i].in, some[t / 2]);
      msc_module *m = msc_module_new(k->ctx);
      assert_non_null(one_op(m, cases[i].op, in, cases[i].attrs, cases[i].num_out));
      const char *what = msc_arena_printf(msc_context_arena(k->ctx), "%s %s %s", cases[i].op, in, cases[i].attrs);
      kernels_add_with(k, what, m->first, false, -9, 9, t % 2 ? prepare_ties : NULL);
    }
  kernels_add_op(k, "sort", "40xi1", "", 2, 0, 1);
  kernels_finish(k);
  kernels_check(k);
  kernels_free(k);
}

static void test_cumulated(void **state) {
  static const char *const some[] = {"f32", "f64", "bf16", "f16", "i8", "ui8", "i16", "i32", "i64", "ui64"};
  static const char *const ways[] = {"axis=1", "axis=0 exclusive=true", "axis=-1 reverse=true",
                                     "axis=1 exclusive=true reverse=true"};
  kernel_run *k = kernels_new(NULL);
  (void)state;
  for (size_t t = 0; t < COUNT(some); t++)
    for (size_t w = 0; w < COUNT(ways); w++) {
      kernels_add_op(k, "cumsum", typed(k, "5x9x3x$", some[t]), ways[w], 1, -9, 9);
      kernels_add_op(k, "cumprod", typed(k, "5x9x3x$", some[t]), ways[w], 1, -2, 2);
      if (t < 4)
        kernels_add_op(k, "cumprod_grad", typed(k, "5x9x3x$ 5x9x3x$", some[t]), ways[w], 1, -1.5, 1.5)->reordered =
            true;
    }
  kernels_finish(k);
  kernels_check(k);
  kernels_free(k);
}

static void test_bad_index_is_told(void **state) {
  kernel_run *k = kernels_new(NULL);
  (void)state;
  assert_int_equal(kernels_add_op(k, "gather", "3x5xf32 17xi32", "axis=0", 1, 2, 5)->faults, MSC_FAULT_INDEX);
  assert_int_equal(kernels_add_op(k, "gather", "3xf32 17xi64", "axis=0", 1, -3, 2)->faults, MSC_FAULT_INDEX);
  assert_int_equal(kernels_add_op(k, "scatter_add", "5xi32 5x40xf32", "rows=3", 1, 2, 5)->faults, MSC_FAULT_INDEX);
  assert_int_equal(kernels_add_op(k, "scatter_add", "5xi32 5x1xf32", "rows=3", 1, -2, 1)->faults, MSC_FAULT_INDEX);
  assert_int_equal(kernels_add_op(k, "take_along", "3x5xf32 3x17xi32", "", 1, 2, 8)->faults, MSC_FAULT_INDEX);
  assert_int_equal(kernels_add_op(k, "add_along", "3x17xi32 3x17xf32", "rows=5", 1, -3, 3)->faults, MSC_FAULT_INDEX);
  assert_int_equal(kernels_add_op(k, "gather_nd", "9x5xf32 17x2xi32", "", 1, 2, 8)->faults, MSC_FAULT_INDEX);
  assert_int_equal(kernels_add_op(k, "scatter_nd_add", "17x2xi32 17xf32", "shape=9,5", 1, 2, 8)->faults,
                   MSC_FAULT_INDEX);
  assert_int_equal(kernels_add_op(k, "scatter_update", "9xf32 17xi64 17xf32", "", 1, 2, 12)->faults, MSC_FAULT_INDEX);
  kernels_finish(k);
  kernels_check(k);
  kernels_free(k);
}

/* ---- a rank's part of an indexed dimension ---- */

static kernel_case *add_part(kernel_run *k, const char *op, const char *in, const char *attrs, int64_t whole) {
  msc_module *m = msc_module_new(k->ctx);
  msc_op *o = one_op(m, op, in, attrs, 1);
  assert_non_null(o);
  msc_op_set(o, "start", msc_int(7)); /* the caller's own number */
  if (whole) msc_op_set(o, "whole", msc_int(whole));
  kernel_case *c = msc_new(msc_context_arena(k->ctx), kernel_case);
  c->op = o;
  assert_true(msc_codegen_add(k->cg, o, &c->call));
  assert_int_equal(c->call.launch[0].num_starts, 1);
  assert_int_equal(c->call.launch[0].start[0].number, 7);
  return k->cases[k->num++] = c;
}

static int run_part(kernel_run *k, const kernel_case *c, int64_t start, void **buffers) {
  const msc_launch *l = &c->call.launch[0];
  int64_t dims[MSC_NEST_DIMS];
  int32_t flag = 0;
  void *all[8];
  memcpy(dims, l->dims, sizeof *dims * l->num_dims);
  dims[l->start[0].index] = start;
  for (size_t i = 0; i < l->num_buffers; i++)
    all[i] = l->buffer[i] == (uint32_t)c->op->num_in + c->op->num_out ? &flag : buffers[l->buffer[i]];
  if (k->gpu) launch_on_gpu(k, l, all, dims, 0);
  else kernels_code(k, l)(all, 0, (int64_t)l->extent, dims, l->scalars);
  return flag;
}

/* This rank has elements 3..5 of 9. */
static void test_parts(void **state) {
  kernel_run *k = kernels_new(NULL);
  (void)state;
  kernel_case *gather = add_part(k, "gather", "3x2xf32 4xi32", "axis=0", 9),
              *scatter = add_part(k, "scatter_add", "4xi32 4x2xf32", "rows=3", 9);
  kernel_case *sums = on_gpu() ? NULL : add_part(k, "segment_sum", "4xi32 4xi32 4x2xf32", "rows=3 blocks=2", 9);
  kernel_case *hot = add_part(k, "one_hot", "4xi32", "depth=3", 0), *count = add_part(k, "iota", "", "type=3xi32", 0);
  kernels_finish(k);
  _Alignas(16) float table[] = {1, 2, 3, 4, 5, 6}, updates[] = {1, 2, 3, 4, 5, 6, 7, 8}, y[12];
  _Alignas(16) int32_t index[] = {4, 0, 8, 4}, numbers[3];
  assert_int_equal(run_part(k, gather, 3, (void *[]){table, index, y}), 0);
  assert_memory_equal(y, ((float[]){3, 4, 0, 0, 0, 0, 3, 4}), 8 * sizeof *y);
  assert_int_equal(run_part(k, scatter, 3, (void *[]){index, updates, y}), 0);
  assert_memory_equal(y, ((float[]){0, 0, 8, 10, 0, 0}), 6 * sizeof *y);
  _Alignas(16) int32_t sorted[] = {0, 4, 4, 8}, order[] = {1, 0, 3, 2};
  if (sums) {
    assert_int_equal(run_part(k, sums, 3, (void *[]){sorted, order, updates, y}), 0);
    assert_memory_equal(y, ((float[]){0, 0, 8, 10, 0, 0}), 6 * sizeof *y);
    sorted[3] = 9;
    assert_int_equal(run_part(k, sums, 3, (void *[]){sorted, order, updates, y}), MSC_FAULT_INDEX);
  }
  assert_int_equal(run_part(k, hot, 3, (void *[]){index, y}), 0);
  assert_memory_equal(y, ((float[]){0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0}), 12 * sizeof *y);
  assert_int_equal(run_part(k, count, 3, (void *[]){numbers}), 0);
  assert_memory_equal(numbers, ((int32_t[]){3, 4, 5}), sizeof numbers);
  index[1] = 9; /* outside of the whole */
  assert_int_equal(run_part(k, gather, 3, (void *[]){table, index, y}), MSC_FAULT_INDEX);
  assert_int_equal(run_part(k, scatter, 3, (void *[]){index, updates, y}), MSC_FAULT_INDEX);
  kernels_free(k);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_moves),   cmocka_unit_test(test_many_parts), cmocka_unit_test(test_sources),
      cmocka_unit_test(test_indexed), cmocka_unit_test(test_unordered),  cmocka_unit_test(test_indexed_elements),
      cmocka_unit_test(test_ordered), cmocka_unit_test(test_cumulated),  cmocka_unit_test(test_bad_index_is_told),
      cmocka_unit_test(test_parts),   cmocka_unit_test(test_segments)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
