/* clock.h: time that limits of searches count, which is what this thread has worked, however many others work beside
 * it; and time that passes for whoever waits. */
#ifndef MSC_IR_ABI_CLOCK_H
#define MSC_IR_ABI_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline double msc_cpu_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline uint64_t msc_clock_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline double msc_clock_seconds(void) { return 1e-9 * (double)msc_clock_ns(); }

#endif
