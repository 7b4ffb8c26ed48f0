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

/* Time of this thread alone, which other work of the machine disturbs less. */
static inline int64_t mscrt_thread_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Sleeps while the word is `seen`, until a wake or for `ns` (< 0: no limit); may return earlier for no reason. shared:
 * several processes share the word. */
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

/* Whether busy waiting pays: after several waits in a row in which it did not, most of the next waits sleep at once. It
 * does not pay where the thread that is waited for has no core of its own, which the number of cores does not tell. */
typedef struct {
  _Atomic uint32_t failures, skips;
} mscrt_patience;

static inline bool mscrt_may_spin(mscrt_patience *p) {
  uint32_t skips = atomic_load_explicit(&p->skips, memory_order_relaxed);
  if (skips) atomic_store_explicit(&p->skips, skips - 1, memory_order_relaxed);
  return !skips;
}

static inline void mscrt_note_spin(mscrt_patience *p, bool paid) {
  enum { FREE = 3, MOST = 6 }; /* failures without consequence; after more, up to 2^6 - 1 waits sleep */
  uint32_t failures = paid ? 0 : atomic_load_explicit(&p->failures, memory_order_relaxed) + 1;
  if (failures > FREE + MOST) failures = FREE + MOST;
  atomic_store_explicit(&p->failures, failures, memory_order_relaxed);
  if (failures > FREE) atomic_store_explicit(&p->skips, (1U << (failures - FREE)) - 1, memory_order_relaxed);
}

#endif
