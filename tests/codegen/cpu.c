/* cpu.c: checks CPU names: each of codegen/cpu.def is known to LLVM and gives code without undefined symbols; others
 * are refused with a suggestion; the features of a level are those that its code uses. */
#include <unistd.h>

#include "codegen/emit/emit.h"
#include "ir/sanitized.h"
#include "tests/codegen/kernels.h"

/* One kernel of every kind that could ask for help from outside. */
static void add_everything(kernel_run *k) {
  static const char *const types[] = {"f32", "f64", "f16", "bf16"};
  static const char *const ops[] = {"exp", "log", "tanh", "erf", "sigmoid", "sqrt", "relu", "floor", "ceil", "round"};
  for (size_t t = 0; t < 4; t++) {
    char in[32], two[64];
    snprintf(in, sizeof in, "70x%s", types[t]), snprintf(two, sizeof two, "70x%s 70x%s", types[t], types[t]);
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) kernels_add_op(k, ops[i], in, "", 1, 1, 2);
    kernels_add_op(k, "pow", two, "", 1, 1, 2);
    kernels_add_op(k, "cast", in, "dtype=ui64", 1, 1, 2);
    kernels_add_op(k, "cast", in, "dtype=i8", 1, 1, 2);
    snprintf(in, sizeof in, "5x70x%s", types[t]);
    kernels_add_op(k, "softmax", in, "", 1, 1, 2)->reordered = true;
  }
  kernels_add_op(k, "cast", "70xui64", "dtype=f32", 1, 1, 2);
  kernels_add_op(k, "cast", "70xi64", "dtype=f16", 1, 1, 2);
  kernels_add_op(k, "div", "70xi64 70xi64", "", 1, 1, 2);
  kernels_add_op(k, "broadcast_to", "f32", "shape=100000", 1, 1, 2);
  kernels_add_op(k, "pad", "100xi8", "low=5 high=5", 1, 1, 2);
}

/* What LLVM prints to stderr while f runs. */
static size_t printed(char *text, size_t bytes, void (*f)(const char *), const char *cpu) {
  char path[] = "/tmp/msc_cpu_XXXXXX";
  int file = mkstemp(path), saved = dup(2);
  dup2(file, 2);
  f(cpu);
  fflush(stderr);
  dup2(saved, 2);
  close(saved);
  ssize_t n = pread(file, text, bytes - 1, 0);
  close(file);
  unlink(path);
  text[n < 0 ? 0 : n] = 0;
  return n < 0 ? 0 : (size_t)n;
}

static void compile_one(const char *cpu) {
  kernel_run *k = kernels_new(cpu);
  kernels_add_op(k, "exp", "70xf32", "", 1, 1, 2);
  kernels_finish(k);
  assert_string_equal(k->code.cpu, cpu);
  kernels_free(k);
}

static void test_every_name(void **state) {
  (void)state;
  for (size_t i = 0; i < msc_cpu_count(); i++) {
    char text[400];
    if (printed(text, sizeof text, compile_one, msc_cpu_row(i).name)) fail_msg("%s: %s", msc_cpu_row(i).name, text);
  }
}

/* A virtual machine may hide the name of a CPU, not that it has AMX: such CPUs multiply two vectors at once. */
static void test_this_machine(void **state) {
  msc_context *ctx = msc_context_new(NULL, NULL);
  msc_cpu cpu;
  (void)state;
  assert_true(msc_cpu_choose(ctx, NULL, &cpu));
  assert_int_equal(cpu.level, msc_cpu_level("native"));
  if (cpu.bf16 == MSC_BF16_BY_TILES) assert_int_equal(cpu.vectors, 2);
  msc_context_free(ctx);
}

static void test_levels_are_complete(void **state) {
  static const char *const names[] = {"x86-64", "x86-64-v2", "haswell", "skylake-avx512"};
  int host = msc_cpu_level(NULL);
  (void)state;
  for (int level = 1; level <= 4; level++) {
    kernel_run *k = kernels_new(names[level - 1]);
    add_everything(k);
    kernels_finish(k); /* fails on any symbol or relocation */
    assert_int_equal(k->code.num_features == MSC_SANITIZED, level == 1);
    for (size_t i = 1; i < k->code.num_features; i++)
      assert_true(strcmp(k->code.feature[i - 1], k->code.feature[i]) < 0);
    assert_true(k->code.text_bytes < k->code.num_bytes);
    if (level <= host) kernels_check(k);
    kernels_free(k);
  }
}

static void test_unknown_name(void **state) {
  msc_context *ctx = msc_context_new(NULL, NULL);
  (void)state;
  assert_null(msc_codegen_begin(ctx, &(msc_code_target){.target = &msc_target_cpu, .cpu = "skylake-avx51"}));
  assert_string_equal(msc_diags(ctx)->text, "unknown CPU name \"skylake-avx51\"; did you mean \"skylake-avx512\"?");
  assert_int_equal(msc_diags(ctx)->code, MSC_E_TARGET);
  msc_context_free(ctx);
}

/* Same input, same bytes; equal bodies once. */
static void test_shared_and_repeatable(void **state) {
  msc_machine_code first = {0};
  msc_context *kept = NULL;
  (void)state;
  for (int round = 0; round < 2; round++) {
    kernel_run *k = kernels_new("haswell");
    uint32_t a = kernels_add_op(k, "add", "100x200xf32 200xf32", "", 1, 0, 1)->call.launch[0].kernel;
    uint32_t b = kernels_add_op(k, "add", "7x90xf32 90xf32", "", 1, 0, 1)->call.launch[0].kernel;
    uint32_t c = kernels_add_op(k, "sgd", "90xf32 90xf32", "lr=0.1", 1, 0, 1)->call.launch[0].kernel;
    uint32_t d = kernels_add_op(k, "sgd", "3x5xf32 3x5xf32", "lr=0.2", 1, 0, 1)->call.launch[0].kernel;
    assert_int_equal(a, b);
    assert_int_equal(c, d);
    assert_int_not_equal(a, c);
    kernels_finish(k);
    assert_int_equal(k->code.num_kernels, 2);
    assert_string_equal(k->code.kernel[a].name, "add");
    if (round == 0) {
      first = k->code, kept = k->ctx;
      continue;
    }
    assert_int_equal(first.num_bytes, k->code.num_bytes);
    assert_memory_equal(first.bytes, k->code.bytes, first.num_bytes);
    kernels_free(k);
  }
  msc_context_free(kept);
}

static bool make_some(msc_context *ctx, void *arg) {
  msc_codegen *cg = *(msc_codegen **)arg =
      msc_codegen_begin(ctx, &(msc_code_target){.target = &msc_target_cpu, .cpu = "haswell"});
  msc_kernel_call call;
  msc_machine_code code;
  for (int i = 0; i < 20; i++) {
    char in[32];
    snprintf(in, sizeof in, "5x%dxf32", 20 + i);
    MSC_TRY(msc_codegen_add(cg, one_op(msc_module_new(ctx), "softmax", in, "", 1), &call));
  }
  return msc_codegen_finish(cg, &code);
}

/* The C library's, until `left` blocks were taken. */
static void *few_blocks(void *left, void *ptr, size_t old_bytes, size_t bytes) {
  (void)old_bytes;
  if (bytes == 0) {
    free(ptr);
    return NULL;
  }
  return (*(int *)left)-- > 0 ? realloc(ptr, bytes) : NULL;
}

/* Memory that runs out anywhere is an error, and nothing of LLVM's stays behind.  A context takes three blocks, the
 * third of which serves the first 64 KiB; what is taken of them beforehand decides where no more is to be had. */
static void test_memory_runs_out(void **state) {
  int failures = 0;
  (void)state;
  for (size_t taken = 0; taken < 60 * 1024; taken += 4 * 1024) {
    int left = 3;
    msc_context *ctx = msc_context_new(few_blocks, &left);
    msc_codegen *cg = NULL;
    msc_arena_alloc(msc_context_arena(ctx), taken);
    bool ok = msc_protect(ctx, make_some, &cg);
    if (cg) msc_codegen_abandon(cg);
    if (!ok) assert_int_equal(msc_diags(ctx)->code, MSC_E_OUT_OF_MEMORY);
    failures += !ok;
    msc_context_free(ctx);
  }
  assert_true(failures > 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_name),         cmocka_unit_test(test_this_machine),
      cmocka_unit_test(test_levels_are_complete), cmocka_unit_test(test_unknown_name),
      cmocka_unit_test(test_shared_and_repeatable), cmocka_unit_test(test_memory_runs_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
