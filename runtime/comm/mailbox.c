/* mailbox.c: messages between ranks of one host, through a mailbox in the memory of the receiver:
 *
 *   sent, taken | slot 0 | slot 1 ...
 *
 * The sender copies into slot sent % depth while fewer than `depth` messages are under way; the receiver copies out of
 * slot taken % depth. */
#include <stdio.h>
#include <string.h>

#include "runtime/comm/shared_memory.h"

static mscrt_mailbox *mailbox_of(const struct mscrt_comm *c, int rank, const mscrt_channel *m) {
  return (mscrt_mailbox *)(void *)(c->segment[rank].base + c->arena_at + m->mailbox);
}

typedef struct {
  const mscrt_channel *channel;
  const mscrt_site *site;
  bool sends;
} passing;

static mscrt_status *find_lost_peer(const struct mscrt_comm *c, const void *of, bool late, mscrt_loss *loss) {
  const passing *p = of;
  const mscrt_site *site = p->site;
  int peer = p->channel->peer;
  if (!mscrt_local_is_lost(c, peer, loss) && !mscrt_local_any_lost(c, loss)) {
    if (!late) return NULL;
    loss->culprit = peer;
    snprintf(loss->why, sizeof loss->why, "rank %d is missing (at step %" PRId64 "), waited %d ms", peer,
             mscrt_step_number(atomic_load(&c->segment[peer].control->step)), c->o.timeout_ms);
  }
  return mscrt_lost_in_message(c->o.rank, peer, p->sends, site, loss->why);
}

mscrt_status *mscrt_local_send(struct mscrt_comm *c, const mscrt_channel *m, const void *src, const mscrt_site *site) {
  mscrt_mailbox *b = mailbox_of(c, m->peer, m);
  uint32_t number = atomic_load(&b->sent.count);
  atomic_store_explicit(&c->segment[c->o.rank].control->step, site->step, memory_order_relaxed);
  MSCRT_CHECK(mscrt_local_wait(c, &b->taken, number + 1 - m->depth, find_lost_peer, &(passing){m, site, true}));
  memcpy(mscrt_mailbox_slot(b, number, m->depth, m->bytes), src, (size_t)m->bytes);
  mscrt_local_count(&b->sent);
  return NULL;
}

mscrt_status *mscrt_local_receive(struct mscrt_comm *c, const mscrt_channel *m, void *dst, const mscrt_site *site) {
  mscrt_mailbox *b = mailbox_of(c, c->o.rank, m);
  uint32_t number = atomic_load(&b->taken.count);
  atomic_store_explicit(&c->segment[c->o.rank].control->step, site->step, memory_order_relaxed);
  MSCRT_CHECK(mscrt_local_wait(c, &b->sent, number + 1, find_lost_peer, &(passing){m, site, false}));
  memcpy(dst, mscrt_mailbox_slot(b, number, m->depth, m->bytes), (size_t)m->bytes);
  mscrt_local_count(&b->taken);
  return NULL;
}
