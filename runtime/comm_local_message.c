/* comm_local_message.c: messages between ranks of one host, through a mailbox in the receiver's memory:
 *
 *   sent, taken | slot 0 | slot 1 ...
 *
 * The sender copies into slot sent % depth while fewer than that are under way, the receiver copies out of slot taken % depth. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "runtime/comm_local.h"

typedef struct {
  _Alignas(64) _Atomic uint32_t sent; /* modulo 2^32 */
  _Atomic uint32_t sent_sleepers;
  _Alignas(64) _Atomic uint32_t taken;
  _Atomic uint32_t taken_sleepers;
} mailbox;

_Static_assert(sizeof(mailbox) == MSC_MAILBOX_COUNTERS, "the compiler plans room for it");

static mailbox *mailbox_of(const struct mscrt_comm *c, int rank, const mscrt_channel *m) { return (mailbox *)(void *)(c->segment[rank].base + c->arena_at + m->mailbox); }

static uint8_t *slot_of(mailbox *b, const mscrt_channel *m, uint32_t number) { return (uint8_t *)(b + 1) + number % m->depth * msc_mailbox_slot_bytes(m->bytes); }

static mscrt_status *lost(struct mscrt_comm *c, const mscrt_channel *m, const mscrt_site *site, bool sends, int culprit, const char *why) {
  mscrt_status *s = mscrt_fail(MSCRT_PEER, "rank %d: step %" PRId64 ": message %s%s%s %s rank %d: %s", c->o.rank, site->step, site->name ? site->name : "", site->loc ? " at " : "",
                               site->loc ? site->loc : "", sends ? "to" : "from", m->peer, why);
  mscrt_local_give_up(c, culprit, why);
  return s;
}

static bool is_there(_Atomic uint32_t *word, uint32_t least) { return (int32_t)(atomic_load_explicit(word, memory_order_acquire) - least) >= 0; }

static bool spin_until(_Atomic uint32_t *word, uint32_t least) {
  int64_t end = mscrt_now_ns() + MSCRT_SPIN_NS;
  do {
    for (int i = 0; i < 64; i++) {
      if (is_there(word, least)) return true;
      mscrt_pause();
    }
  } while (mscrt_now_ns() < end);
  return false;
}

/* Until the peer has counted up to `least`. */
static mscrt_status *wait_for(struct mscrt_comm *c, _Atomic uint32_t *word, _Atomic uint32_t *sleepers, uint32_t least, const mscrt_channel *m, const mscrt_site *site, bool sends) {
  if (is_there(word, least) || (c->o.spin && spin_until(word, least))) return NULL;
  int64_t deadline = mscrt_now_ns() + (int64_t)c->o.timeout_ms * 1000000;
  mscrt_status *s = NULL;
  atomic_fetch_add(sleepers, 1);
  while (!s) {
    uint32_t seen = atomic_load(word);
    char why[320];
    int culprit = m->peer;
    if ((int32_t)(seen - least) >= 0) break;
    mscrt_futex_wait(word, seen, MSCRT_LOOK_AROUND_NS, true);
    if (is_there(word, least)) break;
    if (mscrt_local_why_lost(c, m->peer, &culprit, why)) s = is_there(word, least) ? NULL : lost(c, m, site, sends, culprit, why);
    else if (mscrt_now_ns() >= deadline) {
      snprintf(why, sizeof why, "rank %d is missing (at step %" PRId64 "), waited %d ms", m->peer, atomic_load(&c->segment[m->peer].control->step), c->o.timeout_ms);
      s = lost(c, m, site, sends, culprit, why);
    }
  }
  atomic_fetch_sub(sleepers, 1);
  return s;
}

static void count(_Atomic uint32_t *word, _Atomic uint32_t *sleepers) {
  atomic_fetch_add(word, 1);
  if (atomic_load(sleepers)) mscrt_futex_wake(word, INT_MAX, true);
}

mscrt_status *mscrt_local_send(struct mscrt_comm *c, const mscrt_channel *m, const void *src, const mscrt_site *site) {
  mailbox *b = mailbox_of(c, m->peer, m);
  uint32_t number = atomic_load(&b->sent);
  atomic_store_explicit(&c->segment[c->o.rank].control->step, site->step, memory_order_relaxed);
  MSCRT_CHECK(wait_for(c, &b->taken, &b->taken_sleepers, number + 1 - m->depth, m, site, true));
  memcpy(slot_of(b, m, number), src, (size_t)m->bytes);
  count(&b->sent, &b->sent_sleepers);
  return NULL;
}

mscrt_status *mscrt_local_receive(struct mscrt_comm *c, const mscrt_channel *m, void *dst, const mscrt_site *site) {
  mailbox *b = mailbox_of(c, c->o.rank, m);
  uint32_t number = atomic_load(&b->taken);
  atomic_store_explicit(&c->segment[c->o.rank].control->step, site->step, memory_order_relaxed);
  MSCRT_CHECK(wait_for(c, &b->sent, &b->sent_sleepers, number + 1, m, site, false));
  memcpy(dst, slot_of(b, m, number), (size_t)m->bytes);
  count(&b->taken, &b->taken_sleepers);
  return NULL;
}
