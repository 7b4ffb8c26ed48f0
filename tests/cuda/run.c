/* Plans for GPUs, made by hand, executed where there is no GPU: against the stand-in of tests/cuda/standin.  Each case
 * is a process of its own with its own idea of the machine. */
#include "tests/cuda/plans.h"

/* w goes 2, 1.75, 1.25, 0.5, -0.5: the loss of the fifth step sees the last. */
static void steps_are_right_in_any_order(void **state) {
  (void)state;
  static const char *const warps[] = {"MSC_STANDIN_WARPS=up", "MSC_STANDIN_WARPS=down", "MSC_STANDIN_WARPS=shuffled"};
  for (int i = 0; i < 3; i++) {
    job j;
    char seed[32];
    snprintf(seed, sizeof seed, "MSC_STANDIN_SEED=%d", i);
    run_with(&j, &shrinking, 1, five_steps, WITH(warps[i], seed));
    assert_float_equal(result_of(&j), 0.5 * N * 0.25, 1e-3);
  }
}

static mscrt_status *read_both(mscrt_context *c, double *out) {
  float w[N];
  mscrt_tensor g;
  mscrt_status *s = mscrt_run(c, "train", 3, NULL);
  if (!s) s = mscrt_read(c, "w", w, sizeof w);
  if (!s) s = mscrt_local(c, "g", &g);
  if (!s) *out = (double)w[N - 1] + 10 * (double)((float *)g.data)[N - 1];
  return s;
}

static void values_come_back(void **state) {
  job j;
  (void)state;
  run_with(&j, &shrinking, 1, read_both, WITH());
  assert_float_equal(result_of(&j), 0.5 + 30, 1e-6);
}

/* x is an input that is checked against 5. */
static const call_text look[] = {{.kind = PLAN_CALL_KIND_KERNEL,
                                  .index = CHECK,
                                  .num_buffers = 2,
                                  .buffers = {IN(I, 0, 16), OUT(S, 0, 4)},
                                  .num_dims = 1,
                                  .dims = {5},
                                  .extent = 4,
                                  .grain = 64,
                                  .name = "rows",
                                  .loc = "net.py:7",
                                  .checks = true}};
static const plan_text looking = {
    ONE_RANK,
    .num_sections = 1,
    .section = {{"forward", 64, 1, look}},
    .input_stride = 16,
    .num_inputs = 1,
    .input = {
        {.name = "x", .dtype = MSCRT_I32, .rank = 1, .shape = {4}, .layout = 0, .ref = IN(I, 0, 16), .batch_dim = -1}}};

static mscrt_status *good_then_bad(mscrt_context *c, double *out) {
  static const int32_t good[] = {1, 2, 3, 4}, bad[] = {1, 2, 5, 4};
  (void)out;
  mscrt_status *s = mscrt_set_input(c, "x", good, sizeof good);
  for (int i = 0; i < 3 && !s; i++) s = mscrt_run(c, "forward", 1, NULL);
  if (s) return s;
  s = mscrt_set_input(c, "x", bad, sizeof bad);
  return s ? s : mscrt_run(c, "forward", 1, NULL);
}

static void bad_index_is_told(void **state) {
  (void)state;
  expect_failure(&looking, good_then_bad, 1, "rank 0: step 1: rows at net.py:7: an index is out of range", WITH());
}

/* ---- products ---- */

enum { M = 5, K = 7, W = 6, BATCH = 3, ROOM = 2048 };
static mscrt_matmul form;
static call_text product;
static plan_text multiplying;

static uint64_t bytes_of(int64_t elems) { return (uint64_t)elems * mscrt_dtype_bytes(form.dtype); }

/* a, b, bias are parameters, c an output. */
static void describe_product(void) {
  int64_t a = BATCH * M * K, b = form.stride_b ? BATCH * K * W : K * W;
  form.batch = BATCH, form.m = form.tile_m = M, form.n = form.tile_n = W, form.k = K, form.stride_a = M * K;
  product = (call_text){.kind = PLAN_CALL_KIND_MATMUL,
                        .num_buffers = form.bias ? 4 : 3,
                        .name = "product",
                        .buffers = {IN(P, 0, bytes_of(a)), IN(P, ROOM, bytes_of(b)), OUT(S, 0, bytes_of(BATCH * M * W)),
                                    IN(P, 2 * ROOM, bytes_of(W))}};
#define PART(text, elems, at)          \
  {.name = text,                       \
   .dtype = (uint8_t)form.dtype,       \
   .rank = 1,                          \
   .shape = {(uint64_t)(elems)},       \
   .ref = OUT(P, at, bytes_of(elems)), \
   .init = "uniform:1"}
  multiplying = (plan_text){ONE_RANK,
                            .num_matmuls = 1,
                            .matmul = {form},
                            .num_sections = 1,
                            .section = {{"forward", ROOM, 1, &product}},
                            .persistent = 3 * ROOM,
                            .num_parameters = 3,
                            .parameter = {PART("a", a, 0), PART("b", b, ROOM), PART("bias", W, 2 * ROOM)},
                            .num_outputs = 1,
                            .output = {{.name = "c",
                                        .dtype = (uint8_t)form.dtype,
                                        .rank = 1,
                                        .shape = {BATCH * M * W},
                                        .ref = OUT(S, 0, bytes_of(BATCH * M * W))}}};
}

static mscrt_status *read_numbers(mscrt_context *c, const char *name, double *out) {
  mscrt_tensor t;
  mscrt_status *s = mscrt_local(c, name, &t);
  if (!s) mscrt_convert(MSCRT_F64, out, 1, t.dtype, t.data, false, false, t.size[0]);
  return s;
}

static double expected(const double *a, const double *b, const double *bias, int64_t batch, int64_t i, int64_t j) {
  double sum = form.bias ? bias[j] : 0;
  for (int64_t k = 0; k < K; k++)
    sum += a[batch * M * K + (form.transpose_a ? k * M + i : i * K + k)] *
           b[batch * form.stride_b + (form.transpose_b ? j * K + k : k * W + j)];
  return form.relu && sum < 0 ? 0 : sum;
}

/* Out comes the largest difference. */
static mscrt_status *multiply(mscrt_context *c, double *out) {
  double a[BATCH * M * K], b[BATCH * K * W], bias[W], result[BATCH * M * W];
  for (int i = 0; i < 3; i++) { /* the third is a replay */
    mscrt_status *s = mscrt_run(c, "forward", 1, NULL);
    if (s) return s;
  }
  const struct { const char *name; double *numbers; } all[] = {{"a", a}, {"b", b}, {"bias", bias}, {"c", result}};
  for (int i = 0; i < 4; i++) {
    mscrt_status *s = read_numbers(c, all[i].name, all[i].numbers);
    if (s) return s;
  }
  for (int64_t i = 0; i < BATCH * M * W; i++)
    *out = fmax(*out, fabs(result[i] - expected(a, b, bias, i / (M * W), i / W % M, i % W)));
  return NULL;
}

static void products_are_right_in_all_forms(void **state) {
  static const struct {
    mscrt_dtype dtype;
    double error;
  } types[] = {{MSCRT_F32, 1e-6}, {MSCRT_BF16, 2e-2}, {MSCRT_F16, 2e-3}, {MSCRT_F64, 1e-14}};
  (void)state;
  for (int i = 0; i < 16; i++) {
    job j;
    form = (mscrt_matmul){.dtype = types[(i + i / 4) % 4].dtype,
                          .transpose_a = i & 1,
                          .transpose_b = i >> 1 & 1,
                          .bias = i >> 2 & 1,
                          .relu = i >> 3 & 1,
                          .stride_b = i % 3 ? K * W : 0};
    describe_product();
    run_with(&j, &multiplying, 1, multiply, WITH());
    if (!(result_of(&j) < types[(i + i / 4) % 4].error)) fail_msg("form %d: error %s", i, j.words[0]);
  }
}

/* Only who is told to measures; then everybody knows, from the file.  A damaged line is measured again. */
static void products_are_measured_once(void **state) {
  char file[] = "/tmp/msc-choices-XXXXXX", log[] = "/tmp/msc-cuda-XXXXXX", setting[64];
  static const struct {
    bool tune;
    int asked, measured;
  } runs[] = {{false, 1, 0}, {true, 1, 3}, {true, 0, 0}, {false, 0, 0}, {false, 1, 0}, {true, 1, 3}};
  (void)state;
  form = (mscrt_matmul){.dtype = MSCRT_F32};
  describe_product();
  close(mkstemp(file)), close(mkstemp(log));
  choices = file;
  snprintf(setting, sizeof setting, "MSC_STANDIN_LOG=%s", log);
  for (int i = 0; i < 6; i++) {
    job j;
    if (i == 4) assert_int_equal(truncate(file, 120), 0);
    assert_int_equal(truncate(log, 0), 0);
    tune = runs[i].tune;
    run_with(&j, &multiplying, 1, multiply, WITH(setting, "MSC_STANDIN_SEED=1"));
    assert_true(result_of(&j) < 1e-6);
    assert_int_equal(count_calls(log, "cublasLtMatmulAlgoGetHeuristic"), runs[i].asked);
    assert_int_equal(count_calls(log, "cuEventElapsedTime"), runs[i].measured);
  }
  choices = NULL, tune = false;
  unlink(file), unlink(log);
}

/* By one rank for both, whose clocks differ. */
static void ranks_multiply_alike(void **state) {
  char file[] = "/tmp/msc-choices-XXXXXX", log[] = "/tmp/msc-cuda-XXXXXX", setting[64];
  job j;
  (void)state;
  form = (mscrt_matmul){.dtype = MSCRT_F32};
  describe_product();
  multiplying.num_axes = 1, multiplying.axes[0] = 2;
  close(mkstemp(file)), close(mkstemp(log));
  choices = file, tune = true, of_rank_1 = "MSC_STANDIN_SEED=5";
  snprintf(setting, sizeof setting, "MSC_STANDIN_LOG=%s", log);
  run_with(&j, &multiplying, 2, multiply, WITH(setting, "MSC_STANDIN_SEED=1"));
  expect_small(&j);
  assert_int_equal(count_calls(log, "cublasLtMatmulAlgoGetHeuristic"), 1);
  assert_int_equal(count_calls(file, "|"), 1);
  choices = of_rank_1 = NULL, tune = false;
  unlink(file), unlink(log);
}

static void missing_algorithms_are_told(void **state) {
  (void)state;
  form = (mscrt_matmul){.dtype = MSCRT_F32};
  describe_product();
  expect_failure(&multiplying, multiply, 3,
                 "cuBLASLt 130000 has no algorithm for a product of f32, 5 x 6 x 7 with epilogue 1, within 1024 bytes "
                 "on stand-in 0 (status 15)",
                 WITH("MSC_STANDIN_FAIL=cublasLtMatmulAlgoGetHeuristic:1:15"));
}

/* ---- graphs ---- */

enum { NUM_X = 2 * 4 * 5 * 6, NUM_W = 6 * 2 * 3 * 3, NUM_Y = 2 * 6 * 3 * 6 };
static const uint64_t conv_elems[] = {NUM_X, NUM_W, NUM_Y};
static call_text conv_call;
static plan_text convolving;

/* Which of x, w and y the graph's operands are; the last is the result. */
static const int conv_roles[][3] = {[PLAN_GRAPH_KIND_CONV] = {0, 1, 2},
                                    [PLAN_GRAPH_KIND_CONV_DATA] = {2, 1, 0},
                                    [PLAN_GRAPH_KIND_CONV_WEIGHT] = {0, 2, 1}};

/* Two groups; steps of two down, gaps of one across. */
static void describe_convolution(uint8_t kind) {
  static const mscrt_graph_tensor tensor[] = {{MSCRT_F32, {2, 4, 5, 6}, {120, 30, 6, 1}},
                                              {MSCRT_F32, {6, 2, 3, 3}, {18, 9, 3, 1}},
                                              {MSCRT_F32, {2, 6, 3, 6}, {108, 18, 6, 1}}};
  static const char *const names[] = {"x", "w", "y"};
  mscrt_graph g = {.kind = kind,
                   .num_operands = 3,
                   .deterministic = true,
                   .step = {2, 1},
                   .dilation = {1, 2},
                   .padding = {1, 2},
                   .bytes = 512};
  conv_call = (call_text){.kind = PLAN_CALL_KIND_GRAPH, .num_buffers = 3, .name = "conv", .loc = "net.py:3"};
  convolving = (plan_text){ONE_RANK,
                           .num_sections = 1,
                           .section = {{"forward", ROOM, 1, &conv_call}},
                           .persistent = 2 * ROOM,
                           .num_parameters = 2,
                           .num_outputs = 1};
  for (int i = 0; i < 3; i++) {
    int role = conv_roles[kind][i];
    plan_ref ref = {i < 2 ? (uint64_t)i * ROOM : 0, 4 * conv_elems[role], i < 2 ? P : S, i == 2, {0}};
    variable_text v = {
        .name = names[role], .rank = 1, .shape = {conv_elems[role]}, .ref = ref, .init = i < 2 ? "uniform:1" : NULL};
    v.ref.written = 1;
    g.operand[i] = tensor[role];
    conv_call.buffers[i] = ref;
    *(i < 2 ? &convolving.parameter[i] : &convolving.output[0]) = v;
  }
  convolving.num_graphs = 1, convolving.graph[0] = g;
}

/* All that meet in a window: x, w and y of each; the result is summed up. */
static void convolve(uint8_t kind, double *of[3]) {
  for (int i = 0; i < NUM_Y * 2 * 9; i++) {
    int k = i % 3, l = i / 3 % 3, channel = i / 9 % 2, column = i / 18 % 6, row = i / 108 % 3, o = i / 324 % 6,
        n = i / 1944;
    int h = 2 * row + k - 1, w = column + 2 * l - 2;
    if (h < 0 || h >= 5 || w < 0 || w >= 6) continue;
    double *at[] = {&of[0][n * 120 + (o / 3 * 2 + channel) * 30 + h * 6 + w], &of[1][o * 18 + channel * 9 + k * 3 + l],
                    &of[2][n * 108 + o * 18 + row * 6 + column]};
    const int *role = conv_roles[kind];
    *at[role[2]] += *at[role[0]] * *at[role[1]];
  }
}

/* Out comes the largest difference. */
static mscrt_status *compare_convolution(mscrt_context *c, double *out) {
  static const char *const names[] = {"x", "w", "y"};
  uint8_t kind = convolving.graph[0].kind;
  int result = conv_roles[kind][2];
  double value[3][NUM_X] = {{0}}, got[NUM_X];
  for (int i = 0; i < 3; i++) { /* the third is a replay */
    mscrt_status *s = mscrt_run(c, "forward", 1, NULL);
    if (s) return s;
  }
  for (int i = 0; i < 3; i++) {
    mscrt_status *s = read_numbers(c, names[i], i == result ? got : value[i]);
    if (s) return s;
  }
  convolve(kind, (double *[]){value[0], value[1], value[2]});
  for (uint64_t i = 0; i < conv_elems[result]; i++) *out = fmax(*out, fabs(got[i] - value[result][i]));
  return NULL;
}

static void convolutions_are_right(void **state) {
  (void)state;
  for (uint8_t kind = PLAN_GRAPH_KIND_CONV; kind <= PLAN_GRAPH_KIND_CONV_WEIGHT; kind++) {
    job j;
    describe_convolution(kind);
    run_with(&j, &convolving, 1, compare_convolution, WITH());
    if (!(result_of(&j) < 1e-5)) fail_msg("kind %d: error %s", kind, j.words[0]);
  }
}

/* The first engine wants too much, the second narrows, the third transforms, the fourth's products are narrow. */
static void missing_engines_are_told(void **state) {
  (void)state;
  describe_convolution(PLAN_GRAPH_KIND_CONV);
  expect_failure(
      &convolving, compare_convolution, 3,
      "cuDNN 91900 has no engine for a convolution of f32 [2,4,5,6] and [6,2,3,3] within 512 bytes on stand-in 0 (4 "
      "offered, 3 of them unfit, 1099511627776 would do); compile with --set library_convolution=false",
      WITH("MSC_STANDIN_ENGINES=4"));
  expect_failure(&convolving, compare_convolution, 3,
                 "cuDNN 91900 is made for CUDA 13.0, and the driver knows 12.4: install NVIDIA's package "
                 "libcudnn9-cuda-12, or a newer driver",
                 WITH("MSC_STANDIN_DRIVER=12040"));
  expect_failure(&convolving, compare_convolution, 3, "cuDNN: cudnnBackendFinalize failed: CUDNN_STATUS_NOT_SUPPORTED",
                 WITH("MSC_STANDIN_FAIL=cudnnBackendFinalize:2:3000"));
  expect_failure(&convolving, compare_convolution, 3, "conv at net.py:3: cuDNN: cudnnBackendExecute failed",
                 WITH("MSC_STANDIN_FAIL=cudnnBackendExecute:1:5000"));
}

/* ---- collectives ---- */

static void ranks_meet_through_the_host(void **state) {
  job j;
  (void)state;
  run_with(&j, &meeting_plan, 2, meet, WITH("MSC_STANDIN_SEED=3"));
  expect_small(&j);
}

static void ranks_meet_through_nccl(void **state) {
  static const char *const seeds[] = {"MSC_STANDIN_SEED=0", "MSC_STANDIN_SEED=5", "MSC_STANDIN_SEED=8"};
  (void)state;
  for (int i = 0; i < 3; i++) {
    job j;
    run_with(&j, &meeting_plan, 2, meet, WITH(seeds[i], "MSC_STANDIN_GPUS=2"));
    expect_small(&j);
  }
}

/* Each host has one GPU. */
static void ranks_of_hosts_meet_through_nccl(void **state) {
  char path[] = "/tmp/msc-cuda-XXXXXX", log[64];
  job j;
  (void)state;
  close(mkstemp(path));
  snprintf(log, sizeof log, "MSC_STANDIN_LOG=%s", path);
  of_rank_1 = "MSC_STANDIN_HOST=1";
  run_with(&j, &meeting_plan, 2, meet, WITH(log, "MSC_STANDIN_GPUS=1"));
  of_rank_1 = NULL;
  expect_small(&j);
  assert_int_equal(count_calls(path, "ncclCommInitRankConfig"), 2);
  unlink(path);
}

/* ---- reductions of types that NCCL does not have ---- */

/* Each rank has a row of x; all reductions of the rows, whole and cut. */
enum { LONG = 7, ROW = 64 };
static const char *const of_rows[] = {"sum", "max", "min", "prod", "cut sum", "cut max", "cut min", "cut prod"};
static call_text reductions[8];
static plan_text reducing;

static void describe_reductions(mscrt_dtype d) {
  uint64_t bytes = mscrt_dtype_bytes(d);
  reducing = (plan_text){.num_axes = 1,
                         .axes = {2},
                         KERNELS,
                         .num_layouts = 4,
                         .layouts = {"1:|", "1:|0", "1:0|", "2:0;|"},
                         .num_collectives = 8,
                         .num_sections = 1,
                         .section = {{"forward", 64, 8, reductions, .stage = 0}},
                         .persistent = 8 * ROW,
                         .num_parameters = 8,
                         .num_inputs = 1,
                         .input_stride = ROW,
                         .input = {{.name = "x",
                                    .dtype = (uint8_t)d,
                                    .rank = 2,
                                    .shape = {2, LONG},
                                    .layout = 3,
                                    .ref = IN(I, 0, LONG * bytes),
                                    .batch_dim = -1}}};
  for (uint32_t i = 0; i < 8; i++) {
    bool cut = i >= 4;
    plan_ref result = OUT(P, i * ROW, (cut ? (LONG + 1) / 2 : LONG) * bytes);
    reductions[i] = (call_text){.kind = PLAN_CALL_KIND_COLLECTIVE,
                                .index = i,
                                .num_buffers = 2,
                                .buffers = {IN(I, 0, LONG * bytes), result},
                                .name = of_rows[i]};
    reducing.collective[i] = (collective_text){.verb = cut ? MSC_REDUCE_SCATTER : MSC_ALL_REDUCE,
                                               .dtype = (uint8_t)d,
                                               .rank = 1,
                                               .shape = {LONG},
                                               .from = 1,
                                               .to = cut ? 2 : 0,
                                               .reduction = (uint8_t[]){MSC_SUM, MSC_MAX, MSC_MIN, MSC_PROD}[i % 4]};
    reducing.parameter[i] = (variable_text){.name = of_rows[i],
                                            .dtype = (uint8_t)d,
                                            .rank = 1,
                                            .shape = {LONG},
                                            .layout = cut ? 2 : 0,
                                            .ref = result,
                                            .init = "zeros"};
  }
}

static const int32_t rows[2][LONG] = {{1, -2, 30000, 0, -32768, 65535, 255}, {1, 5, 30000, 7, -1, 3, 257}};

static int64_t reduced(mscrt_dtype d, int reduction, int i) {
  int64_t a = rows[0][i], b = rows[1][i], r;
  if (d == MSCRT_I1) return reduction < 2 ? a || b : a && b;
  if (d == MSCRT_I16) a = (int16_t)a, b = (int16_t)b;
  else a = (uint16_t)a, b = (uint16_t)b;
  r = reduction == 0 ? a + b : reduction == 1 ? (a > b ? a : b) : reduction == 2 ? (a < b ? a : b) : a * b;
  return d == MSCRT_I16 ? (int16_t)r : (uint16_t)r;
}

/* Out comes how many are wrong. */
static mscrt_status *reduce(mscrt_context *c, double *out) {
  mscrt_dtype d = reducing.collective[0].dtype;
  uint8_t x[2 * ROW], result[ROW];
  size_t bytes = mscrt_dtype_bytes(d);
  for (int i = 0; i < 2 * LONG; i++) {
    int32_t v = d == MSCRT_I1 ? rows[i / LONG][i % LONG] != 0 : rows[i / LONG][i % LONG];
    memcpy(x + (size_t)i * bytes, &v, bytes);
  }
  mscrt_status *s = mscrt_set_input(c, "x", x, 2 * LONG * bytes);
  for (int i = 0; i < 3 && !s; i++) s = mscrt_run(c, "forward", 1, NULL);
  for (int k = 0; k < 8 && !s; k++) {
    s = mscrt_read(c, of_rows[k], result, LONG * bytes);
    for (int i = 0; i < LONG && !s; i++) {
      int64_t want = reduced(d, k % 4, i);
      *out += memcmp(result + (size_t)i * bytes, &want, bytes) != 0;
    }
  }
  return s;
}

static void all_types_are_reduced(void **state) {
  static const mscrt_dtype types[] = {MSCRT_I1, MSCRT_I16, MSCRT_U16};
  (void)state;
  for (int i = 0; i < 3; i++)
    for (int gpus = 1; gpus <= 2; gpus++) {
      job j;
      describe_reductions(types[i]);
      run_with(&j, &reducing, 2, reduce,
               WITH(gpus == 1 ? "MSC_STANDIN_GPUS=1" : "MSC_STANDIN_GPUS=2", "MSC_STANDIN_SEED=4"));
      expect_small(&j);
    }
}

/* Those of the libraries too. */
static void every_call_may_fail(void **state) {
  int every = getenv("MSC_TEST_SLOW") ? 1 : 31;
  (void)state;
  form = (mscrt_matmul){.dtype = MSCRT_F32, .bias = true};
  describe_product();
  fail_calls(&multiplying, 1, multiply, "1", every);
  describe_convolution(PLAN_GRAPH_KIND_CONV);
  fail_calls(&convolving, 1, compare_convolution, "1", every);
}

/* Calls of this process while it is asked: the driver has them all, but what is left after the first steps. */
static void replays_are_one_launch(void **state) {
  job j;
  char path[] = "/tmp/msc-cuda-XXXXXX", text[128];
  (void)state;
  close(mkstemp(path));
  snprintf(text, sizeof text, "MSC_STANDIN_LOG=%s", path);
  run_with(&j, &shrinking, 1, five_steps, WITH(text));
  result_of(&j);
  assert_int_equal(count_calls(path, "cuGraphLaunch"), 4);
  assert_int_equal(count_calls(path, "cuLaunchKernel"), 6);
  unlink(path);
}

/* ---- memory that NCCL knows ---- */

/* The stand-in compares where the ranks read and write, when it has windows, and counts what must be given back. */
static void memory_is_registered(void **state) {
  static const struct {
    const char *setting;
    int pieces, ranges, windows; /* calls of two ranks */
  } runs[] = {{"MSC_STANDIN_NCCL=22809", 2, 0, 2},
              {"NCCL_WIN_ENABLE=0", 2, 2, 2},
              {"MSC_STANDIN_NCCL=22703", 2, 2, 0},
              {"MSC_STANDIN_NCCL=21801", 0, 0, 0},
              {"MSC_STANDIN_FAIL=ncclMemAlloc:1:1", 2, 0, 0}};
  char path[] = "/tmp/msc-cuda-XXXXXX", log[64];
  (void)state;
  close(mkstemp(path));
  snprintf(log, sizeof log, "MSC_STANDIN_LOG=%s", path);
  for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
    job j;
    assert_int_equal(truncate(path, 0), 0);
    run_with(&j, &meeting_plan, 2, meet, WITH(log, "MSC_STANDIN_GPUS=2", runs[i].setting));
    expect_small(&j);
    assert_int_equal(count_calls(path, "ncclMemAlloc"), runs[i].pieces);
    assert_int_equal(count_calls(path, "ncclCommRegister"), runs[i].ranges);
    assert_int_equal(count_calls(path, "ncclCommWindowRegister"), runs[i].windows);
  }
  of_rank_1 = "MSC_STANDIN_FAIL=ncclMemAlloc:1:1"; /* then neither registers */
  job one;
  assert_int_equal(truncate(path, 0), 0);
  run_with(&one, &meeting_plan, 2, meet, WITH(log, "MSC_STANDIN_GPUS=2"));
  expect_small(&one);
  assert_int_equal(count_calls(path, "ncclCommRegister") + count_calls(path, "ncclCommWindowRegister"), 0);
  of_rank_1 = NULL;
  job refused; /* exchanges then copy */
  run_with(&refused, &meeting_plan, 2, meet,
           WITH("MSC_STANDIN_GPUS=2", "MSC_STANDIN_NCCL=21903", "MSC_STANDIN_FAIL=ncclCommRegister:1:3"));
  expect_small(&refused);
  unlink(path);
}

/* ---- the stand-in itself ---- */

static const call_text diverging[] = {
    {.kind = PLAN_CALL_KIND_KERNEL, .index = DIVERGES, .num_buffers = 1, .buffers = {IN(P, 0, 4)}}};
static const plan_text diverges = {ONE_RANK, .num_sections = 1, .section = {{"train", 64, 1, diverging}},
                                   .persistent = 64};

static void broken_kernels_are_told(void **state) {
  job j;
  (void)state;
  run_with(&j, &diverges, 1, five_steps, WITH());
  assert_int_equal(WEXITSTATUS(j.exit[0]), 97);
  assert_non_null(strstr(j.words[0], "block 0: 32 threads of 64 are at a barrier, 32 have left (divergent barrier)"));
}

/* The second kernel of a step may begin early: where it reads before it waits, or does not wait, the stand-in ends. */
static void kernels_that_begin_early_must_wait(void **state) {
  static const char *const code[] = {"griddepcontrol.wait;\n\tld.global\n", "\tld.global\ngriddepcontrol.wait;\n",
                                     ""};
  char text[512];
  (void)state;
  for (int i = 0; i < 3; i++) {
    plan_text t = shrinking;
    snprintf(text, sizeof text,
             ".target sm_80\n.entry check(.entry diverges(.entry axpy(\n{\n%s}\n.entry sumsq(\n{\n%s}\n", code[i],
             code[i]);
    t.ptx = text, t.early = true;
    job j;
    run_with(&j, &t, 1, five_steps, WITH());
    if (i == 0) assert_float_equal(result_of(&j), 0.5 * N * 0.25, 1e-3);
    else if (WEXITSTATUS(j.exit[0]) != 97 || !strstr(j.words[0], "does not wait for the one before it"))
      fail_msg("code %d: exit %d: %s", i, j.exit[0], j.words[0]);
  }
}

int main(int argc, char **argv) {
  (void)argc;
  if (!prepare(argv)) return 0;
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(steps_are_right_in_any_order),
    cmocka_unit_test(values_come_back),
    cmocka_unit_test(bad_index_is_told),
    cmocka_unit_test(products_are_right_in_all_forms),
    cmocka_unit_test(products_are_measured_once),
    cmocka_unit_test(ranks_multiply_alike),
    cmocka_unit_test(missing_algorithms_are_told),
    cmocka_unit_test(convolutions_are_right),
    cmocka_unit_test(missing_engines_are_told),
    cmocka_unit_test(ranks_meet_through_the_host),
    cmocka_unit_test(ranks_meet_through_nccl),
    cmocka_unit_test(ranks_of_hosts_meet_through_nccl),
    cmocka_unit_test(all_types_are_reduced),
    cmocka_unit_test(every_call_may_fail),
    cmocka_unit_test(replays_are_one_launch),
    cmocka_unit_test(memory_is_registered),
    cmocka_unit_test(broken_kernels_are_told),
    cmocka_unit_test(kernels_that_begin_early_must_wait),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
