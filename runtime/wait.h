/* wait.h: sleeping until another thread or rank changes a word of memory. */
#ifndef MSCRT_WAIT_H
#define MSCRT_WAIT_H

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ir/abi/clock.h"

static inline int64_t mscrt_now_ns(void) { return (int64_t)msc_clock_ns(); }

/* Returns when the word is not `seen`, when woken, after ns (< 0: no limit), or for no reason. shared: the word is
 * shared by processes. */
static inline void mscrt_futex_wait(_Atomic uint32_t *word, uint32_t seen, int64_t ns, bool shared) {
  struct timespec t = {ns / 1000000000, ns % 1000000000};
  syscall(SYS_futex, word, shared ? FUTEX_WAIT : FUTEX_WAIT_PRIVATE, seen, ns < 0 ? NULL : &t, NULL, 0);
}

static inline void mscrt_futex_wake(_Atomic uint32_t *word, int num, bool shared) {
  syscall(SYS_futex, word, shared ? FUTEX_WAKE : FUTEX_WAKE_PRIVATE, num, NULL, NULL, 0);
}

/* Lets the other hardware thread of the core run for a moment. */
static inline void mscrt_pause(void) {
#ifdef __x86_64__
  __builtin_ia32_pause();
#endif
}

#endif
