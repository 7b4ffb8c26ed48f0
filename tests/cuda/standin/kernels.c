/* kernels.c: a grid of GPU threads on one CPU thread.  Threads of kernels that meet are fibers: each runs to where it
 * must wait for its warp or its block.  Threads that should meet but do not are a broken rule. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/cuda/standin/standin.h"

#define WARP 32
#define MAX_THREADS 1024
#define STACK_BYTES (64 << 10)

typedef enum { RUNS, AT_BARRIER, IN_WARP, HAS_LEFT } state;
typedef enum { SYNC, BFLY, DOWN, UP, INDEX, BALLOT, ALL, ANY } warp_op;

typedef struct {
  void *stack_pointer;
  state state;
  warp_op op;
  uint32_t mask, value, lane_arg, result;
} thread;

static thread all[MAX_THREADS];
static uint8_t *stacks;
static void *scheduler;
static unsigned num_threads, num_blocks, block, current;
static void (*body)(void **);
static void **arguments;
static char order;               /* up, down, shuffled */

/* ---- fibers ---- */

/* Saves what a call preserves, and goes on where `to` was saved. */
__attribute__((naked, noinline)) static void switch_to(void **from __attribute__((unused)),
                                                       void *to __attribute__((unused))) {
  __asm__("push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
          "mov %rsp, (%rdi)\n mov %rsi, %rsp\n"
          "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret");
}

static void stop(state s) {
  thread *t = &all[current];
  t->state = s;
  switch_to(&t->stack_pointer, scheduler);
}

static void begin(void) {
  body(arguments);
  stop(HAS_LEFT);
  abort();
}

static void make_fiber(unsigned i) {
  uintptr_t top = (uintptr_t)(stacks + (size_t)(i + 1) * STACK_BYTES);
  void **at = (void **)top - 2; /* a call leaves the stack 8 beside a multiple of 16 */
  void (*start)(void) = begin;
  memcpy(at, &start, sizeof start);
  at -= 6;
  memset(at, 0, 6 * sizeof *at);
  all[i] = (thread){.stack_pointer = at};
}

static void resume(unsigned i) {
  current = i;
  switch_to(&scheduler, all[i].stack_pointer);
}

/* ---- orders ---- */

/* A permutation of 0 .. num-1 that differs from block to block. */
static unsigned place(unsigned i, unsigned num) {
  if (order == 'd') return num - 1 - i;
  if (order != 's') return i;
  static const unsigned primes[] = {7, 11, 13, 17, 19};
  return (unsigned)(((uint64_t)i * primes[block % 5] + block) % num);
}

/* A stride is a permutation only without a common factor: odd numbers of threads go up. */
static bool permutes(unsigned num) { return num % 7 && num % 11 && num % 13 && num % 17 && num % 19; }

static unsigned ordered(unsigned i, unsigned num) { return order == 's' && !permutes(num) ? i : place(i, num); }

/* ---- warps ---- */

static uint32_t exchanged(const thread *warp, unsigned lanes, unsigned lane) {
  const thread *t = &warp[lane];
  uint32_t c = t->lane_arg, votes = 0;
  unsigned from = t->op == BFLY ? lane ^ c : t->op == DOWN ? lane + c : t->op == UP ? lane - c : c % WARP;
  for (unsigned i = 0; i < lanes; i++) votes |= (uint32_t)(warp[i].state == IN_WARP && warp[i].value) << i;
  if (t->op == BALLOT) return votes;
  if (t->op == ANY) return votes != 0;
  if (t->op == ALL) return (votes & t->mask) == (t->mask & (lanes < WARP ? (1u << lanes) - 1 : ~0u));
  return from < lanes ? warp[from].value : t->value;
}

/* All lanes of the mask are at the same exchange: they go on with its results.  false: none is at one. */
static bool exchange(unsigned first, unsigned lanes) {
  thread *warp = &all[first];
  unsigned lead = 0;
  while (lead < lanes && warp[lead].state != IN_WARP) lead++;
  if (lead == lanes) return false;
  for (unsigned i = 0; i < lanes; i++) {
    if (!(warp[lead].mask >> i & 1)) continue;
    if (warp[i].state != IN_WARP || warp[i].op != warp[lead].op || warp[i].mask != warp[lead].mask)
      standin_broken("block %u: thread %u is not where thread %u of its warp waits for it (divergent warp operation)",
                     block, first + i, first + lead);
  }
  for (unsigned i = 0; i < lanes; i++)
    if (warp[i].state == IN_WARP) warp[i].result = exchanged(warp, lanes, i);
  for (unsigned i = 0; i < lanes; i++)
    if (warp[i].state == IN_WARP && (warp[lead].mask >> i & 1)) warp[i].state = RUNS;
  return true;
}

static void run_warp(unsigned first) {
  unsigned lanes = num_threads - first < WARP ? num_threads - first : WARP;
  do {
    for (unsigned k = 0; k < lanes; k++) {
      unsigned i = first + ordered(k, lanes);
      if (all[i].state == RUNS) resume(i);
    }
  } while (exchange(first, lanes));
}

/* ---- blocks ---- */

/* All have arrived: on.  false: all have left. */
static bool pass_barrier(void) {
  unsigned left = 0, at = 0;
  for (unsigned i = 0; i < num_threads; i++) left += all[i].state == HAS_LEFT, at += all[i].state == AT_BARRIER;
  if (left == num_threads) return false;
  if (at != num_threads)
    standin_broken("block %u: %u threads of %u are at a barrier, %u have left (divergent barrier)", block, at,
                   num_threads, left);
  for (unsigned i = 0; i < num_threads; i++) all[i].state = RUNS;
  return true;
}

static void run_meeting_block(void) {
  unsigned warps = (num_threads + WARP - 1) / WARP;
  for (unsigned i = 0; i < num_threads; i++) make_fiber(i);
  do
    for (unsigned k = 0; k < warps; k++) run_warp(WARP * ordered(k, warps));
  while (pass_barrier());
}

void standin_run_grid(const standin_kernel *k, unsigned blocks, unsigned threads, void **parameters) {
  const char *wanted = getenv("MSC_STANDIN_WARPS");
  order = wanted ? *wanted : 'u';
  num_threads = threads, num_blocks = blocks, body = k->run, arguments = parameters;
  if (!stacks)
    stacks = mmap(NULL, (size_t)MAX_THREADS * STACK_BYTES, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  for (unsigned b = 0; b < blocks; b++) {
    block = order == 'u' ? b : blocks - 1 - b;
    if (k->meets) run_meeting_block();
    else
      for (unsigned i = 0; i < threads; i++) current = ordered(i, threads), body(arguments);
  }
}

/* ---- what kernels call in place of the GPU's instructions: standin_ and the intrinsic's name ---- */

#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* they are declared in the kernels' IR */

API int32_t standin_read_ptx_sreg_tid_x(void) { return (int32_t)current; }
API int32_t standin_read_ptx_sreg_ntid_x(void) { return (int32_t)num_threads; }
API int32_t standin_read_ptx_sreg_ctaid_x(void) { return (int32_t)block; }
API int32_t standin_read_ptx_sreg_nctaid_x(void) { return (int32_t)num_blocks; }
API int32_t standin_read_ptx_sreg_laneid(void) { return (int32_t)(current % WARP); }
API int32_t standin_read_ptx_sreg_warpsize(void) { return WARP; }

API void standin_barrier0(void) { stop(AT_BARRIER); }
API void standin_barrier_sync(int32_t id) {
  if (id) standin_broken("barrier %d", id);
  stop(AT_BARRIER);
}

static uint32_t in_warp(warp_op op, int32_t mask, uint32_t value, int32_t lane_arg) {
  thread *t = &all[current];
  t->op = op, t->mask = (uint32_t)mask, t->value = value, t->lane_arg = (uint32_t)lane_arg;
  if (!(t->mask >> (current % WARP) & 1))
    standin_broken("block %u: thread %u is not in the mask it gives", block, current);
  stop(IN_WARP);
  return all[current].result;
}

API void standin_bar_warp_sync(int32_t mask) { in_warp(SYNC, mask, 0, 0); }
API int32_t standin_vote_ballot_sync(int32_t mask, bool v) { return (int32_t)in_warp(BALLOT, mask, v, 0); }
API bool standin_vote_any_sync(int32_t mask, bool v) { return in_warp(ANY, mask, v, 0); }
API bool standin_vote_all_sync(int32_t mask, bool v) { return in_warp(ALL, mask, v, 0); }

/* The last parameter says how a warp is cut into segments; whole warps only. */
static void check_segment(int32_t c, int32_t whole) {
  if (c != whole) standin_broken("a shuffle within segments of a warp");
}

#define SHUFFLE(name, op, whole)                                                             \
  API int32_t standin_shfl_sync_##name##_i32(int32_t mask, int32_t v, int32_t lane, int32_t c) { \
    check_segment(c, whole);                                                                 \
    return (int32_t)in_warp(op, mask, (uint32_t)v, lane);                                    \
  }                                                                                          \
  API float standin_shfl_sync_##name##_f32(int32_t mask, float v, int32_t lane, int32_t c) { \
    uint32_t bits;                                                                           \
    memcpy(&bits, &v, 4);                                                                    \
    check_segment(c, whole);                                                                 \
    bits = in_warp(op, mask, bits, lane);                                                    \
    memcpy(&v, &bits, 4);                                                                    \
    return v;                                                                                \
  }
SHUFFLE(bfly, BFLY, 31)
SHUFFLE(down, DOWN, 31)
SHUFFLE(idx, INDEX, 31)
SHUFFLE(up, UP, 0)

int standin_error;

/* y, off by so many units of the last place in the direction of standin_error. */
static float off_by(int units, float y) {
  for (int i = 0; i < units && standin_error && isnormal(y); i++) y = nextafterf(y, (float)(standin_error * INFINITY));
  return y;
}

API float standin_ex2_approx_f(float x) { return off_by(2, exp2f(x)); }
API float standin_ex2_approx_ftz_f(float x) { return off_by(2, exp2f(x)); }
API float standin_lg2_approx_f(float x) { return log2f(x); }
API float standin_lg2_approx_ftz_f(float x) { return log2f(x); }
API float standin_rcp_approx_ftz_f(float x) { return off_by(1, 1 / x); }
API float standin_rsqrt_approx_f(float x) { return 1 / sqrtf(x); }
API float standin_rsqrt_approx_ftz_f(float x) { return 1 / sqrtf(x); }
API float standin_sqrt_approx_f(float x) { return off_by(1, sqrtf(x)); }
API float standin_sqrt_approx_ftz_f(float x) { return off_by(1, sqrtf(x)); }
API float standin_sqrt_rn_f(float x) { return sqrtf(x); }
API float standin_asm_tanh_approx_f32(float x) { return tanhf(x); }

static uint16_t bf16_of(float f) {
  uint32_t bits;
  memcpy(&bits, &f, 4);
  if (f != f) return 0x7fff;
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

API int32_t standin_ff2bf16x2_rn(float high, float low) {
  return (int32_t)((uint32_t)bf16_of(high) << 16 | bf16_of(low));
}

/* Of bf16, where the C library has none: the value is in the low half of a vector register. */
API float __truncsfbf2(float x) {
  uint32_t bits = bf16_of(x);
  float half;
  memcpy(&half, &bits, 4);
  return half;
}
