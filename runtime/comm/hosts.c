/* hosts.c: a collective's duplexes with other ranks in; their bytes sent and received, and the members of this host
 * met, or a report that names the rank that is lost, out. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/comm/hosts.h"

#define MAGIC        0x6e61656c
#define LAST_DATA_MS 100
#define VERDICT_NS   ((int64_t)1000000000) /* to hear why a connection has ended */
/* A rank that cannot tell which rank keeps the others waiting waits longer before it reports one, so that a rank that
 * can tell reports first: LATER_MS longer if it waits for another host, or for several ranks; LATEST_MS longer if it
 * waits for a rank of its own host that itself waits for another host. */
#define LATER_MS  500
#define LATEST_MS 1000

mscrt_status *mscrt_reserve(mscrt_room *r, size_t bytes) {
  if (bytes <= r->bytes) return NULL;
  free(r->at);
  *r = (mscrt_room){malloc(bytes), bytes};
  if (r->at) return NULL;
  r->bytes = 0;
  return mscrt_fail(MSCRT_NO_MEMORY, "out of memory for %zu bytes that come from other ranks", bytes);
}

uint8_t *mscrt_arena_here(const mscrt_tcp *c, int64_t rank) {
  return rank == c->m.rank ? c->arena : mscrt_local_arena(c->local, c->place[rank]);
}

/* ---- duplexes ---- */

mscrt_duplex *mscrt_add_duplex(const mscrt_collective_run *r, mscrt_duplexes *l, int rank, mscrt_span *out,
                               mscrt_span *in) {
  mscrt_duplex *duplex = &l->duplex[l->num++];
  *duplex = (mscrt_duplex){.rank = rank, .fd = r->c->fd[rank], .out = out, .in = in};
  return duplex;
}

void mscrt_add_out(mscrt_duplex *l, void *at, uint64_t bytes) {
  if (!bytes) return;
  l->out[l->num_out++] = (mscrt_span){at, bytes};
  l->out_bytes += bytes;
}

void mscrt_add_in(mscrt_duplex *l, void *at, uint64_t bytes) {
  if (!bytes) return;
  l->in[l->num_in++] = (mscrt_span){at, bytes};
  l->in_bytes += bytes;
}

void mscrt_set_head(const mscrt_collective_run *r, mscrt_duplex *l) {
  const mscrt_exchange *e = r->e;
  l->own = (mscrt_duplex_head){.magic = MAGIC,
                               .verb = (uint8_t)e->verb,
                               .dtype = (uint8_t)e->dtype,
                               .reduction = (uint8_t)e->reduction,
                               .kind = (uint8_t)r->kind,
                               .number = r->c->number[l->rank]++,
                               .step = r->site->step,
                               .bytes = l->out_bytes,
                               .back = l->in_bytes};
}

static mscrt_status *report(const mscrt_collective_run *r, const char *why) {
  return mscrt_lost_in_collective(r->c->m.rank, r->e, r->site, why);
}

/* Tells the other ranks that this rank finds `culprit` to be lost; returns the status. */
static mscrt_status *blame(const mscrt_collective_run *r, int culprit, const char *why) {
  mscrt_member_blame(&r->c->m, culprit, why);
  return report(r, why);
}

static mscrt_status *report_late(const mscrt_collective_run *r, const mscrt_duplexes *l, uint32_t at) {
  char why[320];
  const mscrt_duplex *duplex = &l->duplex[at];
  snprintf(why, sizeof why, "rank %d is missing (at step %" PRId64 "), waited %d ms", duplex->rank,
           mscrt_step_number(r->c->m.seen_step[duplex->rank]), r->c->o.timeout_ms);
  return blame(r, duplex->rank, why);
}

static mscrt_status *report_other(const mscrt_collective_run *r, const mscrt_duplex *l) {
  char why[320];
  const mscrt_duplex_head *t = &l->theirs;
  if (t->magic != MAGIC || t->verb >= MSC_NUM_VERBS || t->dtype >= MSCRT_NUM_DTYPES)
    snprintf(why, sizeof why, "what rank %d sends is no collective", l->rank);
  else
    snprintf(why, sizeof why,
             "rank %d runs another collective: number %" PRIu64 ", %s of %s, %" PRIu64 " bytes to here in step %" PRId64
             "; here it is number %" PRIu64 " with %" PRIu64 " bytes from there",
             l->rank, t->number, msc_verb_name((msc_verb)t->verb), mscrt_dtype_name((mscrt_dtype)t->dtype), t->bytes,
             mscrt_step_number(t->step), l->own.number, l->in_bytes);
  return blame(r, l->rank, why);
}

/* Reports a connection that has ended, with the reason from the scheduler, which knows it or will soon. */
static mscrt_status *report_closed(const mscrt_collective_run *r, int rank, const char *failure) {
  mscrt_member *m = &r->c->m;
  int64_t end = mscrt_now_ns() + VERDICT_NS;
  char why[320];
  int culprit;
  for (uint64_t drained; mscrt_now_ns() < end;) {
    if (mscrt_member_lost(m, &culprit, why)) return report(r, why);
    if (mscrt_member_is_over(m, rank, why)) return blame(r, rank, why);
    poll(&(struct pollfd){.fd = m->wake, .events = POLLIN}, 1, 100);
    if (read(m->wake, &drained, sizeof drained) != sizeof drained) {} /* it was not readable */
  }
  snprintf(why, sizeof why, "the connection with rank %d has ended (at step %" PRId64 ")%s%s", rank,
           mscrt_step_number(m->seen_step[rank]), *failure ? ": " : "", failure);
  return blame(r, rank, why);
}

static void note_steps(const mscrt_collective_run *r, const mscrt_duplexes *l) {
  for (uint32_t i = 0; i < l->num; i++)
    if (l->duplex[i].head_got == sizeof l->duplex[i].theirs &&
        l->duplex[i].theirs.step > r->c->m.seen_step[l->duplex[i].rank])
      mscrt_member_note(&r->c->m, l->duplex[i].rank, l->duplex[i].theirs.step);
}

static mscrt_status *move_duplexes(const mscrt_collective_run *r, mscrt_duplexes *l) {
  char why[320];
  int culprit;
  bool later = r->c->o.shares;
  uint32_t at = 0;
  uint64_t drained;
  l->wake = r->c->m.wake, l->timeout_ms = r->c->o.timeout_ms, l->polled = r->c->polled;
  if (later) l->timeout_ms += LATER_MS;
  for (;;) {
    const char *failure = "";
    mscrt_fabric *f = r->c->fabric;
    mscrt_duplexes_end end = f ? mscrt_fabric_move(f, l, &at, &failure) : mscrt_duplexes_move(l, &at);
    note_steps(r, l);
    switch (end) {
      case MSCRT_DUPLEXES_DONE: return NULL;
      case MSCRT_DUPLEXES_LATE:
        if (mscrt_member_lost(&r->c->m, &culprit, why)) return report(r, why);
        if (later || mscrt_one_is_late(l)) return report_late(r, l, at);
        later = true, l->timeout_ms = LATER_MS; /* a rank that waits for only one other rank reports first */
        break;
      case MSCRT_DUPLEXES_CLOSED: return report_closed(r, l->duplex[at].rank, failure);
      case MSCRT_DUPLEXES_DIFFER: return report_other(r, &l->duplex[at]);
      case MSCRT_DUPLEXES_WOKEN:
        if (read(l->wake, &drained, sizeof drained) != sizeof drained) {} /* another thread was faster */
        /* data that the lost rank has sent before, and data of the others, may still arrive */
        if (mscrt_member_lost(&r->c->m, &culprit, why)) later = true, l->timeout_ms = LAST_DATA_MS;
    }
  }
}

mscrt_status *mscrt_move_duplexes(const mscrt_collective_run *r, mscrt_duplexes *l) {
  if (r->c->local) mscrt_local_set_elsewhere(r->c->local, true);
  mscrt_status *s = move_duplexes(r, l);
  if (r->c->local) mscrt_local_set_elsewhere(r->c->local, false);
  return s;
}

/* ---- members of this host ---- */

typedef struct {
  const mscrt_collective_run *r;
  int64_t begin_ns;
} host_meeting;

/* Returns the number in `local` of a member of this host that has not arrived; -1: all have. Unless also_elsewhere,
 * members that wait for ranks of other hosts are left out: they report those ranks first. */
static int find_missing(const mscrt_collective_run *r, bool also_elsewhere) {
  const mscrt_tcp *c = r->c;
  for (int i = 0; i < r->here.group.num; i++) {
    int at = r->here.group.member[i];
    if (c->rank_at[at] != c->m.rank && !mscrt_local_has_arrived(c->local, &r->here, at) &&
        (also_elsewhere || !mscrt_local_is_elsewhere(c->local, at)))
      return at;
  }
  return -1;
}

static mscrt_status *look_for_loss(const mscrt_comm *local, const void *of, bool late, mscrt_loss *loss) {
  const host_meeting *k = of;
  const mscrt_collective_run *r = k->r;
  mscrt_tcp *c = r->c;
  int culprit, missing = -1;
  loss->culprit = local->o.rank;
  if (mscrt_member_lost(&c->m, &culprit, loss->why)) return report(r, loss->why);
  for (int i = 0; i < r->here.group.num; i++) {
    int at = r->here.group.member[i];
    if (at == local->o.rank || mscrt_local_has_arrived(local, &r->here, at)) continue;
    if (!mscrt_local_is_lost(local, at, loss)) continue;
    mscrt_member_note(&c->m, c->rank_at[at], mscrt_local_step(local, at));
    return report_closed(r, c->rank_at[at], "");
  }
  if (late) missing = find_missing(r, mscrt_now_ns() - k->begin_ns > (int64_t)(c->o.timeout_ms + LATEST_MS) * 1000000);
  if (missing < 0) return NULL;
  int rank = c->rank_at[missing];
  mscrt_member_note(&c->m, rank, mscrt_local_step(local, missing));
  snprintf(loss->why, sizeof loss->why, "rank %d is missing (at step %" PRId64 "), waited %d ms", rank,
           mscrt_step_number(c->m.seen_step[rank]), c->o.timeout_ms);
  return blame(r, rank, loss->why);
}

mscrt_status *mscrt_meet_here(const mscrt_collective_run *r) {
  return r->here.group.num > 1
             ? mscrt_local_meet(r->c->local, &r->here, look_for_loss, &(host_meeting){r, mscrt_now_ns()})
             : NULL;
}
