/* lead_job.c: mscrt_lead, with which a process that is no rank leads a job, and mscrt_ask_rank, with which a process
 * asks which rank it is to be (see comm/rendezvous_scheduler.c). */
#include <string.h>

#include "runtime/comm/rendezvous_scheduler.h"

#define TIMEOUT_MS 300000
#define SILENCE_MS 30000

static mscrt_options complete_options(const mscrt_options *o) {
  mscrt_options options_read = {0};
  memcpy(&options_read, o, o->struct_size < sizeof options_read ? o->struct_size : sizeof options_read);
  if (options_read.timeout_ms <= 0) options_read.timeout_ms = TIMEOUT_MS;
  return options_read;
}

static void log_of_asking(void *user, const char *text) {
  const mscrt_options *o = user;
  o->log(o->log_user, MSCRT_LOG_WARNING, text);
}

mscrt_status *mscrt_ask_rank(const mscrt_options *options, int *out_rank) {
  MSCRT_NEEDS(options && out_rank);
  mscrt_options options_read = complete_options(options);
  if (options_read.ranks < 1 || !options_read.address)
    return mscrt_fail(MSCRT_ARGUMENT, "to ask for a rank needs the number of ranks and an address");
  mscrt_comm_options o = {.rank = -1,
                          .ranks = options_read.ranks,
                          .address = options_read.address,
                          .meet_ms = options_read.meet_ms > 0 ? options_read.meet_ms : options_read.timeout_ms,
                          .token = options_read.token,
                          .led = options_read.led,
                          .log = options_read.log ? log_of_asking : NULL,
                          .log_user = &options_read};
  return mscrt_ask_leader(&o, out_rank);
}

mscrt_status *mscrt_lead(const mscrt_options *options) {
  MSCRT_NEEDS(options);
  mscrt_options options_read = complete_options(options);
  mscrt_key key;
  mscrt_scheduler *scheduler = NULL;
  if (options_read.ranks < 1 || !options_read.address)
    return mscrt_fail(MSCRT_ARGUMENT, "to lead a job needs its number of ranks and an address");
  mscrt_comm_options o = {.ranks = options_read.ranks,
                          .address = options_read.address,
                          .meet_ms = options_read.timeout_ms,
                          .silence_ms = options_read.silence_ms > 0 ? options_read.silence_ms : SILENCE_MS};
  o.recovers = options_read.recover, o.led = true;
  MSCRT_CHECK(mscrt_key_open(options_read.token, &key));
  mscrt_status *s = NULL;
  bool lost;
  do { /* after a loss the ranks that are left join again, with new processes in the places of lost ones */
    mscrt_status_free(s);
    lost = false;
    s = mscrt_scheduler_start(&o, &key, &scheduler);
    if (!s) s = mscrt_scheduler_wait(scheduler, &lost);
  } while (lost && options_read.recover);
  mscrt_key_close(&key);
  return s;
}
