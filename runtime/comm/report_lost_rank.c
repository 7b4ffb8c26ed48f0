/* report_lost_rank.c: what a rank reports when a collective or a message cannot end: rank, step, op, place, group,
 * reason.
 *
 * Who notices that a rank is lost: between processes of one host every rank that waits (mscrt_local_is_lost); over TCP
 * the scheduler (rendezvous_scheduler.c, `exchange_heartbeats` and `lose_guest`), whose verdict ranks read by
 * mscrt_member_lost; a GPU that waits for another, runtime/cuda/watch.c. */
#include <stdio.h>

#include "runtime/comm/comm.h"

static void print_members(const mscrt_members *g, char *out, size_t room) {
  size_t n = 0;
  for (int i = 0; i < g->num && n + 16 < room; i++)
    n += (size_t)snprintf(out + n, room - n, "%s%d", i ? "," : "", g->member[i]);
  if (!g->num) out[0] = 0;
}

mscrt_status *mscrt_lost_in_collective(int rank, const mscrt_exchange *e, const mscrt_site *site, const char *why) {
  char group[160];
  print_members(&e->group, group, sizeof group);
  return mscrt_fail(MSCRT_PEER, "rank %d: step %" PRId64 ": %s %s%s%s (ranks %s): %s", rank,
                    mscrt_step_number(site->step), msc_verb_name(e->verb), site->name ? site->name : "",
                    site->loc ? " at " : "", site->loc ? site->loc : "", group, why);
}

mscrt_status *mscrt_lost_in_message(int rank, int peer, bool sends, const mscrt_site *site, const char *why) {
  return mscrt_fail(MSCRT_PEER, "rank %d: step %" PRId64 ": message %s%s%s %s rank %d: %s", rank,
                    mscrt_step_number(site->step), site->name ? site->name : "", site->loc ? " at " : "",
                    site->loc ? site->loc : "", sends ? "to" : "from", peer, why);
}
