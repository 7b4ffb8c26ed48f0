/* ranks.c: ranks of one process that one call steps: the losses of ranks that run by themselves, a wrong input after
 * which they go on, the failure that is told, calls that are refused. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/runtime/make_plan.h"

enum { MOST = 4, STEPS = 5 };

/* The sum of this rank's part of x, times w, which every step makes twice as large. */
static KERNEL void k_step(void *const *b, int64_t begin, int64_t end, const int64_t *dims, const double *scalars) {
  float *w = b[1], sum = 0;
  (void)begin, (void)end, (void)scalars;
  for (int64_t i = 0; i < dims[0]; i++) sum += ((const float *)b[0])[i];
  *(float *)b[2] = sum * *w;
  *w *= 2;
}

static void expect_ok(mscrt_status *s) {
  if (s) fail_msg("%s\n%s", mscrt_status_text(s), mscrt_status_trail(s));
}

static void expect_failure(mscrt_status *s, mscrt_code code, const char *text) {
  assert_non_null(s);
  if (mscrt_status_code(s) != code || !strstr(mscrt_status_text(s), text))
    fail_msg("code %d: %s", mscrt_status_code(s), mscrt_status_text(s));
  mscrt_status_free(s);
}

static mscrt_plan *open_plan(int ranks, int elems) {
  uint64_t part = (uint64_t)elems / (uint64_t)ranks * 4;
  call_text calls[] = {
    {.num_buffers = 3, .buffers = {IN(I, 0, part), OUT(P, 0, 4), OUT(S, 0, 4)}, .num_dims = 1,
     .dims = {elems / ranks}, .extent = 1, .grain = 1},
    {.kind = PLAN_CALL_KIND_COLLECTIVE, .num_buffers = 2, .buffers = {IN(S, 0, 4), OUT(S, 4, 4)}},
  };
  plan_text t = {.num_axes = 1,
                 .axes = {(uint32_t)ranks},
                 .num_layouts = 3,
                 .layouts = {"1:0", "0:|0", "0:"},
                 .num_kernels = 1,
                 .kernel = {{"step", k_step, 3, 1, 0}},
                 .num_collectives = 1,
                 .collective = {{MSC_ALL_REDUCE, MSCRT_F32, 0, {0}, 1, 2, MSC_SUM}},
                 .num_sections = 1,
                 .section = {{"train", 8, 2, calls}},
                 .persistent = 4,
                 .input_stride = part,
                 .num_parameters = 1,
                 .parameter = {{"w", MSCRT_F32, 0, {0}, 2, IN(P, 0, 4), "ones", .loss = false}},
                 .num_inputs = 1,
                 .input = {{"x", MSCRT_F32, 1, {(uint64_t)elems}, 0, IN(I, 0, part), .loss = false}},
                 .num_outputs = 1,
                 .output = {{"loss", MSCRT_F32, 0, {0}, 2, IN(S, 4, 4), .loss = true}}};
  size_t size;
  mscrt_plan *plan;
  uint8_t *bytes = make_plan(&t, &size);
  expect_ok(mscrt_plan_open(bytes, size, &(mscrt_plan_options){sizeof(mscrt_plan_options), true}, &plan));
  free(bytes);
  return plan;
}

typedef struct {
  const mscrt_plan *plan;
  int rank, ranks;
  const char *address;
  mscrt_context *context;
  mscrt_status *status;
} opening;

static void *open_rank(void *arg) {
  opening *o = arg;
  mscrt_options options = {.struct_size = sizeof options, .rank = o->rank, .ranks = o->ranks, .address = o->address,
                           .threads = 1, .timeout_ms = 20000};
  o->status = mscrt_open(o->plan, &options, &o->context);
  return NULL;
}

static void *close_rank(void *context) {
  mscrt_close(context);
  return NULL;
}

static void on_threads(int ranks, void *(*function)(void *), void *const *args) {
  pthread_t thread[MOST];
  for (int r = 0; r < ranks; r++) assert_int_equal(pthread_create(&thread[r], NULL, function, args[r]), 0);
  for (int r = 0; r < ranks; r++) pthread_join(thread[r], NULL);
}

static void open_job(const mscrt_plan *plan, mscrt_context **contexts) {
  static int number;
  int ranks = mscrt_plan_ranks(plan);
  char address[48];
  opening o[MOST] = {{0}};
  void *args[MOST] = {0};
  snprintf(address, sizeof address, "@msc-ranks-%d-%d", getpid(), number++);
  for (int r = 0; r < ranks; r++) args[r] = &o[r], o[r] = (opening){plan, r, ranks, address, NULL, NULL};
  on_threads(ranks, open_rank, args);
  for (int r = 0; r < ranks; r++) expect_ok(o[r].status), contexts[r] = o[r].context;
}

static void close_job(int ranks, mscrt_context **contexts) {
  void *args[MOST] = {0};
  for (int r = 0; r < ranks; r++) args[r] = contexts[r];
  on_threads(ranks, close_rank, args);
}

/* Small batches, which the caller's thread sets, and large ones, which every rank does. */
static void one_call_steps_all(void **state) {
  (void)state;
  for (int ranks = 1; ranks <= MOST; ranks++)
    for (int elems = 12; elems <= 120000; elems *= 10000) {
      mscrt_plan *plan = open_plan(ranks, elems);
      mscrt_context *context[MOST];
      mscrt_ranks *all;
      float *x = malloc((size_t)elems * 4);
      open_job(plan, context);
      expect_ok(mscrt_ranks_new(ranks, context, &all));
      double loss, scale = 1;
      for (int step = 0; step < STEPS; step++, scale *= 2) {
        for (int i = 0; i < elems; i++) x[i] = i < 12 ? (float)(i + step) : 0;
        mscrt_batch batch = {"x", x, (size_t)elems * 4};
        expect_ok(mscrt_ranks_run(all, "train", 1, 1, &batch, &loss));
        assert_true(loss == (66 + 12 * step) * scale);
      }
      mscrt_batch short_one = {"x", x, 4}, strange = {"z", x, 4};
      expect_failure(mscrt_ranks_run(all, "train", 1, 1, &short_one, &loss), MSCRT_ARGUMENT, "bytes");
      expect_failure(mscrt_ranks_run(all, "train", 1, 1, &strange, &loss), MSCRT_ARGUMENT, "'z'");
      short_one.bytes = (size_t)elems * 4 + 4;
      expect_failure(mscrt_ranks_run(all, "train", 1, 1, &short_one, &loss), MSCRT_ARGUMENT, "bytes");
      expect_failure(mscrt_ranks_run(all, "backward", 1, 0, NULL, &loss), MSCRT_INPUT, "'backward'");
      expect_ok(mscrt_ranks_run(all, "train", 3, 0, NULL, &loss)); /* on the batch before */
      assert_true(loss == 114 * scale * 4);
      for (int r = 0; r < ranks; r++) {
        mscrt_stats stats = {.struct_size = sizeof stats};
        mscrt_get_stats(context[r], &stats);
        assert_int_equal(stats.steps, STEPS + 3);
      }
      mscrt_ranks_free(all);
      close_job(ranks, context);
      mscrt_plan_close(plan);
      free(x);
    }
}

/* The rank that is cancelled, whichever it is, says why; the others only that it is gone. */
static void the_cause_is_told(void **state) {
  (void)state;
  for (int cancelled = 0; cancelled < 3; cancelled++) {
    float x[12] = {1};
    mscrt_batch batch = {"x", x, sizeof x};
    mscrt_plan *plan = open_plan(3, 12);
    mscrt_context *context[MOST];
    mscrt_ranks *all;
    open_job(plan, context);
    expect_ok(mscrt_ranks_new(3, context, &all));
    expect_ok(mscrt_ranks_run(all, "train", 1, 1, &batch, NULL));
    mscrt_cancel(context[cancelled]);
    expect_failure(mscrt_ranks_run(all, "train", 1, 1, &batch, NULL), MSCRT_CANCELLED, "");
    mscrt_ranks_free(all);
    close_job(3, context);
    mscrt_plan_close(plan);
  }
}

static void wrong_calls_are_refused(void **state) {
  (void)state;
  float x[12] = {1};
  mscrt_batch batch = {"x", x, sizeof x};
  mscrt_plan *plan = open_plan(2, 12), *other = open_plan(1, 12);
  mscrt_context *context[MOST], *alone[1];
  mscrt_ranks *all;
  open_job(plan, context);
  open_job(other, alone);
  expect_failure(mscrt_ranks_new(0, context, &all), MSCRT_ARGUMENT, "0 ranks");
  expect_failure(mscrt_ranks_new(2, NULL, &all), MSCRT_ARGUMENT, "contexts");
  expect_failure(mscrt_ranks_new(2, (mscrt_context *[]){context[1], context[1]}, &all), MSCRT_ARGUMENT, "twice");
  expect_failure(mscrt_ranks_new(2, (mscrt_context *[]){context[1], alone[0]}, &all), MSCRT_ARGUMENT,
                 "different plans");
  expect_failure(mscrt_ranks_new(2, (mscrt_context *[]){context[0], NULL}, &all), MSCRT_ARGUMENT, "contexts[i]");
  assert_null(all);
  expect_ok(mscrt_ranks_new(2, context, &all));
  expect_failure(mscrt_ranks_run(all, "train", 1, 1, NULL, NULL), MSCRT_ARGUMENT, "batches");
  expect_failure(mscrt_ranks_run(NULL, "train", 1, 1, &batch, NULL), MSCRT_ARGUMENT, "needs r");
  pid_t child = fork();
  if (child == 0) {
    mscrt_status *s = mscrt_ranks_run(all, "train", 1, 1, &batch, NULL);
    mscrt_ranks_free(all);
    _exit(mscrt_status_code(s) == MSCRT_ARGUMENT ? 0 : 1);
  }
  int status;
  waitpid(child, &status, 0);
  assert_int_equal(status, 0);
  double loss;
  expect_ok(mscrt_ranks_run(all, "train", 1, 1, &batch, &loss));
  assert_true(loss == 1);
  mscrt_ranks_free(all);
  mscrt_ranks_free(NULL);
  close_job(2, context);
  close_job(1, alone);
  mscrt_plan_close(plan);
  mscrt_plan_close(other);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(one_call_steps_all),
    cmocka_unit_test(the_cause_is_told),
    cmocka_unit_test(wrong_calls_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
