/* clock.h: time that limits of searches count: what this thread has worked, however many others work beside it. */
#ifndef MSC_IR_CLOCK_H
#define MSC_IR_CLOCK_H

#include <time.h>

static inline double msc_cpu_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
