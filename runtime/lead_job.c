/* lead_job.c: mscrt_lead, which lets ranks meet through a process that is none of them (see comm/scheduler.c). */
#include <string.h>

#include "runtime/comm/scheduler.h"

#define TIMEOUT_MS 300000
#define SILENCE_MS 30000

mscrt_status *mscrt_lead(const mscrt_options *options) {
  mscrt_options given = {0};
  mscrt_key key;
  mscrt_scheduler *scheduler = NULL;
  memcpy(&given, options, options->struct_size < sizeof given ? options->struct_size : sizeof given);
  if (given.ranks < 1 || !given.address)
    return mscrt_fail(MSCRT_ARGUMENT, "to lead a job needs its number of ranks and an address");
  mscrt_comm_options o = {.ranks = given.ranks,
                          .address = given.address,
                          .meet_ms = given.timeout_ms > 0 ? given.timeout_ms : TIMEOUT_MS,
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
