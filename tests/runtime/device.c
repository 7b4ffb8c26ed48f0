/* device.c: what a device says of itself, it has the functions for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "runtime/context.h"

static void properties_have_functions(void **state) {
  static const mscrt_device *const devices[] = {&mscrt_device_cpu, &mscrt_device_cuda, &mscrt_device_timed};
  (void)state;
  for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
    const mscrt_device *d = devices[i];
    print_message("%s\n", d->name);
    assert_true(d->compute && d->message && d->collective);
    assert_int_equal(d->has_memory, d->fetch && d->store && d->set_micro);
    assert_int_equal(d->runs_programs, d->run != NULL);
    assert_int_equal(d->orders_collectives, d->wait != NULL);
    assert_int_equal(d->uses_arena, d->holds_values && !d->has_memory);
    assert_int_equal(d->runs_transfers, d->transfer && d->wait_for_transfers);
    assert_int_equal(!d->holds_values, d->message_bytes && d->shared_bytes);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(properties_have_functions)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
