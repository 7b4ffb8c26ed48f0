/* execute.c: executes plans made by hand: matrix products in all forms, kernels, collectives, data, weights, on one
 * rank and several. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/runtime/job.h"
#include "tests/runtime/make_plan.h"

static void expect_ok(mscrt_status *s) {
  if (s) fail_msg("%s\n%s", mscrt_status_text(s), mscrt_status_trail(s));
}

static void expect_text(mscrt_status *s, mscrt_code code, const char *part) {
  if (!s || mscrt_status_code(s) != code || !strstr(mscrt_status_text(s), part))
    fail_msg("got '%s' (%d), expected '%s'", mscrt_status_text(s), mscrt_status_code(s), part);
  mscrt_status_free(s);
}

static mscrt_status *open_text(const plan_text *t, mscrt_plan **out_plan) {
  size_t size;
  uint8_t *bytes = make_plan(t, &size);
  mscrt_status *s = mscrt_plan_open(bytes, size, &(mscrt_plan_options){sizeof(mscrt_plan_options), true}, out_plan);
  free(bytes);
  return s;
}

static mscrt_status *open_rank(const mscrt_plan *plan, const place *p, int threads, mscrt_context **out_ctx) {
  mscrt_options o = {.struct_size = sizeof o, .threads = threads, .seed = 7, .timeout_ms = 20000};
  if (p) o.rank = p->rank, o.ranks = p->ranks, o.address = p->address;
  return mscrt_open(plan, &o, out_ctx);
}

static float *local(mscrt_context *c, const char *name) {
  mscrt_tensor t;
  expect_ok(mscrt_local(c, name, &t));
  return t.data;
}

/* ---- kernels ---- */

/* b1 += scalar * b0 */
static KERNEL void k_axpy(void *const *b, int64_t begin, int64_t end, const int64_t *dims, const double *scalars) {
  const float *x = b[0];
  float *y = b[1], s = (float)scalars[0];
  (void)dims;
  for (int64_t i = begin; i < end; i++) y[i] += s * x[i];
}

/* b2 = b0 - b1 */
static KERNEL void k_sub(void *const *b, int64_t begin, int64_t end, const int64_t *dims, const double *scalars) {
  const float *x = b[0], *y = b[1];
  float *z = b[2];
  (void)dims, (void)scalars;
  for (int64_t i = begin; i < end; i++) z[i] = x[i] - y[i];
}

/* b1[0] = scalar * sum of squares of b0[0 .. dims[0]) */
static KERNEL void k_sumsq(void *const *b, int64_t begin, int64_t end, const int64_t *dims, const double *scalars) {
  const float *x = b[0];
  float sum = *(float *)b[1];
  sum -= sum;
  (void)begin, (void)end;
  for (int64_t i = 0; i < dims[0]; i++) sum += x[i] * x[i];
  *(float *)b[1] = sum * (float)scalars[0];
}

/* b1[0] = 1 when an element of b0 is dims[0] or more */
static KERNEL void k_check(void *const *b, int64_t begin, int64_t end, const int64_t *dims, const double *scalars) {
  const int32_t *x = b[0];
  (void)scalars;
  for (int64_t i = begin; i < end; i++)
    if (x[i] >= dims[0]) *(int32_t *)b[1] = 1;
}

/* b0[i] = dims[0] + i, as numbers of elements */
static KERNEL void k_iota(void *const *b, int64_t begin, int64_t end, const int64_t *dims, const double *scalars) {
  (void)scalars;
  for (int64_t i = begin; i < end; i++) ((float *)b[0])[i] = (float)(dims[0] + i);
}

/* b1[i] = b0[i] */
static KERNEL void k_copy(void *const *b, int64_t begin, int64_t end, const int64_t *dims, const double *scalars) {
  (void)dims, (void)scalars;
  for (int64_t i = begin; i < end; i++) ((float *)b[1])[i] = ((float *)b[0])[i];
}

/* ---- matrix products ---- */

typedef struct {
  int64_t batch, m, n, k, tile_m, tile_n;
  bool ta, tb, bias, relu, shared_b;
  int epilogue; /* 1: on c itself, 2: c exists in tiles only */
} product_case;

static const product_case products[] = {
  {1, 5, 7, 3, 5, 7, false, false, false, false, false, 0}, {1, 33, 20, 17, 8, 20, false, false, true, false, false, 0},
  {1, 33, 20, 17, 8, 6, true, false, true, true, false, 0}, {1, 16, 24, 31, 5, 24, false, true, false, true, false, 0},
  {1, 16, 24, 31, 16, 7, true, true, false, false, false, 0}, {3, 9, 8, 7, 4, 8, false, false, false, false, false, 0},
  {3, 9, 8, 7, 4, 5, false, true, true, false, true, 0},    {1, 40, 30, 20, 7, 30, false, false, false, false, false,
   1},
  {1, 40, 30, 20, 7, 30, true, false, false, true, false, 2}, {2, 11, 30, 20, 7, 11, false, true, true, false, false,
   2},
  {1, 300, 200, 100, 64, 200, false, false, true, true, false, 2},
};

static float number(int64_t i) { return (float)((i * 37 + 11) % 19 - 9) / 8; }

static void expect_product(const product_case *p, const float *a, const float *b, const float *bias, const float *old,
                           const float *got) {
  for (int64_t l = 0; l < p->batch; l++)
    for (int64_t i = 0; i < p->m; i++)
      for (int64_t j = 0; j < p->n; j++) {
        double sum = p->bias ? (double)bias[j] : 0;
        const float *al = a + l * p->m * p->k, *bl = b + (p->shared_b ? 0 : l * p->n * p->k);
        for (int64_t k = 0; k < p->k; k++)
          sum += (double)al[p->ta ? k * p->m + i : i * p->k + k] * (double)bl[p->tb ? j * p->k + k : k * p->n + j];
        if (p->relu && sum < 0) sum = 0;
        if (p->epilogue) sum = (double)old[(l * p->m + i) * p->n + j] + 0.5 * sum;
        assert_float_equal(got[(l * p->m + i) * p->n + j], sum, 1e-4);
      }
}

static void run_product(const product_case *p, int threads) {
  uint64_t a = (uint64_t)(p->batch * p->m * p->k) * 4, b = (uint64_t)((p->shared_b ? 1 : p->batch) * p->n * p->k) * 4,
           n = (uint64_t)p->n * 4, c = (uint64_t)(p->batch * p->m * p->n) * 4;
  uint64_t at_b = a, at_bias = at_b + b, at_c = at_bias + n, at_d = at_c + c;
  bool tile = p->epilogue == 2;
  call_text add = {.num_buffers = 2,
                   .buffers = {IN(P, at_c, c), OUT(P, at_d, c)},
                   .num_scalars = 1,
                   .scalars = {0.5},
                   .extent = c / 4};
  if (tile) add.buffers[0] = (plan_ref)IN(T, 0, 4);
  call_text call = {.kind = PLAN_CALL_KIND_MATMUL,
                    .num_buffers = p->bias ? 4 : 3,
                    .buffers = {IN(P, 0, a), IN(P, at_b, b), OUT(P, at_c, c), IN(P, at_bias, n)},
                    .epilogue = p->epilogue ? &add : NULL};
  if (tile) call.buffers[2] = (plan_ref)OUT(T, 0, 4);
  plan_text t = {
    .num_axes = 1, .axes = {1}, .num_layouts = 1, .layouts = {"1:"}, .num_kernels = 1, .kernel = {{"axpy", k_axpy, 2, 0,
        1}},
    .num_matmuls = 1, .matmul = {{.batch = p->batch, .m = p->m, .n = p->n, .k = p->k,
        .stride_a = p->batch > 1 ? p->m * p->k : 0, .stride_b = p->batch > 1 && !p->shared_b ? p->n * p->k : 0,
      .tile_m = p->tile_m, .tile_n = p->tile_n, .tile_bytes = tile ? (uint64_t)(p->tile_m * p->tile_n) * 4 : 0,
          .transpose_a = p->ta, .transpose_b = p->tb, .bias = p->bias, .relu = p->relu}},
    .num_sections = 1, .section = {{"go", 64, 1, &call}}, .persistent = at_d + c, .num_parameters = 5,
    .parameter = {{"a", 0, 1, {a / 4}, 0, IN(P, 0, a), NULL, .loss = false}, {"b", 0, 1, {b / 4}, 0, IN(P, at_b, b),
        NULL, .loss = false},
      {"bias", 0, 1, {n / 4}, 0, IN(P, at_bias, n), NULL, .loss = false}, {"c", 0, 1, {c / 4}, 0, IN(P, at_c, c), NULL,
       .loss = false}, {"d", 0, 1, {c / 4}, 0, IN(P, at_d, c), NULL, .loss = false}}};
  mscrt_plan *plan;
  mscrt_context *ctx;
  expect_ok(open_text(&t, &plan));
  expect_ok(open_rank(plan, NULL, threads, &ctx));
  float *data = local(ctx, "a");
  for (uint64_t i = 0; i < (at_d + c) / 4; i++) data[i] = number((int64_t)i);
  float *old = malloc(c);
  memcpy(old, local(ctx, "d"), c);
  expect_ok(mscrt_run(ctx, "go", 1, NULL));
  expect_product(p, local(ctx, "a"), local(ctx, "b"), local(ctx, "bias"), old, local(ctx, p->epilogue ? "d" : "c"));
  free(old);
  mscrt_close(ctx);
  mscrt_plan_close(plan);
}

static void products_in_all_forms(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof products / sizeof *products; i++)
    for (int threads = 1; threads <= 3; threads += 2) run_product(&products[i], threads);
}

/* ---- operands that are packed for several products ---- */

enum { COLUMNS = 16, TERMS = 8, PANEL = 8 };

/* Packs columns of b0 [TERMS, COLUMNS] into panels b1, and adds their number to the first element of b0. */
static KERNEL void k_pack(void *const *b, int64_t begin, int64_t end, const int64_t *dims, const double *scalars) {
  float *from = b[0], *to = b[1];
  (void)dims, (void)scalars;
  from[0] += (float)(end - begin);
  for (int64_t p = begin; p < end; p++)
    for (int64_t t = 0; t < TERMS; t++)
      for (int64_t w = 0; w < PANEL; w++) to[(p * TERMS + t) * PANEL + w] = from[t * COLUMNS + p * PANEL + w];
}

/* Multiplies rows of b0 by one packed panel b1. */
static KERNEL void k_multiply(void *const *b, int64_t begin, int64_t end, const int64_t *dims, const double *scalars) {
  const float *x = b[0], *panel = b[1];
  float *y = b[2];
  (void)scalars;
  for (int64_t i = begin; i < end; i++)
    for (int64_t j = 0; j < PANEL; j++) {
      float sum = panel[j] - panel[j];
      for (int64_t t = 0; t < TERMS; t++) sum += x[i * dims[2] + t] * panel[t * PANEL + j];
      y[i * dims[3] + j] = sum;
    }
}

/* Of products one behind the other, b is packed by the first, by one whose b another call has written to since, and by
 * those around a product of another b. */
static void neighbours_share_a_packed_operand(void **state) {
  (void)state;
  enum { ROWS = 4, OF_A = 4 * ROWS * TERMS, OF_B = 4 * TERMS * COLUMNS, OF_C = 4 * ROWS * COLUMNS };
  enum { AT_B = OF_A, AT_C = AT_B + 2 * OF_B, ALL = AT_C + 5 * OF_C };
  static const plan_ref a = IN(P, 0, OF_A), b[2] = {IN(P, AT_B, OF_B), IN(P, AT_B + OF_B, OF_B)};
  call_text calls[6];
  for (int i = 0, of = 0; i < 6; i++) {
    if (i == 2) continue;
    calls[i] = (call_text){.kind = PLAN_CALL_KIND_MATMUL,
                           .num_buffers = 3,
                           .buffers = {a, b[i == 4], OUT(P, AT_C + (uint64_t)of++ * OF_C, OF_C)}};
  }
  calls[2] = (call_text){
      .num_buffers = 2, .buffers = {b[1], OUT(P, AT_B, OF_B)}, .num_scalars = 1, .scalars = {1}, .extent = OF_B / 4};
  plan_text t = {.num_axes = 1,
                 .axes = {1},
                 .num_layouts = 1,
                 .layouts = {"1:"},
                 .num_kernels = 3,
                 .kernel = {{"axpy", k_axpy, 2, 0, 1}, {"pack", k_pack, 2, 3, 0}, {"multiply", k_multiply, 5, 10, 0}},
                 .num_matmuls = 1,
                 .matmul = {{.batch = 1,
                             .m = ROWS,
                             .n = COLUMNS,
                             .k = TERMS,
                             .tile_m = 2,
                             .tile_n = PANEL,
                             .pack = 1,
                             .multiply = 2,
                             .width = PANEL,
                             .blocks = 1,
                             .shared_columns = COLUMNS,
                             .panel_bytes = OF_B}},
                 .num_sections = 1,
                 .section = {{"go", 64, 6, calls}},
                 .persistent = ALL,
                 .num_parameters = 1,
                 .parameter = {{"all", 0, 1, {ALL / 4}, 0, IN(P, 0, ALL), NULL, .loss = false}}};
  mscrt_plan *plan;
  mscrt_context *ctx;
  expect_ok(open_text(&t, &plan));
  expect_ok(open_rank(plan, NULL, 2, &ctx));
  float *all = local(ctx, "all"), *first = all + AT_B / 4, *second = first + OF_B / 4, *c = all + AT_C / 4;
  for (int i = 0; i < OF_A / 4; i++) all[i] = 1;
  for (int step = 1; step <= 2; step++) {
    for (int i = 0; i < OF_B / 4; i++) first[i] = 1, second[i] = 2;
    expect_ok(mscrt_run(ctx, "go", 1, NULL));
    assert_float_equal(*first, 9, 0);                    /* 1, three times 2, and the second's 2 */
    assert_float_equal(*second, 4, 0);                   /* 2 + 2 */
    static const float wanted[5] = {10, 10, 28, 18, 30}; /* the sum of the first column's terms as they were packed */
    for (int i = 0; i < 5; i++)
      for (int r = 0; r < ROWS; r++) assert_float_equal(c[i * OF_C / 4 + r * COLUMNS], wanted[i], 0);
  }
  mscrt_close(ctx);
  mscrt_plan_close(plan);
}

/* ---- training: y = x w, loss = mean of (y - t)^2 over the batch, w -= lr * gradient ---- */

enum { BATCH = 16, FEATURES = 12, OUTPUTS = 8, SAMPLES = 70 };

static void train_plan(uint32_t ranks, plan_text *t, call_text *calls) {
  uint64_t rows = BATCH / ranks, w = FEATURES * OUTPUTS * 4, x = rows * FEATURES * 4, y = rows * OUTPUTS * 4;
  double share = 1.0 / (BATCH * OUTPUTS);
  plan_ref w_ref = IN(P, 0, w), x_ref = IN(I, 0, x), t_ref = IN(I, 4096, y), y_out = OUT(S, 0, y),
           d_out = OUT(S, 4096, y), d_in = IN(S, 4096, y);
  const call_text list[] = {
    {.kind = PLAN_CALL_KIND_MATMUL, .index = 0, .num_buffers = 3, .buffers = {x_ref, w_ref, y_out}, .name = "dense"},
    {.index = 0, .num_buffers = 3, .buffers = {IN(S, 0, y), t_ref, d_out}, .extent = y / 4, .grain = 5},
    {.index = 1, .num_buffers = 2, .buffers = {d_in, OUT(S, 8192, 4)}, .num_dims = 1, .dims = {(int64_t)(y / 4)},
     .num_scalars = 1, .scalars = {share}},
    {.kind = PLAN_CALL_KIND_COLLECTIVE, .index = 0, .num_buffers = 2, .buffers = {IN(S, 8192, 4), OUT(S, 8256, 4)},
     .name = "loss", .loc = "net.py:3"},
    {.kind = PLAN_CALL_KIND_MATMUL, .index = 1, .num_buffers = 3, .buffers = {x_ref, d_in, OUT(S, 12288, w)},
     .name = "dense.gradient"},
    {.kind = PLAN_CALL_KIND_COLLECTIVE, .index = 1, .num_buffers = 2, .buffers = {IN(S, 12288, w), OUT(S, 16384, w)},
     .name = "dense.gradient"},
    {.index = 2, .num_buffers = 2, .buffers = {IN(S, 16384, w), OUT(P, 0, w)}, .num_scalars = 1,
     .scalars = {-0.8 * share * 8}, .extent = w / 4, .grain = 10},
  };
  memcpy(calls, list, sizeof list);
  *t = (plan_text){
      .num_axes = 1,
      .axes = {ranks},
      .num_layouts = 5,
      .layouts = {"2:", "2:0", "0:", "0:|0", "2:|0"},
      .num_kernels = 3,
      .kernel = {{"sub", k_sub, 3, 0, 0}, {"sumsq", k_sumsq, 2, 1, 1}, {"axpy", k_axpy, 2, 0, 1}},
      .num_matmuls = 2,
      .matmul =
          {{.batch = 1, .m = (int64_t)rows, .n = OUTPUTS, .k = FEATURES, .tile_m = rows < 4 ? 2 : 4, .tile_n = OUTPUTS},
           {.batch = 1,
            .m = FEATURES,
            .n = OUTPUTS,
            .k = (int64_t)rows,
            .tile_m = 5,
            .tile_n = 5,
            .transpose_a = true}},
      .num_collectives = 2,
      .collective = {{MSC_ALL_REDUCE, 0, 0, {0}, 3, 2, 0}, {MSC_ALL_REDUCE, 0, 2, {FEATURES, OUTPUTS}, 4, 0, 0}},
      .num_sections = 2,
      .section = {{"train", 20480, 7, calls}, {"forward", 20480, 4, calls}},
      .persistent = w,
      .input_stride = 8192,
      .num_parameters = 1,
      .parameter = {{"w", 0, 2, {FEATURES, OUTPUTS}, 0, w_ref, "normal:0.3", .loss = false}},
      .num_inputs = 2,
      .input = {{"x", 0, 2, {BATCH, FEATURES}, 1, x_ref, .loss = false},
                {"t", 0, 2, {BATCH, OUTPUTS}, 1, t_ref, .role = MSCRT_LABEL}},
      .num_outputs = 2,
      .output = {{"loss", 0, 0, {0}, 2, OUT(S, 8256, 4), .loss = true, .section = 0},
                 {"loss", 0, 0, {0}, 2, OUT(S, 8256, 4), .loss = true, .section = 1}}};
}

static char folder[64];
static char x_file[96], t_file[96];

static void put_npy(const char *path, int64_t rows, int64_t columns, const float *data) {
  char head[128] = "\x93NUMPY\x01\x00\x76\x00";
  snprintf(head + 10, 118, "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }", (int)rows, (int)columns);
  for (size_t i = strlen(head + 10) + 10; i < 128; i++) head[i] = i == 127 ? '\n' : ' ';
  FILE *f = fopen(path, "wb");
  fwrite(head, 1, 128, f);
  fwrite(data, 4, (size_t)(rows * columns), f);
  fclose(f);
}

/* t = x times a hidden matrix, so the loss can fall to zero */
static int make_files(void **state) {
  static float x[SAMPLES * FEATURES], t[SAMPLES * OUTPUTS];
  (void)state;
  strcpy(folder, "/tmp/msc-execute-XXXXXX");
  if (!mkdtemp(folder)) return -1;
  snprintf(x_file, sizeof x_file, "%s/x.npy", folder);
  snprintf(t_file, sizeof t_file, "%s/t.npy", folder);
  for (int i = 0; i < SAMPLES * FEATURES; i++) x[i] = sinf((float)(i * i % 1009));
  for (int i = 0; i < SAMPLES; i++)
    for (int j = 0; j < OUTPUTS; j++)
      for (int k = 0; k < FEATURES; k++) t[i * OUTPUTS + j] += x[i * FEATURES + k] * cosf((float)(k * 7 + j));
  put_npy(x_file, SAMPLES, FEATURES, x);
  put_npy(t_file, SAMPLES, OUTPUTS, t);
  return 0;
}

static int drop_files(void **state) {
  char command[96];
  (void)state;
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command);
}

enum { STEPS = 40 };

static mscrt_status *train(const mscrt_plan *plan, const place *p, int threads, double losses[STEPS + 1]) {
  mscrt_context *ctx = NULL;
  mscrt_data *data = NULL;
  mscrt_source files[] = {{"x", x_file}, {"t", t_file}};
  mscrt_data_options ranges = {
      .struct_size = sizeof ranges, .train_begin = 2, .train_end = 54, .eval_begin = 54, .eval_end = SAMPLES};
  mscrt_evaluation e = {.struct_size = sizeof e};
  mscrt_status *s = mscrt_data_open(plan, 2, files, &ranges, &data);
  if (!s) s = open_rank(plan, p, threads, &ctx);
  if (!s) s = mscrt_set_data(ctx, data);
  for (int i = 0; i < STEPS && !s; i++) {
    s = mscrt_run(ctx, "train", 1, &losses[i]);
    if (!s && i == STEPS / 2) s = mscrt_evaluate(ctx, &e); /* must not disturb */
  }
  if (!s) s = mscrt_evaluate(ctx, &e);
  losses[STEPS] = e.loss;
  mscrt_close(ctx);
  mscrt_data_close(data);
  return s;
}

static mscrt_plan *shared_plan;

static int train_rank(const place *p) {
  double losses[STEPS + 1];
  int code = say(p, train(shared_plan, p, p->rank % 2 + 1, losses));
  if (!code && write(p->say, losses, sizeof losses) < 0) code = 99;
  return code;
}

static void losses_do_not_depend_on_ranks_or_threads(void **state) {
  (void)state;
  plan_text t;
  call_text calls[7];
  double one[STEPS + 1], again[STEPS + 1], many[STEPS + 1];
  train_plan(1, &t, calls);
  expect_ok(open_text(&t, &shared_plan));
  expect_ok(train(shared_plan, NULL, 1, one));
  expect_ok(train(shared_plan, NULL, 3, again));
  assert_memory_equal(one, again, sizeof one);
  assert_true(one[STEPS] < one[0] / 20);
  mscrt_plan_close(shared_plan);
  for (int ranks = 2; ranks <= 8; ranks *= 2) {
    job j;
    train_plan((uint32_t)ranks, &t, calls);
    expect_ok(open_text(&t, &shared_plan));
    start_job(&j, ranks, train_rank);
    expect_all_well(&j);
    mscrt_plan_close(shared_plan);
    for (int r = 0; r < ranks; r++) {
      memcpy(many, j.words[r], sizeof many);
      for (int i = 0; i <= STEPS; i++)
        if (fabs(many[i] - one[i]) > 1e-5 * one[i] + 1e-9)
          fail_msg("%d ranks, rank %d, step %d: loss %g instead of %g", ranks, r, i, many[i], one[i]);
      assert_memory_equal(j.words[r], j.words[0], sizeof many);
    }
  }
}

/* ---- weights ---- */

static void weights_plan(uint32_t ranks, const char *layout, plan_text *t) {
  uint64_t bytes = 13 * 10 * 4;
  *t = (plan_text){.num_axes = 1,
                   .axes = {ranks},
                   .num_layouts = 1,
                   .layouts = {layout},
                   .persistent = 2048,
                   .num_parameters = 3,
                   .parameter = {{"w \"1\"", 0, 2, {13, 10}, 0, IN(P, 0, bytes), "normal:0.02", .loss = false},
                                 {"b", MSCRT_BF16, 2, {1, 10}, 0, IN(P, 576, 20), "uniform:0.5", .loss = false},
                                 {"m", 0, 2, {13, 10}, 0, IN(P, 640, bytes), NULL, .state = true}}};
}

static float expected_w[130];
static uint16_t expected_b[10];
static char saved[96];

static int weights_rank(const place *p) {
  mscrt_context *ctx = NULL;
  float w[130];
  uint16_t b[10];
  int code = say(p, open_rank(shared_plan, p, 1, &ctx));
  if (!code) code = say(p, mscrt_read(ctx, "w \"1\"", p->rank == 1 ? NULL : w, sizeof w));
  if (!code) code = say(p, mscrt_read(ctx, "b", b, sizeof b));
  if (!code && p->rank != 1 && memcmp(w, expected_w, sizeof w)) code = 50;
  if (!code && memcmp(b, expected_b, sizeof b)) code = 51;
  if (!code) code = say(p, mscrt_save(ctx, saved));
  mscrt_tensor t;
  if (!code) code = say(p, mscrt_local(ctx, "w \"1\"", &t));
  if (!code) memset(t.data, 0, (size_t)(t.size[0] * t.size[1]) * 4);
  if (!code) code = say(p, mscrt_load(ctx, saved));
  if (!code) code = say(p, mscrt_read(ctx, "w \"1\"", w, sizeof w));
  if (!code && memcmp(w, expected_w, sizeof w)) code = 52;
  mscrt_close(ctx);
  return code;
}

static void weights_do_not_depend_on_layouts(void **state) {
  (void)state;
  static const char *const layouts[] = {"2:0", "2:;0", "2:"};
  plan_text t;
  mscrt_context *ctx;
  snprintf(saved, sizeof saved, "%s/w.safetensors", folder);
  weights_plan(1, "2:", &t);
  expect_ok(open_text(&t, &shared_plan));
  expect_ok(open_rank(shared_plan, NULL, 2, &ctx));
  expect_ok(mscrt_read(ctx, "w \"1\"", expected_w, sizeof expected_w));
  expect_ok(mscrt_read(ctx, "b", expected_b, sizeof expected_b));
  double sum = 0, squares = 0;
  for (int i = 0; i < 130; i++) sum += (double)expected_w[i], squares += (double)(expected_w[i] * expected_w[i]);
  assert_true(fabs(sum / 130) < 0.008 && fabs(sqrt(squares / 130) - 0.02) < 0.004);
  expect_text(mscrt_read(ctx, "w", expected_w, sizeof expected_w), MSCRT_ARGUMENT, "no parameter or output 'w'");
  expect_text(mscrt_read(ctx, "b", expected_w, sizeof expected_w), MSCRT_ARGUMENT, "'b' has 20 bytes, not 520");
  expect_text(mscrt_load(ctx, x_file), MSCRT_INPUT, "safetensors");
  expect_text(mscrt_save(ctx, "/nonexistent/w.safetensors"), MSCRT_INPUT,
              "/nonexistent/w.safetensors: cannot create: No such file");
  mscrt_close(ctx);
  mscrt_plan_close(shared_plan);
  for (int i = 0; i < 3; i++) {
    job j;
    weights_plan(3, layouts[i], &t);
    expect_ok(open_text(&t, &shared_plan));
    start_job(&j, 3, weights_rank);
    expect_all_well(&j);
    mscrt_plan_close(shared_plan);
  }
}

/* ---- accuracy, starts, index checks ---- */

static void forward_plan(uint32_t ranks, plan_text *t, call_text *calls) {
  uint64_t rows = 4 / ranks, x = rows * 3 * 4, y = rows * 4;
  const call_text list[] = {
    {.index = 0, .num_buffers = 2, .buffers = {IN(I, 0, x), OUT(S, 0, x)}, .extent = rows * 3, .grain = 2},
    {.index = 1, .num_buffers = 1, .buffers = {OUT(S, 64, y)}, .num_dims = 1, .extent = rows, .has_start = true,
     .start_layout = 2, .start_shape = 4},
    {.index = 2, .num_buffers = 2, .buffers = {IN(I, 64, y), OUT(S, 128, 4)}, .num_dims = 1, .dims = {3},
     .extent = rows, .checks = true, .name = "pick", .loc = "net.py:9"},
  };
  memcpy(calls, list, sizeof list);
  *t = (plan_text){.num_axes = 1,
                   .axes = {ranks},
                   .num_layouts = 3,
                   .layouts = {"2:0", "2:", "1:0"},
                   .num_kernels = 3,
                   .kernel = {{"copy", k_copy, 2, 0, 0}, {"iota", k_iota, 1, 1, 0}, {"check", k_check, 2, 1, 0}},
                   .num_sections = 1,
                   .section = {{"forward", 192, 3, calls}},
                   .input_stride = 128,
                   .num_inputs = 2,
                   .input = {{"x", 0, 2, {4, 3}, 0, IN(I, 0, x), .loss = false},
                             {"y", MSCRT_I32, 1, {4}, 2, IN(I, 64, y), .role = MSCRT_LABEL}},
                   .num_outputs = 2,
                   .output = {{"logits", 0, 2, {4, 3}, 0, OUT(S, 0, x), .loss = false},
                              {"rows", 0, 1, {4}, 2, OUT(S, 64, y), .loss = false}}};
}

static char image_file[96], label_file[96];

static void put_idx(char *path, const char *name, const uint8_t *head, size_t head_bytes, const uint8_t *data,
                    size_t bytes) {
  snprintf(path, 96, "%s/%s", folder, name);
  FILE *f = fopen(path, "wb");
  fwrite(head, 1, head_bytes, f);
  fwrite(data, 1, bytes, f);
  fclose(f);
}

static mscrt_status *evaluate(const place *p, mscrt_evaluation *e, float rows[4]) {
  mscrt_context *ctx = NULL;
  mscrt_data *data = NULL;
  mscrt_source files[] = {{"x", image_file}, {"y", label_file}};
  mscrt_status *s = mscrt_data_open(
      shared_plan, 2, files,
      &(mscrt_data_options){.struct_size = sizeof(mscrt_data_options), .eval_begin = 1, .eval_end = 10}, &data);
  if (!s) s = open_rank(shared_plan, p, 1, &ctx);
  if (!s) s = mscrt_set_data(ctx, data);
  if (!s) s = mscrt_evaluate(ctx, e);
  if (!s) s = mscrt_read(ctx, "rows", rows, 16);
  mscrt_close(ctx);
  mscrt_data_close(data);
  return s;
}

static int evaluate_rank(const place *p) {
  mscrt_evaluation e = {.struct_size = sizeof e};
  float rows[4] = {0};
  int code = say(p, evaluate(p, &e, rows));
  if (code) return code;
  return e.samples == 9 && e.accuracy == 5.0 / 9 && isnan(e.loss) && rows[0] == 0 && rows[3] == 3 ? 0 : 50;
}

static void accuracy_and_index_checks(void **state) {
  (void)state;
  /* the largest of three: 0 1 2 0 1 2 ... ; labels agree but at 2, 5, 6 and 9 of samples 1 .. 9 */
  uint8_t images[30], labels[10] = {9, 1, 0, 0, 1, 0, 2, 1, 2, 1};
  plan_text t;
  call_text calls[3];
  job j;
  for (int i = 0; i < 30; i++) images[i] = i % 3 == i / 3 % 3 ? 200 : 100;
  put_idx(image_file, "i.idx", (uint8_t[]){0, 0, 8, 2, 0, 0, 0, 10, 0, 0, 0, 3}, 12, images, 30);
  put_idx(label_file, "l.idx", (uint8_t[]){0, 0, 8, 1, 0, 0, 0, 10}, 8, labels, 10);
  for (int ranks = 1; ranks <= 2; ranks++) {
    forward_plan((uint32_t)ranks, &t, calls);
    expect_ok(open_text(&t, &shared_plan));
    start_job(&j, ranks, evaluate_rank);
    expect_all_well(&j);
    mscrt_plan_close(shared_plan);
  }
  labels[7] = 3;
  put_idx(label_file, "l.idx", (uint8_t[]){0, 0, 8, 1, 0, 0, 0, 10}, 8, labels, 10);
  expect_ok(open_text(&t, &shared_plan));
  start_job(&j, 2, evaluate_rank);
  end_job(&j);
  mscrt_plan_close(shared_plan);
  assert_string_equal(j.words[1], "rank 1: step 2: pick at net.py:9: an index is out of range");
  assert_int_equal(WEXITSTATUS(j.exit[1]), 1);
  assert_non_null(strstr(j.words[0], "rank 1 failed: rank 1: step 2: pick at net.py:9: an index is out of range"));
  assert_int_equal(WEXITSTATUS(j.exit[0]), 3);
}

/* ---- buffers are not overwritten while others read them ---- */

enum { WIDE = 40000, ROUNDS = 60 };

/* s += counter; all = all_gather(s); s is spoilt at once; sum += all */
static void fence_plan(plan_text *t, call_text *calls) {
  uint64_t own = WIDE * 4, all = 4 * own;
  const call_text list[] = {
    {.index = 0, .num_buffers = 2, .buffers = {IN(P, 0, own), OUT(S, 0, own)}, .extent = WIDE},
    {.kind = PLAN_CALL_KIND_COLLECTIVE, .num_buffers = 2, .buffers = {IN(S, 0, own), OUT(S, own, all)},
     .name = "gather"},
    {.index = 1, .num_buffers = 2, .buffers = {IN(P, 0, own), OUT(S, 0, own)}, .num_scalars = 1, .scalars = {100},
     .extent = WIDE},
    {.index = 1, .num_buffers = 2, .buffers = {IN(S, own, all), OUT(P, own, all)}, .num_scalars = 1, .scalars = {1},
     .extent = 4 * WIDE},
    {.kind = PLAN_CALL_KIND_COLLECTIVE, .index = 1, .num_buffers = 2, .buffers = {IN(S, own, all), OUT(S, own, all)},
     .name = "in place"},
    {.index = 2, .num_buffers = 1, .buffers = {OUT(S, own, all)}, .num_dims = 1, .extent = 4 * WIDE},
  };
  memcpy(calls, list, sizeof list);
  *t = (plan_text){
      .num_axes = 1,
      .axes = {4},
      .num_layouts = 3,
      .layouts = {"1:0", "1:", "1:|0"},
      .num_kernels = 3,
      .kernel = {{"copy", k_copy, 2, 0, 0}, {"axpy", k_axpy, 2, 0, 1}, {"iota", k_iota, 1, 1, 0}},
      .num_collectives = 2,
      .collective = {{MSC_ALL_GATHER, 0, 1, {4 * WIDE}, 0, 1, 0}, {MSC_ALL_REDUCE, 0, 1, {4 * WIDE}, 2, 1, 0}},
      .num_sections = 1,
      .section = {{"go", own + all, 6, calls}},
      .persistent = own + all,
      .num_parameters = 2,
      .parameter = {{"s", 0, 1, {4 * WIDE}, 0, IN(P, 0, own), "zeros", .loss = false},
                    {"sum", 0, 1, {4 * WIDE}, 1, IN(P, own, all), "zeros", .loss = false}}};
}

static int fence_rank(const place *p) {
  mscrt_context *ctx = NULL;
  int code = say(p, open_rank(shared_plan, p, 1, &ctx));
  mscrt_tensor s, sum;
  if (!code) code = say(p, mscrt_local(ctx, "s", &s));
  for (int i = 0; !code && i < WIDE; i++) ((float *)s.data)[i] = (float)(p->rank + 1);
  if (!code) code = say(p, mscrt_run(ctx, "go", ROUNDS, NULL));
  if (!code) code = say(p, mscrt_local(ctx, "sum", &sum));
  for (int i = 0; !code && i < 4 * WIDE; i++)
    if (((float *)sum.data)[i] != (float)(ROUNDS * (i / WIDE + 1))) code = 50;
  mscrt_close(ctx);
  return code;
}

static void buffers_wait_for_their_readers(void **state) {
  (void)state;
  plan_text t;
  call_text calls[6];
  job j;
  fence_plan(&t, calls);
  expect_ok(open_text(&t, &shared_plan));
  start_job(&j, 4, fence_rank);
  expect_all_well(&j);
  mscrt_plan_close(shared_plan);
}

/* ---- data sets against plans ---- */

static void data_sets_that_do_not_fit(void **state) {
  (void)state;
  plan_text t;
  call_text calls[7];
  mscrt_data *data;
  mscrt_source x = {"x", x_file}, y = {"t", t_file};
  mscrt_data_options o = {.struct_size = sizeof o};
  train_plan(1, &t, calls);
  expect_ok(open_text(&t, &shared_plan));
  expect_text(mscrt_data_open(shared_plan, 1, &x, NULL, &data), MSCRT_INPUT, "input 't' has no data");
  expect_text(mscrt_data_open(shared_plan, 2, (mscrt_source[]){x, x}, NULL, &data), MSCRT_INPUT,
              "input 'x' is given twice");
  expect_text(mscrt_data_open(shared_plan, 2, (mscrt_source[]){x, {"z", t_file}}, NULL, &data), MSCRT_INPUT,
              "no input 'z'; its inputs are: x, t");
  expect_text(mscrt_data_open(shared_plan, 2, (mscrt_source[]){x, {"t", x_file}}, NULL, &data), MSCRT_INPUT,
              "shape [70,12] does not fit input 't' of shape [16,8]");
  o.train_end = 71;
  expect_text(mscrt_data_open(shared_plan, 2, (mscrt_source[]){x, y}, &o, &data), MSCRT_INPUT,
              "the training range 0:71 does not lie inside the 70 samples");
  o.train_begin = 60, o.train_end = 70;
  expect_text(mscrt_data_open(shared_plan, 2, (mscrt_source[]){x, y}, &o, &data), MSCRT_INPUT,
              "has 10 samples, fewer than one batch of 16");
  float few[16 * OUTPUTS] = {0};
  char other[96];
  snprintf(other, sizeof other, "%s/few.npy", folder);
  put_npy(other, 16, OUTPUTS, few);
  expect_text(mscrt_data_open(shared_plan, 2, (mscrt_source[]){x, {"t", other}}, NULL, &data), MSCRT_INPUT,
              "input 'x' has 70 samples, but 't' has 16");
  mscrt_context *ctx;
  expect_ok(open_rank(shared_plan, NULL, 1, &ctx));
  expect_text(mscrt_run(ctx, "train", 1, NULL), MSCRT_ARGUMENT, "input 'x' has no data");
  expect_text(mscrt_run(ctx, "test", 1, NULL), MSCRT_INPUT, "no section 'test'");
  expect_text(mscrt_set_input(ctx, "x", few, 4), MSCRT_ARGUMENT, "input 'x' has 768 bytes, not 4");
  mscrt_close(ctx);
  expect_text(mscrt_open(shared_plan, &(mscrt_options){.struct_size = sizeof(mscrt_options), .ranks = 2}, &ctx),
              MSCRT_INPUT, "the plan is for 1 rank, not for 2");
  mscrt_plan_close(shared_plan);
}

/* ---- calls that are wrong ---- */

static void expect_argument(mscrt_status *s, const char *part) { expect_text(s, MSCRT_ARGUMENT, part); }

static void pointers_that_are_missing(void **state) {
  (void)state;
  plan_text t;
  call_text calls[7];
  mscrt_plan *plan = NULL;
  mscrt_context *ctx = NULL;
  mscrt_data *data = NULL;
  mscrt_tensor tensor;
  int64_t step;
  int rank;
  expect_argument(mscrt_plan_open(NULL, 9, NULL, &plan), "mscrt_plan_open needs");
  expect_argument(mscrt_plan_read(NULL, NULL, &plan), "mscrt_plan_read needs path");
  expect_argument(mscrt_plan_read("plan.bin", NULL, NULL), "mscrt_plan_read needs");
  expect_argument(mscrt_plan_verify(NULL, 9), "needs bytes");
  expect_argument(mscrt_open(NULL, NULL, &ctx), "needs plan");
  expect_argument(mscrt_lead(NULL), "needs options");
  expect_argument(mscrt_ask_rank(NULL, &rank), "needs options");
  expect_argument(mscrt_check_save(NULL), "needs path");
  expect_argument(mscrt_check_checkpoint(NULL), "needs path");
  train_plan(1, &t, calls);
  expect_ok(open_text(&t, &plan));
  expect_argument(mscrt_open(plan, NULL, NULL), "out_ctx");
  expect_argument(mscrt_plan_check_weights(plan, NULL), "path");
  expect_argument(mscrt_plan_check_checkpoint(plan, NULL, &step), "path");
  expect_argument(mscrt_plan_part(plan, 0, NULL, &tensor), "name");
  expect_argument(mscrt_data_open(plan, 1, NULL, NULL, &data), "sources");
  expect_argument(mscrt_data_open(plan, 1, &(mscrt_source){"x", NULL}, NULL, &data), "source->file");
  expect_argument(mscrt_data_open(plan, 1, &(mscrt_source){NULL, x_file}, NULL, &data), "source->input");
  expect_ok(open_rank(plan, NULL, 1, &ctx));
  expect_argument(mscrt_set_data(ctx, NULL), "data");
  expect_argument(mscrt_set_input(ctx, NULL, &step, 4), "name");
  expect_argument(mscrt_set_input(ctx, "x", NULL, 768), "batch");
  expect_argument(mscrt_borrow_output(ctx, NULL, "loss", NULL, 0), "section");
  expect_argument(mscrt_run(ctx, NULL, 1, NULL), "section");
  expect_argument(mscrt_run(NULL, "train", 1, NULL), "mscrt_run needs");
  expect_argument(mscrt_evaluate(ctx, NULL), "out_evaluation");
  expect_argument(mscrt_predict(ctx, 1, NULL), "sinks");
  expect_argument(mscrt_local(ctx, NULL, &tensor), "name");
  expect_argument(mscrt_read(ctx, NULL, NULL, 0), "name");
  expect_argument(mscrt_set_scalar(ctx, NULL, 1), "name");
  expect_argument(mscrt_load(ctx, NULL), "path");
  expect_argument(mscrt_save(ctx, NULL), "path");
  expect_argument(mscrt_checkpoint(ctx, NULL), "path");
  expect_argument(mscrt_resume(ctx, NULL), "path");
  expect_argument(mscrt_dump_flight(ctx, NULL, NULL), "path");
  expect_argument(mscrt_recover(NULL), "ctx");
  expect_argument(mscrt_leave(&ctx, NULL), "out_kept");
  expect_argument(mscrt_max(ctx, 1, NULL), "out_max");
  expect_argument(mscrt_stop_together(ctx, true, NULL), "out_stop");
  mscrt_close(ctx);
  mscrt_plan_close(plan);
}

static void values_that_make_no_sense(void **state) {
  (void)state;
  plan_text t;
  call_text calls[7];
  mscrt_plan *plan;
  mscrt_context *ctx;
  static const struct {
    mscrt_options o;
    const char *part;
  } wrong[] = {{{.rank = -1}, "rank -1 of 1"},
               {{.threads = -3}, "-3 threads"},
               {{.overlap = (mscrt_overlap)7}, "there is no overlap 7"},
               {{.num_family = 3}, "a family of 3 plans"},
               {{.time_scale = NAN}, "time scale nan"}};
  train_plan(1, &t, calls);
  expect_ok(open_text(&t, &plan));
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    mscrt_options o = wrong[i].o;
    o.struct_size = sizeof o;
    expect_argument(mscrt_open(plan, &o, &ctx), wrong[i].part);
  }
  expect_ok(open_rank(plan, NULL, 1, &ctx));
  char zeros[16 * FEATURES * 4] = {0};
  expect_ok(mscrt_set_input(ctx, "x", zeros, sizeof zeros));
  expect_ok(mscrt_set_input(ctx, "t", zeros, 16 * OUTPUTS * 4));
  expect_argument(mscrt_run(ctx, "train", -1, NULL), "-1 steps");
  expect_text(mscrt_save(ctx, ""), MSCRT_INPUT, "needs a name");
  expect_text(mscrt_check_save(""), MSCRT_INPUT, "needs a name");
  expect_text(mscrt_checkpoint(ctx, ""), MSCRT_INPUT, "needs a name");
  expect_text(mscrt_check_checkpoint(""), MSCRT_INPUT, "needs a name");
  expect_text(mscrt_dump_flight(ctx, "/nonexistent/f.json", NULL), MSCRT_INPUT, "cannot be written: No such file");
  mscrt_plan_close(plan);
  expect_ok(mscrt_run(ctx, "train", 1, NULL)); /* no wrong call has broken it, and the context has the plan */
  mscrt_close(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(neighbours_share_a_packed_operand),
      cmocka_unit_test(products_in_all_forms),
      cmocka_unit_test(losses_do_not_depend_on_ranks_or_threads),
      cmocka_unit_test(weights_do_not_depend_on_layouts),
      cmocka_unit_test(accuracy_and_index_checks),
      cmocka_unit_test(buffers_wait_for_their_readers),
      cmocka_unit_test(data_sets_that_do_not_fit),
      cmocka_unit_test(pointers_that_are_missing),
      cmocka_unit_test(values_that_make_no_sense),
  };
  return cmocka_run_group_tests(tests, make_files, drop_files);
}
