/* embed.c: a program that contains a model compiles it through ir/msc.h and trains it through runtime/mscrt.h,
 * without a file or another process; errors come back as messages. */
#include "ir/msc.h"
#include "runtime/mscrt.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

/* y = x w: the least squares find w = (1, 2). */
static const char model[] =
    "module {\n"
    "  \"msc.func\"() ({\n"
    "  ^bb0(%x: tensor<4x2xf32>, %w: tensor<2x1xf32>, %y: tensor<4x1xf32>):\n"
    "    %0 = \"msc.matmul\"(%x, %w) : (tensor<4x2xf32>, tensor<2x1xf32>) -> tensor<4x1xf32>\n"
    "    %1 = \"msc.sub\"(%0, %y) : (tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x1xf32>\n"
    "    %2 = \"msc.mul\"(%1, %1) : (tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x1xf32>\n"
    "    %3 = \"msc.reduce_mean\"(%2) {dims = [0, 1]} : (tensor<4x1xf32>) -> tensor<f32>\n"
    "    \"msc.return\"(%3) : (tensor<f32>) -> ()\n"
    "  }) {sym_name = \"forward\", loss = 0 : i64, results = [\"loss\"], optimizer = {kind = \"sgd\", lr = 0.2 : "
    "f32},\n"
    "      arg_attrs = [{msc.name = \"x\", msc.role = \"data\"}, {msc.name = \"w\", msc.role = \"parameter\", msc.init "
    "= \"zeros\"},\n"
    "                   {msc.name = \"y\", msc.role = \"data\"}]} : () -> ()\n"
    "}\n";

static const float all_x[8] = {1, 0, 0, 1, 1, 1, 1, -1}, all_y[4] = {1, 2, 3, -1};

static void expect_ok(mscrt_status *s) {
  if (s) fail_msg("%s\n%s", mscrt_status_text(s), mscrt_status_trail(s));
}

static int is_refused(mscrt_status *s) {
  char wanted[80];
  snprintf(wanted, sizeof wanted, "this context belongs to process %d,", (int)getppid());
  bool is = mscrt_status_code(s) == MSCRT_ARGUMENT && !strncmp(mscrt_status_text(s), wanted, strlen(wanted));
  mscrt_status_free(s);
  return is;
}

/* A forked process has none of the threads and connections of a context: each call says whose it is. */
static void expect_refused_in_fork(mscrt_context *ctx) {
  int status;
  float w[2];
  mscrt_tensor t;
  mscrt_evaluation e = {.struct_size = sizeof e};
  pid_t child = fork();
  if (child == 0) {
    alarm(60);
    int num = is_refused(mscrt_run(ctx, "train", 1, NULL)) + is_refused(mscrt_read(ctx, "w", w, sizeof w)) +
              is_refused(mscrt_local(ctx, "w", &t)) + is_refused(mscrt_set_input(ctx, "x", all_x, sizeof all_x)) +
              is_refused(mscrt_save(ctx, "w.safetensors")) + is_refused(mscrt_load(ctx, "w.safetensors")) +
              is_refused(mscrt_checkpoint(ctx, "w.ckpt")) + is_refused(mscrt_resume(ctx, "w.ckpt")) +
              is_refused(mscrt_evaluate(ctx, &e)) + is_refused(mscrt_predict(ctx, 0, NULL));
    mscrt_cancel(ctx);
    mscrt_close(ctx);
    _exit(num);
  }
  assert_true(waitpid(child, &status, 0) == child && WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 10);
}

static void train(const void *bytes, size_t size) {
  mscrt_plan *plan;
  mscrt_context *ctx;
  double first, last;
  float w[2];
  expect_ok(mscrt_plan_open(bytes, size, &(mscrt_plan_options){sizeof(mscrt_plan_options), true}, &plan));
  expect_ok(mscrt_open(plan, &(mscrt_options){.struct_size = sizeof(mscrt_options), .threads = 1}, &ctx));
  expect_ok(mscrt_set_input(ctx, "x", all_x, sizeof all_x));
  expect_ok(mscrt_set_input(ctx, "y", all_y, sizeof all_y));
  expect_ok(mscrt_run(ctx, "train", 1, &first));
  expect_ok(mscrt_run(ctx, "train", 100, &last));
  expect_ok(mscrt_read(ctx, "w", w, sizeof w));
  assert_true(first > 3.7 && first < 3.8 && last < 1e-9); /* (1 + 4 + 9 + 1) / 4 */
  assert_true(w[0] > 0.999f && w[0] < 1.001f && w[1] > 1.999f && w[1] < 2.001f);
  expect_refused_in_fork(ctx);
  expect_ok(mscrt_run(ctx, "train", 1, &last));
  mscrt_close(ctx);
  mscrt_plan_close(plan);
}

static void compiles_and_trains(void **state) {
  static const char keys[] = "{\"pipeline_scheduler\": \"gpipe\"}", again[] = "{\"pipeline_scheduler\": \"zb-h1\"}";
  const void *plan, *other;
  size_t size, other_size;
  (void)state;
  msc_compiler *c = msc_compiler_new(NULL), *second = msc_compiler_new(NULL);
  assert_string_equal(msc_version(), MSC_VERSION);
  assert_string_equal(msc_compiler_value(c, "device_num"), "1");
  assert_true(msc_compiler_configure(c, "keys", keys, strlen(keys)) &&
              msc_compiler_configure(c, "again", again, strlen(again)));
  assert_string_equal(msc_compiler_value(c, "pipeline_scheduler"), "\"zb-h1\"");
  assert_null(msc_compiler_value(c, "device_nmu"));
  assert_true(msc_compiler_compile(c, "model.mlir", model, strlen(model), &plan, &size));
  assert_int_equal(msc_compiler_num_messages(c), 0);
  train(plan, size);
  assert_true(msc_compiler_configure(second, "again", again, strlen(again)));
  assert_true(msc_compiler_compile(second, "model.mlir", model, strlen(model), &other, &other_size));
  assert_true(size == other_size && !memcmp(plan, other, size));
  assert_false(msc_compiler_compile(c, "model.mlir", model, strlen(model), &plan, &size));
  msc_compiler_free(c);
  msc_compiler_free(second);
}

/* Two ranks, each of which has never seen the other's samples. */
typedef struct {
  const mscrt_plan *plan;
  const char *address;
  int rank;
  float w[2];
} rank_thread;

static void *train_part(void *arg) {
  rank_thread *t = arg;
  mscrt_options o = {
      .struct_size = sizeof o, .rank = t->rank, .ranks = 2, .address = t->address, .threads = 1, .timeout_ms = 60000};
  mscrt_context *ctx = NULL;
  mscrt_tensor x, y;
  float mine_x[4], mine_y[2];
  mscrt_status *s = mscrt_plan_part(t->plan, t->rank, "x", &x);
  if (!s) s = mscrt_plan_part(t->plan, t->rank, "y", &y);
  if (s || x.size[0] != 2 || x.size[1] != 2 || y.size[0] != 2 || x.begin[0] != y.begin[0]) return s;
  memcpy(mine_x, all_x + 2 * x.begin[0], sizeof mine_x);
  memcpy(mine_y, all_y + y.begin[0], sizeof mine_y);
  s = mscrt_open(t->plan, &o, &ctx);
  if (!s) s = mscrt_set_part(ctx, "x", mine_x, sizeof mine_x);
  if (!s) s = mscrt_set_part(ctx, "y", mine_y, sizeof mine_y);
  if (!s) s = mscrt_run(ctx, "train", 101, NULL);
  if (!s) s = mscrt_read(ctx, "w", t->w, sizeof t->w);
  mscrt_close(ctx);
  return s;
}

static void parts_of_ranks(void **state) {
  static const char keys[] =
      "{\"device_num\": 2, \"parallel_mode\": \"semi_auto_parallel\", \"dataset_strategy\": [[2, 1], [2, 1]]}";
  const void *bytes;
  size_t size;
  mscrt_plan *plan;
  mscrt_context *ctx;
  mscrt_tensor part;
  char address[64];
  pthread_t id[2];
  rank_thread t[2];
  (void)state;
  msc_compiler *c = msc_compiler_new(NULL);
  snprintf(address, sizeof address, "@msc-embed-%d", (int)getpid());
  assert_true(msc_compiler_configure(c, "keys", keys, strlen(keys)) &&
              msc_compiler_compile(c, "model.mlir", model, strlen(model), &bytes, &size));
  expect_ok(mscrt_plan_open(bytes, size, &(mscrt_plan_options){sizeof(mscrt_plan_options), true}, &plan));
  for (int r = 0; r < 2; r++) t[r] = (rank_thread){.plan = plan, .address = address, .rank = r};
  for (int r = 0; r < 2; r++) assert_int_equal(pthread_create(&id[r], NULL, train_part, &t[r]), 0);
  for (int r = 0; r < 2; r++) {
    void *s;
    pthread_join(id[r], &s);
    expect_ok(s);
    assert_true(t[r].w[0] > 0.999f && t[r].w[0] < 1.001f && t[r].w[1] > 1.999f && t[r].w[1] < 2.001f);
  }
  mscrt_status *s = mscrt_plan_part(plan, 2, "x", &part);
  assert_string_equal(mscrt_status_text(s), "there is no rank 2: the plan is for 2");
  mscrt_status_free(s);
  mscrt_plan_close(plan);
  msc_compiler_free(c);
  c = msc_compiler_new(NULL);
  assert_true(msc_compiler_compile(c, "model.mlir", model, strlen(model), &bytes, &size));
  expect_ok(mscrt_plan_open(bytes, size, &(mscrt_plan_options){sizeof(mscrt_plan_options), true}, &plan));
  expect_ok(mscrt_open(plan, &(mscrt_options){.struct_size = sizeof(mscrt_options), .threads = 1}, &ctx));
  s = mscrt_set_part(ctx, "x", all_x, 16);
  assert_string_equal(mscrt_status_text(s), "this rank's part of input 'x' has 32 bytes, not 16");
  mscrt_status_free(s);
  mscrt_close(ctx);
  mscrt_plan_close(plan);
  msc_compiler_free(c);
}

typedef struct {
  msc_compiler *c;
  const void *plan;
  size_t size;
} thread;

static void *compile_in_thread(void *arg) {
  thread *t = arg;
  t->c = msc_compiler_new(NULL);
  if (t->c && !msc_compiler_compile(t->c, "model.mlir", model, strlen(model), &t->plan, &t->size)) t->plan = NULL;
  return NULL;
}

static void several_at_once(void **state) {
  enum { THREADS = 4 };
  thread t[THREADS] = {{0}};
  pthread_t id[THREADS];
  (void)state;
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&id[i], NULL, compile_in_thread, &t[i]), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(id[i], NULL);
  for (int i = 0; i < THREADS; i++)
    assert_true(t[i].plan && t[i].size == t[0].size && !memcmp(t[i].plan, t[0].plan, t[0].size));
  for (int i = 0; i < THREADS; i++) msc_compiler_free(t[i].c);
}

/* The first message. */
static void expect_message(const msc_compiler *c, const char *place, const char *text) {
  char got[64] = "";
  assert_true(msc_compiler_num_messages(c) > 0);
  msc_message m = msc_compiler_message(c, 0);
  if (m.file) snprintf(got, sizeof got, "%s:%u:%u", m.file, m.line, m.column);
  if (m.kind != MSC_MESSAGE_ERROR || strcmp(got, place) || !strstr(m.text, text) || m.code[0] != 'E' ||
      strlen(m.code) != 5)
    fail_msg("%s: %s [%s]", got, m.text, m.code);
}

static void wrong_keys(void **state) {
  static const char keys[] = "{\n  \"device_nmu\": 8\n}";
  (void)state;
  msc_compiler *c = msc_compiler_new(NULL);
  assert_false(msc_compiler_configure(c, "c.json", keys, strlen(keys)));
  expect_message(c, "c.json:2:3", "unknown key 'device_nmu'; did you mean 'device_num'?");
  msc_compiler_free(c);
}

static void refused(const msc_compiler_options *o, const char *text, const char *place, const char *why) {
  const void *plan;
  size_t size;
  msc_compiler *c = msc_compiler_new(o);
  assert_false(msc_compiler_compile(c, "m.mlir", text, strlen(text), &plan, &size));
  expect_message(c, place, why);
  msc_compiler_free(c);
}

static void wrong_models(void **state) {
  (void)state;
  refused(NULL, "module {", "m.mlir:1:9", "");
  refused(NULL, "xxxxMSC1 not a model", "m.mlir:0:0", "");
  refused(&(msc_compiler_options){.struct_size = sizeof(msc_compiler_options), .cpu = "z80"}, model, "", "z80");
  refused(&(msc_compiler_options){.struct_size = sizeof(msc_compiler_options), .target = "tpu"}, model, "",
          "there is no target 'tpu'");
  refused(&(msc_compiler_options){.struct_size = sizeof(msc_compiler_options), .cluster = "h101"}, model, "", "h101");
  refused(&(msc_compiler_options){.struct_size = sizeof(msc_compiler_options), .max_bytes = 100000}, model, "",
          "out of memory");
  refused(
      &(msc_compiler_options){
          .struct_size = sizeof(msc_compiler_options), .num_sizes = 1, .sizes = &(msc_open_size){"batch", 0}},
      model, "", "size 0 of batch");
}

/* ---- giving up ---- */

static void *cancel_soon(void *arg) {
  nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
  msc_compiler_cancel(arg);
  return NULL;
}

/* Appends a chain of `ops` matmuls: long enough to be cancelled on the way. */
static char *write_deep_model(int ops) {
  size_t size = 0;
  char *text;
  FILE *f = open_memstream(&text, &size);
  fputs("module {\n  \"msc.func\"() ({\n  ^bb0(%0: tensor<64x64xf32>, %w: tensor<64x64xf32>):\n", f);
  for (int i = 0; i < ops; i++)
    fprintf(f, "    %%%d = \"msc.matmul\"(%%%d, %%w) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>\n",
            i + 1, i);
  fprintf(f,
          "    %%l = \"msc.reduce_mean\"(%%%d) {dims = [0, 1]} : (tensor<64x64xf32>) -> tensor<f32>\n"
          "    \"msc.return\"(%%l) : (tensor<f32>) -> ()\n  }) {sym_name = \"forward\", loss = 0 : i64, results = "
          "[\"loss\"], optimizer = {kind = \"sgd\", lr = 0.1 : f32}, arg_attrs = [{msc.name = \"x\", msc.role = "
          "\"data\"}, {msc.name = \"w\", msc.role = \"parameter\", msc.init = \"zeros\"}]} : () -> ()\n}\n",
          ops);
  fclose(f);
  return text;
}

static void cancelled_compilation(void **state) {
  const void *plan;
  size_t size;
  pthread_t id;
  struct timespec begin, end;
  (void)state;
  msc_compiler *c = msc_compiler_new(NULL);
  msc_compiler_cancel(c);
  assert_false(msc_compiler_compile(c, "model.mlir", model, strlen(model), &plan, &size));
  expect_message(c, "", "cancelled");
  assert_string_equal(msc_compiler_message(c, 0).code, "E0126");
  assert_string_equal(msc_compiler_message(c, msc_compiler_num_messages(c)).text, "");
  msc_compiler_free(c);
  char *text = write_deep_model(6000);
  c = msc_compiler_new(NULL);
  clock_gettime(CLOCK_MONOTONIC, &begin);
  assert_int_equal(pthread_create(&id, NULL, cancel_soon, c), 0);
  assert_false(msc_compiler_compile(c, "deep.mlir", text, strlen(text), &plan, &size));
  clock_gettime(CLOCK_MONOTONIC, &end);
  pthread_join(id, NULL);
  expect_message(c, "", "cancelled");
  print_message("cancelled after %.3f s\n",
                (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) * 1e-9);
  assert_int_equal(msc_compiler_num_messages(c), 1);
  msc_compiler_free(c);
  free(text);
}

static void expect_cancelled(mscrt_status *s) {
  if (mscrt_status_code(s) != MSCRT_CANCELLED) fail_msg("%s", mscrt_status_text(s));
  mscrt_status_free(s);
}

typedef struct {
  mscrt_context *ctx;
  int64_t ms; /* until it is cancelled */
} cancellation;

static void *cancel_run_soon(void *arg) {
  const cancellation *c = arg;
  nanosleep(&(struct timespec){.tv_sec = c->ms / 1000, .tv_nsec = c->ms % 1000 * 1000000}, NULL);
  mscrt_cancel(c->ctx);
  return NULL;
}

/* A job of one rank ends between two steps, and goes on from there. */
static void cancelled_run(void **state) {
  const void *bytes;
  size_t size;
  mscrt_plan *plan;
  mscrt_context *ctx;
  pthread_t id;
  mscrt_stats stats = {.struct_size = sizeof stats};
  double loss;
  (void)state;
  msc_compiler *c = msc_compiler_new(NULL);
  assert_true(msc_compiler_compile(c, "model.mlir", model, strlen(model), &bytes, &size));
  expect_ok(mscrt_plan_open(bytes, size, &(mscrt_plan_options){sizeof(mscrt_plan_options), true}, &plan));
  expect_ok(mscrt_open(plan, &(mscrt_options){.struct_size = sizeof(mscrt_options), .threads = 1}, &ctx));
  expect_ok(mscrt_set_input(ctx, "x", all_x, sizeof all_x));
  expect_ok(mscrt_set_input(ctx, "y", all_y, sizeof all_y));
  mscrt_cancel(ctx);
  expect_cancelled(mscrt_run(ctx, "train", 5, NULL));
  mscrt_get_stats(ctx, &stats);
  assert_int_equal(stats.steps, 0);
  for (int64_t ms = 30; ms < 60000 && stats.steps == 0; ms *= 2) { /* others may have the cores at first */
    cancellation soon = {ctx, ms};
    assert_int_equal(pthread_create(&id, NULL, cancel_run_soon, &soon), 0);
    expect_cancelled(mscrt_run(ctx, "train", INT64_MAX, NULL));
    pthread_join(id, NULL);
    mscrt_get_stats(ctx, &stats);
  }
  assert_true(stats.steps > 0);
  expect_ok(mscrt_run(ctx, "train", 100, &loss));
  assert_true(loss < 1e-9);
  mscrt_close(ctx);
  mscrt_plan_close(plan);
  msc_compiler_free(c);
}

/* Of two ranks the second begins no step: the first waits for it. Then one of them is cancelled, and both give up. */
typedef struct {
  const mscrt_plan *plan;
  const char *address, *comm;
  int rank;
  mscrt_context *ctx, **cancelled;
  pthread_barrier_t *met;
} cancelled_rank;

static void *train_until_cancelled(void *arg) {
  cancelled_rank *t = arg;
  mscrt_options o = {
      .struct_size = sizeof o, .rank = t->rank, .ranks = 2, .address = t->address, .threads = 1, .timeout_ms = 60000};
  o.comm = t->comm;
  mscrt_status *s = mscrt_open(t->plan, &o, &t->ctx);
  if (!s) s = mscrt_set_input(t->ctx, "x", all_x, sizeof all_x);
  if (!s) s = mscrt_set_input(t->ctx, "y", all_y, sizeof all_y);
  pthread_barrier_wait(t->met);
  if (!s && t->rank == 1) cancel_run_soon(&(cancellation){*t->cancelled, 30});
  if (!s && t->rank == 0) s = mscrt_run(t->ctx, "train", 100, NULL);
  pthread_barrier_wait(t->met);
  return s ? s : mscrt_run(t->ctx, "train", 100, NULL);
}

static void cancelled_ranks(void **state) {
  static const char keys[] = "{\"device_num\": 2, \"parallel_mode\": \"data_parallel\"}";
  const void *bytes;
  size_t size;
  mscrt_plan *plan;
  char address[64];
  pthread_t id[2];
  pthread_barrier_t met;
  cancelled_rank t[2];
  (void)state;
  msc_compiler *c = msc_compiler_new(NULL);
  snprintf(address, sizeof address, "@msc-cancel-%d", (int)getpid());
  assert_true(msc_compiler_configure(c, "keys", keys, strlen(keys)) &&
              msc_compiler_compile(c, "model.mlir", model, strlen(model), &bytes, &size));
  expect_ok(mscrt_plan_open(bytes, size, &(mscrt_plan_options){sizeof(mscrt_plan_options), true}, &plan));
  pthread_barrier_init(&met, NULL, 2);
  for (int way = 0; way < 4; way++) {
    void *s[2];
    int who = way % 2;
    for (int r = 0; r < 2; r++)
      t[r] = (cancelled_rank){.plan = plan,
                              .address = address,
                              .comm = way < 2 ? "local" : "tcp",
                              .rank = r,
                              .cancelled = &t[who].ctx,
                              .met = &met};
    for (int r = 0; r < 2; r++) assert_int_equal(pthread_create(&id[r], NULL, train_until_cancelled, &t[r]), 0);
    time_t begin = time(NULL);
    for (int r = 0; r < 2; r++) pthread_join(id[r], &s[r]);
    assert_in_range(time(NULL) - begin, 0, 20); /* long before the limit of 60 s */
    expect_cancelled(s[who]);
    assert_int_equal(mscrt_status_code(s[!who]), MSCRT_PEER);
    assert_non_null(strstr(mscrt_status_text(s[!who]), "cancelled"));
    mscrt_status_free(s[!who]);
    for (int r = 0; r < 2; r++) mscrt_close(t[r].ctx);
  }
  pthread_barrier_destroy(&met);
  mscrt_plan_close(plan);
  msc_compiler_free(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(several_at_once), cmocka_unit_test(compiles_and_trains),
                                     cmocka_unit_test(parts_of_ranks),  cmocka_unit_test(wrong_keys),
                                     cmocka_unit_test(wrong_models),    cmocka_unit_test(cancelled_compilation),
                                     cmocka_unit_test(cancelled_run),   cmocka_unit_test(cancelled_ranks)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
