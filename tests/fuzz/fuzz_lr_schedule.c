/* fuzz_lr_schedule: any text as --lr-schedule; what is accepted has a factor for every step, which is no NaN, not
 * negative, and during the warm-up at most 1. */
#include "tools/run/lr_schedule.c" /* the program is no library */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check_factors(const lr_schedule *s) {
  const int64_t steps[] = {0, 1, 2, 9, 1000, INT32_MAX, INT64_MAX};
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
    for (int64_t all = 1; all < 1 << 20; all *= 1000) {
      double v = lr_factor(s, steps[i], all);
      if (!(v >= 0) || ((double)steps[i] < s->warmup && v > 1)) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  cli c = {.ctx = msc_context_new(NULL, NULL)};
  char *text = malloc(bytes + 1);
  lr_schedule s;
  if (!c.ctx || !text) abort();
  memcpy(text, data, bytes);
  text[bytes] = 0;
  if (lr_schedule_read(&c, text, &s)) check_factors(&s);
  else if (!msc_num_errors(c.ctx)) abort();
  free(text);
  msc_context_free(c.ctx);
  return 0;
}
