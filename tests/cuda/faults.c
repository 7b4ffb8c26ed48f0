/* What goes wrong on GPUs, played by the stand-in of tests/cuda/standin: each ends with a message that names it and
 * exit code 3, in bounded time, and nothing is left behind: the stand-in counts. */
#include "tests/cuda/plans.h"

/* ---- ranks that are lost ---- */

/* Rank 1 leaves without a word, or stays away. */
static mscrt_status *lose_rank(mscrt_context *c, double *out) {
  mscrt_status *s = mscrt_run(c, "train", 1, out);
  if (the_rank == 1) _exit(9);
  return s ? s : mscrt_run(c, "train", 3, out);
}

static mscrt_status *stay_away(mscrt_context *c, double *out) {
  mscrt_status *s = mscrt_run(c, "train", 3, out);
  if (the_rank == 1) usleep(4000000);
  return s ? s : mscrt_run(c, "train", 1, out);
}

/* All communicators are aborted: the stand-in counts them at the end. */
static void lost_ranks_are_named(void **state) {
  job j;
  (void)state;
  run_with(&j, &meeting_plan, 2, lose_rank, WITH("MSC_STANDIN_GPUS=2"));
  expect_words(&j, 0, "(ranks 0,1): ");
  expect_words(&j, 0, "rank 1 is gone");
  timeout_ms = 1500;
  run_with(&j, &meeting_plan, 2, stay_away, WITH("MSC_STANDIN_GPUS=2"));
  expect_words(&j, 0,
               "rank 0: step 4: the last it began is all_gather gather w (ranks 0,1): the GPU has not come to the end "
               "within 1500 ms");
  expect_words(&j, 1, "rank 0 ");
  timeout_ms = 20000;
  run_with(&j, &meeting_plan, 2, meet, WITH("MSC_STANDIN_GPUS=2", "MSC_STANDIN_FAIL=ncclCommGetAsyncError:9:6"));
  expect_words(&j, 0, ": remote error");
  /* in both */
  run_with(&j, &meeting_plan, 2, meet, WITH("MSC_STANDIN_GPUS=2", "MSC_STANDIN_FAIL=ncclCommInitRankConfig:1:2"));
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
  expect_failure(&shrinking, five_steps, 3,
                 "the plan's code is for sm_80 and later; GPU 0, stand-in 0, is sm_75, and no plan is for one that is "
                 "older than sm_80",
                 WITH("MSC_STANDIN_ARCH=75"));
  expect_failure(&shrinking, five_steps, 3,
                 "rank 0 needs 13824 bytes of the memory of GPU 0, stand-in 0: 9000 are free of 9000",
                 WITH("MSC_STANDIN_MEMORY=9000"));
  expect_failure(&shrinking, five_steps, 3, "the GPU was lost while it worked: CUDA_ERROR_ILLEGAL_ADDRESS",
                 WITH("MSC_STANDIN_FAIL=cuEventQuery:5:700"));
  expect_failure(&shrinking, five_steps, 3, "update: the GPU's driver refused cuLaunchKernel",
                 WITH("MSC_STANDIN_FAIL=cuLaunchKernel:3:1"));
  expect_failure(&shrinking, five_steps, 3, "the GPU was lost while it worked: CUDA_ERROR_LAUNCH_FAILED",
                 WITH("MSC_STANDIN_FAIL=cuGraphLaunch:2:719"));
  expect_failure(&shrinking, five_steps, 3,
                 "libcuda.so.1 is no driver that works (error 34): the toolkit has one to link with alone; install "
                 "NVIDIA's driver",
                 WITH("MSC_STANDIN_FAIL=cuDriverGetVersion:1:34"));
  expect_failure(&shrinking, five_steps, 3, "the GPU's driver refused cuInit: ", WITH("MSC_STANDIN_FAIL=cuInit:1:803"));
  expect_failure(&shrinking, five_steps, 3,
                 "the GPU's driver refused cuDevicePrimaryCtxRetain: CUDA_ERROR_DEVICE_UNAVAILABLE",
                 WITH("MSC_STANDIN_FAIL=cuDevicePrimaryCtxRetain:1:46"));
  expect_failure(&shrinking, five_steps, 3,
                 "rank 0 needs 13824 bytes of the memory of GPU 0, stand-in 0: 17179869184 are free of 17179869184, "
                 "but not in one piece",
                 WITH("MSC_STANDIN_FAIL=cuMemAlloc_v2:1:2"));
  expect_failure(&shrinking, five_steps, 3,
                 "the host has no memory left that a GPU's driver could pin (cuMemHostAlloc)",
                 WITH("MSC_STANDIN_FAIL=cuMemHostAlloc:1:2"));
}

static void versions_that_do_not_fit(void **state) {
#define OR " or compile with --target cuda:sm_90 where ptxas is (GPU 0, stand-in 0, driver for CUDA 13.0)"
  static const struct { const char *setting, *words; } images[] = {
    {"MSC_STANDIN_FAIL=cuModuleLoadDataEx:1:222",
     "the plan's kernels are in a version of PTX that the driver is too old for: install a newer one," OR},
    {"MSC_STANDIN_FAIL=cuModuleLoadDataEx:1:209", "the plan's kernels are not for this GPU, the driver says," OR},
    {"MSC_STANDIN_FAIL=cuModuleLoadDataEx:1:221",
     "the plan's kernels are PTX, which the driver cannot compile: install its library "
     "libnvidia-ptxjitcompiler.so.1," OR},
    {"MSC_STANDIN_FAIL=cuModuleLoadDataEx:1:223",
     "the plan's kernels are PTX, which the driver may not compile: CUDA_DISABLE_PTX_JIT is set," OR},
    {"MSC_STANDIN_FAIL=cuModuleLoadDataEx:1:218",
     "the plan's kernels: the GPU's driver refused cuModuleLoadDataEx: an error that this driver does not name"},
    {"MSC_STANDIN_DRIVER=11020",
     "libcuda.so.1 is of version 11.2, and to run on an NVIDIA GPU at least 11.4 is needed: install NVIDIA's driver"}};
  job j;
  (void)state;
  for (size_t i = 0; i < sizeof images / sizeof *images; i++)
    expect_failure(&shrinking, five_steps, 3, images[i].words, WITH(images[i].setting));
  run_with(&j, &meeting_plan, 2, meet, WITH("MSC_STANDIN_GPUS=2", "MSC_STANDIN_NCCL=21602"));
  for (int r = 0; r < 2; r++)
    expect_words(&j, r,
                 "libnccl.so.2 is of version 2.16.2, and to let GPUs communicate at least 2.18.1 is needed: install "
                 "NCCL's package libnccl2, or run with --comm local");
  of_rank_1 = "MSC_STANDIN_NCCL=21903";
  run_with(&j, &meeting_plan, 2, meet, WITH("MSC_STANDIN_GPUS=2"));
  expect_words(&j, 0,
               "rank 0: NCCL is 2.28.9 here, and ranks have versions from 2.19.3 to 2.28.9: install one on all, or run "
               "with --comm local");
  expect_words(&j, 1, "rank 1: NCCL is 2.19.3 here, and ranks have versions from 2.19.3 to 2.28.9");
  of_rank_1 = NULL;
}

/* Both are tried; what is wrong with the last is told. */
static void refused_machine_code_is_compiled_again(void **state) {
  plan_text both = shrinking;
  job j;
  (void)state;
  both.cubin = "\177ELF, as long as a header is: 64 bytes at least, of which none is looked at";
  run_with(&j, &both, 1, five_steps, WITH("MSC_STANDIN_FAIL=cuModuleLoadDataEx:1:209"));
  if (j.exit[0] || !strstr(j.words[0],
                           "rank 0: the driver of GPU 0 refuses the plan's machine code "
                           "(CUDA_ERROR_NO_BINARY_FOR_GPU); it compiles the PTX\n"))
    fail_msg("exit %d: %s", j.exit[0], j.words[0]);
  expect_failure(&both, five_steps, 3, "the plan's kernels are in a version of PTX that the driver is too old for",
                 WITH("MSC_STANDIN_FAIL=cuModuleLoadDataEx:2:222", "MSC_STANDIN_CUBIN=0"));
}

/* ---- GPUs that do not come to an end ---- */

static mscrt_status *read_afterwards(mscrt_context *c, double *out) {
  mscrt_tensor w;
  mscrt_status *s = mscrt_run(c, "train", 2, out);
  mscrt_status_free(s);
  return mscrt_local(c, "w", &w);
}

/* Milliseconds after which a GPU is stuck: many times as long as the whole run takes on this machine now, where
 * others work too. */
static int patience(const plan_text *t) {
  enum { LEAST = 300, TIMES = 5 };
  struct timespec begin, end;
  job j;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  run_with(&j, t, 1, five_steps, WITH());
  clock_gettime(CLOCK_MONOTONIC, &end);
  int64_t ms = TIMES * ((end.tv_sec - begin.tv_sec) * 1000 + (end.tv_nsec - begin.tv_nsec) / 1000000);
  return ms < LEAST ? LEAST : (int)ms;
}

/* `words` with the timeout for %d. */
static void expect_stuck(const plan_text *t, body_fn *body, const char *words, const char *setting) {
  char text[160];
  const char *after = strstr(words, "%d");
  if (after) snprintf(text, sizeof text, "%.*s%d%s", (int)(after - words), words, timeout_ms, after + 2);
  expect_failure(t, body, 3, after ? text : words, WITH(setting));
}

/* The fifth kernel is in a replay; the copy is that of results. */
static void stuck_gpus_are_left(void **state) {
  static const struct { const char *setting, *words; body_fn *body;
  } cases[] = {
      {"MSC_STANDIN_HANG=kernel:2",
       "rank 0: step 1: the GPU has not come to the end within %d ms; --trace names the call", five_steps},
      {"MSC_STANDIN_HANG=kernel:5", "rank 0: step 2: the GPU has not come to the end within %d ms", five_steps},
      {"MSC_STANDIN_HANG=cuMemcpyDtoHAsync_v2:2", "rank 0: step 2: the GPU has not come to the end within %d ms",
       five_steps},
      /* while it is loaded */
      {"MSC_STANDIN_HANG=event:1", "rank 0: step 1: the GPU has not come to the end within %d ms", five_steps},
      {"MSC_STANDIN_HANG=kernel:3", "rank 0: the GPU does not come to its end", read_afterwards}};
  (void)state;
  timeout_ms = patience(&shrinking);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    expect_stuck(&shrinking, cases[i].body, cases[i].words, cases[i].setting);
  measure = true;
  expect_stuck(&shrinking, five_steps, "rank 0: step 1: add ones: the GPU has not come to the end within %d ms",
               "MSC_STANDIN_HANG=kernel:2");
  measure = false;
  timeout_ms = 20000;
}

/* More calls than the driver has room for, behind one that never ends: w of all steps is 2. */
static void long_steps_are_watched(void **state) {
  enum { MANY = 1500 };
  static call_text calls[MANY];
  plan_text t = shrinking;
  job j;
  (void)state;
  for (int i = 0; i < MANY; i++) calls[i] = shrink[i % 3];
  for (int i = 0; i < MANY; i++) calls[i].scalars[0] = i % 3 == 0 ? 0.5 : 0;
  t.section[0].num = MANY, t.section[0].call = calls;
  run_with(&j, &t, 1, five_steps, WITH());
  assert_float_equal(result_of(&j), 0.5 * N * 4, 1e-3);
  timeout_ms = patience(&t);
  expect_stuck(&t, five_steps, "the GPU has not come to the end within %d ms", "MSC_STANDIN_HANG=kernel:1");
  timeout_ms = 20000;
}

static mscrt_status *stop_at_one(mscrt_context *c, double *out) {
  mscrt_status *s = mscrt_run(c, "train", 2, out);
  if (the_rank == 1) setenv("MSC_STANDIN_HANG", "kernel:1", 1);
  return s ? s : mscrt_run(c, "train", 2, out);
}

/* Only rank 1's GPU is stuck; NCCL's abort waits for it, too long. */
static void others_of_a_stuck_gpu_end(void **state) {
  static const char *const gpus[] = {"MSC_STANDIN_GPUS=1", "MSC_STANDIN_GPUS=2"};
  (void)state;
  timeout_ms = 1500, patient_rank = 0;
  for (int i = 0; i < 2; i++) {
    job j;
    run_with(&j, &meeting_plan, 2, stop_at_one, WITH(gpus[i]));
    expect_words(&j, 1, "rank 1: step 3: ");
    expect_words(&j, 1, ": the GPU has not come to the end within 1500 ms");
    expect_words(&j, 0, "rank 1 failed: rank 1: step 3: ");
  }
  timeout_ms = 20000, patient_rank = -1;
}

/* ---- GPUs that are lost ---- */

static void lost_gpus_are_named(void **state) {
  static const struct { const char *setting, *words; } cases[] = {
    {"MSC_STANDIN_FAIL=cuEventQuery:5:700", "the GPU was lost while it worked: CUDA_ERROR_ILLEGAL_ADDRESS"},
    {"MSC_STANDIN_FAIL=cuGraphLaunch:2:719", "the GPU was lost while it worked: CUDA_ERROR_LAUNCH_FAILED"},
    {"MSC_STANDIN_FAIL=cuLaunchKernel:2:214",
     "add ones: the GPU was lost while it worked: CUDA_ERROR_ECC_UNCORRECTABLE"},
    {"MSC_STANDIN_FAIL=cuMemcpyDtoHAsync_v2:1:220",
     "the GPU was lost while it worked: CUDA_ERROR_NVLINK_UNCORRECTABLE"},
    {"MSC_STANDIN_FAIL=cuStreamEndCapture:1:702", "the GPU was lost while it worked: CUDA_ERROR_LAUNCH_TIMEOUT"},
    {"MSC_STANDIN_FAIL=cuGraphInstantiateWithFlags:1:226", "the GPU was lost while it worked: CUDA_ERROR_CONTAINED"}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    expect_failure(&shrinking, five_steps, 3, cases[i].words, WITH(cases[i].setting));
}

static mscrt_status *lose_gpu_of_one(mscrt_context *c, double *out) {
  mscrt_status *s = mscrt_run(c, "train", 2, out);
  if (the_rank == 1) setenv("MSC_STANDIN_FAIL", "cuEventQuery:1:700", 1);
  return s ? s : mscrt_run(c, "train", 2, out);
}

static void others_of_a_lost_gpu_end(void **state) {
  static const char *const gpus[] = {"MSC_STANDIN_GPUS=1", "MSC_STANDIN_GPUS=2"};
  (void)state;
  for (int i = 0; i < 2; i++) {
    job j;
    run_with(&j, &meeting_plan, 2, lose_gpu_of_one, WITH(gpus[i]));
    expect_words(&j, 1, "the GPU was lost while it worked: CUDA_ERROR_ILLEGAL_ADDRESS");
    expect_words(&j, 0, "rank 1 failed: ");
    expect_words(&j, 0, "CUDA_ERROR_ILLEGAL_ADDRESS");
  }
}

/* ---- all calls ---- */

static void every_call_may_fail(void **state) {
  bool all = getenv("MSC_TEST_SLOW");
  (void)state;
  fail_calls(&shrinking, 1, five_steps, "1", all ? 1 : 17);
  fail_calls(&shrinking, 1, five_steps, "700", all ? 1 : 23);
  fail_calls(&meeting_plan, 2, meet, "1", all ? 1 : 97);
  fail_calls(&meeting_plan, 2, meet, "719", all ? 1 : 101);
}

int main(int argc, char **argv) {
  (void)argc;
  if (!prepare(argv)) return 0;
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(lost_ranks_are_named),
    cmocka_unit_test(ranks_without_gpus_of_their_own),
    cmocka_unit_test(machines_that_lack_something),
    cmocka_unit_test(versions_that_do_not_fit),
    cmocka_unit_test(refused_machine_code_is_compiled_again),
    cmocka_unit_test(stuck_gpus_are_left),
    cmocka_unit_test(long_steps_are_watched),
    cmocka_unit_test(others_of_a_stuck_gpu_end),
    cmocka_unit_test(lost_gpus_are_named),
    cmocka_unit_test(others_of_a_lost_gpu_end),
    cmocka_unit_test(every_call_may_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
