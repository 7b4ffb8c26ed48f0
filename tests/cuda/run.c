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
  .num_layouts = 2, .layouts = {"1:|", "0:|"}, .num_kernels = 4, .ptx = PTX, .target = "cuda", .workspace = 1024,                                \
  .kernel = {{"axpy", NULL, 2, 0, 1, 64}, {"sumsq", NULL, 2, 1, 1, 64}, {"check", NULL, 2, 1, 0, 64}, {"diverges", NULL, 1, 0, 0, 64}}
enum { AXPY, SUMSQ, CHECK, DIVERGES, N = 1000 };

/* ---- processes ---- */

static mscrt_status *open_text(const plan_text *t, const place *p, mscrt_plan **out_plan, mscrt_context **out_ctx) {
  size_t size;
  uint8_t *bytes = make_plan(t, &size);
  *out_ctx = NULL;
  mscrt_status *s = mscrt_plan_open(bytes, size, &(mscrt_plan_options){sizeof(mscrt_plan_options), true}, out_plan);
  free(bytes);
  mscrt_options o = {.struct_size = sizeof o, .threads = 1, .seed = 7, .timeout_ms = 20000};
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
  KERNELS, .num_sections = 1, .section = {train_shrink}, .persistent = 8192, .constants = ones, .constant_bytes = sizeof ones,
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
static const plan_text looking = {KERNELS, .num_sections = 1, .section = {{"forward", 64, 1, look}}, .input_stride = 16,
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

/* ---- what the machine lacks ---- */

static void machines_that_lack_something(void **state) {
  (void)state;
  expect_failure(&shrinking, five_steps, 3, "the driver finds none", WITH("MSC_STANDIN_GPUS=0"));
  expect_failure(&shrinking, five_steps, 3, "the plan's code is for sm_80 and later; GPU 0, stand-in 0, is sm_75: compile with --target cuda:sm_75", WITH("MSC_STANDIN_ARCH=75"));
  expect_failure(&shrinking, five_steps, 3, "rank 0 needs 17664 bytes of the memory of GPU 0, stand-in 0: 9000 are free of 9000", WITH("MSC_STANDIN_MEMORY=9000"));
  expect_failure(&shrinking, five_steps, 3, "the GPU was lost while it worked: CUDA_ERROR_ILLEGAL_ADDRESS", WITH("MSC_STANDIN_FAIL=cuStreamSynchronize:5:700"));
  expect_failure(&shrinking, five_steps, 3, "update: the GPU's driver refused cuLaunchKernel", WITH("MSC_STANDIN_FAIL=cuLaunchKernel:3:1"));
}

/* Calls of this process while it is asked: the driver has them all, but what is left after the first steps. */
static void replays_are_one_launch(void **state) {
  job j;
  char path[] = "/tmp/msc-cuda-XXXXXX", text[128];
  (void)state;
  int fd = mkstemp(path), graphs = 0, kernels = 0;
  snprintf(text, sizeof text, "MSC_STANDIN_LOG=%s", path);
  run_with(&j, &shrinking, 1, five_steps, WITH(text));
  result_of(&j);
  FILE *f = fdopen(fd, "r");
  for (char line[128]; fgets(line, sizeof line, f);) graphs += strstr(line, "cuGraphLaunch") != NULL, kernels += strstr(line, "cuLaunchKernel") != NULL;
  fclose(f);
  unlink(path);
  assert_int_equal(graphs, 4);
  assert_int_equal(kernels, 6);
}

/* ---- the stand-in itself ---- */

static const call_text diverging[] = {{.kind = PLAN_CALL_KIND_KERNEL, .index = DIVERGES, .num_buffers = 1, .buffers = {IN(P, 0, 4)}}};
static const plan_text diverges = {KERNELS, .num_sections = 1, .section = {{"train", 64, 1, diverging}}, .persistent = 64};

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
    cmocka_unit_test(machines_that_lack_something),
    cmocka_unit_test(replays_are_one_launch),
    cmocka_unit_test(broken_kernels_are_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
