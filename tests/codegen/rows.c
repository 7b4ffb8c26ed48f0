/* rows.c: compares kernels of reductions, softmax, losses, optimizers and matrix products with the interpreter. */
#include "tests/codegen/kernels.h"

static const char *const floats[] = {"f32", "f64", "f16", "bf16"};
#define COUNT(a) (sizeof(a) / sizeof *(a))

static const char *typed(kernel_run *k, const char *shapes, const char *dtype) {
  char *out = msc_arena_alloc(msc_context_arena(k->ctx), 200), *p = out;
  for (; *shapes; shapes++) p += *shapes == '$' ? sprintf(p, "%s", dtype) : sprintf(p, "%c", *shapes);
  return out;
}

static void add(kernel_run *k, const char *op, const char *in, const char *attrs, double low, double high) {
  kernels_add_op(k, op, in, attrs, 1, low, high)->reordered = true;
}

static void check(kernel_run *k) {
  kernels_finish(k);
  kernels_check(k);
  kernels_free(k);
}

static void test_reduce(void **state) {
  static const char *const ops[] = {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min"};
  static const char *const shapes[][2] = {
      {"17x$", "dims=0"}, {"1x$", "dims=0"}, {"0x$", "dims=0"}, {"7x10x$", "dims=1"}, {"7x10x$", "dims=0"}, {"7x10x$",
       "dims=0,1"}, {"7x10x$", "dims=1,0 keep_dims=true"},
      {"5x1000x$", "dims=1"}, {"300x40x$", "dims=0"}, {"3x5x33x$", "dims=1"}, {"3x5x33x$", "dims=0,2"}, {"3x5x33x$",
       "dims=0,1 keep_dims=true"}, {"2x3x4x5x$", "dims=1,3"},
      {"4x0x$", "dims=1"}, {"4x0x$", "dims=0"}, {"3x1x$", "dims=1"}, {"70x2x$", "dims=0"}, {"6x$", "dims="}, {"40x70x$",
       "dims=0,1"},
  };
  kernel_run *k = kernels_new(NULL);
  (void)state;
  for (size_t s = 0; s < COUNT(shapes); s++) {
    add(k, "reduce_prod", typed(k, shapes[s][0], floats[s % COUNT(floats)]), shapes[s][1], 0.99, 1.01);
    add(k, "reduce_prod", typed(k, shapes[s][0], "i32"), shapes[s][1], -2, 4);
    for (size_t i = 0; i < COUNT(ops); i++) {
      for (size_t t = 0; t < COUNT(floats) && (t == 0 || s % 4 == i); t++)
        add(k, ops[i], typed(k, shapes[s][0], floats[t]), shapes[s][1], -3, 5);
      if (i == 1 || s % 3) continue;
      add(k, ops[i], typed(k, shapes[s][0], "i32"), shapes[s][1], -9, 9);
      add(k, ops[i], typed(k, shapes[s][0], "ui8"), shapes[s][1], 0, 9);
      if (i > 1) add(k, ops[i], typed(k, shapes[s][0], "i1"), shapes[s][1], 0, 9);
    }
  }
  check(k);
}

/* Long ones with few items run in two launches. */
static void test_long_reduce(void **state) {
  kernel_run *k = kernels_new(NULL);
  (void)state;
  add(k, "reduce_sum", "100003xf32", "dims=0", 0, 1);
  add(k, "reduce_mean", "3x40001xf64", "dims=0,1", 0, 1);
  add(k, "reduce_max", "2x50000xi32", "dims=1", -1e6, 1e6);
  add(k, "reduce_sum", "5000x20xf32", "dims=0", 0, 1);
  add(k, "reduce_sum", "5000x37xbf16", "dims=0", 0, 1);
  for (size_t i = 0; i < k->num; i++) assert_int_equal(k->cases[i]->call.num_launches, 2);
  check(k);
}

static void test_softmax(void **state) {
  static const char *const shapes[][2] = {{"7x10x$", ""}, {"3x100x$", ""}, {"5x17x$", "axis=0"}, {"2x5x40x$", "axis=1"},
                                          {"1x$", ""},    {"9x1x$", ""},   {"0x9x$", ""},        {"3x8x$", ""}};
  kernel_run *k = kernels_new(NULL);
  (void)state;
  for (size_t s = 0; s < COUNT(shapes); s++)
    for (size_t t = 0; t < COUNT(floats) && (t == 0 || s < 2); t++) {
      add(k, "softmax", typed(k, shapes[s][0], floats[t]), shapes[s][1], -8, 8);
      add(k, "log_softmax", typed(k, shapes[s][0], floats[t]), shapes[s][1], -8, 8);
    }
  check(k);
}

static void prepare_labels(kernel_run *k, kernel_case *c) {
  const msc_type *logits = c->in[0].type;
  if (msc_is_float(c->in[1].type->dtype)) fill(k, &c->in[1], 0, 1);
  for (int64_t i = 0; i < msc_type_elems(c->in[1].type) && !msc_is_float(c->in[1].type->dtype); i++)
    msc_tensor_set(&c->in[1], i, floor(random_number(k) * (double)logits->dim[logits->rank - 1]));
}

static kernel_case *add_loss(kernel_run *k, const char *op, const char *in, const char *attrs) {
  msc_module *m = msc_module_new(k->ctx);
  msc_op *o = one_op(m, op, in, attrs, 1);
  if (!o) print_diags(k->ctx);
  assert_non_null(o);
  kernel_case *c = kernels_add_with(k, msc_arena_printf(msc_context_arena(k->ctx), "%s %s %s", op, in, attrs), m->first,
                                    false, -5, 5, prepare_labels);
  c->reordered = true;
  return c;
}

static void test_cross_entropy(void **state) {
  static const char *const how[] = {"reduction=mean", "reduction=sum", "reduction=none"};
  kernel_run *k = kernels_new(NULL);
  (void)state;
  for (size_t t = 0; t < COUNT(floats); t++)
    for (size_t h = 0; h < COUNT(how) && (t == 0 || h == 0); h++) {
      const char *grad_of = h == 2 ? "7x$" : "$";
      add_loss(k, "softmax_cross_entropy", typed(k, "7x10x$ 7xi32", floats[t]), how[h]);
      add_loss(k, "softmax_cross_entropy", typed(k, "7x10x$ 7xi64", floats[t]), how[h]);
      add_loss(k, "softmax_cross_entropy", typed(k, "7x100x$ 7x100x$", floats[t]), how[h]);
      add_loss(k, "softmax_cross_entropy", typed(k, "10x$ i32", floats[t]), how[h]);
      add_loss(k, "softmax_cross_entropy", typed(k, "2x3x5x$ 2x3xi32", floats[t]), how[h]);
      add_loss(k, "softmax_cross_entropy_grad",
               typed(k, msc_arena_printf(msc_context_arena(k->ctx), "7x10x$ 7xi32 %s", grad_of), floats[t]), how[h]);
      add_loss(k, "softmax_cross_entropy_grad",
               typed(k, msc_arena_printf(msc_context_arena(k->ctx), "7x99x$ 7x99x$ %s", grad_of), floats[t]), how[h]);
    }
  add_loss(k, "softmax_cross_entropy", "9x3xf32 9xi32", "reduction=sum ignore_index=1");
  add_loss(k, "softmax_cross_entropy", "2x5x30xf64 2x5xi64", "reduction=none ignore_index=0");
  add_loss(k, "softmax_cross_entropy_grad", "9x3xf32 9xi64 f32", "reduction=sum ignore_index=2");
  add_loss(k, "softmax_cross_entropy_grad", "9x3xbf16 9xi32 9xbf16", "reduction=none ignore_index=0");
  assert_int_equal(add_loss(k, "softmax_cross_entropy", "600x100xf32 600xi32", "reduction=mean")->call.num_launches, 2);
  kernels_add_op(k, "softmax_cross_entropy", "7x3xf32 7xi32", "", 1, 3, 9)->faults = MSC_FAULT_INDEX;
  check(k);
}

/* The rows of a long loss are added up by several blocks of a GPU, then their sums by one. */
static void test_many_rows(void **state) {
  kernel_run *k = kernels_new(NULL);
  (void)state;
  kernel_case *c = add_loss(k, "softmax_cross_entropy", "131100x2xf32 131100xi32", "reduction=mean");
  assert_int_equal(c->call.num_launches, on_gpu() ? 3 : 2);
  check(k);
}

/* Rows that a GPU reads once for their maximum and the sum of exponentials relative to it. */
static void test_long_rows(void **state) {
  kernel_run *k = kernels_new(NULL);
  (void)state;
  add(k, "softmax", "3x20000xf32", "", -80, 80);
  add(k, "log_softmax", "2x20001xf32", "", -8, 8);
  add_loss(k, "softmax_cross_entropy", "3x20000xf32 3xi32", "reduction=mean");
  add_loss(k, "softmax_cross_entropy", "3x20008xbf16 3xi32", "reduction=sum");
  add_loss(k, "softmax_cross_entropy_grad", "3x20008xbf16 3xi32 bf16", "reduction=mean");
  for (size_t i = 0; i < k->num; i++) k->cases[i]->reordered = true;
  check(k);
}

static void test_updates(void **state) {
  static const char *const shapes[] = {"17x$", "3x40x$", "$"};
  kernel_run *k = kernels_new(NULL);
  (void)state;
  for (size_t s = 0; s < COUNT(shapes); s++)
    for (size_t t = 0; t < COUNT(floats); t++) {
      msc_arena *a = msc_context_arena(k->ctx);
      const char *w = typed(k, shapes[s], floats[t]);
      const char *two = msc_arena_printf(a, "%s %s", w, w), *three = msc_arena_printf(a, "%s %s", two, w),
                 *moments = msc_arena_printf(a, "%s %s f32", three, w);
      add(k, "sgd", two, "lr=0.1", 0, 3);
      add(k, "sgd", two, "lr=0.1 weight_decay=0.01", 0, 3);
      add(k, "momentum", three, "lr=0.1 momentum=0.9", 0, 3);
      add(k, "momentum", three, "lr=0.1 momentum=0.9 dampening=0.2 nesterov=true weight_decay=0.1", 0, 3);
      add(k, "adam", moments, "lr=0.1", 0.5, 3);
      add(k, "adam", moments, "lr=0.1 weight_decay=0.1", 0.5, 3);
      add(k, "adamw", moments, "lr=0.1", 0.5, 3);
      add(k, "lamb_moments", moments, "", 0.5, 3);
      add(k, "lamb_apply", typed(k, msc_arena_printf(a, "%s $", two), floats[t]), "lr=0.1", 0.5, 3);
    }
  check(k);
}

static void test_matmul(void **state) {
  static const char *const types[] = {"f32", "f64", "bf16", "i8", "i64"};
  kernel_run *k = kernels_new(NULL);
  (void)state;
  for (size_t t = 0; t < COUNT(types); t++) {
    add(k, "matmul", typed(k, "5x7x$ 7x40x$", types[t]), "", -3, 3);
    add(k, "matmul", typed(k, "5x7x$ 40x7x$", types[t]), "transpose_b=true", -3, 3);
    add(k, "matmul", typed(k, "7x5x$ 7x40x$", types[t]), "transpose_a=true", -3, 3);
    add(k, "matmul", typed(k, "7x5x$ 40x7x$", types[t]), "transpose_a=true transpose_b=true", -3, 3);
    add(k, "matmul", typed(k, "1x7x$ 7x1x$", types[t]), "", -3, 3);
    add(k, "matmul", typed(k, "3x0x$ 0x5x$", types[t]), "", -3, 3);
    add(k, "matmul", typed(k, "33x100x$ 100x65x$", types[t]), "", -3, 3);
    add(k, "batch_matmul", typed(k, "3x5x7x$ 3x7x9x$", types[t]), "", -3, 3);
    add(k, "batch_matmul", typed(k, "2x3x5x7x$ 3x9x7x$", types[t]), "transpose_b=true", -3, 3);
    add(k, "batch_matmul", typed(k, "2x1x5x7x$ 3x7x9x$", types[t]), "", -3, 3);
  }
  check(k);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_reduce),        cmocka_unit_test(test_long_reduce), cmocka_unit_test(test_softmax),
      cmocka_unit_test(test_cross_entropy), cmocka_unit_test(test_many_rows),   cmocka_unit_test(test_long_rows),
      cmocka_unit_test(test_updates),       cmocka_unit_test(test_matmul),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
