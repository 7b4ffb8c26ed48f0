/* plans.h: plans for GPUs, made by hand, and processes that execute them where there is no GPU: against the stand-in of
 * tests/cuda/standin.  Each case is a process, or several, of its own with its own idea of the machine. */
#ifndef MSC_TESTS_CUDA_PLANS_H
#define MSC_TESTS_CUDA_PLANS_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "tests/runtime/job.h"
#include "tests/runtime/make_plan.h"

#define UNUSED __attribute__((unused))
#define PTX                                                                                                       \
  ".version 7.8\n.target sm_80\n.visible .entry axpy(\n.visible .entry sumsq(\n.visible .entry check(\n.visible " \
  ".entry diverges("
#define KERNELS                                                      \
  .num_kernels = 4, .ptx = PTX, .target = "cuda", .workspace = 1024, \
  .kernel = {{"axpy", NULL, 2, 0, 1, 64},                            \
             {"sumsq", NULL, 2, 1, 1, 64},                           \
             {"check", NULL, 2, 1, 0, 64},                           \
             {"diverges", NULL, 1, 0, 0, 64}}
#define ONE_RANK .num_layouts = 2, .layouts = {"1:|", "0:|"}, KERNELS
enum { AXPY, SUMSQ, CHECK, DIVERGES, N = 1000 };

/* ---- processes ---- */

static int timeout_ms = 20000, patient_rank = -1, the_rank; /* the patient one waits ten times as long */
static const char *comm, *choices, *of_rank_1; /* a setting */
static bool tune, measure;

static void on_log(void *user, mscrt_log_level level, const char *text) {
  (void)user;
  if (level == MSCRT_LOG_WARNING) fprintf(stderr, "%s\n", text);
}

static mscrt_status *open_text(const plan_text *t, const place *p, mscrt_plan **out_plan, mscrt_context **out_ctx) {
  size_t size;
  uint8_t *bytes = make_plan(t, &size);
  *out_ctx = NULL;
  mscrt_status *s = mscrt_plan_open(bytes, size, &(mscrt_plan_options){sizeof(mscrt_plan_options), true}, out_plan);
  free(bytes);
  mscrt_options o = {.struct_size = sizeof o,
                     .threads = 1,
                     .seed = 7,
                     .timeout_ms = timeout_ms * (p->rank == patient_rank ? 10 : 1),
                     .comm = comm,
                     .choices = choices,
                     .tune = tune,
                     .measure = measure,
                     .events = measure ? 64 : 0,
                     .log = on_log};
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
  alarm(60);
  the_rank = p->rank;
  if (p->rank == 1 && of_rank_1) putenv((char *)(uintptr_t)of_rank_1);
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

static UNUSED double result_of(const job *j) {
  if (j->exit[0]) fail_msg("exit %d: %s", j->exit[0], j->words[0]);
  return atof(j->words[0]);
}

static UNUSED void expect_failure(const plan_text *t, body_fn *body, int code, const char *words,
                                  const char *const *settings) {
  job j;
  run_with(&j, t, 1, body, settings);
  if (!WIFEXITED(j.exit[0]) || WEXITSTATUS(j.exit[0]) != code || !strstr(j.words[0], words))
    fail_msg("exit %d: '%s', not '%s'", j.exit[0], j.words[0], words);
}

static UNUSED void expect_words(const job *j, int rank, const char *words) {
  if (!WIFEXITED(j->exit[rank]) || WEXITSTATUS(j->exit[rank]) != 3 || !strstr(j->words[rank], words))
    fail_msg("rank %d: exit %d: '%s', not '%s'", rank, j->exit[rank], j->words[rank], words);
}

static UNUSED int count_calls(const char *log, const char *function) {
  int num = 0;
  FILE *f = fopen(log, "r");
  for (char line[128]; f && fgets(line, sizeof line, f);) num += strstr(line, function) != NULL;
  if (f) fclose(f);
  return num;
}

/* ---- all calls ---- */

static int exit_of(const job *j, int rank) {
  return WIFEXITED(j->exit[rank]) ? WEXITSTATUS(j->exit[rank]) : -WTERMSIG(j->exit[rank]);
}

/* Calls that a rank makes when all is well. */
static int count_all_calls(const plan_text *t, int ranks, body_fn *body) {
  char path[] = "/tmp/msc-cuda-XXXXXX", setting[64];
  job j;
  close(mkstemp(path));
  snprintf(setting, sizeof setting, "MSC_STANDIN_LOG=%s", path);
  run_with(&j, t, ranks, body, WITH(setting, "MSC_STANDIN_GPUS=2"));
  for (int r = 0; r < ranks; r++)
    if (j.exit[r]) fail_msg("rank %d: exit %d: %s", r, exit_of(&j, r), j.words[r]);
  int num = (count_calls(path, " ") - count_calls(path, "Query") - count_calls(path, "GetAsyncError")) / ranks;
  unlink(path);
  return num;
}

/* One call after the other fails, on the last rank.  It says so and ends with 3, unless it was giving something back;
 * the other one is told, long before it would give up waiting.  The stand-in counts what is left, and whether
 * rules are broken. */
static UNUSED void fail_calls(const plan_text *t, int ranks, body_fn *body, const char *result, int every) {
  int num = count_all_calls(t, ranks, body);
  int failed = 0;
  timeout_ms = 30000;
  for (int k = 1; k <= num; k += every) {
    char setting[64];
    job j;
    snprintf(setting, sizeof setting, "MSC_STANDIN_FAIL=any:%d:%s", k, result);
    if (ranks > 1) of_rank_1 = setting;
    time_t begin = time(NULL);
    run_with(&j, t, ranks, body, ranks > 1 ? WITH("MSC_STANDIN_GPUS=2") : WITH(setting));
    for (int r = 0; r < ranks; r++) {
      int code = exit_of(&j, r);
      failed += code == 3;
      if ((code != 0 && code != 3) || (code == 3 && !*j.words[r]) || time(NULL) - begin > 15)
        fail_msg("call %d of %d fails with %s: rank %d: exit %d: %s", k, num, result, r, code, j.words[r]);
    }
  }
  timeout_ms = 20000, of_rank_1 = NULL;
  if (failed < num / every / 2) fail_msg("only %d of %d failures were told", failed, num / every);
}

/* ---- plans ---- */

/* loss = 0.5 * |w|^2; w -= 0.25 * w, by way of g, so that steps differ */
static const call_text shrink[] = {
  {.kind = PLAN_CALL_KIND_KERNEL, .index = SUMSQ, .num_buffers = 2, .buffers = {IN(P, 0, 4 * N), OUT(S, 0, 4)},
   .num_dims = 1, .dims = {N}, .num_scalars = 1, .scalars = {0.5}, .name = "loss"},
  {.kind = PLAN_CALL_KIND_KERNEL, .index = AXPY, .num_buffers = 2, .buffers = {IN(C, 0, 4 * N), OUT(P, 4096, 4 * N)},
   .num_scalars = 1, .scalars = {1}, .extent = N, .grain = 64, .name = "add ones"},
  {.kind = PLAN_CALL_KIND_KERNEL, .index = AXPY, .num_buffers = 2, .buffers = {IN(P, 4096, 4 * N), OUT(P, 0, 4 * N)},
   .num_scalars = 1, .scalars = {-0.25}, .extent = N, .grain = 200, .name = "update"},
};
static float ones[N];
static const section_text train_shrink = {"train", 64, 3, shrink, .stage = 0};
#define VECTOR(text, at, start) \
  { .name = text, .rank = 1, .shape = {N}, .layout = 0, .ref = OUT(P, at, 4 * N), .init = start }
static UNUSED const plan_text shrinking = {
  ONE_RANK, .num_sections = 1, .section = {train_shrink}, .persistent = 8192, .constants = ones,
      .constant_bytes = sizeof ones,
  .num_parameters = 2, .parameter = {VECTOR("w", 0, "constant:2"), VECTOR("g", 4096, "zeros")},
  .num_outputs = 1, .output = {{.name = "loss", .layout = 1, .ref = OUT(S, 0, 4), .loss = true}}};

static UNUSED mscrt_status *five_steps(mscrt_context *c, double *out) { return mscrt_run(c, "train", 5, out); }

/* ---- two ranks ---- */

/* On two ranks: w is gathered, ones are added, what all have is summed and cut, a quarter of that is added to w: w =
 * 1.5 w + 0.5.  m goes from rows to columns and back, into `same`. */
enum {
  ROWS = 25,
  COLUMNS = 40,
  W_AT = 0,
  SUM_AT = 4096,
  M_AT = 8192,
  SAME_AT = 12288,
  G_AT = 0,
  COLS_AT = 8192,
  LOSS_AT = 4096,
  ALL_AT = 4160,
  HALF = 4 * N / 2,
  MROWS = 4 * 13 * COLUMNS,
  MCOLS = 4 * 20 * ROWS
};
static const call_text meeting[] = {
  {.kind = PLAN_CALL_KIND_COLLECTIVE, .index = 0, .num_buffers = 2, .buffers = {IN(P, W_AT, HALF), OUT(S, G_AT, 4 * N)},
   .name = "gather w"},
  {.kind = PLAN_CALL_KIND_COLLECTIVE, .index = 3, .num_buffers = 2, .buffers = {IN(P, M_AT, MROWS), OUT(S, COLS_AT,
   MCOLS)}, .name = "to columns"},
  {.kind = PLAN_CALL_KIND_KERNEL, .index = AXPY, .num_buffers = 2, .buffers = {IN(C, 0, 4 * N), OUT(S, G_AT, 4 * N)},
   .num_scalars = 1, .scalars = {1}, .extent = N, .grain = 64, .name = "add ones"},
  {.kind = PLAN_CALL_KIND_COLLECTIVE, .index = 1, .num_buffers = 2, .buffers = {IN(S, G_AT, 4 * N), OUT(P, SUM_AT,
   HALF)}, .name = "sum and cut"},
  {.kind = PLAN_CALL_KIND_KERNEL, .index = SUMSQ, .num_buffers = 2, .buffers = {IN(S, G_AT, 4 * N), OUT(S, LOSS_AT, 4)},
   .num_dims = 1, .dims = {N}, .num_scalars = 1, .scalars = {0.5}, .name = "loss"},
  {.kind = PLAN_CALL_KIND_COLLECTIVE, .index = 2, .num_buffers = 2, .buffers = {IN(S, LOSS_AT, 4), OUT(S, ALL_AT, 4)},
   .name = "sum losses"},
  {.kind = PLAN_CALL_KIND_KERNEL, .index = AXPY, .num_buffers = 2, .buffers = {IN(P, SUM_AT, HALF), OUT(P, W_AT, HALF)},
   .num_scalars = 1, .scalars = {0.25}, .extent = N / 2, .grain = 64, .name = "update"},
  {.kind = PLAN_CALL_KIND_COLLECTIVE, .index = 4, .num_buffers = 2, .buffers = {IN(S, COLS_AT, MCOLS), OUT(P, SAME_AT,
   MROWS)}, .name = "to rows"},
};
#define CUT(text, at, start) \
  { .name = text, .rank = 1, .shape = {N}, .layout = 2, .ref = OUT(P, at, HALF), .init = start }
#define TABLE(text, at, start) \
  { .name = text, .rank = 2, .shape = {ROWS, COLUMNS}, .layout = 5, .ref = OUT(P, at, MROWS), .init = start }
static UNUSED const plan_text meeting_plan = {
    .num_axes = 1,
    .axes = {2},
    KERNELS,
    .num_layouts = 7,
    .layouts = {"1:|", "0:|", "1:0|", "1:|0", "0:|0", "2:0;|", "2:;0|"},
    .num_collectives = 5,
    .collective = {{.verb = MSC_ALL_GATHER, .rank = 1, .shape = {N}, .from = 2, .to = 0},
                   {.verb = MSC_REDUCE_SCATTER, .rank = 1, .shape = {N}, .from = 3, .to = 2},
                   {.verb = MSC_ALL_REDUCE, .from = 4, .to = 1},
                   {.verb = MSC_ALL_TO_ALL, .rank = 2, .shape = {ROWS, COLUMNS}, .from = 5, .to = 6},
                   {.verb = MSC_ALL_TO_ALL, .rank = 2, .shape = {ROWS, COLUMNS}, .from = 6, .to = 5}},
    .num_sections = 1,
    .section = {{"train", 16384, 8, meeting}},
    .persistent = 16384,
    .constants = ones,
    .constant_bytes = sizeof ones,
    .num_parameters = 4,
    .parameter = {CUT("w", W_AT, "uniform:1"), CUT("sum", SUM_AT, "zeros"), TABLE("m", M_AT, "uniform:1"),
                  TABLE("same", SAME_AT, "zeros")},
    .num_outputs = 1,
    .output = {{.name = "loss", .layout = 1, .ref = OUT(S, ALL_AT, 4), .loss = true}}};

static mscrt_status *read_all(mscrt_context *c, float *w, float *m, float *same) {
  mscrt_status *s = mscrt_read(c, "w", w, 4 * N);
  if (!s) s = mscrt_read(c, "m", m, 4 * N);
  return s ? s : mscrt_read(c, "same", same, 4 * N);
}

/* The largest error of w, and one for every element of `same` that is not m's and for a wrong loss. */
static UNUSED mscrt_status *meet(mscrt_context *c, double *out) {
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

static UNUSED void expect_small(const job *j) {
  for (int r = 0; r < j->ranks; r++)
    if (j->exit[r] || !(atof(j->words[r]) < 1e-5)) fail_msg("rank %d: exit %d: %s", r, j->exit[r], j->words[r]);
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
  snprintf(command, sizeof command, "cmp -s tests/cuda/run/kernels.ll '%s' || cp tests/cuda/run/kernels.ll '%s'", ir,
           ir);
  if (system(command)) exit(3);
  setenv("MSC_STANDIN_KERNELS", ir, 1);
}

/* False: there is nothing that makes kernels run here, which is told. */
static UNUSED bool prepare(char **argv) {
  if (system("command -v llc-19 >/dev/null")) {
    puts("skipped: llc-19 is missing, which makes GPU kernels run here (package llvm-19)");
    return false;
  }
  use_standin(argv);
  place_kernels();
  for (int i = 0; i < N; i++) ones[i] = 1;
  return true;
}

#endif
