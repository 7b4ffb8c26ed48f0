/* cpu.c: checks what the runtime reads from what cpuid says of a CPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "ir/abi/product.h"
#include "runtime/plan/plan.h"

static void traits_of_cpus(void **state) {
  (void)state;
  enum { WHOLE = MSC_PRODUCT_STORES_WHOLE, BOTH = MSC_PRODUCT_STORES_WHOLE | MSC_PRODUCT_FETCHES_ROWS };
  static const struct {
    const char *cpu;
    bool tells;
    uint32_t widths, signature;
    int64_t traits;
  } cpus[] = {
      {"Sapphire Rapids", false, 0, 0x000806f8, WHOLE},
      {"Zen 4 server", true, 0x6, 0x00a10f11, 0},
      {"Zen 5 server", true, 0xe, 0x00b00f21, BOTH},
      {"Zen 5 server below a virtual machine that hides it", true, 0x2, 0x00b00f21, BOTH},
      {"dense Zen 5 server likewise", true, 0x2, 0x00b10f10, BOTH},
      {"Zen 5 client with narrow units", true, 0x6, 0x00b20f40, MSC_PRODUCT_FETCHES_ROWS},
      {"Zen 5 client with wide units", true, 0xe, 0x00b40f40, BOTH},
  };
  for (size_t i = 0; i < sizeof cpus / sizeof *cpus; i++) {
    int64_t found = mscrt_traits_of_cpu(cpus[i].tells, cpus[i].widths, cpus[i].signature);
    if (found != cpus[i].traits) fail_msg("%s: traits %d instead of %d", cpus[i].cpu, (int)found, (int)cpus[i].traits);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(traits_of_cpus)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
