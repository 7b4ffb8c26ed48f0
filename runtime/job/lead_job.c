/* lead_job.c: mscrt_lead, which lets ranks meet through a process that is none of them, and mscrt_ask_rank, for those
 * that do not know which rank they are (see comm/rendezvous_scheduler.c). */
#include <string.h>

#include "runtime/comm/rendezvous_scheduler.h"

#define TIMEOUT_MS 300000
#define SILENCE_MS 30000

static mscrt_options options_given(const mscrt_options *o) {
  mscrt_options given = {0};
  memcpy(&given, o, o->struct_size < sizeof given ? o->struct_size : sizeof given);
  if (given.timeout_ms <= 0) given.timeout_ms = TIMEOUT_MS;
  return given;
}

static void log_of_asking(void *user, const char *text) {
  const mscrt_options *o = user;
  o->log(o->log_user, MSCRT_LOG_WARNING, text);
}

mscrt_status *mscrt_ask_rank(const mscrt_options *options, int *out_rank) {
  mscrt_options given = options_given(options);
  if (given.ranks < 1 || !given.address)
    return mscrt_fail(MSCRT_ARGUMENT, "to ask for a rank needs the number of ranks and an address");
  mscrt_comm_options o = {.rank = -1,
                          .ranks = given.ranks,
                          .address = given.address,
                          .meet_ms = given.meet_ms > 0 ? given.meet_ms : given.timeout_ms,
                          .token = given.token,
                          .led = given.led,
                          .log = given.log ? log_of_asking : NULL,
                          .log_user = &given};
  return mscrt_ask_leader(&o, out_rank);
}

mscrt_status *mscrt_lead(const mscrt_options *options) {
  mscrt_options given = options_given(options);
  mscrt_key key;
  mscrt_scheduler *scheduler = NULL;
  if (given.ranks < 1 || !given.address)
    return mscrt_fail(MSCRT_ARGUMENT, "to lead a job needs its number of ranks and an address");
  mscrt_comm_options o = {.ranks = given.ranks,
                          .address = given.address,
                          .meet_ms = given.timeout_ms,
                          .silence_ms = given.silence_ms > 0 ? given.silence_ms : SILENCE_MS};
  o.recovers = given.recover, o.led = true;
  MSCRT_CHECK(mscrt_key_open(given.token, &key));
  mscrt_status *s = NULL;
  bool lost;
  do { /* after a loss those that are left, and others in the places of the lost, join anew */
    mscrt_status_free(s);
    lost = false;
    s = mscrt_scheduler_start(&o, &key, &scheduler);
    if (!s) s = mscrt_scheduler_wait(scheduler, &lost);
  } while (lost && given.recover);
  mscrt_key_close(&key);
  return s;
}
