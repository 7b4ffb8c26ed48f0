/* sanitize.c: checks kernels whose accesses are checked: they need no symbol from outside, and stop at the first
 * byte outside a buffer. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "codegen/emit/emit.h"
#include "ir/sanitized.h"
#include "tests/codegen/kernels.h"

enum { ELEMS = 37 };

/* Products have all there is: masks, a stack, loops. */
static void test_code_stands_alone(void **state) {
  (void)state;
  msc_context *ctx = msc_context_new(NULL, NULL);
  for (int level = 3; level <= 4; level++)
    for (int part = 0; part < MSC_NUM_PRODUCT_PARTS; part++) {
      bool terms = msc_product_way((msc_product_part)part) == MSC_BF16_BY_TERMS;
      msc_dtype dtype = terms ? MSC_F32 : MSC_BF16;
      if (!msc_product_has(level, (msc_product_part)part, dtype)) continue;
      msc_llvm l;
      msc_machine_code code;
      size_t num;
      msc_symbol *symbol;
      assert_true(msc_llvm_open(ctx, &(msc_code_target){.target = &msc_target_cpu, .cpu = msc_cpu_plain(level)}, &l));
      msc_product_emit(&l, "product", (msc_product_part)part, dtype);
      assert_true(msc_sanitize(&l));
      LLVMMemoryBufferRef object = msc_llvm_emit(&l, l.machine, l.module, LLVMObjectFile);
      assert_non_null(object);
      msc_object elf = {LLVMGetBufferStart(object), LLVMGetBufferSize(object)};
      assert_true(msc_object_link(ctx, msc_context_arena(ctx), 1, &elf, &code, &num, &symbol));
      LLVMDisposeMemoryBuffer(object);
      msc_llvm_close(&l);
    }
  msc_context_free(ctx);
}

/* The signal that ends a process in which the kernel adds so many elements behind `before`; 0: none. */
static int add_beyond(kernel_run *k, const kernel_case *c, int64_t elems, int before) {
  pid_t child = fork();
  if (child == 0) {
    signal(SIGILL, SIG_DFL); /* cmocka has its own idea of it */
    float *x[3];
    void *buffers[3];
    for (int i = 0; i < 3; i++) x[i] = calloc(ELEMS, sizeof(float)), buffers[i] = i == 2 ? x[i] - before : x[i];
    kernels_code(k, &c->call.launch[0])(buffers, 0, elems, c->call.launch[0].dims, c->call.launch[0].scalars);
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void test_beside_buffers(void **state) {
  (void)state;
  if (!MSC_SANITIZED) skip(); /* there is no shadow memory */
  kernel_run *k = kernels_new("native");
  const kernel_case *c = kernels_add_op(k, "add", "37xf32 37xf32", "", 1, -1, 1);
  kernels_finish(k);
  assert_int_equal(add_beyond(k, c, ELEMS, 0), 0);
  assert_int_equal(add_beyond(k, c, ELEMS + 1, 0), SIGILL);
  assert_int_equal(add_beyond(k, c, ELEMS, 1), SIGILL);
  kernels_free(k);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_code_stands_alone), cmocka_unit_test(test_beside_buffers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
