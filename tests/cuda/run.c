/* Plans for GPUs, made by hand, executed where there is no GPU: against the stand-in of tests/cuda/standin.  Each case is a process
 * of its own with its own idea of the machine. */
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

#define PTX ".version 7.8\n.target sm_80\n.visible .entry axpy(\n.visible .entry sumsq(\n.visible .entry check(\n.visible .entry diverges("
#define KERNELS                                                                                     \
  .num_kernels = 4, .ptx = PTX, .target = "cuda", .workspace = 1024,                                \
  .kernel = {{"axpy", NULL, 2, 0, 1, 64}, {"sumsq", NULL, 2, 1, 1, 64}, {"check", NULL, 2, 1, 0, 64}, {"diverges", NULL, 1, 0, 0, 64}}
#define ONE_RANK .num_layouts = 2, .layouts = {"1:|", "0:|"}, KERNELS
enum { AXPY, SUMSQ, CHECK, DIVERGES, N = 1000 };

/* ---- processes ---- */

static int timeout_ms = 20000, the_rank;
static const char *comm, *choices;
static bool tune;

static mscrt_status *open_text(const plan_text *t, const place *p, mscrt_plan **out_plan, mscrt_context **out_ctx) {
  size_t size;
  uint8_t *bytes = make_plan(t, &size);
  *out_ctx = NULL;
  mscrt_status *s = mscrt_plan_open(bytes, size, &(mscrt_plan_options){sizeof(mscrt_plan_options), true}, out_plan);
  free(bytes);
  mscrt_options o = {.struct_size = sizeof o, .threads = 1, .seed = 7, .timeout_ms = timeout_ms, .comm = comm, .choices = choices, .tune = tune};
  if (p->ranks > 1) o.rank = p->rank, o.ranks = p->ranks, o.address = p->address;
  return s ? s : mscrt_open(*out_plan, &o, out_ctx);
}

typedef mscrt_status *body_fn(mscrt_context *c, double *out_result);
static const plan_text *the_plan;
static body_fn *the_body;

/* Says the result, or the failure. */
static int run_rank(const place *p) {
  mscrt_plan *plan = NULL;
  mscrt_context *c;
  double result = 0;
  char text[64];
  dup2(p->say, STDERR_FILENO); /* the stand-in's words */
  the_rank = p->rank;
  mscrt_status *s = open_text(the_plan, p, &plan, &c);
  if (!s) s = the_body(c, &result);
  mscrt_close(c);
  mscrt_plan_close(plan);
  if (s) return say(p, s);
  snprintf(text, sizeof text, "%.9g", result);
  return write(p->say, text, strlen(text)) < 0;
}

/* Settings "NAME=VALUE" of the stand-in, up to NULL. */
static void run_with(job *j, const plan_text *t, int ranks, body_fn *body, const char *const *settings) {
  the_plan = t, the_body = body;
  for (int i = 0; settings[i]; i++) assert_int_equal(putenv((char *)(uintptr_t)settings[i]), 0);
  start_job(j, ranks, run_rank);
  end_job(j);
  for (int i = 0; settings[i]; i++) {
    char name[64] = "";
    memcpy(name, settings[i], strcspn(settings[i], "="));
    unsetenv(name);
  }
}

#define WITH(...) (const char *const[]){__VA_ARGS__ __VA_OPT__(,) NULL}

static double result_of(const job *j) {
  if (j->exit[0]) fail_msg("exit %d: %s", j->exit[0], j->words[0]);
  return atof(j->words[0]);
}

static void expect_failure(const plan_text *t, body_fn *body, int code, const char *words, const char *const *settings) {
  job j;
  run_with(&j, t, 1, body, settings);
  if (!WIFEXITED(j.exit[0]) || WEXITSTATUS(j.exit[0]) != code || !strstr(j.words[0], words)) fail_msg("exit %d: '%s', not '%s'", j.exit[0], j.words[0], words);
}

/* ---- plans ---- */

/* loss = 0.5 * |w|^2; w -= 0.25 * w, by way of g, so that steps differ */
static const call_text shrink[] = {
  {.kind = PLAN_CALL_KIND_KERNEL, .index = SUMSQ, .num_buffers = 2, .buffers = {IN(P, 0, 4 * N), OUT(S, 0, 4)}, .num_dims = 1, .dims = {N}, .num_scalars = 1, .scalars = {0.5}, .name = "loss"},
  {.kind = PLAN_CALL_KIND_KERNEL, .index = AXPY, .num_buffers = 2, .buffers = {IN(C, 0, 4 * N), OUT(P, 4096, 4 * N)}, .num_scalars = 1, .scalars = {1}, .extent = N, .grain = 64, .name = "add ones"},
  {.kind = PLAN_CALL_KIND_KERNEL, .index = AXPY, .num_buffers = 2, .buffers = {IN(P, 4096, 4 * N), OUT(P, 0, 4 * N)}, .num_scalars = 1, .scalars = {-0.25}, .extent = N, .grain = 200, .name = "update"},
};
static float ones[N];
static const section_text train_shrink = {"train", 64, 3, shrink};
#define VECTOR(text, at, start) {.name = text, .rank = 1, .shape = {N}, .layout = 0, .ref = OUT(P, at, 4 * N), .init = start}
static const plan_text shrinking = {
  ONE_RANK, .num_sections = 1, .section = {train_shrink}, .persistent = 8192, .constants = ones, .constant_bytes = sizeof ones,
  .num_parameters = 2, .parameter = {VECTOR("w", 0, "constant:2"), VECTOR("g", 4096, "zeros")},
  .num_outputs = 1, .output = {{.name = "loss", .layout = 1, .ref = OUT(S, 0, 4), .loss = true}}};

static mscrt_status *five_steps(mscrt_context *c, double *out) { return mscrt_run(c, "train", 5, out); }

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
static const call_text look[] = {{.kind = PLAN_CALL_KIND_KERNEL, .index = CHECK, .num_buffers = 2, .buffers = {IN(I, 0, 16), OUT(S, 0, 4)}, .num_dims = 1, .dims = {5},
                                  .extent = 4, .grain = 64, .name = "rows", .loc = "net.py:7", .checks = true}};
static const plan_text looking = {ONE_RANK, .num_sections = 1, .section = {{"forward", 64, 1, look}}, .input_stride = 16,
                                  .num_inputs = 1, .input = {{.name = "x", .dtype = MSCRT_I32, .rank = 1, .shape = {4}, .layout = 0, .ref = IN(I, 0, 16), .batch_dim = -1}}};

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
  expect_failure(&looking, good_then_bad, 1, "rank 0: step 0: rows at net.py:7: an index is out of range", WITH());
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
  product = (call_text){.kind = PLAN_CALL_KIND_MATMUL, .num_buffers = form.bias ? 4 : 3, .name = "product",
                        .buffers = {IN(P, 0, bytes_of(a)), IN(P, ROOM, bytes_of(b)), OUT(S, 0, bytes_of(BATCH * M * W)), IN(P, 2 * ROOM, bytes_of(W))}};
#define PART(text, elems, at) {.name = text, .dtype = (uint8_t)form.dtype, .rank = 1, .shape = {(uint64_t)(elems)}, .ref = OUT(P, at, bytes_of(elems)), .init = "uniform:1"}
  multiplying = (plan_text){ONE_RANK, .num_matmuls = 1, .matmul = {form}, .num_sections = 1, .section = {{"forward", ROOM, 1, &product}}, .persistent = 3 * ROOM,
                            .num_parameters = 3, .parameter = {PART("a", a, 0), PART("b", b, ROOM), PART("bias", W, 2 * ROOM)},
                            .num_outputs = 1, .output = {{.name = "c", .dtype = (uint8_t)form.dtype, .rank = 1, .shape = {BATCH * M * W}, .ref = OUT(S, 0, bytes_of(BATCH * M * W))}}};
}

static void read_numbers(mscrt_context *c, const char *name, double *out) {
  mscrt_tensor t;
  mscrt_status *s = mscrt_local(c, name, &t);
  if (s) fail_msg("%s", mscrt_status_text(s));
  mscrt_convert(MSCRT_F64, out, 1, t.dtype, t.data, false, false, t.size[0]);
}

static double expected(const double *a, const double *b, const double *bias, int64_t batch, int64_t i, int64_t j) {
  double sum = form.bias ? bias[j] : 0;
  for (int64_t k = 0; k < K; k++)
    sum += a[batch * M * K + (form.transpose_a ? k * M + i : i * K + k)] * b[batch * form.stride_b + (form.transpose_b ? j * K + k : k * W + j)];
  return form.relu && sum < 0 ? 0 : sum;
}

/* Out comes the largest difference. */
static mscrt_status *multiply(mscrt_context *c, double *out) {
  double a[BATCH * M * K], b[BATCH * K * W], bias[W], result[BATCH * M * W];
  for (int i = 0; i < 3; i++) { /* the third is a replay */
    mscrt_status *s = mscrt_run(c, "forward", 1, NULL);
    if (s) return s;
  }
  read_numbers(c, "a", a), read_numbers(c, "b", b), read_numbers(c, "bias", bias), read_numbers(c, "c", result);
  for (int64_t i = 0; i < BATCH * M * W; i++) *out = fmax(*out, fabs(result[i] - expected(a, b, bias, i / (M * W), i / W % M, i % W)));
  return NULL;
}

static void products_are_right_in_all_forms(void **state) {
  static const struct { mscrt_dtype dtype; double error; } types[] = {{MSCRT_F32, 1e-6}, {MSCRT_BF16, 2e-2}, {MSCRT_F16, 2e-3}, {MSCRT_F64, 1e-14}};
  (void)state;
  for (int i = 0; i < 16; i++) {
    job j;
    form = (mscrt_matmul){.dtype = types[(i + i / 4) % 4].dtype, .transpose_a = i & 1, .transpose_b = i >> 1 & 1, .bias = i >> 2 & 1, .relu = i >> 3 & 1, .stride_b = i % 3 ? K * W : 0};
    describe_product();
    run_with(&j, &multiplying, 1, multiply, WITH());
    if (!(result_of(&j) < types[(i + i / 4) % 4].error)) fail_msg("form %d: error %s", i, j.words[0]);
  }
}

static int count_calls(const char *log, const char *function) {
  int num = 0;
  FILE *f = fopen(log, "r");
  for (char line[128]; f && fgets(line, sizeof line, f);) num += strstr(line, function) != NULL;
  if (f) fclose(f);
  return num;
}

/* Only who is told to measures; then everybody knows, from the file.  A damaged line is measured again. */
static void products_are_measured_once(void **state) {
  char file[] = "/tmp/msc-choices-XXXXXX", log[] = "/tmp/msc-cuda-XXXXXX", setting[64];
  static const struct { bool tune; int asked, measured; } runs[] = {{false, 1, 0}, {true, 1, 3}, {true, 0, 0}, {false, 0, 0}, {false, 1, 0}, {true, 1, 3}};
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

/* ---- graphs ---- */

enum { NUM_X = 2 * 4 * 5 * 6, NUM_W = 6 * 2 * 3 * 3, NUM_Y = 2 * 6 * 3 * 6 };
static const uint64_t conv_elems[] = {NUM_X, NUM_W, NUM_Y};
static call_text conv_call;
static plan_text convolving;

/* Which of x, w and y the graph's operands are; the last is the result. */
static const int conv_roles[][3] = {[PLAN_GRAPH_KIND_CONV] = {0, 1, 2}, [PLAN_GRAPH_KIND_CONV_DATA] = {2, 1, 0}, [PLAN_GRAPH_KIND_CONV_WEIGHT] = {0, 2, 1}};

/* Two groups; steps of two down, gaps of one across. */
static void describe_convolution(uint8_t kind) {
  static const mscrt_graph_tensor tensor[] = {{MSCRT_F32, {2, 4, 5, 6}, {120, 30, 6, 1}}, {MSCRT_F32, {6, 2, 3, 3}, {18, 9, 3, 1}}, {MSCRT_F32, {2, 6, 3, 6}, {108, 18, 6, 1}}};
  static const char *const names[] = {"x", "w", "y"};
  mscrt_graph g = {.kind = kind, .num_operands = 3, .deterministic = true, .step = {2, 1}, .dilation = {1, 2}, .padding = {1, 2}, .bytes = 512};
  conv_call = (call_text){.kind = PLAN_CALL_KIND_GRAPH, .num_buffers = 3, .name = "conv", .loc = "net.py:3"};
  convolving = (plan_text){ONE_RANK, .num_sections = 1, .section = {{"forward", ROOM, 1, &conv_call}}, .persistent = 2 * ROOM, .num_parameters = 2, .num_outputs = 1};
  for (int i = 0; i < 3; i++) {
    int role = conv_roles[kind][i];
    plan_ref ref = {i < 2 ? (uint64_t)i * ROOM : 0, 4 * conv_elems[role], i < 2 ? P : S, i == 2, {0}};
    variable_text v = {.name = names[role], .rank = 1, .shape = {conv_elems[role]}, .ref = ref, .init = i < 2 ? "uniform:1" : NULL};
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
    int k = i % 3, l = i / 3 % 3, channel = i / 9 % 2, column = i / 18 % 6, row = i / 108 % 3, o = i / 324 % 6, n = i / 1944;
    int h = 2 * row + k - 1, w = column + 2 * l - 2;
    if (h < 0 || h >= 5 || w < 0 || w >= 6) continue;
    double *at[] = {&of[0][n * 120 + (o / 3 * 2 + channel) * 30 + h * 6 + w], &of[1][o * 18 + channel * 9 + k * 3 + l], &of[2][n * 108 + o * 18 + row * 6 + column]};
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
  for (int i = 0; i < 3; i++) read_numbers(c, names[i], i == result ? got : value[i]);
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

/* The first engine wants too much, the second narrows, the third's products are narrow. */
static void missing_engines_are_told(void **state) {
  (void)state;
  describe_convolution(PLAN_GRAPH_KIND_CONV);
  expect_failure(&convolving, compare_convolution, 3,
                 "cuDNN 91900 has no engine for a convolution of f32 [2,4,5,6] and [6,2,3,3] within 512 bytes on stand-in 0 (3 offered, 2 of them unfit, 1099511627776 would do); compile with --set library_convolution=false",
                 WITH("MSC_STANDIN_ENGINES=3"));
  expect_failure(&convolving, compare_convolution, 3, "cuDNN: cudnnBackendFinalize failed: CUDNN_STATUS_NOT_SUPPORTED", WITH("MSC_STANDIN_FAIL=cudnnBackendFinalize:2:3000"));
  expect_failure(&convolving, compare_convolution, 3, "conv at net.py:3: cuDNN: cudnnBackendExecute failed", WITH("MSC_STANDIN_FAIL=cudnnBackendExecute:1:5000"));
}

/* ---- collectives ---- */

/* On two ranks: w is gathered, ones are added, what all have is summed and cut, a quarter of that is added to w: w = 1.5 w + 0.5.
 * m goes from rows to columns and back, into `same`. */
enum { ROWS = 25, COLUMNS = 40, W_AT = 0, SUM_AT = 4096, M_AT = 8192, SAME_AT = 12288, G_AT = 0, COLS_AT = 8192, LOSS_AT = 4096, ALL_AT = 4160, HALF = 4 * N / 2, MROWS = 4 * 13 * COLUMNS, MCOLS = 4 * 20 * ROWS };
static const call_text meeting[] = {
  {.kind = PLAN_CALL_KIND_COLLECTIVE, .index = 0, .num_buffers = 2, .buffers = {IN(P, W_AT, HALF), OUT(S, G_AT, 4 * N)}, .name = "gather w"},
  {.kind = PLAN_CALL_KIND_COLLECTIVE, .index = 3, .num_buffers = 2, .buffers = {IN(P, M_AT, MROWS), OUT(S, COLS_AT, MCOLS)}, .name = "to columns"},
  {.kind = PLAN_CALL_KIND_KERNEL, .index = AXPY, .num_buffers = 2, .buffers = {IN(C, 0, 4 * N), OUT(S, G_AT, 4 * N)}, .num_scalars = 1, .scalars = {1}, .extent = N, .grain = 64, .name = "add ones"},
  {.kind = PLAN_CALL_KIND_COLLECTIVE, .index = 1, .num_buffers = 2, .buffers = {IN(S, G_AT, 4 * N), OUT(P, SUM_AT, HALF)}, .name = "sum and cut"},
  {.kind = PLAN_CALL_KIND_KERNEL, .index = SUMSQ, .num_buffers = 2, .buffers = {IN(S, G_AT, 4 * N), OUT(S, LOSS_AT, 4)}, .num_dims = 1, .dims = {N}, .num_scalars = 1, .scalars = {0.5}, .name = "loss"},
  {.kind = PLAN_CALL_KIND_COLLECTIVE, .index = 2, .num_buffers = 2, .buffers = {IN(S, LOSS_AT, 4), OUT(S, ALL_AT, 4)}, .name = "sum losses"},
  {.kind = PLAN_CALL_KIND_KERNEL, .index = AXPY, .num_buffers = 2, .buffers = {IN(P, SUM_AT, HALF), OUT(P, W_AT, HALF)}, .num_scalars = 1, .scalars = {0.25}, .extent = N / 2, .grain = 64, .name = "update"},
  {.kind = PLAN_CALL_KIND_COLLECTIVE, .index = 4, .num_buffers = 2, .buffers = {IN(S, COLS_AT, MCOLS), OUT(P, SAME_AT, MROWS)}, .name = "to rows"},
};
#define CUT(text, at, start) {.name = text, .rank = 1, .shape = {N}, .layout = 2, .ref = OUT(P, at, HALF), .init = start}
#define TABLE(text, at, start) {.name = text, .rank = 2, .shape = {ROWS, COLUMNS}, .layout = 5, .ref = OUT(P, at, MROWS), .init = start}
static const plan_text meeting_plan = {
  .num_axes = 1, .axes = {2}, KERNELS, .num_layouts = 7, .layouts = {"1:|", "0:|", "1:0|", "1:|0", "0:|0", "2:0;|", "2:;0|"},
  .num_collectives = 5, .collective = {{.verb = MSCRT_ALL_GATHER, .rank = 1, .shape = {N}, .from = 2, .to = 0}, {.verb = MSCRT_REDUCE_SCATTER, .rank = 1, .shape = {N}, .from = 3, .to = 2},
                                       {.verb = MSCRT_ALL_REDUCE, .from = 4, .to = 1}, {.verb = MSCRT_ALL_TO_ALL, .rank = 2, .shape = {ROWS, COLUMNS}, .from = 5, .to = 6},
                                       {.verb = MSCRT_ALL_TO_ALL, .rank = 2, .shape = {ROWS, COLUMNS}, .from = 6, .to = 5}},
  .num_sections = 1, .section = {{"train", 16384, 8, meeting}}, .persistent = 16384, .constants = ones, .constant_bytes = sizeof ones,
  .num_parameters = 4, .parameter = {CUT("w", W_AT, "uniform:1"), CUT("sum", SUM_AT, "zeros"), TABLE("m", M_AT, "uniform:1"), TABLE("same", SAME_AT, "zeros")},
  .num_outputs = 1, .output = {{.name = "loss", .layout = 1, .ref = OUT(S, ALL_AT, 4), .loss = true}}};

static mscrt_status *read_all(mscrt_context *c, float *w, float *m, float *same) {
  mscrt_status *s = mscrt_read(c, "w", w, 4 * N);
  if (!s) s = mscrt_read(c, "m", m, 4 * N);
  return s ? s : mscrt_read(c, "same", same, 4 * N);
}

/* The largest error of w, and one for every element of `same` that is not m's and for a wrong loss. */
static mscrt_status *meet(mscrt_context *c, double *out) {
  float w[N], now[N], m[N], same[N];
  double loss, expected_loss = 0;
  mscrt_status *s = read_all(c, w, m, same);
  if (!s) s = mscrt_run(c, "train", 4, &loss);
  if (!s) s = read_all(c, now, m, same);
  if (s) return s;
  for (int i = 0; i < N; i++) {
    for (int step = 0; step < 3; step++) w[i] = 1.5f * w[i] + 0.5f;
    expected_loss += (double)((w[i] + 1) * (w[i] + 1)); /* of both ranks, halved */
    w[i] = 1.5f * w[i] + 0.5f;
    *out = fmax(*out, fabs((double)(now[i] - w[i])));
    *out += m[i] != same[i];
  }
  *out += !(fabs(loss / expected_loss - 1) < 1e-5);
  return NULL;
}

static void expect_small(const job *j) {
  for (int r = 0; r < j->ranks; r++)
    if (j->exit[r] || !(atof(j->words[r]) < 1e-5)) fail_msg("rank %d: exit %d: %s", r, j->exit[r], j->words[r]);
}

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

/* Rank 1 leaves without a word, or stays away. */
static mscrt_status *lose_rank(mscrt_context *c, double *out) {
  mscrt_status *s = mscrt_run(c, "train", 1, out);
  if (the_rank == 1) _exit(9);
  return s ? s : mscrt_run(c, "train", 3, out);
}

static mscrt_status *stay_away(mscrt_context *c, double *out) {
  mscrt_status *s = mscrt_run(c, "train", 3, out);
  if (the_rank == 1) usleep(900000);
  return s ? s : mscrt_run(c, "train", 1, out);
}

static void expect_words(const job *j, int rank, const char *words) {
  if (!WIFEXITED(j->exit[rank]) || WEXITSTATUS(j->exit[rank]) != 3 || !strstr(j->words[rank], words)) fail_msg("rank %d: exit %d: '%s', not '%s'", rank, j->exit[rank], j->words[rank], words);
}

/* All communicators are aborted: the stand-in counts them at the end. */
static void lost_ranks_are_named(void **state) {
  job j;
  (void)state;
  run_with(&j, &meeting_plan, 2, lose_rank, WITH("MSC_STANDIN_GPUS=2"));
  expect_words(&j, 0, "(ranks 0,1): ");
  expect_words(&j, 0, "rank 1 is gone");
  timeout_ms = 300;
  run_with(&j, &meeting_plan, 2, stay_away, WITH("MSC_STANDIN_GPUS=2"));
  expect_words(&j, 0, "rank 0: step 3: the last it began is all_gather gather w (ranks 0,1): the GPU has not come to the end within 300 ms");
  expect_words(&j, 1, "rank 0 ");
  timeout_ms = 20000;
  run_with(&j, &meeting_plan, 2, meet, WITH("MSC_STANDIN_GPUS=2", "MSC_STANDIN_FAIL=ncclCommGetAsyncError:9:6"));
  expect_words(&j, 0, ": remote error");
  run_with(&j, &meeting_plan, 2, meet, WITH("MSC_STANDIN_GPUS=2", "MSC_STANDIN_FAIL=ncclCommInitRankConfig:1:2")); /* in both */
  expect_words(&j, 0, "rank 0: NCCL: meeting: an error of the stand-in's");
  expect_words(&j, 1, "rank 1: NCCL: meeting: an error of the stand-in's");
  run_with(&j, &meeting_plan, 2, meet, WITH("MSC_STANDIN_GPUS=2", "MSC_STANDIN_MEMORY=9000")); /* after they have met */
  expect_words(&j, 0, "9000 are free of 9000");
}

static void ranks_without_gpus_of_their_own(void **state) {
  job j;
  (void)state;
  comm = "nccl";
  run_with(&j, &meeting_plan, 2, meet, WITH("MSC_STANDIN_GPUS=1"));
  expect_words(&j, 0, "NCCL connects ranks that have a GPU each: 2 ranks, 1 GPU; run with --comm local");
  comm = "local";
  run_with(&j, &meeting_plan, 2, meet, WITH("MSC_STANDIN_GPUS=2"));
  expect_small(&j);
  comm = NULL;
}

/* ---- what the machine lacks ---- */

static void machines_that_lack_something(void **state) {
  (void)state;
  expect_failure(&shrinking, five_steps, 3, "the driver finds none", WITH("MSC_STANDIN_GPUS=0"));
  expect_failure(&shrinking, five_steps, 3, "the plan's code is for sm_80 and later; GPU 0, stand-in 0, is sm_75: compile with --target cuda:sm_75", WITH("MSC_STANDIN_ARCH=75"));
  expect_failure(&shrinking, five_steps, 3, "rank 0 needs 17664 bytes of the memory of GPU 0, stand-in 0: 9000 are free of 9000", WITH("MSC_STANDIN_MEMORY=9000"));
  expect_failure(&shrinking, five_steps, 3, "the GPU was lost while it worked: CUDA_ERROR_ILLEGAL_ADDRESS", WITH("MSC_STANDIN_FAIL=cuStreamSynchronize:5:700"));
  form = (mscrt_matmul){.dtype = MSCRT_F32};
  describe_product();
  expect_failure(
      &multiplying, multiply, 3,
      "cuBLASLt 130000 has no algorithm for a product of f32, 5 x 6 x 7 with epilogue 1, within 1024 bytes on stand-in 0 (status 15)",
      WITH("MSC_STANDIN_FAIL=cublasLtMatmulAlgoGetHeuristic:1:15"));
  expect_failure(&shrinking, five_steps, 3, "update: the GPU's driver refused cuLaunchKernel", WITH("MSC_STANDIN_FAIL=cuLaunchKernel:3:1"));
  expect_failure(&shrinking, five_steps, 3, "the GPU was lost while it worked: CUDA_ERROR_LAUNCH_FAILED", WITH("MSC_STANDIN_FAIL=cuGraphLaunch:2:719"));
  expect_failure(&shrinking, five_steps, 3, "the GPU's driver refused cuInit: ", WITH("MSC_STANDIN_FAIL=cuInit:1:803"));
  expect_failure(&shrinking, five_steps, 3, "the plan's kernels are in a version of PTX that GPU 0's driver is too old for: install a newer one, or compile with --target cuda:sm_90 where ptxas is",
                 WITH("MSC_STANDIN_FAIL=cuModuleLoadDataEx:1:222"));
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

/* ---- the stand-in itself ---- */

static const call_text diverging[] = {{.kind = PLAN_CALL_KIND_KERNEL, .index = DIVERGES, .num_buffers = 1, .buffers = {IN(P, 0, 4)}}};
static const plan_text diverges = {ONE_RANK, .num_sections = 1, .section = {{"train", 64, 1, diverging}}, .persistent = 64};

static void broken_kernels_are_told(void **state) {
  job j;
  (void)state;
  run_with(&j, &diverges, 1, five_steps, WITH());
  assert_int_equal(WEXITSTATUS(j.exit[0]), 97);
  assert_non_null(strstr(j.words[0], "block 0: 32 threads of 64 are at a barrier, 32 have left (divergent barrier)"));
}

/* Finds the stand-in beside this program, under the names of NVIDIA's libraries. */
static void use_standin(char **argv) {
  char path[4096], *slash;
  ssize_t n = readlink("/proc/self/exe", path, sizeof path - 64);
  if (n < 0) exit(3);
  path[n] = 0;
  slash = strrchr(path, '/');
  strcpy(slash, "/standin");
  if (getenv("LD_LIBRARY_PATH") && strstr(getenv("LD_LIBRARY_PATH"), path)) return;
  setenv("LD_LIBRARY_PATH", path, 1);
  execv("/proc/self/exe", argv);
  exit(3);
}

/* The kernels are made for this machine beside the program: the source folder stays as it is. */
static void place_kernels(void) {
  char program[4096], ir[4100], command[9000];
  ssize_t n = readlink("/proc/self/exe", program, sizeof program - 64);
  program[n > 0 ? n : 0] = 0;
  snprintf(ir, sizeof ir, "%s.ll", program);
  snprintf(command, sizeof command, "cmp -s tests/cuda/run/kernels.ll '%s' || cp tests/cuda/run/kernels.ll '%s'", ir, ir);
  if (system(command)) exit(3);
  setenv("MSC_STANDIN_KERNELS", ir, 1);
}

int main(int argc, char **argv) {
  (void)argc;
  if (system("command -v llc-19 >/dev/null")) {
    puts("skipped: llc-19 is missing, which makes GPU kernels run here (package llvm-19)");
    return 0;
  }
  use_standin(argv);
  place_kernels();
  for (int i = 0; i < N; i++) ones[i] = 1;
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(steps_are_right_in_any_order),
    cmocka_unit_test(values_come_back),
    cmocka_unit_test(bad_index_is_told),
    cmocka_unit_test(products_are_right_in_all_forms),
    cmocka_unit_test(products_are_measured_once),
    cmocka_unit_test(convolutions_are_right),
    cmocka_unit_test(missing_engines_are_told),
    cmocka_unit_test(ranks_meet_through_the_host),
    cmocka_unit_test(ranks_meet_through_nccl),
    cmocka_unit_test(lost_ranks_are_named),
    cmocka_unit_test(ranks_without_gpus_of_their_own),
    cmocka_unit_test(machines_that_lack_something),
    cmocka_unit_test(replays_are_one_launch),
    cmocka_unit_test(broken_kernels_are_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
