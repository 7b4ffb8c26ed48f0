/* cpu.c: checks what the runtime reads from what cpuid says of a CPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "runtime/plan/plan.h"

static void whole_vectors_are_stored(void **state) {
  (void)state;
  static const struct {
    const char *cpu;
    bool tells;
    uint32_t widths, signature;
    bool fast;
  } cpus[] = {
      {"Sapphire Rapids", false, 0, 0x000806f8, true},
      {"Zen 4 server", true, 0x6, 0x00a10f11, false},
      {"Zen 5 server", true, 0xe, 0x00b00f21, true},
      {"Zen 5 server below a virtual machine that hides it", true, 0x2, 0x00b00f21, true},
      {"dense Zen 5 server likewise", true, 0x2, 0x00b10f10, true},
      {"Zen 5 client with narrow units", true, 0x6, 0x00b20f40, false},
      {"Zen 5 client with wide units", true, 0xe, 0x00b40f40, true},
  };
  for (size_t i = 0; i < sizeof cpus / sizeof *cpus; i++)
    if (mscrt_stores_whole_vectors(cpus[i].tells, cpus[i].widths, cpus[i].signature) != cpus[i].fast)
      fail_msg("%s: stores are said to be %s", cpus[i].cpu, cpus[i].fast ? "slow" : "fast");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(whole_vectors_are_stored)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
