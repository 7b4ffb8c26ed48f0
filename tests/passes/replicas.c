/* replicas.c: checks the gradient that data_parallel makes of the whole batch against the sum (or mean) of what
 * replicas compute on their parts. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "ir/interp/interp.h"
#include "passes/config/config.h"
#include "passes/pass.h"
#include <cmocka.h>

enum { REPLICAS = 2, BATCH = 8, FEATURES = 3 };

/* Each is a function of a batch of %1$d samples with a loss of its own kind. %2$d: they have so many numbers. */
static const char *const losses[] = {
    "    %%l = \"msc.reduce_mean\"(%%h) {dims = [0, 1]} : (tensor<%1$dx3xf32>) -> tensor<f32>\n",
    "    %%l = \"msc.reduce_sum\"(%%h) {dims = [0, 1]} : (tensor<%1$dx3xf32>) -> tensor<f32>\n",
    "    %%l = \"msc.softmax_cross_entropy\"(%%h, %%y) : (tensor<%1$dx3xf32>, tensor<%1$dxi32>) -> tensor<f32>\n",
    "    %%l = \"msc.softmax_cross_entropy\"(%%h, %%y) {reduction = \"sum\"} : (tensor<%1$dx3xf32>, tensor<%1$dxi32>) "
        "-> tensor<f32>\n",
    /* a mean and what every replica has alike */
    "    %%s = \"msc.mul\"(%%w, %%w) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>\n"
    "    %%r = \"msc.reduce_sum\"(%%s) {dims = [0]} : (tensor<3xf32>) -> tensor<f32>\n"
    "    %%m = \"msc.reduce_mean\"(%%h) {dims = [1, 0]} : (tensor<%1$dx3xf32>) -> tensor<f32>\n"
    "    %%l = \"msc.add\"(%%m, %%r) : (tensor<f32>, tensor<f32>) -> tensor<f32>\n",
    /* the batch contracted by a matrix product */
    "    %%o = \"msc.constant\"() {value = dense<1.0> : tensor<%1$dx1xf32>} : () -> tensor<%1$dx1xf32>\n"
    "    %%p = \"msc.matmul\"(%%h, %%o) {transpose_a = true} : (tensor<%1$dx3xf32>, tensor<%1$dx1xf32>) -> "
        "tensor<3x1xf32>\n"
    "    %%l = \"msc.reduce_sum\"(%%p) {dims = [0, 1]} : (tensor<3x1xf32>) -> tensor<f32>\n",
    /* statistics written by hand: (h - mean) / sqrt(variance + e), then a product */
    "    %%m = \"msc.reduce_mean\"(%%h) {dims = [0], keep_dims = true} : (tensor<%1$dx3xf32>) -> tensor<1x3xf32>\n"
    "    %%d = \"msc.sub\"(%%h, %%m) : (tensor<%1$dx3xf32>, tensor<1x3xf32>) -> tensor<%1$dx3xf32>\n"
    "    %%q = \"msc.mul\"(%%d, %%d) : (tensor<%1$dx3xf32>, tensor<%1$dx3xf32>) -> tensor<%1$dx3xf32>\n"
    "    %%v = \"msc.reduce_mean\"(%%q) {dims = [0]} : (tensor<%1$dx3xf32>) -> tensor<3xf32>\n"
    "    %%e = \"msc.constant\"() {value = dense<0.01> : tensor<3xf32>} : () -> tensor<3xf32>\n"
    "    %%a = \"msc.add\"(%%v, %%e) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>\n"
    "    %%i = \"msc.rsqrt\"(%%a) : (tensor<3xf32>) -> tensor<3xf32>\n"
    "    %%n = \"msc.mul\"(%%d, %%i) : (tensor<%1$dx3xf32>, tensor<3xf32>) -> tensor<%1$dx3xf32>\n"
    "    %%c = \"msc.softmax\"(%%n) {axis = 1 : i64} : (tensor<%1$dx3xf32>) -> tensor<%1$dx3xf32>\n"
    "    %%o = \"msc.mul\"(%%c, %%h) : (tensor<%1$dx3xf32>, tensor<%1$dx3xf32>) -> tensor<%1$dx3xf32>\n"
    "    %%l = \"msc.reduce_mean\"(%%o) {dims = [0, 1]} : (tensor<%1$dx3xf32>) -> tensor<f32>\n",
    /* a sum divided by the number of samples, beside a mean */
    "    %%n = \"msc.constant\"() {value = dense<%1$d.0> : tensor<f32>} : () -> tensor<f32>\n"
    "    %%s = \"msc.reduce_sum\"(%%h) {dims = [0, 1]} : (tensor<%1$dx3xf32>) -> tensor<f32>\n"
    "    %%d = \"msc.div\"(%%s, %%n) : (tensor<f32>, tensor<f32>) -> tensor<f32>\n"
    "    %%m = \"msc.reduce_mean\"(%%h) {dims = [0, 1]} : (tensor<%1$dx3xf32>) -> tensor<f32>\n"
    "    %%l = \"msc.sub\"(%%m, %%d) : (tensor<f32>, tensor<f32>) -> tensor<f32>\n",
    /* the root of such a mean */
    "    %%n = \"msc.constant\"() {value = dense<%1$d.0> : tensor<f32>} : () -> tensor<f32>\n"
    "    %%q = \"msc.mul\"(%%h, %%h) : (tensor<%1$dx3xf32>, tensor<%1$dx3xf32>) -> tensor<%1$dx3xf32>\n"
    "    %%s = \"msc.reduce_sum\"(%%q) {dims = [0, 1]} : (tensor<%1$dx3xf32>) -> tensor<f32>\n"
    "    %%d = \"msc.div\"(%%s, %%n) : (tensor<f32>, tensor<f32>) -> tensor<f32>\n"
    "    %%l = \"msc.sqrt\"(%%d) : (tensor<f32>) -> tensor<f32>\n",
    /* the batch behind another dimension, both as one: the largest of all, and a product of the rest */
    "    %%tt = \"msc.transpose\"(%%h) {perm = [1, 0]} : (tensor<%1$dx3xf32>) -> tensor<3x%1$dxf32>\n"
    "    %%d = \"msc.broadcast_to\"(%%tt) {shape = [2, 3, %1$d]} : (tensor<3x%1$dxf32>) -> tensor<2x3x%1$dxf32>\n"
    "    %%e = \"msc.transpose\"(%%d) {perm = [1, 2, 0]} : (tensor<2x3x%1$dxf32>) -> tensor<3x%1$dx2xf32>\n"
    "    %%f = \"msc.reshape\"(%%e) {shape = [%2$d, 2]} : (tensor<3x%1$dx2xf32>) -> tensor<%2$dx2xf32>\n"
    "    %%m = \"msc.reduce_max\"(%%f) {dims = [0]} : (tensor<%2$dx2xf32>) -> tensor<2xf32>\n"
    "    %%q = \"msc.mul\"(%%f, %%m) : (tensor<%2$dx2xf32>, tensor<2xf32>) -> tensor<%2$dx2xf32>\n"
    "    %%l = \"msc.reduce_mean\"(%%q) {dims = [0, 1]} : (tensor<%2$dx2xf32>) -> tensor<f32>\n",
    /* a sum over a count that the labels decide */
    "    %%k = \"msc.constant\"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>\n"
    "    %%b = \"msc.compare\"(%%y, %%k) {predicate = \"le\"} : (tensor<%1$dxi32>, tensor<i32>) -> tensor<%1$dxi1>\n"
    "    %%c = \"msc.cast\"(%%b) {dtype = \"f32\"} : (tensor<%1$dxi1>) -> tensor<%1$dxf32>\n"
    "    %%r = \"msc.softmax_cross_entropy\"(%%h, %%y) {reduction = \"none\"} : (tensor<%1$dx3xf32>, tensor<%1$dxi32>) "
        "-> "
    "tensor<%1$dxf32>\n"
    "    %%p = \"msc.mul\"(%%r, %%c) : (tensor<%1$dxf32>, tensor<%1$dxf32>) -> tensor<%1$dxf32>\n"
    "    %%s = \"msc.reduce_sum\"(%%p) {dims = [0]} : (tensor<%1$dxf32>) -> tensor<f32>\n"
    "    %%n = \"msc.reduce_sum\"(%%c) {dims = [0]} : (tensor<%1$dxf32>) -> tensor<f32>\n"
    "    %%l = \"msc.div\"(%%s, %%n) : (tensor<f32>, tensor<f32>) -> tensor<f32>\n",
    /* a softmax over the batch, and the largest of it */
    "    %%s = \"msc.softmax\"(%%h) {axis = 0 : i64} : (tensor<%1$dx3xf32>) -> tensor<%1$dx3xf32>\n"
    "    %%m = \"msc.reduce_max\"(%%h) {dims = [0]} : (tensor<%1$dx3xf32>) -> tensor<3xf32>\n"
    "    %%d = \"msc.sub\"(%%s, %%m) : (tensor<%1$dx3xf32>, tensor<3xf32>) -> tensor<%1$dx3xf32>\n"
    "    %%q = \"msc.mul\"(%%d, %%h) : (tensor<%1$dx3xf32>, tensor<%1$dx3xf32>) -> tensor<%1$dx3xf32>\n"
    "    %%l = \"msc.reduce_sum\"(%%q) {dims = [0, 1]} : (tensor<%1$dx3xf32>) -> tensor<f32>\n",
    /* what samples have in common, [3,3], and what is made of it */
    "    %%g = \"msc.matmul\"(%%h, %%h) {transpose_a = true} : (tensor<%1$dx3xf32>, tensor<%1$dx3xf32>) -> "
        "tensor<3x3xf32>\n"
    "    %%e = \"msc.exp\"(%%g) : (tensor<3x3xf32>) -> tensor<3x3xf32>\n"
    "    %%tt = \"msc.transpose\"(%%e) {perm = [1, 0]} : (tensor<3x3xf32>) -> tensor<3x3xf32>\n"
    "    %%z = \"msc.concat\"(%%tt, %%g) {dim = 0 : i64} : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<6x3xf32>\n"
    "    %%u = \"msc.slice\"(%%z) {limit = [5, 3], start = [1, 0]} : (tensor<6x3xf32>) -> tensor<4x3xf32>\n"
    "    %%p = \"msc.matmul\"(%%h, %%u) {transpose_b = true} : (tensor<%1$dx3xf32>, tensor<4x3xf32>) -> "
        "tensor<%1$dx4xf32>\n"
    "    %%s = \"msc.layer_norm\"(%%u) : (tensor<4x3xf32>) -> tensor<4x3xf32>\n"
    "    %%w1 = \"msc.reduce_sum\"(%%s) {dims = [1]} : (tensor<4x3xf32>) -> tensor<4xf32>\n"
    "    %%a = \"msc.add\"(%%p, %%w1) : (tensor<%1$dx4xf32>, tensor<4xf32>) -> tensor<%1$dx4xf32>\n"
    "    %%b = \"msc.tanh\"(%%a) : (tensor<%1$dx4xf32>) -> tensor<%1$dx4xf32>\n"
    "    %%l = \"msc.softmax_cross_entropy\"(%%b, %%y) : (tensor<%1$dx4xf32>, tensor<%1$dxi32>) -> tensor<f32>\n",
    /* samples in order, beside the batch as dimension 1, and a mask with a batch dimension that is alike for all */
    "    %%s:2 = \"msc.sort\"(%%h) {axis = 0 : i64} : (tensor<%1$dx3xf32>) -> (tensor<%1$dx3xf32>, "
        "tensor<%1$dx3xi32>)\n"
    "    %%tt = \"msc.transpose\"(%%s#0) {perm = [1, 0]} : (tensor<%1$dx3xf32>) -> tensor<3x%1$dxf32>\n"
    "    %%c = \"msc.constant\"() {value = dense<[0.5, 1.5, -1.0]> : tensor<3xf32>} : () -> tensor<3xf32>\n"
    "    %%m = \"msc.broadcast_to\"(%%c) {shape = [%1$d, 3]} : (tensor<3xf32>) -> tensor<%1$dx3xf32>\n"
    "    %%n = \"msc.tanh\"(%%m) : (tensor<%1$dx3xf32>) -> tensor<%1$dx3xf32>\n"
    "    %%q = \"msc.mul\"(%%h, %%n) : (tensor<%1$dx3xf32>, tensor<%1$dx3xf32>) -> tensor<%1$dx3xf32>\n"
    "    %%v = \"msc.reduce_mean\"(%%tt) {dims = [1]} : (tensor<3x%1$dxf32>) -> tensor<3xf32>\n"
    "    %%f = \"msc.exp\"(%%v) : (tensor<3xf32>) -> tensor<3xf32>\n"
    "    %%o = \"msc.mul\"(%%q, %%f) : (tensor<%1$dx3xf32>, tensor<3xf32>) -> tensor<%1$dx3xf32>\n"
    "    %%x1 = \"msc.softmax\"(%%tt) {axis = 1 : i64} : (tensor<3x%1$dxf32>) -> tensor<3x%1$dxf32>\n"
    "    %%x2 = \"msc.mul\"(%%x1, %%tt) : (tensor<3x%1$dxf32>, tensor<3x%1$dxf32>) -> tensor<3x%1$dxf32>\n"
    "    %%l1 = \"msc.reduce_sum\"(%%x2) {dims = [0, 1]} : (tensor<3x%1$dxf32>) -> tensor<f32>\n"
    "    %%l2 = \"msc.reduce_mean\"(%%o) {dims = [0, 1]} : (tensor<%1$dx3xf32>) -> tensor<f32>\n"
    "    %%l = \"msc.add\"(%%l1, %%l2) : (tensor<f32>, tensor<f32>) -> tensor<f32>\n",
};

static msc_func *gradient_of(msc_context *ctx, const char *loss, int batch, const msc_config *config) {
  char body[4096], text[8192];
  snprintf(body, sizeof body, loss, batch, batch * FEATURES);
  snprintf(
      text, sizeof text,
      "module {\n  \"msc.func\"() ({\n  ^bb0(%%x: tensor<%1$dx3xf32>, %%y: tensor<%1$dxi32>, %%w: tensor<3xf32>):\n"
      "    %%t = \"msc.mul\"(%%x, %%w) : (tensor<%1$dx3xf32>, tensor<3xf32>) -> tensor<%1$dx3xf32>\n"
      "    %%h = \"msc.tanh\"(%%t) : (tensor<%1$dx3xf32>) -> tensor<%1$dx3xf32>\n%2$s"
      "    \"msc.return\"(%%l) : (tensor<f32>) -> ()\n"
      "  }) {sym_name = \"forward\", loss = 0 : i64, optimizer = {kind = \"sgd\", lr = 0.1 : f32}, arg_attrs = "
      "[{msc.name = \"x\", msc.role = \"data\"},"
      " {msc.name = \"y\", msc.role = \"label\"}, {msc.name = \"w\", msc.role = \"parameter\"}]} : () -> ()\n}\n",
      batch, body);
  msc_module *m = msc_parse(ctx, "test", text, strlen(text));
  msc_pass_options options = {
      .passes = "cross_batch,replica_objective,autodiff", .config = config, .verify = MSC_VERIFY_TEXT};
  if (!m || !msc_run_passes(ctx, m, &options)) fail_msg("%s", msc_diags(ctx)->text);
  return m->first;
}

/* Loss and gradient of samples [first, first + batch). */
static void run(msc_context *ctx, msc_func *f, int first, int batch, double *out_loss, double *out_grad) {
  msc_arena *arena = msc_context_arena(ctx);
  msc_tensor args[3], results[2];
  for (size_t i = 0; i < 3; i++) args[i] = msc_tensor_new(arena, f->body->args[i]->type);
  for (int s = 0; s < batch; s++) {
    for (int k = 0; k < FEATURES; k++) msc_tensor_set(&args[0], s * FEATURES + k, sin(1.7 * (first + s) + k));
    msc_tensor_set(&args[1], s, (first + s) % FEATURES);
  }
  for (int k = 0; k < FEATURES; k++) msc_tensor_set(&args[2], k, 0.3 * k - 0.4);
  assert_true(msc_interpret(f, arena, args, results));
  *out_loss = msc_tensor_get(&results[0], 0);
  for (int k = 0; k < FEATURES; k++) out_grad[k] = msc_tensor_get(&results[1], k);
}

static void check(const char *loss, bool mean) {
  msc_context *ctx = msc_context_new(NULL, NULL);
  msc_config *config = msc_config_new(ctx);
  assert_true(msc_config_set(config, "device_num=2") && msc_config_set(config, "parallel_mode=data_parallel"));
  assert_true(msc_config_set(config, mean ? "gradients_mean=true" : "gradients_mean=false"));
  msc_func *whole = gradient_of(ctx, loss, BATCH, config), *part = gradient_of(ctx, loss, BATCH / REPLICAS, NULL);
  double shown, grad[FEATURES], loss_sum = 0, grad_sum[FEATURES] = {0};
  run(ctx, whole, 0, BATCH, &shown, grad);
  for (int r = 0; r < REPLICAS; r++) {
    double l, g[FEATURES];
    run(ctx, part, r * BATCH / REPLICAS, BATCH / REPLICAS, &l, g);
    loss_sum += l;
    for (int k = 0; k < FEATURES; k++) grad_sum[k] += mean ? g[k] / REPLICAS : g[k];
  }
  if (fabs(shown - loss_sum / REPLICAS) > 1e-5)
    fail_msg("loss %g, the replicas' mean is %g: %s", shown, loss_sum / REPLICAS, loss);
  for (int k = 0; k < FEATURES; k++)
    if (fabs(grad[k] - grad_sum[k]) > 1e-5)
      fail_msg("gradient %g, the replicas' is %g: %s", grad[k], grad_sum[k], loss);
  msc_context_free(ctx);
}

static void sums_of_replicas(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof losses / sizeof *losses; i++) check(losses[i], false);
}

static void means_of_replicas(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof losses / sizeof *losses; i++) check(losses[i], true);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(sums_of_replicas), cmocka_unit_test(means_of_replicas)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
