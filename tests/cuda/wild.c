/* What only a real GPU can show of failures: a kernel that writes where nothing is, one that ends far too late, and
 * what the driver then does with a process that gives back what it has.  Without a GPU the PTX is assembled,
 * where ptxas is. */
#include <dlfcn.h>
#include <time.h>

#include "tests/cuda/plans.h"

#undef PTX
#define HEAD ".version 7.0\n.target sm_80\n.address_size 64\n"
#define ENTRY(name, body) \
  ".visible .entry " name \
  "(.param .u64 p, .param .u64 n) {\n.reg .u64 %a, %begin, %now;\n.reg .u32 %v;\n.reg .pred %q;\n" body "ret;\n}\n"
#define WILD ENTRY("wild", "mov.u64 %a, 16;\nmov.u32 %v, 1;\nst.global.u32 [%a], %v;\n")
/* Forty seconds stand for ever: whatever happens, the GPU is free again. */
#define SPIN                                                                                       \
  ENTRY("spin",                                                                                    \
        "mov.u64 %begin, %globaltimer;\nagain:\nmov.u64 %now, %globaltimer;\nsub.u64 %now, %now, " \
        "%begin;\nsetp.lt.u64 %q, %now, 40000000000;\n@%q bra again;\n")
static const char ptx[] = HEAD WILD SPIN;

static const call_text calls[] = {{.kind = PLAN_CALL_KIND_KERNEL,
                                   .index = 0,
                                   .num_buffers = 1,
                                   .buffers = {OUT(P, 0, 64)},
                                   .name = "wild",
                                   .extent = 64,
                                   .grain = 64},
                                  {.kind = PLAN_CALL_KIND_KERNEL,
                                   .index = 1,
                                   .num_buffers = 1,
                                   .buffers = {OUT(P, 0, 64)},
                                   .name = "spin",
                                   .extent = 64,
                                   .grain = 64}};

static plan_text plan_of(int call) {
  return (plan_text){.num_layouts = 1,
                     .layouts = {"1:|"},
                     .num_kernels = 2,
                     .ptx = ptx,
                     .target = "cuda",
                     .kernel = {{"wild", NULL, 1, 0, 0, 64}, {"spin", NULL, 1, 0, 0, 64}},
                     .num_sections = 1,
                     .section = {{"train", 64, 1, &calls[call], .stage = 0}},
                     .persistent = 64,
                     .num_parameters = 1,
                     .parameter = {{.name = "w", .rank = 1, .shape = {16}, .ref = OUT(P, 0, 64), .init = "zeros"}}};
}

/* In a process of its own: the driver does not live on in the children of one that has begun it. */
static int look_for_gpu(const place *p) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  unsigned (*init)(unsigned), (*count)(int *);
  int num = 0;
  if (!driver) return dprintf(p->say, "no driver: %s", dlerror()), 1;
  *(void **)&init = dlsym(driver, "cuInit"), *(void **)&count = dlsym(driver, "cuDeviceGetCount");
  if (init(0) || count(&num) || !num) return dprintf(p->say, "the driver finds no GPU"), 1;
  return 0;
}

static bool finds_gpu(void) {
  job j;
  start_job(&j, 1, look_for_gpu);
  end_job(&j);
  if (j.exit[0]) printf("skipped: %s\n", j.words[0]);
  return !j.exit[0];
}

static void expect_end(int call, const char *words, double most_seconds) {
  job j;
  plan_text t = plan_of(call);
  struct timespec begin, end;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  run_with(&j, &t, 1, five_steps, WITH());
  clock_gettime(CLOCK_MONOTONIC, &end);
  double seconds = (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
  printf("%s: %s (exit %d after %.1f s)\n", calls[call].name, j.words[0],
         WIFEXITED(j.exit[0]) ? WEXITSTATUS(j.exit[0]) : -WTERMSIG(j.exit[0]), seconds);
  fflush(stdout);
  if (!WIFEXITED(j.exit[0]) || WEXITSTATUS(j.exit[0]) != 3 || !strstr(j.words[0], words) || seconds > most_seconds)
    fail_msg("'%s' within %g s was expected", words, most_seconds);
}

/* The process can be ended, and the next one has the GPU again. */
static void failures_of_a_real_gpu(void **state) {
  (void)state;
  timeout_ms = 3000;
  expect_end(0, "the GPU was lost while it worked: CUDA_ERROR_ILLEGAL_ADDRESS", 30);
  expect_end(1, "rank 0: step 1: the GPU has not come to the end within 3000 ms", 30);
  expect_end(0, "the GPU was lost while it worked: CUDA_ERROR_ILLEGAL_ADDRESS", 30);
}

static void ptx_is_assembled(void) {
  char command[128] = "ptxas -arch=sm_90 -o /dev/null /tmp/msc-wild-XXXXXX";
  char *path = strstr(command, "/tmp");
  int fd = mkstemp(path);
  assert_int_equal(write(fd, ptx, sizeof ptx - 1), sizeof ptx - 1);
  int code = system("command -v ptxas >/dev/null") ? 0 : system(command);
  close(fd), unlink(path);
  if (code) exit(1);
}

int main(void) {
  ptx_is_assembled();
  if (!finds_gpu()) return 0;
  const struct CMUnitTest tests[] = {cmocka_unit_test(failures_of_a_real_gpu)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
